"""Linear layouts against enumeration of their places."""

from __future__ import annotations

import time
from itertools import product as pairs

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear import inverse as linear_inverse
from tilewright.layout.linear import parts as linear_parts
from tilewright.layout.linear.maps import (
    LinearLayout,
    apply,
    compose,
    coordinates,
    equal,
    identity,
    images,
    is_bijective,
    is_injective,
    is_surjective,
    linear_layout,
    strided,
    zeros,
)


@st.composite
def layouts(draw: st.DrawFn, inputs: tuple[str, ...] = ("lane", "register"), outputs: tuple[str, ...] = ("x", "y")):
    in_bits = tuple((name, draw(st.integers(0, 2))) for name in inputs)
    out_bits = tuple((name, draw(st.integers(0, 2))) for name in outputs)
    limit = (1 << sum(bits for _, bits in out_bits)) - 1
    count = sum(bits for _, bits in in_bits)
    columns = draw(st.lists(st.integers(0, limit), min_size=count, max_size=count))
    return LinearLayout(in_bits, out_bits, tuple(columns))


def _places(layout: LinearLayout) -> list[dict[str, int]]:
    sizes = layout.input_sizes
    return [dict(zip(sizes, each, strict=True)) for each in pairs(*(range(size) for size in sizes.values()))]


def _graph(layout: LinearLayout) -> list[tuple[dict[str, int], dict[str, int]]]:
    return [(place, apply(layout, place)) for place in _places(layout)]


def test_bases_say_the_layout() -> None:
    layout = linear_layout({"lane": [(0, 1), (0, 2)], "register": [(1, 0), (3, 1)]}, {"row": 4, "column": 4})
    assert layout(lane=3, register=0) == {"row": 0, "column": 3}
    assert layout(lane=1, register=3) == {"row": 2, "column": 0}
    assert layout.bases == {"lane": ((0, 1), (0, 2)), "register": ((1, 0), (3, 1))}
    assert linear_layout(layout.bases, ["row", "column"]) == layout
    assert "row (4)" in str(layout)


@given(layouts())
def test_evaluations_agree(layout: LinearLayout) -> None:
    packed = images(layout, np.arange(layout.size))
    tables = coordinates(layout)
    for place, image in _graph(layout):
        at = tuple(place.values())
        assert {name: int(table[at]) for name, table in tables.items()} == image
    assert len(set(packed.tolist())) == layout.size or not is_injective(layout)
    assert (len(set(packed.tolist())) == layout.size) == is_injective(layout)
    assert (len(set(packed.tolist())) == layout.cosize) == is_surjective(layout)
    assert is_bijective(layout) == (is_injective(layout) and is_surjective(layout))


@given(layouts(), st.data())
def test_composition_is_one_after_the_other(inner: LinearLayout, data: st.DataObject) -> None:
    outer = data.draw(layouts(("y", "x"), ("u", "v")))
    room = all(outer.input_sizes[name] >= size for name, size in inner.output_sizes.items())
    if not room:
        with pytest.raises(TilewrightError, match="places"):
            compose(outer, inner)
        return
    both = compose(outer, inner)
    for place, image in _graph(inner):
        assert apply(both, place) == apply(outer, image)


@given(layouts())
def test_inverses_undo(layout: LinearLayout) -> None:
    inverse = linear_inverse.invert(layout)
    right = linear_inverse.right_inverse(layout)
    left = linear_inverse.left_inverse(layout)
    assert isinstance(inverse, LinearLayout) == is_bijective(layout)
    assert isinstance(right, LinearLayout) == is_surjective(layout)
    assert isinstance(left, LinearLayout) == is_injective(layout)
    pseudo = linear_inverse.pseudo_inverse(layout)
    for place, found in _graph(layout):
        assert apply(layout, apply(pseudo, found)) == found
        if isinstance(left, LinearLayout):
            assert apply(left, found) == place
        if isinstance(inverse, LinearLayout):
            assert apply(inverse, found) == place
    if isinstance(right, LinearLayout):
        for place, found in _graph(right):
            assert apply(layout, found) == place


