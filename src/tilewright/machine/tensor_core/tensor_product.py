"""What does one tcgen05.mma compute, and where do its matrices lie in tensor memory?

Each lane of D holds one row of the CTA's part of D, or a part of one. With r rows of A a CTA (M, or M / 2 of a pair):

| M, CTAs  | lane l holds row            | columns of D        | PTX ISA's layout |
| 128, 1   | l                           | [0, N)              | D                |
| 256, 2   | l                           | [0, N)              | A                |
| 64, 1    | 16 (l / 32) + l % 16 of 32  | [0, N)              | F                |
| 128, 2   | l % 64                      | half l / 64         | B                |
| 64, .ws  | l % 64                      | half l / 64         | E                |
| 32, .ws  | l % 32                      | quarter l / 32      | G                |

D has one 32-bit cell an element, whatever its type. A in tensor memory lies in the same lanes, 8 columns of 32 bits.
Scale factors lie in the lanes of each quarter anew: that of row (or column of B) i, modulo the quarter's share, stands
in lane i % 32 and column i / 32, in the byte that the scale factor id names; those of further blocks of K in the bytes
after it. Source: PTX ISA, tcgen05: Data path layout organization, Block scaling; CUTLASS, mma_traits_sm100_frag.hpp.

Numbers: products of operands are exact in float32; sums are float32 in NumPy's order (float64 and rounded once where
scale factors take part); the hardware's order is not stated. Integer sums wrap at 32 bits, or saturate.
Not handled: sparse operands, `.ashift`, zero-column masks. Checked by: tests/machine/tensor_core/test_tcgen05_mma.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.legal.descriptor.tensor_core_descriptor import InstructionDescriptor
from tilewright.machine.core.event import TensorBlock
from tilewright.machine.core.state import Cta
from tilewright.machine.tensor_core.tensor_memory import LANES, blocks_of, memory_of
from tilewright.machine.tensor_core.tensor_operand import elements_of_rows, load_tile, scale_values

OPERAND_COLUMNS = 8
"""Columns of A in tensor memory: 32 bytes of every lane."""


@dataclass(frozen=True, slots=True, eq=False)
class DataPath:
    """Which part of D each lane holds: its row of the CTA's part, and the first of its `columns` columns.

    rows: rows of A that one CTA supplies; b_rows: columns of B that one CTA supplies.
    """

    lanes: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    columns: int
    rows: int
    b_rows: int


@lru_cache(maxsize=256)
def data_path(m: int, n: int, cta_group: int, weight_stationary: bool, base_lane: int) -> DataPath:
    """The data path of a legal shape. base_lane: lane of D's address, 0, or 16 where M is 64 without `.ws`."""
    lane = np.arange(LANES, dtype=np.int64)
    rows, b_rows = m // cta_group, n // cta_group
    if rows == LANES:
        return DataPath(lane, lane, np.zeros_like(lane), n, rows, b_rows)
    if rows == 64 and cta_group == 1 and not weight_stationary:
        row = np.arange(64, dtype=np.int64)
        return DataPath(32 * (row // 16) + row % 16 + base_lane, row, np.zeros_like(row), n, rows, b_rows)
    parts = LANES // rows
    columns = n // parts
    return DataPath(lane, lane % rows, lane // rows * columns, columns, rows, b_rows)


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """One tcgen05.mma with everything that its text and its operands fix.

    a: a shared-memory descriptor, or an address in tensor memory (`a_in_tensor_memory`); d: column of D; scale_a,
    scale_b: columns of the scale factors (-1: none); scale_vector: scale factors along K; keep: lanes of D that are not
    written, by CTA of the group.
    """

    fields: InstructionDescriptor
    path: DataPath
    d: int
    a: int
    a_in_tensor_memory: bool
    b: int
    accumulate: bool
    input_shift: int = 0
    scale_a: int = -1
    scale_b: int = -1
    scale_vector: int = 1
    keep: tuple[npt.NDArray[np.bool_], ...] = ()

    @property
    def packed(self) -> bool:
        return self.fields.kind in ("mxf4", "mxf4nvf4")


def scale_columns(rows: int) -> int:
    """Columns that the scale factors of `rows` rows take."""
    return -(-rows // 32)


def blocks(product: Product, cta: Cta) -> tuple[tuple[TensorBlock, ...], tuple[TensorBlock, ...]]:
    """What of a CTA's tensor memory the operation reads, and what it writes."""
    path = product.path
    written = blocks_of(cta, path.lanes, product.d, path.columns)
    read: list[TensorBlock] = list(written) if product.accumulate else []
    if product.a_in_tensor_memory:
        read.extend(blocks_of(cta, path.lanes, product.a & 0xFFFF, OPERAND_COLUMNS))
    lanes = np.arange(LANES)
    if product.scale_a >= 0:
        read.extend(blocks_of(cta, lanes, product.scale_a, scale_columns(path.rows)))
        read.extend(blocks_of(cta, lanes, product.scale_b, scale_columns(path.columns)))
    return tuple(read), written


def multiply(product: Product, group: tuple[Cta, ...]) -> None:
    """Perform the operation on the CTAs of the group. Raises EngineFault."""
    fields, path = product.fields, product.path
    b = np.concatenate([
        load_tile(cta.shared.data, product.b, path.b_rows, fields.k, fields.b or "f16", fields.b_major, product.packed)
        for cta in group
    ])  # fmt: skip
    if fields.negate_b:
        b = -b
    for index, cta in enumerate(group):
        words = memory_of(cta).words
        a = _operand_a(product, cta)
        if fields.negate_a:
            a = -a
        part = _scaled(product, words, a, b) if product.scale_a >= 0 else _plain(product, a, b)
        columns = slice(product.d, product.d + path.columns)
        old = words[path.lanes, columns]
        new = _accumulated(product, part, old)
        if product.keep:
            kept = product.keep[index][path.lanes]
            new[kept] = old[kept]
        words[path.lanes, columns] = new


def _operand_a(product: Product, cta: Cta) -> npt.NDArray[np.float32]:
    """A, a row for each row of the CTA, or for each lane of the data path where it is in tensor memory."""
    fields, path = product.fields, product.path
    element = fields.a or "f16"
    if not product.a_in_tensor_memory:
        return load_tile(cta.shared.data, product.a, path.rows, fields.k, element, fields.a_major, product.packed)
    column = product.a & 0xFFFF
    cells = memory_of(cta).words[path.lanes, column : column + OPERAND_COLUMNS]
    return elements_of_rows(np.ascontiguousarray(cells).view(np.uint8), element, product.packed)


def _plain(product: Product, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    """A B, as the lanes of the data path hold it. [lanes, columns]"""
    path = product.path
    whole = a @ b.T
    row = np.arange(path.lanes.size) if product.a_in_tensor_memory else path.row
    if path.columns == product.fields.n and row.size == whole.shape[0]:
        return whole
    return whole[row[:, None], path.first[:, None] + np.arange(path.columns)[None, :]]


def _scaled(
    product: Product, words: npt.NDArray[np.uint32], a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """A B with every block of K scaled, as the lanes of the data path hold it. [lanes, columns]"""
    fields, path = product.fields, product.path
    scale = fields.scale or "ue8m0"
    codes = words.view(np.uint8).reshape(LANES, -1, 4)
    result = np.empty((path.lanes.size, path.columns))
    row = np.arange(path.lanes.size) if product.a_in_tensor_memory else path.row
    block = fields.k // product.scale_vector
    for quarter in range(4):
        here = np.flatnonzero(path.lanes // 32 == quarter)
        which = path.row[here]
        a_codes = codes[32 * quarter + which % 32, product.scale_a + which // 32]
        column = np.arange(path.columns)
        b_codes = codes[32 * quarter + column % 32, product.scale_b + column // 32]
        first = int(path.first[here[0]])
        left = a[row[here]] * _along_k(a_codes, fields.scale_a_id, product.scale_vector, block, scale)
        right = b[first : first + path.columns] * _along_k(
            b_codes, fields.scale_b_id, product.scale_vector, block, scale
        )
        result[here] = left @ right.T
    return result


def _along_k(codes: npt.NDArray[np.uint8], first: int, count: int, block: int, scale: Any) -> npt.NDArray[np.float64]:
    """Scale factors of rows, repeated over the elements of K that each scales. codes: [rows, 4 bytes of a cell]"""
    return np.repeat(scale_values(codes[:, first : first + count], scale), block, axis=1)


def _accumulated(product: Product, part: npt.NDArray[Any], old: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """New cells of D from the product and the old cells."""
    factor = np.float32(2.0**-product.input_shift)
    match product.fields.accumulator:
        case "s32":
            total = part.astype(np.int64)
            if product.accumulate:
                total = total + np.ascontiguousarray(old).view(np.int32)
            if product.fields.saturate:
                total = np.clip(total, -(1 << 31), (1 << 31) - 1)
            return total.astype(np.int32).view(np.uint32)
        case "f16":
            total = part
            if product.accumulate:
                total = part + (old & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float32) * factor
            return total.astype(np.float16).view(np.uint16).astype(np.uint32)
        case _:
            total = part
            if product.accumulate:
                total = part + np.ascontiguousarray(old).view(np.float32) * factor
            return np.ascontiguousarray(total.astype(np.float32)).view(np.uint32)
