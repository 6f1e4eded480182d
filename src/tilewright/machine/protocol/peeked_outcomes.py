"""Does a wait that an earlier try may spare wait for what that try has seen?

A kernel looks whether a phase is complete (a peek), and makes the blocking wait later only where it was not:

    mbarrier.try_wait %p1, [%r1], %r2;  ...;  @%p1 bra GO;
    WAIT: mbarrier.try_wait %p2, [%r1], %r2;  @!%p2 bra WAIT;
    GO:

In a protocol run every peek fails, so that every wait is made. Which waits a peek's outcome decides about is read off
the text (`contract.judge.waits.peeked_waits`): it decides about nothing else. Here the run itself says, for each time
that such a wait is made, on which peeks it depends that it was: registers carry the peeks that their values depend on,
through arithmetic, and through branches to all that these decide about. The wait must be for the same phase of the same
barrier as each of these peeks, and acquire no more. What depends on a peek and is not done must hold no wait. Lanes
exchange no outcomes, so that each lane's waits depend on its own peeks alone.

Then every other execution is one of those that are judged. Where a wait is not made, something that it depends on came
out otherwise, so one of these peeks has succeeded, and has acquired what the wait would have, earlier. The judge sees
every peek, and that its phase is clear there (`phase_ledger.peek`). Where none has succeeded, the wait is made.

Source: PTX ISA 9.7.13.15 (mbarrier.test_wait, try_wait). Not handled: waits under a guard that a peek decides.
Checked by: tests/driver/check/test_peeks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.core.event import BarrierPeek, BarrierWait
from tilewright.machine.core.lanes import FULL, predicate_mask
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, Signal, Step
from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.protocol.slicing.slice_operands import writes_of

WAITS = frozenset({"mbarrier.test_wait", "mbarrier.try_wait"})

_Origin = frozenset[int]
"""Numbers of peeks."""
_NONE: _Origin = frozenset()


@dataclass(frozen=True, slots=True)
class _Decision:
    """A branch that peeks may decide. taken, passed: whether there is a wait, or a loop, on the way that it takes, or
    on the other, before both meet; written: registers that may depend on it then."""

    region: frozenset[int]
    taken: bool
    passed: bool
    written: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _WarpPeeks:
    """values: the peeks that registers depend on; decided: those that decided how a branch went last."""

    values: dict[str, _Origin] = field(default_factory=dict[str, _Origin])
    decided: dict[int, _Origin] = field(default_factory=dict[int, _Origin])


class PeekedOutcomes:
    """The peeks of one run. places: of the peeks; slots: of registers; doubt: called with what is not as it must be."""

    def __init__(
        self, sliced: Slice, places: frozenset[Span], slots: Mapping[str, int], doubt: Callable[[Span, str], None]
    ) -> None:
        self.sliced, self.slots, self.doubt = sliced, slots, doubt
        flow, facts = sliced.text.flow, sliced.text.facts
        self.peeks = frozenset(at for at in sliced.executed if flow.instructions[at].span in places)
        reached = {name for at in self.peeks for name in writes_of(flow.instructions[at])}
        computing = [at for at in sliced.executed if facts[at].kind == "compute"]
        grown = True
        while grown:
            before = len(reached)
            reached |= {
                name for at in computing if not reached.isdisjoint(facts[at].reads) for name in facts[at].writes
            }
            grown = len(reached) > before
        self.reached = reached
        self.computing = frozenset(at for at in computing if not reached.isdisjoint(facts[at].writes))
        self.decisions = {
            at: self._decision(at)
            for at in sliced.executed
            if flow.instructions[at].row == "bra" and not reached.isdisjoint(facts[at].reads)
        }
        self.controllers: dict[int, list[int]] = {}
        for branch, decision in self.decisions.items():
            for at in decision.region:
                self.controllers.setdefault(at, []).append(branch)
        self._asked: list[BarrierPeek] = []
        self._warps: dict[int, _WarpPeeks] = {}
        self._running: tuple[int, _WarpPeeks, _Origin] | None = None
        self._made: list[int] = []

    def start(self) -> None:
        """Another cluster starts."""
        self._warps.clear()
        self._asked.clear()

    def _decision(self, branch: int) -> _Decision:
        flow, facts = self.sliced.text.flow, self.sliced.text.facts
        block = flow.block_of[branch]
        region = frozenset(flow.positions(flow.region(branch)))
        falls = flow.block_of[branch + 1]
        taken = [each for each in flow.blocks[block].successors if each != falls] or [falls]
        written = {name for at in region & self.sliced.executed for name in facts[at].writes} & self.reached
        return _Decision(
            region, any(self._counts(each, block) for each in taken), self._counts(falls, block),
            tuple(sorted(written)),
        )  # fmt: skip

    def _counts(self, start: int, block: int) -> bool:
        """Is there a wait, a peek or a loop from a block on, before the ways of the branch of `block` meet?"""
        flow = self.sliced.text.flow
        heads = {flow.block_of[loop.head] for loop in flow.loops}
        heads |= {flow.block_of[at] for at in flow.irreducible}
        waiting, seen = [start], {flow.postdominator[block]}
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            here = flow.blocks[each]
            if each in heads or any(flow.instructions[at].row in WAITS for at in range(here.begin, here.end)):
                return True
            waiting.extend(here.successors)
        return False

    def wrapped(self, position: int, step: Step) -> Step:
        """The step, which keeps account of what depends on peeks."""
        if position in self.decisions and isinstance(step.body, Control):
            return replace(step, body=Control(self._deciding(position, step, step.body)), guard=-1, negated=False)
        waits = self.sliced.text.flow.instructions[position].row in WAITS and position in self.controllers
        if position not in self.computing and position not in self.peeks and not waits:
            return step
        return step.within(lambda warp, mask, call: self._run(position, warp, mask, call))

    def _of(self, warp: Warp) -> _WarpPeeks:
        return self._warps.setdefault(id(warp), _WarpPeeks())

    def _controlling(self, known: _WarpPeeks, position: int) -> _Origin:
        return _NONE.union(*(known.decided.get(branch, _NONE) for branch in self.controllers.get(position, ())))

    def _run(
        self, position: int, warp: Warp, mask: int, call: Callable[[], int | Signal | None]
    ) -> int | Signal | None:
        known = self._of(warp)
        facts = self.sliced.text.facts[position]
        origin = self._controlling(known, position)
        self._running, self._made = (position, known, origin), []
        try:
            result = call()
        finally:
            self._running = None
        origin = origin.union(self._made, *(known.values.get(name, _NONE) for name in facts.reads))
        whole = mask == warp.live and self.sliced.text.flow.instructions[position].guard is None
        for name in facts.writes & self.reached:
            known.values[name] = origin if whole else origin | known.values.get(name, _NONE)
        return result

    def _deciding(self, position: int, step: Step, body: Control) -> Callable[[Warp, int], int | Signal | None]:
        """The branch at a position, which chooses its lanes itself: those that go on decide something, too."""
        decision, instruction = self.decisions[position], self.sliced.text.flow.instructions[position]
        guard = instruction.guard
        assert guard is not None, "a branch that reads a register"
        slot, name, negated = self.slots[guard.register.name], guard.register.name, guard.negated

        def decide(warp: Warp, mask: int) -> int | Signal | None:
            holds = predicate_mask(warp.r[slot])
            chosen = mask & (holds ^ FULL if negated else holds)
            known = self._of(warp)
            origin = known.values.get(name, _NONE)
            before = _NONE if mask == warp.live else known.decided.get(position, _NONE)
            if origin:
                if (chosen and decision.passed) or (chosen != mask and decision.taken):
                    places = ", ".join(dict.fromkeys(str(self._asked[number].span) for number in sorted(origin)))
                    self.doubt(
                        instruction.span, f"another outcome of the try at {places} would make a wait that is left out"
                    )
                for each in decision.written:
                    known.values[each] = known.values.get(each, _NONE) | origin
            known.decided[position] = before | origin
            if step.guard < 0:
                return body.act(warp, mask)
            if not chosen:
                return None
            if chosen != mask:
                step.part(warp, mask, chosen)
            return body.act(warp, chosen)

        return decide

    def note(self, event: BarrierPeek | BarrierWait) -> None:
        """A warp has looked at a barrier, or has waited for it."""
        if self._running is None:
            return
        position, _, origin = self._running
        if isinstance(event, BarrierPeek):
            self._made.append(len(self._asked))
            self._asked.append(event)
            return
        for number in origin:
            peek = self._asked[number]
            if not _stands_for(peek, event):
                span = self.sliced.text.flow.instructions[position].span
                self.doubt(
                    span,
                    f"whether this wait is made depends on the try at {peek.span}, which asked for phase {peek.phase} "
                    f"of the mbarrier at +{peek.address:#x}, not for phase {event.phase} of that at "
                    f"+{event.address:#x}, or acquires less",
                )


def _stands_for(peek: BarrierPeek, wait: BarrierWait) -> bool:
    """Does a peek that succeeds do what the wait would?"""
    return (
        (peek.cta, peek.address, peek.phase) == (wait.cta, wait.address, wait.phase)
        and (wait.relaxed or not peek.relaxed)
        and (peek.scope == wait.scope or peek.scope == "cluster")
    )
