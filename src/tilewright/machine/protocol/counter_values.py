"""What do registers hold around the iterations of a loop: do counters overflow soon, and are two sides apart for good?

Snapshots are taken where a loop begins anew. A register that one instruction of the loop writes holds, wherever the
loop reads it, what it held at the snapshot before or holds at the one after. So a comparison is judged by all of these
pairs, in each lane and each iteration of the last period: where the sides have left each other in all of them, and
drift further apart, every later outcome is the one that the last period had.

Source: induction variables, as in any compiler text. Not handled: registers that no snapshot holds, and those that
several instructions write; nothing is said of these (`Inexact`). Checked by: tests/machine/protocol/test_induction.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.frontends.ptx.ast import Address, Immediate, Operand, Register

Snapshot = Mapping[str, npt.NDArray[Any]]
"""Registers at the end of an iteration: 32 lanes each."""
Gain = int | Fraction
"""A fraction only between a product with a reciprocal and the shift that follows it."""
HORIZON = 1 << 20
"""Periods within which a counter must not overflow where that shows."""


class Inexact(Exception):
    """What no rule gives."""


def value_of(operand: Operand, snapshot: Snapshot) -> npt.NDArray[np.int64]:
    """What an operand held, as signed numbers. Raises Inexact where that was not seen."""
    match operand:
        case Immediate(value):
            return np.full(32, value, np.int64)
        case Register(name) if name in snapshot:
            row = np.asarray(snapshot[name])
            return (
                row.view(f"i{row.dtype.itemsize}").astype(np.int64) if row.dtype != np.bool_ else row.astype(np.int64)
            )
        case _:
            raise Inexact("what it compares was not seen")


def held(snapshot: Snapshot, name: str) -> npt.NDArray[np.int64] | None:
    """What a register held, as signed numbers."""
    try:
        return value_of(Register(name), snapshot)
    except Inexact:
        return None


def check_range(operand: Operand, gain: Gain, width: int, snapshots: Sequence[Snapshot]) -> None:
    """Raises Inexact where a counter of so many bits overflows soon after the run."""
    if not gain or not width:
        return
    base = operand.base if isinstance(operand, Address) else operand
    last = held(snapshots[-1], base.name) if isinstance(base, Register) and snapshots else None
    furthest = int(np.abs(last).max()) if last is not None else 0
    if furthest + abs(gain) * HORIZON >= 1 << (width - 1):
        raise Inexact("it reads a counter that overflows soon, or has lost bits")


def check_met(
    one: Operand, other: Operand, drift: Gain, snapshots: Sequence[Snapshot], *, executed: bool, stepped: int = 0
) -> None:
    """Raises Inexact where the sides of a comparison, one of which is the same all along, have not met in the run.
    executed: the comparison is made in the iteration after the last snapshot, too, which may be where they meet;
    stepped: the period, where an iteration steps the counter before it compares it, 0 elsewhere."""
    at = snapshots[-1] if executed or stepped or len(snapshots) < 2 else snapshots[-2]
    distance = value_of(one, at) - value_of(other, at)
    if executed and 0 < stepped < len(snapshots):
        # The last iteration takes the step that the one a period before took.
        now, before = snapshots[-stepped], snapshots[-stepped - 1]
        distance += value_of(one, now) - value_of(other, now) - value_of(one, before) + value_of(other, before)
    if bool((distance < 0).any() if drift > 0 else (distance > 0).any()):
        raise Inexact("its sides approach each other, and the run ended before they met")


def check_apart(one: Operand, other: Operand, drift: Gain, snapshots: Sequence[Snapshot], period: int) -> None:
    """Raises Inexact where the sides of a comparison, which drift, may still meet after the run in some lane."""
    recent = snapshots[-(period + 1) :]
    first = np.stack([value_of(one, each) for each in recent])
    second = np.stack([value_of(other, each) for each in recent])
    pairs = [first - second, first[1:] - second[:-1], first[:-1] - second[1:]]
    if not all(bool((each > 0).all() if drift > 0 else (each < 0).all()) for each in pairs):
        raise Inexact("its sides approach each other, and the run ended before they met")
