"""Which small instance stands for the kernel that copies operands first, and what does it leave to the product's?

The two kernels of such a program are run apart, each in an instance of its own. The product's instance has tiles, and
its operands as many points as these ask for; threads that copy a run of points at a time do all the same work after a
few rounds. Between the two stand the workspaces. Of the copies' instance it is asked that every element of a workspace
is written; in the product's, their elements hold something when it begins, and the bytes between and behind them do
not, as the launch before it, whose end it waits for, leaves them. So a read of what was not copied is refuted there,
and an element that is not copied is refuted here, each for the extents that stand for the large ones.

The copies' instance has two CTAs, or as many more as it takes for what follows. A thread goes round a loop over pairs
of runs, then round one over single runs. The extents along rows and columns are those with which it goes round the
first as often as in the program, but at most twice, and with which what is left is taken as it is there: as single runs
alone, or by some threads as a pair, by others as a single one. So whoever may skip a loop there may do so here; where a
row of the instance has more runs than two CTAs have threads, it has more of them, since else nobody would skip the loop
over pairs. Where tiles are turned, each warp takes two tiles, so that its shared memory is used again, and some a
third. The contracted extent is the product's. Remainders by a run, or by the side of a turned tile, are the program's,
and so are all strides: rows begin at addresses of every alignment that they have there. Extents that differ in the
program differ in the instance, so that one in the place of another shows.

Not handled: rows in groups (one instance stands for both kernels then); what is left over of programs for which
_CTAS_MOST CTAs do not suffice.
Checked by: tests/driver/reproof/test_small_copies.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.plan import Buffer
from tilewright.contract.history.byte_ranges import without
from tilewright.driver.reproof.small import reduced_extent, small_extents, small_instance
from tilewright.ir.decisions import RUN_BYTES, OperandDecision, PipelineDecisions, decisions_of, to_attribute
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import the_program
from tilewright.machine.core.event import Ranges

_CTAS = 2
_CTAS_MOST = 16
_PAIRED = 2
"""Runs that a thread has in flight at once."""
_ROUNDS = 2
"""How often each thread goes round the loop over as many runs, at most, or each warp takes a tile; some more often."""


def copies_apart(program: tile.ProgramOp) -> bool:
    """Does a kernel of its own copy operands of this decided program first, and is it run apart?"""
    decisions = decisions_of(program.attributes["decisions"])
    if not isinstance(decisions, PipelineDecisions):
        return False
    return any(item.materialized for item in (decisions.a, decisions.b))


def copied_workspaces(program: tile.ProgramOp) -> frozenset[str]:
    """The arrays that the kernel which copies operands first writes."""
    d = decisions_of(program.attributes["decisions"])
    assert isinstance(d, PipelineDecisions)
    return frozenset(item.buffer for item in (d.a, d.b) if item.materialized)


@dataclass(frozen=True, slots=True)
class CopiesInstance:
    """extents: by axis; ctas: that copy."""

    extents: Mapping[str, int]
    ctas: int


def small_copies(program: tile.ProgramOp) -> CopiesInstance:
    """The copies' instance of a program whose operands are copied first."""
    d = decisions_of(program.attributes["decisions"])
    assert isinstance(d, PipelineDecisions)
    least = min(d.fill_ctas, _CTAS)
    for ctas in range(least, min(d.fill_ctas, _CTAS_MOST) + 1):
        found = _copied_extents(program, d, ctas, or_nearest=False)
        if found is not None:
            return CopiesInstance(found, ctas)
    found = _copied_extents(program, d, least, or_nearest=True)
    assert found is not None
    return CopiesInstance(found, least)


