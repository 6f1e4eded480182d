"""Each rewrite rule, proved on every small case and tried on random larger ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.layout.view.landing import FILL, landing, tile_starts

from tilewright.layout.numbers.symbol import Symbol, text_of
from tilewright.layout.view.rewrite import (
    RULES,
    Choices,
    Rewrite,
    Step,
    apply,
    moved_start,
    replay,
    rule_named,
    successors,
)
from tilewright.layout.view.strided_view import StridedView
from tilewright.layout.view.tiled_view import Dimension, TiledView, tiled

NUMBERS = tuple(range(1, 9))
SURROUNDINGS = (
    ((), ()),
    ((Dimension(3, 40, 2, 1, 2),), (Dimension(3, 1000, 2, 1, 1),)),
    ((), (Dimension(4, 1000, 1, 2, 2),)),
)


def same_meaning(before: TiledView, after: TiledView, step: Step, order: str) -> bool:
    """Whether `step` took `before` to `after` keeping what `order` says, tile by tile."""
    starts = list(tile_starts(before))
    moved = [moved_start(before, step, start) for start in starts]
    if sorted(moved) != sorted(tile_starts(after)):
        return False
    for start, there in zip(starts, moved, strict=True):
        expected, found = landing(before, start), landing(after, there)
        if order == "permuted":
            expected, found = np.sort(expected), np.sort(found)
        if not np.array_equal(expected, found):
            return False
    return True


def small_dimensions(rule: Rewrite) -> list[tuple[Dimension, ...]]:
    """Every tuple of dimensions that a rule may take, with extents up to 6 (4 where it takes two)."""
    largest = 6 if rule.left < 2 else 4
    ones = [
        Dimension(n, s, b, p, g)
        for n, s, b, p in product(range(1, largest + 1), (0, 2, 6), range(1, largest + 2), (1, 2))
        if b * p <= 8
        for g in range(1, n + 1)
    ]
    if rule.left == 0:
        return [()]
    if rule.left == 1:
        return [(one,) for one in ones]
    return [
        (inner, Dimension(n, s, b, p, g))
        for inner in ones
        for n, (b, p) in product(range(1, largest + 1), ((1, 1), (2, 1), (3, 1), (1, 2)))
        for s in sorted({inner.extent * inner.stride_bytes, 20})
        for g in range(1, n + 1)
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_keeps_the_meaning_of_every_small_view(rule: Rewrite) -> None:
    applied = 0
    choices = NUMBERS if rule.choice != "none" else (0,)
    for taken in small_dimensions(rule):
        if rule.name == "swap" and max(taken[0].extent, taken[1].extent) > 2:
            continue
        for width, choice in product((1, 2, 4, 6), choices):
            if width != 2 and rule.element is None:
                continue
            for before, after in SURROUNDINGS:
                if rule.innermost and before:
                    continue
                view = TiledView(before + taken + after, 16, width)
                step = Step(rule.name, len(before), choice)
                found = apply(view, step)
                if found is None:
                    break
                applied += 1
                assert same_meaning(view, found, step, rule.order), (view, step, found)
    assert applied >= 3


@st.composite
def tiled_views(draw: st.DrawFn) -> TiledView:
    rank = draw(st.integers(0, 3))
    width = draw(st.sampled_from((1, 2, 4, 8)))
    dimensions: list[Dimension] = []
    stride = width
    for _ in range(rank):
        extent = draw(st.integers(1, 12))
        stride = draw(st.sampled_from((stride, stride, 0, draw(st.integers(1, 200)))))
        box = draw(st.sampled_from((1, extent, draw(st.integers(1, 12)))))
        pieces = draw(st.sampled_from((1, 1, 2, 3)))
        step = min(extent, draw(st.sampled_from((box * pieces, extent, draw(st.integers(1, 12))))))
        dimensions.append(Dimension(extent, stride, box, pieces, step))
        stride *= extent
    return TiledView(tuple(dimensions), draw(st.integers(0, 64)), width)


@given(tiled_views(), st.data())
def test_random_steps_keep_the_meaning(view: TiledView, data: st.DataObject) -> None:
    choices = Choices(factor=(2, 3, 4, 6, 8, 12), pieces=(2, 3, 4), element=(1, 2, 4, 8, 16))
    found = list(successors(view, choices))
    assume(found)
    step, after = data.draw(st.sampled_from(found))
    assert same_meaning(view, after, step, rule_named(step.rule).order)
    assert replay(view, (step,)) == after


def test_join_that_would_read_the_next_row_does_not_apply() -> None:
    # A tile of 8 in rows of 12 clips at the row's end; in the joined dimension it would read on.
    view = tiled(StridedView((12, 5), (2, 24), 0, 2), (8, 1))
    assert apply(view, Step("join-inside", 0)) is None
    assert FILL in landing(view, (8, 0))
    joined = TiledView((Dimension(60, 2, 8, 1, 4),), 0, 2)
    assert FILL not in landing(joined, (8,))


def test_split_that_does_not_divide_does_not_apply() -> None:
    view = tiled(StridedView((100,), (2,), 0, 2), (64,))
    assert all(apply(view, Step("split", 0, factor)) is None for factor in (64, 32, 8))
    assert apply(view, Step("split", 0, 4)) is not None


def test_a_rule_called_with_symbols_is_the_rule_called_with_integers() -> None:
    rule = rule_named("split")
    names = tuple(Symbol(name) for name in ("n", "s", "b", "p", "g"))
    where = [text_of(condition) for condition in rule.where(Symbol("e"), Symbol("f"), (names,))]
    assert where == ["(> f 1)", "(> n f)", "(= (% n f) 0)", "(= (% b f) 0)", "(= (% g f) 0)"]
    becomes = rule.becomes(Symbol("e"), Symbol("f"), (names,))
    assert [[text_of(field) for field in dimension] for dimension in becomes] == [
        ["f", "s", "f", "1", "f"],
        ["(/ n f)", "(* s f)", "(/ b f)", "p", "(/ g f)"],
    ]
    with pytest.raises(TypeError, match="truth value"):
        bool(Symbol("n") == 0)
