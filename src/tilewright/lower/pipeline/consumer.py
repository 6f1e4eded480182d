"""The consumer role of a pipeline: sum the products of a tile's slots, release each slot in time, hand the sum on.

Software pipelining: a slot is released some products late (`release_distance`), when the wgmma group that read it is
known to be done while later ones run; at distance 0 each product is waited for. The first iterations are peeled, since
they have nothing to release and the very first overwrites the accumulator.
Checked by: tests/lower/test_ptx_text.py and test_values.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tile import operations as tile
from tilewright.lower.build import Build, counted_loop, new_role
from tilewright.lower.distribution.issue_order import end_issue_order, start_issue_order
from tilewright.lower.distribution.split_product import Share, meet, share_of_result, split_index, start_meetings
from tilewright.lower.distribution.stream_product import Section, add_partial, sections, store_partial
from tilewright.lower.distribution.team_sum import stored_by_last, sum_of_teams
from tilewright.lower.distribution.tile_place import TilePlace, open_tiles
from tilewright.lower.distribution.turns import pass_turn
from tilewright.lower.pipeline.epilogue import Pipeline, add_epilogue, free_staging, load_ahead
from tilewright.lower.pipeline.product import multiply
from tilewright.lower.pipeline.slots import advance, release, start_cursor, wgmma_wait
from tilewright.lower.program import Counts
from tilewright.lower.staged_store import bulk_wait
from tilewright.lower.two_levels import add_product, read_total, start_total


def add_consumer(
    build: Build,
    program: tile.ProgramOp,
    d: PipelineDecisions,
    p: Pipeline,
    counts: Counts,
    arrays: dict[str, SSAValue],
) -> None:
    role, unit = new_role(build, "consumer", "warpgroup128", d.consumers, 128, d.consumer_registers)
    p = replace(p, order=start_issue_order(role, d, unit))
    start = start_cursor(role, p.ring, "full")
    share = split_index(role, d.split_sum)
    stored = share_of_result(role, d.split_sum, share)
    carried: Sequence[SSAValue] = [start, *start_meetings(role, p.meeting)]
    for section in sections(d.stream):
        opened = open_tiles(role, d, counts, carried, p.turns, section)
        _consume(opened, program, d, p, unit, section, arrays, stored, counts)
        carried = opened[0].results()
    end_issue_order(role, p.order, unit)
    if d.staging_slots:
        # Shared memory must outlive the copies out of it; what they write is seen when the grid has ended.
        role.add(bulk_wait(unit, 0, read=True))


def _consume(
    opened: tuple[Build, TilePlace, Sequence[SSAValue]],
    program: tile.ProgramOp,
    d: PipelineDecisions,
    p: Pipeline,
    unit: SSAValue,
    section: Section,
    arrays: dict[str, SSAValue],
    stored: Share,
    counts: Counts,
) -> None:
    """A tile, or a part of a streamed one: its sum, and what is made of it. stored: which part of its result is this
    CTA's. counts: of tiles along rows and columns."""
    outer, place, (cursor, *meetings) = opened
    stored = stored_by_last(outer, d.team_sum, stored, place.team)
    ahead: dict[tile.LoadOp, SSAValue] = {}
    freed = False
    if d.promoted:
        ahead = load_ahead(outer, program, d, unit, place, arrays, stored)
        last_cursor, settled = _promoted(outer, d, p, unit, cursor)
    else:
        accumulator, first = multiply(outer, d, p, unit, cursor, None)
        # Issued beside a product that runs, so that nothing waits for it.
        ahead = {} if section.part == "head" else load_ahead(outer, program, d, unit, place, arrays, stored)
        following, running, held = _summed(outer, d, p, unit, place, cursor, accumulator, first)
        pass_turn(outer, p.turns, unit)
        if p.meeting is None and p.sums is None:
            freed = free_staging(outer, d, unit)
        last_cursor, settled = following, _drained(outer, d, running, held)
    meetings, total = meet(outer, d.split_sum, p.meeting, meetings, settled, unit)
    if section.part == "head" and p.sums is not None and place.number is not None:
        store_partial(outer, p.sums, total, place.number, unit)
    else:
        if p.sums is not None and place.number is not None:
            total = add_partial(outer, p.sums, total, place.number, unit)
        total = sum_of_teams(outer, d.team_sum, p.sums, counts, total, (place.row, place.column, place.team), unit)
        add_epilogue(outer, program, d, p, unit, place, total, arrays, stored, ahead, freed=freed)
    outer.add(ac.YieldOp.create(operands=[last_cursor, *meetings]))


def _summed(
    build: Build,
    d: PipelineDecisions,
    p: Pipeline,
    unit: SSAValue,
    place: TilePlace,
    cursor: SSAValue,
    accumulator: SSAValue,
    reading: SSAValue,
) -> tuple[SSAValue, SSAValue, Sequence[SSAValue]]:
    """A tile's sum by the tensor core alone, after its first slice; (cursor, accumulator, and slots of the products
    that may still be in flight, the oldest first)."""
    distance = d.release_distance
    queue = [reading]
    while len(queue) < distance:
        cursor = advance(build, cursor)
        accumulator, newly = multiply(build, d, p, unit, cursor, accumulator)
        queue.append(newly)
    if distance == 0:
        release(build, d, build.value(wgmma_wait(0, queue.pop(), None)))
    entering = [advance(build, cursor), accumulator, *queue]
    inner, loop, loop_op = counted_loop(build, max(1, distance), entering, symbol=place.slices)
    _, position, running, *held = loop.args
    updated, newly = multiply(inner, d, p, unit, position, running)
    oldest, *kept = *held, newly
    release(inner, d, inner.value(wgmma_wait(distance, oldest, None)))
    inner.add(ac.YieldOp.create(operands=[advance(inner, position), updated, *kept]))
    following, last_accumulator, *last = loop_op.outputs
    return following, last_accumulator, last


def _drained(build: Build, d: PipelineDecisions, running: SSAValue, held: Sequence[SSAValue]) -> SSAValue:
    """The settled accumulator, once every product is done; each slot is released as soon as its own is."""
    if not held:
        return build.value(wgmma_wait(0, None, running))
    *older, newest = held
    for number, reading in enumerate(older):
        release(build, d, build.value(wgmma_wait(len(older) - number, reading, None)))
    wait = wgmma_wait(0, newest, running)
    build.add(wait)
    release(build, d, wait.results[0], first=bool(d.releases_first))
    return wait.results[1]


def _promoted(
    build: Build, d: PipelineDecisions, p: Pipeline, unit: SSAValue, cursor: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """A tile's sum of products of slots that threads add up; (cursor, settled total).

    A turn of the loop takes as many slots as there are partial products: the tensor core multiplies one while the
    threads add the one before, and all are added at the turn's end (an assembler gives up on products in flight round a
    loop whose registers are read).
    """
    part = (d.unit_rows, d.tile_n)
    inner, loop, loop_op = counted_loop(build, 0, [cursor, start_total(build, *part)])
    _, position, total = loop.args
    products: list[tuple[SSAValue, SSAValue]] = []
    for _ in range(d.partials):
        products.append(multiply(inner, d, p, unit, position, None))
        position = advance(inner, position)
    for number, (partial, reading) in enumerate(products):
        wait = wgmma_wait(d.partials - 1 - number, reading, partial)
        inner.add(wait)
        release(inner, d, wait.results[0])
        total = add_product(inner, total, wait.results[1])
    inner.add(ac.YieldOp.create(operands=[position, total]))
    return loop_op.outputs[0], read_total(build, *part, loop_op.outputs[1])
