"""`tilewright banks`: what accesses of shared memory cost."""
