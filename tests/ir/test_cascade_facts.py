# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What programs of products and folds over a streamed axis say, and what of them is refused, at which line."""

import inspect

import pytest

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade_facts import cascade_axes, first_alike, multiplied_loads, products_of, rows_loaded
from tilewright.ir.tile.facts import loads, parameter_name, the_program
from tilewright.synth.cascade.decide import decide_cascade
from tilewright.synth.streaming import streamed
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


def program_of(kernel, **dims):
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    found = streamed(the_program(trace(kernel, dims, elements)))
    assert found is not None
    return the_program(found.module)


@tw.kernel
def weighed(
    x: tw.Tensor["B", "M", "K"], w: tw.Tensor["N", "K"], add: tw.Tensor["M", "N"], v: tw.Tensor["N", "F"],
    y: tw.Tensor["B", "M", "F"], top: tw.Tensor["B", "M", tw.f32],
):  # fmt: skip
    b, i, j, k, f = tw.axes("B M N K F")
    scores = tw.dot(x[b, i, k], w[j, k], over=k) + add[i, j]
    y[b, i, f] = tw.dot(tw.softmax(scores, over=j), v[j, f], over=j)
    top[b, i] = tw.max(scores, over=j)


@tw.kernel
def spread(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.softmax(tw.dot(x[i, k], w[j, k], over=k), over=j)


def test_axes_have_their_parts():
    program = program_of(weighed, B=2, M=64, N=64, K=32, F=16)
    axes = cascade_axes(program)
    assert (axes.batch, axes.row, axes.column, axes.streamed) == (("B",), "M", "F", "N")
    assert [product.op.axis.data for product in products_of(program)] == ["K", "N"]
    assert [parameter_name(program, load.tensor) for load in multiplied_loads(program, axes)] == ["x", "w", "v"]
    assert [parameter_name(program, load.tensor) for load in rows_loaded(program, axes)] == ["add"]


def test_loads_of_several_walks_are_alike():
    program = program_of(spread, M=64, N=1024, K=32)
    again = [load for load in loads(program) if parameter_name(program, load.tensor) == "w"]
    assert len(again) == 2 and {first_alike(program, load) for load in again} == {again[0]}


def refused(kernel, message, line, **dims):
    with pytest.raises(TilewrightError, match=message) as error:
        decide_cascade(program_of(kernel, **dims), target("sm_90a"), Wanted())
    text, first = inspect.getsourcelines(kernel.function)
    assert error.value.span is not None and error.value.remedy
    assert line in text[error.value.span.line - first]


@tw.kernel
def of_keys(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], b: tw.Tensor["T"], w: tw.Tensor["Q", tw.f32]):
    i, t, e = tw.axes("Q T E")
    scores = tw.dot(q[i, e], k[t, e], over=e)
    w[i] = tw.max(scores - tw.max(b[t], over=t), over=t)


@pytest.mark.parametrize(
    ("kernel", "message", "line", "dims"),
    [
        (of_keys, r"a fold of \(T\) over T", "b[t]", {"Q": 64, "T": 64, "E": 32}),
        (spread, "row stride 66 bytes is not a multiple of 16", "x[i, k]", {"M": 64, "N": 64, "K": 33}),
    ],
    ids=["a fold of keys alone", "rows off 16 bytes"],
)
def test_what_is_not_compiled_is_refused_at_its_line(kernel, message, line, dims):
    refused(kernel, message, line, **dims)
