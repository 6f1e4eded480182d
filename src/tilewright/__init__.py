"""Tilewright: a verifying compiler for asynchronous GPU kernels.

Importing this package loads nothing else: no solver, no IR, no CUDA. Each verb is loaded when it is first asked for.
"""

__version__ = "0.1.0"
