"""How many threads of how many CTAs share a row, and where do its elements wait between walks?

Where a warp, or a part of one, holds a row in a few runs of each thread, it takes it, and where there are many rows, as
many lanes as have one run each, several rows at once: a warp's accesses then lie together, in few registers. Longer
rows have these forms:

- in registers, of one CTA or of a cluster's, so many threads that each holds a few runs;
- in shared memory, of one CTA or of a cluster's, walked by strips: what more than one walk needs waits there;
- nowhere: each walk reads the row anew.

In the first, a CTA may take two rows at once; none of the second that was measured is quicker by that. The quickest by
`row_time` is taken; of equally quick ones the first, as listed here, with the fewest CTAs.

Checked by: tests/lower/points/test_rows.py and tests/synth/store/test_row_choice.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation

from tilewright.base.error import TilewrightError
from tilewright.ir.rows import BUFFER_BYTES, COSTLY, RowDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.facts import loads, parameter_name, reductions, stores
from tilewright.ir.tile.gather import read_tensor
from tilewright.ir.tile.narrow import is_simplified
from tilewright.ir.tile.reduce import ArgReduceOp
from tilewright.ir.tile.types import read_type, tensor_type, value_type
from tilewright.synth.store.row_time import RowForm, RowWork, row_cycles, times_of
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_WARP_THREADS = 32
_WORD_BYTES = 4
_PIECES_OF_WARP = 4
"""Runs of each thread up to which a warp, or a part of one, takes a row by itself."""
_PIECES_OF_CUT = 6
"""The same where ends of rows cut runs: what threads do there the others of their warp wait for, so that the more rows
a warp takes, the better."""
_SINGLES_OF_WARP, _SINGLES_MOST = 8, 32
"""The same, and the most, where elements are taken one by one."""
_LEAST_LANES = 4
_LEAST_RUNS, _RUNS_AT_ONCE = 2, 4
"""Of a thread, of all rows that it takes at once: more in more registers keep memory no busier, since fewer threads fit
a multiprocessor."""
SHORT_THREADS = 128
"""Of a CTA whose warps, or parts of them, take a row each."""
_PIECES = (4, 3, 2, 1, 5, 6, 7, 8)
"""Runs of each thread of a CTA, the likelier first: many loads of a thread are on their way at once."""
_THREADS_LEAST, _THREADS_USUAL, _THREADS_MOST = 128, 256, 512
_THREADS_FEW = 64
"""Of a CTA that may take several rows at once."""
_STREAMING_THREADS = 1024
_STREAMED_ELEMENTS = 16
"""Of a strip, in one thread."""
_KEEPING_THREADS = (512, 256, 128, 1024)
_TOGETHER = (1, 2)
"""Rows that a CTA takes at once."""
_ENOUGH_THREADS = 512
"""Of a multiprocessor. A policy: four warps for each of its four schedulers, so that one computes while others wait."""
_OTHER_REGISTERS = 30
"""Of a thread, for addresses and what is computed of one run at a time, where there is room for them."""
_USUAL_REGISTERS, _ROW_REGISTERS, _LEAST_REGISTERS = 8, 8, 32
"""The same as ptxas makes it, and for each row: as few as hide what a thread waits for by itself."""
_STREAMING_REGISTERS = 34
"""Of a thread that holds one strip."""
_NARROW_BYTES = 2
"""Of a result that shows no error of 2^-18 of it."""
_CLUSTERS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Shared:
    """What a program's rows are: the axis, points that units cover, of how many neighbours a run is, which arrays are
    reached so, and whose vectors runs follow; narrow: as `RowDecision` has it; apart: whether units may take only one
    at once."""

    axis: str
    rows: int
    covered: int
    run: int
    vectors: tuple[str, ...]
    shifted: str
    narrow: int
    apart: bool


def chosen(program: tile.ProgramOp, shared: Shared, target: Target, wanted: Wanted) -> RowDecision:
    """The quickest of the forms that are not ruled out."""
    lanes = 1 << (-(-shared.covered // (shared.run * _pieces_of_warp(shared))) - 1).bit_length()
    if shared.run == 1 and shared.covered <= _WARP_THREADS * _SINGLES_MOST:
        lanes = min(lanes, _WARP_THREADS)
    if (wanted.row_threads or lanes) <= _WARP_THREADS and wanted.row_ctas in (None, 1) and not wanted.row_kept:
        threads = wanted.row_threads or _spread(max(lanes, _LEAST_LANES), shared, shared.rows, target)
        asked, uses = wanted.row_threads or wanted.row_together, _uses(program, shared)
        # Of rows of which nothing but a fold is stored, nobody measured several.
        if shared.apart or shared.run == 1 or asked or threads > max(lanes, _LEAST_LANES) or not uses.stored_bytes:
            return _held(shared, threads, 1, _asked_together(shared, wanted))
        return _several(uses, _held(shared, _filled_lanes(shared, threads, target), 1))
    work, forms = candidates(program, shared, target, wanted)
    if not forms:
        asked = f"{wanted.row_threads or 'any'} threads of {wanted.row_ctas or 'any'} CTAs"
        raise TilewrightError(f"no rows of {work.length} by {asked}", remedy="leave the choice to the compiler")
    p = times_of(target)
    return min(forms, key=lambda form: row_cycles(p, work, form[1], target))[0]


def candidates(
    program: tile.ProgramOp, shared: Shared, target: Target, wanted: Wanted
) -> tuple[RowWork, list[tuple[RowDecision, RowForm]]]:
    """What is done with the rows, and the forms of CTAs that may do it."""
    uses = _uses(program, shared)
    length, moved = program.extents[shared.axis], (uses.read_bytes, uses.stored_bytes)
    work = RowWork(shared.rows, length, *moved, uses.walks, uses.meetings, uses.vectors, uses.vector_bytes)
    return work, [each for each in _forms(program, shared, uses, target, wanted) if _is_asked_for(each[0], wanted)]


def _pieces_of_warp(shared: Shared) -> int:
    """Runs of each thread up to which a warp, or a part of one, takes a row by itself."""
    if shared.run == 1:
        return _SINGLES_OF_WARP
    return _PIECES_OF_CUT if shared.shifted else _PIECES_OF_WARP


def _is_asked_for(row: RowDecision, wanted: Wanted) -> bool:
    return (
        wanted.row_ctas in (None, row.ctas)
        and wanted.row_threads in (None, row.cta_threads)
        and (wanted.row_kept is None or wanted.row_kept == bool(row.kept))
        and wanted.row_together in (None, row.together)
    )


def _forms(
    program: tile.ProgramOp, shared: Shared, uses: _Uses, target: Target, wanted: Wanted
) -> Iterator[tuple[RowDecision, RowForm]]:
    """Every form with what it takes; last the one that is always possible."""
    most_registers = target.limit("thread.registers_max")
    at_once = (_asked_together(shared, wanted),) if shared.apart or wanted.row_together else _TOGETHER
    clusters = [each for each in _CLUSTERS if each <= target.limit("cluster.ctas_max")]
    for ctas in clusters:
        part = -(-shared.covered // ctas)
        if part < _THREADS_LEAST * shared.run and ctas > 1 and not wanted.row_ctas:
            break
        few = _threads_of_cta(part, shared.run)
        many = _spread(few[0], replace(shared, covered=part), shared.rows * ctas, target)
        every = [wanted.row_threads] if wanted.row_threads else dict.fromkeys((*few, many))
        for threads, together in itertools.product(every, at_once):
            row = _held(shared, threads, ctas, together)
            waiting = math.ceil(row.pieces * row.run * (together * uses.own_registers + uses.shared_registers))
            if waiting > min(most_registers, target.limit("multiprocessor.registers") // threads) - _OTHER_REGISTERS:
                continue
            registers = max(_LEAST_REGISTERS, waiting + _USUAL_REGISTERS + _ROW_REGISTERS * together)
            yield row, RowForm(threads, together, ctas, registers, _partial_bytes(program, row), 1, padded=row.strip)
    pieces = max(1, _STREAMED_ELEMENTS // shared.run)
    streamed = replace(_held(shared, _STREAMING_THREADS, 1, at_once[0]), streamed=1, pieces=pieces)
    for ctas in clusters if uses.kept else ():
        every = [wanted.row_threads] if wanted.row_threads else _keeping_threads(-(-shared.covered // ctas), streamed)
        for threads in every:
            row = replace(streamed, threads=threads * ctas, ctas=ctas, kept=uses.kept)
            size = row.kept_bytes(program.extents[shared.axis], uses.kept_bytes) + _partial_bytes(program, row)
            whole = wanted.row_kept or row.strip < 2 * shared.covered
            if whole and size <= target.limit("cta.shared_bytes_max"):
                strips = -(-shared.covered // row.strip)
                form = RowForm(threads, row.together, ctas, _STREAMING_REGISTERS, size, 1, strips, kept=True)
                yield row, replace(form, padded=strips * row.strip)
    strips, size = -(-shared.covered // streamed.strip), _partial_bytes(program, streamed)
    form = RowForm(_STREAMING_THREADS, streamed.together, 1, _STREAMING_REGISTERS, size, uses.walks, strips)
    yield streamed, replace(form, padded=strips * streamed.strip)


def _keeping_threads(part: int, streamed: RowDecision) -> list[int]:
    """Threads of a CTA that walks so many points by strips: the usual numbers, and fewer by which the last strip is as
    full as can be."""
    of_thread = streamed.run * streamed.pieces
    found: list[int] = [*_KEEPING_THREADS]
    for threads in _KEEPING_THREADS:
        strips = -(-part // (threads * of_thread))
        found.append(max(_THREADS_LEAST, -(-part // (strips * of_thread * _WARP_THREADS)) * _WARP_THREADS))
    return list(dict.fromkeys(found))


def _asked_together(shared: Shared, wanted: Wanted) -> int:
    """Rows at once that are asked for, where units may take several."""
    return 1 if shared.apart else wanted.row_together or 1


def _filled_lanes(shared: Shared, least: int, target: Target) -> int:
    """As many lanes of a warp as have a run of a row each, or no fewer than `least` where too many would idle."""
    runs = -(-shared.covered // shared.run)
    lanes, filled = _WARP_THREADS, target.limit("rows.filled_percent")
    while lanes > least and filled * lanes * -(-runs // lanes) >= 100 * runs:
        lanes //= 2
    return lanes


def _several(uses: _Uses, row: RowDecision) -> RowDecision:
    """As many rows at once as it takes that each thread has two runs on their way, and twice as many of its rows as of
    what all rows share."""
    together = 1
    while together * row.pieces < _RUNS_AT_ONCE and (
        together * row.pieces < _LEAST_RUNS or together < _LEAST_RUNS * uses.vectors
    ):
        together *= 2
    return replace(row, together=together)


def _held(shared: Shared, threads: int, ctas: int, together: int = 1) -> RowDecision:
    """Rows in registers of `threads` of each CTA."""
    pieces = -(-shared.covered // (threads * ctas * shared.run))
    return RowDecision(
        shared.axis, threads * ctas, shared.run, pieces, 0, shared.vectors, shifted=shared.shifted, ctas=ctas,
        narrow=shared.narrow, together=together,
    )  # fmt: skip


def _partial_bytes(program: tile.ProgramOp, row: RowDecision) -> int:
    """Shared memory of a CTA's folds, up to where what waits begins."""
    folds = reductions(program)
    size = row.partial_bytes(len(folds), sum(2 if isinstance(op, ArgReduceOp) else 1 for op in folds))
    return -(-size // BUFFER_BYTES) * BUFFER_BYTES


def _threads_of_cta(length: int, run: int) -> list[int]:
    """Of few, of those up to the usual number, and of more, each so many that the last strip is as full as can be."""
    choices = [-(-length // (run * pieces * _WARP_THREADS)) * _WARP_THREADS for pieces in _PIECES]
    found: list[int] = []
    for low, high in itertools.pairwise((_THREADS_FEW - 1, _THREADS_LEAST - 1, _THREADS_USUAL, _THREADS_MOST)):
        fitting = [threads for threads in choices if low < threads <= high]
        found += [min(fitting, key=lambda threads: -length % (threads * run))] if fitting else []
    return found or [_THREADS_MOST]


def _spread(threads: int, shared: Shared, parts: int, target: Target) -> int:
    """Threads of a unit: of so few rows, or parts of them, that multiprocessors idle, more, up to one for each run."""
    runs = -(-shared.covered // shared.run)
    multiprocessors = target.limit("device.multiprocessors")
    most = min(-(-runs // _WARP_THREADS) * _WARP_THREADS, target.limit("cta.threads_max"))
    enough = min(most, multiprocessors * _ENOUGH_THREADS // parts)
    if enough < SHORT_THREADS:
        # A warp at most, or units of several would share a CTA, and its barrier.
        if shared.shifted:
            enough = min(most, multiprocessors * target.limit("rows.threads_of_cut_rows") // parts)
        lanes = min(_WARP_THREADS, 1 << max(0, enough.bit_length() - 1))
        filled = target.limit("rows.filled_percent_of_cut_rows")
        while shared.shifted and lanes > threads and filled * lanes * -(-runs // lanes) > 100 * runs:
            lanes //= 2
        return max(threads, lanes)
    # Whole warps with the fewest runs for each thread, no wider than these need.
    pieces = -(-runs // (enough // _WARP_THREADS * _WARP_THREADS))
    return max(threads, -(-runs // (pieces * _WARP_THREADS)) * _WARP_THREADS)


# ---------------------------------------------------------------- what walks need


@dataclass(frozen=True, slots=True)
class _Uses:
    """walks: over a row; meetings: of the threads that share one, folds that do not wait for each other at once;
    read_bytes, stored_bytes: of one point, of arrays of which each row has a part; own_registers, shared_registers: of
    a point that waits from one walk to the next, and of what all rows share; kept: parameters that more than one walk
    needs, each row its own part of them, in vectors, with the bytes of a point of them; vectors: arrays that all rows
    share, with the bytes of a point of all of them."""

    walks: int
    meetings: int
    read_bytes: int
    stored_bytes: int
    own_registers: float
    shared_registers: float
    kept: tuple[str, ...]
    kept_bytes: int
    vectors: int
    vector_bytes: int


def _uses(program: tile.ProgramOp, shared: Shared) -> _Uses:
    along = [op for op in loads(program) if shared.axis in map(base_axis, read_type(op.tensor).axis_names)]
    folds: set[Operation] = set(reductions(program))
    levels = _levels(program)
    ends: dict[int, list[Operation]] = {}
    for op in folds:
        ends.setdefault(levels[op] - 1, []).append(op)
    stored = [op for op in stores(program) if shared.axis in tensor_type(op.tensor).axis_names]
    for op in stored:
        ends.setdefault(levels[op], []).append(op)
    walks = [ends[level] for level in sorted(ends)]
    # In registers, what costs much is computed once.
    computed: set[Operation] = set()
    own = [op for op in along if len(read_type(op.tensor).axis_names) > 1]
    vectors = [op for op in along if op not in own]
    registers = [(0.0, 0.0)]
    for walk in walks:
        needed = _behind(walk, folds | computed)
        of_vectors = sum(_words(program, op, along, computed, shared) for op in needed.intersection(vectors))
        of_all = sum(_words(program, op, along, computed, shared) for op in needed)
        registers.append((of_all - of_vectors, of_vectors))
        computed |= {op for op in needed if _is_costly(op, shared)}
    own_registers, shared_registers = max(registers, key=sum)
    anew = [_behind(walk, folds) for walk in walks]
    kept = [
        op
        for op in own
        if sum(op in walk for walk in anew) > 1 and parameter_name(program, read_tensor(op.tensor)) in shared.vectors
    ]
    return _Uses(
        walks=len(walks),
        meetings=len({levels[op] for op in folds}),
        read_bytes=sum(read_type(op.tensor).element_kind.bytes for op in own),
        stored_bytes=sum(tensor_type(op.tensor).element_kind.bytes for op in stored),
        own_registers=own_registers,
        shared_registers=shared_registers,
        kept=tuple(dict.fromkeys(parameter_name(program, read_tensor(op.tensor)) for op in kept)),
        kept_bytes=sum(read_type(op.tensor).element_kind.bytes for op in kept),
        vectors=len(vectors),
        vector_bytes=sum(read_type(op.tensor).element_kind.bytes for op in vectors),
    )


def _words(
    program: tile.ProgramOp, op: Operation, along: Sequence[tile.LoadOp], computed: set[Operation], shared: Shared
) -> float:
    """Of a point, in which what an operation gives waits for a walk: loads do, and what an earlier one computed."""
    if isinstance(op, tile.LoadOp) and op in along:
        if parameter_name(program, read_tensor(op.tensor)) in shared.vectors:
            return read_type(op.tensor).element_kind.bytes / _WORD_BYTES
        # Runs that begin anywhere in their array's vectors are loaded where they are needed.
        return 0.0 if shared.shifted else 1.0
    return float(op in computed)


def _is_costly(op: Operation, shared: Shared) -> bool:
    return (
        isinstance(op, tile.UnaryOp | tile.BinaryOp)
        and op.function.data in COSTLY
        and not (shared.narrow and is_simplified(op, shared.axis))
        and shared.axis in value_type(op.result).axis_names
    )


def has_narrow_results(program: tile.ProgramOp, axis: str) -> bool:
    """Whether something along the rows is simplified where results do not show it, and no others follow of it."""
    widths = [
        tensor_type(op.tensor).element_kind.bytes
        for op in stores(program)
        if any(is_simplified(each, axis) for each in _behind([op], set()))
    ]
    return max(widths, default=_NARROW_BYTES + 1) <= _NARROW_BYTES


def _levels(program: tile.ProgramOp) -> dict[Operation, int]:
    """How many folds, one waiting for the other, each operation waits for; a fold for itself too."""
    found: dict[Operation, int] = {}
    folds = set(reductions(program))
    for op in program.walk():
        before = [found.get(each.owner, 0) for each in op.operands if isinstance(each.owner, Operation)]
        found[op] = max(before, default=0) + (op in folds)
    return found


def _behind(ends: Sequence[Operation], known: set[Operation]) -> set[Operation]:
    """What these are computed from, up to what is known, which is among it."""
    found: set[Operation] = set()
    open_ = [operand.owner for op in ends for operand in op.operands]
    while open_:
        op = open_.pop()
        if isinstance(op, Operation) and op not in found:
            found.add(op)
            if op not in known:
                open_ += [operand.owner for operand in op.operands]
    return found
