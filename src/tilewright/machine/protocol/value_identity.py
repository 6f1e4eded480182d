"""Do two warps store the same value, whatever the data, the parameters and the launch are?

Compilers let every warp of a group store what all of them hold: a scalar that is captured for a worker, a tile whose
layout gives several warps the same elements. Whether the values are equal is not a matter of the numbers of one run. So
each value gets an identity, 64 bits a lane, and each instruction is a function of which nothing is known but its name:

- a constant, the thread's index, and what is computed from these alone, is its number;
- a parameter, a special register that is one for all threads of a CTA: its name;
- a result: a hash of the instruction and the identities of what it reads; of all lanes, where lanes exchange values in
  ways that the text and the thread's index do not give;
- a load of shared memory: of the address's identity, and of who wrote the bytes last (each write is one of its own);
- a load of global memory: of the address's identity, and how much was written there before, unless it is read-only;
- what products of the tensor core, atomics and clocks give is equal to nothing.

Which way a branch goes that decides about one of these instructions, or about the store, is part of the path of a lane.
Another launch may go another way. So where a branch or a guard that the text and the thread's index do not fix chooses
among several definitions of a register, each definition's value is part of the path, too. Such a register is never a
number: what is made of it depends on the way. So each definition gives warps the same, whatever way led to it, if it
gave them the same in one run before they stored the same: by induction over the steps of a run, what they read agrees.
What they have not executed before such a store (`IdentifiedStore`) is open; runs of several launches may share that
work, if the same warps meet in them. What a store is not made of is not in its path: each warp may load a part of its
own into shared memory. A store's identity is a hash of path, address and data of all its lanes. Equal identities mean
equal values in every run that has no other race, up to a collision of hashes (chance 2^-64).

Other launches iterate more often, too. What an iteration of a loop hands to the next, where the text does not fix how
many there are or a run leaves the loop early, is no number either, and nothing that is made of it: two warps whose
numbers are equal in all iterations that were run (a counter's high bits, times the warp) may differ in a later one. It
is part of the path instead, as what another way may leave out is.

Where one launch is judged, what it gives is the same in every run of it: a register that holds no data which the run
cannot know (`taint`) has its number as identity, and a branch on such registers goes one way.

Reductions leave the same sum in several lanes, added in another order. So operands of what commutes are taken in order
of their identities; a value that another lane or a move hands on keeps its own; and taking a value to pieces and
putting the pieces together again gives that value.

Source: value numbering (J. Cocke), Herbrand equivalence; PTX ISA 9.7.3 (a NaN of 32 bits or less has no payload). Not
handled: further laws of arithmetic and accumulators of wgmma and tcgen05, which only makes values unequal. Checked by:
tests/machine/protocol/test_value_identity.py, tests/coverage_attacks/test_compared_stores.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.frontends.ptx.ast import (
    Address,
    FloatImmediate,
    Immediate,
    Instruction,
    Negated,
    Operand,
    PairOfPredicates,
    Register,
    Symbol,
    Vector,
)
from tilewright.machine.core.event import Access, WarpActor
from tilewright.machine.core.lanes import FULL, UNINITIALISED, WARP_SIZE, predicate_mask, selector
from tilewright.machine.core.special import special_register
from tilewright.machine.core.state import Cluster, Warp
from tilewright.machine.core.step import Signal, Step
from tilewright.machine.instruction.arithmetic.carry import FLAG
from tilewright.machine.instruction.warp_wide import SHUFFLES, lanes_read
from tilewright.machine.protocol.loops.ending_loops import exits_of
from tilewright.machine.protocol.made_of import DECISIONS, IdentifiedStore, WrittenBytes, hash_of, made_of, name_of
from tilewright.machine.protocol.slicing.slice import Slice, reads_call_parameter
from tilewright.machine.protocol.slicing.slice_operands import is_volatile, registers_of

Words = npt.NDArray[np.uint64]
_THREAD = ("%tid.", "%laneid", "%lanemask")
_APART = ("%tid", "%laneid", "%lanemask", "%warpid", "%ctaid", "%cluster_ctaid", "%cluster_ctarank")
_ASIDE = ("param", "const")
_GLOBAL, _WRITES = ("global", "generic"), ("store", "atomic")
_EXCHANGES = ("mma.", "wmma.", "movmatrix")
_COMMUTING = frozenset({"add", "mul", "min", "max", "and", "or", "xor", "fma", "mad"})
"""Rows whose first two operands may change places, if they have one type, but for `.f64`, where a NaN has a payload."""
_TYPE = re.compile(r"(?:[busf]|bf|tf)\d+(?:x\d)?|pred")
_MULTIPLY, _ADD = np.uint64(0xBF58_476D_1CE4_E5B9), np.uint64(0x9E37_79B9_7F4A_7C15)
_DIVIDE = np.uint64(pow(0xBF58_476D_1CE4_E5B9, -1, 1 << 64))
_HALF, _SHIFT = np.uint64(32), np.uint64(29)
_LANES = np.arange(WARP_SIZE, dtype=np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """Of a value in each lane. fixed: it is a number that the text and the thread's index give."""

    words: Words
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class _Form:
    """Of an instruction. operands: the parts that it reads; targets: what it writes, each with its place among the
    parts of the first operand; volatile: it reads what another moment would give otherwise."""

    operands: tuple[Operand, ...]
    targets: tuple[tuple[str, int], ...]
    volatile: bool
    reads_flag: bool


