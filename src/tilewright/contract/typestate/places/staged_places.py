"""Do the stores that stage a chunk put each of its elements where the box of its bulk store has it?

A chunk lies in its slot as a box does: lines of one length, one after another, under the buffer's swizzle. A line is a
row's columns or, where one block of 64 rows is staged, a column's rows. With a plan (`ir.exchange`) the addresses are
the plan's, linear over F2 in lane and warp and exclusive-or a constant of the instruction: they are evaluated here for
every thread of the warpgroup and every element, which is exact, since nothing else enters them. What is shown: each
value of the chunk is stored once, at its own place, by accesses that are aligned to their size. Lines fill the chunk's
bytes, so that none is left out, none is written twice and none outside the chunk is touched.

Without a plan the lowering's rules place rows by the same layout; only what they take for granted is required: groups
of eight columns, and swizzled lines as long as the swizzle's span.

Not handled, left undecided: plans of several steps, threads that take no part, elements that a matrix instruction
divides.
Source: PTX ISA, wgmma register fragments, stmatrix, tensor swizzling modes, Addresses as Operands (alignment).
Checked by: tests/contract/typestate/test_staged_places.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.contract.typestate.program import SWIZZLE_SPAN_BYTES, Buffer
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.copy_decisions import BLOCK_ROWS
from tilewright.ir.decisions import exchange_of
from tilewright.ir.exchange import Access, ExchangePlan, Store
from tilewright.machine.tensor_core.fragment import accumulator_coordinates, matrix_fragment
from tilewright.targets import Target

_COLUMNS = 8
"""Columns of an accumulator that whole registers hold: value v + 4 is eight columns from value v."""
_MOST_COLUMNS = 256
_LANE_BITS, _WARP_BITS, _LANES = 5, 2, 32
_WORD_BYTES, _PIECE_BYTES = 4, 16
_FORMS = ("vector", "matrix", "transposed matrix")


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is staged: so many rows and columns of elements of so many bytes. transposed: lines are columns, not rows;
    swizzle: the buffer's."""

    rows: int
    columns: int
    element_bytes: int
    swizzle: str
    transposed: bool

    @property
    def line(self) -> int:
        """Elements that lie together."""
        return self.rows if self.transposed else self.columns

    @property
    def values(self) -> int:
        """Of each thread."""
        return self.columns // 2 * (self.rows // BLOCK_ROWS)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Why an element does not reach its place."""

    why: str


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    why: str


Problem = Elsewhere | NotUnderstood
Answer = Problem | None
"""None: every element reaches its place."""


def check_places(walk: RoleWalk, op: ac.StageWriteOp, buffer: Buffer, chunk: Chunk) -> None:
    """Refute or doubt a staging write whose elements do not all stand in their places of the slot."""
    begin = op.column_begin.data
    span = SWIZZLE_SPAN_BYTES[buffer.swizzle]
    if begin % _COLUMNS or chunk.columns % _COLUMNS or chunk.rows % BLOCK_ROWS or chunk.columns > _MOST_COLUMNS:
        walk.findings.doubt(f"stages {chunk.rows} rows of {chunk.columns} columns from column {begin}", op)
        return
    if span and chunk.line * chunk.element_bytes != span:
        walk.findings.doubt(
            f"stages lines of {chunk.line * chunk.element_bytes} bytes under a swizzle of spans of {span}", op
        )
        return
    if op.plan is None:
        return
    try:
        plan = exchange_of(op.plan)
    except (KeyError, TypeError):
        walk.findings.doubt("stages by a plan that is not understood", op)
        return
    match judge_plan(plan, chunk, walk.kernel.facts):
        case Elsewhere(why):
            walk.report("BG004", op, why)
        case NotUnderstood(why):
            walk.findings.doubt(f"stages by a plan that is not understood: {why}", op)
        case None:
            pass


@lru_cache(maxsize=256)
def judge_plan(plan: ExchangePlan, chunk: Chunk, facts: Target) -> Answer:
    """Whether a plan's stores put every element of a chunk in its place, once.

    The chunk has whole groups of eight columns, at most 256, and whole blocks of 64 rows.
    """
    if not _is(plan.steps, tuple) or len(plan.steps) != 1 or not isinstance(step := plan.steps[0], Store):
        return NotUnderstood("it does something else than to store once")
    access = step.access
    if not _is(access, Access):
        return NotUnderstood("its store has no accesses")
    doubt = _unknown_form(plan, access, chunk, facts)
    if doubt:
        return NotUnderstood(doubt)
    stored = sorted(element for elements in access.elements for element in elements)
    if stored != list(range(chunk.values)):
        return Elsewhere(f"stores other than each of a thread's {chunk.values} values once")
    base = _linear(access)
    wanted = _places(chunk)
    for elements, constant in zip(access.elements, access.constants, strict=True):
        found = _addresses(base ^ constant, access.form, len(elements), chunk.element_bytes)
        if isinstance(found, Elsewhere | NotUnderstood):
            return found
        right = wanted[:, list(elements)]
        wrong = np.argwhere(found != right)
        if wrong.size:
            thread, number = (int(each) for each in wrong[0])
            return Elsewhere(
                f"thread {thread} stages value {elements[number]} at byte {int(found[thread, number])} of the slot; "
                f"the box has it at byte {int(right[thread, number])}"
            )
    return None


