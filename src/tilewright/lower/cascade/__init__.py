"""Kernels of programs of products, folds and products of them."""
