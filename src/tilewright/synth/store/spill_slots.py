"""May registers wait in shared memory, how many, and what do they cost?

A slot is a word of shared memory for each thread of the consumers: slot s of thread t at `s * threads * 4 + t * 4`
bytes, so that a warp takes 32 neighbouring words, in one wavefront. What waits in them is chosen in the text
(`lower.ptx.spill_slots`); here their bytes are set aside, which stages would have had. They are a last resort: a kernel
gets slots where its assembler spilled, or where they are asked for.

Checked by: tests/synth/store/test_spill_slots.py, with `legal.bank.banks`.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

SLOT_BYTES = 4
"""Of one register of one thread."""
_MOST_SLOTS = 64
_MORE_SLOTS = (2, 6, 12)
"""Registers given slots besides those that an assembler spilled: which it keeps in their stead is its own affair."""


def slot_bytes(slots: int, threads: int) -> int:
    """Of so many slots. threads: of all consumers."""
    return SLOT_BYTES * slots * threads


def spill_bytes(consumers: int, target: Target, wanted: Wanted, reasons: list[str]) -> int:
    """Shared memory of the slots that are wanted, with a reason if there are any.

    Raises TilewrightError for a number of slots that no thread has registers for.
    """
    slots = wanted.spill_slots
    if not 0 <= slots <= _MOST_SLOTS:
        raise TilewrightError(
            f"{slots} registers of a thread cannot wait in shared memory", remedy=f"use 0 to {_MOST_SLOTS} spill slots"
        )
    threads = target.limit("warpgroup.threads") * consumers
    size = slot_bytes(slots, threads)
    if slots:
        reasons.append(f"{slots} registers of each of {threads} threads may wait in {size} bytes of shared memory")
    return size


def refuse_spill_slots(wanted: Wanted, what: str) -> None:
    """Raises TilewrightError where slots are wanted of what is no product of whole matrices with an epilogue."""
    if wanted.spill_slots:
        raise TilewrightError(f"in {what} no registers wait in shared memory", remedy="leave out the slots")


def slots_to_try(
    decisions: CascadeDecisions, spilled_bytes: int, target: Target, *, keep_stages: bool
) -> tuple[int, ...]:
    """Numbers of slots for a kernel that spills so many bytes of each thread, stores and loads counted.

    keep_stages: only those that take memory which is left over, and no stage's.
    """
    registers = -(-spilled_bytes // (2 * SLOT_BYTES))
    counts = (registers + more for more in _MORE_SLOTS)
    threads = target.limit("warpgroup.threads") * decisions.consumers
    left = target.limit("cta.shared_bytes_max") - decisions.smem_bytes
    return tuple(
        count
        for count in counts
        if decisions.spill_slots < count <= _MOST_SLOTS
        and (not keep_stages or slot_bytes(count - decisions.spill_slots, threads) <= left)
    )
