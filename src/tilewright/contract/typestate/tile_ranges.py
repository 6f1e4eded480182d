"""Does the proof hold where each tile has its own number K of iterations (`ac.range`), and not all tiles the same?

All roles go through one order of tiles, and what a tile's K is follows from its row alone, so that they agree on it. In
the walk K is a symbol: positions and counts are polynomials, in which the tile's counter occurs at most once, with K or
by itself. Where tiles differ, read K within a tile as that tile's, and (tiles before) * K as the sum of theirs. Sums
and differences of polynomials, and moves from an iteration to the next, are the same under this reading, and what is
never negative for all K and all numbers of tiles stays so. Hence what roles agree on as polynomials they agree on here.

Deadlock. All that roles do with rings they do inside their loops over tiles, where each moves a ring by as many slots
in a tile as the others. So what waits in a tile waits for something in the same tile, or in one before: the fill of its
slot, and the release of a slot some places back. If no role stops in a tile by itself, with all slots free at its
begin, none stops in the first tile, nor, once all have done so many tiles, in the next; slots that are not free there
are ones that tiles before release. That is what `liveness` is asked: of one tile, for any K.

A role's units may take a tile's iterations apart (`ac.unit_range`): own ones, and those that are left. Each unit has
its own split of one sum. So K is never a symbol by itself then, but `own` + `rest`, two numbers of which nothing is
known but own >= 1 and rest >= 0. What holds for all values of both holds for each unit: its positions are those of all,
and who waits for it counts slots, not iterations. No other role knows of the split, so what roles agree on depends on
the sum alone. A circle of waits may pass several units, each with its own split: its tokens are counted arc by arc, the
least of each for all values, and neither taken apart by loops (`distances`), whose iterations units number differently,
nor added up as polynomials (`symbolic_cycles`).

How many tiles of rows, and units with rows, there are, only the launch may know: the argument is for any number, and of
lines it is asked that they fit words at the most.

A unit without rows in a tile may pass all of its slots instead (`ac.unit_pass`). Of each ring it waits for as many as
others do and gives back as many, in the same order. It has read nothing, and gives each slot back before it waits for
the next one. By `check_passing` it has waited for no more slots before a release than a unit that walks all (`rest` is
0) has before the same one. So a circle of waits through it would be one through such a unit, too, and there is none.

Not handled (doubts): units with iterations of their own that issue in an order, in several roles or in tensor memory;
units that pass tiles, or that the first tile lacks, where only the launch knows how many tiles of rows there are;
clusters, several such symbols, loops over them elsewhere, sides of a ring that several roles wait on, uses of rings
outside the loops over tiles.
Checked by: tests/contract/typestate/test_tile_ranges.py and test_ring_programs.py (every interleaving).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tilewright.base.size import bounds, value_of
from tilewright.contract.typestate.claims import RangeClaim
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.polynomial import Polynomial, variable
from tilewright.contract.typestate.program import Kernel, Ring, integers
from tilewright.contract.typestate.run_time_sizes import most_of, ranges_at
from tilewright.contract.typestate.summary import WAIT, RoleSummary
from tilewright.contract.typestate.token import Cursor, Index
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.issue_order import IssueOrderStartOp
from tilewright.ir.sizes import size_of, sizes_of
from tilewright.ir.tile.order import TileOrder, matrix_of, place_in_order

_INDEX_END = 1 << 31
_LINE = 3
"""Numbers of a line: scale, offset, divisor."""


def range_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it takes a part of a loop's range: the part's first iteration is a number of its own."""
    if isinstance(op, ac.UnitRangeOp):
        walk.indices(op, [op.row, op.first])
        walk.require_unit(op, op.unit)
        return True
    if isinstance(op, ac.UnitPassOp):
        _pass_step(walk, op)
        return True
    if not isinstance(op, ac.RangeOp):
        return False
    walk.indices(op, [op.row])
    atom = walk.name_of(op)
    walk.summary.trips[atom] = most_of(op.most, op)
    walk.give(op, op.result, Index(((atom, 1),)))
    return True


