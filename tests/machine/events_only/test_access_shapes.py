"""Where accesses lead that lie to one another as earlier ones did, against addresses that are looked up one by one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from tilewright.base.span import Span
from tilewright.machine.core.event import Places, Ranges
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import Lanes, indices, to_bits
from tilewright.machine.core.memory import RANK_SHIFT, GlobalMemory, Region, locate, region
from tilewright.machine.core.state import Cta
from tilewright.machine.events_only.access_shapes import AccessShapes, Forms

AT = Span("k.ptx", 1, 1)
RESERVED = 64
Bytes = dict[int, set[int]]
"""By lane."""


@dataclass(frozen=True)
class OneAccess:
    slot: int
    offset: int
    size_bytes: int


def a_cta(rank: int = 1) -> Cta:
    """One with 4 KiB of shared memory, of which some are reserved, and two arrays of global memory."""
    memory = GlobalMemory()
    for name in "ab":
        memory.place(name, np.zeros(4096, np.uint8))
    shared = region("shared", 0, np.zeros(4096, np.uint8), cta=0, reserved_bytes=RESERVED)
    cluster = SimpleNamespace(memory=memory, ctas=[])
    return cast("Cta", SimpleNamespace(cluster=cluster, shared=shared, rank=rank, local=None))


def one_by_one(
    cta: Cta, space: str, accesses: list[OneAccess], masks: list[int], vectors: tuple[Lanes, ...], *, apart: bool
) -> tuple[Region, Bytes] | None:
    where: Region | None = None
    found: Bytes = {}
    count = 0
    for access, mask, vector in zip(accesses, masks, vectors, strict=True):
        lanes = indices(mask)
        addresses = vector[lanes].astype(np.uint64) + np.uint64(access.offset % (1 << 64))
        try:
            parts = locate(cta, space, addresses, access.size_bytes, AT)
        except MachineFault:
            return None
        if len(parts) > 1 or where not in (None, parts[0].region):
            return None
        where = parts[0].region
        base = 0 if where.cta >= 0 else where.base
        for lane, offset in zip(lanes.tolist(), parts[0].offsets.tolist(), strict=True):
            found.setdefault(lane, set()).update(range(base + offset, base + offset + access.size_bytes))
            count += access.size_bytes
    if apart and count != len(set[int]().union(*found.values())):
        return None
    assert where is not None
    return where, found


def bytes_of(ranges: Ranges) -> set[int]:
    assert all(end < begin for (_, end), (begin, _) in pairwise(ranges))
    return {byte for begin, end in ranges for byte in range(begin, end)}


def by_lane(places: Places) -> Bytes:
    found: Bytes = {}
    for rows in places.rows:
        lanes = [lane for lane in range(32) if rows.lanes >> lane & 1]
        for begins in (rows.begins + places.at).reshape(-1, len(lanes)).tolist():
            for lane, begin in zip(lanes, begins, strict=True):
                found.setdefault(lane, set()).update(range(begin, begin + rows.size_bytes))
    return found


def a_mask(random: Random) -> int:
    lanes = random.choice([range(32), range(random.randrange(1, 32)), random.sample(range(32), 5)])
    return sum(1 << 8 * lane for lane in lanes)


@pytest.mark.parametrize("space", ["shared::cta", "global"])
def test_where_accesses_lead(space: str) -> None:
    forms: Forms = {}
    assert sum(compared(space, Random(seed), forms) for seed in range(12)) > 30


def compared(space: str, random: Random, forms: Forms) -> int:
    """How many accesses led somewhere, of some that were told by one object."""
    cta, dtype = a_cta(), np.dtype(np.uint32 if space == "shared::cta" else np.uint64)
    arrays: list[int] = [each.base for each in cta.cluster.memory.regions]
    width = 1 << 8 * dtype.itemsize
    offsets = random.choice([[0, 128, 256], [-128, 0, 64], [(1 << 64) - 8, 8]])
    sizes = random.choice([[4], [2, 4], [16]])
    count, apart = random.randrange(1, 6), random.random() < 0.5
    accesses = [
        OneAccess(random.randrange(2), random.choice(offsets) + 4 * at * random.randrange(2), random.choice(sizes))
        for at in range(count)
    ]
    mask = a_mask(random)
    masks = [mask if random.random() < 0.7 else a_mask(random) for _ in range(count)]
    shapes = AccessShapes(accesses, masks, space, forms, apart=apart)
    steps = [random.choice([0, 2, 4, 16, width - 4]) for _ in range(2)]
    told = 0
    for _ in range(40):
        begin = random.choice([0, 64, 512, 1024, 2050, 3968, 4096, width - 64, 1 << RANK_SHIFT, 2 << RANK_SHIFT])
        begin += random.choice([0, random.choice(arrays)] if space == "global" else [0])
        lanes = [[(begin + 128 * slot + lane * step) % width for lane in range(32)] for slot, step in enumerate(steps)]
        of_slots = [np.array(each, dtype) for each in lanes]
        vectors = tuple(of_slots[access.slot] for access in accesses)
        if random.random() < 0.3:  # a register that is written between two accesses
            vectors = tuple(each.copy() for each in vectors)
            vectors[-1][:] += dtype.type(random.choice([0, 4, 32]))
        found = shapes.find(cta, vectors)
        expected = one_by_one(cta, space, accesses, masks, vectors, apart=apart)
        assert (found is None) == (expected is None), (accesses, begin)
        if found is not None and expected is not None:
            told += 1
            where, ranges, places = found
            assert where is expected[0]
            assert bytes_of(ranges) == set[int]().union(*expected[1].values())
            assert by_lane(places) == expected[1]
            assert {each.lanes for each in places.rows} == {to_bits(each) for each in masks}
    return told


def test_a_shape_is_worked_out_once() -> None:
    both = [OneAccess(0, 0, 4), OneAccess(0, 128, 4)]
    shapes = AccessShapes(both, [a_mask(Random(0))] * 2, "shared::cta", {}, apart=True)
    vector = np.arange(256, 384, 4, dtype=np.uint32)
    first, again, moved = (
        shapes.find(a_cta(), (each, each)) for each in (vector, vector.copy(), vector + np.uint32(1024))
    )
    assert first is not None and again is not None and moved is not None
    assert first[1] is again[1] and first[2] is again[2]
    assert moved[1] == tuple((begin + 1024, end + 1024) for begin, end in first[1])
    assert moved[2].rows is first[2].rows
