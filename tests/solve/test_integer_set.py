"""Texts of sets of bytes by isl, against the bytes enumerated."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.layout.view.strided_view import StridedView
from tilewright.solve.bounded import Effort, Undetermined
from tilewright.solve.integer_set import byte_set_text

VIEWS = st.integers(1, 3).flatmap(
    lambda rank: st.builds(
        StridedView,
        st.tuples(*[st.integers(1, 4)] * rank),
        st.tuples(*[st.sampled_from((-8, -2, 0, 1, 2, 3, 4, 6, 8, 16, 24))] * rank),
        st.sampled_from((0, 0, 2, 16)),
        st.sampled_from((1, 2, 4)),
    )
)


def enumerated(view: StridedView) -> frozenset[int]:
    """Every byte of a view: plain Python."""
    return frozenset(
        view.offset_bytes + sum(i * stride for i, stride in zip(index, view.strides_bytes, strict=True)) + byte
        for index in product(*map(range, view.extents))
        for byte in range(view.element_bytes)
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(VIEWS, min_size=12, max_size=12))
def test_equal_texts_are_equal_sets(views):
    sets: dict[str | Undetermined, frozenset[int]] = {}
    for view in views:
        assert sets.setdefault(byte_set_text(view), enumerated(view)) == enumerated(view)


@settings(max_examples=60)
@given(VIEWS, st.randoms(use_true_random=False))
def test_texts_merge_permuted_and_split_views(view, random):
    order = list(range(view.rank))
    random.shuffle(order)
    other = view.permute(tuple(order))
    for factor in (2, 3):
        other = other.split(0, factor) or other
    assert enumerated(other) == enumerated(view)
    if other.canonical() == view.canonical():
        assert byte_set_text(other) == byte_set_text(view)


def test_texts_merge_what_the_cheap_form_keeps_apart():
    overlapping = StridedView((6, 3), (2, 8), 0, 2)
    plain = StridedView((14,), (2,), 0, 2)
    widened = StridedView((7,), (4,), 0, 4)
    assert len({overlapping.canonical(), plain.canonical(), widened.canonical()}) == 3
    assert len({byte_set_text(view) for view in (overlapping, plain, widened)}) == 1
    assert byte_set_text(StridedView((15,), (2,), 0, 2)) != byte_set_text(plain)


def test_a_limit_that_is_met_is_undetermined():
    answer = byte_set_text(StridedView((40, 50, 60), (3, 700, 11), 0, 2), Effort(set_operations=1000))
    assert isinstance(answer, Undetermined) and "limit of 1000 operations" in answer.reason
