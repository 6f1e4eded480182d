"""Which thread holds which element of a matrix: the register fragments of wgmma, ldmatrix and stmatrix.

Theory: PTX ISA 9.7.15.5.1.1 "Register Fragments" of wgmma (figures for D and A) and 9.7.14.5.15 "ldmatrix", .16
"stmatrix". With thread t of a warpgroup, w = t / 32, l = t % 32, value v of a thread stands at
D, and A of 16-bit elements: row 16w + l/4 + 8((v/2) % 2), column 2(l % 4) + v % 2 + 8(v/4);
A of 8-bit elements: row 16w + l/4 + 8((v/4) % 2), column 4(l % 4) + v % 4 + 16(v/8);
A of 32-bit elements: row 16w + l/4 + 8(v % 2), column l % 4 + 4(v/2).
Values narrower than 32 bits are packed into registers lowest first.

ldmatrix and stmatrix move rows of 16 bytes. Lane l holds of an 8x8 matrix of 16-bit elements row l/4, elements 2(l % 4)
and the next; transposed, those rows of column l/4. Of 8-bit elements, always transposed: byte b of register r of a
16x16 matrix is row 4(l % 4) + b % 2 + 2r, column l/4 + 8(b/2); of a 16x8 matrix (8 rows of 16) row 2(l % 4) + b % 2,
column l/4 + 8(b/2). The 8-bit fragments follow the figures of the ISA as CUTLASS's copy atoms state them.

Not handled: fragments of mma.sync (`mma_fragment`), of wmma, and of 4- and 6-bit elements.
Checked by: `tests/machine/tensor_core/test_tensor_core.py` (bijections, and the figures' corners).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.base.value import dataclass
from tilewright.machine.core.engine_fault import EngineFault

MatrixShape = Literal["m8n8", "m16n16", "m16n8"]
Coordinates = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Row and column of each value: index 0 is the thread (or lane), index 1 the value."""


@lru_cache(maxsize=64)
def accumulator_coordinates(n: int) -> Coordinates:
    """Of wgmma's D, 64 x n: rows and columns, each [128, n / 2]. `rows[t, v]` is value v of thread t of the warpgroup.

    With a 16-bit D, values 2r and 2r + 1 are the low and high half of register r.
    """
    if n % 8 or not 8 <= n <= 256:
        raise EngineFault("MF007", "wgmma-shape", f"wgmma takes N of 8 to 256 in steps of 8, not {n}")
    return _pairs(n // 2)


def operand_coordinates(element_bytes: int) -> Coordinates:
    """Of wgmma's A in registers, 64 rows of 32 bytes: rows and k, each [128, values of a thread] (16, 8 or 4)."""
    thread, value = _thread_and_value(16 // element_bytes)
    lane = thread % 32
    row = 16 * (thread // 32) + lane // 4
    match element_bytes:
        case 1:
            return row + 8 * (value // 4 % 2), 4 * (lane % 4) + value % 4 + 16 * (value // 8)
        case 2:
            return _pairs(8)
        case 4:
            return row + 8 * (value % 2), lane % 4 + 4 * (value // 2)
        case _:
            raise EngineFault("MF007", "wgmma-shape", f"wgmma takes elements of 1, 2 or 4 bytes, not {element_bytes}")


@dataclass(frozen=True, slots=True, eq=False)
class MatrixFragment:
    """How `ldmatrix` and `stmatrix` spread matrices over a warp. lines: how many rows of 16 bytes there are; lane i
    supplies the address of line i. places: for each register, lane and byte of the register, the byte among all lines
    [registers, 32, 4]."""

    lines: int
    places: NDArray[np.int64]


@lru_cache(maxsize=32)
def matrix_fragment(shape: MatrixShape, count: int, transposed: bool) -> MatrixFragment:
    """Of `count` matrices of a shape: `m8n8` of 16-bit, `m16n16` and `m16n8` of 8-bit elements (both transposed)."""
    if count not in (1, 2, 4) or (shape == "m16n16" and count == 4):
        raise EngineFault("MF007", "matrix-count", f"ldmatrix and stmatrix do not take {count} matrices {shape}")
    if shape != "m8n8" and not transposed:
        raise EngineFault("MF007", "matrix-shape", f"{shape} is only there transposed")
    lines, registers = (16, 2) if shape == "m16n16" else (8, 1)
    register, lane, byte = np.meshgrid(
        np.arange(registers, dtype=np.int64), np.arange(32, dtype=np.int64), np.arange(4, dtype=np.int64), indexing="ij"
    )
    major, minor = lane // 4, lane % 4
    match shape, transposed:
        case "m8n8", False:
            row, column = major, 4 * minor + byte
        case "m8n8", True:
            row, column = 2 * minor + byte // 2, 2 * major + byte % 2
        case "m16n16", _:
            row, column = 4 * minor + byte % 2 + 2 * register, major + 8 * (byte // 2)
        case _:
            row, column = 2 * minor + byte % 2, major + 8 * (byte // 2)
    first = 16 * lines * np.arange(count, dtype=np.int64)[:, None, None, None]
    return MatrixFragment(lines * count, (first + 16 * row + column).reshape(count * registers, 32, 4))


def _pairs(values: int) -> Coordinates:
    thread, value = _thread_and_value(values)
    lane = thread % 32
    row = 16 * (thread // 32) + lane // 4 + 8 * (value // 2 % 2)
    return row, 2 * (lane % 4) + value % 2 + 8 * (value // 4)


def _thread_and_value(values: int) -> Coordinates:
    thread, value = np.meshgrid(np.arange(128, dtype=np.int64), np.arange(values, dtype=np.int64), indexing="ij")
    return thread, value
