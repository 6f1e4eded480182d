"""Text of the `ac` dialect in, kernels and the lines of their operations out."""
