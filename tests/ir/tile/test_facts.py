# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Facts read off tile programs."""

import pytest
from xdsl.dialects.builtin import ModuleOp

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile import facts
from tilewright.ir.tile.facts import Access


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], bias: tw.Tensor["N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i + 2, k - 1], b[j, k].T)
    c[i, j] = tw.relu(acc + bias[j])


def traced():
    elements = {"a": tw.bf16, "b": tw.bf16, "bias": tw.f32, "c": tw.f16}
    return trace(matmul, {"M": 8, "N": 6, "K": 4}, elements, {"a": (1, 8)})


def test_buffers_are_the_parameters_with_their_roles():
    assert facts.buffers(facts.the_program(traced())) == (
        Buffer("a", tw.bf16, (8, 4), (1, 8), "input"),
        Buffer("b", tw.bf16, (6, 4), (4, 1), "input"),
        Buffer("bias", tw.f32, (6,), (1,), "input"),
        Buffer("c", tw.f16, (8, 6), (6, 1), "output"),
    )


def test_structure():
    program = facts.the_program(traced())
    assert facts.grid_axes(program) == ("M", "N")
    assert [loop.axis.data for loop in facts.loops(program)] == ["K"]
    assert [facts.access_of(load) for load in facts.loads(program)] == [
        Access("a", ("M", "K"), (2, -1)),
        Access("b", ("N", "K"), (0, 0)),
        Access("bias", ("N",), (0,)),
    ]
    assert [facts.access_of(store) for store in facts.stores(program)] == [Access("c", ("M", "N"), (0, 0))]
    assert len(facts.dots(program)) == 1
    (load, *_) = facts.loads(program)
    assert [facts.index_offset(index) for index in load.indices] == [2, -1]


def test_a_module_without_a_program_is_refused():
    with pytest.raises(TilewrightError, match="a module with 0 tile programs"):
        facts.the_program(ModuleOp([]))
