"""Matrix products written in Triton: one with pointers, one persistent with tensor descriptors (bulk copies).

Both are tuned by `bench.triton_tuning`. PRECISE: sums of 8-bit operands leave the tensor core every 128 elements.
Operands of any orientation; the descriptors need what tensor maps need (rows a multiple of 16 bytes apart, bases at
multiples of 16). This module imports Triton; import it where that is installed.
Source: Triton's language reference (`tl.make_tensor_descriptor`, `tl.range`).
"""

# pyright: basic
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _place(tile, rows, columns, GROUP: tl.constexpr):
    """The tile's row and column in an order that walks GROUP rows of tiles before the next column's."""
    band = tile // (GROUP * columns)
    height = tl.minimum(rows - band * GROUP, GROUP)
    inside = tile - band * GROUP * columns
    return band * GROUP + inside % height, inside // height


@triton.jit
def by_pointers(
    a, b, c, a_scale, b_scale, m, n, k, a_row, a_column, b_row, b_column, c_row, c_column,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, EVEN_K: tl.constexpr,
    SCALING: tl.constexpr, PRECISE: tl.constexpr = False,
):  # fmt: skip
    """One tile a program; rows and columns past the end are read again from the beginning and never stored."""
    i, j = _place(tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN), GROUP)
    rows = i * BM + tl.arange(0, BM)
    columns = j * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a_tile = a + (rows % m).to(tl.int64)[:, None] * a_row + depth[None, :] * a_column
    b_tile = b + depth[:, None] * b_row + (columns % n).to(tl.int64)[None, :] * b_column
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(k, BK)):
        if EVEN_K:
            x = tl.load(a_tile)
            y = tl.load(b_tile)
        else:
            left = k - step * BK
            x = tl.load(a_tile, mask=depth[None, :] < left, other=0.0)
            y = tl.load(b_tile, mask=depth[:, None] < left, other=0.0)
        if SCALING == 3:
            p = tl.dot(x, y)
            blocks = tl.cdiv(k, 128)
            of_rows = tl.load(a_scale + (rows % m) * blocks + step * BK // 128)
            of_columns = tl.load(b_scale + (columns % n) // 128 * blocks + step * BK // 128)
            total += p * of_rows[:, None] * of_columns[None, :]
        elif PRECISE:
            total = tl.dot(x, y, total, max_num_imprecise_acc=128)
        else:
            total = tl.dot(x, y, total)
        a_tile += BK * a_column
        b_tile += BK * b_row
    if SCALING == 1:
        total *= tl.load(a_scale) * tl.load(b_scale)
    if SCALING == 2:
        total *= tl.load(a_scale + rows % m)[:, None] * tl.load(b_scale + columns % n)[None, :]
    c_tile = c + rows.to(tl.int64)[:, None] * c_row + columns[None, :] * c_column
    tl.store(c_tile, total.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def by_descriptors(
    a, b, c, a_scale, b_scale, m, n, k, PROGRAMS,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, TRANSPOSED: tl.constexpr,
    SPECIALIZED: tl.constexpr, HALVES: tl.constexpr, SCALING: tl.constexpr,
    PRECISE: tl.constexpr = False,
):  # fmt: skip
    """Persistent: as many programs as multiprocessors, each over its share of the tiles. HALVES: the tile is stored in
    two halves, which takes half the staging memory."""
    rows, columns = tl.cdiv(m, BM), tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), rows * columns, PROGRAMS, flatten=not SPECIALIZED,
                         warp_specialize=SPECIALIZED):  # fmt: skip
        i, j = _place(tile, rows, columns, GROUP)
        total = tl.zeros((BM, BN), tl.float32)
        for step in range(tl.cdiv(k, BK)):
            x = a.load([i * BM, step * BK])
            if TRANSPOSED:  # noqa: SIM108 (the two are of different shapes before)
                y = b.load([j * BN, step * BK]).T
            else:
                y = b.load([step * BK, j * BN])
            if SCALING == 3:
                blocks = tl.cdiv(k, 128)
                row = i * BM + tl.arange(0, BM)
                column = j * BN + tl.arange(0, BN)
                of_rows = tl.load(a_scale + (row % m) * blocks + step * BK // 128)
                of_columns = tl.load(b_scale + (column % n) // 128 * blocks + step * BK // 128)
                total += tl.dot(x, y) * of_rows[:, None] * of_columns[None, :]
            elif PRECISE:
                total = tl.dot(x, y, total, max_num_imprecise_acc=128)
            else:
                total = tl.dot(x, y, total)
        if SCALING == 1:
            total *= tl.load(a_scale) * tl.load(b_scale)
        if SCALING == 2:
            row = i * BM + tl.arange(0, BM)
            column = j * BN + tl.arange(0, BN)
            total *= tl.load(a_scale + row % m)[:, None] * tl.load(b_scale + column % n)[None, :]
        if HALVES:
            left, right = tl.split(tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1)))
            c.store([i * BM, j * BN], left.to(c.dtype))
            c.store([i * BM, j * BN + BN // 2], right.to(c.dtype))
        else:
            c.store([i * BM, j * BN], total.to(c.dtype))


@triton.jit
def grouped_by_descriptors(
    a, b, c, offsets, groups, n, k, c_row, PROGRAMS,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Grouped product: rows offsets[g-1]..offsets[g] of a times b[g] (n, k). a, b: descriptors of (rows, k) and
    (groups * n, k); c: a pointer, stored under a mask since a tile may end inside it where the next group begins."""
    columns = tl.cdiv(n, BN)
    first_tile = 0
    first_row = 0
    tile = tl.program_id(0)
    for group in range(groups):
        last_row = tl.load(offsets + group)
        rows = tl.cdiv(last_row - first_row, BM)
        last_tile = first_tile + rows * columns
        while tile < last_tile:
            i, j = _place(tile - first_tile, rows, columns, GROUP)
            row = first_row + i * BM
            total = tl.zeros((BM, BN), tl.float32)
            for step in range(tl.cdiv(k, BK)):
                x = a.load([row, step * BK])
                y = b.load([group * n + j * BN, step * BK])
                total = tl.dot(x, y.T, total)
            lines = row + tl.arange(0, BM)
            places = j * BN + tl.arange(0, BN)
            target = c + lines.to(tl.int64)[:, None] * c_row + places[None, :]
            tl.store(target, total.to(c.dtype.element_ty), mask=(lines[:, None] < last_row) & (places[None, :] < n))
            tile += PROGRAMS
        first_tile = last_tile
        first_row = last_row
