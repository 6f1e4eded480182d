"""How long do rows take, whose elements wait in registers, in shared memory, or nowhere, in one CTA or in a cluster?

A CTA brings its part of a row, folds it, and stores: while it does one of these, it does not do the others, so a
multiprocessor moves bytes all the time only where others of its CTAs are at another point. How many fit together says
how well that goes: with n CTAs for each multiprocessor, of which c fit, rows take the longest of

- the time in which the device's memory moves their bytes,
- the time in which the multiprocessor's lanes compute all walks,
- as many rounds of c CTAs as there are, each of which takes its meetings, with the latency of loads, and the time of
  its own bytes and walks at the rate at which one CTA gets them.

Bytes of a walk that reads its row again count again. Its
parameters are the target's `rows.*`, fitted to measured forms by `bench.probes.row_forms --fit`.

What all CTAs of a form have of a row is padded to whole runs of whole pieces, which its lanes go through too.

Not handled: arrays that stay in the L2 cache between walks; bytes of arrays that all rows share.
Checked by: tests/synth/store/test_row_time.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from tilewright.targets import Target

_LANES = 128
"""Of a multiprocessor: arithmetic instructions of as many threads begin in a cycle."""


@dataclass(frozen=True, slots=True)
class RowTimes:
    """meeting_cycles: of a fold across a CTA's warps, and of the loads that it waits for; cluster_cycles: more of it
    with each doubling of the CTAs that share a row; warp_permille: and with each warp that does, whose word all read;
    cta_bytes_per_kilocycle: at which a CTA's own bytes come and go, with no other in its way; point_slots_permille:
    instructions of a walk for each point; vector_cycles: of a vector that all rows share, for each strip;
    norm_permille: how well memory, lanes and latencies hide one another, the exponent of a norm."""

    meeting_cycles: float
    cluster_cycles: float
    warp_permille: float
    cta_bytes_per_kilocycle: float
    point_slots_permille: float
    vector_cycles: float
    norm_permille: float


def times_of(target: Target) -> RowTimes:
    """What is known of a target's device. Raises TilewrightError where nothing is."""
    return RowTimes(**{each.name: float(target.limit(f"rows.{each.name}")) for each in fields(RowTimes)})


@dataclass(frozen=True, slots=True)
class RowWork:
    """What is done with each of `rows` rows of `length` points. read_bytes, stored_bytes: of one point; walks: over a
    row; meetings: of the threads that share one; vectors: arrays that all rows share, which one walk reads."""

    rows: int
    length: int
    read_bytes: int
    stored_bytes: int
    walks: int
    meetings: int
    vectors: int = 0


@dataclass(frozen=True, slots=True)
class RowForm:
    """threads: of a CTA; units: rows that it takes at once; ctas: that share one; registers: of a thread; shared_bytes:
    of a CTA; readings: how often each element is read from memory; strips: by which each walk goes, 0 where the row is
    in registers; padded: points of whole runs that all threads of a unit go through, 0 for as many as a row has."""

    threads: int
    units: int
    ctas: int
    registers: int
    shared_bytes: int
    readings: int
    strips: int = 0
    padded: int = 0


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
    moved = points * (form.readings * work.read_bytes + work.stored_bytes)
    ctas = work.rows * form.ctas / form.units / multiprocessors
    gone_through = max(form.padded, work.length) * form.units / form.ctas
    slots = gone_through * work.walks * p.point_slots_permille / 1000
    rate = target.limit("device.dram_bytes_per_second") / target.limit("device.clock_hertz") / multiprocessors
    # What one CTA gets and computes where no other is in its way.
    alone = p.cta_bytes_per_kilocycle / 1000
    lanes = min(_LANES, form.threads)
    warps = form.ctas * form.threads / target.limit("warp.threads")
    meeting = p.meeting_cycles + p.cluster_cycles * math.log2(form.ctas) + p.warp_permille / 1000 * warps
    # In registers, what all rows share is there before the walk that needs it; in a strip it is waited for.
    strips = form.strips * work.vectors * p.vector_cycles
    each = work.meetings * meeting + moved / alone + slots / lanes + strips
    parts = (ctas * moved / rate, ctas * slots / _LANES, max(1.0, ctas / resident) * each)
    norm = p.norm_permille / 1000
    return sum(part**norm for part in parts) ** (1 / norm)
