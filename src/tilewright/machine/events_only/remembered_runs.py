"""Must a stretch of plain steps be run again where it was run before, on the same registers?

A run for a proof goes through the same few places again and again: the same slot of a ring, in every warp of every CTA.
Between two control steps lie stretches of steps that only compute registers from registers. What such a stretch writes
is a function of what it reads (and, where some lanes run, of what its targets held), so it is remembered by that, and
the next time given without running the steps. Among them may stand quiet ones (`step.Quiet`), which give registers what
decides nothing: these are left out, but for what is left of them, where every register that they read has been
written. Nothing else is left out: control, memory and tensor-core steps, and whatever touches a register of a wgmma,
whose vectors' identity says when it was written (`machine.tensor_core.warpgroup`), or one that is moved there as it is
(`known_by_identity`), are run as ever; so are stretches of which a register is in flight. A stretch ends where a label
stands: who jumps there reads what was written before it, and has not gone through that. A stretch that raises is not
remembered and raises again.

A stretch is remembered in parts, since the coordinates of a tile are new each time, while the addresses of a ring's
slot come again (`arithmetic_parts`). They are done one after the other, and what a part needs of others is done before.
What is left of quiet steps (accesses whose events are told with others) comes last, if none of the registers that it
reads is written over in the stretch. Parts that do the same arithmetic on other registers, of the same types, are
remembered as one (`Memo`): what they write is a function of what they read, wherever they stand.

Registers are compared by identity, for speed: a vector is never changed in place, and all that is remembered stands in
terms of one vector for each content (`_Vectors`), which are kept, so that an identity stays its own. A register with
another vector of the same content is given that one; nobody can tell but by identity, which counts for registers of
wgmmas and what is moved there alone. A part whose inputs seldom come again is no longer looked up.

Not handled (such steps are run one by one): operands that are no registers or integers, rows not in `_ROWS`.
Checked by: tests/machine/events_only/test_remembered_runs.py, which compares events and registers with those of runs
without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilewright.frontends.ptx.ast import Immediate, Instruction, Register
from tilewright.machine.core.decoder import Decoder
from tilewright.machine.core.lanes import FULL, SINK_SLOT, Registers
from tilewright.machine.core.special import CLOCKS
from tilewright.machine.core.step import Control, FullFunction, MaskedFunction, Plain, Quiet, Step
from tilewright.machine.events_only.accesses_at_once import at_once
from tilewright.machine.events_only.arithmetic_parts import Arithmetic, flow, gives_few, likeness, parts_of

_ROWS = frozenset({
    "add", "sub", "mul", "mad", "min", "max", "div", "rem", "neg", "abs", "and", "or", "xor", "not", "shl", "shr",
    "setp", "selp", "mov", "cvt", "mapa",
})  # fmt: skip
"""Rows whose steps read nothing but the registers among their operands, and write nothing but their first one."""

_HANDS_ON = frozenset({"mov", "cvt", "cvta", "mapa"})
"""Rows that may give a register the vector that another holds."""
_STEPS_LEAST = 2
_LOOKED_UP_MOST = 32
"""So many inputs of a part may be new before they must have come again as often."""

Writes = tuple[tuple[int, Any], ...]
Look = Callable[[Registers], tuple[Any, ...]]
PlacedFull = tuple[tuple[int, FullFunction], ...]
PlacedMasked = tuple[tuple[int, MaskedFunction], ...]
"""Functions of steps, each with the step's place."""


