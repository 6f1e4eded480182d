"""What does each step of a role do when one of its units comes to it?

A unit is a coroutine over its role's steps: it yields the barrier that it waits for until that lets it pass. What
others see of its steps is the machine's (`token_machine`).

Checked by: tests/contract/typestate/test_typestate_tokenmachine.py.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.ir import Block, Operation

from tilewright.contract.typestate.program import Ring, Role
from tilewright.contract.typestate.runs import token_program as steps
from tilewright.contract.typestate.runs.token_state import OWN, Barrier, NotRunnable, Slot
from tilewright.contract.typestate.steps.issue_order import IssueTurns
from tilewright.ir.ac import operations as ac

if TYPE_CHECKING:
    from tilewright.contract.typestate.runs.token_machine import Machine

_LONGER = (0, 2, 1, 3)
"""Iterations more than a symbol's, tile by tile, where each tile has its own number of them."""
Blocked = Generator[tuple[Barrier | IssueTurns, int, Operation], None, None]


@dataclass(slots=True)
class Unit:
    name: str
    cta: int
    role: Role
    machine: Machine
    number: int = 0
    env: dict[int, object] = field(default_factory=dict[int, object])
    committed: int = 0
    items: int = 0
    tile: int = -1
    running: list[tuple[int, Slot]] = field(default_factory=list[tuple[int, Slot]])
    block: tuple[Barrier | IssueTurns, int, Operation] | None = None
    code: Blocked | None = None

    def run(self, block: Block) -> Blocked:
        for step in self.machine.program.steps(block):
            at_once = _AT_ONCE.get(type(step))
            if at_once is not None:
                at_once(self, step)
            else:
                yield from _WAITING[type(step)](self, step)

    # ------------------------------------------------------------ steps that wait

    def wait(self, step: steps.Wait) -> Blocked:
        machine, ring, position = self.machine, self._ring(step.ring), self._position(step.cursor)
        stage, state = position % ring.stages, machine.states[self.cta][ring.name]
        barrier = state.full[stage] if step.full else state.empty[stage]
        parity = (position // ring.stages & 1) ^ step.invert
        if machine.trace is not None:
            side = "full" if step.full else "empty"
            machine.log(
                self.name,
                f"waits for parity {parity} of {side}[{stage}] of ring {ring.name} (slot number {position})",
            )
        while not barrier.passes(parity):
            yield barrier, parity, step.op
        self.env[step.result] = Slot(ring.name, position)
        if step.full:
            state.reads[self.name] = state.reads.get(self.name, 0) + 1

    def loop(self, step: steps.Loop) -> Blocked:
        trips, env = self._trips(step.symbol), self.env
        if step.yielded is None:
            raise NotRunnable
        values = [env.get(value) for value in step.carried]
        for number in range(step.begin, trips):
            if isinstance(step.op, ac.TilesOp):
                self.tile = number
            env.update(zip(step.arguments, values, strict=True))
            yield from self.run(step.body)
            values = [env.get(value) for value in step.yielded]
        env.update(zip(step.outputs, values, strict=True))

    def _trips(self, symbol: str) -> int:
        """Of a loop over a symbol. Of iterations that units have apart, units later in a role have fewer of their own,
        and more that are left."""
        symbols, program = self.machine.symbols, self.machine.program
        longer = _LONGER[self.tile % len(_LONGER)]
        whole, own, rest = program.apart
        if symbol in (whole, own, rest):
            if own not in symbols or rest not in symbols:
                raise NotRunnable
            count = symbols[own] + symbols[rest] + longer
            mine = max(1, symbols[own] + longer - self.number)
            return {whole: count, own: mine, rest: count - mine}[symbol]
        if symbol not in symbols:
            raise NotRunnable
        return symbols[symbol] + (longer if symbol in program.ranged else 0)

    def drain(self, step: steps.Drain) -> Blocked:
        ring, first = self._ring(step.ring), self._position(step.cursor)
        empty = self.machine.states[self.cta][ring.name].empty
        for position in range(first, first + ring.stages):
            stage, parity = position % ring.stages, position // ring.stages & 1 ^ 1
            self.machine.log(self.name, f"waits for parity {parity} of empty[{stage}] of ring {ring.name} at its end")
            while not empty[stage].passes(parity):
                yield empty[stage], parity, step.op

    def end_issue(self, step: steps.EndIssue) -> Blocked:
        """Unit 0 takes the arrival that is left at the end."""
        if self.number == 0:
            yield from self.take_issue(step)

    def take_issue(self, step: steps.TakeIssue | steps.EndIssue) -> Blocked:
        turns = self.machine.issue_turns(self)[self.number]
        self.machine.log(self.name, f"waits for turn {turns.taken} of issue")
        while not turns.passes(turns.taken):
            yield turns, turns.taken, step.op
        turns.taken += 1

    def turns(self, step: steps.Turns) -> Blocked:
        """Every second tile, counted from the role's first such loop on: wait for the turn, run the body; in between,
        cursors pass over the other's slots."""
        machine = self.machine
        trips, skipped = machine.symbols.get(step.symbol), machine.symbols.get(step.slots)
        if trips is None or skipped is None or step.yielded is None:
            raise NotRunnable
        barrier = self._turn(step.turns, self.number)
        positions = [self._position(value) for value in step.carried]
        first, self.items = self.items, self.items + trips
        for tile in range(first, first + trips):
            if tile % 2 != self.number:
                positions = [position + skipped for position in positions]
                continue
            parity = tile // 2 & 1 ^ 1 ^ self.number
            machine.log(self.name, f"waits for parity {parity} of its turn (tile {tile})")
            while not barrier.passes(parity):
                yield barrier, parity, step.op
            self.env.update(zip(step.arguments, positions, strict=True))
            yield from self.run(step.body)
            positions = [self._position(value) for value in step.yielded]
        self.env.update(zip(step.outputs, positions, strict=True))

    def _turn(self, turns: Ring | None, number: int) -> Barrier:
        """A unit's barrier of turns."""
        state = self.machine.states[self.cta][self._ring(turns).name]
        return state.empty[0] if number else state.full[0]

    def reduce(self, step: steps.Reduce) -> Blocked:
        """A rendezvous: wait for the empty slot, announce what comes, write to every CTA, wait, tell every CTA that it
        is read."""
        machine, ring, position = self.machine, self._ring(step.ring), self._position(step.cursor)
        stage, phase = position % ring.stages, position // ring.stages & 1
        for side, parity in (("empty", phase ^ 1), ("full", phase)):
            own = machine.states[self.cta][ring.name]
            barrier = own.empty[stage] if side == "empty" else own.full[stage]
            machine.log(self.name, f"waits for parity {parity} of {side}[{stage}] of ring {ring.name}")
            while not barrier.passes(parity):
                yield barrier, parity, step.op
            if side == "empty":
                machine.exchange(self, ring.name, stage, step.op)
            else:
                machine.leave(self, ring.name, stage, step.op)
        self.env[step.following] = position + 1

    # ------------------------------------------------------------ steps that are done at once

    def advance(self, step: steps.Advance) -> None:
        self.env[step.result] = self._position(step.cursor) + 1

    def copy(self, step: steps.Copy) -> None:
        self.env[step.result] = self.machine.issue(self, self._slot(step.slot), step)

    def multiply(self, step: steps.Multiply) -> None:
        machine, env = self.machine, self.env
        env[step.reading] = machine.read(self, self._slot(step.slot), step)
        if step.a_slot >= 0:
            env[step.a_reading] = machine.read(self, self._slot(step.a_slot), step)
        if step.into >= 0:
            env[step.filling] = machine.fill(self, self._slot(step.into), step)
        for given, kept in step.passed:
            env[kept] = self._slot(given)

    def commit(self, step: steps.Commit) -> None:
        self.committed += 1

    def retire(self, step: steps.Retire) -> None:
        self.machine.retire(self, step.pending)
        for reading, retired in step.pairs:
            self.env[retired] = self._slot(reading)

    def release(self, step: steps.Release) -> None:
        self.machine.release(self, self._slot(step.slot), step)

    def hand_over(self, step: steps.HandOver) -> None:
        self.machine.hand_over(self, self._slot(step.slot), step)

    def announce(self, step: steps.Announce) -> None:
        self.env[step.result] = self.machine.announce(self, self._slot(step.slot), step)

    def start(self, step: steps.Start) -> None:
        self.env[step.result] = 0

    def copy_by_threads(self, step: steps.CopyByThreads) -> None:
        slot = self.machine.copy_by_threads(self, self._slot(step.slot), step)
        if not step.arrives:
            self.env[step.result] = slot

    def fence(self, step: steps.Fence) -> None:
        self.env[step.result] = self._slot(step.slot)

    def look(self, step: steps.Look) -> None:
        self.env[step.result] = self.machine.look(self, self._slot(step.slot), step)
        if step.made >= 0:
            self.env[step.made] = OWN

    def own(self, step: steps.Own) -> None:
        self.env[step.result] = OWN

    def begin_issue(self, step: steps.BeginIssue) -> None:
        if self.number == self.role.count - 1:
            self.machine.give_issue(self, step.op)

    def pass_issue(self, step: steps.PassIssue) -> None:
        self.machine.give_issue(self, step.op)

    def pass_turn(self, step: steps.PassTurn) -> None:
        self.machine.log(self.name, "passes the turn on")
        barrier = self._turn(step.turns, 1 - self.number)
        self.machine.arrive(barrier, self, step.op, "the other's barrier of turns", "MB009")

    # ------------------------------------------------------------ values

    def _ring(self, ring: Ring | None) -> Ring:
        if ring is None:
            raise NotRunnable
        return ring

    def _position(self, value: int) -> int:
        position = self.env.get(value)
        if not isinstance(position, int):
            raise NotRunnable
        return position

    def _slot(self, value: int) -> Slot:
        slot = self.env.get(value)
        if not isinstance(slot, Slot):
            raise NotRunnable
        return slot


_WAITING: Mapping[type[steps.Step], Callable[[Unit, Any], Blocked]] = {
    steps.Wait: Unit.wait,
    steps.Drain: Unit.drain,
    steps.Reduce: Unit.reduce,
    steps.Loop: Unit.loop,
    steps.Turns: Unit.turns,
    steps.TakeIssue: Unit.take_issue,
    steps.EndIssue: Unit.end_issue,
}
_AT_ONCE: Mapping[type[steps.Step], Callable[[Unit, Any], None]] = {
    steps.Start: Unit.start,
    steps.Advance: Unit.advance,
    steps.Announce: Unit.announce,
    steps.Copy: Unit.copy,
    steps.CopyByThreads: Unit.copy_by_threads,
    steps.Fence: Unit.fence,
    steps.Look: Unit.look,
    steps.Own: Unit.own,
    steps.Multiply: Unit.multiply,
    steps.HandOver: Unit.hand_over,
    steps.Commit: Unit.commit,
    steps.Retire: Unit.retire,
    steps.Release: Unit.release,
    steps.PassTurn: Unit.pass_turn,
    steps.BeginIssue: Unit.begin_issue,
    steps.PassIssue: Unit.pass_issue,
}
