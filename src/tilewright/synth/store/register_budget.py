"""How many registers has a thread: of each role at launch, and after the roles trade them by setmaxnreg; and where all
threads are alike.

Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.targets import Target

_PRODUCER_REGISTERS = 40
"""Enough for addresses and loop counters: the producer computes nothing else."""
_MOST_LAUNCH_REGISTERS = 168
_MOST_CONSUMER_REGISTERS = 240
"""Caps for a block of few warpgroups, whose threads could have more: accumulators take 128 at most."""


def register_budget(
    consumers: int, target: Target, resident: int = 1, producer: int = _PRODUCER_REGISTERS, others: int = 1
) -> tuple[int, int, int]:
    """(at launch, producer, consumer) registers a thread: the producer gives most of its own to the consumers.

    resident: CTAs that must fit a multiprocessor together. producer: what it keeps. others: warpgroups that keep as
    much as the producer, itself among them.
    """
    step = target.limit("setmaxnreg.registers_step")
    threads = target.limit("warpgroup.threads") * (others + consumers) * resident
    launch = min(_MOST_LAUNCH_REGISTERS, target.limit("multiprocessor.registers") // threads // step * step)
    spare = launch * (others + consumers) - producer * others
    consumer = min(_MOST_CONSUMER_REGISTERS, spare // consumers // step * step)
    return launch, producer, consumer


def registers_of_resident(threads: int, resident: int, target: Target) -> int:
    """Most registers of each of a CTA's threads, of which a multiprocessor holds `resident` together.

    Raises TilewrightError where so many have none.
    """
    step = target.limit("multiprocessor.register_allocation_unit") // target.limit("warp.threads")
    share = target.limit("multiprocessor.registers") // (threads * resident) if resident > 0 else 0
    most = min(target.limit("thread.registers_max"), share // step * step)
    if most < step:
        raise TilewrightError(
            f"{resident} CTAs of {threads} threads on a multiprocessor",
            remedy=f"ask for 1 to {target.limit('multiprocessor.registers') // (threads * step)}",
        )
    return most
