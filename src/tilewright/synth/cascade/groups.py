"""What is decided of a walk whose rows stand in groups of sizes that only memory knows (mixtures of experts)?

Tiles begin where groups begin, so a group of r rows has ceil(r / tile rows) rows of tiles, half a tile more than
r / tile rows on the average. The group is a place of a batch to whatever has one part for each, such as weights, and
rows end inside a tile, so that results leave by plain stores along rows. What is known are extents: the mean group.

Not handled: groups besides another batch, values folded along rows, results that are not over rows and columns, of 8
bits, or not contiguous along the columns, rows that lie in blocks, numbers of rows as values. Checked by:
tests/synth/cascade/test_groups.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.ir.cascade import CascadeDecisions, SlotDecision
from tilewright.ir.cascade_facts import CascadeAxes, refuse_at, refuse_map
from tilewright.ir.group_rows import GroupDecision, group_pitches, multiplied_alike
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import grouping, index_offset, loads, parameter_name, stores
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.types import axes_text, tensor_type
from tilewright.synth.tile.wanted import Wanted


def group_decision(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    slots: Sequence[SlotDecision],
    in_vectors: tuple[str, ...],
) -> tuple[GroupDecision, ...]:
    """The groups of a program's rows; none where rows stand in no groups. in_vectors: results that leave 16 bytes at a
    time. Raises TilewrightError at the author's line for what is not handled."""
    groups = grouping(program)
    if groups is None:
        return ()
    folded = any(isinstance(op, ReduceOp) for op in program.walk())
    if folded or axes.batch != (groups.group,) or axes.row != groups.ragged or axes.further:
        refuse_at(
            program,
            f"groups of {groups.ragged} in a program that does more than sum products of these rows over one axis",
            "give one product or several of the same rows in one loop, with an epilogue",
        )
    pitches = group_pitches(program, groups) if groups.kind == "within" else {0: ""}
    if len(pitches) != 1 or (groups.kind == "within" and min(pitches) < program.extents[groups.ragged]):
        refuse_at(
            program,
            f"groups of {groups.ragged} stand differently far apart in {' and '.join(pitches.values())}",
            "give arrays whose groups lie at one whole number of rows apart, such as contiguous ones",
        )
    for op in program.walk():
        if isinstance(op, tile.PositionOp):
            refuse_at(op, "an index used as a number in groups is not compiled yet", "load it from a tensor")
    for load in loads(program):
        if any(index_offset(index) for index in load.indices):
            name = parameter_name(program, load.tensor)
            refuse_at(load, f"{name} is displaced in groups", "displace it in a kernel before")
    listed = loads(program)
    for slot in slots:
        if slot.inner == axes.row:
            # The engine takes coordinates along it in multiples of 16 bytes.
            words = f"{slot.buffer} is contiguous along {axes.row}, whose groups begin at any row"
            refuse_map(listed[slot.load], slot.buffer, words, f"give it rows along {axes.streamed}", axes.streamed)
        if slot.page or slot.lookups:
            refuse_at(program, f"{slot.buffer} is read in groups where integers say", "gather it in a kernel before")
    (pitch,) = pitches
    for slot in slots:
        brought = loads(program)[slot.load]
        if alike := multiplied_alike(program, brought, groups):
            refuse_at(brought, *alike)
    for store in stores(program):
        _check_rows(program, axes, store, groups.group if pitch else "")
    return (GroupDecision(groups.group, groups.bounds, pitch, in_vectors),)


def _check_rows(program: tile.ProgramOp, axes: CascadeAxes, store: tile.StoreOp, apart: str) -> None:
    """Refuse a result that has no whole rows of columns. apart: the axis of groups that it has, too."""
    tensor, name = tensor_type(store.tensor), parameter_name(program, store.tensor)
    if tensor.element_kind.bytes == 1:
        words = f"{name} of 8-bit elements, behind rows in groups"
        refuse_at(store, words, "store 16-bit elements, and round them in a kernel after")
    expected = (*([apart] if apart else []), axes.row, axes.column)
    if tensor.axis_names != expected or tensor.stride_elements[-1] != 1:
        shown = axes_text(tensor.axis_names)
        refuse_at(
            store,
            f"{name} over {shown} is not contiguous along {axes.column}, behind rows in groups",
            f"give a result over {axes_text(expected)}, whose columns are contiguous",
        )


def begins_early_in_groups(wanted: Wanted, *, read_once: bool) -> int:
    """1 where a kernel begins before the one before it ends.

    CTAs that begin as others end are spread over the multiprocessors anyhow, and neighbours no longer fetch the same
    weights side by side (measured: up to 20 % longer, and no more than 1 % shorter). Weights that one tile of rows
    reads have no neighbours, and begin to come sooner (1 to 2 % shorter, in a race by the wish)."""
    return int(read_once if wanted.programmatic is None else wanted.programmatic)


def tile_count(
    program: tile.ProgramOp, row: tuple[str, int], column: tuple[str, int], batch: Sequence[str]
) -> int:  # fmt: skip
    """Tiles of a program, to be expected where its rows stand in groups: a group's last one is half full on the
    average, and no group that has a row has none. row, column: axes, and elements of a tile along them."""
    sides = [(axis, size) for axis, size in (row, column) if axis]
    groups = grouping(program)
    if groups is None:
        places = math.prod(program.extents[axis] for axis in batch)
        return places * math.prod(-(-program.extents[axis] // size) for axis, size in sides)
    axis, size = row
    # Groups that stand apart have room for so many rows each, and rarely as many.
    rows = program.extents[axis] * (program.extents[groups.group] if groups.kind == "within" else 1)
    occupied = min(program.extents[groups.group], rows)
    of_rows = math.ceil(occupied * max(1.0, rows / occupied / size + 0.5))
    return of_rows * math.prod(-(-program.extents[axis] // size) for axis, size in sides[1:])


def tiles_of(program: tile.ProgramOp, d: CascadeDecisions) -> int:
    """`tile_count` of a decided program."""
    ctas = d.cluster[0] if d.pair else 1
    return ctas * tile_count(program, (d.row, ctas * d.row_step), (d.column, d.column_step), d.batch)
