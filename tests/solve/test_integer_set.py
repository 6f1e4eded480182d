"""Sets of bytes by isl against the bytes enumerated; symbolic sizes against every small size."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.integer_expression import variable
from tilewright.layout.numbers.integer_fact import IntegerFact
from tilewright.layout.view.strided_view import StridedView
from tilewright.solve.bounded import Effort, Undetermined
from tilewright.solve.integer_set import (
    ExclusiveOr,
    Layout,
    byte_count,
    byte_range,
    byte_set_text,
    covers,
    disjoint,
    is_injective,
    layout_of,
    order_text,
    same_bytes,
    same_order,
)

_ENOUGH = Effort(set_operations=20_000_000)
VIEWS = st.integers(1, 3).flatmap(
    lambda rank: st.builds(
        StridedView,
        st.tuples(*[st.integers(1, 4)] * rank),
        st.tuples(*[st.sampled_from((-8, -2, 0, 1, 2, 3, 4, 6, 8, 16, 24))] * rank),
        st.sampled_from((0, 0, 2, 16)),
        st.sampled_from((1, 2, 4)),
    )
)
SWIZZLES = st.one_of(st.none(), st.builds(ExclusiveOr, st.integers(1, 2), st.integers(0, 2), st.integers(3, 4)))


def sequence(layout):
    """Every byte in order, dimension 0 fastest: plain Python, bit by bit."""
    found = []
    for reversed_index in product(*(range(extent) for extent in reversed(layout.extents))):
        index = reversed_index[::-1]
        first = layout.offset_bytes + sum(i * stride for i, stride in zip(index, layout.strides_bytes, strict=True))
        for address in range(first, first + layout.element_bytes):
            moved = address
            if layout.swizzle is not None:
                for bit in range(layout.swizzle.count):
                    moved ^= (address >> layout.swizzle.from_bit + bit & 1) << layout.swizzle.to_bit + bit
            found.append(moved)
    return found


@settings(max_examples=60)
@given(VIEWS, SWIZZLES)
def test_one_layout_against_enumeration(view, swizzle):
    layout = layout_of(view, swizzle)
    found = sequence(layout)
    assert byte_count(layout) == len(set(found))
    assert byte_range(layout) == (min(found), max(found) + 1)
    assert is_injective(layout) is (len(set(found)) == len(found))


@settings(max_examples=60, deadline=None)
@given(VIEWS, VIEWS, SWIZZLES)
@example(StridedView((3, 4, 4), (0, 0, 1), 0, 2), StridedView((3, 4, 4), (0, 0, 1), 0, 2), ExclusiveOr(1, 0, 3))
def test_two_layouts_against_enumeration(left, right, swizzle):
    one, other = layout_of(left, swizzle), layout_of(right)
    a, b = sequence(one), sequence(other)
    assert same_bytes(one, other, effort=_ENOUGH) is (set(a) == set(b))
    assert covers(one, other, effort=_ENOUGH) is (set(b) <= set(a))
    assert disjoint(one, other, effort=_ENOUGH) is (not set(a) & set(b))
    # A place has one byte: the sequences are functions of it.
    assert same_order(one, other, effort=_ENOUGH) is (a == b)
    if byte_set_text(one) == byte_set_text(other):
        assert set(a) == set(b)
    if order_text(one) == order_text(other):
        assert a == b


@settings(max_examples=60)
@given(VIEWS, st.randoms(use_true_random=False))
def test_texts_merge_permuted_and_split_views(view, random):
    """Where the cheap normal form already agrees, so does the text."""
    order = list(range(view.rank))
    random.shuffle(order)
    other = view.permute(tuple(order))
    for factor in (2, 3):
        other = other.split(0, factor) or other
    assert same_bytes(layout_of(view), layout_of(other)) is True
    if other.canonical() == view.canonical():
        assert byte_set_text(layout_of(other)) == byte_set_text(layout_of(view))


def test_texts_merge_what_the_cheap_form_keeps_apart():
    overlapping = StridedView((6, 3), (2, 8), 0, 2)
    plain = StridedView((14,), (2,), 0, 2)
    widened = StridedView((7,), (4,), 0, 4)
    assert len({overlapping.canonical(), plain.canonical(), widened.canonical()}) == 3
    texts = {byte_set_text(layout_of(view)) for view in (overlapping, plain, widened)}
    assert len(texts) == 1


N, M = variable("N"), variable("M")
POSITIVE = {"N": IntegerFact(1, None), "M": IntegerFact(1, None)}


def test_symbolic_sizes():
    rows = Layout((64, M), (2, 128), 0, 2)
    flat = Layout((M * 64,), (2,), 0, 2)
    padded = Layout((64, M), (2, 144), 0, 2)
    assert same_bytes(rows, flat, POSITIVE) is True
    assert same_order(rows, flat, POSITIVE) is True
    assert same_bytes(rows, padded, POSITIVE) is False
    assert same_bytes(rows, padded, {"M": IntegerFact(1, 1)}) is True
    assert is_injective(Layout((N, M), (2, 128), 0, 2), POSITIVE) is False
    assert is_injective(Layout((N, M), (2, 128), 0, 2), POSITIVE | {"N": IntegerFact(1, 64)}) is True
    assert disjoint(rows, Layout((64, M), (2, 128), M * 128, 2), POSITIVE) is True
    assert covers(Layout((M,), (16,), 0, 16), Layout(((M + 7) // 8,), (128,), 0, 16), POSITIVE) is True
    named = byte_set_text(rows, POSITIVE)
    assert isinstance(named, str) and named == byte_set_text(flat, POSITIVE)
    assert named != byte_set_text(Layout((64, N), (2, 128), 0, 2), POSITIVE)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from((0, 1, 2, 3)), st.sampled_from((2, 4, 6, 8))), min_size=4, max_size=4),
    st.integers(1, 3),
)
def test_symbolic_answers_hold_for_every_small_size(shapes, remainder):
    def extent(choice, value):
        return [value, value * 2, (value + 3) // 4, value % 4 + 1][choice]

    def at(value):
        layouts = []
        for (first, stride), (second, outer) in (shapes[:2], shapes[2:]):
            layouts.append(Layout((extent(first, value), extent(second, 4)), (stride, outer * 4), 0, 2))
        return layouts

    facts = {"N": IntegerFact(remainder, 24, 3, remainder)}
    one, other = at(N)
    small = [
        tuple(set(sequence(layout)) for layout in at(value))
        for value in range(remainder, 25)
        if (value - remainder) % 3 == 0
    ]
    assert same_bytes(one, other, facts) is all(a == b for a, b in small)
    assert disjoint(one, other, facts) is all(not a & b for a, b in small)
    assert covers(one, other, facts) is all(b <= a for a, b in small)


def test_the_128_byte_swizzle_permutes_its_atom():
    atom = Layout((1024,), (1,), swizzle=ExclusiveOr(3, 4, 7))
    assert is_injective(atom) is True
    assert same_bytes(atom, Layout((1024,), (1,))) is True
    assert same_order(atom, Layout((1024,), (1,))) is False


def test_limits_and_products_are_undetermined():
    atom = Layout((1024,), (1,), swizzle=ExclusiveOr(3, 4, 7))
    few = Effort(set_operations=1000)
    first = is_injective(atom, effort=few)
    assert isinstance(first, Undetermined) and first == is_injective(atom, effort=few)
    assert isinstance(same_order(Layout((N, M), (2, 128)), Layout((N, M), (2, 128)), POSITIVE), Undetermined)
    assert isinstance(byte_set_text(Layout((N * M,), (2,)), POSITIVE), Undetermined)
    # The number of bytes of a symbolic size is no number.
    assert isinstance(byte_count(Layout((N,), (2,))), Undetermined)
    assert isinstance(byte_range(Layout((N,), (2,))), Undetermined)


def test_symbols_may_be_called_anything():
    for name in ("mod", "exists", "b", "i0", "n1", "floor"):
        size = variable(name)
        facts = {name: IntegerFact(1, 9)}
        assert same_bytes(Layout((size,), (2,), 0, 2), Layout((size * 2,), (1,)), facts) is True


def test_empty_and_wrong_layouts():
    assert byte_range(Layout((0,), (2,))) is None and byte_count(Layout((0,), (2,))) == 0
    with pytest.raises(TilewrightError):
        Layout((1, 2), (2,))
    with pytest.raises(TilewrightError):
        Layout((1,), (2,), element_bytes=0)
