"""How many threads of how many CTAs share a row, and where do its elements wait between walks?

Where a warp, or a part of one, holds a row in a few runs of each thread, it takes it, and where there are many rows, as
many lanes as have one run each, several rows at once: a warp's accesses then lie together, in few registers. Rows that
begin anywhere in a vector are taken there by words (`rows`), in more runs of each thread, one row at once: so many
loads are on their way anyway. Longer rows, and stored ones of more than three runs of each lane, for which two warps
are quicker (`bench.probes.row_forms`), have these forms, by words, by vectors, or by either where both may be:

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
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.ir.decisions import RUN_BYTES
from tilewright.ir.rows import BUFFER_BYTES, RowDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import reductions
from tilewright.synth.store.row_time import RowForm, RowWork, row_cycles, times_of
from tilewright.synth.store.row_uses import Shared, Uses, uses_of, words_of_folds
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_WARP_THREADS = 32
_WORD_BYTES = 4
_WORDS_OF_VECTOR = RUN_BYTES // _WORD_BYTES
_PIECES_OF_WARP, _PIECES_OF_FOLD = 3, 4
"""Runs of each thread up to which a warp takes a row by itself, and up to which one takes it of which nothing but a
fold is stored, or a part of a warp any row."""
_PIECES_OF_CUT = 6
"""The same where ends of rows cut runs: what threads do there the others of their warp wait for, so that the more rows
a warp takes, the better."""
_SINGLES_OF_WARP, _SINGLES_MOST = 8, 32
"""The same, and the most, where elements are taken one by one."""
_SECTOR_WORDS = 8
"""Lanes that take a row by words, at least: fewer would load part of a sector of memory at a time."""
_WORDS_OF_WARP, _WORDS_OF_ONE_FOLD, _WORDS_BESIDE_SINGLES, _WORDS_MOST = 9, 6, 4, 12
"""The same of words: a part of a warp takes a row by the first; where it exchanges one word for it, by the second,
since few lanes exchange less; beside an array that is reached element by element, whose accesses then lie together, by
the third; a whole warp by the last."""
_LEAST_LANES = 4
_LEAST_RUNS = 2
"""Of a thread, of the rows that it takes at once: by fewer memory is not kept busy, and more in more registers keep it
no busier, since fewer threads fit a multiprocessor."""
SHORT_THREADS = 128
"""Of a CTA whose warps, or parts of them, take a row each."""
_PIECES = (4, 3, 2, 1, 5, 6, 7, 8)
"""Runs of each thread of a CTA, the likelier first: many loads of a thread are on their way at once."""
_PIECES_OF_WORDS = (9, 10, 11, 12)
"""More of them, where runs are words."""
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
_CLUSTERS = (1, 2, 4, 8, 16)


def chosen(program: tile.ProgramOp, ways: Sequence[Shared], target: Target, wanted: Wanted) -> RowDecision:
    """The quickest of the forms that are not ruled out. ways: of which the first has the shortest runs."""
    if (row := _of_warp(program, ways[0], target, wanted)) is not None:
        return row
    p = times_of(target)
    found: list[tuple[float, RowDecision, Shared]] = []
    for shared in ways:
        work, forms = candidates(program, shared, target, wanted)
        found += [(row_cycles(p, work, form, target), row, shared) for row, form in forms]
    if not found:
        asked = f"{wanted.row_threads or 'any'} threads of {wanted.row_ctas or 'any'} CTAs"
        length = program.extents[ways[0].axis]
        raise TilewrightError(f"no rows of {length} by {asked}", remedy="leave the choice to the compiler")
    _, row, shared = min(found, key=operator.itemgetter(0))
    return _of_warp(program, shared, target, wanted) or row


def _of_warp(program: tile.ProgramOp, shared: Shared, target: Target, wanted: Wanted) -> RowDecision | None:
    """Rows of a warp or a part of one; None where they are too long for it."""
    uses = uses_of(program, shared)
    lanes = _lanes(shared, uses)
    if (wanted.row_threads or lanes) > _WARP_THREADS or wanted.row_ctas not in (None, 1) or wanted.row_kept:
        return None
    threads = wanted.row_threads or _spread(max(lanes, _LEAST_LANES), shared, shared.rows, target)
    asked = wanted.row_threads or wanted.row_together
    one = shared.apart or shared.words or shared.run == 1
    long = threads == _WARP_THREADS and shared.covered > threads * shared.run * _PIECES_OF_WARP
    if long and uses.stored_bytes and not (one or asked or shared.shifted):
        return None
    # Of rows of which nothing but a fold is stored, nobody measured several.
    if one or asked or threads > max(lanes, _LEAST_LANES) or not uses.stored_bytes:
        return _held(shared, threads, 1, _asked_together(shared, wanted))
    return _several(uses, _held(shared, _filled_lanes(shared, threads, target), 1))


def candidates(
    program: tile.ProgramOp, shared: Shared, target: Target, wanted: Wanted
) -> tuple[RowWork, list[tuple[RowDecision, RowForm]]]:
    """What is done with the rows, and the forms of CTAs that may do it."""
    uses = uses_of(program, shared)
    length, moved = program.extents[shared.axis], (uses.read_bytes, uses.stored_bytes)
    work = RowWork(shared.rows, length, *moved, uses.walks, uses.meetings, uses.vectors, uses.vector_bytes)
    return work, [each for each in _forms(program, shared, uses, target, wanted) if _is_asked_for(each[0], wanted)]


def _lanes(shared: Shared, uses: Uses) -> int:
    """Threads, a power of two, that take a row in a few runs each."""
    if shared.words:
        most = _WORDS_OF_WARP if uses.exchanged > 1 else _WORDS_OF_ONE_FOLD
        if uses.singles:
            most = _WORDS_BESIDE_SINGLES
        lanes = max(_SECTOR_WORDS, 1 << (-(-shared.covered // (shared.run * most)) - 1).bit_length())
        fits = shared.covered <= _WARP_THREADS * shared.run * _WORDS_MOST
        return min(lanes, _WARP_THREADS) if fits else lanes
    if shared.run == 1:
        lanes = 1 << (-(-shared.covered // _SINGLES_OF_WARP) - 1).bit_length()
        return min(lanes, _WARP_THREADS) if shared.covered <= _WARP_THREADS * _SINGLES_MOST else lanes
    pieces = _PIECES_OF_CUT if shared.shifted else _PIECES_OF_FOLD
    return 1 << (-(-shared.covered // (shared.run * pieces)) - 1).bit_length()


def _is_asked_for(row: RowDecision, wanted: Wanted) -> bool:
    return (
        wanted.row_ctas in (None, row.ctas)
        and wanted.row_threads in (None, row.cta_threads)
        and (wanted.row_kept is None or wanted.row_kept == bool(row.kept))
        and wanted.row_together in (None, row.together)
    )


def _forms(
    program: tile.ProgramOp, shared: Shared, uses: Uses, target: Target, wanted: Wanted
) -> Iterator[tuple[RowDecision, RowForm]]:
    """Every form with what it takes, of whole warps; last the one that is always possible."""
    if (wanted.row_threads or 0) % target.limit("warp.threads"):
        return
    most_registers = target.limit("thread.registers_max")
    one = shared.apart or shared.words or wanted.row_together
    at_once = (_asked_together(shared, wanted),) if one else _TOGETHER
    singles = uses.singles if shared.vectors else 0
    kind = {"run": shared.run, "words": shared.words, "cut": bool(shared.shifted), "singles": singles}
    clusters = [each for each in _CLUSTERS if each <= target.limit("cluster.ctas_max")]
    for ctas in clusters:
        part = -(-shared.covered // ctas)
        if part < _THREADS_LEAST * shared.run and ctas > 1 and not wanted.row_ctas:
            break
        few = _threads_of_cta(part, shared)
        many = _spread(min(few), replace(shared, covered=part), shared.rows * ctas, target)
        every = [wanted.row_threads] if wanted.row_threads else dict.fromkeys((*few, many))
        for threads, together in itertools.product(every, at_once):
            row = _held(shared, threads, ctas, together)
            waiting = math.ceil(row.pieces * row.run * (together * uses.own_registers + uses.shared_registers))
            if waiting > min(most_registers, target.limit("multiprocessor.registers") // threads) - _OTHER_REGISTERS:
                continue
            registers = max(_LEAST_REGISTERS, waiting + _USUAL_REGISTERS + _ROW_REGISTERS * together)
            form = RowForm(threads, together, ctas, registers, _partial_bytes(program, row), 1, padded=row.strip)
            yield row, replace(form, runs=row.pieces, **kind)
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
                form = replace(form, padded=strips * row.strip, runs=strips * row.pieces)
                yield row, replace(form, **kind)
    strips, size = -(-shared.covered // streamed.strip), _partial_bytes(program, streamed)
    form = RowForm(_STREAMING_THREADS, streamed.together, 1, _STREAMING_REGISTERS, size, uses.walks, strips)
    form = replace(form, padded=strips * streamed.strip, runs=strips * streamed.pieces)
    yield streamed, replace(form, **kind)


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


def _several(uses: Uses, row: RowDecision) -> RowDecision:
    """Two rows at once where one has too few runs of a thread on their way: fewer than two, or no more where runs of
    what all rows share are loaded with them."""
    return replace(row, together=2) if row.pieces < _LEAST_RUNS + bool(uses.vectors) else row


def _held(shared: Shared, threads: int, ctas: int, together: int = 1) -> RowDecision:
    """Rows in registers of `threads` of each CTA."""
    pieces = -(-shared.covered // (threads * ctas * shared.run))
    return RowDecision(
        shared.axis, threads * ctas, shared.run, pieces, 0, shared.vectors, shifted=shared.shifted, ctas=ctas,
        narrow=shared.narrow, together=together,
    )  # fmt: skip


def _partial_bytes(program: tile.ProgramOp, row: RowDecision) -> int:
    """Shared memory of a CTA's folds, up to where what waits begins."""
    size = row.partial_bytes(len(reductions(program)), words_of_folds(program))
    return -(-size // BUFFER_BYTES) * BUFFER_BYTES


def _threads_of_cta(length: int, shared: Shared) -> list[int]:
    """Of few, of those up to the usual number, and of more, each so many that the last strip is as full as can be; of
    rows by words, which are in many runs, every number."""
    run, more = shared.run, _PIECES_OF_WORDS if shared.words else ()
    choices = [-(-length // (run * pieces * _WARP_THREADS)) * _WARP_THREADS for pieces in (*_PIECES, *more)]
    if shared.words:
        return [each for each in choices if _THREADS_FEW <= each <= _THREADS_MOST] or [_THREADS_MOST]
    found: list[int] = []
    for low, high in itertools.pairwise((_THREADS_FEW - 1, _THREADS_LEAST - 1, _THREADS_USUAL, _THREADS_MOST)):
        fitting = [threads for threads in choices if low < threads <= high]
        found += [min(fitting, key=lambda threads: -length % (threads * run))] if fitting else []
    return found or [_THREADS_MOST]


def _spread(threads: int, shared: Shared, parts: int, target: Target) -> int:
    """Threads of a unit: of so few rows, or parts of them, that multiprocessors idle, more, up to one for each run, or
    for as many words as a vector has."""
    runs = -(-shared.covered // (shared.run * (_WORDS_OF_VECTOR if shared.words else 1)))
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
