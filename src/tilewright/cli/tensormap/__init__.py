"""`tilewright tensormap`: whether a tensor map is legal, and the nearest that is."""
