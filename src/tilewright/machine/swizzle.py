"""Where does a shared-memory byte stand after swizzling?

All swizzle modes of sm_90 are one XOR on the absolute shared-memory byte address: bits [4, 4+B) are XORed with bits
[7, 7+B), for B = 1, 2, 3 at spans of 32, 64 and 128 bytes (PTX ISA 5.5.7 "Swizzling Modes", and 9.7.15.5.1.2 for
wgmma's matrix descriptors). Each is an involution, linear over GF(2), and keeps 16-byte chunks whole.

Not handled: the atomicities of sm_100 (32B, 32B with 8B flip, 64B) and the 96B mode.
Checked by: `tests/machine/test_copy_engine.py`, against bytes that an H200's copy engine left in shared memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import Swizzle

SPAN_BYTES: dict[Swizzle, int] = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
"""Widest inner row that a mode takes, and the least distance between two rows of a box."""

_BITS: dict[Swizzle, int] = {"none": 0, "32B": 1, "64B": 2, "128B": 3}


def period_bytes(mode: Swizzle) -> int:
    """Distance after which the pattern repeats; 16 without a swizzle (every chunk alike)."""
    return 16 if mode == "none" else 128 << _BITS[mode]


def swizzled(addresses: NDArray[np.int64], mode: Swizzle) -> NDArray[np.int64]:
    """Where the bytes logically at absolute shared addresses `addresses` physically stand."""
    bits = _BITS[mode]
    if bits == 0:
        return addresses
    return addresses ^ (((addresses >> 7) & ((1 << bits) - 1)) << 4)
