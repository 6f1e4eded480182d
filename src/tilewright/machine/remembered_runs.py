"""Must a stretch of arithmetic be computed again where it was computed before, on the same registers?

A run for a proof goes through the same few places again and again: the same slot of a ring, in every warp of every CTA.
Between two control steps lie stretches of steps that only compute registers from registers. What such a stretch writes
is a function of what it reads (and, where some lanes run, of what its targets held), so it is remembered by that, and
the next time given without running the steps. Nothing else is left out: control, memory and tensor-core steps, and
whatever touches a register of a wgmma, whose vectors' identity says when it was written (`machine.warpgroup`), are run
as ever; so are stretches of which a register is in flight. A stretch ends where a label stands: who jumps there reads
what was written before it, and has not gone through that. A stretch that raises is not remembered and raises again.

Registers are compared by identity, for speed: a vector is never changed in place, and all that is remembered stands in
terms of one vector for each content (`_Vectors`), which are kept, so that an identity stays its own. A register with
another vector of the same content is given that one; nobody can tell but by identity, which counts for registers of
wgmma alone. A stretch whose inputs seldom come again is no longer looked up.

Not handled (such steps are run one by one): operands that are no registers or integers, rows not in `_ROWS`.
Checked by: tests/machine/test_remembered_runs.py, which compares events and registers with those of runs without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilewright.frontends.ptx.ast import Immediate, Instruction, Register
from tilewright.machine.decoder import Decoder
from tilewright.machine.lanes import FULL, SINK_SLOT, Registers
from tilewright.machine.special import CLOCKS
from tilewright.machine.step import Plain, Step

_ROWS = frozenset({
    "add", "sub", "mul", "mad", "min", "max", "div", "rem", "neg", "abs", "and", "or", "xor", "not", "shl", "shr",
    "setp", "selp", "mov", "cvt", "mapa",
})  # fmt: skip
"""Rows whose steps read nothing but the registers among their operands, and write nothing but their first one."""

_STEPS_LEAST = 2
_LOOKED_UP_MOST = 512
"""So many inputs of a stretch may be new before they must have come again as often."""

Writes = tuple[tuple[int, Any], ...]


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
    """What a stretch wrote, by the identities of what it read, for one set of lanes. reads: slots; look: what they
    hold; hits: how often it was known."""

    reads: tuple[int, ...]
    look: Callable[[Registers], tuple[Any, ...]]
    known: dict[tuple[int, ...], Writes] = field(default_factory=dict[tuple[int, ...], Writes])
    hits: int = 0


@dataclass(slots=True, eq=False)
class Stretch:
    """Steps from `begin` up to `end`. arithmetic: only compute, so that they may be remembered; writes: slots that they
    write and others read; touched: slots of them all; full, masked: what they read, where all lanes run and where only
    some do; tables: by the set of lanes."""

    begin: int
    end: int
    arithmetic: bool = False
    writes: tuple[int, ...] = ()
    touched: frozenset[int] = frozenset()
    full: tuple[int, ...] = ()
    masked: tuple[int, ...] = ()
    tables: dict[int, Table] = field(default_factory=dict[int, Table])


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
        self._arithmetic = [_arithmetic(decoder, step, each) for step, each in zip(steps, instructions, strict=False)]
        self.entered = frozenset(decoder.labels.values())
        self._readers: dict[int, list[int]] = {}
        for place, step in enumerate(steps):
            for slot in (*step.reads, step.guard):
                self._readers.setdefault(slot, []).append(place)
        self.stretches: dict[tuple[int, int], tuple[Stretch, ...]] = {}
        self._vectors = _Vectors()

    def between(self, begin: int, end: int) -> tuple[Stretch, ...]:
        """The stretches of which the plain steps from `begin` up to `end` consist, in order."""
        found = self.stretches[begin, end] = tuple(self._cut(begin, end))
        return found

    def table(self, stretch: Stretch, mask: int) -> Table | None:
        """Of the lanes of `mask`; None where the stretch's steps are run one by one."""
        if not stretch.arithmetic:
            return None
        reads = stretch.full if mask == FULL else stretch.masked
        return stretch.tables.setdefault(mask, Table(reads, look_at(reads)))

    def seen(self, stretch: Stretch, table: Table, r: Registers) -> tuple[int, ...]:
        """What a stretch is about to read, as its table names it. The registers then hold the same, as vectors of
        which there is one for each content."""
        if len(table.known) >= _LOOKED_UP_MOST > table.hits:
            stretch.arithmetic = False
            stretch.tables.clear()
        return self.unified(table.reads, table.look, r)

    def learn(self, stretch: Stretch, table: Table, seen: tuple[int, ...], r: Registers) -> None:
        """The stretch has been run, step by step, on what `seen` names."""
        table.known[seen] = self.written(stretch.writes, r)

    def _cut(self, begin: int, end: int) -> Iterator[Stretch]:
        first = begin
        while first < end:
            last, other = first + 1, self._arithmetic[first] is None
            while last < end and last not in self.entered and (self._arithmetic[last] is None) == other:
                last += 1
            yield self._stretch(first, last, [each for each in self._arithmetic[first:last] if each is not None])
            first = last

    def _stretch(self, begin: int, end: int, steps: Sequence[_Arithmetic]) -> Stretch:
        if len(steps) < _STEPS_LEAST:
            return Stretch(begin, end)
        reads, writes, written = self._flow(begin, end, steps)
        # Lanes that do not run keep what they held.
        masked = tuple(dict.fromkeys((*reads, *writes)))
        return Stretch(begin, end, True, tuple(writes), frozenset((*reads, *written)), tuple(reads), masked)

    def _flow(self, begin: int, end: int, steps: Iterable[_Arithmetic]) -> tuple[list[int], list[int], list[int]]:
        """What the steps between two places read that they have not written, what they write that matters later, and
        all that they write."""
        reads: dict[int, None] = {}
        written: dict[int, None] = {}
        for step in steps:
            needed = (*step.reads, *step.writes) if step.partly else step.reads
            reads.update(dict.fromkeys(slot for slot in needed if slot not in written))
            written.update(dict.fromkeys(step.writes))
        # What nobody reads but these steps, after they have written it, need not be there when they have not been run.
        writes = [slot for slot in written if slot in reads or self._is_read_outside(slot, begin, end)]
        return list(reads), writes, list(written)

    def is_arithmetic(self, place: int) -> bool:
        """Does the step only compute registers?"""
        return self._arithmetic[place] is not None

    def reads_and_writes(self, begin: int, end: int, steps: Sequence[Step]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What steps that only compute, and others that write no register, read and write, run by all lanes."""
        others = (_Arithmetic(tuple(sorted(each.reads)), (), False) for each in steps[begin:end])
        pairs = zip(self._arithmetic[begin:end], others, strict=True)
        reads, writes, _ = self._flow(begin, end, [known or other for known, other in pairs])
        return tuple(reads), tuple(writes)

    def unified(
        self, reads: tuple[int, ...], look: Callable[[Registers], tuple[Any, ...]], r: Registers
    ) -> tuple[int, ...]:
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

    def _is_read_outside(self, slot: int, begin: int, end: int) -> bool:
        return any(not begin <= place < end for place in self._readers.get(slot, ()))


def look_at(reads: tuple[int, ...]) -> Callable[[Registers], tuple[Any, ...]]:
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
