"""Which copies need no tensor map, and what do they cost?

Bulk copies of runs of bytes (PTX ISA, cp.async.bulk: addresses and size multiples of 16), asynchronous copies of 4, 8
or 16 bytes by threads (cp.async, with zeros past the end), and plain loads, which take any tensor. Each is judged by
the widest access that every run of a box allows: its first address, the strides between runs, where boxes begin.

Not handled: wider accesses for those runs of a box that happen to be better aligned. Checked by
tests/legal/plan/test_fallbacks.py, run by run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd, prod

from tilewright.legal.plan.box_choice import conflict_ways
from tilewright.legal.plan.costs import Cost
from tilewright.legal.plan.moves import Fold
from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.repair_plan import Kind, Repair
from tilewright.legal.tensor_map.map_limits import MapLimits

_CP_ASYNC_BYTES = (16, 8, 4)
_LOAD_BYTES = (16, 8, 4, 2, 1)


def fallbacks(reading: Reading, base: Cost, limits: MapLimits, *, store: bool = False) -> Iterator[Repair]:
    """Copies of the reading's box without a tensor map, never none: plain loads take whatever has addresses.

    base: what every copy of this box costs (shared memory, boxes of the tensor). store: from shared to global memory.
    """
    runs = _joined(reading)
    run_bytes, count = _run(runs)
    row_bytes = runs.dims[0] * runs.element_bytes
    alignment = _alignment(runs)
    contiguous = runs.strides_bytes[0] == runs.element_bytes and runs.element_strides[0] == 1
    if contiguous and gcd(alignment, run_bytes, row_bytes) % limits.bulk_multiple_bytes == 0:
        title = f"bulk copies without a tensor map (cp.async.bulk), {count} of {run_bytes} bytes a box"
        cost = replace(_with(base, extra_copies=count - 1), bank_conflict_ways=conflict_ways(run_bytes, 0))
        yield _repair("bulk", title, reading, cost)
    # What a row lacks of a last copy is filled with zeros (PTX ISA, cp.async: src-size).
    width = 0 if store or not contiguous else next((each for each in _CP_ASYNC_BYTES if alignment % each == 0), 0)
    if width:
        pieces = -(-run_bytes // width) * count
        title = f"asynchronous copies by threads (cp.async), {pieces} of {width} bytes a box"
        yield _repair("cp.async", title, reading, _with(base, thread_copies=pieces))
    # A load reads nothing past a row's end.
    whole = gcd(alignment, run_bytes, row_bytes) if contiguous else gcd(alignment, reading.element_bytes)
    width = next(each for each in _LOAD_BYTES if whole % each == 0)
    pieces = run_bytes // width * count
    verb = "plain stores" if store else "plain loads"
    title = f"{verb} by threads, {pieces} of {width} byte{'s' if width > 1 else ''} a box"
    # A load passes through registers: a second instruction moves it on.
    yield _repair("loads", title, reading, _with(base, thread_copies=2 * pieces))


def _joined(reading: Reading) -> Reading:
    """The reading with rows that boxes take whole, and that follow one another, merged."""
    while reading.rank > 1 and reading.element_strides[0] == 1:
        after = Fold(0, 1, reading.dims[0], whole=True).apply(reading)
        if after is None or reading.box[0] != reading.dims[0] or not reading.stays_inside(1):
            return reading
        reading = after
    return reading


def _run(reading: Reading) -> tuple[int, int]:
    """Bytes of one contiguous run of a box, and how many runs the box has."""
    rest = (-(-extent // step) for extent, step in zip(reading.box[1:], reading.element_strides[1:], strict=True))
    if reading.strides_bytes[0] != reading.element_bytes or reading.element_strides[0] != 1:
        return reading.element_bytes, prod(rest) * -(-reading.box[0] // reading.element_strides[0])
    return reading.box[0] * reading.element_bytes, prod(rest)


def _alignment(reading: Reading) -> int:
    """The largest power of two, up to 16, that divides the address of every run's beginning."""
    whole = gcd(reading.address, 16)
    for at, (extent, stride) in enumerate(zip(reading.dims, reading.strides_bytes, strict=True)):
        if extent > 1:
            whole = gcd(whole, stride if at else stride * reading.starts[0])
    return whole


def _with(base: Cost, *, extra_copies: int = 0, thread_copies: int = 0) -> Cost:
    return Cost(
        extra_copies=extra_copies,
        bank_conflict_ways=base.bank_conflict_ways,
        smem_bytes=base.smem_bytes,
        thread_copies=thread_copies,
        boxes=base.boxes,
        box_bytes=base.box_bytes,
    )


def _repair(kind: Kind, title: str, reading: Reading, cost: Cost) -> Repair:
    return Repair(kind, title, (), cost, (), reading)
