"""Tiles that the hardware hands out: the ring of answers, who asks, and who takes them.

The producer asks at a tile's begin for the next one, so that the answer is there at its end; each role takes it behind
what it does of the tile.

Not handled: clusters, groups of rows, parts of tiles. Checked by: tests/end_to_end/test_blackwell_handed.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.base.element import Element
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.handed import ANSWER_BYTES, WorkAskOp, WorkTakeOp
from tilewright.ir.cascade import ANSWERS, ANSWERS_BYTES, SPAN_BYTES, CascadeDecisions
from tilewright.ir.tier import MemoryType
from tilewright.lower.build import Build
from tilewright.lower.cascade.slots import wait_for
from tilewright.lower.cascade.tensor_product import FIRST_BARRIER

_RING = StringAttr("work_ring")


@dataclass(frozen=True, slots=True)
class Work:
    """The ring of answers, and the buffer of its slots."""

    ring: SSAValue
    buffer: SSAValue

    def start(self, build: Build, side: str) -> SSAValue:
        properties = {"side": StringAttr(side)}
        op = ac.CursorStartOp.create(operands=[self.ring], properties=properties, result_types=[ac.CursorType(_RING)])
        return build.value(op)

    def ask(self, build: Build, cursor: SSAValue) -> SSAValue:
        """Ask for the next tile; the cursor behind the slot."""
        phase = wait_for(build, self.ring, _RING, cursor, "empty")
        size = IntAttr(ANSWER_BYTES)
        announced = ac.ArriveExpectOp.create(
            operands=[phase], properties={"bytes": size}, result_types=[ac.TransactionType(_RING, size)]
        )
        build.add(WorkAskOp.create(operands=[self.buffer, build.value(announced)]))
        return self._behind(build, cursor)

    def take(self, build: Build, cursor: SSAValue, unit: SSAValue, *, meets: bool) -> SSAValue:
        """Take the answer at a tile's end; the cursor behind the slot. meets: whether the unit is a warpgroup."""
        phase = wait_for(build, self.ring, _RING, cursor, "full")
        properties: dict[str, Attribute] = {"first_barrier": IntAttr(FIRST_BARRIER)} if meets else {}
        build.add(WorkTakeOp.create(operands=[self.buffer, phase, unit], properties=properties))
        return self._behind(build, cursor)

    def _behind(self, build: Build, cursor: SSAValue) -> SSAValue:
        return build.value(ac.AdvanceOp.create(operands=[cursor], result_types=[ac.CursorType(_RING)]))


def declare_work(build: Build, d: CascadeDecisions) -> Work:
    slots, first = IntAttr(ANSWERS), d.smem_bytes - ANSWERS_BYTES
    readers = 1 + int(bool(d.sum_slots)) + d.consumers
    ring = ac.RingOp.create(
        properties={
            "sym_name": _RING,
            "stages": slots,
            "full_arrivals": IntAttr(1),
            "empty_arrivals": IntAttr(readers),
            "address": IntAttr(first + ANSWERS * SPAN_BYTES),
        },
        result_types=[ac.RingType(_RING, slots)],
    )
    kind = MemoryType(StringAttr("SMEM"), StringAttr(Element.U8.value), slots, IntAttr(SPAN_BYTES), StringAttr("none"))
    buffer = ac.BufferOp.create(
        properties={
            "sym_name": StringAttr("work_slots"), "address": IntAttr(first), "instances": IntAttr(1), "ring": _RING,
        },
        result_types=[kind],
    )  # fmt: skip
    return Work(build.value(ring), build.value(buffer))