@dataclass(slots=True, eq=False)
class _Vectors:
    """One vector for each content that was met. Anything else stands for itself."""

    by_content: dict[tuple[str, bytes], NDArray[Any]] = field(default_factory=dict[tuple[str, bytes], NDArray[Any]])

    def one(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        vector = cast("NDArray[Any]", value)
        return self.by_content.setdefault((vector.dtype.char, vector.tobytes()), vector)


Table = dict[tuple[int, ...], tuple[Any, ...]]
"""What arithmetic wrote, by the identities of what it read."""
Memo = dict[int, Table]
"""What is remembered of parts that are alike, by the set of lanes."""


@dataclass(slots=True, eq=False)
class Part:
    """Arithmetic of a stretch that is remembered together. writes: slots that it writes and others read; looked_at:
    those of them that may be compared by identity; full, masked: what it reads, where all lanes run and where only
    some do, with how to look at it; run_full, run_masked: its steps; memo: what is remembered of it and of those that
    are alike; looked_up: whether what it reads may come again; hits, news: how often it was known, and how often not.
    """

    writes: tuple[int, ...]
    looked_at: tuple[int, ...]
    full: tuple[int, ...]
    masked: tuple[int, ...]
    look_full: Look
    look_masked: Look
    run_full: PlacedFull
    run_masked: PlacedMasked
    memo: Memo
    looked_up: bool
    hits: int = 0
    news: int = 0


@dataclass(slots=True, eq=False)
class Stretch:
    """Steps from `begin` up to `end`. quiet: they only compute registers or are quiet themselves, so that the `parts`
    may be done, and then what is left (`left_full`, `left_masked`), instead of the steps. alone: nobody but the warp
    itself can tell when that happens. needs: what must have been written for that; gives: slots that quiet steps write,
    with what they are given if nobody wrote them before; given: what these hold; touched: slots of the steps."""

    begin: int
    end: int
    quiet: bool = False
    alone: bool = False
    needs: Look | None = None
    given: Look | None = None
    gives: Writes = ()
    touched: frozenset[int] = frozenset()
    parts: tuple[Part, ...] = ()
    left_full: PlacedFull = ()
    left_masked: PlacedMasked = ()


class RememberedRuns:
    """The stretches of a decoded kernel that are remembered, and what they wrote. stretches: by the places between
    which plain steps are to be run (`between`); entered: places at which a label stands; by_identity: registers whose
    vectors' identity counts."""

    def __init__(self, decoder: Decoder, steps: Sequence[Step], instructions: Sequence[Instruction]) -> None:
        self._steps = tuple(steps)
        self._instructions = tuple(instructions)
        self._decoder = decoder
        self._memos: dict[tuple[object, ...], Memo] = {}
        self._arithmetic: dict[int, Arithmetic] = {}
        self._quiet: dict[int, Quiet] = {}
        self._zeros = cache(decoder.zeros)
        self._wide = frozenset(decoder.alike.registers.get(64, {}).values())
        self.entered = frozenset(decoder.labels.values())
        self._readers: dict[int, list[int]] = {}
        readers = self._readers
        self.by_identity = known_by_identity(decoder.wgmma_registers, steps, instructions)
        for place, (step, instruction) in enumerate(zip(steps, instructions, strict=True)):
            arithmetic = _arithmetic(decoder, step, instruction, self.by_identity)
            if arithmetic is not None:
                self._arithmetic[place] = arithmetic
            if isinstance(step.body, Quiet) and self.by_identity.isdisjoint(step.writes):
                self._quiet[place] = step.body
            for slot in step.reads:
                readers.setdefault(slot, []).append(place)
            if step.guard >= 0:
                readers.setdefault(step.guard, []).append(place)
        self.stretches: dict[tuple[int, int], tuple[Stretch, ...]] = {}
        self._ends = self._ends_of_stretches()
        self._made: dict[tuple[int, int], Stretch] = {}
        self._vectors = _Vectors()

    def between(self, begin: int, end: int) -> tuple[Stretch, ...]:
        """The stretches of which the plain steps from `begin` up to `end` consist, in order."""
        found = self.stretches.get((begin, end))
        if found is None:
            found = self.stretches[begin, end] = tuple(self._cut(begin, end))
        return found

    def seen(self, part: Part, mask: int, r: Registers) -> tuple[int, ...]:
        """What a part is about to read, as its memo names it. The registers then hold the same, as vectors of which
        there is one for each content."""
        if mask == FULL:
            return self.unified(part.full, part.look_full, r)
        return self.unified(part.masked, part.look_masked, r)

    def learn(self, part: Part, mask: int, seen: tuple[int, ...], r: Registers) -> None:
        """The part has been run, step by step, on what `seen` names."""
        part.news += 1
        # Others that are alike may stand where their inputs do come again.
        part.looked_up = part.news < _LOOKED_UP_MOST or part.hits >= _LOOKED_UP_MOST
        one = self._vectors.one
        for slot in part.looked_at:
            r[slot] = one(r[slot])
        part.memo.setdefault(mask, {})[seen] = tuple([r[slot] for slot in part.writes])

    def _cut(self, begin: int, end: int) -> Iterator[Stretch]:
        first = begin
        while first < end:
            last = min(self._ends[first], end)
            found = self._made.get((first, last))
            if found is None:
                # Where a turn or a fault cuts one, its pieces seldom come again.
                whole = last == self._ends[first] and (first == 0 or self._ends[first - 1] == first)
                found = self._stretch(first, last) if whole else Stretch(first, last)
                self._made[first, last] = found
            yield found
            first = last

    def _ends_of_stretches(self) -> list[int]:
        """By place, where the stretch ends that begins there: steps that are run as ever stand apart from others."""
        count = len(self._instructions)
        ends = [count] * count
        other = [place not in self._arithmetic and place not in self._quiet for place in range(count)]
        for place in range(count - 2, -1, -1):
            follows = place + 1 not in self.entered and other[place + 1] == other[place]
            ends[place] = ends[place + 1] if follows else place + 1
        return ends

    def _stretch(self, begin: int, end: int) -> Stretch:
        arithmetic = [place for place in range(begin, end) if place in self._arithmetic]
        quiet = [(place, self._quiet[place]) for place in range(begin, end) if place in self._quiet]
        if not quiet and len(arithmetic) < _STEPS_LEAST:
            return Stretch(begin, end)
        left = [(place, body.rest) for place, body in quiet if body.rest is not None]
        parts: list[Part] = []
        if not left or self._may_come_last([place for place, _ in left], arithmetic):
            parts += self._parts(arithmetic)
            left = at_once(left)
        else:
            left = sorted([*left, *((place, self._body(place)) for place in arithmetic)], key=lambda each: each[0])
        steps = self._steps[begin:end]
        needs, gives = self._needs_and_gives(begin, end) if quiet else ((), ())
        return Stretch(
            begin, end, True, not any(body.accesses for _, body in quiet),
            look_at(needs) if needs else None, look_at(gives) if gives else None,
            tuple([(slot, self._zeros(slot)) for slot in gives]),
            frozenset({step.guard for step in steps}.union(*[step.reads | step.writes for step in steps])),
            tuple(parts),
            tuple([(place, rest.full) for place, rest in left]), tuple([(place, rest.masked) for place, rest in left]),
        )  # fmt: skip

    def _needs_and_gives(self, begin: int, end: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What must have been written for the quiet steps between two places to do nothing, and what they write."""
        needs, gives, written = dict[int, None](), dict[int, None](), set[int]()
        for place in range(begin, end):
            step, arithmetic = self._steps[place], self._arithmetic.get(place)
            for slot in step.reads if arithmetic is None else arithmetic.reads:
                if slot not in written:
                    needs[slot] = None
            if arithmetic is None:
                if step.guard >= 0 and step.guard not in written:
                    needs[step.guard] = None
                gives.update(dict.fromkeys(step.writes))
            written.update(step.writes)
        return tuple(needs), tuple(gives)

    def _body(self, place: int) -> Plain:
        body = self._steps[place].body
        assert isinstance(body, Plain), "a stretch has plain steps"
        return body

    def _part(self, places: Sequence[int], reads: list[int], writes: list[int]) -> Part:
        memo: Memo = {}
        if len(places) >= _STEPS_LEAST:
            undone = [place in self._quiet for place in places]
            form, names = likeness([self._instructions[place] for place in places], undone)
            order = {self._decoder.slots[name]: number for number, name in enumerate(names)}
            # In the order in which those of others that are alike stand, too.
            reads.sort(key=order.__getitem__)
            writes.sort(key=order.__getitem__)
            types = tuple([self._decoder.types[slot] for slot in order])
            memo = self._memos.setdefault((form, types, *map(order.get, reads), -1, *map(order.get, writes)), memo)
        # Lanes that do not run keep what they held.
        masked = (*reads, *(slot for slot in writes if slot not in reads))
        bodies = [(place, self._body(place)) for place in places]
        return Part(
            tuple(writes), tuple([slot for slot in writes if self._is_looked_at(slot)]),
            tuple(reads), masked, look_at(tuple(reads)), look_at(masked),
            tuple([(place, body.full) for place, body in bodies]),
            tuple([(place, body.masked) for place, body in bodies]), memo, len(places) >= _STEPS_LEAST,
        )  # fmt: skip

    def _may_come_last(self, left: Sequence[int], arithmetic: Sequence[int]) -> bool:
        """Is nothing that the steps of `left` read written over after they have read it?"""
        first: dict[int, int] = {}
        for place in left:
            step = self._steps[place]
            for slot in (*step.reads, step.guard):
                first.setdefault(slot, place)
        return all(
            place < first[slot] for place in arithmetic for slot in self._arithmetic[place].writes if slot in first
        )

    def _parts(self, places: Sequence[int]) -> list[Part]:
        """Arithmetic in parts that may be done one after the other, each of which has inputs of its own."""
        by_reads: dict[tuple[int, ...], list[int]] = {}
        for each in parts_of(places, self._arithmetic, self._wide):
            reads, _ = flow([self._arithmetic[place] for place in each])
            # What is computed from the same as others before needs nothing of what lies between.
            by_reads.setdefault(tuple(sorted(reads)), []).extend(each)
        found: list[Part] = []
        for alone, some in groupby(by_reads.values(), lambda each: len(each) < _STEPS_LEAST):
            for each in [list(chain.from_iterable(some))] if alone else some:
                part = sorted(each)
                reads, written = flow([self._arithmetic[place] for place in part])
                found.append(self._part(part, reads, self._needed(written, reads, frozenset(part))))
        return found

    def _needed(self, written: Sequence[int], reads: Sequence[int], places: frozenset[int]) -> list[int]:
        """Of what the steps at some places write, what matters later. What nobody reads but these steps, after they
        have written it, need not be there when they have not been run."""
        readers = self._readers
        return [slot for slot in written if slot in reads or not places.issuperset(readers.get(slot, ()))]

    def is_arithmetic(self, place: int) -> bool:
        """Does the step only compute registers?"""
        return place in self._arithmetic

    def reads_and_writes(self, begin: int, end: int, steps: Sequence[Step]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What steps that only compute, and others that write no register, read and write, run by all lanes."""
        reads, written = flow([
            self._arithmetic.get(place) or Arithmetic(tuple(sorted(steps[place].reads)), (), False)
            for place in range(begin, end)
        ])  # fmt: skip
        return tuple(reads), tuple(self._needed(written, reads, frozenset(range(begin, end))))

    def unified(self, reads: tuple[int, ...], look: Look, r: Registers) -> tuple[int, ...]:
        """Names what registers hold, which then is one vector for each content."""
        one = self._vectors.one
        for slot in reads:
            r[slot] = one(r[slot])
        return tuple(map(id, look(r)))

    def written(self, writes: Sequence[int], r: Registers) -> Writes:
        """What registers hold after they were written, which then is one vector for each content."""
        one = self._vectors.one
        found = tuple((slot, one(r[slot])) for slot in writes)
        for slot, value in found:
            r[slot] = value
        return found

    def _is_looked_at(self, slot: int) -> bool:
        """Does a step read it that may be given from what is remembered?"""
        for place in self._readers.get(slot, ()):
            step = self._steps[place]
            if slot in step.reads and (place in self._arithmetic or isinstance(step.body, Control)):
                return True
        return False


def look_at(reads: tuple[int, ...]) -> Look:
    """What the registers of `reads` hold."""
    if not reads:
        return lambda _r: ()
    # An itemgetter of one place gives no tuple.
    return itemgetter(*reads) if len(reads) > 1 else itemgetter(*reads, *reads)


def known_by_identity(
    registers: Set[int], steps: Sequence[Step], instructions: Sequence[Instruction]
) -> frozenset[int]:
    """The registers of wgmmas, and those from which a step may hand on to them the very vector that it found: if that
    one were the same as before, the write would not show."""
    sources: dict[int, set[int]] = {}
    for step, instruction in zip(steps, instructions, strict=False) if registers else ():
        if instruction.row in _HANDS_ON:
            for slot in step.writes:
                sources.setdefault(slot, set()).update(step.reads)
    found, waiting = set(registers), list(registers)
    while waiting:
        further = sources.pop(waiting.pop(), set[int]()) - found
        found |= further
        waiting += further
    return frozenset(found)


def _arithmetic(
    decoder: Decoder, step: Step, instruction: Instruction, by_identity: Set[int]
) -> Arithmetic | None:
    """What a step reads and writes that only computes; None for any other."""
    if instruction.row not in _ROWS or not isinstance(step.body, Plain) or len(step.writes) != 1:
        return None
    reads, writes, guard = step.reads, step.writes, step.guard
    if "cc" in instruction.modifiers:
        return None
    specials: list[int] = []
    for each in instruction.operands:
        if type(each) is Register:
            slot = decoder.slots.get(each.name)
            if slot in reads or slot in writes or slot in (SINK_SLOT, guard):
                continue
            # Special registers have slots, too, which are not among those that a step is known to read.
            if slot is None or slot < decoder.first_constant or each.name in CLOCKS:
                return None
            specials.append(slot)
        elif not isinstance(each, Immediate):
            return None
    if not (by_identity.isdisjoint(reads) and by_identity.isdisjoint(writes)):
        return None
    slots = {*reads, *specials, guard} if guard >= 0 else {*reads, *specials} if specials else reads
    return Arithmetic(tuple(sorted(slots)), tuple(writes), guard >= 0, gives_few(instruction))
