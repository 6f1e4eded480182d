"""One slot's product: the wgmma group that reads it, with its matrix descriptors (PTX ISA, wgmma).

Operands are rows of 128 swizzled bytes in shared memory.
Checked by: tests/lower/test_ptx_text.py and test_values.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import AsyncCopyFenceOp
from tilewright.ir.decisions import OperandDecision, PipelineDecisions
from tilewright.ir.tier import int_array
from tilewright.lower.build import Build
from tilewright.lower.distribution.issue_order import pass_issue, take_issue
from tilewright.lower.pipeline.epilogue import Pipeline
from tilewright.lower.pipeline.slots import RING, wait_for_slot

SPAN_BYTES = 128
"""Of a row in shared memory: what the swizzle of every slot spans."""
_STEP_BYTES = 32
"""Of the contracted axis, what one wgmma takes: 16 elements of 16 bits or 32 of 8 (PTX ISA, wgmma: Matrix shape)."""


def multiply(
    build: Build, d: PipelineDecisions, p: Pipeline, unit: SSAValue, cursor: SSAValue, running: SSAValue | None
) -> tuple[SSAValue, SSAValue]:
    """Wait for a slot and issue its wgmma group; (accumulator in flight, slot being read)."""
    phase = wait_for_slot(build, p.ring, cursor, "full")
    if d.copies_by_threads:
        phase = build.value(AsyncCopyFenceOp.create(operands=[phase], result_types=[phase.type]))
    take_issue(build, p.order)
    build.add(ac.WgmmaFenceOp.create())
    rows = d.unit_rows
    row_bytes = d.tile_k * d.a.map.tensor_map().element.bytes
    steps = row_bytes // _STEP_BYTES
    a_leading, a_stride, a_steps = _operand_strides(d.a, row_bytes, d.tile_m)
    b_leading, b_stride, b_steps = _operand_strides(d.b, row_bytes, d.tile_n)
    a_row_bytes = SPAN_BYTES if d.a.major == "K" else row_bytes
    properties: dict[str, Attribute] = {
        "m": IntAttr(rows),
        "n": IntAttr(d.tile_n),
        "steps": IntAttr(steps),
        "element": StringAttr(d.a.map.element),
        "a_major": StringAttr(d.a.major),
        "a_leading_bytes": IntAttr(a_leading),
        "a_stride_bytes": IntAttr(a_stride),
        "a_step_bytes": int_array(a_steps),
        "a_block_bytes": IntAttr(64 * a_row_bytes),
        "a_instance_bytes": IntAttr(0 if d.turns else rows * a_row_bytes),
        "b_major": StringAttr(d.b.major),
        "b_leading_bytes": IntAttr(b_leading),
        "b_stride_bytes": IntAttr(b_stride),
        "b_step_bytes": int_array(b_steps),
    }
    operands = [phase, p.a, p.b, unit, running, None]
    inflight = ac.InflightType(IntAttr(rows), IntAttr(d.tile_n))
    results = [inflight, ac.ReadingType(RING), None]
    op = ac.WgmmaIssueOp.build(operands=operands, properties=properties, result_types=results)
    build.add(op)
    build.add(ac.WgmmaCommitOp.create())
    pass_issue(build, p.order)
    return op.results[0], op.results[1]


def _operand_strides(operand: OperandDecision, row_bytes: int, extent: int) -> tuple[int, int, list[int]]:
    """Leading and stride offsets of the matrix descriptor and the advance of each wgmma's step, in bytes.

    128-byte swizzle (PTX ISA, wgmma canonical layouts). K-major: rows of 128 bytes, eight of them 1024 bytes apart; a
    step moves 32 bytes along the row, 16 elements of 16 bits or 32 of 8, and at its end to the next matrix of `extent`
    rows, where a slot is deeper than a row. MN-major, of 16-bit elements alone: boxes of
    64 elements by as many rows of 128 bytes as a slice is deep, so the next 64 elements are a whole box away and a step
    moves 16 rows.
    """
    steps = range(row_bytes // _STEP_BYTES)
    if operand.major == "K":
        spans = [divmod(_STEP_BYTES * step, SPAN_BYTES) for step in steps]
        return 16, 1024, [span * extent * SPAN_BYTES + within for span, within in spans]
    return row_bytes // 2 * 128, 1024, [2048 * step for step in steps]