def _pass_step(walk: RoleWalk, op: ac.UnitPassOp) -> None:
    """A unit without rows passes the tile's slots: it has the cursors with which the tile begins, of other rings each,
    and nothing else is carried. What it does is held against what a unit with rows does once that is known
    (`check_passing`)."""
    walk.require_unit(op, op.unit)
    tile, before = op.parent_op(), op.prev_op
    if not isinstance(tile, ac.TilesOp) or not isinstance(before, ac.UnitRangeOp) or op.symbol != before.symbol:
        walk.findings.doubt("passes a tile that no ac.unit_range right before has found", op)
        return
    if len(op.passed) % 2 or not 0 <= op.staying.data <= len(op.passed) // 2 or op.first_barrier.data < 1:
        walk.findings.doubt("passes something else than rings with their cursors", op)
        return
    names: list[str] = []
    for value, cursor in op.cursors:
        ring, token = walk.ring_of(op, value), walk.look(op, cursor)
        if ring is None or not isinstance(token, Cursor) or (token.ring, token.side) != (ring.name, "full"):
            walk.findings.doubt("passes slots by no cursor of theirs", op)
            return
        names.append(ring.name)
    carried = tile.body.block.args[tile.indices :]
    if len(set(names)) < len(names) or {cursor for _, cursor in op.cursors} != set(carried):
        walk.findings.doubt("passes a tile of which something else is carried on", op)


def check_passing(kernel: Kernel, roles: Sequence[RoleSummary], findings: Findings) -> None:
    """Doubt units without rows that pass other slots than those with rows, or give one back later. roles: what they do
    in one tile."""
    for op in kernel.operations.of(ac.UnitPassOp):
        (role,) = (each for each in roles if each.role.op.is_ancestor(op))
        names = [ring.name for value, _ in op.cursors if isinstance(ring := kernel.declared.get(value), Ring)]
        staying, walked = names[: op.staying.data], names[op.staying.data :]
        counts = dict.fromkeys(staying, Polynomial() + 1) | dict.fromkeys(walked, kernel.count_of(op.symbol.data))
        waited = {name: role.total(f"{WAIT}{name}:full") for name in names}
        if waited != counts or role.role.op.execution.unit.data != "warpgroup128":
            findings.doubt(f"passes {counts} slots of a tile, of which others wait for {waited}", op)
            return
        for event in role.events:
            if event.ring not in names:
                findings.doubt(f"passes a tile in which others use ring {event.ring}", op)
                return
            if event.kind == "release":
                at = names.index(event.ring)
                for place, name in enumerate(names):
                    # Waits of a unit that passes, before it gives back the slot at this position.
                    before_it = name in walked and event.ring in walked
                    needed = (event.position if before_it else Polynomial()) + int(place <= at)
                    before = event.waited.get((name, "full"), Polynomial())
                    if not (before - needed).is_never_negative(kernel.minima):
                        findings.doubt(
                            f"gives back a slot of {event.ring} after slots of {name} that others need not", op
                        )
                        return


def check_ranges(kernel: Kernel, shared: frozenset[tuple[str, str]], findings: Findings) -> None:
    """Doubt ranges on which roles may disagree, or that other loops would have to know of. shared: sides of rings on
    which several roles wait."""
    ranges = kernel.operations.of(ac.RangeOp)
    _check_units(kernel, ranges, findings)
    if not ranges:
        return
    symbol = ranges[0].symbol.data
    if kernel.cluster_ctas != 1 or shared:
        findings.doubt("tiles of different lengths in a cluster, or slots that several roles wait for", ranges[0])
    if len({(op.symbol, op.most, op.begin, op.end) for op in ranges}) > 1:
        findings.doubt("roles take different parts of a tile's range", ranges[-1])
    for op in ranges:
        _check_range(kernel, op, findings)
    _check_users(kernel, symbol, ranges, findings)
    for role in kernel.roles:
        loops = role.operations.of(ac.TilesOp)
        if len(loops) > 1 or any(op.parent is not role.op.body.block for op in loops):
            findings.doubt("several loops over tiles of different lengths in a role", role.op)