@dataclass(slots=True, eq=False)
class _WarpIdentities:
    """paths: of the ways that some stores, by position, have in common; executed: what a warp may leave out, and did
    not."""

    values: dict[str, Identity] = field(default_factory=dict[str, Identity])
    paths: dict[frozenset[int], Words] = field(default_factory=dict[frozenset[int], Words])
    executed: set[int] = field(default_factory=set[int])


def _mixed(before: Words, word: Words | np.uint64) -> Words:
    """A hash of two words, in order."""
    mixed = before >> _SHIFT
    mixed ^= before
    mixed *= _MULTIPLY
    mixed += word
    mixed += _ADD
    mixed ^= mixed >> _HALF
    mixed *= _MULTIPLY
    mixed ^= mixed >> _SHIFT
    return mixed


@lru_cache(maxsize=1 << 12)
def _everywhere(text: str) -> Words:
    """A name's hash in each lane."""
    found = np.full(WARP_SIZE, name_of(text), np.uint64)
    found.flags.writeable = False
    return found


def _part(whole: Words, index: int, count: int) -> Words:
    """Of one of the parts that a value is taken to; distinct values have distinct parts."""
    scrambled = (whole ^ name_of(f"part {index} of {count}")) * _MULTIPLY
    return (scrambled ^ (scrambled >> _HALF)) * _MULTIPLY


def _whole(part: Words, index: int, count: int) -> Words:
    """Of the value that would have this part."""
    scrambled = part * _DIVIDE
    return (scrambled ^ (scrambled >> _HALF)) * _DIVIDE ^ name_of(f"part {index} of {count}")


