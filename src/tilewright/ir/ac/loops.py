"""Loops of the asynchronous contract: over a slice of work, and over a CTA's tiles, of a matrix or of groups of rows.

The dialect they belong to is `ac`. Checked by: tests/ir/ac/test_text.py,
tests/contract/typestate/steps/test_group_tiles.py and test_turn_steps.py.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator

from tilewright.base.size import Size, product
from tilewright.ir.ac.format import AcOperation
from tilewright.ir.ac.types import GlobalType, IndexType, RingType
from tilewright.ir.cascade import Line, unit_part, walked_part
from tilewright.ir.sizes import AnySize, size_of, sizes_of

TILE_INDICES = 2
"""Region arguments of `ac.tiles` before the matrix's, if there is one, and the carried ones."""


class _OrderedTiles(AcOperation):
    """What loops over whole tiles have in common: how many, in which order, from which on, of how many matrices."""

    LEAD: ClassVar[tuple[str, ...]] = ("over symbol",)
    ARGUMENT_NAMES: ClassVar[tuple[str, ...]] = ("m", "n", "matrix")

    symbol = prop_def(StringAttr)
    tiles_m = prop_def(AnySize)
    tiles_n = prop_def(AnySize)
    raster_group = prop_def(IntAttr)
    order = opt_prop_def(StringAttr)
    first_tile = opt_prop_def(IntAttr)
    batch = opt_prop_def(ArrayAttr[AnySize])

    @property
    def first(self) -> int:
        return 0 if self.first_tile is None else self.first_tile.data

    @property
    def batches(self) -> tuple[Size, ...]:
        """Extents of the batch's axes, the outermost first."""
        return () if self.batch is None else sizes_of(self.batch)

    @property
    def matrices(self) -> Size:
        return product(self.batches)

    @property
    def indices(self) -> int:
        """Region arguments before the carried ones."""
        return TILE_INDICES + len(self.batches)


@irdl_op_definition
class TilesOp(_OrderedTiles):
    """The persistent loop: this CTA's share of the output tiles, `symbol` of them, in an order fixed by its attributes.

    Cluster c of C takes tiles c, c + C, ... of the order that `ir.tile.order` defines: groups of `raster_group` tiles
    along m, then n, unless `order` names another.
    tiles_m and tiles_n count tiles of one CTA, rounded up to the cluster's shape. Region arguments: m and n tile
    indices, then the carried values. batch: of so many matrices along each of some axes the tiles, one matrix after the
    other; the matrix's index along each follows the tile's two. first_tile: of the order, before which tiles are
    another loop's (0 where absent). together: of so many matrices the tiles are taken together, of fewer at the end
    (`ir.tile.order`), by single CTAs; where it is a number, and only a launch knows how many matrices or tiles there
    are, no group has fewer. handed: 1 if the hardware hands tiles out (`ac.handed`): the grid has a
    CTA for each tile, CTA c begins with tile c, and goes on with what `ac.work.take` in the body says.
    """

    name = "ac.tiles"
    together = opt_prop_def(AnySize)
    handed = opt_prop_def(IntAttr)

    @property
    def matrices_together(self) -> Size | None:
        return None if self.together is None else size_of(self.together)

    carried = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")


@irdl_op_definition
class TurnTilesOp(_OrderedTiles):
    """The persistent loop of a role whose two units take the CTA's tiles in turn: the tile numbered i of the CTA's
    share, `symbol` of them, in the order of `ac.tiles`, is unit i mod 2's.

    turns: a ring of one stage, of which full[0] is unit 0's and empty[0] unit 1's barrier of turns. A unit begins tile
    i > 0 when the other has passed the turn on in tile i - 1 (`ac.turn.pass`). Carried values are cursors; a tile takes
    `skipped` slots (a symbol), and a unit's cursors pass over those of the other's tiles. order, first_tile,
    batch and region arguments as of `ac.tiles`. Behind loops over parts of streamed tiles (`ac.turn_stream_part`) the
    count of what is taken in turn goes on.
    """

    name = "ac.turn_tiles"
    skipped = prop_def(StringAttr)
    turns = operand_def(RingType)
    carried = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")


@irdl_op_definition
class TurnPassOp(AcOperation):
    """The unit has waited for every slot that its tile takes: the other unit's turn has come."""

    name = "ac.turn.pass"
    turns = operand_def(RingType)
    unit = operand_def(IndexType)


class _GroupedTiles(AcOperation):
    """What loops over tiles of rows in groups have in common: the groups, and how their tiles are numbered."""

    LEAD: ClassVar[tuple[str, ...]] = ("over symbol",)
    ARGUMENT_NAMES: ClassVar[tuple[str, ...]] = ("row", "n", "group", "end")

    symbol = prop_def(StringAttr)
    groups = prop_def(IntAttr)
    rows = prop_def(AnySize)
    pitch = prop_def(IntAttr)
    tile_rows = prop_def(IntAttr)
    tiles_n = prop_def(IntAttr)
    raster_group = prop_def(IntAttr)


@irdl_op_definition
class GroupTilesOp(_GroupedTiles):
    """The persistent loop over output tiles where the rows stand in groups, whose sizes are found in memory.

    Group g of `groups` has rows [begin, end). pitch 0: groups follow one another; begin is the end of the group before,
    and end is limits[g], but no less than begin and no more than `rows`. Else group g begins at row g * pitch and has
    limits[g] rows, but no fewer than 0 and no more than `rows`, which is at most pitch. Tiles of `tile_rows` rows
    begin at the group's begin, so that a group has ceil((end - begin) / tile_rows) by `tiles_n` of them, none if it is
    empty. They are numbered group after group, within a group as `ac.tiles` does; CTA c of C takes tiles c, c + C, ...,
    `symbol` of them. Region arguments: the tile's first row, its n tile index, its group, the group's end; then the
    carried values.

    [first row, min(first row + tile_rows, end)) of different tiles with one n are disjoint, whatever `limits` holds.
    """

    name = "ac.group_tiles"
    limits = operand_def(GlobalType)
    carried = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")


