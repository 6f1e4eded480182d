"""Shall a product's kernel be launched while the launch before it still runs, and set itself up meanwhile?

That saves the time between two launches, about a microsecond. But behind a kernel that copies operands, products of
several waves lose by it: 4096 x 4096 x 4095 took 241 us so and 209 us when launched after the copies had ended; one of
a single wave 8.9 and 10.3 us (`python -m bench unmapped --only "odd K"`). The likely cause, which was not taken apart:
CTAs that are launched early take the multiprocessors one by one, as the copying CTAs leave them, so that neighbours in
the order of tiles, which ask for the same lines at about the same time, are no neighbours on the GPU, where such
requests are joined on their way to the L2 cache. Products behind others of their kind, whose CTAs end in order, begin
early.

Checked by: tests/synth/test_early_launch.py.
"""

from __future__ import annotations

from tilewright.synth.wanted import Wanted


def begins_early(copied: bool, tiles: int, ctas: int, wanted: Wanted, reasons: list[str]) -> bool:
    """copied: whether a launch before copies operands; tiles: of all CTAs together, which are `ctas`."""
    if wanted.programmatic is not None:
        return wanted.programmatic
    if copied and tiles > ctas:
        reasons.append("launched after the copies have ended, so that neighbouring tiles are computed side by side")
        return False
    return True