class ValueIdentities:
    """The identities of one run. positions: instructions whose results have one; contested: stores that need one.
    unknown: registers that may hold data which the run of one launch cannot know; None: the launch is made up.
    left_early: numbers of loops that the run leaves before they end."""

    def __init__(
        self, sliced: Slice, contested: frozenset[int], slots: dict[str, int], unknown: frozenset[str] | None = None,
        left_early: Collection[int] = (),
    ) -> None:  # fmt: skip
        text = sliced.text
        self.sliced, self.contested, self.slots, self.unknown = sliced, contested, slots, unknown
        branches = [at for at in sliced.executed if text.flow.instructions[at].row in DECISIONS]
        made_of_each = made_of(sliced, contested)
        self.positions = frozenset[int]().union(*(each.positions for each in made_of_each.values()))
        self.deciding = frozenset[str]().union(*(each.deciding for each in made_of_each.values()))
        self._readers: dict[str, list[int]] = {}
        self._moving = frozenset[str]()
        self._open = self._not_fixed()
        while self.unknown is None and (moving := self._handed_on(left_early)) != self._moving:
            self._moving = moving
            self._open = self._not_fixed()
        blocks = {text.flow.block_of[at] for at in self.positions | contested}
        open_branches = [
            at for at in branches
            if text.flow.decides(at, blocks) and not self._is_fixed(text.facts[at].reads)
        ]  # fmt: skip
        regions = frozenset[int]().union(*(text.flow.region(at) for at in open_branches))
        self._optional = frozenset(
            at
            for at in self.positions
            if (text.flow.block_of[at] in regions or not self._is_fixed(_guards(text.flow.instructions[at])))
            and self._is_one_of_several(at)
        )
        self._writers = self._open_writers(branches)
        # What an iteration hands to the next agrees in all iterations if each step of that does in one.
        self._optional |= frozenset(at for at in self.positions if not self._moving.isdisjoint(text.facts[at].writes))
        uneven = self._not_uniform()
        alone = frozenset(at for at in self._optional if not uneven.isdisjoint(text.facts[at].writes))
        self._needed = {at: made.positions & alone for at, made in made_of_each.items()}
        # Of each result that is part of a path: the stores whose path it is, and the paths of each store.
        self._part_of: dict[tuple[int, str], frozenset[int]] = {}
        for at in self.positions:
            for name in text.facts[at].writes:
                stores = frozenset(
                    store
                    for store, made in made_of_each.items()
                    if at in made.positions and (at in self._optional or name in made.deciding)
                )
                if stores:
                    self._part_of[at, name] = stores
        self._paths = {
            at: sorted({stores for stores in self._part_of.values() if at in stores}, key=sorted) for at in contested
        }
        # Registers that hold no number, whatever they hold in this run.
        self._unfixed = frozenset[str]()
        if self.unknown is None:
            self._unfixed = frozenset(name for at in self._optional for name in text.facts[at].writes)
        self._forms = {at: self._form(at) for at in self.positions | contested}
        self._seen: dict[tuple[int, WarpActor], set[int]] = {}
        self._written_at: set[int] = set()
        self._warps: dict[int, _WarpIdentities] = {}
        self._written = WrittenBytes()
        self._reads_global = False
        self._writer_at = {text.flow.instructions[at].span: at for at in self._writers}
        self._stored = 0

    def _form(self, position: int) -> _Form:
        facts, instruction = self.sliced.text.facts[position], self.sliced.text.flow.instructions[position]
        operands = instruction.operands[1:] if facts.writes and position not in self.contested else instruction.operands
        first = list(registers_of(instruction.operands[0])) if instruction.operands else []
        named = [name for name in first if name in facts.writes]
        parts = list(_flat(instruction.operands[0])) if named else []
        targets = dict.fromkeys([*named, *sorted(facts.writes - set(named))])
        return _Form(
            tuple(each for operand in operands for each in _flat(operand)),
            tuple(
                (name, parts.index(Register(name)) if name in named else len(parts) + count)
                for count, name in enumerate(targets)
            ),
            any(map(is_volatile, facts.reads)),
            FLAG in facts.reads,
        )

    def _is_fixed(self, names: Collection[str]) -> bool:
        """Do the text and the thread's index, or a launch that is given, fix the values of some registers?"""
        if self.unknown is not None and self.unknown.isdisjoint(names):
            return True
        return self._open.isdisjoint(names)

    def _made_with(self, names: Collection[str], fails: Callable[[int], bool]) -> frozenset[str]:
        """Registers that are made with one of some names, or by an instruction for which `fails` holds."""
        text = self.sliced.text
        if not self._readers:
            for at, facts in enumerate(text.facts):
                for name in facts.reads:
                    self._readers.setdefault(name, []).append(at)
        failing = (facts for at, facts in enumerate(text.facts) if facts.writes and fails(at))
        waiting = [*names, *(name for facts in failing for name in facts.writes)]
        found: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [each for at in self._readers.get(name, ()) for each in text.facts[at].writes]
        return frozenset(found)

    def _not_fixed(self) -> frozenset[str]:
        text = self.sliced.text
        outside = {name for facts in text.facts for name in facts.reads if name not in text.declared}
        given = {name for name in outside if not name.startswith(_THREAD)}
        return self._made_with(
            given | self._moving, lambda at: text.facts[at].kind not in ("compute", "collective")
        )  # fmt: skip

    def _not_uniform(self) -> frozenset[str]:
        """What the text does not make from constants and parameters alone."""
        text = self.sliced.text
        outside = {name for facts in text.facts for name in facts.reads if name not in text.declared}

        def fails(at: int) -> bool:
            facts = text.facts[at]
            given = facts.kind == "load" and facts.space in _ASIDE and not reads_call_parameter(text, at)
            return facts.kind != "compute" and not given

        return self._made_with({name for name in outside if is_volatile(name) or name.startswith(_APART)}, fails)

    def _handed_on(self, left_early: Collection[int]) -> frozenset[str]:
        """Registers that an iteration hands to the next, and what is made of these, in loops that other launches may
        iterate more often."""
        text, flow = self.sliced.text, self.sliced.text.flow
        if flow.irreducible:
            return frozenset(text.declared)
        found: set[str] = set()
        for number, loop in enumerate(flow.loops):
            inside = sorted((self.positions | self.contested).intersection(flow.positions(loop.blocks)))
            ends = {name for at in (*loop.back_edges, *exits_of(flow, loop)) for name in text.facts[at].reads}
            if not inside or (number not in left_early and self._is_fixed(ends)):
                continue
            written: dict[str, list[int]] = {}
            readers: dict[str, list[int]] = {}
            for at in inside:
                for name in text.facts[at].writes:
                    written.setdefault(name, []).append(at)
                for name in text.facts[at].reads:
                    readers.setdefault(name, []).append(at)
            # What an iteration makes before it reads it, by one instruction, is its own.
            own: set[str] = set()
            for at in inside:
                certain = flow.instructions[at].guard is None
                if not certain or not own.issuperset(written.keys() & text.facts[at].reads):
                    continue
                for name in text.facts[at].writes:
                    read = readers.get(name, ())
                    if len(written[name]) == 1 and all(flow.comes_first(loop, at, each) for each in read):
                        own.add(name)
            found |= written.keys() - own
        return frozenset(found)

    def _open_writers(self, branches: Collection[int]) -> frozenset[int]:
        """Who may write to global memory, or not, if what is read there matters."""
        text, flow = self.sliced.text, self.sliced.text.flow
        if not any(text.facts[at].kind == "load" and text.facts[at].space in _GLOBAL for at in self.positions):
            return frozenset()
        open_branches = [at for at in branches if not self._is_fixed(text.facts[at].reads)]
        regions = frozenset[int]().union(*(flow.region(at) for at in open_branches))
        writers = (at for at, each in enumerate(text.facts) if each.kind in _WRITES and each.space in _GLOBAL)
        return frozenset(
            at
            for at in writers
            if flow.block_of[at] in regions or not self._is_fixed(_guards(flow.instructions[at]))
        )  # fmt: skip

    def _is_one_of_several(self, position: int) -> bool:
        """Does the way that is taken choose between the result and another, or does the result choose the way?"""
        text = self.sliced.text
        guarded = text.flow.instructions[position].guard is not None
        return guarded or any(
            name in self.deciding or len(text.definitions[name]) > 1 for name in text.facts[position].writes
        )

    @property
    def stores(self) -> tuple[IdentifiedStore, ...]:
        """What each warp that made one of the stores had executed before. Who writes global memory is among it, if that
        is read."""
        writers = self._writers if self._reads_global else frozenset[int]()
        instructions = self.sliced.text.flow.instructions
        return tuple(
            IdentifiedStore(
                instructions[store].span, actor, self._needed[store] | writers, frozenset(seen | self._written_at)
            )
            for (store, actor), seen in self._seen.items()
        )  # fmt: skip

    def start(self, cluster: Cluster) -> None:
        """Another cluster starts."""
        self._warps.clear()
        self._written.start(cluster)

    def note(self, event: Access) -> Access:
        """An access has been made; a store that needs an identity gets it."""
        self._written.note(event)
        if not event.write:
            return event
        if event.space == "global" and event.span in self._writer_at:
            self._written_at.add(self._writer_at[event.span])
        if self._stored and isinstance(event.actor, WarpActor):
            return replace(event, identity=self._stored)
        return event

    def wrapped(self, position: int, step: Step) -> Step:
        """The step, which keeps account of identities."""
        if position not in self.positions and position not in self.contested:
            return step
        return step.within(lambda warp, mask, call: self._run(position, warp, mask, call))

    def _run(
        self, position: int, warp: Warp, mask: int, call: Callable[[], int | Signal | None]
    ) -> int | Signal | None:
        instruction = self.sliced.text.flow.instructions[position]
        known = self._warps.setdefault(id(warp), _WarpIdentities())
        store = position in self.contested
        sources = [self._operand(warp, known, each) for each in self._forms[position].operands]
        guard = None
        if instruction.guard is not None:
            guard = self._operand(warp, known, instruction.guard.register)
        if store:
            self._seen.setdefault((position, warp.actor), set()).update(known.executed & self._needed[position])
        self._stored = self._store(position, known, mask, sources, guard) if store else 0
        self._written.reads = []
        try:
            result = call()
            if not store and (result is None or result is Signal.YIELD):
                self._finish(position, warp, known, mask, sources, guard)
        finally:
            self._stored, self._written.reads = 0, None
        return result

    def _store(
        self, position: int, known: _WarpIdentities, mask: int, sources: list[Identity], guard: Identity | None
    ) -> int:
        instruction, chosen = self.sliced.text.flow.instructions[position], selector(mask)
        parts = [known.paths.get(stores, _BEGIN)[chosen].tobytes() for stores in self._paths[position]]
        parts += [each.words[chosen].tobytes() for each in sources]
        if guard is not None:
            parts.append(guard.words[chosen].tobytes())
        return int(hash_of(instruction.opcode.encode(), str(mask).encode(), *parts)) | 1

    def _finish(
        self, position: int, warp: Warp, known: _WarpIdentities, mask: int, sources: list[Identity],
        guard: Identity | None,
    ) -> None:  # fmt: skip
        """Give what an instruction wrote its identity."""
        instruction, form = self.sliced.text.flow.instructions[position], self._forms[position]
        if form.reads_flag:
            sources = [*sources, known.values.get(FLAG) or self._unlike_any()]
        lanes = selector(mask)
        negated = instruction.guard is not None and instruction.guard.negated
        if guard is not None and guard.fixed and instruction.guard is not None:
            holds = predicate_mask(warp.r[self.slots[instruction.guard.register.name]])
            lanes = lanes & selector(holds ^ FULL if negated else holds)
        if not lanes.any():
            return
        if position in self._optional:
            known.executed.add(position)
        whole, certain = bool(lanes.all()), guard is None or guard.fixed
        for name, index in form.targets:
            new = self._result(position, warp, index, name if certain else "", sources, lanes)
            words, fixed = new.words, new.fixed and name not in self._unfixed
            old = known.values.get(name, _NOTHING) if not whole or not certain else new
            if guard is not None and not guard.fixed:
                words, fixed = _in_order(_everywhere(f"guard {negated}"), [guard.words, words, old.words]), False
            known.values[name] = Identity(
                words if whole else np.where(lanes, words, old.words), fixed and (whole or old.fixed)
            )
            stores = self._part_of.get((position, name))
            if stores is not None:
                path = known.paths.get(stores, _BEGIN)
                known.paths[stores] = np.where(lanes, _mixed(path, words), path)

    def _result(
        self, position: int, warp: Warp, index: int, name: str, sources: list[Identity], lanes: npt.NDArray[np.bool_]
    ) -> Identity:
        text = self.sliced.text
        facts, instruction = text.facts[position], text.flow.instructions[position]
        row, begin = instruction.row, _everywhere(f"{instruction.opcode} {index}")
        if self._forms[position].volatile:
            return self._unlike_any()
        if self.unknown is not None and name and name not in self.unknown and (given := self._number(warp, name)):
            return given
        if row == "shfl.sync" and index == 0 and sources[1].fixed and sources[2].fixed:
            return self._shuffled(instruction, warp, sources[0])
        if facts.kind == "collective" or row.startswith(_EXCHANGES):
            if facts.kind == "collective" and sources and all(each.fixed for each in sources):
                return self._number(warp, name) or self._unlike_any()
            everything = hash_of(lanes.tobytes(), *(each.words.tobytes() for each in sources))
            return Identity(_mixed(_mixed(begin, _LANES), everything))
        if facts.kind == "compute":
            number = self._number(warp, name) if all(each.fixed for each in sources) else None
            return number or Identity(_computed(instruction, index, begin, sources))
        if facts.kind != "load":
            return self._unlike_any()
        return self._loaded(position, begin, sources)

    def _shuffled(self, instruction: Instruction, warp: Warp, source: Identity) -> Identity:
        """What each lane gets of another one's value."""
        mode = next(each for each in instruction.modifiers if each in SHUFFLES)
        lane, clamp = (self._held(warp, operand) for operand in instruction.operands[2:4])
        if lane is None or clamp is None:
            return self._unlike_any()
        at, _ = lanes_read(mode, lane, clamp)
        return Identity(source.words[at], source.fixed)

    def _held(self, warp: Warp, operand: Operand) -> npt.NDArray[np.int64] | None:
        """The number that an operand holds in each lane, if it is one."""
        match operand:
            case Immediate(value):
                return np.full(WARP_SIZE, value, np.int64)
            case Register(name) if name in self.slots and warp.r[self.slots[name]] is not UNINITIALISED:
                return warp.r[self.slots[name]].astype(np.int64)
            case _:
                return None

    def _loaded(self, position: int, begin: Words, sources: list[Identity]) -> Identity:
        text = self.sliced.text
        facts, instruction = text.facts[position], text.flow.instructions[position]
        if facts.space == "local" or reads_call_parameter(text, position):
            return self._unlike_any()
        if facts.space in _ASIDE:
            return Identity(_folded(begin, sources))
        reads = self._written.reads or []
        if any(access.space == "global" for access in reads) or not reads:
            if facts.space != "global":
                return self._unlike_any()
            fixed = "nc" in instruction.modifiers or instruction.row == "ldu"
            self._reads_global = self._reads_global or not fixed
            return Identity(_folded(_mixed(begin, np.uint64(0 if fixed else 1 + self._written.global_writes)), sources))
        content = self._written.content()
        if instruction.row == "ldmatrix":
            content += [each.words.tobytes() for each in sources]
            begin = _mixed(begin, _LANES)
        return Identity(_folded(_mixed(begin, hash_of(*content)), sources))

    def _operand(self, warp: Warp, known: _WarpIdentities, operand: Operand) -> Identity:
        match operand:
            case Register(name) if name in known.values:
                return known.values[name]
            case Register(name) if name.startswith(_THREAD):
                found = special_register(name)
                if found is None:
                    return self._unlike_any()
                return Identity(_number(found[1](warp.cta, warp.index)), True)
            case Register(name) if name in self.sliced.text.declared or is_volatile(name) or name == "%warpid":
                return self._unlike_any()
            case Register(name):
                return Identity(_everywhere(f"special {name} of CTA {warp.cta.linear}"))
            case Negated(register):
                inner = self._operand(warp, known, register)
                return Identity(_mixed(inner.words, name_of("not")), inner.fixed)
            case Immediate(value):
                return Identity(_everywhere(f"number {value}"), True)
            case FloatImmediate():
                return Identity(_everywhere(repr(operand)), True)
            case Symbol(name):
                return Identity(_everywhere(f"symbol {name}"), True)
            case _:
                return self._unlike_any()

    def _number(self, warp: Warp, name: str) -> Identity | None:
        """What a register holds, as a number; None without a name."""
        value: Any = warp.r[self.slots[name]] if name in self.slots else UNINITIALISED
        if value is UNINITIALISED or value.dtype.itemsize > 8 or value.dtype.kind not in "bui":
            return None
        return Identity(_number(value), True)

    def _unlike_any(self) -> Identity:
        return Identity(self._written.fresh() + _LANES)