def _check_users(
    kernel: Kernel, symbol: str, makers: Sequence[ac.RangeOp] | Sequence[ac.UnitRangeOp], findings: Findings
) -> None:
    """Doubt what counts to a symbol and does not stand in a loop over tiles, behind the one that says how far."""
    for op in kernel.op.walk():
        if isinstance(op, ac.RangeOp | ac.UnitRangeOp | ac.UnitPassOp) or symbol not in _symbols_of(op):
            continue
        before = [each for each in makers if each.parent is op.parent and each.is_before_in_block(op)]
        if not isinstance(op, ac.LoopOp) or not isinstance(op.parent_op(), ac.TilesOp) or len(before) != 1:
            findings.doubt(
                f"counts to {symbol}, of which each tile has its own, without an {makers[0].name} before", op
            )


def _check_units(kernel: Kernel, ranges: Sequence[ac.RangeOp], findings: Findings) -> None:
    """Doubt iterations that units have apart where the split may be no split of the tile's, or others know of it."""
    found = kernel.operations.of(ac.UnitRangeOp)
    if not found:
        return
    op = found[0]
    if len(found) > 1:
        findings.doubt("several places take a tile's iterations apart for units", found[-1])
    if kernel.operations.of(IssueOrderStartOp) or kernel.tensor_memory is not None:
        findings.doubt("units with iterations of their own that issue in an order, or in tensor memory", op)
    counted = {loop.symbol.data for loop in kernel.operations.of(ac.TilesOp)}
    names = (op.symbol.data, op.own.data, op.rest.data)
    if len({*names, *counted}) != len(names) + len(counted):
        findings.doubt(f"one symbol for several of {names} and tiles", op)
    for name in names[1:]:
        _check_users(kernel, name, found, findings)
    before = [each for each in ranges if each.parent is op.parent and each.is_before_in_block(op)]
    tile = op.parent_op()
    if not isinstance(tile, ac.TilesOp) or len(before) != 1 or op.symbol != before[0].symbol:
        findings.doubt("takes iterations apart that no ac.range before it has found", op)
        return
    if op.first is not before[0].result or op.row is not before[0].row:
        findings.doubt("takes apart the iterations of something else than its tile", op)
    rows = most_of(tile.tiles_m, op)
    passing = op.units_lacking or kernel.operations.of(ac.UnitPassOp)
    if passing and bounds(size_of(tile.tiles_m), ranges_at(op)) != (rows, rows):
        findings.doubt("units that pass tiles of which only the launch knows how many there are", op)
    line, units = integers(op.end), op.tile_units.data
    fits = _fits(line, rows * units - 1) and _fits(line, -op.units_lacking)
    with_rows = most_of(op.units, op)
    if units < 1 or not fits or not 0 <= with_rows < _INDEX_END or not 0 <= op.units_lacking < units:
        findings.doubt(f"iterations of {units} units a tile before a line {line}", op)
    least, most = ([side.get(name, -1) for name in names] for side in (kernel.minima, kernel.symbols))
    if least[1:] != [1, 0] or most[1] < most[0] or most[2] < most[0] - 1:
        findings.doubt(f"{names} are at least {least}, and here {most}", op)


def _symbols_of(op: Operation) -> set[str]:
    named = (op.properties.get(name) for name in ("symbol", "skipped", "slices"))
    return {str(value.data) for value in named if isinstance(value, StringAttr)}


def _check_range(kernel: Kernel, op: ac.RangeOp, findings: Findings) -> None:
    loop, symbol, lines = op.parent_op(), op.symbol.data, [integers(line) for line in (op.begin, op.end)]
    if not isinstance(loop, ac.TilesOp) or op.row is not loop.body.block.args[0] or loop.first:
        findings.doubt("takes a part of something else than the row of a tile", op)
        return
    least, most = bounds(size_of(op.most), ranges_at(op))
    if any(len(line) != _LINE or line[-1] < 1 for line in lines) or not 1 <= least <= most < _INDEX_END:
        findings.doubt(f"a part of {least} to {most} iterations between lines {lines}", op)
        return
    rows = most_of(loop.tiles_m, op)
    if not all(_fits(line, rows - 1) for line in lines):
        findings.doubt("a line that passes what 32 bits hold", op)
    # Of fewer tiles of rows none has more, and of fewer iterations in all no part is longer.
    longest = max(op.part(row, most)[1] for row in range(rows))
    if kernel.symbols.get(symbol, 0) < longest:
        findings.doubt(f"a tile has {longest} iterations, and {symbol} is {kernel.symbols.get(symbol, 0)}", op)
    if kernel.minima.get(symbol, 1) > 1:
        findings.doubt(f"a tile may have one iteration, and {symbol} has the minimum {kernel.minima[symbol]}", op)


