"""The axis that is streamed, and what has none or too many."""

import pytest
from tests.synth.streaming.tracing import Program

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import loops, the_program
from tilewright.synth.streaming import streamed

BF16 = Element.BF16


def of(p):
    return streamed(the_program(p.module()))


def test_a_program_without_sums_is_left_alone():
    p = Program(M=3, N=4)
    p.store(p.load("x", "M", "N") * 2.0, "y", "M", "N")
    assert of(p) is None


def test_two_axes_that_are_walked_are_refused():
    p = Program(M=3, N=4, K=5)
    x, w = p.load("x", "M", "K"), p.load("w", "K", "N", element=BF16)
    p.store(p.softmax(p.dot(p.softmax(x, "K"), w, "K"), "N"), "y", "M", "N")
    with pytest.raises(TilewrightError, match=r"m.py:\d+: sums over K and over N both have to be walked") as error:
        of(p)
    assert error.value.span is not None and error.value.remedy


def test_two_rows_of_folds_are_refused():
    p = Program(M=3, N=4)
    x = p.load("x", "M", "N")
    p.store(p.sum(x, "N"), "y", "M")
    p.store(p.sum(x, "M"), "z", "N")
    with pytest.raises(TilewrightError, match="sums over N and over M"):
        of(p)


def test_a_single_axis_is_refused():
    p = Program(N=4)
    x = p.load("x", "N")
    p.store(p.softmax(x, "N"), "y", "N")
    with pytest.raises(TilewrightError, match="every value is summed over N, the only axis") as error:
        of(p)
    assert "extent 1" in error.value.remedy


def test_a_streamed_program_with_further_products_is_refused():
    """What has loops is left alone; what has products as values besides is not understood."""
    p = Program(M=3, N=4, K=5)
    x, w = p.load("x", "M", "K", element=BF16), p.load("w", "K", "N", element=BF16)
    p.store(p.dot(x, w, "K"), "y", "M", "N")
    module = of(p).module
    assert streamed(the_program(module)) is None
    program = the_program(module)
    (loop,) = loops(program)
    side = loop.outputs[0]
    half = tile.CastOp(side, BF16, "m.py:7")
    beside = ContractOp(half.result, half.result, "N", ["M"], "m.py:77")
    program.body.block.insert_ops_after([half, beside], loop)
    with pytest.raises(TilewrightError, match=r"m.py:77: a product over N that is a value, beside a loop"):
        streamed(program)


def test_a_product_of_products_streams_along_the_second():
    p = Program(M=3, E=4, H=5, N=2)
    x, w, u = (p.load(name, *axes, element=BF16) for name, axes in (("x", "ME"), ("w", "EH"), ("u", "HN")))
    p.store(p.dot(p.dot(x, w, "E"), u, "H"), "y", "M", "N")
    assert of(p).axis == "H"
