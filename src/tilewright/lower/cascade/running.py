"""Products that a consumer has not waited for, or issues later, and what they read. Checked by: tests/lower/cascade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def flat(state: Sequence[SSAValue | Postponed]) -> list[SSAValue]:
    """A state as values that a loop carries."""
    parts = [(item.start, item.held, item.phase) if isinstance(item, Postponed) else (item,) for item in state]
    return [each for part in parts for each in part]


def unflat(values: Sequence[SSAValue], like: Sequence[SSAValue | Postponed]) -> list[SSAValue | Postponed]:
    """The values that a loop carries as a state of the same form."""
    left = iter(values)
    return [
        Postponed(item.op, next(left), next(left), next(left)) if isinstance(item, Postponed) else next(left)
        for item in like
    ]
