"""Shall a product's kernel be launched while the launch before it still runs, and set itself up meanwhile?

That saves the time between two launches, about a microsecond. But behind a kernel that copies operands, products of
several waves lose by it: 4096 x 4096 x 4095 took 241 us so and 209 us when launched after the copies had ended; one of
a single wave 8.9 and 10.3 us (`python -m bench unmapped --only "odd K"`). The likely cause, which was not taken apart:
CTAs that are launched early take the multiprocessors one by one, as the copying CTAs leave them, so that neighbours in
the order of tiles, which ask for the same lines at about the same time, are no neighbours on the GPU, where such
requests are joined on their way to the L2 cache. Products behind others of their kind, whose CTAs end in order, begin
early.

A walk whose threads load nothing by themselves, and store nothing on the way, begins early too, which short ones gain
by. Where several kernels hand values over, those that fold parts do not begin early, and a walk behind one would lose
by it: it begins when they have ended.

Who waits for the launch before: where threads other than the one that fills slots touch global memory only after their
first slot, that one alone, once it knows where its first tile stands. All threads' wait before the roles begin put what
the filler does to find its tile behind it: 1 to 2 % of launches of 5 us (`python -m bench.probes.beginnings`).

Checked by: tests/synth/schedule/test_early_launch.py.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import PipelineDecisions
from tilewright.synth.tile.wanted import Wanted


def begins_early(copied: bool, tiles: int, ctas: int, wanted: Wanted, reasons: list[str]) -> bool:
    """copied: whether a launch before copies operands; tiles: of all CTAs together, which are `ctas`."""
    if wanted.programmatic is not None:
        return wanted.programmatic
    if copied and tiles > ctas:
        reasons.append("launched after the copies have ended, so that neighbouring tiles are computed side by side")
        return False
    return True


def with_waiter(d: PipelineDecisions) -> PipelineDecisions:
    """The decisions, with who waits for the launch before."""
    # Factors are loaded before the first slot; threads that copy wait each for itself.
    early = d.promoted or d.computed or d.copies_by_threads
    return replace(d, filler_waits=int(bool(d.programmatic) and not early))


def one_of_several(d: CascadeDecisions) -> CascadeDecisions:
    """The decisions of a walk that is one of several kernels of a program."""
    return replace(d, programmatic=0, prefetch=0)
