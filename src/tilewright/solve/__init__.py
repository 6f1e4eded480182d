"""Solvers behind plain questions; the only package that may import one.

Floor 3: imports `base`, `targets` and `layout`. Every witness is evaluated again in plain Python.
"""
