"""A product that a consumer has issued and not waited for, and what it reads. Checked by: tests/lower/cascade."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.ir.tile import operations as tile


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
