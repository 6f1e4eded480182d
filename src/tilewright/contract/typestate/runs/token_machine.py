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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilewright.contract.typestate.program import Kernel, Ring, Role
from tilewright.contract.typestate.runs import token_program as steps
from tilewright.contract.typestate.runs.token_state import (
    OWN,
    Barrier,
    InFlight,
    NotRunnable,
    RingState,
    Slot,
    Violation,
)
from tilewright.contract.typestate.runs.token_unit import Unit
from tilewright.contract.typestate.steps.issue_order import IssueTurns
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import COPYING_THREADS
from tilewright.ir.ac.tensor_memory import TensorHandOverOp


@dataclass(slots=True)
class Machine:
    kernel: Kernel
    symbols: Mapping[str, int]
    eager: bool
    trace: list[str] | None
    program: steps.TokenProgram
    states: list[dict[str, RingState]] = field(default_factory=list[dict[str, RingState]])
    copies: list[InFlight] = field(default_factory=list[InFlight])
    signalled: dict[tuple[str, str, str], int] = field(default_factory=dict[tuple[str, str, str], int])
    """The last position that a unit filled or released, by unit, ring and side; of a run that is traced."""
    orders: dict[tuple[int, str], list[IssueTurns]] = field(default_factory=dict[tuple[int, str], list[IssueTurns]])

    def log(self, who: str, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{who}: {what}")

    def _at(self, cta: int, slot: Slot) -> tuple[RingState, int]:
        return self.states[cta][slot.ring], slot.position % self.kernel.rings[slot.ring].stages

    def _ctas(self, unit: Unit, *, everywhere: bool, leader: bool = False) -> Sequence[int]:
        """Whom a step of a unit concerns: each CTA, the first one, or its own."""
        return range(len(self.states)) if everywhere else (0,) if leader else (unit.cta,)

    def announce(self, unit: Unit, slot: Slot, step: steps.Announce) -> Slot:
        state, stage = self._at(0 if step.leader else unit.cta, slot)
        barrier = state.full[stage]
        if self.trace is not None:
            self.log(unit.name, f"arrives on full[{stage}] and announces {step.bytes} bytes")
            self.signalled[unit.name, slot.ring, "full"] = slot.position
        barrier.tx += step.bytes
        self.arrive(barrier, unit, step.op, f"full[{stage}]", "MB008")
        state.fills[unit.name] = state.fills.get(unit.name, 0) + 1
        return slot

    def issue(self, unit: Unit, slot: Slot, step: steps.Copy) -> Slot:
        if step.bytes is None:
            raise NotRunnable
        for cta in self._ctas(unit, everywhere=step.everywhere):
            state, stage = self._at(cta, slot)
            if state.readers[stage]:
                raise self._overwritten(state, stage, slot, step.op)
            if self.trace is not None:
                self.log(unit.name, f"issues {step.bytes} bytes into slot {stage}" + self._in(cta))
            counted_in = 0 if step.leader else None
            self.copies.append(InFlight(cta, slot.ring, stage, slot.position, step.bytes, counted_in=counted_in))
            if self.eager:
                self.land()
        return slot

    def copy_by_threads(self, unit: Unit, slot: Slot, step: steps.CopyByThreads) -> Slot:
        """Threads' copies into a slot of their own CTA, which land in any order, and the arrivals deferred until all
        before them have."""
        state, stage = self._at(unit.cta, slot)
        if state.readers[stage]:
            raise self._overwritten(state, stage, slot, step.op)
        arrivals = COPYING_THREADS if step.arrives else 0
        what = f"defers {arrivals} arrivals on full[{stage}]" if arrivals else f"copies into slot {stage}"
        self.log(unit.name, what + self._in(unit.cta))
        self.copies.append(InFlight(unit.cta, slot.ring, stage, slot.position, 0, arrivals, step.op))
        if self.eager:
            self.land()
        return slot

    def fill(self, unit: Unit, slot: Slot, step: steps.Multiply) -> Slot:
        """Products write a slot, at any time until it is handed over."""
        for cta in self._ctas(unit, everywhere=step.everywhere):
            state, stage = self._at(cta, slot)
            if state.readers[stage]:
                raise self._overwritten(state, stage, slot, step.op)
            state.content[stage] = -1
        return slot

    def hand_over(self, unit: Unit, slot: Slot, step: steps.HandOver) -> None:
        """The tensor core arrives once it is done, which is when it pleases."""
        for cta in self._ctas(unit, everywhere=step.everywhere):
            state, stage = self._at(cta, slot)
            if self.trace is not None:
                self.log(unit.name, f"commits the products that fill slot {stage}" + self._in(cta))
                self.signalled[unit.name, slot.ring, "full"] = slot.position
            self.copies.append(InFlight(cta, slot.ring, stage, slot.position, 0, 1, step.op))
            state.fills[unit.name] = state.fills.get(unit.name, 0) + 1
            if self.eager:
                self.land()

    def _overwritten(self, state: RingState, stage: int, slot: Slot, op: Operation) -> Violation:
        reader = min(state.readers[stage])
        return Violation("MB009", op, f"a copy overwrites slot {stage} of ring {slot.ring} while {reader} reads it")

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
                raise Violation(
                    "MB008", copy.by, f"{copy.arrivals} arrivals on full[{copy.stage}], which takes {barrier.pending}"
                )
            barrier.pending -= copy.arrivals
        else:
            if self.trace is not None:
                who = "copy engine" if copy.by is None else "copying threads"
                self.log(who, f"{copy.bytes} bytes arrive in slot {copy.stage}" + self._in(copy.cta))
        barrier.settle()

    def look(self, unit: Unit, slot: Slot, step: steps.Look) -> Slot:
        """The unit's threads begin to read a slot."""
        if slot is OWN:
            raise NotRunnable
        state, stage = self._at(unit.cta, slot)
        reads_already = unit.name in state.readers[stage]
        self._begin_reading(unit, unit.cta, slot, step.op, "reads")
        if step.ends and not reads_already:
            state.readers[stage].discard(unit.name)
        return slot

    def read(self, unit: Unit, slot: Slot, step: steps.Multiply) -> Slot:
        if slot is OWN:
            return slot
        for cta in self._ctas(unit, everywhere=step.everywhere):
            self._begin_reading(unit, cta, slot, step.op, "wgmma reads")
        reading = Slot(slot.ring, slot.position, unit.committed)
        unit.running.append((unit.committed, reading))
        return reading

    def _begin_reading(self, unit: Unit, cta: int, slot: Slot, op: Operation, what: str) -> None:
        state, stage = self._at(cta, slot)
        if state.content[stage] != slot.position:
            raise Violation("MB005", op, f"{unit.name} reads slot {stage} of ring {slot.ring} before it is filled")
        if self.trace is not None:
            self.log(unit.name, f"{what} slot {stage}")
        state.readers[stage].add(unit.name)

    def retire(self, unit: Unit, pending: int) -> None:
        if self.trace is not None:
            self.log(unit.name, f"waits until at most {pending} wgmma groups are pending")
        done = unit.committed - pending
        left: list[tuple[int, Slot]] = []
        for running in unit.running:
            group, slot = running
            if group < done:
                state, stage = self._at(unit.cta, slot)
                state.readers[stage].discard(unit.name)
            else:
                left.append(running)
        unit.running = left

    def release(self, unit: Unit, slot: Slot, step: steps.Release) -> None:
        if slot is OWN:
            raise NotRunnable
        if step.by_products:
            # The tensor core may be as quick as that; when it arrives, no wait's outcome depends on.
            self._end_reading(unit, slot, everywhere=step.everywhere)
        for _, running in unit.running:
            if running.position == slot.position and running.ring == slot.ring:
                raise Violation(
                    "WG002", step.op, f"{unit.name} releases slot number {slot.position} while its wgmma reads it"
                )
        for cta in self._ctas(unit, everywhere=step.everywhere, leader=step.leader):
            state, stage = self._at(cta, slot)
            if self.trace is not None:
                self.log(unit.name, f"arrives on empty[{stage}]" + self._in(cta))
                self.signalled[unit.name, slot.ring, "empty"] = slot.position
            self.arrive(state.empty[stage], unit, step.op, f"empty[{stage}]", "MB009")

    def _end_reading(self, unit: Unit, slot: Slot, *, everywhere: bool) -> None:
        """The products that read a slot are done."""
        unit.running = [each for each in unit.running if each[1][:2] != slot[:2]]
        for cta in self._ctas(unit, everywhere=everywhere):
            state, stage = self._at(cta, slot)
            state.readers[stage].discard(unit.name)

    def exchange(self, unit: Unit, ring: str, stage: int, op: Operation) -> None:
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

    def leave(self, unit: Unit, ring: str, stage: int, op: Operation) -> None:
        """Arrive on every CTA's empty barrier of a rendezvous."""
        for cta, states in enumerate(self.states):
            self.log(unit.name, f"arrives on empty[{stage}] of ring {ring}" + self._in(cta))
            self.arrive(states[ring].empty[stage], unit, op, f"empty[{stage}]", "MB009")

    def issue_turns(self, unit: Unit) -> list[IssueTurns]:
        """Of each unit of a unit's role, in its CTA."""
        found = self.orders.get((unit.cta, unit.role.name))
        if found is None:
            found = self.orders[unit.cta, unit.role.name] = [IssueTurns() for _ in range(unit.role.count)]
        return found

    def give_issue(self, unit: Unit, op: Operation) -> None:
        following = (unit.number + 1) % unit.role.count
        turns = self.issue_turns(unit)[following]
        self.log(unit.name, f"gives unit {following} turn {turns.given} of issue")
        if turns.is_early:
            raise Violation("NB002", op, f"{unit.name} gives unit {following} a turn before it has taken the last")
        turns.given += 1

    def arrive(self, barrier: Barrier, unit: Unit, op: Operation, name: str, code: str) -> None:
        if barrier.pending == 0:
            raise Violation(code, op, f"{unit.name} arrives on {name}, whose {barrier.count} arrivals are complete")
        barrier.pending -= 1
        barrier.settle()

    def run(self) -> None:
        """Run to the end. Raises Violation, or NotRunnable for what the proof must have doubted."""
        kernel = self.kernel
        for _ in range(kernel.cluster_ctas):
            self.states.append(
                {
                    ring.name: RingState(
                        [Barrier(ring.full_arrivals, ring.full_arrivals) for _ in range(ring.stages)],
                        [Barrier(ring.empty_arrivals, ring.empty_arrivals) for _ in range(ring.stages)],
                        [-1] * ring.stages,
                        [set() for _ in range(ring.stages)],
                    )
                    for ring in kernel.rings.values()
                }
            )
        units = self._units()
        waiting: list[Unit] = [unit for unit in units if self._advance(unit)]
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

    def _units(self) -> list[Unit]:
        units: list[Unit] = []
        for cta in range(self.kernel.cluster_ctas):
            for role in self.kernel.roles:
                for number in range(0 if role.leader and cta else role.count):
                    name = role.name if role.count == 1 else f"{role.name} {number}"
                    unit = Unit(name + self._in(cta), cta, role, self, number)
                    unit.code = unit.run(role.op.body.block)
                    units.append(unit)
        return units

    def _advance(self, unit: Unit) -> bool:
        """Run until the unit blocks; False when it has ended."""
        assert unit.code is not None
        unit.block = next(unit.code, None)
        return unit.block is not None

    def _deadlock(self, waiting: Sequence[Unit]) -> Violation:
        first = waiting[0]
        assert first.block is not None
        for unit in waiting:
            self.log(unit.name, "waits forever")
        if self.trace is not None:
            self._log_circle(waiting)
        names = ", ".join(unit.name for unit in waiting)
        return Violation("LV005", first.block[2], f"nothing can move: {names} wait forever")

    def _log_circle(self, waiting: Sequence[Unit]) -> None:
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

    def _lacks(self, unit: Unit, waiting: Sequence[Unit]) -> tuple[str, str] | None:
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

    def _finish(self, units: Sequence[Unit]) -> None:
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
                    raise Violation("LV004", ring.op, f"{filled} slots of ring {name} are filled, {max(counts)} read")
                if any(barrier.tx for barrier in state.full):
                    raise Violation("TX001", ring.op, f"ring {name} ends with bytes outstanding")
                if state.fills and any(barrier.pending != barrier.count for barrier in state.full):
                    raise Violation("LV004", ring.op, f"ring {name} ends with a slot that is filled in part")


def _by_role(units: Sequence[Unit], state: RingState, turning: set[str]) -> list[set[int]]:
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
