"""Shall a product's kernel be launched while the launch before it still runs, and set itself up meanwhile?

That saves the time between two launches, about a microsecond. But behind a kernel that copies operands, products of
several waves lose by it: 4096 x 4096 x 4095 took 241 us so and 209 us when launched after the copies had ended; one of
a single wave 8.9 and 10.3 us (`python -m bench unmapped --only "odd K"`). The likely cause, which was not taken apart:
CTAs that are launched early take the multiprocessors one by one, as the copying CTAs leave them, so that neighbours in
the order of tiles, which ask for the same lines at about the same time, are no neighbours on the GPU, where such
requests are joined on their way to the L2 cache. Products behind others of their kind, whose CTAs end in order, begin
early.

A walk that stores nothing on the way begins early too, which short ones gain by.

Of several kernels that hand values over, each begins as what comes before it allows: a kernel of points or of folds
behind whatever there is; a walk or a product behind either as products do behind copies, and behind another product
always. The first may follow the last, in the next call. Walks of tiles that share no bytes
(`synth.cascade.slots.own_bytes`) have no neighbours to keep, and begin early always. Decode of two kernels gains by it.
Every kernel that begins early ends behind its wait for those before it, so that whoever waits for one has waited for
all. It lets the next one begin behind that wait; but a kernel of points or folds behind such a walk does before it, so
that the next call's walk is set up when the wait ends, which short decode gains by. What a kernel before writes is not
asked for ahead.

Who waits for the launch before: where threads other than the one that fills slots touch global memory only after their
first slot, that one alone, once it knows where its first tile stands. All threads' wait before the roles begin put what
the filler does to find its tile behind it: 1 to 2 % of launches of 5 us (`python -m bench.probes.beginnings`).

Checked by: tests/synth/schedule/test_early_launch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import Decisions, ElementwiseDecisions
from tilewright.ir.tile import operations as tile
from tilewright.synth.cascade.groups import tiles_of
from tilewright.synth.cascade.slots.own_bytes import brings_its_own
from tilewright.synth.tile.wanted import Wanted

_IN_WAVES = "launched after the copies have ended, so that neighbouring tiles are computed side by side"


def in_chain(parts: Sequence[tuple[tile.ProgramOp, Decisions]], wanted: Wanted) -> tuple[Decisions, ...]:
    """The decisions of the programs of a chain of kernels, in launch order, with how each begins. parts: each program
    with what was decided of it alone."""
    if len(parts) == 1:
        return (parts[0][1],)
    decided = [decisions for _, decisions in parts]
    # In the next call the first follows the last.
    before = [decided[-1] if isinstance(decided[-1], ElementwiseDecisions) else None, *decided[:-1]]
    streams = isinstance(decided[0], CascadeDecisions) and _brings_its_own(parts[0][0], decided[0])
    return tuple(
        _behind(program, decisions, earlier, wanted, first=not number, streams=streams)
        for number, ((program, decisions), earlier) in enumerate(zip(parts, before, strict=True))
    )


def _behind(
    program: tile.ProgramOp, d: Decisions, before: Decisions | None, wanted: Wanted, *, first: bool, streams: bool
) -> Decisions:
    """before: the kernel before, None where it is not of the chain. first: whether this one is the chain's first;
    streams: whether that is a walk of tiles that share no bytes."""
    if isinstance(d, ElementwiseDecisions):
        early = wanted.programmatic is not False
        return replace(d, programmatic=int(early), releases_first=int(early and streams))
    behind_points = wanted.programmatic is None and isinstance(before, ElementwiseDecisions)
    late = behind_points and _in_waves(program, d)
    reasons = (*d.reasons, _IN_WAVES) if late and d.programmatic else d.reasons
    early = int(d.programmatic and not late)
    prefetch = d.prefetch if early and before is None else 0
    prefetch_tiles = d.prefetch_tiles if early and first else 0
    return replace(d, programmatic=early, prefetch=prefetch, prefetch_tiles=prefetch_tiles, reasons=reasons)


def _in_waves(program: tile.ProgramOp, d: CascadeDecisions) -> bool:
    """Whether some CTA takes several tiles, of which neighbours bring the same."""
    several = tiles_of(program, d) * d.shares > d.ctas
    return several and not _brings_its_own(program, d)


def _brings_its_own(program: tile.ProgramOp, d: CascadeDecisions) -> bool:
    return brings_its_own(program, d.slots, (d.row, d.row_step), (d.column, d.column_step), d.batch)
