"""Steps along the ring of slots that a pipeline's producer fills and its consumers read: go on, wait, give back.

Checked by: tests/lower/test_ptx_text.py and test_values.py, and the typestate of rings (`contract`).
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, StringAttr, i32
from xdsl.ir import Attribute, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import PipelineDecisions
from tilewright.lower.build import Build

RING = StringAttr("ab")
CURSOR = ac.CursorType(RING)


def start_cursor(build: Build, ring: SSAValue, side: str) -> SSAValue:
    return build.value(
        ac.CursorStartOp.create(operands=[ring], properties={"side": StringAttr(side)}, result_types=[CURSOR])
    )


def advance(build: Build, cursor: SSAValue) -> SSAValue:
    return build.value(ac.AdvanceOp.create(operands=[cursor], result_types=[CURSOR]))


def wait_for_slot(build: Build, ring: SSAValue, cursor: SSAValue, side: str) -> SSAValue:
    return build.value(
        ac.BarrierWaitOp.create(
            operands=[ring, cursor],
            properties={"side": StringAttr(side), "invert_parity": IntAttr(int(side == "empty"))},
            result_types=[ac.PhaseType(RING, StringAttr(side))],
        )
    )


def wgmma_wait(pending: int, reading: SSAValue | None, accumulator: SSAValue | None) -> ac.WgmmaWaitOp:
    results: list[Attribute] = []
    operands: list[SSAValue] = []
    if reading is not None:
        results.append(ac.PhaseType(RING, StringAttr("retired")))
        operands.append(reading)
    if accumulator is not None:
        kind = accumulator.type
        assert isinstance(kind, ac.InflightType)
        results.append(ac.AccumulatorType(kind.m, kind.n))
        operands.append(accumulator)
    present = [int(reading is not None), int(accumulator is not None)]
    return ac.WgmmaWaitOp.create(
        operands=operands,
        properties={
            "pending": IntAttr(pending),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, present),
            "resultSegmentSizes": DenseArrayBase.from_list(i32, present),
        },
        result_types=results,
    )


def release(build: Build, d: PipelineDecisions, retired: SSAValue, *, first: bool = False) -> None:
    """first: whether what follows may not be moved before it."""
    properties = {"peers": IntAttr(d.cluster_m * d.cluster_n)} | ({"first": IntAttr(1)} if first else {})
    build.add(ac.ArriveOp.create(operands=[retired], properties=properties))
