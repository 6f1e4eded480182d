"""Which small instance stands for the kernel that copies operands first, and what does it leave to the product's?

The two kernels of such a program are run apart, each in an instance of its own. The product's instance has tiles, and
its operands as many points as these ask for; threads that copy a run of points at a time do all the same work after a
few rounds. Between the two stand the workspaces. Of the copies' instance it is asked that every element of a workspace
is written; in the product's, their elements hold something when it begins, and the bytes between and behind them do
not, as the launch before it, whose end it waits for, leaves them. So a read of what was not copied is refuted there,
and an element that is not copied is refuted here, each for the extents that stand for the large ones.

The copies' instance has two CTAs. The extents along rows and columns are those with which each thread goes round the
loop over pairs of runs twice and some of them once round the loop over single ones, who take the last run; or, where
tiles are turned, with which each warp takes two tiles, so that its shared memory is used again, and some a third. The
contracted extent is the product's. Remainders by a run, or by the side of a turned tile, are the program's, and so are
all strides: rows begin at addresses of every alignment that they have there. Extents that differ in the program differ
in the instance, so that one in the place of another shows.

Not handled (one instance stands for both kernels then): rows in groups.
Checked by: tests/driver/test_small_copies.py.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.plan import Buffer
from tilewright.contract.byte_ranges import without
from tilewright.driver.small import reduced_extent, small_extents, small_instance
from tilewright.ir import tile
from tilewright.ir.decisions import RUN_BYTES, OperandDecision, PipelineDecisions, decisions_of
from tilewright.ir.tile_facts import the_program
from tilewright.machine.event import Ranges

_CTAS = 2
_PAIRED = 2
"""Runs that a thread has in flight at once."""
_ROUNDS = 2
"""How often each thread goes round the loop over as many runs, or each warp takes a tile; and some more often."""


def copies_apart(program: tile.ProgramOp) -> bool:
    """Does a kernel of its own copy operands of this decided program first, and is it run apart?"""
    decisions = decisions_of(program.attributes["decisions"])
    if not isinstance(decisions, PipelineDecisions) or decisions.grouping:
        return False
    return any(item.materialized for item in (decisions.a, decisions.b, *decisions.more_b))


def copied_workspaces(program: tile.ProgramOp) -> frozenset[str]:
    """The arrays that the kernel which copies operands first writes."""
    d = decisions_of(program.attributes["decisions"])
    assert isinstance(d, PipelineDecisions)
    return frozenset(item.buffer for item in (d.a, d.b, *d.more_b) if item.materialized)


def copied_extents(program: tile.ProgramOp) -> dict[str, int]:
    """Extents of the copies' instance of a program whose operands are copied first, by axis."""
    d = decisions_of(program.attributes["decisions"])
    assert isinstance(d, PipelineDecisions)
    extents = program.extents
    found = small_extents(program)
    for axis, other, operands in ((d.rows, d.columns, (d.a,)), (d.columns, d.rows, (d.b, *d.more_b))):
        taken = frozenset({found[other]}) if extents[axis] != extents[other] else frozenset[int]()
        copied = [item for item in operands if item.materialized]
        if copied:
            found[axis] = max(_outer_extent(d, item, extents[axis], found, taken) for item in copied)
    return found


def _outer_extent(
    d: PipelineDecisions, operand: OperandDecision, extent: int, found: dict[str, int], taken: frozenset[int]
) -> int:
    """How much of `extent`, an operand's other axis, is left beside the contracted extent that is. taken: extents that
    stand for another one."""
    matrices = math.prod(found[axis] for axis in d.batch)
    depth, ctas = found[d.contracted], min(d.fill_ctas, _CTAS)
    if d.turned_fill:
        (turned,) = d.turned_fill
        tiles = ctas * turned.warps * _ROUNDS
        least = 1 + tiles // (matrices * -(-depth // turned.side))
        return next(
            (size for more in (0, 1) if (size := reduced_extent(extent, turned.side, least + more)) not in taken),
            extent,
        )
    run = RUN_BYTES // operand.map.tensor_map().element.bytes
    # A row more has so many runs more, or so many rows have a run more.
    step, size = (-(-depth // run), 1) if operand.major == "K" else (depth, run)
    threads = ctas * d.fill_threads
    least = 1 + threads * _PAIRED * _ROUNDS // (matrices * step)
    candidates = [
        reduced_extent(extent, size, least + more) for more in range(1 + threads * _PAIRED // (matrices * step))
    ]
    # The last run is one that no thread takes as one of several.
    wanted = (
        each for each in candidates
        if each not in taken and 0 < matrices * step * -(-each // size) % (threads * _PAIRED) < threads
    )  # fmt: skip
    return next(wanted, candidates[0])


def copies_instance(module: ModuleOp) -> ModuleOp:
    """The copies' instance of a decided program whose operands are copied first."""
    return small_instance(module, copied_extents(the_program(module)))


def outside_elements(buffer: Buffer) -> Ranges:
    """The bytes of a row-major array that are of none of its elements."""
    *outer, inner = (
        (extent, stride * buffer.element.bytes) for extent, stride in zip(buffer.shape, buffer.strides, strict=True)
    )
    begins = [0]
    for extent, stride_bytes in outer:
        begins = [begin + index * stride_bytes for begin in begins for index in range(extent)]
    rows = tuple((begin, begin + inner[0] * buffer.element.bytes) for begin in begins)
    return without(((0, buffer.span_bytes),), rows)
