"""Where does a shared-memory byte stand after swizzling?

Every swizzle mode is an XOR on the absolute shared-memory byte address: B bits from bit 7 on are XORed onto as many
bits from bit M on (PTX ISA 5.5.7 "Swizzling Modes", and 9.7.15.5.1.2 for wgmma's matrix descriptors):

| mode                  | B, M                  | kept whole | period |
| 32B, 64B, 128B        | 1, 2, 3 bits, M = 4   | 16 bytes   | 256, 512, 1024 |
| 128B_atom_32B         | 2 bits, M = 5         | 32 bytes   | 512 |
| 128B_atom_32B_flip_8B | the same; 1 bit, M = 3 | 8 bytes   | 512 |
| 128B_atom_64B         | 1 bit, M = 6          | 64 bytes   | 256 |

Each is an involution, linear over GF(2). The atomicities are of sm_100. Not handled: the 96B mode (sm_103a).
Checked by: `tests/machine/copy/test_copy_engine.py`, for sm_90's against bytes that an H200's copy engine left in
shared memory, and tests/machine/copy/test_swizzle.py. The flip is the ISA's words ("8-byte halves of alternate lines"),
unmeasured.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import Swizzle

SPAN_BYTES: dict[Swizzle, int] = {
    "none": 0, "32B": 32, "64B": 64, "128B": 128, "128B_atom_32B": 128, "128B_atom_32B_flip_8B": 128,
    "128B_atom_64B": 128,
}  # fmt: skip
"""Widest inner row that a mode takes, and the least distance between two rows of a box."""

_MOVES: dict[Swizzle, tuple[tuple[int, int], ...]] = {
    "none": (),
    "32B": ((1, 4),),
    "64B": ((2, 4),),
    "128B": ((3, 4),),
    "128B_atom_32B": ((2, 5),),
    "128B_atom_32B_flip_8B": ((2, 5), (1, 3)),
    "128B_atom_64B": ((1, 6),),
}
"""How many bits, from bit 7 on, are XORed onto which."""


def period_bytes(mode: Swizzle) -> int:
    """Distance after which the pattern repeats; 16 without a swizzle (every chunk alike)."""
    return 16 if mode == "none" else 128 << max(bits for bits, _ in _MOVES[mode])


def swizzled(addresses: NDArray[np.int64], mode: Swizzle) -> NDArray[np.int64]:
    """Where the bytes logically at absolute shared addresses `addresses` physically stand."""
    found = addresses
    for bits, onto in _MOVES[mode]:
        found = found ^ (((addresses >> 7) & ((1 << bits) - 1)) << onto)
    return found
