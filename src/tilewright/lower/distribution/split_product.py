"""How CTAs of a cluster share the contracted axis of one tile: which slices are whose, and where their sums meet.

CTA r of s takes slices r, r + s, r + 2 s, ...: neighbours read neighbouring columns of the operands at about the same
time, so rows are fetched from memory a whole run at a time. Where the slices don't come out even, the last of some CTAs
lie past the end, where the copy engine brings zeros. When a tile's slices are done the accumulators are summed part by
part (`ac.cluster.reduce`), and CTA r stores part r of the columns, if there are as many parts.
Checked by: tests/lower/distribution/test_split_product.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.split import SPARE_ROWS, SplitPartOp
from tilewright.ir.split_sum import SplitSum
from tilewright.ir.tier import MemoryType
from tilewright.lower.build import INDEX, Build

RING = StringAttr("partial_sums")
CURSOR = ac.CursorType(RING)
_FIRST_BARRIER = 1
"""Named barriers of the consumers' units: the same as their staging uses, at other times."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """The ring and the buffer of partial sums."""

    ring: SSAValue
    buffer: SSAValue


@dataclass(frozen=True, slots=True)
class Share:
    """What a CTA stores of a tile that several share, as terms of its first column and row."""

    columns: list[tuple[SSAValue, int]]
    rows: list[tuple[SSAValue, int]]


WHOLE_TILE = Share([], [])


def declare_meeting(build: Build, s: SplitSum, address: int, barriers: int) -> Meeting:
    """address, barriers: bytes into shared memory."""
    ring = build.value(
        ac.RingOp.create(
            properties={
                "sym_name": RING,
                "stages": IntAttr(1),
                "full_arrivals": IntAttr(s.units),
                "empty_arrivals": IntAttr(s.ctas * s.units),
                "address": IntAttr(barriers),
            },
            result_types=[ac.RingType(RING, IntAttr(1))],
        )
    )
    kind = MemoryType(
        StringAttr("SMEM"), StringAttr(Element.F32.value), IntAttr(1), IntAttr(s.partial_bytes), StringAttr("none")
    )
    buffer = build.value(
        ac.BufferOp.create(
            properties={
                "sym_name": StringAttr("partials"),
                "address": IntAttr(address),
                "instances": IntAttr(1),
                "ring": RING,
            },
            result_types=[kind],
        )
    )
    return Meeting(ring, buffer)


def split_index(build: Build, s: SplitSum) -> SSAValue | None:
    """Which of the CTAs that share a tile this one is; None where none do."""
    return build.value(ac.SplitIndexOp.create(result_types=[INDEX])) if s.ctas > 1 else None


def share_of_result(build: Build, s: SplitSum, index: SSAValue | None) -> Share:
    """The part of each tile that this CTA stores. index: from `split_index`."""
    if index is None:
        return WHOLE_TILE
    if s.parts == s.ctas:
        return Share([(index, s.part_step)], [])
    op = SplitPartOp.create(properties={"parts": IntAttr(s.parts)}, result_types=[INDEX, INDEX])
    build.add(op)
    return Share([(op.part, s.part_step)], [(op.spare, SPARE_ROWS)])


def start_meetings(build: Build, meeting: Meeting | None) -> list[SSAValue]:
    """The cursor to carry from tile to tile; none where there is nothing to sum."""
    if meeting is None:
        return []
    start = ac.CursorStartOp.create(
        operands=[meeting.ring], properties={"side": StringAttr("full")}, result_types=[CURSOR]
    )
    return [build.value(start)]


def meet(
    build: Build,
    s: SplitSum,
    meeting: Meeting,
    cursors: list[SSAValue],
    accumulator: SSAValue,
    unit: SSAValue,
) -> tuple[list[SSAValue], SSAValue]:
    """(cursors that follow, the sum of this CTA's part of the columns)."""
    kind = accumulator.type
    assert isinstance(kind, ac.AccumulatorType)
    (cursor,) = cursors
    op = ac.ClusterReduceOp.create(
        operands=[meeting.ring, cursor, accumulator, meeting.buffer, unit],
        properties={"first_barrier": IntAttr(_FIRST_BARRIER)},
        result_types=[CURSOR, ac.AccumulatorType(kind.m, IntAttr(kind.n.data // s.parts))],
    )
    build.add(op)
    return [op.results[0]], op.results[1]
