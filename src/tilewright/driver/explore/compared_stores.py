"""Have the launches that were made executed all that may make what several warps store to the same bytes?

A launch shows of what it executes that the warps which meet at a store make the same of it, whatever way led there
(`machine.protocol.value_identity`). What it does not execute, another launch may show, if the same warps meet in that
at the same stores: through others, perhaps, that are equal to both. What no launch shows leaves a proof open.

Not handled: definitions that no launch which was made executes, though none could.
Checked by: tests/coverage_attacks/test_compared_stores.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.base.span import Span
from tilewright.driver.launch.judge_launch import LaunchJudgement
from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.event import Actor
from tilewright.machine.protocol.slicing.slice import Slice, protocol_slice

_Meetings = dict[tuple[Span, Actor], frozenset[Actor]]
"""Of each store and warp: which warps store the same there."""


_Place = tuple[Span, Actor, frozenset[Actor]]
"""A store and a warp, with those that store the same there."""


@dataclass(slots=True)
class ComparedStores:
    """needed, seen: of each place, what some launch executes before, and what warps have executed in one."""

    _needed: dict[_Place, frozenset[int]] = field(default_factory=dict[_Place, frozenset[int]])
    _seen: dict[_Place, frozenset[int]] = field(default_factory=dict[_Place, frozenset[int]])

    def add(self, judged: LaunchJudgement) -> None:
        """A launch without errors or doubts has been judged."""
        meetings = _meetings(judged.compared_stores)
        for store in judged.report.identified:
            warps = meetings.get((store.span, store.actor))
            if warps is not None:
                place = store.span, store.actor, warps
                self._needed[place] = self._needed.get(place, frozenset()) | store.needed
                self._seen[place] = self._seen.get(place, frozenset()) | store.seen

    def suffice(self, judged: LaunchJudgement) -> bool:
        """Have launches shown of all stores of a further one, which compared what was loaded for them, that they are of
        one value then?"""
        places = ((*place, warps) for place, warps in _meetings(judged.compared_stores).items())
        return all(place in self._needed and not self._left(place) for place in places)

    @property
    def all_seen(self) -> bool:
        """Is nothing open?"""
        return bool(self._needed) and not any(map(self._left, self._needed))

    def reasons(self, instructions: Sequence[Instruction]) -> tuple[str, ...]:
        """What is against a proof, in words."""
        for place in self._needed:
            left = self._left(place)
            if left:
                return (
                    f"{place[0]}: several warps store to the same bytes; whether both store the same would decide, and "
                    f"no launch tried shows what {instructions[min(left)].span} makes of it",
                )
        return ()

    def _left(self, place: _Place) -> frozenset[int]:
        """What is open at a place."""
        store, actor, warps = place
        shown = (
            seen for (at, other, more), seen in self._seen.items() if at == store and other == actor and warps <= more
        )
        return self._needed[place].difference(*shown)


def decides_values(identifying: Slice) -> frozenset[int]:
    """The branches of a slice that decide about nothing but values which are compared."""
    plain = protocol_slice(identifying.text.kernel, text=identifying.text, stores=identifying.stores)
    instructions = identifying.text.flow.instructions
    return frozenset(at for at in identifying.executed - plain.executed if instructions[at].row == "bra")


def _meetings(pairs: frozenset[tuple[Span, Actor, Actor]]) -> _Meetings:
    found: _Meetings = {}
    for store, first, second in pairs:
        both = found.get((store, first), frozenset((first,))) | found.get((store, second), frozenset((second,)))
        found.update(((store, each), both) for each in both)
    return found
