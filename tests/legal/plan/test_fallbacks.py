"""Copies without a tensor map: every run of a box is aligned as the access needs, and no wider access would do."""

from __future__ import annotations

import re
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from tests.legal.reading_places import address_of, starts_of

from tilewright.legal.plan.costs import Cost
from tilewright.legal.plan.fallbacks import fallbacks
from tilewright.legal.plan.reading import Reading
from tilewright.legal.tensor_map.map_limits import map_limits
from tilewright.targets import target

LIMITS = map_limits(target("sm_90a"))


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    width = draw(st.sampled_from((1, 2, 4, 8)))
    dims = (draw(st.integers(1, 40)), draw(st.integers(1, 5)))
    stride = dims[0] * width + draw(st.sampled_from((0, 0, 2, 8, 16)))
    box = (draw(st.integers(1, 40)), draw(st.integers(1, 5)))
    starts = tuple(0 if size >= extent else size for size, extent in zip(box, dims, strict=True))
    return Reading(width, dims, (width, stride), box, (1, 1), starts, draw(st.sampled_from((0, 2, 4, 8, 16))))


def runs(reading: Reading) -> list[tuple[int, int]]:
    """Every contiguous run of every box, inside the tensor: where it begins and ends."""
    found: list[tuple[int, int]] = []
    for start in starts_of(reading):
        used: set[int] = set()
        for index in product(*(range(at, at + size) for at, size in zip(start, reading.box, strict=True))):
            if all(i < extent for i, extent in zip(index, reading.dims, strict=True)):
                at = address_of(index, reading)
                used.update(range(at, at + reading.element_bytes))
        ends = sorted(at + 1 for at in used if at + 1 not in used)
        found += zip(sorted(at for at in used if at - 1 not in used), ends, strict=True)
    return found


@given(readings(), st.booleans())
def test_every_run_is_aligned_to_the_access(reading: Reading, store: bool) -> None:
    found = list(fallbacks(reading, Cost(), LIMITS, store=store))
    assert found[-1].kind == "loads"
    assert not any(each.maps for each in found)
    for each in found:
        matched = re.search(r"of (\d+) byte", each.title)
        assert matched is not None
        width = 16 if each.kind == "bulk" else int(matched.group(1))
        for begin, end in runs(reading):
            assert begin % width == 0, (reading, each)
            assert each.kind == "cp.async" or end % width == 0, (reading, each)
    assert {"cp.async"}.isdisjoint(each.kind for each in found) or not store


def test_rows_taken_whole_are_one_bulk_copy() -> None:
    whole = Reading(2, (64, 32), (2, 128), (64, 8), (1, 1), (0, 8), 0)
    bulk = next(each for each in fallbacks(whole, Cost(), LIMITS) if each.kind == "bulk")
    assert bulk.cost.extra_copies == 0
    assert "1 of 1024 bytes" in bulk.title
    part = Reading(2, (64, 32), (2, 128), (32, 8), (1, 1), (32, 8), 0)
    bulk = next(each for each in fallbacks(part, Cost(), LIMITS) if each.kind == "bulk")
    assert bulk.cost.extra_copies == 7


def test_strided_elements_are_loaded_one_by_one() -> None:
    strided = Reading(2, (16, 4), (6, 96), (16, 4), (1, 1), (0, 0), 0)
    (only,) = fallbacks(strided, Cost(), LIMITS)
    assert only.cost.thread_copies == 2 * 64
    assert all(address_of((column, row), strided) % 2 == 0 for column, row in product(range(16), range(4)))
