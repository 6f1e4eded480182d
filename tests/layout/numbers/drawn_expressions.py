"""Integer expressions drawn by Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from tilewright.layout.numbers.integer_expression import IntegerExpression, as_expression, variable

NAMES = ("K", "M", "N")


K, M, N = (variable(name) for name in NAMES)


leaves = st.sampled_from((K, M, N)) | st.integers(-20, 20).map(as_expression)


def _grown(inner: st.SearchStrategy[IntegerExpression]) -> st.SearchStrategy[IntegerExpression]:
    divisors = st.integers(-6, 16).filter(bool)
    return st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, b: a // b, inner, divisors),
        st.builds(lambda a, b: a % b, inner, divisors),
    )


expressions = st.recursive(leaves, _grown, max_leaves=6)
