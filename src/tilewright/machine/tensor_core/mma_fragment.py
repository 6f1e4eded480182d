"""Which lane of a warp holds which element of a `mma.sync` matrix, and in which bits of which register?

Theory: PTX ISA, Matrix Fragments for mma. With g = lane / 4, t = lane % 4 and e elements a register (more than one of
narrow types, lowest first, one of f64, whose registers have 64 bits), all shapes follow one rule:
A (m x k): register r + (m / 8) s, element j stands at row g + 8r, column 4es + et + j;
B (k x n): register s, element j stands at row 4es + et + j, column g;
C and D (m x n): value 2r + i stands at row g + 8r, column 2t + i; 16-bit values are packed in pairs.

Not handled: m8n8k4 of f16 (whose fragments quad-pairs hold), sparse operands and their metadata.
Checked by: tests/machine/instruction/tensor_core/test_mma.py (the ISA's formulas for each shape, and products).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.machine.core.lanes import WARP_SIZE

Coordinates = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Row and column, each [registers, lane, elements of a register]."""


@lru_cache(maxsize=128)
def a_coordinates(m: int, k: int, elements: int) -> Coordinates:
    """Of A: m 8 or 16; elements: how many one register holds."""
    groups = m // 8
    register, lane, element = _grid(groups * k // (4 * elements), elements)
    row = lane // 4 + 8 * (register % groups)
    return row, 4 * elements * (register // groups) + elements * (lane % 4) + element


@lru_cache(maxsize=128)
def b_coordinates(k: int, elements: int) -> Coordinates:
    """Of B, k x 8."""
    register, lane, element = _grid(k // (4 * elements), elements)
    return 4 * elements * register + elements * (lane % 4) + element, lane // 4


@lru_cache(maxsize=128)
def accumulator_coordinates(m: int, elements: int) -> Coordinates:
    """Of C and D, m x 8: elements 2 where 16-bit values are packed, else 1."""
    register, lane, element = _grid(m // 4 // elements, elements)
    value = register * elements + element
    return lane // 4 + 8 * (value // 2), 2 * (lane % 4) + value % 2


def _grid(registers: int, elements: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    register, lane, element = np.meshgrid(
        np.arange(registers, dtype=np.int64),
        np.arange(WARP_SIZE, dtype=np.int64),
        np.arange(elements, dtype=np.int64),
        indexing="ij",
    )
    return register, lane, element
