"""Where a tile stands, for the roles of a pipeline: as tile numbers of a matrix, or of one of a batch.

Checked by: tests/lower/test_ptx_text.py and test_batch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import OperandDecision, PipelineDecisions, StoreDecision
from tilewright.lower.build import Build, first_tile_property, order_properties, tiles_loop
from tilewright.lower.distribution.stream_product import WHOLE, Section, stream_part_loop
from tilewright.lower.distribution.turns import turn_tiles_loop
from tilewright.lower.program import Counts


@dataclass(frozen=True, slots=True)
class TilePlace:
    """A tile's first row is `row` times the step along rows; its first column `column` times that along columns.
    matrix: outermost coordinate of operands and results that have one for each matrix of a batch. slices: the symbol
    that is its number of slices; first: of a part of a streamed tile, its first slice; number: that tile's. team: which
    of those that share the tile goes through it."""

    row: SSAValue
    column: SSAValue
    matrix: SSAValue | None = None
    slices: str = "K"
    first: SSAValue | None = None
    number: SSAValue | None = None
    team: SSAValue | None = None

    def outermost(self, item: OperandDecision | StoreDecision) -> list[SSAValue]:
        """Coordinates of an operand's or a result's map past its own two."""
        return [self.matrix] if self.matrix is not None and len(item.map.dims) == 3 else []


def open_tiles(
    build: Build,
    d: PipelineDecisions,
    counts: Counts,
    carried: Sequence[SSAValue],
    turns: SSAValue | None = None,
    section: Section = WHOLE,
) -> tuple[Build, TilePlace, Sequence[SSAValue]]:
    """The persistent loop over a CTA's tiles: inside of it, the tile's place, the carried values. turns: barriers of a
    role whose units take tiles in turn. counts: of tiles along rows and columns, and of matrices. section: whole tiles,
    or parts of streamed ones."""
    if section.part:
        assert d.stream is not None, "parts are of streamed tiles"
        inside, block = stream_part_loop(build, d.stream, section, counts[:2], order_properties(d), carried, turns)
        row, column, number, first, *inner = block.args
        return inside, TilePlace(row, column, slices=section.slices, number=number, first=first), inner
    if turns is not None:
        order = {**order_properties(d), **first_tile_property(d)}
        matrices = [counts[2]] if d.batch else []
        inside, block, loop = turn_tiles_loop(build, turns, counts[:2], matrices, order, carried)
        matrix = block.args[ac.TILE_INDICES] if d.batch else None
        return inside, TilePlace(block.args[0], block.args[1], matrix), list(block.args[loop.indices :])
    rounds = counts[2] if d.batch or d.teams > 1 else None
    inside, block, loop = tiles_loop(build, d, counts[:2], carried, rounds)
    matrix = block.args[ac.TILE_INDICES] if d.batch else None
    team = block.args[ac.TILE_INDICES] if d.teams > 1 else None
    place = TilePlace(block.args[0], block.args[1], matrix, team=team)
    return inside, place, list(block.args[loop.indices :])
