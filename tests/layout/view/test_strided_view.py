"""Operations on strided views against the addresses they enumerate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.layout.view.strided_view import StridedView


@st.composite
def views(draw: st.DrawFn) -> StridedView:
    rank = draw(st.integers(0, 4))
    width = draw(st.sampled_from((1, 2, 4, 8)))
    extents: list[int] = []
    strides: list[int] = []
    stride = width
    for _ in range(rank):
        extents.append(draw(st.integers(1, 6)))
        stride = draw(st.sampled_from((stride, stride, -stride, 0, draw(st.integers(-50, 50)))))
        strides.append(stride)
        stride = abs(stride) * extents[-1]
    return StridedView(tuple(extents), tuple(strides), draw(st.integers(0, 100)), width)


@given(views(), st.integers(0, 3), st.integers(1, 4))
def test_split_and_join_keep_the_order(view: StridedView, axis: int, factor: int) -> None:
    if axis >= view.rank:
        return
    parts = view.split(axis, factor)
    assert (parts is None) == (view.extents[axis] % factor != 0)
    if parts is not None:
        assert np.array_equal(parts.addresses(), view.addresses())
        back = parts.join(axis)
        assert back is not None
        assert np.array_equal(back.addresses(), view.addresses())
    joined = view.join(axis)
    if joined is not None:
        assert np.array_equal(joined.addresses(), view.addresses())


@given(views())
def test_join_applies_exactly_where_one_stride_serves(view: StridedView) -> None:
    if view.rank < 2:
        assert view.join(0) is None
        return
    pair = StridedView(view.extents[:2], view.strides_bytes[:2])
    addresses = pair.addresses()
    steps = np.unique(np.diff(addresses))
    assert (view.join(0) is not None) == (len(steps) <= 1)


@given(views())
def test_canonical_form_names_the_same_elements_and_is_fixed(view: StridedView) -> None:
    canonical = view.canonical()
    assert np.array_equal(np.sort(canonical.addresses()), np.sort(view.addresses()))
    assert canonical.canonical() == canonical
    assert view.permute(tuple(reversed(range(view.rank)))).canonical() == canonical
    unit = StridedView((1, *view.extents), (12345, *view.strides_bytes), view.offset_bytes, view.element_bytes)
    assert unit.canonical() == canonical


@given(views(), st.integers(0, 5), st.integers(1, 4), st.integers(-3, 3))
def test_slice_takes_the_elements_asked_for(view: StridedView, start: int, size: int, step: int) -> None:
    if not view.rank:
        return
    found = view.slice(0, start, size, step)
    wanted = [start + index * step for index in range(size)]
    inside = step != 0 and all(0 <= index < view.extents[0] for index in wanted)
    assert (found is not None) == inside
    if found is not None:
        rows = view.addresses().reshape(-1, view.extents[0])[:, wanted]
        assert np.array_equal(found.addresses(), rows.reshape(-1))


def test_transposed_and_broadcast_views() -> None:
    matrix = StridedView((4, 3), (2, 8), 0, 2)
    assert matrix.permute((1, 0)).addresses().tolist() == [0, 8, 16, 2, 10, 18, 4, 12, 20, 6, 14, 22]
    assert matrix.broadcast(2, 5).addresses().tolist() == matrix.addresses().tolist() * 5
    assert matrix.canonical() == StridedView((12,), (2,), 0, 2)


@pytest.mark.parametrize(
    "arguments",
    [((2, 3), (1,)), ((0,), (1,)), ((2,), (1,), 0, 0), ((-1,), (1,))],
)
def test_views_that_cannot_be(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TilewrightError, match="strided view"):
        StridedView(*arguments)  # pyright: ignore[reportArgumentType]


def test_a_repeated_dimension_is_no_permutation() -> None:
    with pytest.raises(TilewrightError, match="no permutation"):
        StridedView((2, 2), (1, 2)).permute((0, 0))