def _fits(line: Sequence[int], last: int) -> bool:
    """Whether it is a line whose numbers, from that of 0 to that of `last`, fit 32 bits."""
    if len(line) != _LINE or line[-1] < 1:
        return False
    scale, offset, divisor = line
    return max(map(abs, (scale, offset, scale * last + offset, divisor))) < _INDEX_END


def tiles_alone(kernel: Kernel, roles: Sequence[RoleSummary], findings: Findings) -> Sequence[RoleSummary]:
    """What roles do in one tile, where tiles differ; else the roles as they are."""
    if not kernel.operations.of(ac.RangeOp):
        return roles
    symbols = {loop.symbol.data for loop in kernel.operations.of(ac.TilesOp)}
    if len(symbols) != 1:
        findings.doubt("roles count tiles of different lengths by several symbols")
        return roles
    (symbol,) = symbols
    return [_in_one_tile(role, symbol, findings) for role in roles]


def _in_one_tile(role: RoleSummary, symbol: str, findings: Findings) -> RoleSummary:
    counters = {event.counters[0] for event in role.events if event.counters}
    if any(not event.counters for event in role.events) or any(each.symbol != symbol for each in counters):
        findings.doubt("uses rings outside its loop over tiles of different lengths", role.role.op)
        return role

    def alone(number: Polynomial) -> Polynomial:
        for counter in counters:
            number = number.put(counter.name, 0)
        return number.put(symbol, 1)

    def waits(counts: dict[tuple[str, str], Polynomial]) -> dict[tuple[str, str], Polynomial]:
        return {key: alone(count) for key, count in counts.items()}

    events = [
        replace(
            event,
            position=alone(event.position),
            number=None if event.number is None else alone(event.number),
            waited=waits(dict(event.waited)),
            counters=event.counters[1:],
        )
        for event in role.events
    ]
    loops = [
        replace(loop, counters=loop.counters[1:], waited=waits(dict(loop.waited)), moved=waits(dict(loop.moved)))
        for loop in role.loops
        if len(loop.counters) > 1
    ]
    totals = {event: alone(count) for event, count in role.totals.items()}
    return replace(role, events=events, loops=loops, totals=totals)


def of_tiles(kernel: Kernel, count: Polynomial) -> Polynomial:
    """A count in the iterations of tiles, not of units; with a unit's own left in it where it depends on these."""
    for op in kernel.operations.of(ac.UnitRangeOp):
        count = count.put(op.rest.data, variable(op.symbol.data) - variable(op.own.data))
    return count


def range_claim(kernel: Kernel, extents: Mapping[str, int]) -> RangeClaim | None:
    """How long each CTA's tiles are, where they differ. extents: of run-time axes, the largest of those not given."""
    ranges = kernel.operations.of(ac.RangeOp)
    if not ranges:
        return None
    op = ranges[0]
    loop = op.parent_op()
    assert isinstance(loop, ac.TilesOp)
    at = {axis: values.most for axis, values in ranges_at(op).items()} | dict(extents)
    tiles = value_of(size_of(loop.tiles_m), at), value_of(size_of(loop.tiles_n), at)
    order = cast("TileOrder", "grouped" if loop.order is None else loop.order.data)  # one that `program` has checked
    lengths = [op.part(row, value_of(size_of(op.most), at))[1] for row in range(tiles[0])]
    of_matrix = [
        lengths[place_in_order(number, *tiles, loop.raster_group.data, order)[0]] for number in range(prod(tiles))
    ]
    together = None if loop.matrices_together is None else value_of(loop.matrices_together, at)
    ctas = prod(value_of(each, at) for each in sizes_of(kernel.op.grid))
    matrices = value_of(loop.matrices, at)
    numbers = range(prod(tiles) * matrices)
    by_number = tuple(of_matrix[matrix_of(number, prod(tiles), together, matrices)[1]] for number in numbers)
    return RangeClaim(op.symbol.data, loop.symbol.data, by_number, ctas, together)