@given(layouts(), layouts(("lane", "slot"), ("y", "x")))
def test_from_one_layout_to_another(source: LinearLayout, target: LinearLayout) -> None:
    held = {tuple(sorted(image.items())) for _, image in _graph(target)}
    wanted = {tuple(sorted(image.items())) for _, image in _graph(source)}
    between = linear_inverse.invert_and_compose(source, target)
    assert isinstance(between, LinearLayout) == (wanted <= held)
    if isinstance(between, LinearLayout):
        for place, image in _graph(source):
            assert apply(target, apply(between, place)) == image


def test_lanes_that_repeat_elements_stay() -> None:
    layout = linear_layout({"lane": [1, 2, 0], "warp": [0]}, {"x": 4})
    assert linear_inverse.invert_and_compose(layout, layout) == linear_layout(
        {"lane": [(1, 0), (2, 0), (4, 0)], "warp": [(0, 1)]}, {"lane": 8, "warp": 2}
    )


@given(layouts(), layouts(("register", "warp"), ("x", "z")))
def test_product_is_a_direct_sum_and_division_undoes_it(first: LinearLayout, second: LinearLayout) -> None:
    both = linear_parts.product(first, second)
    for place, image in _graph(both):
        low = {name: place[name] % size for name, size in first.input_sizes.items()}
        high = {name: place[name] // first.input_sizes.get(name, 1) for name in second.input_sizes}
        expected = dict.fromkeys(image, 0) | apply(first, low)
        for name, value in apply(second, high).items():
            expected[name] += value * first.output_sizes.get(name, 1)
        assert image == expected
    quotient = linear_parts.divide_left(both, first)
    assert isinstance(quotient, LinearLayout)
    assert equal(quotient, second) and equal(linear_parts.product(first, quotient), both)
    quotient = linear_parts.divide_right(both, second)
    assert isinstance(quotient, LinearLayout)
    assert equal(quotient, first) and equal(linear_parts.product(quotient, second), both)


@given(layouts(), layouts())
def test_division_says_no_only_where_no_quotient_is(layout: LinearLayout, divisor: LinearLayout) -> None:
    from_right = linear_parts.divide_right(layout, divisor)
    if isinstance(from_right, LinearLayout):
        assert equal(linear_parts.product(from_right, divisor), layout)
    quotient = linear_parts.divide_left(layout, divisor)
    if isinstance(quotient, LinearLayout):
        assert equal(linear_parts.product(divisor, quotient), layout)
        return
    in_sizes, out_sizes = layout.input_sizes, layout.output_sizes
    fits = all(size <= in_sizes[name] for name, size in divisor.input_sizes.items()) and all(
        size <= out_sizes[name] for name, size in divisor.output_sizes.items()
    )
    if not fits:
        return
    inner = dict(_frozen(divisor))
    own = divisor.output_sizes

    def splits(place: dict[str, int], image: dict[str, int]) -> bool:
        low = tuple(place[name] % size for name, size in divisor.input_sizes.items())
        high = {name: place[name] // size * size for name, size in divisor.input_sizes.items()}
        far = apply(layout, high)
        expected = {name: far[name] + value for name, value in zip(own, inner[low], strict=True)}
        return image == expected and all(far[name] % size == 0 for name, size in own.items())

    assert not all(splits(place, image) for place, image in _graph(layout))


def _frozen(layout: LinearLayout) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(tuple(place.values()), tuple(image.values())) for place, image in _graph(layout)]


@given(layouts())
def test_renaming_bits_moves_nothing(layout: LinearLayout) -> None:
    flat = linear_parts.flatten_outputs(linear_parts.flatten_inputs(layout, "i"), "o")
    assert flat.columns == layout.columns
    back = linear_parts.split_outputs(linear_parts.split_inputs(flat, layout.input_bits), layout.output_bits)
    assert back == layout
    turned = linear_parts.transpose_inputs(layout, ("register", "lane"))
    turned = linear_parts.transpose_outputs(turned, ("y", "x"))
    assert equal(turned, layout)
    for place, image in _graph(layout):
        assert apply(turned, place) == image
    part = linear_parts.sublayout(layout, ["lane"], ["y"])
    for lane in range(layout.input_sizes["lane"]):
        assert apply(part, {"lane": lane})["y"] == apply(layout, {"lane": lane, "register": 0})["y"]
    renamed = linear_parts.rename(layout, {"lane": "thread", "x": "row"})
    assert list(renamed.input_sizes) == ["thread", "register"] and list(renamed.output_sizes) == ["row", "y"]


@given(layouts(), layouts())
def test_equal_is_equality_of_maps(first: LinearLayout, second: LinearLayout) -> None:
    same = (first.input_sizes, first.output_sizes) == (second.input_sizes, second.output_sizes) and _graph(
        first
    ) == _graph(second)
    assert equal(first, second) == same


def test_small_layouts() -> None:
    assert identity(8, "i", "o")(i=5) == {"o": 5}
    assert strided(4, 2, "i", "o")(i=3) == {"o": 6} and strided(4, 2, "i", "o").output_sizes == {"o": 8}
    assert zeros(8, "i", "o")(i=5) == {"o": 0} and is_surjective(zeros(8, "i", "o"))
    assert not is_surjective(zeros(8, "i", "o", 4))
    broadcast = linear_layout({"lane": [1, 0, 2, 3]}, {"x": 4})
    assert linear_inverse.repeats(broadcast) == {"lane": 0b1010}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: identity(6, "i", "o"), "no power of two"),
        (lambda: linear_layout({"i": [4]}, {"o": 4}), "0 to 3"),
        (lambda: linear_layout({"i": [(1, 2)]}, {"o": 4}), "one place of each"),
        (lambda: linear_layout({"i": [-1]}, {"o": 4}), "one place of each"),
        (lambda: linear_layout({"i": [0] * 63}, {"o": 4}), "at most 62"),
        (lambda: LinearLayout((("i", 1), ("i", 1)), (("o", 1),), (1, 1)), "twice"),
        (lambda: LinearLayout((("i", 2),), (("o", 1),), (1,)), "1 columns"),
        (lambda: identity(4, "i", "o")(i=4), "0 to 3"),
        (lambda: identity(4, "i", "o")(j=0), "inputs are"),
        (lambda: coordinates(identity(1 << 40, "i", "o")), "too many to list"),
        (lambda: compose(identity(4, "a", "b"), identity(4, "a", "c")), "no inputs of"),
        (lambda: linear_parts.sublayout(identity(4, "a", "b"), ["c"], ["b"]), "no input"),
        (lambda: linear_parts.transpose_inputs(identity(4, "a", "b"), ["b"]), "inputs are"),
        (lambda: linear_parts.split_outputs(identity(4, "a", "b"), (("c", 1),)), "do not split"),
    ],
)
def test_bad_input_is_told(make, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        make()


def test_a_reason_names_the_places() -> None:
    answer = linear_inverse.invert(linear_layout({"lane": [1, 1]}, {"x": 4}))
    assert answer == NotExpressible("lane = 3 and the origin have one image: the layout is not one to one")
    answer = linear_inverse.invert(linear_layout({"lane": [1]}, {"x": 4}))
    assert answer == NotExpressible("2 of 4 outputs are reached: the layout is not onto")


def test_composition_and_inversion_are_quick() -> None:
    """Bounds are ten times what an idle core takes: a check against blow-ups, not a benchmark."""
    layout = linear_layout(
        {"register": [(0, 1), (8, 0), (0, 8), (0, 16), (0, 32)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
         "warp": [(16, 0), (32, 0)]}, {"row": 64, "column": 64},
    )  # fmt: skip
    inverse = linear_inverse.invert(layout)
    assert isinstance(inverse, LinearLayout)
    for action in (lambda: compose(inverse, layout), lambda: linear_inverse.invert(layout)):
        best = 1.0
        for _ in range(50):
            start = time.perf_counter()
            action()
            best = min(best, time.perf_counter() - start)
        assert best < 200e-6
    assert is_bijective(compose(inverse, layout))
