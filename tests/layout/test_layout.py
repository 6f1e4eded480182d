"""The layout as a function: calls, enumeration and bounds agree; bad input has one clear error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.layout.layout_strategies import layouts, swizzled_layouts, swizzles

from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.layout import Layout, joined
from tilewright.layout.layout_text import parse_layout
from tilewright.layout.nested import Nested
from tilewright.layout.numbers.integer_expression import variable
from tilewright.layout.swizzle import Swizzle


def _coordinate(index: int, shape: Nested) -> Nested:
    if not isinstance(shape, tuple):
        return index
    result: list[Nested] = []
    for part in shape:
        size = nested.product(part)
        assert isinstance(size, int)
        result.append(_coordinate(index % size, part))
        index //= size
    return tuple(result)


def _by_definition(layout: Layout, coordinate: Nested) -> int:
    total = layout.offset
    assert isinstance(total, int)
    flat = zip(nested.flatten(coordinate), nested.flatten(layout.stride), strict=True)
    total += sum(int(str(place)) * int(str(stride)) for place, stride in flat)
    return total if layout.swizzle is None else layout.swizzle(total)


@given(swizzled_layouts())
def test_calls_agree(layout: Layout) -> None:
    values = layout.offsets().tolist()
    for index, value in enumerate(values):
        coordinate = _coordinate(index, layout.shape)
        assert layout(index) == layout.at(index) == value == layout(coordinate) == _by_definition(layout, coordinate)
    if layout.least >= 0:
        assert max(values) < layout.cosize
    plain = layout.plain.offsets()
    assert layout.plain.least == plain.min() and layout.plain.greatest == plain.max()


@given(swizzles(), st.integers(-500, 5000))
def test_swizzle(swizzle: Swizzle, value: int) -> None:
    assert swizzle(swizzle(value)) == value
    assert swizzle(value) >> swizzle.target + swizzle.bits == value >> swizzle.target + swizzle.bits
    bits = [(value >> place) & 1 for place in range(swizzle.top)]
    wanted = value
    for place in range(swizzle.bits):
        wanted ^= bits[swizzle.source + place] << swizzle.target + place
    assert swizzle(value) == wanted
    assert swizzle.scaled(2)(value << 2) == swizzle(value) << 2


@given(layouts(), layouts())
def test_joined_parts(left: Layout, right: Layout) -> None:
    whole = joined([left, right])
    assert whole.modes == (left, right)
    assert whole(1 if left.size != 1 else 0, 0) == left(1 if left.size != 1 else 0)


def test_symbolic_calls() -> None:
    layout = parse_layout("(M,N):(N,1)")
    row, column = variable("i"), variable("j")
    assert str(layout(row, column)) == "N*i + j"
    assert layout(2, 3) == variable("N") * 2 + 3
    assert layout.names == {"M", "N"}
    assert layout.is_symbolic and layout.modes[1].names == {"N"}


def test_swizzle_of_a_symbolic_value() -> None:
    with pytest.raises(TilewrightError, match="needs its value"):
        Layout(("M",) and variable("M"), 1, 0, Swizzle(1, 0, 1))(variable("i"))


def test_large() -> None:
    layout = Layout((1 << 20, 1 << 20), (1 << 20, 1))
    assert layout.size == 1 << 40
    assert layout((1 << 20) + 1) == (1 << 20) + 1
    assert layout((1 << 20) + 2) == 1 + (2 << 20)
    with pytest.raises(TilewrightError, match="too many to enumerate"):
        layout.offsets()
    with pytest.raises(TilewrightError, match="machine words"):
        Layout(2, 1 << 63).offsets()


def test_hashable_and_equal() -> None:
    assert {Layout(4), Layout(4, 1)} == {Layout(4)}
    assert Layout((2, 2)) != Layout(4)


DEEP: object = 1
for _ in range(5000):
    DEEP = (DEEP,)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0,), "not positive"),
        (((4, -2),), "not positive"),
        (((4, 4), 1), "nested differently"),
        (((4, (2, 2)), (1, 4)), "nested differently"),
        (((2, 2), (1, (2,))), "nested differently"),
        ((2.5,), "no integer"),
        (((2, "a"),), "no integer"),
        (([2, 3],), "no integer"),
        ((True,), "no integer"),
        ((None,), "no integer"),
        ((DEEP,), "nested deeper"),
        (((1,) * 2000,), "more than 1024"),
        ((1 << 300,), "256 bits"),
        (((1 << 200,) * 30,), "4096 bits"),
        ((4, 1, 0, "Sw"), "no swizzle"),
    ],
)
def test_bad_layouts(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(TilewrightError, match=words) as caught:
        Layout(*arguments)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_symbolic_blow_up_is_refused() -> None:
    extents = tuple(variable(f"x{place}") + 1 for place in range(40))
    with pytest.raises(TilewrightError, match="terms"):
        Layout(extents)


@pytest.mark.parametrize("coordinate", [-1, 8, (0, 4), (2, 0), ((0,), 0), (0, 0, 0), "x", 1.5])
def test_bad_coordinates(coordinate: object) -> None:
    with pytest.raises(TilewrightError):
        Layout((2, 4))(coordinate)


@pytest.mark.parametrize("fields", [(-1, 0, 1), (1, -1, 1), (3, 0, 2), (1, 60, 5), (1.0, 0, 1)])
def test_bad_swizzles(fields: tuple[int, int, int]) -> None:
    with pytest.raises(TilewrightError):
        Swizzle(*fields)
