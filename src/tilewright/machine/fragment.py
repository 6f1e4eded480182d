"""Which thread holds which element of a matrix: the register fragments of wgmma, ldmatrix and stmatrix.

Theory: PTX ISA 9.7.15.5.1.1 "Register Fragments" of wgmma (figures for D and A) and 9.7.14.5.15 "ldmatrix", .16
"stmatrix". With thread t of a warpgroup, w = t / 32, l = t % 32, value v of a thread stands at
D, and A of 16-bit elements: row 16w + l/4 + 8((v/2) % 2), column 2(l % 4) + v % 2 + 8(v/4);
A of 8-bit elements: row 16w + l/4 + 8((v/4) % 2), column 4(l % 4) + v % 4 + 16(v/8);
A of 32-bit elements: row 16w + l/4 + 8(v % 2), column l % 4 + 4(v/2).
Values narrower than 32 bits are packed into registers lowest first.

Not handled: fragments of mma.sync and wmma, 8x16 and 16x16 shapes of ldmatrix (sm_100).
Checked by: `tests/machine/test_tensor_core.py` (bijections, and the figures' corners).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.machine.engine_fault import EngineFault

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


def matrix_rows(count: int) -> NDArray[np.int64]:
    """Of ldmatrix / stmatrix `.x{count}`: the lane that supplies the address of row r of matrix i. [count, 8]

    A row is 16 bytes, and its address a multiple of 16.
    """
    if count not in (1, 2, 4):
        raise EngineFault("MF007", "matrix-count", f"ldmatrix and stmatrix take 1, 2 or 4 matrices, not {count}")
    return np.arange(count * 8, dtype=np.int64).reshape(count, 8)


def matrix_coordinates(transposed: bool) -> Coordinates:
    """Of one 8x8 matrix of 16-bit elements: rows and columns, each [32, 2], of lane l's two elements, low half first.

    transposed: with `.trans`; rows are still the rows whose addresses lanes supply.
    """
    lane, value = np.meshgrid(np.arange(32, dtype=np.int64), np.arange(2, dtype=np.int64), indexing="ij")
    major, minor = lane // 4, 2 * (lane % 4) + value
    return (minor, major) if transposed else (major, minor)


def _pairs(values: int) -> Coordinates:
    thread, value = _thread_and_value(values)
    lane = thread % 32
    row = 16 * (thread // 32) + lane // 4 + 8 * (value // 2 % 2)
    return row, 2 * (lane % 4) + value % 2 + 8 * (value // 4)


def _thread_and_value(values: int) -> Coordinates:
    thread, value = np.meshgrid(np.arange(128, dtype=np.int64), np.arange(values, dtype=np.int64), indexing="ij")
    return thread, value
