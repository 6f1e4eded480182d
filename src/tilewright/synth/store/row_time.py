"""How long do rows take, whose elements wait in registers, in shared memory, or nowhere, in one CTA or in a cluster?

A CTA brings its part of a row, folds it, and stores: while it does one of these, it does not do the others, so a
multiprocessor moves bytes all the time only where others of its CTAs are at another point. How many fit together says
how well that goes: with n CTAs for each multiprocessor, of which c fit, rows take about the longer of

- the time in which the device's memory moves their bytes, or fewer CTAs than fill it ask for them,
- n / c times what a CTA takes: its meetings, with the latency of loads, and what a thread waits for: for its own
  points one after the other, in every walk; for each strip; and for what all rows share;

but no less than it takes to begin all CTAs where they are clusters'. Bytes of a walk that reads its row again count
again. CTAs do not go in step, so that a last round which is not full does not show. A multiprocessor's lanes compute
walks in less time than a thread waits, so how many instructions begin at once does not show. What all rows share comes
with rows that wait in registers: bytes, and no latency of its own. Rows that are copied to shared memory go past the L1
cache: what all rows share stays there, and is not waited for, if what shared memory leaves of the cache has room for
it; else it comes from the L2 cache, where it is waited for. The parameters are the target's `rows.*`, fitted to
measured forms by `bench.probes.row_forms --fit`.

Rows that begin anywhere in a vector take more of a thread's time. Where ends of rows cut runs, each element of the
first and the last is asked for, and what all rows share begins elsewhere than runs do. Words wait in shared memory by
many copies, through the L1 cache. What is stored by words cuts lines, so it counts by more.

What all CTAs of a form have of a row is padded to whole runs of whole pieces, which its threads go through too.

Not handled: arrays that stay in the L2 cache between walks.
Checked by: tests/synth/store/test_row_time.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from tilewright.targets import Target


@dataclass(frozen=True, slots=True)
class RowTimes:
    """warp_cycles: of a fold for each warp of a CTA, with the loads that it waits for; cluster_cycles: more of it with
    each doubling of the CTAs that share a row; point_permille: of a thread in a walk for each of its points;
    strip_cycles: of a thread in a walk for each strip; vector_cycles: of a vector that all rows share, for each strip,
    from the L2 cache; vector_bytes_per_kilocycle: at which a CTA gets such vectors; cta_bytes_per_kilocycle: at which
    it gets and stores its own bytes; begin_cycles: between beginnings of clusters' CTAs on a multiprocessor;
    norm_permille: how well memory and latencies hide one another, the exponent of a norm. Of rows that begin anywhere
    in a vector: cut_point_cycles: of a thread in a walk for each point of a run that an end of a row may cut;
    word_stored_permille: what is stored counts by where runs are words; single_cycles: of a thread for each point of an
    array that is reached element by element; kept_word_cycles: of a thread for each word that waits in shared memory;
    elsewhere_cycles, elsewhere_word_cycles: of a thread for each run, or word, of what all rows share where runs follow
    another array's vectors."""

    warp_cycles: float
    cluster_cycles: float
    point_permille: float
    strip_cycles: float
    vector_cycles: float
    vector_bytes_per_kilocycle: float
    cta_bytes_per_kilocycle: float
    begin_cycles: float
    norm_permille: float
    cut_point_cycles: float
    word_stored_permille: float
    single_cycles: float
    kept_word_cycles: float
    elsewhere_cycles: float
    elsewhere_word_cycles: float


def times_of(target: Target) -> RowTimes:
    """What is known of a target's device. Raises TilewrightError where nothing is."""
    return RowTimes(**{each.name: float(target.limit(f"rows.{each.name}")) for each in fields(RowTimes)})