def _is(value: object, kind: type) -> bool:
    """Whether a field holds what it is declared to: a plan read from attributes may hold anything."""
    return isinstance(value, kind)


def _unknown_form(plan: ExchangePlan, access: Access, chunk: Chunk, facts: Target) -> str:
    """Why the plan is none that the lowering follows, or nothing. Attributes hold any numbers and words."""
    lists = (access.elements, access.constants, access.lane_bytes, access.warp_bytes)
    if not all(_is(each, tuple) for each in lists) or not all(_is(each, tuple) for each in access.elements):
        return "lists are missing"
    elements = [each for group in access.elements for each in group]
    most = facts.limit("cta.shared_bytes_max")
    numbers = (*elements, *access.constants, *access.lane_bytes, *access.warp_bytes)
    if not all(_is(each, int) and 0 <= each < most for each in numbers):
        return "its numbers lie in no shared memory"
    if plan.element_bytes != chunk.element_bytes or access.form not in _FORMS:
        return f"{access.form!r} of elements of {plan.element_bytes} bytes"
    if (len(access.lane_bytes), len(access.warp_bytes)) != (_LANE_BITS, _WARP_BITS):
        return "it is of no warpgroup"
    if access.lane_active or access.warp_active:
        return "some threads take no part"
    if len(access.elements) != len(access.constants):
        return f"{len(access.elements)} instructions at {len(access.constants)} places"
    return ""


def _linear(access: Access) -> NDArray[np.int64]:
    """The address of each thread of the warpgroup, before the instruction's constant."""
    threads = np.arange(_LANES << _WARP_BITS, dtype=np.int64)
    total = np.zeros_like(threads)
    for bit, image in enumerate((*access.lane_bytes, *access.warp_bytes)):
        total ^= (threads >> bit & 1) * image
    return total


def _addresses(base: NDArray[np.int64], form: str, count: int, element_bytes: int) -> NDArray[np.int64] | Problem:
    """Of `count` elements that one instruction stores, byte by thread and element."""
    size = count * element_bytes
    if size not in (1, 2, 4, 8, 16):
        return NotUnderstood(f"{count} elements of {element_bytes} bytes by one instruction")
    threads = np.arange(len(base), dtype=np.int64)
    within = element_bytes * np.arange(count, dtype=np.int64)
    if form == "vector":
        if (misaligned := np.flatnonzero(base % size)).size:
            thread = int(misaligned[0])
            return Elsewhere(f"thread {thread} stages {size} bytes at byte {int(base[thread])} of the slot")
        return base[:, None] + within[None, :]
    if size < _WORD_BYTES:
        return NotUnderstood(f"a matrix of {size} bytes of each thread")
    fragment = matrix_fragment("m8n8", size // _WORD_BYTES, form == "transposed matrix")
    addressed = threads % _LANES < fragment.lines
    if (misaligned := np.flatnonzero(addressed & (base % _PIECE_BYTES != 0))).size:
        thread = int(misaligned[0])
        return Elsewhere(f"thread {thread} gives byte {int(base[thread])} of the slot to a matrix's line")
    place = np.stack([fragment.places[at // _WORD_BYTES, :, at % _WORD_BYTES] for at in range(size)])
    place = place.reshape(count, element_bytes, _LANES)
    together = np.arange(element_bytes, dtype=np.int64)[None, :, None]
    if (place != place[:, :1] + together).any():
        return NotUnderstood(f"a matrix instruction divides elements of {element_bytes} bytes")
    first = place[:, 0, threads % _LANES].T
    return base[(threads // _LANES * _LANES)[:, None] + first // _PIECE_BYTES] + first % _PIECE_BYTES


def _places(chunk: Chunk) -> NDArray[np.int64]:
    """The byte at which the box has each value of each thread [128, values], one block of 64 rows after the other."""
    rows, columns = accumulator_coordinates(chunk.columns)
    blocks = range(chunk.rows // BLOCK_ROWS)
    row = np.concatenate([rows + BLOCK_ROWS * block for block in blocks], axis=1)
    column = np.concatenate([columns for _ in blocks], axis=1)
    major, minor = (column, row) if chunk.transposed else (row, column)
    byte = (major * chunk.line + minor) * chunk.element_bytes
    # Bits 9:7 of the address, of which spans of 64 bytes have two and of 32 bytes one, go into bits 6:4.
    span = SWIZZLE_SPAN_BYTES[chunk.swizzle]
    exchanged = span // _PIECE_BYTES - 1 if span else 0
    return byte ^ (byte >> 7 & exchanged) << 4