@irdl_op_definition
class TurnGroupTilesOp(_GroupedTiles):
    """The tiles of `ac.group_tiles`, taken in turn by a role's two units as those of `ac.turn_tiles`."""

    name = "ac.turn_group_tiles"
    skipped = prop_def(StringAttr)
    limits = operand_def(GlobalType)
    turns = operand_def(RingType)
    carried = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")


@irdl_op_definition
class NextGroupTileOp(AcOperation):
    """Once, directly in the body of `ac.group_tiles`: finding the role's next tile is worked on here, and not at the
    body's end. It means nothing besides."""

    name = "ac.group_tiles.next"


@irdl_op_definition
class LoopOp(AcOperation):
    """Runs its body for index = begin, begin + 1, ..., symbol - 1. Region arguments: index, then the carried values.
    copies: of the body in a row that a turn of the emitted loop has (1 where it is not said); it means nothing
    besides."""

    name = "ac.loop"
    LEAD: ClassVar[tuple[str, ...]] = ("over symbol",)
    ARGUMENT_NAMES: ClassVar[tuple[str, ...]] = ("k",)
    symbol = prop_def(StringAttr)
    begin = prop_def(IntAttr)
    copies = opt_prop_def(IntAttr)
    carried = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")


@irdl_op_definition
class RangeOp(AcOperation):
    """Which part of `most` iterations a tile takes: loops over `symbol` in the rest of this tile run as often as the
    part is long, at least once, whatever the symbol's value is elsewhere. The result is the part's first iteration;
    loops count from 0 on all the same.

    Ends are lines in the tile's row, (scale, offset, divisor): max(scale * row + offset, 0) // divisor. The part begins
    at its line, but no later than the last iteration, and ends before its line, but behind its first and no later than
    `most`.
    """

    name = "ac.range"
    LEAD: ClassVar[tuple[str, ...]] = ("over symbol",)
    symbol = prop_def(StringAttr)
    most = prop_def(AnySize)
    begin = prop_def(ArrayAttr[IntAttr])
    end = prop_def(ArrayAttr[IntAttr])
    row = operand_def(IndexType)
    result = result_def(IndexType)

    def part(self, row: int, most: int) -> tuple[int, int]:
        """The first iteration, and how many there are, in a tile of this row. most: the number that `most` is."""
        begin, end = (Line(*(each.data for each in line)) for line in (self.begin, self.end))
        return walked_part(begin, end, most, row)


@irdl_op_definition
class UnitRangeOp(AcOperation):
    """Takes a tile's iterations over `symbol`, which an `ac.range` before has found, apart for each unit of a role: in
    the rest of this tile, loops over `own` run as often as those that change something in the unit's rows, at least
    once, and loops over `rest` as often as those that are left. Loops count from 0 on.

    A tile has the rows of `tile_units` units, one after another, and of all units `units` have rows. The first tile's
    first `lacking` units (0 where absent) have none, and numbers count from the next one on. A unit without rows has
    one iteration of its own, else those before its line (`RangeOp`) in the number of the unit. first: the tile's first
    iteration.
    """

    name = "ac.unit_range"
    LEAD: ClassVar[tuple[str, ...]] = ("over symbol", "as own", "and rest")
    symbol = prop_def(StringAttr)
    own = prop_def(StringAttr)
    rest = prop_def(StringAttr)
    tile_units = prop_def(IntAttr)
    units = prop_def(AnySize)
    lacking = opt_prop_def(IntAttr)
    end = prop_def(ArrayAttr[IntAttr])
    row = operand_def(IndexType)
    first = operand_def(IndexType)
    unit = operand_def(IndexType)

    def part(self, tile: tuple[int, int], row: int, unit: int, units: int) -> int:
        """How many iterations a unit has of its own, of those of a tile of this row. units: the number that `units`
        is."""
        end = Line(*(each.data for each in self.end))
        return unit_part(end, tile, row * self.tile_units.data + unit - self.units_lacking, units)

    @property
    def units_lacking(self) -> int:
        return 0 if self.lacking is None else self.lacking.data


@irdl_op_definition
class UnitPassOp(AcOperation):
    """Ends the tile for a unit without rows in it, as the `ac.unit_range` right before has found: the unit waits for
    the tile's slots, gives each back as it is, and does nothing of what follows in the body. For any other unit it is
    nothing.

    passed: a ring and a cursor for each value that the loop over tiles carries, in the order in which slots are waited
    for: one of each of the first `staying` rings, then one of each other ring for every iteration over `symbol`. A slot
    is given back before the next is waited for, once the unit's threads have met on named barrier `first_barrier` + its
    number.
    """

    name = "ac.unit_pass"
    LEAD: ClassVar[tuple[str, ...]] = ("over symbol",)
    symbol = prop_def(StringAttr)
    staying = prop_def(IntAttr)
    first_barrier = prop_def(IntAttr)
    unit = operand_def(IndexType)
    passed = var_operand_def()

    @property
    def cursors(self) -> list[tuple[SSAValue, SSAValue]]:
        """Rings, and where the unit stands in them."""
        return list(zip(self.passed[::2], self.passed[1::2], strict=True))


@irdl_op_definition
class YieldOp(AcOperation):
    name = "ac.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
