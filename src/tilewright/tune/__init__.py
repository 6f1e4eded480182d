"""Search over legal kernels: which are worth timing, and which of those that were timed is taken. Floor 8: imports
everything below `report` and `driver`."""