@dataclass(frozen=True, slots=True)
class RowWork:
    """What is done with each of `rows` rows of `length` points. read_bytes, stored_bytes: of one point; walks: over a
    row; meetings: of the threads that share one; vectors: arrays that all rows share, which one walk reads;
    vector_bytes: of a point of all of them."""

    rows: int
    length: int
    read_bytes: int
    stored_bytes: int
    walks: int
    meetings: int
    vectors: int = 0
    vector_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RowForm:
    """threads: of a CTA; units: rows that it takes at once; ctas: that share one; registers: of a thread; shared_bytes:
    of a CTA; readings: how often each element is read from memory; strips: by which each walk goes, 0 where the row is
    in registers; padded: points of whole runs that all threads of a unit go through, 0 for as many as a row has; kept:
    whether the row waits in shared memory; runs: of a thread in a row; run: points of one; words: whether it is a word
    where vectors are longer; cut: whether ends of rows cut runs; singles: arrays that are reached element by
    element."""

    threads: int
    units: int
    ctas: int
    registers: int
    shared_bytes: int
    readings: int
    strips: int = 0
    padded: int = 0
    kept: bool = False
    runs: int = 0
    run: int = 0
    words: bool = False
    cut: bool = False
    singles: int = 0


def resident_ctas(form: RowForm, target: Target) -> int:
    """CTAs that fit a multiprocessor together."""
    unit = target.limit("multiprocessor.register_allocation_unit")
    of_warp = math.ceil(form.registers * target.limit("warp.threads") / unit) * unit
    warps = form.threads // target.limit("warp.threads")
    by_memory = target.limit("multiprocessor.shared_bytes") // (
        form.shared_bytes + target.limit("cta.shared_reserved_bytes")
    )
    return min(
        target.limit("multiprocessor.ctas_max"),
        target.limit("multiprocessor.threads_max") // form.threads,
        target.limit("multiprocessor.registers") // (of_warp * warps),
        by_memory,
    )


def row_cycles(p: RowTimes, work: RowWork, form: RowForm, target: Target) -> float:
    """Cycles of the device's clock for all rows, from the first load to the last store; infinite where no CTA fits."""
    resident = resident_ctas(form, target)
    if not resident:
        return math.inf
    multiprocessors = target.limit("device.multiprocessors")
    points = work.length * form.units / form.ctas
    stored = work.stored_bytes * (p.word_stored_permille / 1000 if form.words else 1.0)
    moved = points * (form.readings * work.read_bytes + stored)
    ctas = work.rows * form.ctas / form.units / multiprocessors
    at_once, rounds = min(ctas, resident), max(1.0, ctas / resident)
    rate = target.limit("device.dram_bytes_per_second") / target.limit("device.clock_hertz") / multiprocessors
    memory = ctas * moved / min(rate, at_once * form.units * p.cta_bytes_per_kilocycle / 1000)
    warps = form.threads / target.limit("warp.threads")
    meeting = p.cluster_cycles * math.log2(form.ctas) + p.warp_cycles * warps
    of_thread = max(form.padded, work.length) * form.units / (form.ctas * form.threads)
    walk = of_thread * p.point_permille / 1000 + form.strips * p.strip_cycles
    shared = 0.0
    past_l1 = form.kept and not form.words
    if not (past_l1 and work.length * work.vector_bytes <= _room_bytes(form, resident, target)):
        of_cta = work.length / form.ctas * work.vector_bytes
        shared = form.strips * work.vectors * p.vector_cycles
        shared += of_cta * 1000 / p.vector_bytes_per_kilocycle
    each, norm = work.meetings * meeting + work.walks * walk + shared, p.norm_permille / 1000
    if form.kept and form.words:
        each += form.units * form.runs * p.kept_word_cycles
    if form.cut:
        # In strips each run may be the last one.
        cut = form.run * (form.runs if form.strips else min(form.runs, 2))
        elsewhere = p.elsewhere_word_cycles if form.words else p.elsewhere_cycles
        each += form.units * work.walks * cut * p.cut_point_cycles + work.vectors * form.runs * elsewhere
    each += form.units * form.singles * form.runs * form.run * p.single_cycles
    cycles = (memory**norm + (rounds * each) ** norm) ** (1 / norm)
    return max(cycles, ctas * p.begin_cycles if form.ctas > 1 else 0.0)


def _room_bytes(form: RowForm, resident: int, target: Target) -> float:
    """Of what the shared memory of so many CTAs leaves of a multiprocessor's L1 cache, what all rows share may fill:
    stores and what is read once go through it too."""
    used = resident * (form.shared_bytes + target.limit("cta.shared_reserved_bytes"))
    divisions = target.limits("multiprocessor.shared_divisions_bytes")
    left = target.limit("multiprocessor.shared_and_l1_bytes") - next(size for size in divisions if size >= used)
    return left * target.limit("rows.l1_room_permille") / 1000
