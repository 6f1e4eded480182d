"""Where a tile stands, for the roles of a pipeline: as tile numbers of a matrix, or in a group of rows.

Checked by: tests/lower/test_ptx_text.py and test_group_tiles.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.base.size import number_of
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import OperandDecision, PipelineDecisions, StoreDecision
from tilewright.ir.group_rows import GroupDecision
from tilewright.ir.tile import operations as tile
from tilewright.lower.build import INDEX, Build, first_tile_property, order_properties, tiles_loop
from tilewright.lower.distribution.stream_product import WHOLE, Section, stream_part_loop
from tilewright.lower.distribution.turns import turn_tiles_loop
from tilewright.lower.program import Counts, tile_counts


@dataclass(frozen=True, slots=True)
class GroupRows:
    """limits: the global array that says where groups end; groups, rows: how many there are, and in all or, where they
    stand apart, at most in each."""

    limits: SSAValue
    groups: int
    rows: int


@dataclass(frozen=True, slots=True)
class TilePlace:
    """A tile's first row is `row` times `row_step`; its first column `column` times the step along columns. group:
    outermost coordinate of operands and results that have one for each group, or matrix of a batch; row_end: the row
    before which the tile ends, if not at its own end. slices: the symbol that is its number of slices; first: of a part
    of a streamed tile, its first slice; number: that tile's. team: which of those that share the tile goes through
    it."""

    row: SSAValue
    row_step: int
    column: SSAValue
    group: SSAValue | None = None
    row_end: SSAValue | None = None
    slices: str = "K"
    first: SSAValue | None = None
    number: SSAValue | None = None
    team: SSAValue | None = None

    def outermost(self, item: OperandDecision | StoreDecision) -> list[SSAValue]:
        """Coordinates of an operand's or a result's map past its own two."""
        return [self.group] if self.group is not None and len(item.map.dims) == 3 else []


def most_group_tiles(program: tile.ProgramOp, d: PipelineDecisions) -> int:
    """No more tiles than these in all groups, whatever their sizes."""
    (grouping,) = d.grouping
    return group_rows_most(program, grouping, d.rows, d.tile_m) * number_of(tile_counts(program, d)[1])


def group_rows_most(program: tile.ProgramOp, grouping: GroupDecision, rows: str, tile_rows: int) -> int:
    """No more rows of tiles than these in all groups, whatever their sizes. rows: the axis of rows."""
    extent, groups = program.extents[rows], program.extents[grouping.axis]
    return groups * -(-extent // tile_rows) if grouping.pitch else extent // tile_rows + min(groups, extent)


def open_tiles(
    build: Build,
    d: PipelineDecisions,
    groups: GroupRows | None,
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
        return inside, TilePlace(row, d.row_step, column, slices=section.slices, number=number, first=first), inner
    if turns is not None and groups is None:
        order = {**order_properties(d), **first_tile_property(d)}
        matrices = [counts[2]] if d.batch else []
        inside, block, loop = turn_tiles_loop(build, turns, counts[:2], matrices, order, carried)
        matrix = block.args[ac.TILE_INDICES] if d.batch else None
        return inside, TilePlace(block.args[0], d.row_step, block.args[1], matrix), list(block.args[loop.indices :])
    if groups is None:
        rounds = counts[2] if d.batch or d.teams > 1 else None
        inside, block, loop = tiles_loop(build, d, counts[:2], carried, rounds)
        matrix = block.args[ac.TILE_INDICES] if d.batch else None
        team = block.args[ac.TILE_INDICES] if d.teams > 1 else None
        place = TilePlace(block.args[0], d.row_step, block.args[1], matrix, team=team)
        return inside, place, list(block.args[loop.indices :])
    (grouping,) = d.grouping
    block = Block(arg_types=[INDEX] * ac.GROUP_INDICES + [value.type for value in carried])
    properties: dict[str, Attribute] = {
        "symbol": StringAttr("tiles"),
        "groups": IntAttr(groups.groups),
        "rows": IntAttr(groups.rows),
        "pitch": IntAttr(grouping.pitch),
        "tile_rows": IntAttr(d.tile_m),
        "tiles_n": IntAttr(number_of(counts[1])),
        "raster_group": IntAttr(d.raster_group),
    }
    if turns is not None:
        properties["skipped"] = StringAttr("K")
    kind = ac.GroupTilesOp if turns is None else ac.TurnGroupTilesOp
    operands = [groups.limits, *([turns] if turns is not None else []), *carried]
    types = [value.type for value in carried]
    build.add(kind.create(operands=operands, result_types=types, properties=properties, regions=[Region(block)]))
    row, column, group, row_end, *inner = block.args
    return build.inside(block), TilePlace(row, 1, column, group, row_end), list(inner)
