"""Tilewright from inside other tools: Triton, PyTorch, pytest, notebooks. The only package besides `runtime` that may import torch."""
