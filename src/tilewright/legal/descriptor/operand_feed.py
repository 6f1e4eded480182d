"""Does a matrix instruction read what the copy engine wrote: every element of the operand where the box put it?

The copy engine lays boxes down in its order and swizzles them (`loaded_tile`); the matrix instruction reads a canonical
layout through an XOR of its own (`shared_operand`). Both are compared at every element.

Where all extents are powers of two and no sum of an address carries, both addresses are affine over GF(2) in the bits
of (row, k), since swizzles are linear. Then they agree everywhere if they agree at (0, 0) and with each bit alone, a
dozen comparisons instead of thousands. A yes says which proof it rests on; a no is always an element that differs, or a
rule.

Not handled: what `loaded_tile` does not; whether the map is legal (`check`). Checked by
tests/legal/descriptor/test_operand_feed.py, for every pair of map and descriptor, against the models of the copy engine
and of the tensor core.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.legal.descriptor.matrix_descriptor import Major
from tilewright.legal.descriptor.shared_operand import (
    OperandDescriptor,
    depth_step,
    distances_at,
    field_problems,
    instruction_of,
    major_problem,
)
from tilewright.legal.tensor_map.im2col_map import Im2colMap
from tilewright.legal.tensor_map.loaded_tile import Tile, check_dims, straight_addresses, tile_of
from tilewright.legal.tensor_map.swizzle_code import LINE_BYTES, period_bytes, swizzled
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.targets import Target

Proof = Literal["linear", "enumerated"]


@dataclass(frozen=True, slots=True)
class Feeds:
    """Whether the instruction reads what the boxes wrote. why: empty if so, else one sentence.

    proof: what a yes rests on; mismatch: (row, k, where the element was written, where it is read), the first in row
    order, if the layouts differ.
    """

    ok: bool
    why: str = ""
    proof: Proof | None = None
    mismatch: tuple[int, int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class _Question:
    """One operand of one instruction: rows from `first[0]`, one K step from `first[1]`, of a tile's matrix."""

    tile: Tile
    descriptor: OperandDescriptor
    major: Major
    rows: int
    depth: int
    first: tuple[int, int]
    row_dims: tuple[int, ...]
    depth_dims: tuple[int, ...]
    target: Target

    def straight_written(self, row: NDArray[np.int64], k: NDArray[np.int64]) -> NDArray[np.int64]:
        return straight_addresses(self.tile, row + self.first[0], k + self.first[1], self.row_dims, self.depth_dims)

    def straight_read(self, row: NDArray[np.int64], k: NDArray[np.int64]) -> NDArray[np.int64]:
        fields = self.descriptor
        return fields.start_address + distances_at(
            fields.swizzle, self.major, row, k, self.tile.element_bytes, fields.leading_bytes, fields.stride_bytes,
            self.target,
        )  # fmt: skip


def tma_feeds_mma(
    map: TensorMap | Im2colMap,
    descriptor: OperandDescriptor,
    target: Target,
    *,
    major: Major,
    destinations: tuple[int, ...],
    rows: int | None = None,
    first: tuple[int, int] = (0, 0),
    row_dims: tuple[int, ...] | None = None,
    depth_dims: tuple[int, ...] | None = None,
    element_bytes: int | None = None,
) -> Feeds:
    """Whether one instruction reads, through `descriptor`, `rows` rows and one K step of what loads of `map` wrote.

    destinations: shared addresses of the boxes, in order; first: (row, k) of the tile where the operand begins; rows:
    all from there on where not given; element_bytes: of the operand, that of the map where not given.
    row_dims, depth_dims: the tile's dimensions, innermost first, that make up M or N and K, where the boxes count as
    one after those of the box; by default the operand's contiguous side is dimension 0 with the boxes (of an
    interleaved map, the inside of a slice with the boxes), the other one the rest.
    Raises TilewrightError for maps that are not judged here.
    """
    tile = tile_of(map, target, destinations)
    if row_dims is None or depth_dims is None:
        sliced = len(tile.counts) - 1 > tile.boxes
        inner = (tile.boxes + 1 if sliced else 0, tile.boxes)
        outer = tuple(range(0 if sliced else 1, tile.boxes))
        row_dims, depth_dims = (outer, inner) if major == "K" else (inner, outer)
    check_dims(tile, row_dims, depth_dims)
    if element_bytes not in (None, tile.element_bytes):
        return Feeds(False, f"the map moves elements of {tile.element_bytes} bytes, the operand has {element_bytes}")
    problem = major_problem(descriptor.swizzle, major, tile.element_bytes, target)
    if not problem and tile.packed and major == "MN":
        problem = f"operands of {map.dtype} cannot be MN-major"
    if problem:
        return Feeds(False, problem)
    if rows is None:
        rows = prod(tile.counts[dim] for dim in row_dims) - first[0]
    depth = depth_step(tile.element_bytes, target)
    question = _Question(tile, descriptor, major, rows, depth, first, row_dims, depth_dims, target)
    why = _refusal(question)
    if why:
        return Feeds(False, why)
    return Feeds(True, proof="linear") if _agree_linearly(question) else _compared(question)


