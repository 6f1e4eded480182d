"""Conditions drawn by Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st
from tests.layout.numbers.drawn_expressions import expressions

from tilewright.layout.numbers.condition import (
    at_least_zero,
    either,
    every,
    is_zero,
    negation,
)

atoms = st.one_of(
    expressions.map(is_zero),
    expressions.map(at_least_zero),
    st.builds(lambda e, by, r: is_zero(e % by - r), expressions, st.sampled_from((2, 4, 6, 8, 16)), st.integers(0, 3)),
)


conditions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(every),
        st.lists(inner, min_size=1, max_size=3).map(either),
        inner.map(negation),
    ),
    max_leaves=4,
)
