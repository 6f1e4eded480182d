# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What a value is computed of, each operation once: values shared many times over; long chains."""

import sys

import pytest
from xdsl.ir import Operation, SSAValue

import tilewright as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.language import Tile
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import stores, the_program
from tilewright.ir.tile.repeats import in_order

SHARED = 40
"""Of so many squares and sums, one made of the other, 3^40 ways lead to the first."""


def squares(value: Tile, count: int = SHARED) -> Tile:
    for _ in range(count):
        value = value * value + value
    return value


def longer(value: Tile) -> Tile:
    """A value behind more additions than Python nests calls."""
    for _ in range(sys.getrecursionlimit() + 100):
        value = value + 0.5
    return value


@tw.kernel
def of_elements(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = squares(x[i, j])


@tw.kernel
def of_rows(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    v = squares(x[i, j] - tw.max(x[i, j], over=j))
    y[i, j] = v / tw.sum(v, over=j)


@tw.kernel
def behind_a_product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = squares(tw.dot(x[i, k], w[j, k], over=k))


@tw.kernel
def before_a_product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(squares(x[i, k]).to(tw.bf16), w[j, k], over=k)


@tw.kernel
def in_a_softmax(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    s = tw.dot(x[i, k], w[j, k], over=k)
    for _ in range(SHARED):
        s = (s + s) * 0.5
    y[i, j] = tw.softmax(squares(s), over=j)


@tw.kernel
def in_a_mask(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], y: tw.Tensor["M", "F"]):
    i, t, e, f = tw.axes("M T E F")
    seen = t <= i
    for _ in range(SHARED):
        seen = seen & seen
    scores = tw.where(seen, tw.dot(q[i, e], k[t, e], over=e), -1e30)
    y[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@pytest.mark.parametrize("kernel", [of_elements, of_rows, behind_a_product, before_a_product, in_a_softmax, in_a_mask])
def test_values_shared_many_times_over_are_compiled_once_each(kernel: Kernel) -> None:
    made = compile_kernel(kernel, dims=dict.fromkeys(kernel.axes, 64), dtype="bf16", assembled=False)
    assert made.text_proof is not None


def chain(count: int) -> SSAValue:
    """The end of so many additions."""

    @tw.kernel
    def added(x: tw.Tensor["M"], y: tw.Tensor["M"]):
        (i,) = tw.axes("M")
        value = x[i]
        for _ in range(count):
            value = value + 1.0
        y[i] = value

    (store,) = stores(the_program(trace(added, {"M": 64}, {"x": Element.BF16, "y": Element.BF16})))
    return store.value


def test_each_operation_comes_once_and_behind_its_operands() -> None:
    found = in_order(chain(20), lambda each: True)
    assert len(found) == len(set(found))
    places = {each: place for place, each in enumerate(found)}
    for each in found:
        operands = each.owner.operands if isinstance(each.owner, Operation) else ()
        assert all(places[operand] < places[each] for operand in operands)


def test_what_a_value_is_computed_of_ends_where_it_is_asked_to() -> None:
    end = chain(3)
    assert in_order(end, lambda each: False) == [end]


def test_a_chain_is_as_long_as_it_likes() -> None:
    length = sys.getrecursionlimit() + 100
    assert len(in_order(chain(length), lambda each: True)) > length


@tw.kernel
def long_behind_a_product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = longer(tw.dot(x[i, k], w[j, k], over=k))


@tw.kernel
def long_in_a_softmax(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.softmax(longer(tw.dot(x[i, k], w[j, k], over=k)), over=j)


@tw.kernel
def long_before_a_product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(longer(x[i, k]).to(tw.bf16), w[j, k], over=k)


@pytest.mark.full
@pytest.mark.parametrize("kernel", [long_behind_a_product, long_in_a_softmax, long_before_a_product])
def test_programs_of_long_chains_are_compiled(kernel: Kernel) -> None:
    made = compile_kernel(kernel, dims=dict.fromkeys(kernel.axes, 64), dtype="bf16", assembled=False)
    assert made.text_proof is not None