def _copied_extents(
    program: tile.ProgramOp, d: PipelineDecisions, ctas: int, *, or_nearest: bool
) -> dict[str, int] | None:
    """Extents with which threads of so many CTAs do what those of the program do; None if there are none. or_nearest:
    the largest that were looked at, then."""
    extents = program.extents
    found = small_extents(program)
    for axis, other, operands in ((d.rows, d.columns, (d.a,)), (d.columns, d.rows, (d.b,))):
        taken = frozenset({found[other]}) if extents[axis] != extents[other] else frozenset[int]()
        copied = [item for item in operands if item.materialized]
        if copied:
            asked = _Asked(axis, extents, dict(found), taken, ctas)
            sizes = [_outer_extent(d, item, asked, or_nearest=or_nearest) for item in copied]
            if None in sizes:
                return None
            found[axis] = max(size for size in sizes if size is not None)
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """How much of an axis is left? extents: the program's; found: the instance's; taken: those of it that stand for
    another one; ctas: the instance's."""

    axis: str
    extents: Mapping[str, int]
    found: Mapping[str, int]
    taken: frozenset[int]
    ctas: int


def _outer_extent(d: PipelineDecisions, operand: OperandDecision, asked: _Asked, *, or_nearest: bool) -> int | None:
    """How much of an operand's other axis is left beside the contracted extent that is."""
    extents, found, ctas = asked.extents, asked.found, asked.ctas
    extent = extents[asked.axis]
    matrices = math.prod(found[each] for each in d.batch)
    if d.turned_fill:
        (turned,) = d.turned_fill
        tiles = ctas * turned.warps * _ROUNDS
        least = max(2, 1 + tiles // (matrices * -(-found[d.contracted] // turned.side)))
        sizes = (reduced_extent(extent, turned.side, least + more) for more in (0, 1))
        return next((size for size in sizes if size not in asked.taken), extent)
    run = RUN_BYTES // operand.map.tensor_map().element.bytes
    # A row more has so many runs more, or so many rows have a run more.
    by_rows = operand.major == "K"
    size = 1 if by_rows else run
    large, step = (-(-each[d.contracted] // run) if by_rows else each[d.contracted] for each in (extents, found))
    total = math.prod(extents[each] for each in d.batch) * large * -(-extent // size)
    rounds, rest = divmod(total, _PAIRED * d.fill_ctas * d.fill_threads)
    threads = ctas * d.fill_threads
    most = _PAIRED * threads
    begin = min(rounds, _ROUNDS) * most
    left = range(threads + 1, most) if rest > d.fill_ctas * d.fill_threads else range(1, threads)
    least = max(2, begin // (matrices * step))
    candidates = [reduced_extent(extent, size, least + more) for more in range(2 + most // (matrices * step))]
    others = asked.taken | {found[d.contracted], -(-found[d.contracted] // run)}
    # The most, so that threads of all CTAs take what is left.
    wanted = (
        each
        for each in reversed(candidates)
        if each not in others and matrices * step * -(-each // size) - begin in left
    )
    return next(wanted, candidates[-1] if or_nearest else None)


def copies_instance(module: ModuleOp) -> ModuleOp:
    """The copies' instance of a decided program whose operands are copied first."""
    chosen = small_copies(the_program(module))
    instance = small_instance(module, chosen.extents)
    program = the_program(instance)
    d = decisions_of(program.attributes["decisions"])
    assert isinstance(d, PipelineDecisions)
    program.attributes["decisions"] = to_attribute(replace(d, fill_ctas=chosen.ctas))
    return instance


def outside_elements(buffer: Buffer) -> Ranges:
    """The bytes of an array that are of none of its elements, in whatever order its dimensions lie."""
    width = buffer.element.bytes
    dimensions = sorted(
        ((stride * width, extent) for extent, stride in zip(buffer.shape, buffer.strides, strict=True)), reverse=True
    )
    stride_bytes, extent = dimensions[-1]
    row_bytes = extent * width if stride_bytes == width else width
    begins = [0]
    for apart, count in dimensions[:-1] if stride_bytes == width else dimensions:
        begins = [begin + index * apart for begin in begins for index in range(count)]
    rows = tuple((begin, begin + row_bytes) for begin in sorted(begins))
    return without(((0, buffer.span_bytes),), rows)
