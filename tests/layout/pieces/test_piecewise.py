"""Piecewise-affine layouts against enumeration: composition, inverse, equality, masks."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.layout.pieces.enumeration import active, flip, rotated, values

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotDecided, NotExpressible
from tilewright.layout.numbers import boxes
from tilewright.layout.numbers.boxes import Box
from tilewright.layout.pieces import algebra
from tilewright.layout.pieces import piecewise as pw
from tilewright.layout.pieces.piecewise import Piece, Piecewise


def every(layout: Piecewise) -> dict[tuple[int, ...], tuple[int, ...]]:
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for place in product(*map(range, layout.extents)):
        image = layout(*place)
        if image is not None:
            found[place] = image
    return found


@st.composite
def layouts(
    draw: st.DrawFn, outputs: int | None = None, bound: int = 3, extents: tuple[int, ...] | None = None
) -> Piecewise:
    """A box cut at random, each part with a random affine form or none."""
    extents = extents or tuple(draw(st.integers(1, 5)) for _ in range(draw(st.integers(1, 3))))
    rank = len(extents)
    parts: list[Box] = [tuple((0, extent) for extent in extents)]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(parts) - 1))
        axis = draw(st.integers(0, rank - 1))
        low, high = parts[at][axis]
        if high - low > 1:
            cut = draw(st.integers(low + 1, high - 1))
            box = parts.pop(at)
            parts += [(*box[:axis], side, *box[axis + 1 :]) for side in ((low, cut), (cut, high))]
    count = draw(st.integers(1, 2)) if outputs is None else outputs
    number = st.integers(-bound, bound)
    forms = [
        Piece(
            box,
            tuple(tuple(draw(number) for _ in extents) for _ in range(count)),
            tuple(draw(number) for _ in range(count)),
        )
        for box in parts
        if draw(st.integers(0, 4))
    ]
    return Piecewise(extents, count, tuple(forms))


@st.composite
def permutations(draw: st.DrawFn) -> Piecewise:
    """Ragged blocks, flips and orders of axes: one to one by construction."""
    extent = draw(st.integers(1, 12))
    first = pw.blocked(extent, draw(st.integers(1, 5)))
    second = pw.blocked(draw(st.integers(1, 6)), draw(st.integers(1, 4)))
    both = pw.product(first, second)
    over = (extent, second.defined)
    if draw(st.booleans()):
        both = answered(algebra.compose(flip(over, draw(st.integers(0, 1))), both))
    return answered(algebra.compose(pw.permuted(over, draw(st.permutations([0, 1]))), both))


def answered(answer: Piecewise | NotExpressible | NotDecided) -> Piecewise:
    assert isinstance(answer, Piecewise), answer
    return answer


@given(st.data(), st.integers(1, 2))
def test_composition(data: st.DataObject, middle: int) -> None:
    inner = data.draw(layouts(outputs=middle))
    outer = data.draw(layouts(extents=tuple(data.draw(st.integers(1, 5)) for _ in range(middle))))
    found = every(answered(algebra.compose(outer, inner)))
    after = every(outer)
    assert found == {place: after[image] for place, image in every(inner).items() if image in after}


@given(layouts())
def test_values_and_masks_say_what_calls_say(layout: Piecewise) -> None:
    mask, images = active(layout), values(layout)
    called = every(layout)
    assert layout.defined == len(called) == int(mask.sum())
    for place in product(*map(range, layout.extents)):
        assert bool(mask[place]) == (place in called)
        assert tuple(images[place]) == called.get(place, (-1,) * layout.outputs)


@given(layouts())
def test_simplified_is_the_same_map(layout: Piecewise) -> None:
    simple = algebra.simplified(layout)
    assert every(simple) == every(layout)
    assert len(simple.pieces) <= len(layout.pieces)
    assert algebra.difference(layout, simple) is None


@given(st.data())
def test_difference_finds_a_place(data: st.DataObject) -> None:
    extents = tuple(data.draw(st.integers(1, 4)) for _ in range(data.draw(st.integers(1, 2))))
    left = data.draw(layouts(outputs=1, bound=1, extents=extents))
    right = data.draw(layouts(outputs=1, bound=1, extents=extents))
    found = algebra.difference(left, right)
    one, other = every(left), every(right)
    assert (found is None) == (one == other)
    if found is not None:
        assert one.get(found.place) == found.left != found.right == other.get(found.place)


@given(layouts(), st.integers(-2, 2), st.data())
def test_a_change_in_one_piece_is_found(layout: Piecewise, change: int, data: st.DataObject) -> None:
    assume(layout.pieces and change)
    at = data.draw(st.integers(0, len(layout.pieces) - 1))
    piece = layout.pieces[at]
    wrong = Piece(piece.box, piece.matrix, (piece.offsets[0] + change, *piece.offsets[1:]))
    other = Piecewise(layout.extents, layout.outputs, (*layout.pieces[:at], wrong, *layout.pieces[at + 1 :]))
    found = algebra.difference(layout, other)
    assert found is not None and layout(*found.place) != other(*found.place)


@settings(max_examples=60)
@given(permutations())
def test_ragged_blocks_have_inverses(layout: Piecewise) -> None:
    back = answered(algebra.inverse(layout))
    assert every(back) == {image: place for place, image in every(layout).items()}


@given(layouts())
def test_inverses_of_any(layout: Piecewise) -> None:
    forward = every(layout)
    match algebra.inverse(layout):
        case Piecewise() as back:
            assert every(back) == {image: place for place, image in forward.items()}
        case NotExpressible():
            negative = any(value < 0 for image in forward.values() for value in image)
            assert negative or len(set(forward.values())) < len(forward)
        case NotDecided() as refused:
            pytest.fail(str(refused))


def test_a_tail_is_two_pieces_and_its_inverse_one_for_each_block() -> None:
    lanes = pw.blocked(100, 32)
    assert (lanes.extents, lanes.defined, len(lanes.pieces)) == ((32, 4), 100, 2)
    back = answered(algebra.inverse(lanes))
    assert len(back.pieces) == 4
    assert algebra.difference(answered(algebra.compose(lanes, back)), pw.identity((100,))) is None
    round_trip = answered(algebra.compose(back, lanes))
    assert every(round_trip) == {place: place for place in every(lanes)}


def test_flips_slices_and_joints() -> None:
    assert algebra.difference(answered(algebra.compose(flip((10,), 0), flip((10,), 0))), pw.identity((10,))) is None
    back = answered(algebra.inverse(rotated(10, 3)))
    assert [back(i) for i in range(10)] == [((i - 3) % 10,) for i in range(10)]
    halves = Piecewise((10,), 1, tuple(Piece((half,), ((1,),), (0,)) for half in ((0, 4), (4, 10))))
    assert len(algebra.simplified(halves).pieces) == 1


def test_a_transpose_of_primes_needs_no_padding() -> None:
    rows, columns = 257, 1009
    there = answered(algebra.compose(pw.digits((columns, rows)), pw.permuted((rows, columns), (1, 0))))
    assert there(5, 7) == (7 + 1009 * 5,)
    back = answered(algebra.inverse(there))
    assert back(7 + 1009 * 5) == (5, 7)
    assert back.defined == rows * columns


def test_images_with_gaps_have_inverses_defined_where_there_are_images() -> None:
    back = answered(algebra.inverse(pw.window((0,), (5,), (2,))))
    assert [back(i) for i in range(9)] == [(i // 2,) if i % 2 == 0 else None for i in range(9)]


def test_not_one_to_one_names_two_places() -> None:
    found = algebra.inverse(pw.affine((4, 4), [[1, 1]]))
    assert isinstance(found, NotExpressible) and "one image" in found.reason
    broadcast = algebra.inverse(pw.affine((4, 3), [[1, 0]]))
    assert isinstance(broadcast, NotExpressible) and "(0, 0) and (0, 1)" in broadcast.reason


def test_too_many_pieces_is_not_decided() -> None:
    assert isinstance(algebra.inverse(pw.affine((1 << 40,), [[2]])), NotDecided)
    wide = pw.affine((1 << 40, 1 << 40), [[1, 1]])
    assert isinstance(algebra.compose(pw.restricted(pw.identity((1 << 42,)), ((5, 1 << 39),)), wide), NotDecided)


def test_large_extents_cost_nothing() -> None:
    large = pw.product(flip((10**12,), 0), flip((10**15 + 7,), 0))
    twice = answered(algebra.compose(large, large))
    assert algebra.difference(twice, pw.identity((10**12, 10**15 + 7))) is None
    assert large.size == prod(large.extents)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Piecewise((0,), 1, ()),
        lambda: Piecewise((4,), 1, (Piece(((0, 5),), ((1,),), (0,)),)),
        lambda: Piecewise((4,), 1, (Piece(((0, 3),), ((1,),), (0,)), Piece(((2, 4),), ((1,),), (0,)))),
        lambda: Piecewise((4,), 2, (Piece(((0, 3),), ((1,),), (0,)),)),
        lambda: pw.permuted((2, 3), (0, 0)),
        lambda: pw.blocked(10, 0),
        lambda: pw.identity((4,))(4),
    ],
)
def test_errors_are_messages(make: object) -> None:
    assert callable(make)
    with pytest.raises(TilewrightError):
        make()


def test_pieces_meet_nowhere() -> None:
    assert boxes.overlapping([piece.box for piece in pw.blocked(1000, 96).pieces]) is None
    rows = pw.blocked(1000, 96)
    assert np.array_equal(np.sort(values(rows)[active(rows)].ravel()), np.arange(1000))
