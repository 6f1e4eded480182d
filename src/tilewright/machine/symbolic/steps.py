"""How does a step carry expressions along, and what does it decide by them? Wrappers around decoded steps.

A step that computes makes an expression of those it reads, if any of them is one; under a guard that depends on inputs,
its result is a choice. What memory gives and keeps is in `memory_words`, what lanes exchange in `exchanged_lanes`. What
the protocol sees notes conditions (`tracker`), and that it has been executed. Steps that can't meet an expression stay
as they are, by a static closure over register names (`reached`). Checked by: tests/machine/symbolic/test_tracker.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Negated
from tilewright.machine.core.decoder import Decoder
from tilewright.machine.core.lanes import (
    FULL,
    UNINITIALISED,
    Lanes,
    Registers,
    indices,
    predicate_mask,
    selector,
)
from tilewright.machine.core.memory import SHARED_WINDOW
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, Plain, Signal, Step
from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.symbolic.exchanged_lanes import exchanged
from tilewright.machine.symbolic.expression import Applied, Node, Source, where
from tilewright.machine.symbolic.heeded_bits import masked
from tilewright.machine.symbolic.kept_steps import is_protocol
from tilewright.machine.symbolic.memory_words import granted, moved, parameters, taken_work
from tilewright.machine.symbolic.noted_registers import NotedRegisters
from tilewright.machine.symbolic.reached import SHAPES
from tilewright.machine.symbolic.traced import Traced
from tilewright.machine.symbolic.tracker import Condition, Pieces, SymbolicRun

_WARP_SLOT = 0
_ABSORBING = {"and": False, "or": True, "mul": False}
"""Operands that decide the result alone; of `or`, among predicates."""
Iterations = Callable[[Warp, int], tuple[int, int]]
"""How often a warp has come to a loop before, and has begun it anew since."""


@dataclass(slots=True, eq=False)
class Recording:
    """What the wrappers of one run share. closure: registers that may hold expressions; slots: of all names;
    undecided: choices that decide nothing, so that nothing is noted of them."""

    run: SymbolicRun
    decoder: Decoder
    sliced: Slice
    closure: frozenset[str]
    slots: Mapping[str, int]
    forget_taint: Callable[[Warp, Sequence[int]], None]
    iterations: Iterations
    undecided: frozenset[int] = frozenset()
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
            return step.part(warp, mask, chosen)
        if body.converged and mask != warp.live:
            return Signal.CONVERGE
        return act(warp, mask)

    return replace(step, body=Control(guarded), guard=-1, negated=False)


class _Wrapper(Traced):
    """One instruction as it runs: what its guard decides, and what it gives."""

    def __init__(self, recording: Recording, position: int, plain: Step) -> None:
        super().__init__(recording, position, plain)
        self.reads: tuple[int, ...] = ()
        self.probed = False
        # Of the execution now running, where its guard matters: what the registers held, and what they would be given.
        self._old: dict[int, Source] = {}
        self._would_give: dict[int, Any] = {}

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
                self._sinks(warp, chosen)
        results = self._results(warp, r, held, mask if predicate is not None else chosen)
        # Before the step: what it loads may take the place of the address.
        places = self.address.places(r, chosen) if self.address is not None and chosen else None
        watched = self.facts.kind in ("load", "store", "atomic")
        before, run.seen = run.seen, [] if watched else run.seen
        seen = run.seen
        before_local, run.local_seen = run.local_seen, [] if watched else run.local_seen
        before_copies, run.copies = run.copies, [] if watched else run.copies
        local = run.local_seen
        try:
            done = act()
        finally:
            copies, run.copies = run.copies, before_copies
            run.seen, run.local_seen = before, before_local
        if done is False or not (chosen or predicate is not None):
            return
        if watched and seen is not None:
            results = moved(self, warp, r, held, chosen, seen, local or [], copies or [], places) or results
        if self.reads_answer:
            results = taken_work(self, warp, r, chosen) if self.names_work else granted(self, r, chosen or mask)
        if not self.writes or (not held and not results):
            return
        for slot in self.writes:
            node = results.get(slot)
            if predicate is None:
                run.give(held, slot, chosen, node)
                continue
            self._choose(warp, held, slot, mask, predicate, node)

    def _sinks(self, warp: Warp, mask: int) -> None:
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
                return parameters(self, r, held, mask)
            case "compute" if self.bare is not None:
                return self._compute(warp, r, held, mask)
            case "collective":
                return exchanged(self, warp, r, held, mask)
            case "compute" | "unknown" | "matrix" | "protocol":
                nodes = self.read(r, held, mask)
                if nodes and self.facts.kind == "compute":
                    return dict.fromkeys(self.writes, run.table.opaque(f"what {self.instruction.opcode} gives", nodes))
                return {}
            case _:
                return {}

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
            nodes = self.read(r, held, mask)
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


def _leads_to_shared(warp: Warp, slots: tuple[int, ...], mask: int) -> bool:
    for slot in slots:
        values = warp.r[slot]
        if values is UNINITIALISED:
            continue
        inside: Lanes = values[indices(mask)]
        if inside.dtype == np.uint64 and bool((inside >= SHARED_WINDOW).any()):
            return True
    return False
