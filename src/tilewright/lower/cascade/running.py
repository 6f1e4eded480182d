"""Products that a consumer has not waited for, or issues later, and what they read. Checked by: tests/lower/cascade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import SSAValue

from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp


@dataclass(frozen=True, slots=True)
class Room:
    """What is made of a load, where a product reads that."""

    load: tile.LoadOp


@dataclass(frozen=True, slots=True)
class Running:
    """A product that is not waited for yet: its accumulator, and the slots that it reads, each with its load, or None
    where nothing else reads the slot then; or rooms. computed: whether threads computed its left operand."""

    inflight: SSAValue
    readings: tuple[tuple[tile.LoadOp | Room | None, SSAValue], ...]
    computed: bool = False


@dataclass(frozen=True, slots=True)
class Postponed:
    """A product over the streamed axis that the next iteration issues: what it is added to and its left operand, both
    fragments, and its other operand's slot."""

    op: ContractOp
    start: SSAValue
    held: SSAValue
    phase: SSAValue


@dataclass(frozen=True, slots=True)
class Staying:
    """A sum that stays in tensor memory while an axis is walked. accumulator: the tensor core's, or settled where it
    was waited for; None before the first product."""

    op: ContractOp
    accumulator: SSAValue | None = None


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A sum whose newest product the next iteration waits for: its accumulator, and the slots that the product reads,
    of which nothing once they were given back."""

    inflight: SSAValue
    readings: tuple[SSAValue, ...]


State: TypeAlias = "SSAValue | Postponed | Staying | Unsettled"
"""What a walk carries."""


def flat(state: Sequence[State]) -> list[SSAValue]:
    """A state as values that a loop carries."""
    found: list[SSAValue] = []
    for item in state:
        if isinstance(item, Staying):
            assert item.accumulator is not None, "an iteration has multiplied"
            found.append(item.accumulator)
        elif isinstance(item, Unsettled):
            found += (item.inflight, *item.readings)
        else:
            found += (item.start, item.held, item.phase) if isinstance(item, Postponed) else (item,)
    return found


def unflat(values: Sequence[SSAValue], like: Sequence[State]) -> list[State]:
    """The values that a loop carries as a state of the same form."""
    left, found = iter(values), list[State]()
    for item in like:
        if isinstance(item, Staying):
            found.append(Staying(item.op, next(left)))
        elif isinstance(item, Postponed):
            found.append(Postponed(item.op, next(left), next(left), next(left)))
        elif isinstance(item, Unsettled):
            found.append(Unsettled(next(left), tuple(next(left) for _ in item.readings)))
        else:
            found.append(next(left))
    return found
