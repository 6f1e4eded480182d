"""Every move keeps every element at its address, every wanted index inside the moved box, every end an end."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from tests.legal.reading_places import address_of, starts_of

from tilewright.legal.plan.moves import (
    Absorb,
    DropUnit,
    Expose,
    Fill,
    Fold,
    InsertUnit,
    Move,
    Narrow,
    Permute,
    Realign,
    Restride,
    Select,
    Shift,
    Split,
    Subsample,
    Unroll,
    Widen,
)
from tilewright.legal.plan.reading import Index, Reading


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    """Small tensors, dense, gapped or overlapping, and boxes of any size that begin at their multiples."""
    width = draw(st.sampled_from((1, 2, 4)))
    rank = draw(st.integers(1, 3))
    dims = tuple(draw(st.integers(1, 8)) for _ in range(rank))
    strides, reach = [width * draw(st.sampled_from((1, 1, 1, 2, 3)))], 0
    reach = strides[0] * dims[0]
    for at in range(1, rank):
        strides.append(draw(st.sampled_from((reach, reach, strides[-1], strides[-1] * 2, reach + width))))
        reach = max(reach, strides[at] * dims[at])
    box = tuple(draw(st.integers(1, extent + 1)) for extent in dims)
    steps = tuple(draw(st.sampled_from((1, 1, 1, 2, 3))) for _ in range(rank))
    starts = tuple(
        0 if size >= extent else -(-size // step) * step for size, extent, step in zip(box, dims, steps, strict=True)
    )
    return Reading(width, dims, tuple(strides), box, steps, starts, draw(st.sampled_from((16, 18, 24))))


@st.composite
def moves(draw: st.DrawFn) -> Move:
    at, other, size = draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(st.integers(1, 8))
    return draw(
        st.sampled_from(
            (
                DropUnit(at), InsertUnit(at), Fold(at, other, size), Fold(at, other, size, whole=True), Split(at, size),
                Permute((1, 0)), Permute((2, 0, 1)), Fill(at, size), Subsample(at, size), Restride(at, 16 * size),
                Widen(size), Narrow(size), Expose(size), Absorb(), Shift(size), Realign(size), Unroll(at, size),
            )
        )
    )  # fmt: skip


def applied(move: Move, reading: Reading) -> Reading | None:
    if isinstance(move, Permute) and len(move.order) != reading.rank:
        return None
    named = [getattr(move, name) for name in ("dimension", "inner", "outer") if hasattr(move, name)]
    if any(at >= reading.rank + isinstance(move, InsertUnit) for at in named):
        return None
    return move.apply(reading)


@given(readings(), st.lists(moves(), min_size=20, max_size=20))
def test_a_move_keeps_addresses_boxes_and_ends(reading: Reading, tried: list[Move]) -> None:
    for move in tried:
        after = applied(move, reading)
        if after is not None:
            check_move(reading, move, after)


def check_move(reading: Reading, move: Move, after: Reading) -> None:
    for index in product(*(range(extent) for extent in reading.dims)):
        if isinstance(move, Subsample) and index[move.dimension] % move.step:
            continue  # wanted by no box
        moved = move.index(index)
        assert inside(moved, after), (reading, move, index)
        ahead = address_of(index, reading) - address_of(moved, after)
        assert 0 <= ahead <= max(0, after.element_bytes - reading.element_bytes), (reading, move, index)
    for start in starts_of(reading):
        check_box(reading, move, after, start)


def check_box(reading: Reading, move: Move, after: Reading, start: Index) -> None:
    begin = move.start(start)
    assert all(at % step == 0 if step else at == 0 for at, step in zip(begin, after.starts, strict=True)), (
        reading,
        move,
    )
    begins = [begin]
    if isinstance(move, Unroll):
        begins = [
            (*begin[: move.dimension], begin[move.dimension] + step, *begin[move.dimension + 1 :])
            for step in range(move.count)
        ]
    wanted = zip(start, reading.box, reading.element_strides, strict=True)
    for index in product(*(range(at, at + size, step) for at, size, step in wanted)):
        moved = move.index(index)
        taken = any(in_box(moved, first, after) for first in begins)
        if inside(index, reading):
            assert taken, (reading, move, start, index)
        elif taken:
            assert not inside(moved, after), (reading, move, start, index)


@given(readings(), st.integers(0, 2), st.integers(2, 4))
def test_the_maps_of_a_selection_share_the_indices(reading: Reading, at: int, modulus: int) -> None:
    at %= reading.rank
    parts = [Select(at, modulus, remainder).apply(reading) for remainder in range(modulus)]
    if any(part is None for part in parts):
        assert reading.box[at] != 1 or reading.dims[at] < modulus or reading.element_strides[at] != 1
        return
    for index in product(*(range(extent) for extent in reading.dims)):
        remainder = index[at] % modulus
        part = parts[remainder]
        assert part is not None
        moved = Select(at, modulus, remainder).index(index)
        assert inside(moved, part)
        assert address_of(moved, part) == address_of(index, reading)


def test_moves_whose_conditions_fail_answer_none() -> None:
    reading = Reading(2, (12, 4), (2, 24), (5, 2), (1, 1), (5, 2), 0)
    assert Fold(0, 1, 12).apply(reading) is None  # a box of two rows would take what lies between
    assert Split(0, 5).apply(reading) is None
    assert Widen(2).apply(reading) is None  # boxes begin at odd elements
    assert DropUnit(1).apply(reading) is None
    assert Realign(5).apply(reading) is None
    realigned = Realign(8).apply(reading)
    assert realigned is not None
    assert (realigned.box[0], realigned.starts[0]) == (5 + 7, 8)


def inside(index: Index, reading: Reading) -> bool:
    return all(0 <= i < extent for i, extent in zip(index, reading.dims, strict=True))


def in_box(index: Index, start: Index, reading: Reading) -> bool:
    entries = zip(index, start, reading.box, reading.element_strides, strict=True)
    return all(0 <= i - at < size and (i - at) % step == 0 for i, at, size, step in entries)
