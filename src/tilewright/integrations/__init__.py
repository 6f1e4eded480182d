"""Tilewright from inside other tools: Triton, PyTorch, pytest, notebooks.

Floor 10: imports everything below. With `runtime` the only package that may import torch.
"""
