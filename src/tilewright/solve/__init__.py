"""Solvers behind plain questions; the only package that may import one. Every witness is re-evaluated in plain Python."""
