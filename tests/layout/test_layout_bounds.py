"""Nothing within the bounds on input takes long: sizes beyond memory, a thousand leaves, symbols without structure."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.answer import NotDecided
from tilewright.layout.coalescing import canonical, equal
from tilewright.layout.composition import compose
from tilewright.layout.division import logical_divide, logical_product, zipped_divide
from tilewright.layout.inverses import complement, inverse, left_inverse, right_inverse
from tilewright.layout.layout import Layout
from tilewright.layout.layout_properties import is_bijective, is_injective, is_surjective
from tilewright.layout.layout_text import parse_layout
from tilewright.layout.numbers.integer_expression import variable
from tilewright.layout.swizzle import Swizzle

_SECONDS = 10.0
"""Generous: the machine that runs the tests is shared. Each case takes milliseconds on a free one."""

LONG = Layout((2,) * 1000, tuple(1 << (997 * place % 1000) % 250 for place in range(1000)))
ORDERED = Layout((2,) * 240, tuple(1 << (7 * place % 240) for place in range(240)))
PRIMES = Layout((999983, 1000003, 999979), (1, 999983, 999983 * 1000003))
TANGLED = Layout((1 << 20,) * 6, (1, 3, 7, 11, 1 << 19, (1 << 21) + 1))
NAMES = Layout(
    tuple(variable(f"n{place}") for place in range(200)), tuple(variable(f"d{place}") for place in range(200))
)
DENSE = Layout(tuple(variable(f"n{place}") for place in range(60)))
SWIZZLED = Layout((1 << 20, 3, 1 << 20), (3 << 21, 1, 3), 0, Swizzle(3, 4, 3))
POWERS = Layout((variable("N"),) * 300, tuple(stride for _, stride in reversed(Layout((variable("N"),) * 300).flat)))
LAYOUTS = [LONG, ORDERED, PRIMES, TANGLED, NAMES, DENSE, SWIZZLED, POWERS]
OPERATIONS: list[Callable[[Layout], object]] = [
    canonical,
    str,
    complement,
    inverse,
    left_inverse,
    right_inverse,
    is_injective,
    lambda layout: None if layout.is_symbolic else is_surjective(layout),
    is_bijective,
    lambda layout: equal(layout, layout.with_values(1, layout.swizzle)),
    lambda layout: equal(layout, canonical(layout)),
    lambda layout: compose(layout, layout),
    lambda layout: compose(layout, layout, extend=True),
    lambda layout: compose(layout, 6),
    lambda layout: compose(layout, layout.size if isinstance(layout.size, int) else Layout(layout.size)),
    lambda layout: logical_divide(layout, 4),
    lambda layout: zipped_divide(layout, (2,)),
    lambda layout: logical_product(layout, 3),
    lambda layout: parse_layout(str(layout)),
]


@pytest.mark.parametrize("place", range(len(OPERATIONS)))
@pytest.mark.parametrize("which", range(len(LAYOUTS)))
def test_bounded(place: int, which: int) -> None:
    start = time.process_time()
    try:
        OPERATIONS[place](LAYOUTS[which])
    except TilewrightError as error:
        assert "\n" not in str(error)
    assert time.process_time() - start < _SECONDS


def test_answers_beyond_memory() -> None:
    assert str(inverse(PRIMES)) == f"{999983 * 1000003 * 999979}:1"
    found = inverse(ORDERED)
    assert isinstance(found, Layout) and is_bijective(ORDERED) is True
    there = compose(ORDERED, found)
    assert isinstance(there, Layout) and equal(there, Layout(nested.product(ORDERED.shape))) is True
    assert isinstance(is_injective(TANGLED), bool | NotDecided)


def test_many_symbols_are_undecided() -> None:
    assert isinstance(inverse(NAMES), NotDecided)
    assert isinstance(equal(NAMES, NAMES.with_values(variable("k"), None)), bool | NotDecided)
