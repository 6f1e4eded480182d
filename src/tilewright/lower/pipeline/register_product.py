"""How a product whose left operand is computed in registers is written in the asynchronous contract.

The raw tile comes into the ring as any operand does. Of vectors, those along the rows are loaded once for a tile, those
along the contracted axis for each slot, before the wait for it. Each consumer reads its rows and computes them while
its product of the slot before runs; then it waits for that product, releases its slot and issues the next.

Handled is what `synth.operand.register_operand` chooses: one tensor over rows and contracted axis, K-major, and
vectors. Checked by: tests/lower/fragment/test_register_operand.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, StringAttr, i32
from xdsl.ir import Block, Region, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.register_operand import ComputedIssueOp, ComputedType, OperandReadOp, VectorLoadOp, VectorType
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import axes_of
from tilewright.ir.tile.types import value_type
from tilewright.lower.build import Build, affine
from tilewright.lower.distribution.tile_place import TilePlace
from tilewright.lower.expression import Accumulated, fragment_of, loads_in, point_value
from tilewright.lower.pipeline.epilogue import Pipeline
from tilewright.lower.program import sources_of

_FIRST_BARRIER = 1
"""Those that the epilogue's staging uses too: a unit meets at one place at a time."""


@dataclass(frozen=True, slots=True)
class ComputedOperand:
    """value: the operand's expression. raw: the load of the tile that comes through the ring. rows: fragments of
    vectors along the rows, loaded; along: loads of vectors along the contracted axis. share: which of the CTAs that
    share the contracted axis this one is."""

    value: SSAValue
    raw: tile.LoadOp
    rows: dict[tile.LoadOp, SSAValue]
    along: dict[tile.LoadOp, SSAValue]
    share: SSAValue | None


def computed_value(dot: tile.DotOp, d: PipelineDecisions) -> SSAValue:
    """The operand that the accumulator's rows belong to."""
    return dot.left if d.a.side == "left" else dot.right


def computed_loads(dot: tile.DotOp, d: PipelineDecisions) -> list[tile.LoadOp]:
    """Loads of vectors that a computed operand reads; none where it is not computed in registers."""
    if not d.computed:
        return []
    return [load for load in loads_in(computed_value(dot, d)) if len(axes_of(load.result)) == 1]


def open_operand(
    build: Build,
    program: tile.ProgramOp,
    dot: tile.DotOp,
    d: PipelineDecisions,
    unit: SSAValue,
    place: TilePlace,
    arrays: dict[str, SSAValue],
    share: SSAValue | None,
) -> ComputedOperand:
    """The operand of a tile that begins, with its rows' numbers loaded."""
    value = computed_value(dot, d)
    (raw,) = (load for load in loads_in(value) if len(axes_of(load.result)) == 2)
    row = affine(build, [(place.row, d.row_step), (unit, d.unit_step)], 0)
    column = affine(build, [(place.column, d.column_step)], 0)
    shape = Accumulated(d.rows, d.columns, d.unit_rows, d.tile_n)
    sources = sources_of(program, arrays)
    vectors = computed_loads(dot, d)
    rows = {
        load: fragment_of(build, load, shape, (row, column), sources, ahead=True)
        for load in vectors
        if axes_of(load.result) == (d.rows,)
    }
    along = {load: sources[load.tensor] for load in vectors if load not in rows}
    return ComputedOperand(value, raw, rows, along, share)


def load_along(build: Build, d: PipelineDecisions, operand: ComputedOperand, turn: SSAValue | None) -> list[SSAValue]:
    """The numbers along the contracted axis in one slot. turn: index of the loop; None for a tile's first slot."""
    if not operand.along:
        return []
    terms = [] if turn is None else [(turn, d.shares)]
    slice_ = affine(build, [*terms, *([(operand.share, 1)] if operand.share is not None else [])], 0)
    kind = VectorType(IntAttr(d.tile_k))
    return [
        build.value(VectorLoadOp.create(operands=[source, slice_], result_types=[kind]))
        for source in operand.along.values()
    ]


def read_operand(
    build: Build,
    d: PipelineDecisions,
    p: Pipeline,
    operand: ComputedOperand,
    unit: SSAValue,
    phase: SSAValue,
    along: list[SSAValue],
    layout: tuple[list[int], int],
) -> SSAValue:
    """Read a full slot's A and compute it. layout: bytes to each step, and of a row."""
    steps, row_bytes = layout
    body = Block(arg_types=[ac.ScalarType()] * (1 + len(operand.rows) + len(along)))
    inner = build.inside(body)
    loads = (operand.raw, *operand.rows, *operand.along)
    leaves: dict[SSAValue, SSAValue] = {load.result: argument for load, argument in zip(loads, body.args, strict=True)}
    # The packing rounds, so a cast at the very end is left to it.
    last = operand.value.owner
    result = point_value(inner, last.operand if isinstance(last, tile.CastOp) else operand.value, leaves)
    inner.add(ac.YieldOp.create(operands=[result]))
    ring = p.ring.type
    assert isinstance(ring, ac.RingType)
    element = value_type(operand.value).element_kind.value
    kind = ComputedType(ring.ring, IntAttr(d.unit_rows), IntAttr(d.tile_k), StringAttr(element))
    op = OperandReadOp.create(
        operands=[phase, p.a, unit, *operand.rows.values(), *along],
        properties={
            "step_bytes": int_array(steps),
            "block_bytes": IntAttr(64 * row_bytes),
            "instance_bytes": IntAttr(d.unit_rows * row_bytes),
            "first_barrier": IntAttr(_FIRST_BARRIER),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, 1, len(operand.rows), len(along)]),
        },
        result_types=[kind],
        regions=[Region(body)],
    )
    return build.value(op)


def issue_computed(
    build: Build,
    d: PipelineDecisions,
    p: Pipeline,
    computed: SSAValue,
    running: SSAValue | None,
    layout: tuple[int, int, list[int]],
) -> tuple[SSAValue, SSAValue]:
    """The product of what was computed with the slot's B; (accumulator in flight, slot being read). layout: leading and
    stride offsets of B's matrix descriptor, and the advance to each step."""
    kind, ring = computed.type, p.ring.type
    assert isinstance(kind, ComputedType) and isinstance(ring, ac.RingType)
    leading, stride, steps = layout
    op = ComputedIssueOp.create(
        operands=[computed, p.b, *([running] if running is not None else [])],
        properties={
            "m": kind.m,
            "n": IntAttr(d.tile_n),
            "steps": IntAttr(len(steps)),
            "element": kind.element,
            "b_major": StringAttr(d.b.major),
            "b_leading_bytes": IntAttr(leading),
            "b_stride_bytes": IntAttr(stride),
            "b_step_bytes": int_array(steps),
        },
        result_types=[ac.InflightType(kind.m, IntAttr(d.tile_n)), ac.ReadingType(ring.ring)],
    )
    build.add(op)
    build.add(ac.WgmmaCommitOp.create())
    return op.results[0], op.results[1]
