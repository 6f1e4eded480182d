"""Terms and what they mean: bytes padded and copied counted on the addresses, views and tiles as their parts say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.layout.view.rewrite import Step
from tilewright.layout.view.strided_view import StridedView
from tilewright.layout.view.term import (
    Buffer,
    Copied,
    Joined,
    PadExtent,
    PadPitch,
    Permuted,
    Retyped,
    Rewritten,
    Sliced,
    Split,
    Swizzled,
    Term,
    Tiled,
    denote,
    nesting,
)

ROWS = StridedView((100, 64), (2, 200), 0, 2)


@st.composite
def nested_views(draw: st.DrawFn) -> StridedView:
    """Views without overlap, dimensions in any order."""
    width = draw(st.sampled_from((1, 2, 4)))
    pairs: list[tuple[int, int]] = []
    stride = width
    for _ in range(draw(st.integers(1, 3))):
        extent = draw(st.integers(1, 5))
        pairs.append((extent, stride))
        stride = stride * extent + draw(st.sampled_from((0, 0, 1, 6)))
    pairs = draw(st.permutations(pairs))
    return StridedView(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs), 0, width)


@given(nested_views(), st.integers(0, 2), st.sampled_from((1, 4, 16)))
@settings(max_examples=300, deadline=None)
def test_a_padded_pitch_is_a_multiple_and_nothing_overlaps(view: StridedView, axis: int, multiple: int) -> None:
    if axis >= view.rank:
        return
    meaning = denote(PadPitch(Buffer(view), axis, multiple))
    assert (meaning is None) == (view.extents[axis] == 1)
    if meaning is None:
        return
    assert meaning.view.strides_bytes[axis] % multiple == 0
    before, after = view.byte_addresses(), meaning.view.byte_addresses()
    assert len(np.unique(after)) == len(after)
    assert meaning.padded_bytes == (after.max() - after.min()) - (before.max() - before.min())
    assert meaning.padded_bytes >= 0
    smaller = [d for d in range(view.rank) if view.strides_bytes[d] < view.strides_bytes[axis]]
    assert all(meaning.view.strides_bytes[d] == view.strides_bytes[d] for d in smaller)


@given(nested_views(), st.sampled_from((1, 4, 16)))
@settings(max_examples=200, deadline=None)
def test_a_copy_counts_what_it_moves_and_what_it_leaves_between(view: StridedView, multiple: int) -> None:
    meaning = denote(Copied(Buffer(view), multiple))
    assert meaning is not None
    named = meaning.view.byte_addresses()
    assert len(np.unique(named)) == len(named) == meaning.copied_bytes
    assert meaning.padded_bytes == named.max() + 1 - len(named)
    assert all(stride % multiple == 0 for stride in meaning.view.strides_bytes[1:])


def test_rows_of_200_bytes_padded() -> None:
    meaning = denote(PadPitch(Buffer(ROWS), 1, 16))
    assert meaning is not None
    assert meaning.view.strides_bytes == (2, 208)
    assert meaning.padded_bytes == 63 * 8
    longer = denote(PadExtent(Buffer(ROWS), 1, 65))
    assert longer is not None
    assert longer.padded_bytes == 200


def test_views_of_views() -> None:
    term = Permuted(Sliced(Joined(Split(Buffer(ROWS), 0, 4), 0), 1, 10, 5, 2), (1, 0))
    meaning = denote(term)
    assert meaning is not None
    assert meaning.view == StridedView((5, 100), (400, 2), 2000, 2)
    retyped = denote(Retyped(Buffer(ROWS), 4))
    assert retyped is not None
    assert retyped.view.extents == (50, 64)


def test_a_tiled_term_is_rewritten_and_swizzled() -> None:
    tiles = Tiled(Buffer(ROWS), (100, 8))
    joined = Rewritten(tiles, Step("join", 0))
    split = Rewritten(joined, Step("split", 0, 32))
    meaning = denote(Swizzled(split, 3, 4, 3))
    assert meaning is not None
    assert meaning.tiles is not None
    assert [tuple(d) for d in meaning.tiles.dimensions] == [(32, 2, 32, 1, 32), (200, 64, 25, 1, 25)]
    assert meaning.swizzle == (3, 4, 3)
    # Two rows of 200 bytes are not a whole number of runs of 32 elements.
    assert denote(Rewritten(Rewritten(Tiled(Buffer(ROWS), (100, 2)), Step("join", 0)), Step("split", 0, 32))) is None


@pytest.mark.parametrize(
    "term",
    [
        Swizzled(Buffer(ROWS), 3, 4, 3),
        Swizzled(Swizzled(Tiled(Buffer(ROWS), (4, 4)), 3, 4, 3), 3, 4, 3),
        Rewritten(Buffer(ROWS), Step("join", 0)),
        Permuted(Tiled(Buffer(ROWS), (4, 4)), (1, 0)),
        Split(Buffer(ROWS), 0, 7),
        Joined(Buffer(ROWS), 1),
        PadExtent(Buffer(ROWS), 0, 128),
        PadExtent(Buffer(ROWS), 1, 3),
        PadPitch(Buffer(StridedView((4, 4), (2, 2), 0, 2)), 1, 16),
        PadPitch(Sliced(Buffer(ROWS), 1, 3, 4), 1, 16),
        Sliced(Buffer(ROWS), 0, 99, 2),
        Retyped(Buffer(ROWS), 3),
        Copied(Split(Buffer(ROWS), 0, 7), 16),
    ],
    ids=lambda term: type(term).__name__,
)
def test_terms_without_a_meaning(term: Term) -> None:
    assert denote(term) is None


def test_nesting_names_dimensions_inside_out() -> None:
    assert nesting(StridedView((3, 1, 4), (8, 999, 2), 0, 2)) == (2, 0)
    assert nesting(StridedView((3, 4), (7, 2), 0, 2)) is None
    assert nesting(StridedView((3, 4), (-8, 2), 0, 2)) is None
