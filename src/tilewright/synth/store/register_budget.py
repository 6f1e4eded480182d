"""How many registers a thread of each role has: at launch, and after the roles trade them by setmaxnreg.

Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

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
