"""Closed forms of wavefronts against enumeration: linear, affine and swizzled layouts, over lanes and loops."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import Swizzle
from tilewright.legal.bank.access_kind import access_kind, lane_groups
from tilewright.legal.bank.bank_linear import (
    AffineAccess,
    affine_access,
    affine_wavefronts,
    lane_count,
    layout_wavefronts,
    residues,
    swizzled,
)
from tilewright.legal.bank.banks import wavefronts
from tilewright.targets import target

KINDS = [
    ("sm_90a", name)
    for name in ("ld.shared.b16", "ld.shared.b32", "ld.shared.b64", "ld.shared.b128", "st.shared.b64",
                 "st.shared.b128", "ldmatrix.x4", "ldmatrix.x1", "stmatrix.x2")
] + [
    ("gfx942", "ds_read_b128"),
    ("gfx942", "ds_write_b64"),
    ("gfx950", "ds_read_b128"),
    ("gfx950", "ds_read_b32"),
]  # fmt: skip


def enumerated(kind: str, name: str, values: list[int]) -> int:
    """Of all accesses at these addresses, lane by lane and then access by access."""
    facts = target(name)
    lanes = lane_count(kind, facts)
    table = np.zeros((len(values) // lanes, facts.limit("warp.threads")), np.int64)
    table[:, :lanes] = np.array(values).reshape(-1, lanes)
    return int(wavefronts(kind, table, facts).sum())


def addresses_of(access: AffineAccess) -> list[int]:
    sums = [access.start_bytes]
    for count, step in (*access.lanes, *access.loops):
        sums = [earlier + step * each for each in range(count) for earlier in sums]
    return [swizzled(each, access.swizzles) for each in sums]


@st.composite
def accesses(draw: st.DrawFn, swizzle: bool) -> tuple[str, AffineAccess]:
    name, kind = draw(st.sampled_from(KINDS))
    width = access_kind(kind).lane_bytes
    left = lane_count(kind, target(name))
    lanes: list[tuple[int, int]] = []
    steps = st.one_of(st.integers(-9, 40), st.sampled_from([0, 1, 2, 4, 8, 16, 32, 64, 128]))
    while left > 1:
        count = draw(st.sampled_from([each for each in (2, 4, 8, 16, 32, 64) if each <= left]))
        lanes.append((count, draw(steps) * width))
        left //= count
    loops = tuple((draw(st.integers(1, 7)), draw(steps) * width) for _ in range(draw(st.integers(0, 2))))
    below = -sum(min(0, (count - 1) * step) for count, step in (*lanes, *loops))
    start = below + draw(st.integers(0, 20)) * width
    swizzles: tuple[Swizzle, ...] = ()
    if swizzle:
        bits = draw(st.integers(1, 3))
        base = draw(st.integers(width.bit_length() - 1, 6))
        swizzles = (Swizzle(bits, base, draw(st.integers(bits, 5))),)
        if draw(st.booleans()):
            swizzles = (*swizzles, Swizzle(1, width.bit_length() - 1, 4))
    return name, AffineAccess(kind, tuple(lanes), loops, start, swizzles)


@given(accesses(swizzle=False))
def test_affine_accesses(drawn: tuple[str, AffineAccess]) -> None:
    name, access = drawn
    assert affine_wavefronts(access, name) == enumerated(access.kind, name, addresses_of(access))


@given(accesses(swizzle=True))
def test_swizzled_affine_accesses(drawn: tuple[str, AffineAccess]) -> None:
    name, access = drawn
    assert affine_wavefronts(access, name) == enumerated(access.kind, name, addresses_of(access))


@pytest.mark.parametrize(
    "layout",
    [
        Layout((32, 8), (1, 32)),
        Layout((8, 4, 16), (64, 8, 512), 0, Swizzle(3, 3, 3)),
        Layout((16, 12), (12, 1)),
        Layout((5, 7, 9), (63, 9, 1)),
        Layout((257, 3), (3, 1)),
        Layout((32, 100), (33, 1)),
    ],
)
def test_layouts_against_their_elements(layout: Layout) -> None:
    for kind, element_bytes in (("ld.shared.b32", 4), ("st.shared.b16", 2), ("ldmatrix.x4", 16)):
        lanes = lane_count(kind, target("sm_90a"))
        values = (layout.offsets() * element_bytes).tolist()
        whole = len(values) // lanes * lanes
        expected = enumerated(kind, "sm_90a", values[:whole]) if whole else 0
        if values[whole:]:
            rest = np.resize(np.array(values[whole:]), (1, 32))
            active = np.arange(32)[None, :] < len(values) - whole
            expected += int(wavefronts(kind, rest, "sm_90a", active).sum())
        assert layout_wavefronts(kind, layout, "sm_90a", element_bytes) == expected


def test_what_costs_nothing_by_size() -> None:
    """A loop of 2^40 iterations, with carries under a swizzle; each residue is met equally often."""
    access = AffineAccess("ldmatrix.x1", ((8, 144),), ((1 << 40, 144),), 0, (Swizzle(3, 4, 3),))
    short = AffineAccess("ldmatrix.x1", ((8, 144),), ((64, 144),), 0, (Swizzle(3, 4, 3),))
    assert affine_wavefronts(access, "sm_90a") == affine_wavefronts(short, "sm_90a") << 34
    assert prod(count for count, _ in access.loops) == 1 << 40


def test_layouts_that_do_not_part_into_lanes() -> None:
    assert affine_access("ld.shared.b32", Layout((24, 4), (1, 24)), target("sm_90a"), 4) is None
    with pytest.raises(TilewrightError, match="too many to enumerate"):
        layout_wavefronts("ld.shared.b32", Layout((3, 1 << 40), (1, 3)), "sm_90a", 4)


@pytest.mark.parametrize(
    ("layout", "complaint"),
    [
        (Layout((32, 4), (1, 30), 1), "from a multiple of 16"),
        (Layout(32, -8), "begins at address"),
        (Layout(32, 8, 0, Swizzle(1, 0, 3)), "from a multiple of 16"),
    ],
)
def test_addresses_that_no_access_takes(layout: Layout, complaint: str) -> None:
    with pytest.raises(TilewrightError, match=complaint):
        layout_wavefronts("ld.shared.b128", layout, "sm_90a", 2)


def test_groups_of_every_kind_are_linear() -> None:
    for name, kind in KINDS:
        groups = lane_groups(access_kind(kind), target(name))
        assert sorted(lane for group in groups for lane in group) == list(range(lane_count(kind, target(name))))


def test_numbers_beyond_64_bits() -> None:
    """Steps and counts of loops are exact; lanes so far apart are refused."""
    assert residues(0, [(3, 1 << 70)], 128, 4) == [(0, 3)]
    assert residues(1 << 80, [(1 << 66, 4)], 16, 4) == [(place, 1 << 64) for place in (0, 4, 8, 12)]
    near = AffineAccess("ld.shared.b32", ((32, 4),), ((1 << 70, 4),), 1 << 90)
    assert affine_wavefronts(near, "sm_90a") == 1 << 70
    with pytest.raises(TilewrightError, match="bytes apart"):
        affine_wavefronts(AffineAccess("ld.shared.b32", ((32, 1 << 70),)), "sm_90a")
