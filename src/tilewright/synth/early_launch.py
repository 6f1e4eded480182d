"""Shall a product's kernel be launched while the launch before it still runs, and set itself up meanwhile?

That saves the time between two launches, about a microsecond. But its CTAs then take the multiprocessors one by one, as
the other launch leaves them, and not in order: neighbours in the order of tiles, which ask for the same lines at about
the same time, are no longer neighbours on the GPU, where such requests are joined on their way to the L2 cache. Behind
a kernel that copies operands, whose CTAs end at all times, products of several waves lose by it: 4096 x 4096 x 4095
took 244 us so and 207 us when launched after it (`python -m bench unmapped --only "odd K"`). Products of one wave gain
the microsecond, and so do products behind others of their kind, whose CTAs end in order.

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
