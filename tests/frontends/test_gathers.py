# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Loads at places that integers say: what they mean, and what is refused at the author's line."""

import numpy as np
import pytest
from tests.frontends.refusals import collector, refused_at_its_line

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace

CASES: dict[str, tuple[object, str]] = {}
refused = collector(CASES)


def value(kernel, dims, **arrays):
    elements = {each.name: each.element or Element.F32 for each in kernel.parameters}
    given = {name: np.asarray(array, "i4" if elements[name] is Element.S32 else "f4") for name, array in arrays.items()}
    return next(iter(evaluate(trace(kernel, dims, elements), given).values()))


@tw.kernel
def rows(x: tw.Tensor["R", "N"], ids: tw.Tensor["M", tw.i32], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = x[ids[i], j]


@tw.kernel
def in_blocks(x: tw.Tensor["P", "S"], table: tw.Tensor["N/3", tw.i32], y: tw.Tensor["N"]):
    j = tw.axes("N")
    y[j] = x[table[j // 3], j % 3]


@tw.kernel
def pairs(x: tw.Tensor["P", "R"], one: tw.Tensor["M", tw.i32], other: tw.Tensor["N", tw.i32], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = x[one[i], other[j]]


@tw.kernel
def again_and_again(x: tw.Tensor["S"], y: tw.Tensor["N"]):
    j = tw.axes("N")
    y[j] = x[j % 3]


def test_rows_by_number():
    x = np.arange(12.0).reshape(4, 3)
    assert (value(rows, {"R": 4, "N": 3, "M": 3}, x=x, ids=[3, 0, 3]) == x[[3, 0, 3]]).all()


@pytest.mark.parametrize("number", [-1, 4, -(2**31), 2**31 - 1])
def test_what_is_no_place_reads_as_zero(number):
    x = np.ones((4, 3))
    found = value(rows, {"R": 4, "N": 3, "M": 2}, x=x, ids=[number, 1])
    assert found.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_pages_the_last_in_part():
    x = np.arange(12.0).reshape(4, 3)
    assert value(in_blocks, {"P": 4, "S": 3, "N": 7}, x=x, table=[2, 0, 3]).tolist() == [6, 7, 8, 0, 1, 2, 9]


def test_two_tables():
    x = np.arange(12.0).reshape(4, 3)
    found = value(pairs, {"P": 4, "R": 3, "M": 2, "N": 2}, x=x, one=[3, 1], other=[0, 2])
    assert (found == x[[3, 1]][:, [0, 2]]).all()


def test_places_in_blocks_alone():
    assert value(again_and_again, {"S": 3, "N": 7}, x=[5, 6, 7]).tolist() == [5, 6, 7, 5, 6, 7, 5]


# ---------------------------------------------------------------- refused


@refused(r"a tile of bf16 is used as an index \(load a tensor of tw.i32 there\)")
def floats(x: tw.Tensor["M", "N"], n: tw.Tensor["N"], y: tw.Tensor["N"]):
    j = tw.axes("N")
    y[j] = x[n[j], j]  # here


@refused(r"a tile of numbers is used as an index \(load a tensor of tw.i32 there, as it is")
def computed(x: tw.Tensor["M", "N"], n: tw.Tensor["N", tw.i32], y: tw.Tensor["N"]):
    j = tw.axes("N")
    y[j] = x[n[j] + 1, j]  # here


@refused(r"loaded at a displaced index, or in a group, to be an index")
def displaced_table(x: tw.Tensor["M", "N"], n: tw.Tensor["N", tw.i32], y: tw.Tensor["N"]):
    j = tw.axes("N")
    y[j] = x[n[j + 1], j]  # here


@refused(r"a displaced index, or one of a group, beside places that integers say")
def displaced(x: tw.Tensor["M", "N"], n: tw.Tensor["N", tw.i32], y: tw.Tensor["N"]):
    j = tw.axes("N")
    y[j] = x[n[j], j + 1]  # here


@refused(r"the axis K of 16 elements is read at places in blocks of 2")
def other_block(x: tw.Tensor["K"], y: tw.Tensor["N"]):
    j = tw.axes("N")
    y[j] = x[j % 2]  # here


@refused(r"the place N % 2 is used as a number of Python's")
def number(x: tw.Tensor["N"], y: tw.Tensor["N"]):
    j = tw.axes("N")
    y[j] = x[j] * range(9)[j % 2]  # here


@refused(r"a tile of numbers is used as an index")
def arithmetic(x: tw.Tensor["N"], y: tw.Tensor["N"]):
    j = tw.axes("N")
    y[j] = x[j % 2 + 1]  # here


@refused(r"the place of a displaced index in blocks of 2")
def of_displaced(x: tw.Tensor["K"], y: tw.Tensor["N"]):
    j = tw.axes("N")
    y[j] = x[(j + 1) % 2]  # here


@refused(r"a tile of numbers is used as an index of a store")
def scatter(x: tw.Tensor["N"], n: tw.Tensor["N", tw.i32], y: tw.Tensor["M"]):
    j = tw.axes("N")
    y[n[j]] = x[j]  # here


@pytest.mark.parametrize("name", CASES)
def test_refused_at_its_line(name):
    refused_at_its_line(*CASES[name], __file__)
