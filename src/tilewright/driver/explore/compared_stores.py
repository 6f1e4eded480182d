"""Have the launches that were made executed all that may make what several warps store to the same bytes?

A launch shows of what it executes that the warps which meet at a store make the same of it, whatever way led there
(`machine.protocol.value_identity`). What it does not execute, another launch may show, if the same warps meet in that
at the same stores: through others, perhaps, that are equal to both. What no launch shows leaves a proof open.

Not handled: definitions that no launch which was made executes, though none could.
Checked by: tests/driver/explore/test_compared_stores.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.base.span import Span
from tilewright.driver.launch.judge_launch import LaunchJudgement
from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.event import Actor
from tilewright.machine.protocol.value_identity import IdentifiedStore

_Meetings = dict[tuple[Span, Actor], frozenset[Actor]]
"""Of each store and warp: which warps store the same there."""


@dataclass(slots=True)
class ComparedStores:
    """launches: of each, who met, and what they had executed."""

    launches: list[tuple[_Meetings, Sequence[IdentifiedStore]]] = field(
        default_factory=list[tuple[_Meetings, Sequence[IdentifiedStore]]]
    )

    def add(self, judged: LaunchJudgement) -> None:
        """A launch without errors or doubts has been judged."""
        if judged.compared_stores:
            self.launches.append((_meetings(judged.compared_stores), judged.report.identified))

    def reasons(self, instructions: Sequence[Instruction]) -> tuple[str, ...]:
        """What is against a proof, in words."""
        for meetings, stores in self.launches:
            for store in stores:
                warps = meetings.get((store.span, store.actor))
                left = store.needed if warps is not None else frozenset[int]()
                for others, shown in self.launches if left else ():
                    if warps is not None and warps <= others.get((store.span, store.actor), frozenset()):
                        left = left.difference(*(each.seen for each in shown if _is_of(each, store)))
                if left:
                    return (
                        f"{store.span}: several warps store to the same bytes; whether both store the same would decide, "
                        f"and no launch tried shows what {instructions[min(left)].span} makes of it",
                    )
        return ()


def _is_of(one: IdentifiedStore, other: IdentifiedStore) -> bool:
    return (one.span, one.actor) == (other.span, other.actor)


def _meetings(pairs: frozenset[tuple[Span, Actor, Actor]]) -> _Meetings:
    found: _Meetings = {}
    for store, first, second in pairs:
        both = found.get((store, first), frozenset((first,))) | found.get((store, second), frozenset((second,)))
        found.update(((store, each), both) for each in both)
    return found
