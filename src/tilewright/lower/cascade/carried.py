"""What a consumer's loop over the streamed axis carries from iteration to iteration.

Checked by: tests/lower/cascade.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.tile import operations as tile
from tilewright.lower.cascade.running import State, flat, unflat

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer


@dataclass(frozen=True, slots=True)
class Carried:
    """In this order: cursors of what is brought on the way, slots that stay, rooms, a state like this one, and the
    cursor of what another role issues ahead."""

    passing: Sequence[tile.LoadOp]
    staying: Sequence[tile.LoadOp]
    roomed: Sequence[tile.LoadOp]
    state: Sequence[State]

    def values(self, consumer: Consumer, state: Sequence[State]) -> list[SSAValue]:
        return [
            *(consumer.cursors[load] for load in self.passing),
            *(consumer.held[load] for load in self.staying),
            *(consumer.rooms[load] for load in self.roomed),
            *flat(state),
            *([consumer.ahead.cursor] if consumer.ahead is not None else []),
        ]

    def types(self, consumer: Consumer, values: Sequence[SSAValue]) -> list[Attribute]:
        """Of the loop's arguments: a slot that stays has been read when an iteration ends."""
        types = [value.type for value in values]
        retired = [ac.PhaseType(consumer.rings[load].name, StringAttr("retired")) for load in self.staying]
        types[len(self.passing) : len(self.passing) + len(self.staying)] = retired
        return types

    def taken(self, consumer: Consumer, values: Sequence[SSAValue]) -> tuple[Consumer, list[State]]:
        """The consumer that goes on with these values of the loop, and the state."""
        left = iter(values)
        moved = replace(
            consumer,
            cursors=consumer.cursors | {load: next(left) for load in self.passing},
            held=consumer.held | {load: next(left) for load in self.staying},
            rooms=consumer.rooms | {load: next(left) for load in self.roomed},
            ahead=None if consumer.ahead is None else replace(consumer.ahead, cursor=values[-1]),
        )
        return moved, unflat(list(left), self.state)
