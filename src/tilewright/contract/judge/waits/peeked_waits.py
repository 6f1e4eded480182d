"""Which waits only look ahead, so that their outcome decides no more than whether other waits are made?

A pipeline peeks at its next barrier while it still has work: where the peek succeeds, the blocking wait that comes
later is skipped. Others try a few times in a row, and begin to loop where all of that fails. Such a try does not come
back to itself where it fails, yet its outcome changes nothing: this is read off the text. The predicate and what is
computed from it may feed only further arithmetic and branches; and what such a branch decides (`Flow.region`) must be
waits that are tried again, further peeks, and arithmetic whose results nobody reads afterwards.

Which barrier the spared wait names, and which phase, is not read off the text: `machine.protocol.peeked_outcomes` asks
that of the run. Waits under a guard that a peek decides make none. Source: PTX ISA 9.7.13.15 (mbarrier.try_wait:
potentially blocking). Checked by: tests/contract/judge/waits/test_peeked_waits.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.base.span import Span
from tilewright.contract.judge.waits.retried_waits import is_retried
from tilewright.frontends.ptx.ast import Instruction, Kernel, Label
from tilewright.machine.protocol.peeked_outcomes import WAITS
from tilewright.machine.protocol.slicing.slice_flow import Flow, flow_of
from tilewright.machine.protocol.slicing.slice_operands import Facts, facts_of

_IDLE = frozenset({"bra", "nanosleep"})
_ASIDE = ("param", "const")


def peeked_waits(kernel: Kernel) -> frozenset[Span]:
    """Places of the waits of `kernel` that are not tried again and decide only whether other waits are made."""
    if not any(isinstance(item, Instruction) and item.row in WAITS for item in kernel.body):
        return frozenset()
    labels = {item.name: index for index, item in enumerate(kernel.body) if isinstance(item, Label)}
    retried = {
        item.span
        for index, item in enumerate(kernel.body)
        if isinstance(item, Instruction) and item.row in WAITS and is_retried(kernel.body, labels, index)
    }
    flow = flow_of(kernel)
    tries = [at for at, item in enumerate(flow.instructions) if item.row in WAITS and item.span not in retried]
    if not tries:
        return frozenset()
    declared = frozenset(name for declaration in kernel.registers for name in declaration.names)
    text = _Tries(flow, tuple(facts_of(each) for each in flow.instructions), declared, retried)
    peeks = {at: text.reached_from(at) for at in tries}
    while True:
        reached = frozenset[str]().union(*peeks.values())
        kept = {at: each for at, each in peeks.items() if text.only_skips(each, peeks, reached)}
        if len(kept) == len(peeks):
            return frozenset(flow.instructions[at].span for at in peeks)
        peeks = kept


class _Tries:
    """What the outcomes of waits reach in a text. facts: of each instruction; declared: registers; retried: places of
    the waits that are tried again."""

    def __init__(
        self, flow: Flow, facts: Sequence[Facts], declared: frozenset[str], retried: Collection[Span]
    ) -> None:  # fmt: skip
        self.flow, self.facts, self.declared, self.retried = flow, facts, declared, retried
        self._readers: dict[str, list[int]] = {}
        for position, each in enumerate(facts):
            for name in each.reads:
                self._readers.setdefault(name, []).append(position)

    def reached_from(self, wait: int) -> frozenset[str]:
        """The registers that arithmetic makes of the outcome of the wait at a position."""
        reached = set(self.facts[wait].writes & self.declared)
        waiting = list(reached)
        while waiting:
            for position in self._readers.get(waiting.pop(), ()):
                if self.facts[position].kind == "compute":
                    fresh = (self.facts[position].writes & self.declared) - reached
                    reached |= fresh
                    waiting.extend(fresh)
        return frozenset(reached)

    def only_skips(self, reached: frozenset[str], peeks: Collection[int], by_any: frozenset[str]) -> bool:
        """Do registers that depend on one peek decide about nothing but waits? by_any: what all peeks reach."""
        readers = {position for name in reached for position in self._readers.get(name, ())}
        return all(
            self.facts[position].kind == "compute"
            or (self.flow.instructions[position].row == "bra" and self._region_only_waits(position, peeks, by_any))
            for position in readers
        )

    def _region_only_waits(self, branch: int, peeks: Collection[int], by_any: frozenset[str]) -> bool:
        """Does a branch decide about nothing but waits that are tried again, peeks, and arithmetic that stays
        inside?"""
        inside = self.flow.positions(self.flow.region(branch))
        written: set[str] = set()
        for position in inside:
            item, facts = self.flow.instructions[position], self.facts[position]
            waits = position in peeks or item.span in self.retried
            harmless = facts.kind == "compute" or (facts.kind == "load" and facts.space in _ASIDE)
            if not harmless and not waits and item.row not in _IDLE:
                return False
            written |= facts.writes
        meeting = self.flow.postdominator[self.flow.block_of[branch]]
        return not self._may_be_read(meeting, written - by_any)

    def _may_be_read(self, start: int, names: set[str]) -> bool:
        """May one of the registers be read, from the beginning of a block on, before it is written?"""
        asked: dict[int, set[str]] = {}
        waiting = [(start, frozenset(names))]
        while waiting:
            number, left = waiting.pop()
            fresh = left - asked.get(number, set())
            if not fresh:
                continue
            asked.setdefault(number, set()).update(fresh)
            block = self.flow.blocks[number]
            for position in range(block.begin, block.end):
                facts = self.facts[position]
                if not fresh.isdisjoint(facts.reads):
                    return True
                if self.flow.instructions[position].guard is None:
                    fresh -= facts.writes
            if fresh:
                waiting.extend((each, fresh) for each in block.successors)
        return False
