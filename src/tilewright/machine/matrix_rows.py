"""Must stmatrixes that a warp runs one right after the other be steps and events of their own?

A warp that stages its results puts a piece of them into shared memory by a few stmatrixes, with nothing between them
but arithmetic that packs accumulators. In a run for its events alone such a row, from its first stmatrix to its last,
is one step, and its event one access to the bytes of all. The argument is that of `joined_accesses`: between them the
warp does nothing that orders it with anybody, so whoever is ordered with one is ordered with all; their lanes have the
bytes together anyhow; and those that meet are told one by one. What differs is which instruction a finding names, and
of a row that faults what it had stored before. So whoever joins them must make the run again, one by one, unless
nothing was found to be wrong (`driver.reproof`).

The arithmetic is run step by step, as ever. Which bytes a row stores to is a function of the vectors of its addresses,
and is remembered by these, which are never changed and are kept, so that an identity stays its own.
A row runs without a turn of others in between, which is one of the orders that there may be.

Not handled (stored one by one): stores under a guard, and of values that decide something; rows into which a label
leads; a row that is run by some lanes only, or while a wgmma's registers are in flight; loads by ldmatrix.
Checked by: tests/machine/test_matrix_rows.py, against runs in which each stmatrix is a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.dropped_values import DroppedValues
from tilewright.machine.event import TOGETHER, Access, Ranges
from tilewright.machine.instruction.matrix import MatrixStore
from tilewright.machine.lanes import FULL, UNINITIALISED, Lanes, Registers
from tilewright.machine.memory import Located, merge_ranges
from tilewright.machine.slice_operands import kind_of
from tilewright.machine.state import Warp
from tilewright.machine.step import Control, FullFunction, Plain, Signal, Step

_ROW_LEAST = 2
_LINE_BYTES = 16
_KNOWN_MOST = 1024


def join_matrix_rows(
    steps: Sequence[Step], instructions: Sequence[Instruction], entered: frozenset[int], dropped: DroppedValues
) -> list[Step]:
    """The steps, of which the first of each row runs all of it. entered: places at which a label stands."""
    found = list(steps)
    at = 0
    while at < len(instructions):
        end = _end_of_row(steps, instructions, at, entered)
        if end is None:
            at += 1
            continue
        found[at] = steps[at].doing(Control(_row(steps, at, end, dropped), converged=True))
        at = end
    return found


def _end_of_row(
    steps: Sequence[Step], instructions: Sequence[Instruction], begin: int, entered: frozenset[int]
) -> int | None:
    """The place behind the last stmatrix of the row that begins there, if one does."""
    end, count, at = begin, 0, begin
    while at < len(instructions) and (at == begin or at not in entered):
        step = steps[at]
        if isinstance(step.body, MatrixStore) and step.guard < 0 and not step.body.moved.keeps:
            end, count = at + 1, count + 1
        elif count == 0 or not isinstance(step.body, Plain) or kind_of(instructions[at]) != "compute":
            break
        at += 1
    return end if count >= _ROW_LEAST else None


def _row(
    steps: Sequence[Step], begin: int, end: int, dropped: DroppedValues
) -> Callable[[Warp, int], int | Signal | None]:
    first = steps[begin].body
    assert isinstance(first, MatrixStore), "a row begins with an stmatrix"
    run_first, span = first.act, first.span
    parts: list[tuple[int, FullFunction | None, MatrixStore | None]] = []
    for place, step in enumerate(steps[begin:end], begin):
        if isinstance(step.body, MatrixStore):
            parts.append((place, None, step.body))
        else:
            assert isinstance(step.body, Plain), "a row has no other control steps"
            parts.append((place, step.body.full, None))
    stores = [(place, store) for place, _, store in parts if store is not None]
    # By the addresses' vectors: these, what CTA's memory they were looked up in, and the bytes.
    known: dict[tuple[int, ...], tuple[list[Lanes], tuple[int, int], Ranges]] = {}

    def compute(warp: Warp) -> list[Lanes]:
        """Run the row but for what it stores; the vectors of its addresses."""
        r: Registers = warp.r
        strand = warp.current
        vectors: list[Lanes] = []
        for place, run, store in parts:
            strand.pc = place
            if run is not None:
                run(r)
                continue
            assert store is not None
            vector = r[store.slot]
            store.moved.require_written(r)
            if vector is UNINITIALISED:
                raise TypeError("uninitialised register")
            vectors.append(vector)
        return vectors

    def tell(warp: Warp, vectors: list[Lanes]) -> Ranges | None:
        """Look up where the row stores to. Gives its bytes; None where its stores were told one by one."""
        found: list[list[Located]] = []
        for (place, store), vector in zip(stores, vectors, strict=True):
            warp.current.pc = place
            found.append(store.lines(warp, vector))
        shared = warp.cta.shared
        if all(len(each) == 1 and each[0].region is shared for each in found):
            offsets = np.concatenate([each[0].offsets for each in found])
            ranges = merge_ranges(offsets, _LINE_BYTES)
            if sum(stop - start for start, stop in ranges) == offsets.size * _LINE_BYTES:
                return ranges
        for (_, store), each in zip(stores, found, strict=True):
            for part in each:
                dropped.drop(part.region)
            store.tell(warp, each)
        return None

    def act(warp: Warp, mask: int) -> int | Signal | None:
        if mask != FULL or len(warp.strands) > 1 or warp.in_flight:
            return run_first(warp, mask)
        dropped.joined = True
        vectors = compute(warp)
        shared = warp.cta.shared
        bounds = (shared.size_bytes, shared.reserved_bytes)
        key = tuple(map(id, vectors))
        met = known.get(key)
        if met is not None and met[1] == bounds:
            ranges = met[2]
        else:
            ranges = tell(warp, vectors)
            if ranges is None:
                return end
            # An address with a rank lies in the memory of one CTA alone.
            pairs = zip(stores, vectors, strict=True)
            if len(known) < _KNOWN_MOST and all(
                int(each.max()) + store.offset < shared.size_bytes for (_, store), each in pairs
            ):
                known[key] = vectors, bounds, ranges
        dropped.drop(shared)
        observe = warp.cta.cluster.observe
        if observe is not None:
            observe(Access(warp.actor, "shared", shared.cta, ranges, True, "generic", span, places=TOGETHER))
        return end

    return act
