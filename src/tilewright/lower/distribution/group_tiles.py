"""How a loop over the tiles of groups of rows, whose sizes stand in memory, becomes text.

Every thread of a role walks on its own, and all walk alike: a CTA's tile numbers only grow, so the group that has the
next one is found by going on from the last. The state is (tile number, group, the number of its first tile, where its
rows begin and end, the limit of the group after). A step over a group is a few instructions: the limit that it needs
was loaded one step before, and the load has the whole step, or the whole tile, to arrive.

What the array of limits holds is clamped, so that no contents make tiles meet or leave the array. Extents appear as
immediates of `mov` alone, or are read from parameters.
Source: PTX ISA, ld.global. Checked by: tests/lower/distribution/test_group_tiles.py, and `contract` on the text.
"""

from __future__ import annotations

from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import size_of
from tilewright.lower.distribution.group_walk import GroupWalk, TileRegisters
from tilewright.lower.distribution.turns import TurnWalk
from tilewright.lower.ptx.copies.global_access import displaced_address
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import GlobalPlace, IndexPlace
from tilewright.lower.ptx.run_time import extent_name

_LIMIT_BYTES = 4


def start_walk(lowering: Lowering, op: ac.GroupLoop, ctas: int, turns: TurnWalk | None = None) -> GroupWalk:
    """Before the loop: find the CTA's first tile, or this unit's, where two take turns."""
    text = lowering.text
    limits = lowering.place(op.limits)
    assert isinstance(limits, GlobalPlace)

    def constant(value: int) -> str:
        return text.into("b32", "mov.u32", value)

    def registers() -> TileRegisters:
        return TileRegisters(constant(0), constant(0), constant(0), constant(0))

    walk = GroupWalk(
        op,
        limits.register,
        turns.tile if turns is not None else text.into("b32", "mov.u32", "%ctaid.x"),
        turns.step if turns is not None else constant(ctas),
        constant(0),
        constant(op.groups.data),
        constant(op.groups.data - 1),
        constant(0),
        constant(0),
        constant(0),
        constant(0),
        constant(op.tiles_n.data),
        lowering.passed.register(text, extent_name(size_of(op.rows)), size_of(op.rows)),
        constant(op.pitch.data),
        registers(),
        registers(),
        text.label("group_tiles"),
        text.label("group_tiles_end"),
    )
    first = text.into("b32", "ld.global.b32", f"[{walk.limits}]")
    _take_limit(lowering, walk, first)
    _load_following(lowering, walk)
    _search(lowering, walk)
    lowering.walks[op.body.block] = walk
    return walk


def _take_limit(lowering: Lowering, walk: GroupWalk, limit: str) -> None:
    """`end` from `begin` and the group's limit, which may hold anything."""
    text = lowering.text
    if walk.op.pitch.data:
        count = text.into("b32", "max.s32", limit, 0)
        text.emit("add.s32", walk.end, walk.begin, text.into("b32", "min.s32", count, walk.rows))
    else:
        text.emit("min.s32", walk.end, text.into("b32", "max.s32", limit, walk.begin), walk.rows)


def _load_following(lowering: Lowering, walk: GroupWalk) -> None:
    """The next group's limit, or the last one's again, which is then not used."""
    text = lowering.text
    number = text.into("b32", "min.u32", text.into("b32", "add.u32", walk.group, 1), walk.last)
    address = displaced_address(text, walk.limits, number, _LIMIT_BYTES)
    text.emit("ld.global.b32", walk.following, f"[{address}]")


def open_tile(lowering: Lowering, walk: GroupWalk) -> tuple[IndexPlace, ...]:
    """At the loop's head: leave the loop if no tile was found. The four indices of the tile."""
    text, found, current = lowering.text, walk.found, walk.current
    text.place(walk.head)
    text.emit("bra", walk.done, guard=text.into("pred", "setp.ge.u32", walk.group, walk.groups))
    for register, source in (
        (current.row, found.row),
        (current.column, found.column),
        (current.group, walk.group),
        (current.end, walk.end),
    ):
        text.emit("mov.u32", register, source)
    return IndexPlace(current.row), IndexPlace(current.column), IndexPlace(current.group), IndexPlace(current.end)


def find_next(lowering: Lowering, walk: GroupWalk) -> None:
    """Inside the loop: find the CTA's next tile, while this one is being worked on."""
    lowering.text.emit("add.u32", walk.tile, walk.tile, walk.step)
    _search(lowering, walk)


def close_tile(lowering: Lowering, walk: GroupWalk) -> None:
    """At the loop's end: on to the tile that was found."""
    lowering.text.emit("bra", walk.head)
    lowering.text.place(walk.done)


def _search(lowering: Lowering, walk: GroupWalk) -> None:
    """Go on to the group that has the tile; if there is none, past the last."""
    text, op = lowering.text, walk.op
    found, following, end = text.label("group_found"), text.label("group"), text.label("groups_end")
    text.place(following)
    text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", walk.group, walk.groups))
    length = text.into("b32", "sub.s32", walk.end, walk.begin)
    tile_rows = op.tile_rows.data
    tiles_m = text.into("b32", "div.u32", text.into("b32", "add.u32", length, tile_rows - 1), tile_rows)
    count = text.into("b32", "mul.lo.u32", tiles_m, walk.tiles_n)
    number = text.into("b32", "sub.u32", walk.tile, walk.first)
    text.emit("bra", found, guard=text.into("pred", "setp.lt.u32", number, count))
    text.emit("add.u32", walk.first, walk.first, count)
    text.emit("add.u32", walk.group, walk.group, 1)
    if op.pitch.data:
        text.emit("add.u32", walk.begin, walk.begin, walk.pitch)
    else:
        text.emit("mov.u32", walk.begin, walk.end)
    _take_limit(lowering, walk, walk.following)
    _load_following(lowering, walk)
    text.emit("bra", following)
    text.place(found)
    row_tile, column = _raster(lowering, walk, number, tiles_m)
    text.emit("mad.lo.u32", walk.found.row, row_tile, tile_rows, walk.begin)
    text.emit("mov.u32", walk.found.column, column)
    text.place(end)


def _raster(lowering: Lowering, walk: GroupWalk, number: str, tiles_m: str) -> tuple[str, str]:
    """(m, n) of a tile's number within its group: bands of `raster_group` tiles along m, m running fastest in each."""
    text, band_rows = lowering.text, walk.op.raster_group.data
    band_tiles = text.into("b32", "mul.lo.u32", walk.tiles_n, band_rows)
    band = text.into("b32", "div.u32", number, band_tiles)
    above = text.into("b32", "mul.lo.u32", band, band_rows)
    within = text.into("b32", "sub.u32", number, text.into("b32", "mul.lo.u32", band, band_tiles))
    height = text.into("b32", "min.u32", text.into("b32", "sub.u32", tiles_m, above), band_rows)
    column = text.into("b32", "div.u32", within, height)
    rest = text.into("b32", "sub.u32", within, text.into("b32", "mul.lo.u32", column, height))
    return text.into("b32", "add.u32", above, rest), column
