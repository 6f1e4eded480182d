"""What happens if the roles run, with real counters, parities and bytes, at the trip counts where off-by-ones show?

Each unit of each CTA of one cluster is a coroutine over its role's ring and wgmma operations; barriers have an arrival
count, a transaction count and a phase; copies land late (only when nothing else can move) or at once; a wgmma reads its
slot until a wait covers its group. The run reports a wait that never ends, an arrival too many, a slot overwritten
while it is read, a slot read before it is filled, and fills left over at the end. Copies in flight and schedule are the
only choices; waits depend on neither, so one order at each count stands for all (see `typestate`).

It knows nothing of how the proof goes: it reads the operations again and trusts no declared type. Staging and named
barriers concern one unit at a time and are left to the proof.

Checked by: tests/contract/test_typestate_tokenmachine.py.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from tilewright.contract.finding import Findings
from tilewright.contract.issue_order_steps import IssueTurns
from tilewright.contract.program import Kernel, Map, Ring, Role, reaches_peers
from tilewright.ir import ac
from tilewright.ir.ac_async_copy import COPYING_THREADS, AsyncCopyArriveOp, AsyncCopyFenceOp, AsyncCopyIssueOp
from tilewright.ir.ac_issue_order import IssueOrderEndOp, IssueOrderStartOp, IssuePassOp, IssueTakeOp
from tilewright.ir.ac_register_operand import ComputedIssueOp, OperandReadOp
from tilewright.ir.ac_stream import STREAM_INDICES, StreamPartOp, TurnStreamPartOp

_OverTiles = ac.TilesOp | ac.TurnLoop | ac.GroupTilesOp | StreamPartOp | TurnStreamPartOp
_RUNS = 24
_LARGEST_CLUSTER = 4
_STEPS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class _Slot:
    ring: str
    position: int
    group: int = -1


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
    fills: int = 0
    reads: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class _Copy:
    """In flight, bytes of the copy engine's or, later than all before them, deferred arrivals of copying threads."""

    cta: int
    ring: str
    stage: int
    position: int
    bytes: int
    arrivals: int = 0
    by: Operation | None = None


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
    env: dict[SSAValue, object] = field(default_factory=dict[SSAValue, object])
    committed: int = 0
    items: int = 0
    running: list[tuple[int, _Slot]] = field(default_factory=list[tuple[int, _Slot]])
    block: tuple[_Barrier | IssueTurns, int, Operation] | None = None
    code: _Blocked | None = None

    def run(self, block: Block) -> _Blocked:
        machine, env = self.machine, self.env
        for op in block.ops:
            if op in machine.inert:
                continue
            # The most frequent first: a class that an operation is not takes longest to tell.
            match op:
                case ac.BarrierWaitOp():
                    ring, position = machine.ring(op.ring), self._position(op.cursor)
                    stage, state = position % ring.stages, machine.states[self.cta][ring.name]
                    barrier = state.full[stage] if op.side.data == "full" else state.empty[stage]
                    parity = (position // ring.stages & 1) ^ op.invert_parity.data
                    machine.log(
                        self.name, f"waits for parity {parity} of {op.side.data}[{stage}] (slot number {position})"
                    )
                    while not barrier.passes(parity):
                        yield barrier, parity, op
                    env[op.result] = _Slot(ring.name, position)
                    if op.side.data == "full":
                        state.reads[self.name] = state.reads.get(self.name, 0) + 1
                case ac.AdvanceOp():
                    env[op.result] = self._position(op.cursor) + 1
                case ac.CopyIssueOp():
                    env[op.result] = machine.issue(self, self._slot(op.tx), op)
                case ac.WgmmaIssueOp():
                    env[op.reading] = machine.read(self, self._slot(op.phase), op)
                case ac.WgmmaCommitOp():
                    self.committed += 1
                case ac.WgmmaWaitOp():
                    machine.retire(self, op)
                    if op.retired is not None and op.reading is not None:
                        env[op.retired] = self._slot(op.reading)
                case ac.ArriveOp():
                    machine.release(self, self._slot(op.phase), op)
                case ac.ArriveExpectOp():
                    env[op.result] = machine.announce(self, self._slot(op.phase), op)
                case ac.LoopOp():
                    yield from self._loop(op, op.begin.data, 1)
                case ac.CursorStartOp():
                    env[op.result] = 0
                case AsyncCopyIssueOp():
                    env[op.result] = machine.copy_by_threads(self, self._slot(op.tx), op)
                case AsyncCopyArriveOp():
                    machine.copy_by_threads(self, self._slot(op.tx), op)
                case AsyncCopyFenceOp():
                    env[op.result] = self._slot(op.phase)
                case OperandReadOp():
                    env[op.result] = machine.look(self, self._slot(op.phase), op)
                case ComputedIssueOp():
                    env[op.reading] = machine.read(self, self._slot(op.computed), op)
                case ac.ClusterReduceOp():
                    yield from self._reduce(op)
                case ac.TilesOp():
                    yield from self._loop(op, 0, op.indices)
                case ac.GroupTilesOp():
                    yield from self._loop(op, 0, ac.GROUP_INDICES)
                case StreamPartOp():
                    yield from self._loop(op, 0, STREAM_INDICES)
                case TurnStreamPartOp():
                    yield from self._turns(op, STREAM_INDICES)
                case ac.TurnTilesOp():
                    yield from self._turns(op, op.indices)
                case ac.TurnGroupTilesOp():
                    yield from self._turns(op, ac.GROUP_INDICES)
                case ac.TurnPassOp():
                    self._pass_turn(op)
                case IssueOrderStartOp():
                    if self.number == self.role.count - 1:
                        machine.give_issue(self, op)
                case IssuePassOp():
                    machine.give_issue(self, op)
                case IssueTakeOp():
                    yield from self._take_issue(op)
                case IssueOrderEndOp():
                    if self.number == 0:
                        yield from self._take_issue(op)
                case _:
                    machine.inert.add(op)

    def _loop(self, op: ac.LoopOp | ac.TilesOp | ac.GroupTilesOp | StreamPartOp, begin: int, indices: int) -> _Blocked:
        body, trips = op.body.block, self.machine.symbols.get(op.symbol.data)
        last = body.last_op
        if trips is None or not isinstance(last, ac.YieldOp) or len(last.values) != len(op.carried):
            raise _NotRunnable
        values = [self.env.get(value) for value in op.carried]
        for _ in range(begin, trips):
            self.env.update(zip(body.args[indices:], values, strict=True))
            yield from self.run(body)
            values = [self.env.get(value) for value in last.values]
        self.env.update(zip(op.outputs, values, strict=True))

    def _take_issue(self, op: IssueTakeOp | IssueOrderEndOp) -> _Blocked:
        turns = self.machine.issue_turns(self)[self.number]
        self.machine.log(self.name, f"waits for turn {turns.taken} of issue")
        while not turns.passes(turns.taken):
            yield turns, turns.taken, op
        turns.taken += 1

    def _turns(self, op: ac.TurnLoop | TurnStreamPartOp, indices: int) -> _Blocked:
        """Every second tile, counted from the role's first such loop on: wait for the turn, run the body; in between,
        cursors pass over the other's slots."""
        machine, body, last = self.machine, op.body.block, op.body.block.last_op
        slots = op.slices if isinstance(op, TurnStreamPartOp) else op.skipped
        trips, skipped = machine.symbols.get(op.symbol.data), machine.symbols.get(slots.data)
        if trips is None or skipped is None or not isinstance(last, ac.YieldOp) or len(last.values) != len(op.carried):
            raise _NotRunnable
        barrier = self._turn(op.turns, self.number)
        positions = [self._position(value) for value in op.carried]
        first, self.items = self.items, self.items + trips
        for tile in range(first, first + trips):
            if tile % 2 != self.number:
                positions = [position + skipped for position in positions]
                continue
            parity = tile // 2 & 1 ^ 1 ^ self.number
            machine.log(self.name, f"waits for parity {parity} of its turn (tile {tile})")
            while not barrier.passes(parity):
                yield barrier, parity, op
            self.env.update(zip(body.args[indices:], positions, strict=True))
            yield from self.run(body)
            positions = [self._position(value) for value in last.values]
        self.env.update(zip(op.outputs, positions, strict=True))

    def _turn(self, turns: SSAValue, number: int) -> _Barrier:
        """A unit's barrier of turns."""
        state = self.machine.states[self.cta][self.machine.ring(turns).name]
        return state.empty[0] if number else state.full[0]

    def _pass_turn(self, op: ac.TurnPassOp) -> None:
        self.machine.log(self.name, "passes the turn on")
        self.machine.arrive(self._turn(op.turns, 1 - self.number), self, op, "the other's barrier of turns", "MB009")

    def _reduce(self, op: ac.ClusterReduceOp) -> _Blocked:
        """A rendezvous: wait for the empty slot, announce what comes, write to every CTA, wait, tell every CTA that it
        is read."""
        machine, ring, position = self.machine, self.machine.ring(op.ring), self._position(op.cursor)
        stage, phase = position % ring.stages, position // ring.stages & 1
        for side, parity in (("empty", phase ^ 1), ("full", phase)):
            own = machine.states[self.cta][ring.name]
            barrier = own.empty[stage] if side == "empty" else own.full[stage]
            machine.log(self.name, f"waits for parity {parity} of {side}[{stage}] of ring {ring.name}")
            while not barrier.passes(parity):
                yield barrier, parity, op
            if side == "empty":
                machine.exchange(self, ring.name, stage, op)
            else:
                machine.leave(self, ring.name, stage, op)
        self.env[op.following] = position + 1

    def _position(self, value: SSAValue) -> int:
        position = self.env.get(value)
        if not isinstance(position, int):
            raise _NotRunnable
        return position

    def _slot(self, value: SSAValue) -> _Slot:
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
    inert: set[Operation] = field(default_factory=set[Operation])
    """Operations found to move nothing here; shared by the runs of a kernel, which are many and walk them all."""
    states: list[dict[str, _RingState]] = field(default_factory=list[dict[str, _RingState]])
    copies: list[_Copy] = field(default_factory=list[_Copy])
    orders: dict[tuple[int, str], list[IssueTurns]] = field(default_factory=dict[tuple[int, str], list[IssueTurns]])

    def log(self, who: str, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{who}: {what}")

    def ring(self, value: SSAValue) -> Ring:
        ring = self.kernel.declared.get(value)
        if not isinstance(ring, Ring):
            raise _NotRunnable
        return ring

    def _at(self, cta: int, slot: _Slot) -> tuple[_RingState, int]:
        return self.states[cta][slot.ring], slot.position % self.kernel.rings[slot.ring].stages

    def announce(self, unit: _Unit, slot: _Slot, op: ac.ArriveExpectOp) -> _Slot:
        state, stage = self._at(unit.cta, slot)
        barrier = state.full[stage]
        self.log(unit.name, f"arrives on full[{stage}] and announces {op.bytes.data} bytes")
        barrier.tx += op.bytes.data
        self.arrive(barrier, unit, op, f"full[{stage}]", "MB008")
        state.fills += 1
        return slot

    def issue(self, unit: _Unit, slot: _Slot, op: ac.CopyIssueOp) -> _Slot:
        tensor_map = self.kernel.declared.get(op.descriptor)
        if not isinstance(tensor_map, Map):
            raise _NotRunnable
        targets = range(len(self.states)) if op.multicast.data > 1 else (unit.cta,)
        for cta in targets:
            state, stage = self._at(cta, slot)
            if state.readers[stage]:
                reader = min(state.readers[stage])
                raise _Violation(
                    "MB009", op, f"a copy overwrites slot {stage} of ring {slot.ring} while {reader} reads it"
                )
            self.log(unit.name, f"issues {tensor_map.box_bytes} bytes into slot {stage}" + self._in(cta))
            self.copies.append(_Copy(cta, slot.ring, stage, slot.position, tensor_map.box_bytes))
            if self.eager:
                self.land()
        return slot

    def copy_by_threads(self, unit: _Unit, slot: _Slot, op: AsyncCopyIssueOp | AsyncCopyArriveOp) -> _Slot:
        """Threads' copies into a slot of their own CTA, which land in any order, and the arrivals deferred until all
        before them have."""
        state, stage = self._at(unit.cta, slot)
        if state.readers[stage]:
            reader = min(state.readers[stage])
            raise _Violation("MB009", op, f"a copy overwrites slot {stage} of ring {slot.ring} while {reader} reads it")
        arrivals = COPYING_THREADS if isinstance(op, AsyncCopyArriveOp) else 0
        what = f"defers {arrivals} arrivals on full[{stage}]" if arrivals else f"copies into slot {stage}"
        self.log(unit.name, what + self._in(unit.cta))
        self.copies.append(_Copy(unit.cta, slot.ring, stage, slot.position, 0, arrivals, op))
        if self.eager:
            self.land()
        return slot

    def _in(self, cta: int) -> str:
        return f" of CTA {cta}" if len(self.states) > 1 else ""

    def land(self) -> None:
        """The oldest copy in flight completes."""
        copy = self.copies.pop(0)
        state = self.states[copy.cta][copy.ring]
        state.content[copy.stage] = copy.position
        barrier = state.full[copy.stage]
        barrier.tx -= copy.bytes
        if copy.arrivals and copy.by is not None:
            self.log("copying threads", f"arrive {copy.arrivals} times on full[{copy.stage}]" + self._in(copy.cta))
            if barrier.pending < copy.arrivals:
                raise _Violation(
                    "MB008", copy.by, f"{copy.arrivals} arrivals on full[{copy.stage}], which takes {barrier.pending}"
                )
            barrier.pending -= copy.arrivals
        else:
            who = "copy engine" if copy.by is None else "copying threads"
            self.log(who, f"{copy.bytes} bytes arrive in slot {copy.stage}" + self._in(copy.cta))
        barrier.settle()

    def look(self, unit: _Unit, slot: _Slot, op: Operation) -> _Slot:
        """The unit's threads begin to read a slot."""
        state, stage = self._at(unit.cta, slot)
        if state.content[stage] != slot.position:
            raise _Violation("MB005", op, f"{unit.name} reads slot {stage} of ring {slot.ring} before it is filled")
        self.log(unit.name, f"reads slot {stage}")
        state.readers[stage].add(unit.name)
        return slot

    def read(self, unit: _Unit, slot: _Slot, op: ac.WgmmaIssueOp | ComputedIssueOp) -> _Slot:
        state, stage = self._at(unit.cta, slot)
        if state.content[stage] != slot.position:
            raise _Violation("MB005", op, f"{unit.name} reads slot {stage} of ring {slot.ring} before it is filled")
        self.log(unit.name, f"wgmma reads slot {stage}")
        state.readers[stage].add(unit.name)
        reading = replace(slot, group=unit.committed)
        unit.running.append((unit.committed, reading))
        return reading

    def retire(self, unit: _Unit, op: ac.WgmmaWaitOp) -> None:
        self.log(unit.name, f"waits until at most {op.pending.data} wgmma groups are pending")
        done = unit.committed - op.pending.data
        for group, slot in unit.running:
            if group < done:
                state, stage = self._at(unit.cta, slot)
                state.readers[stage].discard(unit.name)
        unit.running = [(group, slot) for group, slot in unit.running if group >= done]

    def release(self, unit: _Unit, slot: _Slot, op: ac.ArriveOp) -> None:
        if any(running.position == slot.position and running.ring == slot.ring for _, running in unit.running):
            raise _Violation("WG002", op, f"{unit.name} releases slot number {slot.position} while its wgmma reads it")
        targets = range(len(self.states)) if op.peers.data > 1 else (unit.cta,)
        for cta in targets:
            state, stage = self._at(cta, slot)
            self.log(unit.name, f"arrives on empty[{stage}]" + self._in(cta))
            self.arrive(state.empty[stage], unit, op, f"empty[{stage}]", "MB009")

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

    def give_issue(self, unit: _Unit, op: IssueOrderStartOp | IssuePassOp) -> None:
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
                for number in range(role.count):
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
            self.log(unit.name, "waits for ever")
        names = ", ".join(unit.name for unit in waiting)
        return _Violation("LV005", first.block[2], f"nothing can move: {names} wait for ever")

    def _finish(self, units: Sequence[_Unit]) -> None:
        while self.copies:
            self.land()
        turning = {role.name for role in self.kernel.roles if _takes_turns(role)}
        for cta, states in enumerate(self.states):
            for name, state in states.items():
                readers = [unit for unit in units if unit.cta == cta and unit.name in state.reads]
                counts = {state.reads[unit.name] for unit in readers if unit.role.name not in turning}
                if any(unit.role.name in turning for unit in readers):
                    counts.add(sum(state.reads[unit.name] for unit in readers if unit.role.name in turning))
                counts = counts or {0}
                if counts != {state.fills}:
                    self.log("CTA", f"ends; {state.fills} slots of ring {name} were filled and {max(counts)} read")
                    raise _Violation(
                        "LV004",
                        self.kernel.rings[name].op,
                        f"{state.fills} slots of ring {name} are filled, {max(counts)} read",
                    )
                if any(barrier.tx for barrier in state.full):
                    raise _Violation("TX001", self.kernel.rings[name].op, f"ring {name} ends with bytes outstanding")


def _takes_turns(role: Role) -> bool:
    return any(isinstance(op, ac.TurnLoop) for op in role.op.body.block.ops)


def boundary_counts(kernel: Kernel) -> list[dict[str, int]]:
    """Values of the symbols to run at, smallest first."""
    stages = max((ring.stages for ring in kernel.rings.values()), default=1)
    operations = list(kernel.op.walk())
    outer = {op.symbol.data for op in operations if isinstance(op, _OverTiles)}
    parts = {op.slices.data for op in operations if isinstance(op, StreamPartOp | TurnStreamPartOp)}
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
    points = [dict(zip(names, values, strict=True)) for values in product(*options)]
    points.sort(key=lambda point: (prod(max(1, value) for value in point.values()), sum(point.values())))
    limit = max(4, _RUNS // kernel.cluster_ctas)
    if len(points) <= limit:
        return points
    # Keep the smallest, which give the shortest runs, and spread the rest over the larger ones.
    head, tail = points[: limit // 2], points[limit // 2 :]
    step = -(-len(tail) // (limit - limit // 2))
    return [*head, *tail[step - 1 :: step]]


def run_boundary_counts(kernel: Kernel, findings: Findings) -> None:
    """Run the kernel's roles at boundary counts. A violation becomes a finding, or the run of an earlier one."""
    if kernel.cluster_ctas < 1 or not kernel.rings or any(ring.stages < 1 for ring in kernel.rings.values()):
        return
    if kernel.cluster_ctas > _LARGEST_CLUSTER:
        kernel = replace(kernel, cluster_ctas=1) if not reaches_peers(kernel.op) else kernel
    inert = set[Operation]()
    for number, symbols in enumerate(boundary_counts(kernel)):
        try:
            _Machine(kernel, symbols, number % 2 == 1, None, inert).run()
        except _NotRunnable:
            if not findings.found and not findings.doubts:
                findings.doubt("the roles can't be run at concrete counts", kernel.op)
            return
        except _Violation as violation:
            _tell(kernel, symbols, number % 2 == 1, violation, findings)
            return


def _tell(kernel: Kernel, symbols: Mapping[str, int], eager: bool, violation: _Violation, findings: Findings) -> None:
    trace: list[str] = []
    with suppress(_Violation):
        _Machine(kernel, symbols, eager, trace).run()
    counts = ", ".join(f"{name} = {value}" for name, value in symbols.items())
    steps = (f"with {counts or 'no symbols'}:", *trace[-_STEPS_SHOWN:], violation.message)
    if not findings.found:
        findings.report(violation.code, violation.operation, f"{violation.message} (with {counts})", steps=steps)
        return
    first = findings.found[0]
    if not first.interleaving:
        findings.found[0] = replace(first, interleaving=steps)
