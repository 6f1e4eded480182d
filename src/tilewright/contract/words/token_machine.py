"""What happens if the roles run, with real counters, parities and bytes, at the trip counts where off-by-ones show?

Each unit of each CTA of one cluster is a coroutine over its role's ring and wgmma operations; barriers have an arrival
count, a transaction count and a phase; copies land late (only when nothing else can move) or at once; a wgmma reads its
slot until a wait covers its group. The run reports a wait that never ends, an arrival too many, a slot overwritten
while it is read, a slot read before it is filled, and fills left over at the end. Copies in flight and schedule are the
only choices; waits depend on neither, so one order at each count stands for all (see `typestate`).

It knows nothing of how the proof goes: it reads the operations again and trusts no declared type. Staging and named
barriers concern one unit at a time and are left to the proof.

Checked by: tests/contract/typestate/test_typestate_tokenmachine.py.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from xdsl.ir import Block, Operation

from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.program import Kernel, Ring, Role, reaches_peers
from tilewright.contract.typestate.steps.issue_order import IssueTurns
from tilewright.contract.words.token_program import (
    Advance,
    Announce,
    BeginIssue,
    Commit,
    Copy,
    CopyByThreads,
    Drain,
    EndIssue,
    Fence,
    HandOver,
    Look,
    Loop,
    Multiply,
    Own,
    PassIssue,
    PassTurn,
    Reduce,
    Release,
    Retire,
    Start,
    TakeIssue,
    TokenProgram,
    Turns,
    Wait,
)
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import COPYING_THREADS
from tilewright.ir.ac.stream import StreamPartOp, TurnStreamPartOp
from tilewright.ir.ac.tensor_memory import TensorHandOverOp

_OVER_TILES = (
    ac.TilesOp, ac.TurnTilesOp, ac.GroupTilesOp, ac.TurnGroupTilesOp, StreamPartOp, TurnStreamPartOp
)  # fmt: skip
_RUNS = 24
_LONGER = (0, 2, 1, 3)
"""Iterations more than a symbol's, tile by tile, where each tile has its own number of them."""
_LARGEST_CLUSTER = 4
_STEPS_SHOWN = 12


class _Slot(NamedTuple):
    """Made at every wait and every read: a tuple takes half as long as a record."""

    ring: str
    position: int
    group: int = -1


_OWN = _Slot("", 0)
"""Memory of a unit's own: nobody else waits for it."""


