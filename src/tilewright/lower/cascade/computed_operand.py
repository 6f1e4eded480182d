"""How a product's left operand is read from a slot, computed in registers and multiplied, in the asynchronous contract.

A unit reads its rows of a slot and computes every number of them, beside numbers of vectors: those along its rows it
has, those along the contracted axis are loaded for each slot, before the wait for it. The product then takes A from
registers and B from the same slot.

Checked by: tests/lower/fragment/test_register_operand.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, StringAttr, i32
from xdsl.ir import Block, Region, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.register_operand import ComputedIssueOp, ComputedType, OperandReadOp, VectorLoadOp, VectorType
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.types import value_type
from tilewright.lower.build import Build, affine
from tilewright.lower.expression import point_value

_FIRST_BARRIER = 1
"""Those that the epilogue's staging uses too: a unit meets at one place at a time."""
_BLOCK_BYTES = 64 * 128
"""Of the rows that one wgmma takes, a span of the swizzle each."""


def numbers_along(
    build: Build,
    sources: Sequence[SSAValue],
    depth: int,
    shares: int,
    iteration: SSAValue | None,
    share: SSAValue | None,
) -> list[SSAValue]:
    """The numbers of vectors along the contracted axis in one slot of so many elements. shares: CTAs that have slots of
    a tile by turns; share: which of them this one is; iteration: of the loop over slots, None for a tile's first."""
    if not sources:
        return []
    terms = [] if iteration is None else [(iteration, shares)]
    slice_ = affine(build, [*terms, *([(share, 1)] if share is not None else [])], 0)
    kind = VectorType(IntAttr(depth))
    return [build.value(VectorLoadOp.create(operands=[source, slice_], result_types=[kind])) for source in sources]


def read_computed(
    build: Build,
    value: SSAValue,
    loads: Sequence[tile.LoadOp],
    slot: tuple[SSAValue, SSAValue, SSAValue],
    numbers: tuple[Sequence[SSAValue], Sequence[SSAValue]],
    extents: tuple[int, int],
    steps: Sequence[int],
) -> SSAValue:
    """Read a full slot's A and compute it. loads: of the tile that it is computed of, and of the vectors along rows and
    along the contracted axis, whose numbers follow; slot: its phase, buffer and unit; extents: a unit's rows and the
    slot's depth; steps: bytes to each step of the product."""
    body = Block(arg_types=[ac.ScalarType()] * len(loads))
    inner = build.inside(body)
    leaves: dict[SSAValue, SSAValue] = {load.result: argument for load, argument in zip(loads, body.args, strict=True)}
    # The packing rounds, so a cast at the very end is left to it.
    last = value.owner
    result = point_value(inner, last.operand if isinstance(last, tile.CastOp) else value, leaves)
    inner.add(ac.YieldOp.create(operands=[result]))
    (phase, buffer, unit), (rows, along), (unit_rows, depth) = slot, numbers, extents
    full = phase.type
    assert isinstance(full, ac.PhaseType)
    element = value_type(value).element_kind.value
    op = OperandReadOp.create(
        operands=[phase, buffer, unit, *rows, *along],
        properties={
            "step_bytes": int_array(list(steps)),
            "block_bytes": IntAttr(_BLOCK_BYTES),
            "instance_bytes": IntAttr(unit_rows // 64 * _BLOCK_BYTES),
            "first_barrier": IntAttr(_FIRST_BARRIER),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, 1, len(rows), len(along)]),
        },
        result_types=[ComputedType(full.ring, IntAttr(unit_rows), IntAttr(depth), StringAttr(element))],
        regions=[Region(body)],
    )
    return build.value(op)


def issue_computed(
    build: Build,
    computed: SSAValue,
    buffer: SSAValue,
    columns: int,
    running: SSAValue | None,
    layout: tuple[str, int, int, list[int]],
) -> tuple[SSAValue, SSAValue]:
    """The product of what was computed with the slot's B; (accumulator in flight, slot being read). layout: B's major,
    leading and stride offsets of its matrix descriptor, and the advance to each step, in bytes."""
    kind, (major, leading, stride, steps) = computed.type, layout
    assert isinstance(kind, ComputedType)
    op = ComputedIssueOp.create(
        operands=[computed, buffer, *([running] if running is not None else [])],
        properties={
            "m": kind.m,
            "n": IntAttr(columns),
            "steps": IntAttr(len(steps)),
            "element": kind.element,
            "b_major": StringAttr(major),
            "b_leading_bytes": IntAttr(leading),
            "b_stride_bytes": IntAttr(stride),
            "b_step_bytes": int_array(steps),
        },
        result_types=[ac.InflightType(kind.m, IntAttr(columns)), ac.ReadingType(kind.ring)],
    )
    build.add(op)
    build.add(ac.WgmmaCommitOp.create())
    return op.results[0], op.results[1]
