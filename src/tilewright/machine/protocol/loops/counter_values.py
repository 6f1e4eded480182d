"""What do registers hold around the iterations of a loop: do counters overflow soon, and are two sides apart for good?

Snapshots are taken where a loop begins anew. A register that one instruction of the loop writes holds, wherever the
loop reads it, what it held at the snapshot before or holds at the one after. So a comparison is judged by all of these
pairs, in each lane and each iteration of the last period: where the sides have left each other in all of them, and
drift further apart, every later outcome is the one that the last period had.

Source: induction variables, as in any compiler text. Not handled: registers that no snapshot holds, and those that
several instructions write; nothing is said of these (`Inexact`). Checked by:
tests/machine/protocol/loops/test_induction.py.
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


def value_of(operand: Operand, snapshot: Snapshot, width: int = 64) -> npt.NDArray[np.int64]:
    """What an operand held, as signed numbers; of a constant, its bits of the instruction's width. Raises Inexact where
    that was not seen."""
    match operand:
        case Immediate(value):
            half = 1 << (width or 64) - 1
            return np.full(32, (value + half) % (2 * half) - half, np.int64)
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


def check_range(
    operand: Operand, gain: Gain, width: int, snapshots: Sequence[Snapshot], makers: Mapping[str, int], *,
    unsigned: bool, behind: bool = False,
) -> None:  # fmt: skip
    """Raises Inexact where a counter of so many bits overflows soon after the run. Numbers without a sign do so where
    they pass zero, in either direction. makers: how many instructions of the loop give each register a value; behind:
    what reads the counter stands behind the loop, and so is executed."""
    if not gain or not width:
        return
    base = operand.base if isinstance(operand, Address) else operand
    name = base.name if isinstance(base, Register) else ""
    if makers.get(name, 0) > 1:
        raise Inexact("it reads a counter that several instructions write")
    last = held(snapshots[-1], name) if snapshots else None
    if last is None and behind:
        raise Inexact("it reads a counter whose value was not seen")
    passes = unsigned and last is not None and (bool((last < 0).any()) or (gain < 0 and int(last.min()) < _far(gain)))
    furthest = int(np.abs(last).max()) if last is not None else 0
    if passes or furthest + _far(gain) >= 1 << (width - 1):
        raise Inexact("it reads a counter that overflows soon, or has lost bits")


def _far(gain: Gain) -> Gain:
    """How far a counter moves within the periods that are looked ahead."""
    return abs(gain) * HORIZON


def check_met(
    one: Operand, other: Operand, drift: Gain, snapshots: Sequence[Snapshot], width: int, *, executed: bool,
    stepped: int = 0,
) -> None:  # fmt: skip
    """Raises Inexact where the sides of a comparison, one of which is the same all along, have not met in the run.
    executed: the comparison is made in the iteration after the last snapshot, too, which may be where they meet;
    stepped: the period, where an iteration steps the counter before it compares it, 0 elsewhere."""
    at = snapshots[-1] if executed or stepped or len(snapshots) < 2 else snapshots[-2]

    def apart(snapshot: Snapshot) -> npt.NDArray[np.int64]:
        return value_of(one, snapshot, width) - value_of(other, snapshot, width)

    distance = apart(at)
    if executed and 0 < stepped < len(snapshots):
        # The last iteration takes the step that the one a period before took.
        distance += apart(snapshots[-stepped]) - apart(snapshots[-stepped - 1])
    if bool((distance < 0).any() if drift > 0 else (distance > 0).any()):
        raise Inexact("its sides approach each other, and the run ended before they met")


def check_apart(
    one: Operand, other: Operand, drift: Gain, snapshots: Sequence[Snapshot], period: int, width: int
) -> None:  # fmt: skip
    """Raises Inexact where the sides of a comparison, which drift, may still meet after the run in some lane."""
    recent = snapshots[-(period + 1) :]
    first = np.stack([value_of(one, each, width) for each in recent])
    second = np.stack([value_of(other, each, width) for each in recent])
    pairs = [first - second, first[1:] - second[:-1], first[:-1] - second[1:]]
    if not all(bool((each > 0).all() if drift > 0 else (each < 0).all()) for each in pairs):
        raise Inexact("its sides approach each other, and the run ended before they met")
