"""Has anybody taken what an accumulator holds, when the next wgmma is issued on it?

A sum is begun by a wgmma that does not add (scale-d false), goes on with those that do, and is taken by whoever reads
the accumulator's registers. One that begins anew over a sum that nobody took has lost it; one that adds to a sum that
was taken counts it twice. Whether somebody read one of the registers since the last wgmma on them is noted here, by
warp, and reported with the next wgmma (`event.WgmmaIssue`).

Not handled: which registers were read, if some were; what became of what was read.
Source: PTX ISA 9.7.15.5.2 (wgmma.mma_async: scale-d). Checked by: tests/driver/reproof/test_lost_sums.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.machine.core.decoder import Decoder
from tilewright.machine.core.lanes import Registers
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Step
from tilewright.machine.tensor_core.fenced_accesses import noting


def with_sums_taken(decoder: Decoder, steps: Sequence[Step]) -> list[Step]:
    """The steps of an observed run, of which those that read accumulators note it."""
    if decoder.observe is None or not decoder.accumulators:
        return list(steps)
    found, accumulators = list(steps), decoder.accumulators
    for index, step in enumerate(steps):
        if not accumulators.isdisjoint(step.reads):
            found[index] = noting(step, _noted(step.reads & accumulators))
    return found


def _noted(slots: frozenset[int]) -> Callable[[Registers], None]:
    def touch(r: Registers) -> None:
        warp: Warp = r[0]
        if warp.wgmma is not None:
            warp.wgmma.taken.update(slots)

    return touch