@dataclass(slots=True)
class _Barrier:
    """count: arrivals per phase; completed: phases done."""

    count: int
    pending: int
    tx: int = 0
    completed: int = 0

    def settle(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.completed += 1
            self.pending = self.count

    def passes(self, parity: int) -> bool:
        """Whether a wait for `parity` returns: the preceding phase has that parity."""
        return (self.completed + 1) % 2 == parity


@dataclass(slots=True)
class _RingState:
    full: list[_Barrier]
    empty: list[_Barrier]
    content: list[int]
    readers: list[set[str]]
    fills: dict[str, int] = field(default_factory=dict[str, int])
    reads: dict[str, int] = field(default_factory=dict[str, int])


class _InFlight(NamedTuple):
    """A copy: bytes of the copy engine's or, later than all before them, deferred arrivals of copying threads.
    counted_in: the CTA whose barrier counts them, if it is another."""

    cta: int
    ring: str
    stage: int
    position: int
    bytes: int
    arrivals: int = 0
    by: Operation | None = None
    counted_in: int | None = None


class _Violation(Exception):
    """The run broke a rule."""

    def __init__(self, code: str, operation: Operation, message: str) -> None:
        self.code, self.operation, self.message = code, operation, message
        super().__init__(message)


class _NotRunnable(Exception):
    """The program is not of a shape that can be run; the proof has said why."""


_Blocked = Generator[tuple[_Barrier | IssueTurns, int, Operation], None, None]


@dataclass(slots=True)
class _Unit:
    name: str
    cta: int
    role: Role
    machine: _Machine
    number: int = 0
    env: dict[int, object] = field(default_factory=dict[int, object])
    committed: int = 0
    items: int = 0
    tile: int = -1
    running: list[tuple[int, _Slot]] = field(default_factory=list[tuple[int, _Slot]])
    block: tuple[_Barrier | IssueTurns, int, Operation] | None = None
    code: _Blocked | None = None

    def run(self, block: Block) -> _Blocked:
        machine, env = self.machine, self.env
        for step in machine.program.steps(block):
            # The most frequent first.
            if isinstance(step, Wait):
                ring, position = self._ring(step.ring), self._position(step.cursor)
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
                env[step.result] = _Slot(ring.name, position)
                if step.full:
                    state.reads[self.name] = state.reads.get(self.name, 0) + 1
            elif isinstance(step, Advance):
                env[step.result] = self._position(step.cursor) + 1
            elif isinstance(step, Copy):
                env[step.result] = machine.issue(self, self._slot(step.slot), step)
            elif isinstance(step, Multiply):
                env[step.reading] = machine.read(self, self._slot(step.slot), step)
                if step.a_slot >= 0:
                    env[step.a_reading] = machine.read(self, self._slot(step.a_slot), step)
                if step.into >= 0:
                    env[step.filling] = machine.fill(self, self._slot(step.into), step)
                for given, kept in step.passed:
                    env[kept] = self._slot(given)
            elif isinstance(step, Commit):
                self.committed += 1
            elif isinstance(step, Retire):
                machine.retire(self, step.pending)
                for reading, retired in step.pairs:
                    env[retired] = self._slot(reading)
            elif isinstance(step, Release):
                machine.release(self, self._slot(step.slot), step)
            elif isinstance(step, HandOver):
                machine.hand_over(self, self._slot(step.slot), step)
            elif isinstance(step, Announce):
                env[step.result] = machine.announce(self, self._slot(step.slot), step)
            elif isinstance(step, Turns):
                yield from self._turns(step)
            elif isinstance(step, Loop):
                yield from self._loop(step)
            elif isinstance(step, Start):
                env[step.result] = 0
            elif isinstance(step, CopyByThreads):
                slot = machine.copy_by_threads(self, self._slot(step.slot), step)
                if not step.arrives:
                    env[step.result] = slot
            elif isinstance(step, Fence):
                env[step.result] = self._slot(step.slot)
            elif isinstance(step, Look):
                env[step.result] = machine.look(self, self._slot(step.slot), step)
                if step.made >= 0:
                    env[step.made] = _OWN
            elif isinstance(step, Own):
                env[step.result] = _OWN
            elif isinstance(step, Reduce):
                yield from self._reduce(step)
            elif isinstance(step, Drain):
                yield from self._drain(step)
            elif isinstance(step, PassTurn):
                self._pass_turn(step)
            elif isinstance(step, BeginIssue):
                if self.number == self.role.count - 1:
                    machine.give_issue(self, step.op)
            elif isinstance(step, PassIssue):
                machine.give_issue(self, step.op)
            elif isinstance(step, TakeIssue) or self.number == 0:
                # Unit 0 takes the arrival that is left at the end.
                yield from self._take_issue(step)

    def _loop(self, step: Loop) -> _Blocked:
        trips, env = self._trips(step.symbol), self.env
        if step.yielded is None:
            raise _NotRunnable
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
                raise _NotRunnable
            count = symbols[own] + symbols[rest] + longer
            mine = max(1, symbols[own] + longer - self.number)
            return {whole: count, own: mine, rest: count - mine}[symbol]
        if symbol not in symbols:
            raise _NotRunnable
        return symbols[symbol] + (longer if symbol in program.ranged else 0)

    def _drain(self, step: Drain) -> _Blocked:
        ring, first = self._ring(step.ring), self._position(step.cursor)
        empty = self.machine.states[self.cta][ring.name].empty
        for position in range(first, first + ring.stages):
            stage, parity = position % ring.stages, position // ring.stages & 1 ^ 1
            self.machine.log(self.name, f"waits for parity {parity} of empty[{stage}] of ring {ring.name} at its end")
            while not empty[stage].passes(parity):
                yield empty[stage], parity, step.op

    def _take_issue(self, step: TakeIssue | EndIssue) -> _Blocked:
        turns = self.machine.issue_turns(self)[self.number]
        self.machine.log(self.name, f"waits for turn {turns.taken} of issue")
        while not turns.passes(turns.taken):
            yield turns, turns.taken, step.op
        turns.taken += 1

    def _turns(self, step: Turns) -> _Blocked:
        """Every second tile, counted from the role's first such loop on: wait for the turn, run the body; in between,
        cursors pass over the other's slots."""
        machine = self.machine
        trips, skipped = machine.symbols.get(step.symbol), machine.symbols.get(step.slots)
        if trips is None or skipped is None or step.yielded is None:
            raise _NotRunnable
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

    def _turn(self, turns: Ring | None, number: int) -> _Barrier:
        """A unit's barrier of turns."""
        state = self.machine.states[self.cta][self._ring(turns).name]
        return state.empty[0] if number else state.full[0]

    def _pass_turn(self, step: PassTurn) -> None:
        self.machine.log(self.name, "passes the turn on")
        barrier = self._turn(step.turns, 1 - self.number)
        self.machine.arrive(barrier, self, step.op, "the other's barrier of turns", "MB009")

    def _reduce(self, step: Reduce) -> _Blocked:
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

    def _ring(self, ring: Ring | None) -> Ring:
        if ring is None:
            raise _NotRunnable
        return ring

    def _position(self, value: int) -> int:
        position = self.env.get(value)
        if not isinstance(position, int):
            raise _NotRunnable
        return position

    def _slot(self, value: int) -> _Slot:
        slot = self.env.get(value)
        if not isinstance(slot, _Slot):
            raise _NotRunnable
        return slot


@dataclass(slots=True)
class _Machine:
    kernel: Kernel
    symbols: Mapping[str, int]
    eager: bool
    trace: list[str] | None
    program: TokenProgram
    states: list[dict[str, _RingState]] = field(default_factory=list[dict[str, _RingState]])
    copies: list[_InFlight] = field(default_factory=list[_InFlight])
    signalled: dict[tuple[str, str, str], int] = field(default_factory=dict[tuple[str, str, str], int])
    """The last position that a unit filled or released, by unit, ring and side; of a run that is traced."""
    orders: dict[tuple[int, str], list[IssueTurns]] = field(default_factory=dict[tuple[int, str], list[IssueTurns]])

    def log(self, who: str, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{who}: {what}")

    def _at(self, cta: int, slot: _Slot) -> tuple[_RingState, int]:
        return self.states[cta][slot.ring], slot.position % self.kernel.rings[slot.ring].stages

    def _ctas(self, unit: _Unit, *, everywhere: bool, leader: bool = False) -> Sequence[int]:
        """Whom a step of a unit concerns: each CTA, the first one, or its own."""
        return range(len(self.states)) if everywhere else (0,) if leader else (unit.cta,)

    def announce(self, unit: _Unit, slot: _Slot, step: Announce) -> _Slot:
        state, stage = self._at(0 if step.leader else unit.cta, slot)
        barrier = state.full[stage]
        if self.trace is not None:
            self.log(unit.name, f"arrives on full[{stage}] and announces {step.bytes} bytes")
            self.signalled[unit.name, slot.ring, "full"] = slot.position
        barrier.tx += step.bytes
        self.arrive(barrier, unit, step.op, f"full[{stage}]", "MB008")
        state.fills[unit.name] = state.fills.get(unit.name, 0) + 1
        return slot

    def issue(self, unit: _Unit, slot: _Slot, step: Copy) -> _Slot:
        if step.bytes is None:
            raise _NotRunnable
        for cta in self._ctas(unit, everywhere=step.everywhere):
            state, stage = self._at(cta, slot)
            if state.readers[stage]:
                raise self._overwritten(state, stage, slot, step.op)
            if self.trace is not None:
                self.log(unit.name, f"issues {step.bytes} bytes into slot {stage}" + self._in(cta))
            counted_in = 0 if step.leader else None
            self.copies.append(_InFlight(cta, slot.ring, stage, slot.position, step.bytes, counted_in=counted_in))
            if self.eager:
                self.land()
        return slot

    def copy_by_threads(self, unit: _Unit, slot: _Slot, step: CopyByThreads) -> _Slot:
        """Threads' copies into a slot of their own CTA, which land in any order, and the arrivals deferred until all
        before them have."""
        state, stage = self._at(unit.cta, slot)
        if state.readers[stage]:
            raise self._overwritten(state, stage, slot, step.op)
        arrivals = COPYING_THREADS if step.arrives else 0
        what = f"defers {arrivals} arrivals on full[{stage}]" if arrivals else f"copies into slot {stage}"
        self.log(unit.name, what + self._in(unit.cta))
        self.copies.append(_InFlight(unit.cta, slot.ring, stage, slot.position, 0, arrivals, step.op))
        if self.eager:
            self.land()
        return slot

    def fill(self, unit: _Unit, slot: _Slot, step: Multiply) -> _Slot:
        """Products write a slot, at any time until it is handed over."""
        for cta in self._ctas(unit, everywhere=step.everywhere):
            state, stage = self._at(cta, slot)
            if state.readers[stage]:
                raise self._overwritten(state, stage, slot, step.op)
            state.content[stage] = -1
        return slot

    def hand_over(self, unit: _Unit, slot: _Slot, step: HandOver) -> None:
        """The tensor core arrives once it is done, which is when it pleases."""
        for cta in self._ctas(unit, everywhere=step.everywhere):
            state, stage = self._at(cta, slot)
            if self.trace is not None:
                self.log(unit.name, f"commits the products that fill slot {stage}" + self._in(cta))
                self.signalled[unit.name, slot.ring, "full"] = slot.position
            self.copies.append(_InFlight(cta, slot.ring, stage, slot.position, 0, 1, step.op))
            state.fills[unit.name] = state.fills.get(unit.name, 0) + 1
            if self.eager:
                self.land()

    def _overwritten(self, state: _RingState, stage: int, slot: _Slot, op: Operation) -> _Violation:
        reader = min(state.readers[stage])
        return _Violation("MB009", op, f"a copy overwrites slot {stage} of ring {slot.ring} while {reader} reads it")

    def _in(self, cta: int) -> str:
        return f" of CTA {cta}" if len(self.states) > 1 else ""

    def land(self) -> None:
        """The oldest copy in flight completes."""
        copy = self.copies.pop(0)
        self.states[copy.cta][copy.ring].content[copy.stage] = copy.position
        barrier = self.states[copy.cta if copy.counted_in is None else copy.counted_in][copy.ring].full[copy.stage]
        barrier.tx -= copy.bytes
        if copy.arrivals and copy.by is not None:
            who = "tensor core" if isinstance(copy.by, TensorHandOverOp) else "copying threads"
            self.log(who, f"arrive {copy.arrivals} times on full[{copy.stage}]" + self._in(copy.cta))
            if barrier.pending < copy.arrivals:
                raise _Violation(
                    "MB008", copy.by, f"{copy.arrivals} arrivals on full[{copy.stage}], which takes {barrier.pending}"
                )
            barrier.pending -= copy.arrivals
        else:
            if self.trace is not None:
                who = "copy engine" if copy.by is None else "copying threads"
                self.log(who, f"{copy.bytes} bytes arrive in slot {copy.stage}" + self._in(copy.cta))
        barrier.settle()

    def look(self, unit: _Unit, slot: _Slot, step: Look) -> _Slot:
        """The unit's threads begin to read a slot."""
        if slot is _OWN:
            raise _NotRunnable
        state, stage = self._at(unit.cta, slot)
        reads_already = unit.name in state.readers[stage]
        self._begin_reading(unit, unit.cta, slot, step.op, "reads")
        if step.ends and not reads_already:
            state.readers[stage].discard(unit.name)
        return slot

    def read(self, unit: _Unit, slot: _Slot, step: Multiply) -> _Slot:
        if slot is _OWN:
            return slot
        for cta in self._ctas(unit, everywhere=step.everywhere):
            self._begin_reading(unit, cta, slot, step.op, "wgmma reads")
        reading = _Slot(slot.ring, slot.position, unit.committed)
        unit.running.append((unit.committed, reading))
        return reading

    def _begin_reading(self, unit: _Unit, cta: int, slot: _Slot, op: Operation, what: str) -> None:
        state, stage = self._at(cta, slot)
        if state.content[stage] != slot.position:
            raise _Violation("MB005", op, f"{unit.name} reads slot {stage} of ring {slot.ring} before it is filled")
        if self.trace is not None:
            self.log(unit.name, f"{what} slot {stage}")
        state.readers[stage].add(unit.name)

    def retire(self, unit: _Unit, pending: int) -> None:
        if self.trace is not None:
            self.log(unit.name, f"waits until at most {pending} wgmma groups are pending")
        done = unit.committed - pending
        left: list[tuple[int, _Slot]] = []
        for running in unit.running:
            group, slot = running
            if group < done:
                state, stage = self._at(unit.cta, slot)
                state.readers[stage].discard(unit.name)
            else:
                left.append(running)
        unit.running = left

    def release(self, unit: _Unit, slot: _Slot, step: Release) -> None:
        if slot is _OWN:
            raise _NotRunnable
        if step.by_products:
            # The tensor core may be as quick as that; when it arrives, no wait's outcome depends on.
            self._end_reading(unit, slot, everywhere=step.everywhere)
        for _, running in unit.running:
            if running.position == slot.position and running.ring == slot.ring:
                raise _Violation(
                    "WG002", step.op, f"{unit.name} releases slot number {slot.position} while its wgmma reads it"
                )
        for cta in self._ctas(unit, everywhere=step.everywhere, leader=step.leader):
            state, stage = self._at(cta, slot)
            if self.trace is not None:
                self.log(unit.name, f"arrives on empty[{stage}]" + self._in(cta))
                self.signalled[unit.name, slot.ring, "empty"] = slot.position
            self.arrive(state.empty[stage], unit, step.op, f"empty[{stage}]", "MB009")

    def _end_reading(self, unit: _Unit, slot: _Slot, *, everywhere: bool) -> None:
        """The products that read a slot are done."""
        unit.running = [each for each in unit.running if each[1][:2] != slot[:2]]
        for cta in self._ctas(unit, everywhere=everywhere):
            state, stage = self._at(cta, slot)
            state.readers[stage].discard(unit.name)

    def exchange(self, unit: _Unit, ring: str, stage: int, op: Operation) -> None:
        """Announce one share from each CTA, and write a share into each: bytes are counted in shares."""
        own = self.states[unit.cta][ring].full[stage]
        self.log(unit.name, f"arrives on full[{stage}] of ring {ring} and announces {len(self.states)} shares")
        own.tx += len(self.states)
        self.arrive(own, unit, op, f"full[{stage}]", "MB008")
        for cta, states in enumerate(self.states):
            self.log(unit.name, f"writes its share of ring {ring}" + self._in(cta))
            barrier = states[ring].full[stage]
            barrier.tx -= 1
            barrier.settle()

    def leave(self, unit: _Unit, ring: str, stage: int, op: Operation) -> None:
        """Arrive on every CTA's empty barrier of a rendezvous."""
        for cta, states in enumerate(self.states):
            self.log(unit.name, f"arrives on empty[{stage}] of ring {ring}" + self._in(cta))
            self.arrive(states[ring].empty[stage], unit, op, f"empty[{stage}]", "MB009")

    def issue_turns(self, unit: _Unit) -> list[IssueTurns]:
        """Of each unit of a unit's role, in its CTA."""
        found = self.orders.get((unit.cta, unit.role.name))
        if found is None:
            found = self.orders[unit.cta, unit.role.name] = [IssueTurns() for _ in range(unit.role.count)]
        return found

    def give_issue(self, unit: _Unit, op: Operation) -> None:
        following = (unit.number + 1) % unit.role.count
        turns = self.issue_turns(unit)[following]
        self.log(unit.name, f"gives unit {following} turn {turns.given} of issue")
        if turns.is_early:
            raise _Violation("NB002", op, f"{unit.name} gives unit {following} a turn before it has taken the last")
        turns.given += 1

    def arrive(self, barrier: _Barrier, unit: _Unit, op: Operation, name: str, code: str) -> None:
        if barrier.pending == 0:
            raise _Violation(code, op, f"{unit.name} arrives on {name}, whose {barrier.count} arrivals are complete")
        barrier.pending -= 1
        barrier.settle()

    def run(self) -> None:
        """Run to the end. Raises _Violation, or _NotRunnable for what the proof must have doubted."""
        kernel = self.kernel
        for _ in range(kernel.cluster_ctas):
            self.states.append(
                {
                    ring.name: _RingState(
                        [_Barrier(ring.full_arrivals, ring.full_arrivals) for _ in range(ring.stages)],
                        [_Barrier(ring.empty_arrivals, ring.empty_arrivals) for _ in range(ring.stages)],
                        [-1] * ring.stages,
                        [set() for _ in range(ring.stages)],
                    )
                    for ring in kernel.rings.values()
                }
            )
        units = self._units()
        waiting: list[_Unit] = [unit for unit in units if self._advance(unit)]
        while waiting:
            ready = [unit for unit in waiting if unit.block is not None and unit.block[0].passes(unit.block[1])]
            if not ready:
                if self.copies:
                    self.land()
                    continue
                raise self._deadlock(waiting)
            ended = {unit.name for unit in ready if not self._advance(unit)}
            waiting = [unit for unit in waiting if unit.name not in ended]
        self._finish(units)

    def _units(self) -> list[_Unit]:
        units: list[_Unit] = []
        for cta in range(self.kernel.cluster_ctas):
            for role in self.kernel.roles:
                for number in range(0 if role.leader and cta else role.count):
                    name = role.name if role.count == 1 else f"{role.name} {number}"
                    unit = _Unit(name + self._in(cta), cta, role, self, number)
                    unit.code = unit.run(role.op.body.block)
                    units.append(unit)
        return units

    def _advance(self, unit: _Unit) -> bool:
        """Run until the unit blocks; False when it has ended."""
        assert unit.code is not None
        unit.block = next(unit.code, None)
        return unit.block is not None

    def _deadlock(self, waiting: Sequence[_Unit]) -> _Violation:
        first = waiting[0]
        assert first.block is not None
        for unit in waiting:
            self.log(unit.name, "waits forever")
        if self.trace is not None:
            self._log_circle(waiting)
        names = ", ".join(unit.name for unit in waiting)
        return _Violation("LV005", first.block[2], f"nothing can move: {names} wait forever")

    def _log_circle(self, waiting: Sequence[_Unit]) -> None:
        """Who waits for whom, from one unit round to itself."""
        edges: dict[str, tuple[str, str]] = {}
        for unit in waiting:
            lacking = self._lacks(unit, waiting)
            if lacking is not None:
                edges[unit.name] = lacking
        path: list[str] = []
        name = waiting[0].name
        while name in edges and name not in path:
            path.append(name)
            name = edges[name][0]
        if name in path:
            for each in path[path.index(name) :]:
                self.log(each, f"waits for {edges[each][0]}, {edges[each][1]}")

    def _lacks(self, unit: _Unit, waiting: Sequence[_Unit]) -> tuple[str, str] | None:
        """Another stuck unit without whose signal a unit's wait never ends, and what that is."""
        op = unit.block[2] if unit.block is not None else None
        ring = self.kernel.declared.get(op.ring) if isinstance(op, ac.BarrierWaitOp) else None
        if not isinstance(op, ac.BarrierWaitOp) or not isinstance(ring, Ring):
            return None
        side = op.side.data
        # The one that is furthest behind has not signalled this phase.
        others = [
            (self.signalled.get((other.name, ring.name, side), -1), number)
            for number, other in enumerate(waiting)
            if other is not unit and _signals(other.role, ring, side, self.kernel)
        ]
        if not others:
            return None
        what = "fill" if side == "full" else "release"
        return waiting[min(others)[1]].name, f"which has yet to {what} a slot of ring {ring.name}"

    def _finish(self, units: Sequence[_Unit]) -> None:
        while self.copies:
            self.land()
        turning = {role.name for role in self.kernel.roles if _takes_turns(role)}
        for cta, states in enumerate(self.states):
            for name, state in states.items():
                ring = self.kernel.rings[name]
                reads = _by_role([unit for unit in units if unit.cta == cta], state, turning)
                counts = {count for each in reads for count in each} or {0}
                filled = sum(barrier.completed for barrier in state.full) if state.fills else 0
                # Roles read all slots each, or take them alternately.
                if counts != {filled} and sum(max(each) for each in reads) != filled:
                    self.log("CTA", f"ends; {filled} slots of ring {name} were filled and {max(counts)} read")
                    raise _Violation("LV004", ring.op, f"{filled} slots of ring {name} are filled, {max(counts)} read")
                if any(barrier.tx for barrier in state.full):
                    raise _Violation("TX001", ring.op, f"ring {name} ends with bytes outstanding")
                if state.fills and any(barrier.pending != barrier.count for barrier in state.full):
                    raise _Violation("LV004", ring.op, f"ring {name} ends with a slot that is filled in part")


def _by_role(units: Sequence[_Unit], state: _RingState, turning: set[str]) -> list[set[int]]:
    """Slots that units of each role have read; together, of ping-pong units."""
    found: dict[str, list[int]] = {}
    for unit in units:
        if unit.name in state.reads:
            found.setdefault(unit.role.name, []).append(state.reads[unit.name])
    return [{sum(counts)} if role in turning else set(counts) for role, counts in found.items()]


def _signals(role: Role, ring: Ring, side: str, kernel: Kernel) -> bool:
    """Whether a role completes phases of a ring's side: who waits on one signals on the other."""
    waits = role.operations.of(ac.BarrierWaitOp)
    return any(op.side.data != side and kernel.declared.get(op.ring) is ring for op in waits)


def _takes_turns(role: Role) -> bool:
    return any(isinstance(op, ac.TurnLoop) for op in role.op.body.block.ops)


def boundary_counts(kernel: Kernel) -> list[dict[str, int]]:
    """Values of the symbols to run at, smallest first."""
    stages = max((ring.stages for ring in kernel.rings.values()), default=1)
    outer = {op.symbol.data for op in kernel.operations.of(*_OVER_TILES)}
    parts = {op.slices.data for op in kernel.operations.of(StreamPartOp, TurnStreamPartOp)}
    names = sorted(kernel.symbols)
    options: list[list[int]] = []
    for name in names:
        # A symbol without a minimum is doubted elsewhere; its own value is all that may be run.
        least = kernel.minima.get(name, kernel.symbols[name])
        wanted = {0, 1, 2, 3} if name in outer else {1, stages - 1, stages, stages + 1, 2 * stages + 1}
        if name in parts:
            # As many combinations as without parts would take too long to list; whole tiles run at the others.
            wanted = {stages, stages + 1}
        options.append(sorted({least, *(value for value in wanted if value > least)}))
    # (product, sum, values): their own order is by size, and of as large ones by values.
    sizes: list[tuple[int, int, tuple[int, ...]]] = [(1, 0, ())]
    for values in options:
        sizes = [(size * max(1, one), total + one, (*point, one)) for size, total, point in sizes for one in values]
    sizes.sort()
    points = [point for _, _, point in sizes]
    limit = max(4, _RUNS // kernel.cluster_ctas)
    if len(points) > limit:
        # Keep the smallest, which give the shortest runs, and spread the rest over the larger ones.
        head, tail = points[: limit // 2], points[limit // 2 :]
        step = -(-len(tail) // (limit - limit // 2))
        points = [*head, *tail[step - 1 :: step]]
    return [dict(zip(names, point, strict=True)) for point in points]


def large_counts(kernel: Kernel) -> list[dict[str, int]]:
    """Counts at which every ring is full and more is to come, whichever loop fills it."""
    slots = sum(ring.stages for ring in kernel.rings.values()) + 1
    outer = sorted(op.symbol.data for op in kernel.operations.of(*_OVER_TILES))
    found: list[dict[str, int]] = []
    for tiles in (2, slots):
        for rest in (1, 2, slots):
            counts = {name: tiles if name in outer else rest for name in sorted(kernel.symbols)}
            found.append({name: max(value, kernel.minima.get(name, value)) for name, value in counts.items()})
    return found


def run_boundary_counts(kernel: Kernel, findings: Findings, *, large: bool = False) -> None:
    """Run the kernel's roles at boundary counts. A violation becomes a finding, or the run of an earlier one. large: at
    large ones as well, where a circle of waits is not excluded."""
    if kernel.cluster_ctas < 1 or not kernel.rings:
        return
    # One past all shared memory is refuted already, and would be run through as long as it is said to be.
    most_bytes = kernel.facts.limit("cta.shared_bytes_max")
    if any(ring.stages < 1 or ring.bytes > most_bytes for ring in kernel.rings.values()):
        return
    if kernel.cluster_ctas > _LARGEST_CLUSTER:
        kernel = replace(kernel, cluster_ctas=1) if not reaches_peers(kernel.operations) else kernel
    program = TokenProgram(kernel)
    counts = [*boundary_counts(kernel), *(large_counts(kernel) if large else ())]
    for number, symbols in enumerate(counts):
        try:
            _Machine(kernel, symbols, number % 2 == 1, None, program).run()
        except _NotRunnable:
            if not findings.found and not findings.doubts:
                findings.doubt("the roles can't be run at concrete counts", kernel.op)
            return
        except _Violation as violation:
            _tell(program, symbols, number % 2 == 1, violation, findings)
            return


def _tell(
    program: TokenProgram, symbols: Mapping[str, int], eager: bool, violation: _Violation, findings: Findings
) -> None:
    trace: list[str] = []
    with suppress(_Violation):
        _Machine(program.kernel, symbols, eager, trace, program).run()
    counts = ", ".join(f"{name} = {value}" for name, value in symbols.items())
    steps = (f"with {counts or 'no symbols'}:", *trace[-_STEPS_SHOWN:], violation.message)
    if not findings.found:
        findings.report(violation.code, violation.operation, f"{violation.message} (with {counts})", steps=steps)
        return
    first = findings.found[0]
    if not first.interleaving:
        findings.found[0] = replace(first, interleaving=steps)
