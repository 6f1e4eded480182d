"""How programs without products become kernels: points of the index space, rows, turned tiles."""
