# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products of vectors get an axis of rows: which programs do, and what they read then."""

import pytest
from examples.fused import attention, decode_attention

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile import language as tw
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade_facts import contractions
from tilewright.ir.tile.facts import buffers, the_grid, the_program
from tilewright.ir.tile.types import value_type
from tilewright.synth.joining import joined_forms, row_axis
from tilewright.synth.joining.row_axis import with_rows

DIMS = {"B": 2, "H": 8, "T": 32, "E": 16, "F": 16}


def traced(kernel, dims):
    return trace(kernel, dims, {each.name: each.element or Element.BF16 for each in kernel.parameters})


@tw.kernel
def vector(w: tw.Tensor["N", "K"], x: tw.Tensor["K"], y: tw.Tensor["N"]):
    j, k = tw.axes("N K")
    y[j] = tw.dot(w[j, k], tw.exp(x[k]), over=k)


@tw.kernel
def diagonal(w: tw.Tensor["N", "K"], x: tw.Tensor["N", "K"], y: tw.Tensor["N"]):
    j, k = tw.axes("N K")
    y[j] = tw.dot(w[j, k], x[j, k], over=k)


def test_queries_get_rows_and_keys_none():
    module = traced(decode_attention, DIMS)
    program = the_program(with_rows(module))
    assert the_grid(program).axis_names[0] == "rows" and program.extents["rows"] == 1
    shapes = {each.name: each.shape for each in buffers(program)}
    assert shapes["Q"] == (1, 2, 8, 16) and shapes["O"] == (1, 2, 8, 16) and shapes["K"] == (2, 32, 2, 16)
    for op in contractions(program):
        assert "rows" in value_type(op.result).axis_names
        assert ["rows" in value_type(side).axis_names for side in op.operands] == [True, False]


def test_heads_of_a_group_join_the_row():
    program = the_program(with_rows(traced(decode_attention, DIMS)))
    grids = [the_grid(the_program(each)).axis_names for each in joined_forms(program)]
    assert any("H_rows" in axes and "H_blocks" in axes for axes in grids)


@pytest.mark.parametrize(("kernel", "dims"), [(attention, {**DIMS, "Q": 1}), (diagonal, {"N": 8, "K": 16})])
def test_what_has_rows_or_can_have_none_stays(kernel, dims):
    module = traced(kernel, dims)
    assert with_rows(module) is module


def test_a_vector_is_a_matrix_of_one_row():
    program = the_program(with_rows(traced(vector, {"N": 24, "K": 16})))
    assert [each.shape for each in buffers(program)] == [(24, 16), (1, 16), (1, 24)]


def test_other_numbers_are_refuted(monkeypatch):
    """Had the weights the rows, and not the vector, there would be a product of all with all."""
    module = traced(vector, {"N": 24, "K": 16})
    over = row_axis.FurtherAxis.value

    def wrong(self, node):
        found = over(self, node)
        return self.graph.binary(tw.Function.ADD, found, found, node.place) if node.axes == ("N",) else found

    monkeypatch.setattr(row_axis.FurtherAxis, "value", wrong)
    with pytest.raises(TilewrightError, match="stores other numbers in y"):
        with_rows(module)
