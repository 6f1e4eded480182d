"""How does a step carry expressions along, and what does it decide by them? Wrappers around decoded steps.

A step that computes makes an expression of those it reads, if any of them is one; under a guard that depends on inputs,
its result is a choice. A load of the parameter block makes a leaf; one of shared memory takes up what was stored. What
exchanges lanes passes uniform expressions on. What the protocol sees notes conditions (`tracker`), and that it has
been executed. Steps that can't meet an expression stay as they are, by a static closure over register names
(`reached`). Checked by: tests/machine/symbolic/test_tracker.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.ast import Immediate, Instruction, Negated, Register, Vector
from tilewright.machine.core.decoder import Decoder, type_name
from tilewright.machine.core.event import Access
from tilewright.machine.core.lanes import (
    FULL,
    SINK_SLOT,
    UNINITIALISED,
    WARP_SIZE,
    Lanes,
    Registers,
    indices,
    predicate_mask,
    selector,
)
from tilewright.machine.core.memory import PARAM_WINDOW, SHARED_WINDOW
from tilewright.machine.core.program import decode_one
from tilewright.machine.core.state import Strand, Warp
from tilewright.machine.core.step import Control, Plain, Signal, Step
from tilewright.machine.instruction.async_store import request_of
from tilewright.machine.protocol.constant_words import LoadAddress, load_address, reads_open_constants
from tilewright.machine.protocol.several_devices import writes_to_several
from tilewright.machine.protocol.slice import Slice
from tilewright.machine.protocol.slice_operands import Role, names_taken_work, reads_answer
from tilewright.machine.symbolic.expression import TAKEN, Applied, Input, Leaf, Node, Source, where
from tilewright.machine.symbolic.heeded_bits import heeded_bits, masked
from tilewright.machine.symbolic.kept_steps import changes_private_memory, is_protocol
from tilewright.machine.symbolic.noted_registers import NotedRegisters
from tilewright.machine.symbolic.reached import SHAPES
from tilewright.machine.symbolic.tracker import Condition, Pieces, SymbolicRun, leaf_of
from tilewright.machine.taint.local import LocalAccess

_VALUES: tuple[Role, ...] = ("shared address", "generic address", "barrier", "sync", "descriptor")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_WARP_SLOT = 0
_SPLIT_MOST = 4
"""Words that the lanes of one load of global memory may read, for each to be an input."""
_ABSORBING = {"and": False, "or": True, "mul": False}
"""Operands that decide the result alone; of `or`, among predicates."""
STRONG = frozenset({"acquire", "relaxed", "volatile", "mmio", "release", "acq_rel"})
"""Modifiers of accesses that other threads may order theirs by."""

Iterations = Callable[[Warp, int], tuple[int, int]]
"""How often a warp has come to a loop before, and has begun it anew since."""


@dataclass(slots=True, eq=False)
class Recording:
    """What the wrappers of one run share. closure: registers that may hold expressions; slots: of all names."""

    run: SymbolicRun
    decoder: Decoder
    sliced: Slice
    closure: frozenset[str]
    slots: Mapping[str, int]
    forget_taint: Callable[[Warp, Sequence[int]], None]
    iterations: Iterations
    _specials: tuple[int, Mapping[int, str]] | None = None

    def specials(self) -> Mapping[int, str]:
        """The special registers that the grid decides about, by slot."""
        slots, known = self.slots, self._specials
        if known is None or known[0] != len(slots):
            known = self._specials = len(slots), {slots[each]: each for each in slots if each.startswith(SHAPES)}
        return known[1]

    def concerns(self, position: int) -> bool:
        """Whether a step may meet an expression, or counts as covered."""
        facts = self.sliced.text.facts[position]
        return (
            is_protocol(self.sliced, position)
            or not self.closure.isdisjoint(facts.writes)
            or not self.closure.isdisjoint(facts.reads)
        )

    def following(self, position: int, plain: Step, step: Step) -> Step:
        """`step`, carrying expressions. plain: the step as it was decoded, before other wrappers."""
        return symbolic_step(self, position, plain, step)


def symbolic_step(recording: Recording, position: int, plain: Step, step: Step) -> Step:
    """`step`, carrying expressions. plain: the step as it was decoded, before other wrappers."""
    facts = recording.sliced.text.facts[position]
    wrapper = _Wrapper(recording, position, plain)
    body = step.body
    if isinstance(body, Plain):
        full, masked = body.full, body.masked

        def run_full(r: Registers) -> None:
            wrapper.run(r[0], FULL, lambda: full(r))

        def run_masked(r: Registers, mask: int) -> None:
            wrapper.run(r[0], mask, lambda: masked(r, mask))

        return step.doing(Plain(run_full, run_masked))
    act, guard = body.act, step.guard
    if facts.kind == "control":

        def branch(warp: Warp, mask: int) -> int | Signal | None:
            if guard < 0:
                wrapper.branch(warp, mask)
            return act(warp, mask)

        return _noting_guard(step, wrapper, Control(branch, body.converged))
    unguarded = guard < 0 and wrapper.guard >= 0

    def acted(warp: Warp, mask: int) -> int | Signal | None:
        result: list[int | Signal | None] = [None]

        def run() -> bool:
            result[0] = act(warp, mask)
            return result[0] not in (Signal.CONVERGE, Signal.BLOCK)

        wrapper.run(warp, mask, run, guarded=unguarded)
        return result[0]

    return _noting_guard(step, wrapper, Control(acted, body.converged))


def _noting_guard(step: Step, wrapper: _Wrapper, body: Control) -> Step:
    """A control step that notes its guard before the guard is looked at. As the machine does, lanes that do not take
    part go on, then the rest run the step."""
    slot, negated, act = step.guard, step.negated, body.act
    if slot < 0 or not wrapper.guard_matters:
        return step.doing(body)

    def guarded(warp: Warp, mask: int) -> int | Signal | None:
        wrapper.branch(warp, mask)
        holds = predicate_mask(warp.r[slot])
        chosen = mask & (holds ^ FULL if negated else holds)
        if not chosen:
            return None
        if chosen != mask:
            strand = warp.current
            warp.strands.append(Strand(strand.pc + 1, mask ^ chosen))
            strand.mask = chosen
            return strand.pc
        if body.converged and mask != warp.live:
            return Signal.CONVERGE
        return act(warp, mask)

    return replace(step, body=Control(guarded), guard=-1, negated=False)


class _Wrapper:
    """One instruction and what it needs to carry expressions."""

    def __init__(self, recording: Recording, position: int, plain: Step) -> None:
        self.recording = recording
        self.run_of = recording.run
        self.position = position
        sliced = recording.sliced
        facts = self.facts = sliced.text.facts[position]
        self.instruction: Instruction = sliced.text.flow.instructions[position]
        self.reads_answer = reads_answer(self.instruction)
        self.names_work = names_taken_work(self.instruction)
        self.counts = is_protocol(sliced, position)
        self.private = changes_private_memory(sliced, position)
        self.decides = facts.kept or self.private
        slots, closure = recording.slots, recording.closure
        guard = self.instruction.guard
        self.guard = slots.get(guard.register.name, -1) if guard is not None else -1
        self.negated = guard is not None and guard.negated
        self.guard_matters = guard is not None and guard.register.name in closure
        self.writes = tuple(slots[name] for name in sorted(facts.writes & sliced.registers) if name in slots)
        self.sinks = tuple(
            dict.fromkeys(
                slots[use.register]
                for use in facts.uses
                if (
                    (facts.kept and use.role in _VALUES)
                    or (self.private and use.role == "other address")
                    # Which label of a table a branch leads to.
                    or (self.instruction.row == "brx.idx" and (guard is None or use.register != guard.register.name))
                )
                and use.register in closure
                and use.register in slots
                # What is written into a tensor map shows in the copies through it.
                and not (use.role == "sync" and "tensor" in self.instruction.row)
            )
        )
        heeded = heeded_bits(self.instruction)
        self.heeded = {} if heeded is None or heeded[0] not in slots else {slots[heeded[0]]: heeded[1]}
        self.generic = any(use.role == "generic address" for use in facts.uses)
        self.data = tuple(slots[use.register] for use in facts.uses if use.role == "data" and use.register in slots)
        self.loop, self.stays = _leaves(sliced, position)
        self.specials = recording.specials()
        self.address: LoadAddress | None = None
        if facts.kind == "load" and self.instruction.row == "ld":
            self.address = load_address(self.instruction, slots, recording.decoder.places.fixed)
        self.bare: Plain | None = None
        self.reads: tuple[int, ...] = ()
        self.probed = False
        # Of the execution now running, where its guard matters: what the registers held, and what they would be given.
        self._old: dict[int, Source] = {}
        self._would_give: dict[int, Any] = {}
        # Two instructions alike compute the same of the same: whatever they name is read or written. Which of the
        # operands are one register counts, and how wide they are.
        places: dict[str, int] = {}
        self.shape = tuple(
            each.value
            if isinstance(each, Immediate)
            else (places.setdefault(each.name, len(places)), self._width_bits(each.name))
            if isinstance(each, Register)
            else repr(each)
            for each in self.instruction.operands
        )
        if facts.kind == "compute":
            self.bare = self._bare(plain)

    def _width_bits(self, name: str) -> int:
        slot = self.recording.slots.get(name, SINK_SLOT)
        return 0 if slot == SINK_SLOT else self.recording.decoder.type_of(slot).width_bits

    def _bare(self, plain: Step) -> Plain | None:
        """The step without its guard, if it computes."""
        if self.instruction.guard is None:
            return plain.body if isinstance(plain.body, Plain) else None
        try:
            found = decode_one(self.recording.decoder, replace(self.instruction, guard=None)).body
        except TilewrightError:
            return None
        return found if isinstance(found, Plain) else None

    # Decisions

    def branch(self, warp: Warp, mask: int) -> None:
        """Note by which expression a branch or guard is decided, before it is."""
        if self.guard >= 0 and self.guard_matters:
            kind = "branch" if self.facts.kind == "control" else "guard"
            held = self.run_of.of(warp)
            node = self.run_of.node(held, warp.r, self.guard, mask)
            if node is not None:
                holds = selector(mask) & np.asarray(warp.r[self.guard], np.bool_)
                inside = holds[indices(mask)]
                agree = bool((inside == inside[0]).all())
                visit, iteration = self.recording.iterations(warp, self.loop) if self.loop >= 0 else (0, 0)
                self.run_of.decide(
                    Condition(
                        kind, self.position, warp.cta.rank, warp.index, mask, node, self.negated,
                        inside[:1] if agree else holds, self.loop, self.stays != self.negated, iteration,
                        visit=visit,
                    )
                )  # fmt: skip
            elif kind == "branch" and self.loop < 0:
                holding = predicate_mask(warp.r[self.guard]) & mask
                outcome = None if holding not in (0, mask) else holding == mask
                self.run_of.constant_ways.add((self.position, warp.cta.rank, warp.index, outcome))
        if self.facts.kind == "control":
            self._values(warp, mask)

    def _values(self, warp: Warp, mask: int) -> None:
        """Note the operands that steer the protocol."""
        run = self.run_of
        held = run.of(warp)
        if not held:
            return
        for slot in self.sinks:
            if slot in held and (node := run.node(held, warp.r, slot, mask)) is not None:
                value = run.source_of(warp.r, slot, mask)
                if (bits := self.heeded.get(slot)) is not None:
                    node = masked(run.table, self.recording.decoder, self.instruction, slot, node, bits)
                    if node is None:
                        continue
                    value = value & np.uint32(bits)
                run.decide(
                    Condition("value", self.position, warp.cta.rank, warp.index, mask, node, False, value, slot=slot)
                )  # fmt: skip

    # Running

    def run(self, warp: Warp, mask: int, act: Callable[[], bool | None], *, guarded: bool = True) -> None:
        """Run the step and carry expressions. act: does what the step does; False where it did not happen yet.
        guarded: whether the guard is still to be looked at."""
        r = warp.r
        chosen, predicate = mask, None
        run = self.run_of
        held = run.of(warp)
        if guarded and self.guard >= 0:
            if self.guard_matters:
                predicate = run.node(held, r, self.guard, mask)
            holds = predicate_mask(r[self.guard])
            chosen = mask & (holds ^ FULL if self.negated else holds)
            if predicate is not None and self.decides:
                self.branch(warp, mask)
        if chosen and self.decides:
            if self.counts:
                run.covered.add(self.position)
            if self.sinks and self.facts.kind != "control" and (held or self.specials):
                self._sinks(warp, chosen, held)
        results = self._results(warp, r, held, mask if predicate is not None else chosen)
        # Before the step: what it loads may take the place of the address.
        places = self.address.places(r, chosen) if self.address is not None and chosen else None
        watched = self.facts.kind in ("load", "store", "atomic")
        before, run.seen = run.seen, [] if watched else run.seen
        seen = run.seen
        before_local, run.local_seen = run.local_seen, [] if watched else run.local_seen
        local = run.local_seen
        try:
            done = act()
        finally:
            run.seen, run.local_seen = before, before_local
        if done is False or not (chosen or predicate is not None):
            return
        if watched and seen is not None:
            results = self._moved(warp, r, held, chosen, seen, local or [], places) or results
        if self.reads_answer:
            results = self._taken_work(warp, r, chosen) if self.names_work else self._granted(r, chosen or mask)
        if not self.writes or (not held and not results):
            return
        for slot in self.writes:
            node = results.get(slot)
            if predicate is None:
                run.give(held, slot, chosen, node)
                continue
            self._choose(warp, held, slot, mask, predicate, node)

    def _sinks(self, warp: Warp, mask: int, held: dict[int, Pieces]) -> None:
        generic = self.generic and self.facts.space == "generic"
        if generic and not _leads_to_shared(warp, self.sinks, mask):
            return
        self._values(warp, mask)

    def _choose(
        self, warp: Warp, held: dict[int, Pieces], slot: int, mask: int, predicate: Node, node: Source | None
    ) -> None:
        """A register written under a guard that depends on inputs: what it would hold either way."""
        run = self.run_of
        old = self._old.get(slot)
        if old is None:
            return
        new = node if node is not None else self._computed(warp, slot, mask)
        if new is None:
            new = run.table.opaque("what a guarded instruction gives", (predicate,))
        holds, otherwise = (old, new) if self.negated else (new, old)
        run.give(held, slot, mask, run.table.chosen(predicate, holds, otherwise))

    def _computed(self, warp: Warp, slot: int, mask: int) -> Source | None:
        """What the instruction gives if its guard holds, where it depends on no input."""
        values = self._would_give.get(slot)
        if values is None:
            return None
        inside = values[indices(mask)]
        return np.ascontiguousarray(inside[:1]) if (inside == inside[0]).all() else values

    def _results(self, warp: Warp, r: Registers, held: dict[int, Pieces], mask: int) -> dict[int, Source]:
        """The expressions of what the step writes, by slot, as far as registers decide."""
        self._old, self._would_give = {}, {}
        if not mask or not self.writes:
            return {}
        run = self.run_of
        if self.guard_matters:
            self._old = {
                slot: np.zeros(1, self.recording.decoder.type_of(slot).raw)
                if r[slot] is UNINITIALISED and slot not in held
                else run.source(held, r, slot, mask)
                for slot in self.writes
            }
        match self.facts.kind:
            case "load" if self.facts.space == "param":
                return self._parameters(r, held, mask)
            case "compute" if self.bare is not None:
                return self._compute(warp, r, held, mask)
            case "collective":
                return self._exchanged(warp, r, held, mask)
            case "compute" | "unknown" | "matrix" | "protocol":
                nodes = self._read(r, held, mask)
                if nodes and self.facts.kind == "compute":
                    return dict.fromkeys(self.writes, run.table.opaque(f"what {self.instruction.opcode} gives", nodes))
                return {}
            case _:
                return {}

    def _read(self, r: Registers, held: dict[int, Pieces], mask: int) -> tuple[Node, ...]:
        slots = [self.recording.slots[name] for name in self.facts.reads if name in self.recording.slots]
        found = [self.run_of.node(held, r, slot, mask) for slot in slots]
        return tuple(node for node in found if node is not None)

    def _probe(self, r: Registers) -> None:
        """Learn which slots the step reads, by letting it run on a copy that notes them."""
        assert self.bare is not None, "asked of what computes"
        noted = NotedRegisters(r)
        self.probed = True
        try:
            self.bare.full(noted)  # type: ignore[arg-type]
        except (TypeError, AttributeError):
            self.probed = False  # a register that nobody has written yet: try again next time
            return
        self.reads = tuple(noted.reads)

    def _compute(self, warp: Warp, r: Registers, held: dict[int, Pieces], mask: int) -> dict[int, Source]:
        assert self.bare is not None, "asked of what computes"
        if not self.probed:
            self._probe(r)
        run = self.run_of
        if _WARP_SLOT in self.reads:
            # It reads what stands in no register: the clock, where memory lies.
            nodes = self._read(r, held, mask)
            found = run.table.opaque(f"what {self.instruction.opcode} gives", nodes) if nodes else None
            return dict.fromkeys(self.writes, found) if found is not None else {}
        sources: list[Source] = []
        symbolic = False
        for slot in self.reads:
            node = run.node(held, r, slot, mask) if slot in held else None
            if node is None and slot in self.specials:
                node = run.of_special(warp, self.specials[slot])
            symbolic = symbolic or node is not None
            sources.append(node if node is not None else run.source_of(r, slot, mask))
        if self.guard_matters and self.guard in held:
            self._would_give = self._values_given(r)
            predicate = run.node(held, r, self.guard, mask)
            inside = [each if predicate is None else where(predicate, not self.negated, each) for each in sources]
            sources = inside if any(isinstance(each, Node) for each in inside) else sources
        if not symbolic or self._absorbed(sources):
            return {}
        names = self.recording.decoder.names
        read = tuple(names[slot] for slot in self.reads)
        return {
            slot: run.table.applied(
                (self.instruction.opcode, self.shape, index),
                Applied(
                    self.instruction,
                    self.bare.full,
                    self.reads,
                    read,
                    slot,
                    names[slot],
                    self.recording.decoder.type_of(slot).width_bits,
                ),
                tuple(sources),
            )
            for index, slot in enumerate(self.writes)
        }

    def _absorbed(self, sources: Sequence[Source]) -> bool:
        """Whether a constant among the sources decides the result: `false & x`, `true | x`, `0 * x`."""
        absorbing = _ABSORBING.get(self.instruction.row)
        if absorbing is None:
            words = self.instruction.modifiers if self.instruction.row == "setp" else ()
            absorbing = next((_ABSORBING[word] for word in words if word in ("and", "or")), None)
            sources = sources[2:]
            if isinstance(self.instruction.operands[-1], Negated) and absorbing is not None:
                absorbing = not absorbing
        if absorbing is None:
            return False
        constants = [each for each in sources if not isinstance(each, Node) and each.size == 1]
        if absorbing:
            return any(each.dtype == np.bool_ and bool(each[0]) for each in constants)
        return any(not each[0] for each in constants)

    def _values_given(self, r: Registers) -> dict[int, Any]:
        assert self.bare is not None, "asked of what computes"
        noted = NotedRegisters(r)
        try:
            self.bare.full(noted)  # type: ignore[arg-type]
        except (TypeError, AttributeError):
            return {}
        return noted.written

    def _parameters(
        self, r: Registers, held: dict[int, Pieces], mask: int, places: npt.NDArray[np.int64] | None = None
    ) -> dict[int, Source]:
        """The leaves that a load of the parameter block gives. places: its addresses by lane, if they are known."""
        run, address = self.run_of, self.address
        if address is None:
            return {}
        if places is None:
            places = address.places(r, mask)
        if places is None:
            return {}
        place = run.node(held, r, address.slot, mask) if address.slot >= 0 else None
        within: list[tuple[int, int]] = []
        for each in np.unique(places).tolist():
            begin = int(each) - (PARAM_WINDOW if each >= PARAM_WINDOW else 0)
            some = sum(1 << (8 * int(lane)) for lane in indices(mask)[places == each])
            within.append((begin, some))
        found: dict[int, Source] = {}
        parameters, element, signed = self.recording.decoder.parameters, self._element_bytes(), self._signed()
        for index, (slot, dtype) in enumerate(self._targets()):
            result: Source | None = None
            for begin, some in within:
                at = begin + index * element
                value = int.from_bytes(bytes(parameters[at : at + element]), "little", signed=signed)
                node: Source | None = run.of_parameters(at, dtype, value, element, signed=signed)
                if len(within) > 1:
                    node = np.array([value]).astype(dtype) if node is None else node
                    result = run.table.merged(some, node, node if result is None else result)
                else:
                    result = node
            if place is not None:
                sources = (place,) if result is None else (place, result)
                result = run.table.opaque("a parameter at a place that depends on inputs", sources)
            if result is not None and slot is not None:
                found[slot] = result
        return found

    def _signed(self) -> bool:
        """Whether a load fills a wider register by the sign."""
        return any(each in ("s8", "s16", "s32", "s64") for each in self.instruction.modifiers)

    def _element_bytes(self) -> int:
        for modifier in reversed(self.instruction.modifiers):
            declared = type_name(modifier)
            if declared is not None:
                return declared.bytes
        return 4

    def _targets(self) -> list[tuple[int | None, np.dtype[Any]]]:
        """The registers that a load writes, in order; None for the sink. Registers wider than the element are taken to
        be opaque by their leaf's width."""
        decoder, slots = self.recording.decoder, self.recording.slots
        found: list[tuple[int | None, np.dtype[Any]]] = []
        for item in decoder.vector(self.instruction.operands[0]):
            slot = slots.get(item.name) if isinstance(item, Register) else None
            element = self._element_bytes()
            if slot is None or slot == SINK_SLOT:
                found.append((None, np.dtype(f"u{min(element, 8)}")))
            else:
                found.append((slot, decoder.type_of(slot).raw))
        return found

    # Memory

    def _moved(
        self, warp: Warp, r: Registers, held: dict[int, Pieces], mask: int, seen: list[Access],
        local: list[LocalAccess], places: npt.NDArray[np.int64] | None,
    ) -> dict[int, Source]:  # fmt: skip
        """What memory keeps or gives of expressions. places: the addresses of a load, by lane."""
        run = self.run_of
        shared = [access for access in seen if access.space == "shared"]
        if self.facts.kind in ("store", "atomic"):
            if shared and (self.facts.kind == "atomic" or self.instruction.row in ("red", "multimem.red")):
                return self._exchanged_with_memory(r, held, mask, shared)
            if shared or local:
                nodes = [run.node(held, r, slot, mask) for slot in self.data if slot in held]
                node = next((each for each in nodes if each is not None), None)
                element = self._element_bytes()
                if node is not None and len(self.data) > 1:
                    node = run.table.opaque("one of several words that are stored at once", (node,))
                elif node is not None and any(r[slot].dtype.itemsize != element for slot in self.data):
                    node = run.table.opaque("part of a word that is stored", (node,))
                run.stored(shared, node, element)
                run.stored_locally(local, mask, node)
            if self.facts.kind == "atomic" and run.inputs.data and not shared and self.writes:
                return self._ticket(warp, r, mask)
            return {}
        if shared:
            targets = self._targets() if self.instruction.row == "ld" else []
            element = self._element_bytes()
            found = {
                slot: node
                for index, (slot, dtype) in enumerate(targets)
                if slot is not None
                and (node := run.loaded(shared, element, index, fills=dtype.itemsize == element)) is not None
            }
            return {slot: node for slot, node in found.items()}
        if local:
            found: dict[int, Source] = {}
            for slot, dtype in self._targets():
                if slot is not None and (given := run.loaded_locally(local, mask, r[slot], dtype)) is not None:
                    found[slot] = given
            return found
        if places is None:
            return {}
        if run.inputs.data and (
            any(access.space == "global" for access in seen)
            or reads_open_constants(warp.cta.cluster.memory, places, self._element_bytes() * len(self._targets()))
        ):
            return self._words(warp, r, held, mask, places)
        if not seen and self.facts.space == "generic":
            return self._parameters(r, held, mask, places)
        if self.facts.space == "const" and self.address is not None and self.address.slot >= 0:
            place = run.node(held, r, self.address.slot, mask)
            if place is not None:
                return dict.fromkeys(
                    self.writes, run.table.opaque("a constant at a place that depends on inputs", (place,))
                )
        return {}

    def _exchanged_with_memory(
        self, r: Registers, held: dict[int, Pieces], mask: int, shared: list[Access]
    ) -> dict[int, Source]:
        """An atomic operation on shared memory: what it leaves and gives depends on all that it meets."""
        run = self.run_of
        old = [run.loaded([replace(access, write=False)], 1, 0, fills=False) for access in shared]
        nodes = (*self._read(r, held, mask), *(each for each in old if each is not None))
        if not nodes:
            return {}
        node = run.table.opaque(f"what {self.instruction.opcode} gives", tuple(dict.fromkeys(nodes)))
        run.stored(shared, node, self._element_bytes())
        return dict.fromkeys(self.writes, node)

    def _words(
        self, warp: Warp, r: Registers, held: dict[int, Pieces], mask: int, places: npt.NDArray[np.int64]
    ) -> dict[int, Source]:
        """Words of global or constant memory that a weak load reads, as inputs."""
        run = self.run_of
        if self.instruction.row != "ld" or not STRONG.isdisjoint(self.instruction.modifiers):
            return {}
        if any(writes_to_several(each) for each in self.recording.sliced.text.flow.instructions):
            return {}
        lanes = indices(mask)
        found: dict[int, Source] = {}
        element = self._element_bytes()
        distinct = np.unique(places)
        if distinct.size > _SPLIT_MOST or element > 8:
            return {}
        fresh: list[int] = []
        address = self.address
        where = run.node(held, r, address.slot, mask) if address is not None and address.slot >= 0 else None
        for index, (slot, dtype) in enumerate(self._targets()):
            if slot is None or slot not in self.writes or dtype.kind not in "ub":
                continue
            values = np.array(r[slot], copy=True)
            node: Source | None = None
            for place in distinct.tolist():
                word = Input("memory", place + index * element, element)
                time = run.read(word, _held_by(warp, word))
                origin = 0
                if where is not None and address is not None:
                    apart = place if distinct.size > 1 else 0
                    origin = run.table.origin(where.number, address.offset, index * element, element, apart, time)
                elif time:
                    origin = run.table.origin(word, time)
                leaf = run.table.leaf(leaf_of(word, 0, dtype, element, signed=self._signed(), origin=origin))
                mine = lanes[places == place]
                given = run.inputs.memory.get(word, 0)
                raw = (given & ((1 << (8 * element)) - 1)).to_bytes(element, "little")
                extended = int.from_bytes(raw, "little", signed=self._signed())
                values[mine] = np.array([extended]).astype(dtype)[0] if dtype.kind != "b" else bool(extended)
                within = int(sum(1 << (8 * int(lane)) for lane in mine))
                node = leaf if node is None else run.table.merged(within, leaf, node)
            if node is not None:
                r[slot] = values
                found[slot] = node
                fresh.append(slot)
        self.recording.forget_taint(warp, fresh)
        return found

    def _ticket(self, warp: Warp, r: Registers, mask: int) -> dict[int, Source]:
        """The result of an atomic operation on global memory: distinct from one to the next, else anything."""
        run = self.run_of
        if mask.bit_count() != 1 or len(self.writes) != 1:
            return {}
        slot = self.writes[0]
        dtype = r[slot].dtype
        if dtype.kind != "u":
            return {}
        ticket = Input("ticket", run.tickets, dtype.itemsize)
        value = run.inputs.memory.get(ticket, run.tickets)
        run.tickets += 1
        run.issued[ticket] = self.position, self._counts_up()
        run.words_read[ticket] = None
        values = np.array(r[slot], copy=True)
        values[indices(mask)] = value
        r[slot] = values
        self.recording.forget_taint(warp, [slot])
        return {slot: run.table.leaf(Leaf(ticket, 0, dtype))}

    def _answer(self, r: Registers, mask: int) -> Lanes | None:
        """The words of an answer to a request for other clusters' work; None where nobody knows them."""
        slots = self.recording.slots
        response = self.instruction.operands[1]
        row = r[slots[response.name]] if isinstance(response, Register) and response.name in slots else UNINITIALISED
        if row is UNINITIALISED:
            return None
        words = np.ascontiguousarray(row).view(np.uint32).reshape(WARP_SIZE, 4)[indices(mask)]
        return None if (words != words[0]).any() else words[0]

    def _granted(self, r: Registers, mask: int) -> dict[int, Source]:
        """Whether a request was granted: where the launch chooses how many are."""
        run, words = self.run_of, self._answer(r, mask)
        if words is None or TAKEN not in run.inputs.memory:
            return {}
        return dict.fromkeys(self.writes, run.table.granted(request_of(words), self.instruction.span))

    def _taken_work(self, warp: Warp, r: Registers, mask: int) -> dict[int, Source]:
        """The index of a cluster whose work is taken over: any in the grid. Undefined where none is. mask: the lanes
        that ask, none where a guard keeps them from it."""
        run, slots = self.run_of, self.recording.slots
        words = self._answer(r, mask or FULL)
        if words is None or (mask and not words[3]):
            return {}
        target = self.instruction.operands[0]
        axis = next(("xyz".index(each[-1]) for each in self.instruction.modifiers if "::" in each), None)
        items = target.items[:3] if isinstance(target, Vector) else (target,)
        found: dict[int, Source] = {}
        for index, item in enumerate(items):
            slot = slots.get(item.name, SINK_SLOT) if isinstance(item, Register) else SINK_SLOT
            if slot == SINK_SLOT:
                continue
            place = index if axis is None else axis
            work = Input("work", 4 * request_of(words) + place, 4)
            run.words_read[work] = None
            found[slot] = run.table.leaf(Leaf(work, 0, self.recording.decoder.type_of(slot).raw))
            if mask:
                values = np.array(r[slot], copy=True)
                values[indices(mask)] = run.inputs.memory.get(work, 0)
                r[slot] = values
        if mask:
            self.recording.forget_taint(warp, list(found))
        return found

    def _counts_up(self) -> bool:
        """Does an atomic operation add a number above zero, which the text gives?"""
        added = self.instruction.operands[-1]
        return "add" in self.instruction.modifiers and isinstance(added, Immediate) and added.value > 0

    # Lanes

    def _exchanged(self, warp: Warp, r: Registers, held: dict[int, Pieces], mask: int) -> dict[int, Source]:
        """What lanes give one another: a uniform expression stays what it is."""
        run, row = self.run_of, self.instruction.row
        nodes = self._read(r, held, mask)
        if not nodes:
            return {}
        slots = self.recording.slots
        value = self.instruction.operands[1]
        negated = isinstance(value, Negated)
        register = value.operand if isinstance(value, Negated) else value
        slot = slots.get(register.name) if isinstance(register, Register) else None
        node = run.node(held, r, slot, mask) if slot is not None else None
        alone = len(nodes) == 1 and node is not None
        lanes = run.source_of(r, slot, mask) if slot is not None and node is None else None
        if row == "shfl.sync" and lanes is not None and lanes.size == 1:
            return {}
        if row == "shfl.sync" and len(nodes) == 1 and node is not None and "idx" in self.instruction.modifiers:
            lane, clamp = self.instruction.operands[2:4]
            if not node.uniform and isinstance(lane, Immediate) and clamp == Immediate(31):
                node = run.node(held, r, slot, 1 << (8 * (lane.value & 31)))  # type: ignore[arg-type]
        target = self.writes[0] if len(self.writes) == 1 else None
        if alone and node is not None and node.uniform and target is not None:
            if negated:
                node = run.table.negated(node)
            if row == "shfl.sync" or (row == "redux.sync" and not {"add", "xor"} & set(self.instruction.modifiers)):
                return {target: node}
            if row == "vote.sync" and {"any", "all"} & set(self.instruction.modifiers):
                return {target: node}
            if row == "vote.sync" and "ballot" in self.instruction.modifiers:
                bits = sum(1 << int(lane) for lane in indices(mask))
                word = np.array([bits], np.uint32), np.array([0], np.uint32)
                return {target: run.table.chosen(node, *word)}
        return dict.fromkeys(self.writes, run.table.opaque(f"what {self.instruction.opcode} gives", nodes))


