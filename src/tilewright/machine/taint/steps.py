"""How does a step carry unknown data along, and what if it depends on it? Wrappers around decoded steps.

What computes passes origins from the registers that it reads to those that it writes. What loads adds the origin of the
bytes. What the protocol sees notes a `TaintedDecision` where an operand that steers it is unknown, and goes on with the
value at hand; a fault that such a value provokes is no fault of the kernel and is passed over.

Global accesses that order nothing are let off: if only their address or their guard is unknown, they happen, for all
lanes, and their events say `uncertain`. A tainted branch around nothing else is not taken for the same reason. A
tainted branch that keeps a warp in a loop is turned after `SPIN_LIMIT` turns, as if the awaited value had come.
Checked by: tests/machine/protocol/test_protocol_run.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import Decoder
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Access, CopyActor
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import FULL, Registers, predicate_mask
from tilewright.machine.core.program import decode_one
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, Plain, Signal, Step
from tilewright.machine.protocol.constant_words import LoadAddress, reads_open_constants
from tilewright.machine.protocol.lanes_together import goes_one_way, varying
from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.protocol.slicing.slice_operands import Role, is_volatile, names_taken_work
from tilewright.machine.taint.copied_size import reads_within
from tilewright.machine.taint.lane_order import lane_store
from tilewright.machine.taint.local import LocalAccess
from tilewright.machine.taint.taint import KNOWN, MayTaint, Origin, What, is_by_chance, silent_access, source_kind
from tilewright.machine.taint.tracker import SPIN_LIMIT, Tracker, WarpTaint

_WHAT: dict[Role, What] = {
    "guard": "guard",
    "shared address": "shared address",
    "barrier": "synchronization",
    "sync": "synchronization",
    "descriptor": "descriptor",
}
_SINKS: tuple[Role, ...] = ("barrier", "sync", "descriptor")
_BODIES = Callable[[Warp, int], "int | Signal | None"]


class StepFacts:
    """What taint needs to know about one instruction, in slots. `concerned`: whether it may meet unknown data."""

    def __init__(
        self, sliced: Slice, taint: MayTaint, position: int, slots: Mapping[str, int], *, shadowed: bool,
        unknown_parameter: bool, unvalued: bool, in_any_order: bool, constant: LoadAddress | None = None,
    ) -> None:  # fmt: skip
        facts = sliced.text.facts[position]
        self.sliced = sliced
        self.taint = taint
        self.position = position
        self.instruction: Instruction = sliced.text.flow.instructions[position]
        self.span = self.instruction.span
        self.facts = facts
        self.silent = silent_access(sliced, position)
        self.unvalued = unvalued
        # Of a load: its result decides something.
        self.decides = position in sliced.loads
        self.by_chance = is_by_chance(self.instruction)
        self.asks_for_work = names_taken_work(self.instruction)
        # Of an atomic operation: what it leaves in shared memory is the same, whoever comes first.
        self.in_any_order = in_any_order
        self.unknown_parameter = unknown_parameter
        # Of a load that may read constants without a value.
        self.constant = constant
        tainted = taint.registers

        def slots_of(roles: tuple[Role, ...]) -> tuple[int, ...]:
            names = dict.fromkeys(use.register for use in facts.uses if use.role in roles and use.register in tainted)
            return tuple(slots[name] for name in names if name in slots)

        self.joined = position in sliced.stores
        shared = facts.space in ("shared", "generic")
        self.lanes = lane_store(self.instruction, slots) if self.joined and shared else None
        guard = self.instruction.guard
        # The slot of the guard's register, and with which value of it lanes take part.
        self.condition = None if guard is None else (slots[guard.register.name], not guard.negated)
        self.atomic = self.instruction.row in ("atom", "red")
        self.values = slots_of(("value", "data") if self.joined or facts.kind == "matrix" else ("value",))
        self.guard = slots_of(("guard", "branch"))
        self.shared = slots_of(("shared address",))
        self.generic = slots_of(("generic address",))
        self.elsewhere = slots_of(("global address", "coordinate"))
        self.other = slots_of(("other address",))
        self.sinks: tuple[tuple[What, tuple[int, ...]], ...] = tuple(
            (_WHAT[role], slots_of((role,))) for role in _SINKS
        )
        amount = slots_of(("coordinate",)) if self.instruction.row == "cp.async" else ()
        # How much a copy reads cannot be uncertain in an event.
        self.sinks = (*self.sinks, ("guard", amount))
        # It writes as much, whatever it reads: where nothing is said of global memory, that matters to nobody.
        self.only_fills = bool(amount) and reads_within(sliced, self.instruction)
        self.writes = tuple(slots[name] for name in sorted(facts.writes & tainted) if name in slots)
        self.volatile = sorted(name for name in facts.reads if is_volatile(name))
        self.controllers = taint.controllers.get(position, ())
        self.loads = facts.kind in ("load", "atomic") and bool(self.writes)
        self.stores = facts.kind in ("store", "atomic") and facts.space in ("shared", "generic", "local", "param")
        self.region = taint.regions.get(position)
        self.region_slots = (
            tuple(slots[name] for name in sorted(self.region.writes & tainted) if name in slots)
            if self.region is not None
            else ()
        )
        steering = self.guard or self.shared or self.generic or self.elsewhere or any(each for _, each in self.sinks)
        controlled = facts.kept and self.controllers
        # Where all that a warp knows is known, it hands on nothing.
        self.quiet = not (
            self.loads or self.stores or self.volatile or self.constant is not None or self.atomic
            or (self.writes and (unvalued or self.by_chance or facts.kind in ("matrix", "unknown")
                                 or self.asks_for_work))
        )  # fmt: skip
        self.concerned = bool(self.writes or steering or self.region or controlled or (self.stores and shadowed))

    def acting(self, r: Registers, mask: int) -> int:
        """The lanes of `mask` that take part."""
        return mask if self.condition is None else mask & _holds(r, self.condition[0], not self.condition[1])


def tainted_step(decoder: Decoder, facts: StepFacts, step: Step, tracker: Tracker) -> Step:
    """`step`, carrying taint. Its registers and place stay the same."""
    body = step.body
    if facts.region is not None and isinstance(body, Control):
        return replace(step, body=Control(_branch(facts, step, body, tracker)), guard=-1, negated=False)
    if isinstance(body, Plain):
        if facts.silent and facts.guard:
            bare = decode_one(decoder, replace(facts.instruction, guard=None))
            slot, negated = _guard_of(decoder, facts.instruction)
            if isinstance(bare.body, Plain):
                return replace(step, body=_free_access(facts, bare.body, slot, negated, tracker))
        return replace(step, body=_plain(facts, body, tracker))
    act = _around_control(facts, body.act, tracker)
    if facts.guard:
        return replace(step, body=Control(_guarded_control(facts, step, body, act, tracker)), guard=-1, negated=False)
    return replace(step, body=Control(act, body.converged))


def _guard_of(decoder: Decoder, instruction: Instruction) -> tuple[int, bool]:
    assert instruction.guard is not None, "asked only where there is one"
    return decoder.predicate(instruction, instruction.guard.register)[0], instruction.guard.negated


def _union(taint: WarpTaint, slots: tuple[int, ...]) -> Origin:
    registers = taint.registers
    found = KNOWN
    if registers:
        for slot in slots:
            if slot in registers:
                found |= registers[slot]
    return found


def _holds(r: Registers, slot: int, negated: bool) -> int:
    holds = predicate_mask(r[slot])
    return holds ^ FULL if negated else holds


def _plain(facts: StepFacts, body: Plain, tracker: Tracker) -> Plain:
    inner_full, inner_masked = body.full, body.masked

    quiet, all_known = facts.quiet, tracker.all_known

    def full(r: Registers) -> None:
        if quiet and all_known(r[0]):
            inner_full(r)
        else:
            _carry(facts, tracker, r[0], FULL, lambda: inner_full(r))

    def masked(r: Registers, mask: int) -> None:
        if quiet and all_known(r[0]):
            inner_masked(r, mask)
        else:
            _carry(facts, tracker, r[0], mask, lambda: inner_masked(r, mask))

    return Plain(full, masked)


def _free_access(facts: StepFacts, body: Plain, slot: int, negated: bool, tracker: Tracker) -> Plain:
    """A global access under a guard that may be unknown: then it happens for all lanes."""

    def masked(r: Registers, mask: int) -> None:
        origin = _union(tracker.of(r[0]), facts.guard)
        chosen = mask if origin else mask & _holds(r, slot, negated)
        if not chosen:
            return
        before, tracker.uncertain = tracker.uncertain, tracker.uncertain or bool(origin)
        try:
            run = (lambda: body.full(r)) if chosen == FULL else (lambda: body.masked(r, chosen))
            _carry(facts, tracker, r[0], chosen, run, forgiving=bool(origin))
        finally:
            tracker.uncertain = before

    return Plain(lambda r: masked(r, FULL), masked)


def _around_control(facts: StepFacts, act: _BODIES, tracker: Tracker) -> _BODIES:
    quiet, all_known = facts.quiet, tracker.all_known

    def carried(warp: Warp, mask: int) -> int | Signal | None:
        if quiet and all_known(warp):
            return act(warp, mask)
        result: list[int | Signal | None] = [None]

        def run() -> None:
            result[0] = act(warp, mask)

        _carry(facts, tracker, warp, mask, run)
        return result[0]

    return carried


def _carry(
    facts: StepFacts, tracker: Tracker, warp: Warp, mask: int, run: Callable[[], None], *, forgiving: bool = False
) -> None:
    """Run a step between a look at what it reads and a note of what it wrote."""
    taint = tracker.of(warp)
    origin = _union(taint, facts.values) if facts.values else KNOWN
    guard = _union(taint, facts.guard) if facts.guard else KNOWN
    controlled = KNOWN
    for branch in facts.controllers:
        controlled |= tracker.branch_origins.get(branch, KNOWN)
    origin |= controlled
    if facts.constant is not None and _reads_constants(facts.constant, warp, mask):
        origin |= tracker.sources.origin(facts.span, "constant memory that the host may write")
    for name in facts.volatile:
        origin |= tracker.sources.origin(facts.span, f"the special register {name}")
    local: list[LocalAccess] = []
    if not facts.facts.kept:
        place = guard | _union(taint, facts.other)
        before_local, tracker.local_seen = tracker.local_seen, local
        try:
            run()
        finally:
            tracker.local_seen = before_local
        _finish(facts, tracker, taint, warp, mask, origin | place, place, [], local, [])
        return
    address = _union(taint, facts.shared) if facts.shared else KNOWN
    generic = _union(taint, facts.generic) if facts.generic else KNOWN
    elsewhere = _union(taint, facts.elsewhere) if facts.elsewhere else KNOWN
    if guard and not facts.silent:
        tracker.decide(facts.span, "guard", guard)
    if address:
        tracker.decide(facts.span, "shared address", address)
    steering = guard | address | generic | elsewhere
    silent = facts.only_fills and tracker.memory is not None and tracker.memory.forgiving
    for what, slots in facts.sinks:
        if slots and not (silent and what == "guard") and (found := _union(taint, slots)):
            tracker.decide(facts.span, what, found)
            steering |= found
    seen: list[Access] = []
    issued: list[CopyActor] = []
    before = tracker.uncertain, tracker.seen, tracker.local_seen, tracker.astray, tracker.issued
    tracker.uncertain = before[0] or bool(steering or controlled)
    tracker.seen, tracker.local_seen, tracker.astray, tracker.issued = seen, local, elsewhere | generic, issued
    try:
        run()
    except (MachineFault, EngineFault):
        if not steering and not controlled and not forgiving:
            raise
        if generic and not seen:
            tracker.decide(facts.span, "shared address", generic)
        if elsewhere and not seen:
            tracker.decide(facts.span, "global address", elsewhere)
    finally:
        tracker.uncertain, tracker.seen, tracker.local_seen, tracker.astray, tracker.issued = before
    if generic and any(access.space == "shared" for access in seen):
        tracker.decide(facts.span, "shared address", generic)
    _finish(facts, tracker, taint, warp, mask, origin | steering, steering, seen, local, issued)


def _reads_constants(address: LoadAddress, warp: Warp, mask: int) -> bool:
    places = address.places(warp.r, mask)
    return places is not None and reads_open_constants(warp.cta.cluster.memory, places, 1)


def _is_any_work(facts: StepFacts, tracker: Tracker, warp: Warp, mask: int) -> bool:
    """Whether an instruction names a cluster that other launches, or other runs, do not take over."""
    return facts.asks_for_work and tracker.symbolic is not None and bool(facts.acting(warp.r, mask))


def _finish(
    facts: StepFacts, tracker: Tracker, taint: WarpTaint, warp: Warp, mask: int, origin: Origin, place: Origin,
    seen: list[Access], local: list[LocalAccess], issued: list[CopyActor],
) -> None:  # fmt: skip
    """Give the registers and bytes that were written their origin. place: of what decides whether, or where, the step
    stores; issued: copies that store later."""
    space, kind = facts.facts.space, facts.facts.kind
    private = space in ("local", "param") or (space == "generic" and not seen)
    if facts.loads:
        origin |= tracker.loaded(facts.span, seen, local, decides=facts.decides)
        if private:
            origin |= taint.local
        if facts.unknown_parameter:
            origin |= tracker.sources.origin(facts.span, "a parameter that was not given")
        if facts.unvalued:
            origin |= tracker.sources.origin(facts.span, f"the result of {facts.instruction.opcode}")
    elif facts.writes and (
        kind in ("matrix", "unknown") or facts.unvalued or facts.by_chance or _is_any_work(facts, tracker, warp, mask)
    ):
        words = (
            f"the result of {facts.instruction.opcode}, which this run does not compute"
            if facts.unvalued
            else source_kind(facts.instruction, space)
        )
        origin |= tracker.sources.origin(facts.span, words)
    left = origin
    if facts.atomic and seen:
        by_chance = tracker.sources.origin(facts.span, source_kind(facts.instruction, space))
        origin |= by_chance if facts.loads else KNOWN
        left |= by_chance if not facts.in_any_order else KNOWN
    if facts.lanes is not None and facts.lanes.differs(warp.r, facts.acting(warp.r, mask)):
        left |= tracker.sources.origin(facts.span, "which of several lanes stores last to the same bytes")
    if facts.stores:
        if private and place:
            taint.local |= origin
        content = left if facts.joined or space in ("local", "param") else facts.position
        tracker.mark(seen, local, tracker.identity(content))
        tracker.carry(issued, tracker.identity(content))
    else:
        tracker.mark(seen, [], tracker.identity(KNOWN))
    if not facts.writes:
        return
    registers = taint.registers
    whole = mask == warp.live and facts.instruction.guard is None
    for slot in facts.writes:
        if whole:
            if origin:
                registers[slot] = origin
            else:
                registers.pop(slot, None)
        elif origin:
            registers[slot] = registers.get(slot, KNOWN) | origin


def _guarded_control(facts: StepFacts, step: Step, body: Control, act: _BODIES, tracker: Tracker) -> _BODIES:
    """A control step under a guard that may be unknown. As the machine does for others: lanes that do not take part
    go on, then the rest run the step."""
    slot, negated = step.guard, step.negated

    def guarded(warp: Warp, mask: int) -> int | Signal | None:
        origin = _union(tracker.of(warp), facts.guard)
        if origin and not facts.silent:
            tracker.decide(facts.span, "guard", origin)
        chosen = mask if origin and facts.silent else mask & _holds(warp.r, slot, negated)
        if not chosen:
            return None
        if chosen != mask:
            return warp.part(mask, chosen) if origin else step.part(warp, mask, chosen)
        if body.converged and mask != warp.live:
            return Signal.CONVERGE
        return act(warp, mask)

    return guarded


def _branch(facts: StepFacts, step: Step, body: Control, tracker: Tracker) -> _BODIES:
    """A branch, exit or return that may depend on unknown data."""
    region = facts.region
    assert region is not None, "asked only for branches with a region"
    slot, negated, position = step.guard, step.negated, facts.position
    stays = _staying(facts)
    guarded = facts.instruction.guard is not None
    varies = not varying(facts.sliced.text).isdisjoint(facts.facts.reads)
    parts = varies and goes_one_way(facts.instruction)

    def branch(warp: Warp, mask: int) -> int | Signal | None:
        taint = tracker.of(warp)
        origin = _union(taint, facts.guard)
        for controller in facts.controllers:
            origin |= tracker.branch_origins.get(controller, KNOWN) if origin else KNOWN
        chosen = mask & _holds(warp.r, slot, negated) if guarded else mask
        if origin:
            tracker.branch_origins[position] = tracker.branch_origins.get(position, KNOWN) | origin
            for each in facts.region_slots:
                taint.registers[each] = taint.registers.get(each, KNOWN) | origin
            if region.stores_locally:
                taint.local |= origin
            if region.effect or parts or (region.accesses and (stays is not None or not region.skips)):
                tracker.decide(facts.span, "branch", origin)
            if stays is not None and (chosen == mask) == stays and chosen in (0, mask):
                taint.polls[position] = taint.polls.get(position, 0) + 1
                if taint.polls[position] >= SPIN_LIMIT:
                    tracker.decide(facts.span, "spin", origin)
                    taint.polls[position] = 0
                    chosen = 0 if stays else mask
            elif stays is not None:
                taint.polls[position] = 0
            elif region.skips and region.accesses and not region.effect:
                chosen = 0
        if not chosen:
            return None
        if chosen != mask:
            strand = warp.current
            if origin:
                warp.part(mask, chosen)
            else:
                step.part(warp, mask, chosen)
            return result if isinstance(result := body.act(warp, chosen), int) else strand.pc
        return body.act(warp, mask)

    return branch


def _staying(facts: StepFacts) -> bool | None:
    """Whether taking the branch keeps a warp in the innermost loop around it, which the other way leaves. None where
    both ways do the same."""
    flow = facts.sliced.text.flow
    block = flow.block_of[facts.position]
    loop = next((loop for loop in flow.loops if block in loop.blocks), None)
    if loop is None or facts.instruction.guard is None:
        return None
    falls = flow.block_of[facts.position + 1]
    taken = [each for each in flow.blocks[block].successors if each != falls]
    if len(taken) != 1:
        return None
    inside = taken[0] in loop.blocks, falls in loop.blocks
    return inside[0] if inside[0] != inside[1] else None
