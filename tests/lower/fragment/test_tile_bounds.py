"""Conditions over tiles as inequalities: they say of every tile whether its places all meet the condition, as float32
computes it; and where they could not, nothing is asked."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Block, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import int_array
from tilewright.lower.fragment.tile_bounds import Compared, Condition, Linear, inequalities

ROWS, COLUMNS = 64, 24
MOST_PLACE = (1 << 22) - 256
INDEX, SCALAR = ac.IndexType(), ac.ScalarType()
Numbers = NDArray[np.float32]


class Region:
    """A map's region: each value with its numbers in the tile at (row, column), as the text computes them. part: an
    index that all places have in common."""

    def __init__(self, row: int = 0, column: int = 0, part: int = 0) -> None:
        self.block = Block(arg_types=[SCALAR, INDEX, INDEX, INDEX])
        self.loaded, self.i, self.j, self.k = self.block.args
        shape = (ROWS, COLUMNS)
        self.found: dict[SSAValue, np.ndarray] = {
            self.i: np.broadcast_to(row + np.arange(ROWS, dtype=np.int64)[:, None], shape),
            self.j: np.broadcast_to(column + np.arange(COLUMNS, dtype=np.int64), shape),
            self.k: np.full(shape, part, np.int64),
        }

    def _value(self, op, numbers) -> SSAValue:
        self.block.add_op(op)
        self.found[op.results[0]] = numbers
        return op.results[0]

    def constant(self, number: float) -> SSAValue:
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
        op = ac.ConstantOp.create(properties={"bits": IntAttr(bits)}, result_types=[SCALAR])
        return self._value(op, np.full((ROWS, COLUMNS), number, np.float32))

    def affine(self, terms: list[tuple[SSAValue, int]], constant: int) -> SSAValue:
        properties = {"coefficients": int_array([factor for _, factor in terms]), "constant": IntAttr(constant)}
        op = ac.AffineOp.create(operands=[value for value, _ in terms], properties=properties, result_types=[INDEX])
        total = constant + sum(factor * self.found[value] for value, factor in terms)
        return self._value(op, ((total + (1 << 31)) % (1 << 32)) - (1 << 31))

    def number(self, index: SSAValue) -> SSAValue:
        op = ac.IndexNumberOp.create(operands=[index], result_types=[SCALAR])
        return self._value(op, self.found[index].astype(np.float32))

    def scalar(self, function: str, *inputs: SSAValue) -> SSAValue:
        op = ac.ScalarOp.create(
            operands=list(inputs), properties={"function": StringAttr(function)}, result_types=[SCALAR]
        )
        meant = {
            "add": np.add,
            "sub": np.subtract,
            "lt": np.less,
            "le": np.less_equal,
            "min": np.minimum,
            "mul": np.multiply,
        }
        numbers = [self.found.get(value) for value in inputs]
        return self._value(op, meant[function](*numbers) if function in meant else None)

    def forms(self, condition: SSAValue) -> tuple[Condition, ...] | None:
        return inequalities(condition, (self.i, self.j, self.k), (ROWS, COLUMNS))


PLACES = st.one_of(st.integers(0, 200), st.integers(0, MOST_PLACE - 1), st.just(MOST_PLACE - 1))
CONSTANTS = st.one_of(
    st.integers(-300, 300).map(float),
    st.sampled_from([0.5, -0.25, 20.5, 0.001, 127.001, 2.0**23, -(2.0**24), 2.0**24, 2.0**25, 1e30, float("inf")]),
)


@st.composite
def expressions(draw, region: Region, depth: int = 2) -> SSAValue:
    kinds = ["row", "column", "part", *(["affine", "constant", "sum", "sum"] if depth else [])]
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "row":
            return region.number(region.i)
        case "column":
            return region.number(region.j)
        case "part":
            factor = region.constant(draw(st.integers(-5000, 5000) | st.just(0.5)))
            return region.scalar("mul", *draw(st.permutations([region.number(region.k), factor])))
        case "affine":
            factors = st.integers(-5, 5)
            terms = [(region.i, draw(factors)), (region.j, draw(factors))]
            return region.number(region.affine(terms, draw(st.integers(-(1 << 24), 1 << 24) | st.integers(-99, 99))))
        case "constant":
            return region.constant(draw(CONSTANTS))
        case _:
            sides = [draw(expressions(region, depth - 1)) for _ in range(2)]
            return region.scalar(draw(st.sampled_from(["add", "sub"])), *sides)


@st.composite
def conditions(draw, region: Region, depth: int = 1) -> SSAValue:
    if depth and draw(st.booleans()):
        return region.scalar("min", *(draw(conditions(region, depth - 1)) for _ in range(2)))
    return region.scalar(draw(st.sampled_from(["lt", "le"])), *(draw(expressions(region)) for _ in range(2)))


PARTS = st.integers(0, 99) | st.integers(0, 1 << 22)


def is_asked(form: Linear, part: int) -> bool:
    """Whether what the text asks of an index in common holds."""
    return all(part < (1 << 22) // abs(factor) for _, factor in form.others)


@given(st.data(), PLACES, PLACES, PARTS)
def test_inequalities_hold_where_the_condition_does_at_every_place(data, row, column, part):
    region = Region(row, column, part)
    condition = data.draw(conditions(region))
    forms = region.forms(condition)
    if forms is not None and all(is_asked(each, part) for each in forms if isinstance(each, Linear)):
        assert all(isinstance(each, Linear) for each in forms)
        assert all(at(each, row, column, part) >= 0 for each in forms) == bool(region.found[condition].all())


def at(form: Linear, row: int, column: int, part: int) -> Fraction:
    others = sum(factor * part for _, factor in form.others)
    return form.row * row + form.column * column + form.constant + others


NUMBERS = st.one_of(st.integers(-300, 300).map(float), st.floats(width=32), st.sampled_from([2.0**22, 2.0**24 + 4]))


@given(st.data(), PLACES, PLACES, PARTS, NUMBERS, st.booleans())
def test_a_number_in_common_is_compared_with_a_corner(data, row, column, part, number, below):
    region = Region(row, column, part)
    region.found[region.loaded] = np.full((ROWS, COLUMNS), number, np.float32)
    form = data.draw(expressions(region))
    sides = (form, region.loaded) if below else (region.loaded, form)
    condition = region.scalar(data.draw(st.sampled_from(["lt", "le"])), *sides)
    places = (region.i, region.j, region.k)
    found = inequalities(condition, places, (ROWS, COLUMNS), lambda value: value is region.loaded)
    if found is not None:
        (each,) = found
        assert isinstance(each, Compared) and each.number is region.loaded and each.below == below
        if not is_asked(each.form, part):
            return
        corner, compared = np.float32(int(at(each.form, row, column, part))), np.float32(number)
        left, right = (corner, compared) if below else (compared, corner)
        assert bool(left < right if each.strictly else left <= right) == bool(region.found[condition].all())


def test_a_sequence_that_ends_is_asked_about_its_last_column():
    region = Region()
    condition = loaded(region)
    found = inequalities(condition, (region.i, region.j), (ROWS, COLUMNS), lambda value: value is region.loaded)
    assert found == (Compared(Linear(0, 1, Fraction(COLUMNS - 1)), region.loaded, below=True, strictly=False),)


def test_a_causal_mask_is_one_inequality():
    region = Region()
    condition = region.scalar("le", region.number(region.j), region.number(region.i))
    assert region.forms(condition) == (Linear(1, -1, 1 - COLUMNS),)


def test_whole_numbers_are_compared_with_fractions():
    region = Region()
    apart = region.scalar("sub", region.number(region.i), region.number(region.j))
    assert region.forms(region.scalar("lt", apart, region.constant(100.5))) == (Linear(-1, 1, 100 - (ROWS - 1)),)


def test_an_axis_in_parts_is_asked_about_where_the_part_begins():
    region = Region()
    begin = region.scalar("mul", region.number(region.k), region.constant(512.0))
    condition = region.scalar("lt", region.scalar("add", begin, region.number(region.j)), region.constant(8000.0))
    assert region.forms(condition) == (Linear(0, -1, Fraction(7999 - (COLUMNS - 1)), ((2, -512),)),)
    # Of a difference float32 need not have the terms.
    twice = region.scalar("lt", begin, region.scalar("add", begin, region.number(region.j)))
    assert region.forms(twice) is None


def window(region: Region, reach: int) -> SSAValue:
    i, j = region.number(region.i), region.number(region.j)
    near = region.scalar("lt", region.scalar("sub", i, j), region.constant(reach))
    return region.scalar("min", region.scalar("le", j, i), near)


def test_a_window_that_holds_no_tile_is_not_asked_about():
    region = Region()
    # From a tile's last row to its first column there are ROWS + COLUMNS - 2 places more than from its corner.
    assert region.forms(window(region, ROWS + COLUMNS - 2)) is None
    assert len(region.forms(window(region, ROWS + COLUMNS - 1)) or ()) == 2


def equality(region: Region) -> SSAValue:
    return region.scalar("eq", region.number(region.i), region.number(region.j))


def quotient(region: Region) -> SSAValue:
    op = ac.IndexDivideOp.create(operands=[region.i], properties={"size": IntAttr(2)}, result_types=[INDEX])
    region.block.add_op(op)
    region.found[op.result] = region.found[region.i] // 2
    return region.scalar("le", region.number(region.j), region.number(op.result))


def loaded(region: Region) -> SSAValue:
    region.found[region.loaded] = np.zeros((ROWS, COLUMNS), np.float32)
    return region.scalar("le", region.number(region.j), region.loaded)


def loaded_in_half(region: Region) -> SSAValue:
    return region.scalar("min", region.scalar("le", region.number(region.j), region.number(region.i)), loaded(region))


def sum_of_fractions(region: Region) -> SSAValue:
    """At 32768 float32 has no 0.001 more, and row and column are equal then."""
    return region.scalar(
        "lt", region.number(region.j), region.scalar("add", region.number(region.i), region.constant(0.001))
    )


def past_float32(region: Region) -> SSAValue:
    far = region.number(region.affine([(region.i, 1)], 1 << 24))
    return region.scalar("lt", far, region.number(region.affine([(region.j, 1)], 1 << 24)))


def past_32_bits(region: Region) -> SSAValue:
    return region.scalar("lt", region.number(region.j), region.constant(1e30))


def infinite(region: Region) -> SSAValue:
    return region.scalar("lt", region.number(region.j), region.constant(float("inf")))


def a_number(region: Region) -> SSAValue:
    """The smaller of two numbers is no condition."""
    return region.scalar("min", region.number(region.i), region.number(region.j))


@pytest.mark.parametrize(
    "condition",
    [equality, quotient, loaded, loaded_in_half, sum_of_fractions, past_float32, past_32_bits, infinite, a_number],
    ids=lambda each: each.__name__,
)
def test_nothing_is_asked_where_nothing_follows(condition):
    region = Region()
    assert region.forms(condition(region)) is None
