"""Programs whose keys lie in pages, in parts and cut in two: what is written, and what refutes it."""

import pytest
from examples.fused import decode_in_pages, gathered_matmul
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade_facts import contractions
from tilewright.ir.tile.facts import buffers, gathers, the_program
from tilewright.ir.tile.types import read_type
from tilewright.synth.cut.certificate import require_same
from tilewright.synth.cut.handover import cuts
from tilewright.synth.cut.split import in_parts, splits
from tilewright.synth.joining.row_axis import with_rows

DIMS = {"B": 2, "H": 8, "T": 1024, "E": 16, "F": 16, "P": 9}


def traced(kernel, dims):
    return trace(kernel, dims, {each.name: each.element or Element.BF16 for each in kernel.parameters})


def paged(page: int):
    return the_program(with_rows(traced(decode_in_pages(page), {**DIMS, "S": page})))


@pytest.mark.parametrize("page", [16, pytest.param(64, marks=pytest.mark.full)])
def test_parts_are_whole_pages(page):
    program = paged(page)
    cut = in_parts(program, "T", 4)
    require_same(program, cut)
    before = the_program(cut.programs[0])
    found = gathers(before)
    assert all(read_type(each.result).axis_names[0] == "T_parts" for each in found) and len(found) == 2
    table = next(each for each in buffers(before) if each.name == "table")
    assert table.shape == (4, 2, 256 // page) and table.strides == (256 // page, 1024 // page, 1)


def test_parts_are_whole_pages_or_divide_one():
    def parts(page: int) -> list[int]:
        return [cut.parts for cut in splits(paged(page), 4.0, lambda each: abs(each.count - 4.0))]

    assert set(parts(256)) == {4, 2, 8}
    # Parts of 256 keys are half a page, those of 128 a quarter.
    assert set(parts(512)) == {4, 2, 8}
    # A third of the keys is neither.
    assert 3 not in parts(256)


def test_a_part_that_goes_by_other_pages_is_refuted():
    """One that reads the first half of each page twice."""
    program = paged(16)
    cut = in_parts(program, "T", 4)
    for op in gathers(the_program(cut.programs[0])):
        op.properties["places"] = ArrayAttr([StringAttr("[0]"), StringAttr("T%8"), *list(op.places)[2:]])
    with pytest.raises(TilewrightError, match="stores other numbers"):
        require_same(program, cut)


def test_rows_by_number_are_laid_out_before_a_product():
    program = the_program(traced(gathered_matmul, {"R": 9, "M": 12, "N": 8, "K": 16}))
    found = [cut for cut in cuts(program) if not contractions(the_program(cut.programs[0]))]
    assert len(found) == 1
    require_same(program, found[0])
    before, after = map(the_program, found[0].programs)
    assert len(gathers(before)) == 1 and not gathers(after)


@pytest.mark.parametrize(("page", "parts"), [(256, 8), pytest.param(64, 32, marks=pytest.mark.full)])
def test_parts_may_divide_a_page(page, parts):
    program = paged(page)
    cut = in_parts(program, "T", parts)
    require_same(program, cut)
    before, step = the_program(cut.programs[0]), 1024 // parts
    in_page = page // step
    for op in gathers(before):
        assert [each.data for each in op.places][:3] == ["[0]", f"T_parts%{in_page}", "T"]
        assert read_type(op.result).axis_names[0] == "T_parts"
    table, keys = (next(each for each in buffers(before) if each.name == name) for name in ("table", "K"))
    assert table.shape == (2, 1024 // page) and table.strides == (1024 // page, 1)
    assert keys.shape[1:3] == (in_page, step) and keys.strides[1:3] == (step * 32, 32)


def test_parts_of_a_page_in_another_order_are_refuted():
    """Each reads the part of the page that is its page's number."""
    program = paged(256)
    cut = in_parts(program, "T", 8)
    for op in gathers(the_program(cut.programs[0])):
        op.properties["places"] = ArrayAttr([StringAttr("[0]"), StringAttr("[0]"), *list(op.places)[2:]])
    with pytest.raises(TilewrightError, match="stores other numbers"):
        require_same(program, cut)
