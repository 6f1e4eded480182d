"""Must a stretch of plain steps be run again where it was run before, on the same registers?

A run for a proof goes through the same few places again and again: the same slot of a ring, in every warp of every CTA.
Between two control steps lie stretches of steps that only compute registers from registers. What such a stretch writes
is a function of what it reads (and, where some lanes run, of what its targets held), so it is remembered by that, and
the next time given without running the steps. Among them may stand quiet ones (`step.Quiet`), which give registers what
decides nothing: these are left out, but for what is left of them, where every register that they read has been
written. Nothing else is left out: control, memory and tensor-core steps, and whatever writes a register of a wgmma,
whose vectors' identity says when it was written (`machine.warpgroup`), are run as ever; so are stretches of which a
register is in flight. A stretch ends where a label stands: who jumps there reads what was written before it, and has
not gone through that. A stretch that raises is not remembered and raises again.

A stretch is remembered in parts that have nothing to do with one another: the coordinates of a tile are new each time,
while the addresses of a ring's slot come again. They may be done one after the other, in any order, but for what is
computed from registers of 64 bits (addresses of global memory, mostly), which comes after the rest of which it needs
something. What is left of quiet steps (accesses whose events are told with others) comes last, if none of the registers
that it reads is written over in the stretch.

Registers are compared by identity, for speed: a vector is never changed in place, and all that is remembered stands in
terms of one vector for each content (`_Vectors`), which are kept, so that an identity stays its own. A register with
another vector of the same content is given that one; nobody can tell but by identity, which counts for registers of
wgmma alone. A part whose inputs seldom come again is no longer looked up.

Not handled (such steps are run one by one): operands that are no registers or integers, rows not in `_ROWS`.
Checked by: tests/machine/test_remembered_runs.py, which compares events and registers with those of runs without.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilewright.frontends.ptx.ast import Immediate, Instruction, Register
from tilewright.machine.decoder import Decoder
from tilewright.machine.lanes import FULL, SINK_SLOT, Registers
from tilewright.machine.special import CLOCKS
from tilewright.machine.step import Control, FullFunction, MaskedFunction, Plain, Quiet, Step

_ROWS = frozenset({
    "add", "sub", "mul", "mad", "min", "max", "div", "rem", "neg", "abs", "and", "or", "xor", "not", "shl", "shr",
    "setp", "selp", "mov", "cvt", "mapa",
})  # fmt: skip
"""Rows whose steps read nothing but the registers among their operands, and write nothing but their first one."""

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


@dataclass(slots=True, eq=False)
class Table:
    """What steps wrote, by the identities of what they read, for one set of lanes. look: what that is; hits: how often
    it was known."""

    reads: tuple[int, ...]
    look: Look
    known: dict[tuple[int, ...], Writes] = field(default_factory=dict[tuple[int, ...], Writes])
    hits: int = 0


@dataclass(slots=True, eq=False)
class Part:
    """Arithmetic of a stretch that is remembered together. writes: slots that it writes and others read; looked_at:
    those of them that may be compared by identity; full, masked: what it reads, where all lanes run and where only
    some do; run_full, run_masked: its steps; looked_up: whether what it reads may come again; tables: by the set of
    lanes."""

    writes: tuple[int, ...]
    looked_at: frozenset[int]
    full: tuple[int, ...]
    masked: tuple[int, ...]
    run_full: PlacedFull
    run_masked: PlacedMasked
    looked_up: bool
    tables: dict[int, Table] = field(default_factory=dict[int, Table])

    def table(self, mask: int) -> Table:
        """Of the lanes of `mask`."""
        found = self.tables.get(mask)
        if found is None:
            reads = self.full if mask == FULL else self.masked
            found = self.tables[mask] = Table(reads, look_at(reads))
        return found


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


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """One step that only computes. reads: slots, special registers and the guard among them; partly: it may leave what
    it writes as it was."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    partly: bool


