"""Integer instructions against Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.numbers import integer

RAW = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
KINDS = ("u16", "u32", "u64", "s16", "s32", "s64")


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, int, int]:
    kind = draw(st.sampled_from(KINDS))
    width = int(kind[1:])
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if kind[0] == "s" else (0, 2**width - 1)
    one = st.one_of(st.integers(low, high), st.sampled_from([low, high, max(low, -1), 0, 1, high // 3]))
    return kind, draw(one), draw(one)


def image(number: int, width: int) -> np.ndarray:
    return np.array([number % 2**width], RAW[width])


@given(pair=pairs())
def test_products(pair: tuple[str, int, int]) -> None:
    kind, x, y = pair
    width = int(kind[1:])
    a, b = image(x, width), image(y, width)
    assert int(integer.multiply_high(kind, a, b)[0]) == (x * y >> width) % 2**width  # pyright: ignore
    if width < 64:
        wide = integer.multiply_wide(kind, a, b)  # pyright: ignore
        assert wide.dtype == RAW[2 * width]
        assert int(wide[0]) == x * y % 2 ** (2 * width)


@given(pair=pairs())
def test_division_truncates(pair: tuple[str, int, int]) -> None:
    kind, x, y = pair
    width = int(kind[1:])
    a, b = image(x, width), image(y, width)
    quotient = int(integer.divide_integer(kind, a, b)[0])  # pyright: ignore
    remainder = int(integer.remainder_integer(kind, a, b)[0])  # pyright: ignore
    if y == 0:
        assert quotient == remainder == 2**width - 1
        return
    exact = abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)
    assert quotient == exact % 2**width
    assert remainder == (x - exact * y) % 2**width


@given(pair=pairs(), amount=st.one_of(st.integers(0, 70), st.integers(0, 2**32 - 1)))
def test_shift_amounts_are_clamped(pair: tuple[str, int, int], amount: int) -> None:
    kind, x, _ = pair
    width = int(kind[1:])
    steps = np.array([amount], np.uint32)
    kept = min(amount, width)
    assert int(integer.shift_left(image(x, width), steps)[0]) == (x << kept) % 2**width
    assert int(integer.shift_right(kind, image(x, width), steps)[0]) == (x >> kept) % 2**width  # pyright: ignore


def clamped(number: int) -> int:
    return min(max(number, -(2**31)), 2**31 - 1) % 2**32


@given(x=st.integers(-(2**31), 2**31 - 1), y=st.integers(-(2**31), 2**31 - 1))
def test_saturating_sums(x: int, y: int) -> None:
    a, b = image(x, 32), image(y, 32)
    assert int(integer.add_saturating(a, b)[0]) == clamped(x + y)
    assert int(integer.add_saturating(a, b, subtract=True)[0]) == clamped(x - y)


def test_wide_products_of_64_bits_are_refused() -> None:
    with pytest.raises(EngineFault):
        integer.multiply_wide("u64", np.zeros(1, np.uint64), np.zeros(1, np.uint64))
