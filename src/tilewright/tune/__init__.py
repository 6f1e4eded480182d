"""Search over legal kernels, with a cost model. Floor 8: imports everything below `report` and `driver`."""