class RememberedRuns:
    """The stretches of a decoded kernel that are remembered, and what they wrote. stretches: by the places between
    which plain steps are to be run (`between`); entered: places at which a label stands."""

    def __init__(self, decoder: Decoder, steps: Sequence[Step], instructions: Sequence[Instruction]) -> None:
        self._steps = tuple(steps)
        self._arithmetic = [_arithmetic(decoder, step, each) for step, each in zip(steps, instructions, strict=False)]
        self._quiet = {
            place: step.body
            for place, step in enumerate(steps)
            if isinstance(step.body, Quiet) and decoder.wgmma_registers.isdisjoint(step.writes)
        }
        self._zeros = cache(decoder.zeros)
        self._wide = frozenset(
            slot for slot in range(2, decoder.first_constant) if decoder.type_of(slot).width_bits == 64
        )
        self.entered = frozenset(decoder.labels.values())
        self._readers: dict[int, list[int]] = {}
        for place, step in enumerate(steps):
            for slot in (*step.reads, step.guard):
                self._readers.setdefault(slot, []).append(place)
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

    def seen(self, part: Part, table: Table, r: Registers) -> tuple[int, ...]:
        """What a part is about to read, as its table names it. The registers then hold the same, as vectors of which
        there is one for each content."""
        if len(table.known) >= _LOOKED_UP_MOST > table.hits:
            part.looked_up = False
            part.tables.clear()
        return self.unified(table.reads, table.look, r)

    def learn(self, part: Part, table: Table, seen: tuple[int, ...], r: Registers) -> None:
        """The part has been run, step by step, on what `seen` names."""
        one = self._vectors.one
        for slot in part.looked_at:
            r[slot] = one(r[slot])
        table.known[seen] = tuple([(slot, r[slot]) for slot in part.writes])

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
        count = len(self._arithmetic)
        ends, other = [count] * count, [each is None for each in self._arithmetic]
        for place in self._quiet:
            other[place] = False
        for place in range(count - 2, -1, -1):
            follows = place + 1 not in self.entered and other[place + 1] == other[place]
            ends[place] = ends[place + 1] if follows else place + 1
        return ends

    def _stretch(self, begin: int, end: int) -> Stretch:
        arithmetic = [place for place in range(begin, end) if self._arithmetic[place] is not None]
        quiet = [(place, self._quiet[place]) for place in range(begin, end) if place in self._quiet]
        if not quiet and len(arithmetic) < _STEPS_LEAST:
            return Stretch(begin, end)
        left = [(place, body.rest) for place, body in quiet if body.rest is not None]
        parts: list[Part] = []
        if not left or self._may_come_last([place for place, _ in left], arithmetic):
            parts += [self._part(places) for places in self._apart(arithmetic)]
        else:
            left = sorted([*left, *((place, self._body(place)) for place in arithmetic)], key=lambda each: each[0])
        steps = self._steps[begin:end]
        needs, gives = self._needs_and_gives(begin, end) if quiet else ((), ())
        return Stretch(
            begin, end, True, not any(body.accesses for _, body in quiet),
            look_at(needs) if needs else None, look_at(gives) if gives else None,
            tuple((slot, self._zeros(slot)) for slot in gives),
            frozenset(slot for step in steps for slot in (*step.reads, *step.writes, step.guard)), tuple(parts),
            tuple((place, rest.full) for place, rest in left), tuple((place, rest.masked) for place, rest in left),
        )  # fmt: skip

    def _needs_and_gives(self, begin: int, end: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What must have been written for the quiet steps between two places to do nothing, and what they write."""
        needs, gives, written = dict[int, None](), dict[int, None](), set[int]()
        for place in range(begin, end):
            step, arithmetic = self._steps[place], self._arithmetic[place]
            guard = (step.guard,) if step.guard >= 0 else ()
            reads = (*step.reads, *guard) if arithmetic is None else arithmetic.reads
            needs.update(dict.fromkeys(slot for slot in reads if slot not in written))
            written.update(step.writes)
            gives.update(dict.fromkeys(step.writes if arithmetic is None else ()))
        return tuple(needs), tuple(gives)

    def _body(self, place: int) -> Plain:
        body = self._steps[place].body
        assert isinstance(body, Plain), "a stretch has plain steps"
        return body

    def _part(self, places: Sequence[int]) -> Part:
        reads, writes = self._flow(frozenset(places), [self._computed(place) for place in places])
        bodies = [(place, self._body(place)) for place in places]
        return Part(
            tuple(writes), frozenset(slot for slot in writes if self._is_looked_at(slot)), tuple(reads),
            # Lanes that do not run keep what they held.
            tuple(dict.fromkeys((*reads, *writes))),
            tuple((place, body.full) for place, body in bodies), tuple((place, body.masked) for place, body in bodies),
            len(places) >= _STEPS_LEAST,
        )  # fmt: skip

    def _may_come_last(self, left: Sequence[int], arithmetic: Sequence[int]) -> bool:
        """Is nothing that the steps of `left` read written over after they have read it?"""
        first: dict[int, int] = {}
        for place in left:
            step = self._steps[place]
            for slot in (*step.reads, step.guard):
                first.setdefault(slot, place)
        return all(place < first.get(slot, place + 1) for place in arithmetic for slot in self._computed(place).writes)

    def _apart(self, places: Sequence[int]) -> list[list[int]]:
        """Arithmetic in parts that may be done one after the other, each of which has inputs of its own."""
        narrow, wide = self._by_width(places)
        by_reads: dict[tuple[int, ...], list[int]] = {}
        for each in [*self._connected(narrow), wide]:
            reads, _ = self._flow(frozenset(each), [self._computed(place) for place in each])
            # A step by itself is as soon run as looked up.
            key = tuple(sorted(reads)) if each is not wide and len(each) >= _STEPS_LEAST else (-1, each is wide)
            by_reads.setdefault(key, []).extend(each)
        # What is computed of 64 bits may need the rest.
        last = by_reads.pop((-1, True), [])
        return [*map(sorted, by_reads.values()), *([last] if last else [])]

    def _by_width(self, places: Sequence[int]) -> tuple[list[int], list[int]]:
        """Apart from the others, steps that read a register of 64 bits which comes from before, or what is computed
        from one: addresses of global memory are new with each tile, while other registers come again."""
        wide: list[int] = []
        slots, reads = set(self._wide), set[int]()
        for place in places:
            step = self._computed(place)
            if not slots.isdisjoint(step.reads):
                wide.append(place)
                slots.update(step.writes)
                reads.update(step.reads, step.writes if step.partly else ())
            elif not reads.isdisjoint(step.writes) or not slots.isdisjoint(step.writes):
                return list(places), []
        narrow = [place for place in places if place not in set(wide)]
        written = {slot for place in wide for slot in self._computed(place).writes}
        touched = {slot for place in narrow for slot in (*self._computed(place).reads, *self._computed(place).writes)}
        return (narrow, wide) if written.isdisjoint(touched) else (list(places), [])

    def _connected(self, places: Sequence[int]) -> list[list[int]]:
        """The steps by what they have to do with one another: those that touch a register which one of them writes."""
        written = {slot for place in places for slot in self._computed(place).writes}
        groups: list[tuple[set[int], list[int]]] = []
        for place in places:
            step = self._computed(place)
            slots, members = written.intersection((*step.reads, *step.writes)), [place]
            for group in [each for each in groups if not each[0].isdisjoint(slots)]:
                groups.remove(group)
                slots |= group[0]
                members = [*group[1], *members]
            groups.append((slots, members))
        return [sorted(members) for _, members in groups]

    def _computed(self, place: int) -> _Arithmetic:
        step = self._arithmetic[place]
        assert step is not None, "parts are of arithmetic"
        return step

    def _flow(self, places: Container[int], steps: Iterable[_Arithmetic]) -> tuple[list[int], list[int]]:
        """What the steps at some places read that they have not written, and what they write that matters later."""
        reads: dict[int, None] = {}
        written: dict[int, None] = {}
        for step in steps:
            needed = (*step.reads, *step.writes) if step.partly else step.reads
            reads.update(dict.fromkeys(slot for slot in needed if slot not in written))
            written.update(dict.fromkeys(step.writes))
        # What nobody reads but these steps, after they have written it, need not be there when they have not been run.
        writes = [slot for slot in written if slot in reads or self._is_read_outside(slot, places)]
        return list(reads), writes

    def is_arithmetic(self, place: int) -> bool:
        """Does the step only compute registers?"""
        return self._arithmetic[place] is not None

    def reads_and_writes(self, begin: int, end: int, steps: Sequence[Step]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What steps that only compute, and others that write no register, read and write, run by all lanes."""
        others = (_Arithmetic(tuple(sorted(each.reads)), (), False) for each in steps[begin:end])
        pairs = zip(self._arithmetic[begin:end], others, strict=True)
        reads, writes = self._flow(range(begin, end), [known or other for known, other in pairs])
        return tuple(reads), tuple(writes)

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

    def _is_read_outside(self, slot: int, places: Container[int]) -> bool:
        return any(place not in places for place in self._readers.get(slot, ()))

    def _is_looked_at(self, slot: int) -> bool:
        """Does a step read it that may be given from what is remembered?"""
        return any(
            self._arithmetic[place] is not None or isinstance(self._steps[place].body, Control)
            for place in self._readers.get(slot, ())
            if place < len(self._arithmetic) and slot in self._steps[place].reads
        )


def look_at(reads: tuple[int, ...]) -> Look:
    """What the registers of `reads` hold."""
    if not reads:
        return lambda _r: ()
    # An itemgetter of one place gives no tuple.
    return itemgetter(*reads) if len(reads) > 1 else itemgetter(*reads, *reads)


def _arithmetic(decoder: Decoder, step: Step, instruction: Instruction) -> _Arithmetic | None:
    """What a step reads and writes that only computes; None for any other."""
    if not isinstance(step.body, Plain) or instruction.row not in _ROWS or "cc" in instruction.modifiers:
        return None
    if not all(isinstance(each, Register | Immediate) for each in instruction.operands):
        return None
    names = [each.name for each in instruction.operands if isinstance(each, Register)]
    if not CLOCKS.keys().isdisjoint(names) or any(name not in decoder.slots for name in names):
        return None
    slots = {decoder.slots[name] for name in names}
    # Special registers have slots, too, which are not among those that a step is known to read.
    specials = {slot for slot in slots if slot >= decoder.first_constant}
    reads = {*step.reads, *specials, *((step.guard,) if step.guard >= 0 else ())}
    known = step.reads | step.writes | specials | {step.guard, SINK_SLOT}
    touches_wgmma = not decoder.wgmma_registers.isdisjoint(step.reads | step.writes)
    if touches_wgmma or not slots <= known or len(step.writes) != 1:
        return None
    return _Arithmetic(tuple(sorted(reads)), tuple(sorted(step.writes)), step.guard >= 0)
