"""How a product whose left operand is computed in registers is written in the asynchronous contract.

The raw tile comes into the ring as any operand does. Of vectors, those along the rows are loaded once for a tile, those
along the contracted axis for each slot, before the wait for it. Each consumer reads its rows and computes them while
its product of the slot before runs; then it waits for that product, releases its slot and issues the next.

Handled is what `synth.operand.register_operand` chooses: one tensor over rows and contracted axis, K-major, and
vectors. Checked by: tests/lower/fragment/test_register_operand.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import axes_of
from tilewright.lower.build import Build, affine
from tilewright.lower.computed_operand import numbers_along, read_computed
from tilewright.lower.distribution.tile_place import TilePlace
from tilewright.lower.expression import Accumulated, fragment_of, loads_in
from tilewright.lower.pipeline.epilogue import Pipeline
from tilewright.lower.program import sources_of


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
    return numbers_along(build, list(operand.along.values()), d.tile_k, d.shares, turn, operand.share)


def read_operand(
    build: Build,
    d: PipelineDecisions,
    p: Pipeline,
    operand: ComputedOperand,
    unit: SSAValue,
    phase: SSAValue,
    along: list[SSAValue],
    steps: list[int],
) -> SSAValue:
    """Read a full slot's A and compute it. steps: bytes to each."""
    loads, numbers = (operand.raw, *operand.rows, *operand.along), (list(operand.rows.values()), along)
    return read_computed(build, operand.value, loads, (phase, p.a, unit), numbers, (d.unit_rows, d.tile_k), steps)