def _held_by(warp: Warp, word: Input) -> tuple[str, int] | None:
    """The buffer that a word of global memory is in, and where."""
    region = warp.cta.cluster.memory.find(word.place)
    if region is None or region.space != "global" or word.place >= region.base + region.size_bytes:
        return None
    return region.name, word.place - region.base


def _leads_to_shared(warp: Warp, slots: tuple[int, ...], mask: int) -> bool:
    for slot in slots:
        values = warp.r[slot]
        if values is UNINITIALISED:
            continue
        inside: Lanes = values[indices(mask)]
        if inside.dtype == np.uint64 and bool((inside >= SHARED_WINDOW).any()):
            return True
    return False


def _leaves(sliced: Slice, position: int) -> tuple[int, bool]:
    """The innermost loop that one way of a branch leaves and the other does not, and whether taking it stays."""
    flow = sliced.text.flow
    instruction = flow.instructions[position]
    if instruction.guard is None or sliced.text.facts[position].kind != "control":
        return -1, False
    block = flow.block_of[position]
    if position + 1 >= len(flow.instructions):
        return -1, False
    falls = flow.block_of[position + 1]
    taken = [each for each in flow.blocks[block].successors if each != falls] or [falls]
    for number, loop in enumerate(flow.loops):
        if block in loop.blocks:
            inside = taken[0] in loop.blocks, falls in loop.blocks
            if inside[0] != inside[1]:
                return number, inside[0]
    return -1, False
