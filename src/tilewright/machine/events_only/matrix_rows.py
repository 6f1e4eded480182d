"""Must stmatrixes that a warp runs one right after the other be steps and events of their own?

A warp that stages its results puts a piece of them into shared memory by a few stmatrixes, with nothing between them
but arithmetic that packs accumulators. In a run for its events alone such a row, from its first stmatrix to its last,
is one step, and its event one access to the bytes of all. The argument is that of `joined_accesses`: between them the
warp does nothing that orders it with anybody, so whoever is ordered with one is ordered with all; their lanes have the
bytes together anyhow; and those that meet are told one by one. What differs is which instruction a finding names, and
of a row that faults what it had stored before. So whoever joins them must make the run again, one by one, unless
nothing was found to be wrong (`driver.reproof.reproof`).

What a row computes is remembered by what it reads, as that of any stretch is (`remembered_runs`, whose argument this
is), and with it which bytes it stores to. What packs accumulators decides nothing and is left out where all that it
reads has been written, but for what is left of it.
A row runs without a turn of others in between, which is one of the orders that there may be.

Not handled (stored one by one): stores under a guard, and of values that decide something; rows into which a label
leads; by shared and by generic addresses; a row that is run by some lanes only, or while a wgmma's registers are in
flight; loads by ldmatrix.
Checked by: tests/machine/events_only/test_matrix_rows.py, against runs in which each stmatrix is a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import Decoder
from tilewright.machine.core.event import TOGETHER, Access, Ranges
from tilewright.machine.core.lanes import FULL, UNINITIALISED, Lanes, Registers
from tilewright.machine.core.memory import Located
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, FullFunction, Plain, Quiet, Signal, Step
from tilewright.machine.events_only.access_shapes import AccessShapes, Forms
from tilewright.machine.events_only.remembered_runs import Look, RememberedRuns, Writes, look_at
from tilewright.machine.instruction.matrix import MatrixStore
from tilewright.machine.protocol.slice_operands import kind_of

_ROW_LEAST = 2
_KNOWN_MOST = 1024
_UNWRITTEN = id(UNINITIALISED)


def join_matrix_rows(
    steps: Sequence[Step], instructions: Sequence[Instruction], remembered: RememberedRuns, decoder: Decoder
) -> list[Step]:
    """The steps, of which the first of each row runs all of it."""
    found = list(steps)
    forms: Forms = {}
    at = 0
    while at < len(instructions):
        begins = isinstance(steps[at].body, MatrixStore)
        end = _end_of_row(steps, instructions, at, remembered.entered) if begins else None
        if end is None:
            at += 1
            continue
        found[at] = steps[at].doing(Control(_row(steps, at, end, remembered, decoder, forms), converged=True))
        at = end
    return found


def _end_of_row(
    steps: Sequence[Step], instructions: Sequence[Instruction], begin: int, entered: frozenset[int]
) -> int | None:
    """The place behind the last stmatrix of the row that begins there, if one does."""
    end, count, at, space = begin, 0, begin, ""
    while at < len(instructions) and (at == begin or at not in entered):
        step = steps[at]
        if isinstance(step.body, MatrixStore) and step.guard < 0 and not step.body.moved.keeps:
            # Where a row leads is looked up in one space, and a number names other bytes in another.
            if step.body.space != (space or step.body.space):
                break
            end, count, space = at + 1, count + 1, step.body.space
        elif count == 0 or not isinstance(step.body, Plain) or kind_of(instructions[at]) != "compute":
            break
        at += 1
    return end if count >= _ROW_LEAST else None


@dataclass(frozen=True, slots=True, eq=False)
class _Arithmetic:
    """What a row does but for its stores. look: at what it computes from; writes: slots that others read; needs: at
    what must have been written for the rest to do nothing but `left`; gives: what that gives registers that nobody has
    written."""

    reads: tuple[int, ...]
    look: Look
    writes: tuple[int, ...]
    needs: Look
    gives: Writes
    left: tuple[FullFunction, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """What a row does on certain registers. bounds: of the shared memory in which its addresses were looked up."""

    writes: Writes
    ranges: Ranges
    bounds: tuple[int, int]


def _row(
    steps: Sequence[Step], begin: int, end: int, remembered: RememberedRuns, decoder: Decoder, forms: Forms
) -> Callable[[Warp, int], int | Signal | None]:
    dropped = decoder.dropped
    assert dropped is not None, "rows are joined where values are dropped"
    bodies = [(place, step.body) for place, step in enumerate(steps[begin:end], begin)]
    stores = [(place, body) for place, body in bodies if isinstance(body, MatrixStore)]
    first = stores[0][1]
    run_first, span = first.act, first.span
    arithmetic = _arithmetic(steps, begin, end, remembered, decoder)
    accesses = [store for _, store in stores]
    shapes = AccessShapes(accesses, [store.mask for store in accesses], first.space, forms, apart=True)
    known: dict[tuple[int, ...], _Known] = {}

    def compute(warp: Warp) -> tuple[Lanes, ...]:
        """Run the row but for what it stores; the vectors of its addresses."""
        r: Registers = warp.r
        strand = warp.current
        vectors: list[Lanes] = []
        for strand.pc, body in bodies:
            if isinstance(body, Plain):
                body.full(r)
            elif isinstance(body, MatrixStore):
                vector = r[body.slot]
                body.moved.require_written(r)
                if vector is UNINITIALISED:
                    raise TypeError("uninitialised register")
                vectors.append(vector)
        return tuple(vectors)

    def tell_each(warp: Warp, vectors: tuple[Lanes, ...]) -> None:
        """Store one by one, but not before each address has been looked up."""
        found: list[list[Located]] = []
        for (place, store), vector in zip(stores, vectors, strict=True):
            warp.current.pc = place
            found.append(store.lines(warp, vector))
        for store, each in zip(accesses, found, strict=True):
            for part in each:
                dropped.drop(part.region)
            store.tell(warp, each)

    def learn(warp: Warp, seen: tuple[int, ...] | None) -> Ranges | None:
        """Run the row, whose bytes are given; None where its stores were told one by one. seen: what it reads."""
        vectors, shared = compute(warp), warp.cta.shared
        found = shapes.find(warp.cta, vectors)
        if found is None or found[0] is not shared:
            tell_each(warp, vectors)
            return None
        # An address with a rank lies in the memory of one CTA alone.
        if arithmetic is not None and seen is not None and _are_anywhere(accesses, vectors, shared.size_bytes):
            writes = remembered.written(arithmetic.writes, warp.r)
            known[seen] = _Known(writes, found[1], (shared.size_bytes, shared.reserved_bytes))
        return found[1]

    def remember(warp: Warp, known_as: _Arithmetic, met: _Known) -> None:
        r = warp.r
        for slot, zeros in known_as.gives:
            if r[slot] is UNINITIALISED:
                r[slot] = zeros
        for run in known_as.left:
            run(r)
        for slot, value in met.writes:
            r[slot] = value

    def act(warp: Warp, mask: int) -> int | Signal | None:
        if mask != FULL or len(warp.strands) > 1 or warp.in_flight:
            return run_first(warp, mask)
        dropped.joined = True
        r, shared = warp.r, warp.cta.shared
        met = seen = None
        if arithmetic is not None and _UNWRITTEN not in map(id, arithmetic.needs(r)):
            met = known.get(tuple(map(id, arithmetic.look(r))))
            if met is None and len(known) < _KNOWN_MOST:
                seen = remembered.unified(arithmetic.reads, arithmetic.look, r)
                met = known.get(seen)
        if arithmetic is not None and met is not None and met.bounds == (shared.size_bytes, shared.reserved_bytes):
            remember(warp, arithmetic, met)
            ranges = met.ranges
        else:
            ranges = learn(warp, seen)
            if ranges is None:
                return end
        dropped.drop(shared)
        observe = warp.cta.cluster.observe
        if observe is not None:
            observe(Access(warp.actor, "shared", shared.cta, ranges, True, "generic", span, places=TOGETHER))
        return end

    return act


def _arithmetic(
    steps: Sequence[Step], begin: int, end: int, remembered: RememberedRuns, decoder: Decoder
) -> _Arithmetic | None:
    """None where a row is run step by step: it computes what is not a function of registers, or from what it packs."""
    computing, needs, written, given = list(steps), dict[int, None](), set[int](), set[int]()
    left: list[FullFunction] = []
    for place in range(begin, end):
        step = steps[place]
        if isinstance(step.body, Control | Quiet):
            if step.guard >= 0 or not remembered.by_identity.isdisjoint(step.writes):
                return None
            if isinstance(step.body, Quiet) and step.body.rest is not None:
                left.append(step.body.rest.full)
            needs.update(dict.fromkeys(slot for slot in step.reads if slot not in written))
            given |= step.writes
            # What it reads decides nothing, but for the address.
            address = frozenset({step.body.slot}) if isinstance(step.body, MatrixStore) else frozenset[int]()
            computing[place] = Step(step.body, step.span, step.opcode, -1, False, address)
        elif not remembered.is_arithmetic(place) or not given.isdisjoint((*step.reads, *step.writes, step.guard)):
            return None
        written |= step.writes
    reads, writes = remembered.reads_and_writes(begin, end, computing)
    gives = tuple((slot, decoder.zeros(slot)) for slot in sorted(given))
    return _Arithmetic(reads, look_at(reads), writes, look_at(tuple(needs)), gives, tuple(left))


def _are_anywhere(stores: Sequence[MatrixStore], vectors: Sequence[Lanes], size_bytes: int) -> bool:
    """Do addresses name no CTA, so that they lie in the memory of any?"""
    return all(int(each.max()) + store.offset < size_bytes for store, each in zip(stores, vectors, strict=True))
