"""A kernel spills registers to local memory: which configuration is tried next, and what is said where none is left?

No accepted kernel spills. What spills is known once the text is assembled. Then registers get slots in shared memory
(`synth.store.spill_slots`), which may cost a stage, yet on an H200 a tile as chosen with slots took at most 1.5 %
longer than the best narrower one without (`python -m bench registers --speeds`). Where the assembler spills all the
same, a tile that the compiler chose gives way to one whose accumulators leave more registers, narrower ones of the same
kind first, so that as little as possible changes. Threads without products, which the assembler holds to a number of
CTAs, get the registers of fewer, and then turn smaller tiles. A program that no tile suits is cut into several kernels
(`driver.compile.compile`, which also takes tiles of a last wave whole that were to be streamed, before any of this).
What still spills is refused, with the place where most registers live (`driver.views.register_pressure`).
Checked by: tests/driver/compile/test_spills.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.driver.views.register_pressure import register_pressure
from tilewright.frontends.ptx.reader import read
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import Decisions, ElementwiseDecisions
from tilewright.synth.distribution.grouped import narrower_group_tiles
from tilewright.synth.store.spill_slots import slots_to_try
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_STEP = 16
"""Elements of a contracted axis that one wgmma takes (PTX ISA, wgmma: Matrix shape)."""
_SUM_STEP = 32
"""Columns of a tile's sums fewer, at a time."""
_CONSUMERS = 2
"""That have more registers each than more of them."""
_AMPLE = 128
"""Registers of a thread beyond what the assembler keeps to of itself, for CTAs that need not all be resident."""
_LEAST_SIDE = 16
"""Points of 16 bits that fill a sector: smaller tiles are no gain over points one by one."""
_NARROWER = (8, 16, 24, 40)
"""Columns fewer, in turn."""
_WARP, _WARPGROUP, _MOST_THREADS = 32, 128, 1024
_SMALL_TILES = ((128, 128), (128, 64), (64, 64))


def roomier(decisions: Decisions, wanted: Wanted) -> Iterator[Wanted]:
    """Wishes for tiles with fewer accumulators in a thread, in the order to try; none where the tile is not free."""
    if isinstance(decisions, CascadeDecisions) and any(slot.joined for slot in decisions.slots):
        yield from _narrower_sums(decisions, wanted)


def _narrower_sums(d: CascadeDecisions, wanted: Wanted) -> Iterator[Wanted]:
    """Wishes for a walk that sums in registers."""
    if _is_fixed(wanted):
        return
    held, turns = d.unit_rows * d.tile_columns, bool(d.turns)
    if d.grouping:
        for shape in narrower_group_tiles(held):
            yield replace(wanted, tile=(shape.rows, shape.columns), turns=shape.turns)
        return
    for fewer in _NARROWER:
        if d.tile_columns - fewer >= _NARROWER[-1]:
            yield replace(wanted, tile=(d.tile_rows, d.tile_columns - fewer), turns=turns)
    for tile in _SMALL_TILES:
        if tile[0] <= d.tile_rows and tile[0] * tile[1] < held:
            yield replace(wanted, tile=tile, turns=False)


def without_spills(decisions: Decisions, wanted: Wanted, spill_bytes: int, target: Target) -> Iterator[Wanted]:
    """Wishes for a kernel that spilled so many bytes of a thread's registers, in the order to try."""
    if isinstance(decisions, CascadeDecisions) and decisions.issued and wanted.issuer is None:
        # A role that issues has registers, which consumers have without it.
        yield replace(wanted, issuer=False)
    if isinstance(decisions, CascadeDecisions) and decisions.sums_alone:
        if wanted.tile is None:
            yield from _of_fewer_columns(decisions, wanted)
        return
    if isinstance(decisions, CascadeDecisions) and any(slot.joined for slot in decisions.slots):
        if not decisions.grouping:
            yield from _with_slots(decisions, wanted, spill_bytes, target)
        yield from roomier(decisions, wanted)
        return
    if isinstance(decisions, CascadeDecisions) and wanted.depth is None:
        # Fewer values over the streamed axis at a time, where not fewer consumers do, which have more registers each.
        widths = range(decisions.tile_streamed - _STEP, 0, -_STEP)
        if wanted.consumers is None and decisions.consumers > _CONSUMERS:
            wanted = replace(wanted, consumers=_CONSUMERS)
            yield wanted
        for width in widths:
            yield replace(wanted, depth=width)
        if decisions.tensor_columns and wanted.tile is None:
            # Sums that threads add, of a tile as deep.
            yield from _of_fewer_columns(decisions, wanted)
    if isinstance(decisions, ElementwiseDecisions):
        # ptxas aims at a number of CTAs, and may spill a few bytes for it. More threads hold less of a row each.
        for row in decisions.rows:
            threads = 2 * row.cta_threads
            while threads <= _MOST_THREADS:
                # Units of a warp or less share a CTA, others are one, of a warpgroup at least.
                if threads <= _WARP or threads >= _WARPGROUP:
                    yield replace(wanted, row_threads=threads, row_ctas=row.ctas, row_kept=bool(row.kept))
                threads *= 2
        if wanted.resident is None:
            for resident in range(target.limit("multiprocessor.registers") // (_AMPLE * decisions.threads), 0, -1):
                yield replace(wanted, resident=resident)
        for turned in decisions.transpose if wanted.turned_side is None else ():
            for shift in range(1, (turned.side // _LEAST_SIDE).bit_length()):
                yield replace(wanted, turned_side=turned.side >> shift)


def _with_slots(decisions: CascadeDecisions, wanted: Wanted, spill_bytes: int, target: Target) -> Iterator[Wanted]:
    """Slots for registers in shared memory."""
    for count in slots_to_try(decisions, spill_bytes, target, keep_stages=wanted.stages is not None):
        yield replace(wanted, spill_slots=count)


def _of_fewer_columns(decisions: CascadeDecisions, wanted: Wanted) -> Iterator[Wanted]:
    """Fewer sums of a tile."""
    for columns in range((decisions.tile_columns - 1) // _SUM_STEP * _SUM_STEP, 0, -_SUM_STEP):
        yield replace(wanted, tile=(decisions.tile_rows, columns))


def _is_fixed(wanted: Wanted) -> bool:
    fixed = (wanted.tile, wanted.consumers, wanted.turns, wanted.split, wanted.depth, wanted.stages)
    return any(each is not None for each in fixed)


class Spilled(TilewrightError):
    """No tile of a program keeps its registers."""


def spilled(name: str, ptx: str, spill_bytes: int) -> Spilled:
    """The refusal of a kernel that spills."""
    where = ""
    roles = [role for kernel in read(ptx).kernels for role in register_pressure(kernel) or ()]
    budgeted = [(role.registers - role.budget, role) for role in roles if role.budget is not None]
    if budgeted:
        _, over = max(budgeted, key=lambda item: item[0])
        where = (
            f"; of {over.budget} registers, about {over.registers} are wanted, most at line {over.span.line} of the "
            f"PTX: {over.span.text.strip()[:60]}"
        )
    return Spilled(
        f"{name} would spill {spill_bytes} bytes of a thread's registers to local memory{where}",
        remedy="use a tile with fewer columns, or leave the tile to the compiler",
    )