def _refusal(question: _Question) -> str:
    tile, descriptor, first = question.tile, question.descriptor, question.first
    problems = field_problems(descriptor, question.target)
    if problems:
        return problems[0]
    ordered = sorted(tile.destinations)
    for address in ordered:
        if address % LINE_BYTES:
            return f"destination {address:#x} is not a multiple of {LINE_BYTES} bytes"
    for former, latter in pairwise(ordered):
        if latter - former < tile.box_bytes:
            return f"boxes of {tile.box_bytes} bytes at {former:#x} and {latter:#x} overlap"
    whole = [prod(tile.counts[dim] for dim in dims) for dims in (question.row_dims, question.depth_dims)]
    asked = question.rows, question.depth
    if min(*first, question.rows - 1) < 0 or any(
        at + size > have for at, size, have in zip(first, asked, whole, strict=True)
    ):
        return (
            f"{instruction_of(question.target)} reads {asked[0]} rows by K {asked[1]} from element {first} on; the "
            f"boxes hold {whole[0]} by {whole[1]}"
        )
    return ""


def _compared(question: _Question) -> Feeds:
    tile, descriptor, target = question.tile, question.descriptor, question.target
    shape = question.rows, question.depth
    row, k = np.arange(shape[0], dtype=np.int64)[:, None], np.arange(shape[1], dtype=np.int64)[None, :]
    written = np.broadcast_to(swizzled(question.straight_written(row, k), tile.swizzle, target), shape)
    read = swizzled(question.straight_read(row, k), descriptor.swizzle, target, descriptor.base_offset)
    wrong = np.argwhere(read != written)
    if not len(wrong):
        return Feeds(True, proof="enumerated")
    i, j = (int(index) for index in wrong[0])
    mismatch = i, j, int(written[i, j]), int(read[i, j])
    text = f"element (row {i}, k {j}) was written at {mismatch[2]:#x} and is read at {mismatch[3]:#x}"
    if tile.swizzle != descriptor.swizzle:
        text += f": the map swizzles {tile.swizzle}, the descriptor {descriptor.swizzle}"
    elif descriptor.base_offset:
        text += (
            f": base offset {descriptor.base_offset}, although the copy engine's pattern begins at absolute multiples "
            "of its period"
        )
    return Feeds(False, text, mismatch=mismatch)


def _agree_linearly(question: _Question) -> bool:
    """Whether both layouts are affine over GF(2) and agree on a basis. A no decides nothing."""
    tile, descriptor, target = question.tile, question.descriptor, question.target
    sizes = (*tile.counts, question.rows, question.depth)
    if any(size & (size - 1) for size in sizes) or tile.distances_bytes[tile.boxes] is None:
        return False
    if question.first[0] % question.rows or question.first[1] % question.depth:
        return False
    row_bits, depth_bits = question.rows.bit_length() - 1, question.depth.bit_length() - 1
    row = np.array([0, *(1 << bit for bit in range(row_bits)), *[0] * depth_bits], np.int64)
    k = np.array([0, *[0] * row_bits, *(1 << bit for bit in range(depth_bits))], np.int64)
    shift = descriptor.base_offset * LINE_BYTES
    written, read = question.straight_written(row, k), question.straight_read(row, k) - shift
    # Patterns repeat, so both may be moved down by whole periods, the longer of two powers of two being a multiple.
    period = max(period_bytes(tile.swizzle, target), period_bytes(descriptor.swizzle, target))
    down = int(written[0]) // period * period
    written, read = written - down, read - down
    if not (_never_carries(written) and _never_carries(read)):
        return False
    read = swizzled(read, descriptor.swizzle, target)
    # Moving the pattern's beginning back adds the shift again, which is affine only if that does not carry either.
    if int(np.bitwise_or.reduce(read)) & shift:
        return False
    return np.array_equal(swizzled(written, tile.swizzle, target), read + shift)


def _never_carries(addresses: NDArray[np.int64]) -> bool:
    """Whether the first address and what each basis vector adds to it share no bit, so that sums are XORs."""
    seen = start = int(addresses[0])
    if start < 0:
        return False
    for added in (addresses[1:] - start).tolist():
        if added < 0 or seen & added:
            return False
        seen |= added
    return True