_BEGIN = np.zeros(WARP_SIZE, np.uint64)
_NOTHING = Identity(np.zeros(WARP_SIZE, np.uint64), True)


def _number(value: npt.NDArray[Any]) -> Words:
    return _mixed(_everywhere("number"), value.astype(np.uint64))


def _guards(instruction: Instruction) -> tuple[str, ...]:
    return () if instruction.guard is None else (instruction.guard.register.name,)


def _folded(begin: Words, sources: list[Identity]) -> Words:
    return _in_order(begin, [each.words for each in sources])


def _in_order(begin: Words, words: list[Words]) -> Words:
    """A hash of words that are hashes themselves, in order: a polynomial of them, scrambled once."""
    mixed = begin * _MULTIPLY
    for each in words:
        mixed += each
        mixed *= _MULTIPLY
    mixed ^= mixed >> _HALF
    mixed *= _MULTIPLY
    mixed ^= mixed >> _SHIFT
    return mixed


def _computed(instruction: Instruction, index: int, begin: Words, sources: list[Identity]) -> Words:
    """Of a result of arithmetic."""
    row, words = instruction.row, [each.words for each in sources]
    target = instruction.operands[0]
    if row == "mov" and len(words) == 1:
        return _part(words[0], index, len(target.items)) if isinstance(target, Vector) else words[0]
    if row == "mov" and not isinstance(target, Vector):
        wholes = [_whole(each, at, len(words)) for at, each in enumerate(words)]
        same = np.logical_and.reduce([each == wholes[0] for each in wholes])
        return np.where(same, wholes[0], _folded(begin, sources))
    types = [each for each in instruction.modifiers if _TYPE.fullmatch(each)]
    if row in _COMMUTING and len(types) == 1 and types[0] != "f64" and len(words) > 1:
        first, second = words[:2]
        words[:2] = np.minimum(first, second), np.maximum(first, second)
    return _in_order(begin, words)


def _flat(operand: Operand) -> tuple[Operand, ...]:
    """The parts of an operand that have an identity each."""
    match operand:
        case Vector(items):
            return tuple(each for item in items for each in _flat(item))
        case PairOfPredicates(first, second):
            return first, second
        case Address(base, offset):
            return (Immediate(offset),) if base is None else (base, Immediate(offset))
        case _:
            return (operand,)
