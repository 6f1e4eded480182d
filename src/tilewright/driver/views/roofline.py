"""The roofline of a kernel for a shape, and which tiles could still be quickest, before anything is compiled.

Tiles are looked at in order of the least time that any kernel of theirs could take; what is left once that passes the
best prediction is pruned. Checked by: tests/cli/commands/test_roofline_command.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.base.error import TilewrightError
from tilewright.base.plural import counted
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.sequence import Part, uncut
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import products_of
from tilewright.ir.decisions import Decisions, ElementwiseDecisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import dots, grouping, the_program
from tilewright.report.roofline import ResourceLine, RooflineReport
from tilewright.synth.cost.product_kernel import is_summed
from tilewright.synth.cost.roofline import Survivors, product_extents, program_roofline, survivors
from tilewright.synth.cost.time_model import least_microseconds, predicted_time
from tilewright.synth.cut.time import microseconds
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_ROWS = (64, 128, 192, 256)
_COLUMNS = range(16, 257, 16)


@dataclass(frozen=True, slots=True)
class TileWish:
    """A configuration that may be asked for."""

    rows: int
    columns: int
    turns: bool
    split: int

    def wanted(self, wanted: Wanted) -> Wanted:
        """The wish beside others that are fixed."""
        return replace(wanted, tile=(self.rows, self.columns), turns=self.turns, split=self.split)


def kernel_roofline(
    kernel: Kernel, target: Target, dims: Mapping[str, int], dtype: str | Mapping[str, str], wanted: Wanted
) -> RooflineReport:
    """Raises TilewrightError for a program that is not compiled."""
    *before, part = uncut(trace(kernel, dims, elements_of(kernel, dtype), None), target, wanted)
    program, decisions = the_program(part.module), part.decisions
    if isinstance(decisions, CascadeDecisions) and not is_summed(decisions):
        raise TilewrightError(
            f"no roofline is known of {kernel.name}, which walks {decisions.streamed} by tiles",
            span=kernel.span,
            remedy="time it: tilewright compile, then tilewright profile on a GPU",
        )
    roofline = program_roofline(program, decisions, target)
    notes = (*_words_before(before, target), *_notes(program, decisions, target, wanted))
    units = [each for each in roofline.resources if each.kind == "operations"]
    memory = next(each for each in roofline.resources if each.kind == "bytes")
    lines = tuple(
        ResourceLine(
            each.name,
            each.kind,
            each.amount,
            each.per_second,
            each.microseconds,
            roofline.intensity(each) if each.kind == "bytes" else None,
        )
        for each in roofline.resources
    )
    return RooflineReport(
        kernel.name,
        ", ".join(f"{name}={extent}" for name, extent in dims.items()),
        _words(decisions),
        lines,
        roofline.dominant.name,
        roofline.least_microseconds,
        roofline.predicted_microseconds,
        roofline.operations,
        roofline.intensity(memory),
        units[0].per_second,
        memory.per_second,
        notes,
    )


def _words_before(parts: Sequence[Part], target: Target) -> Iterator[str]:
    """Of the kernels before the one that is shown."""
    if parts:
        time = sum(microseconds(the_program(part.module), part.decisions, target) for part in parts)
        yield f"behind {counted(len(parts), 'kernel')} that copy or compute its operands, about {time:.2f} us"


def _words(decisions: Decisions) -> str:
    match decisions:
        case ElementwiseDecisions():
            return f"{decisions.ctas} CTAs of {decisions.threads} threads"
        case CascadeDecisions():
            shape = f"{decisions.tile_rows}x{decisions.tile_columns}x{decisions.tile_streamed}"
            stages = f"{decisions.slots[0].slots} stages"
            return f"tiles of {shape} {_consumer_words(decisions)}, {stages}{_split_words(decisions)}"


def _consumer_words(decisions: CascadeDecisions) -> str:
    consumers = f"{decisions.consumers} consumer warpgroup{'s' if decisions.consumers > 1 else ''}"
    return f"by {consumers}{', ping-pong' if decisions.turns else ''}"


def _split_words(decisions: CascadeDecisions) -> str:
    split = f", split by {decisions.split}" if decisions.split > 1 else ""
    return f"{split}, split-K over {decisions.teams} clusters" if decisions.teams > 1 else split


def _notes(program: tile.ProgramOp, decisions: Decisions, target: Target, wanted: Wanted) -> Iterator[str]:
    if not is_summed(decisions) or not _is_plain(program, wanted):
        return
    found = surviving_tiles(program, decisions, target, wanted)
    if found is None:
        return
    best = min(found.estimates, key=lambda item: item[0])
    tried = len(found.estimates)
    yield (
        f"{tried + found.left_out} tiles: {found.left_out} pruned, since even at the roof they take longer than the "
        f"best of {tried} predicted ones, {best[1].rows}x{best[1].columns}{' ping-pong' if best[1].turns else ''}"
        f"{f' split by {best[1].split}' if best[1].split > 1 else ''} at {best[0]:.2f} us"
    )


def _is_plain(program: tile.ProgramOp, wanted: Wanted) -> bool:
    """One unscaled product, whose tile is free."""
    fixed = (wanted.tile, wanted.turns, wanted.split, wanted.consumers)
    products = [*dots(program), *products_of(program)]
    return len(products) == 1 and grouping(program) is None and all(each is None for each in fixed)


def surviving_tiles(
    program: tile.ProgramOp, decisions: CascadeDecisions, target: Target, wanted: Wanted
) -> Survivors[TileWish] | None:
    """The tiles that could be quickest by the model, in the orientation that was decided."""
    extents = product_extents(program, decisions)
    element_bytes, depth = decisions.slots[0].element_bytes, decisions.tile_streamed
    wishes = [
        TileWish(height, width, turns, split)
        for height in _ROWS
        for width in _COLUMNS
        for turns, split in ((False, 1), (False, 2), (True, 1))
        if not turns or height == 2 * target.limit("wgmma.m")
    ]

    def least(wish: TileWish) -> float:
        batch = math.prod(program.extents[axis] for axis in decisions.batch)
        tile_ = (wish.rows, wish.columns, depth)
        return least_microseconds(tile_, wish.split, extents, element_bytes, target, batch)

    def estimate(wish: TileWish) -> float | None:
        try:
            other = decide(program, target, replace(wish.wanted(wanted), depth=depth))
        except TilewrightError:
            return None
        # By other tiles an operand may not be computed on the way.
        return predicted_time(other, extents, target).microseconds if is_summed(other) else None

    return survivors(wishes, least, estimate)
