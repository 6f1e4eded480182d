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


def test_no_part_ends_within_a_page():
    assert [cut.parts for cut in splits(paged(256), 4.0)] == [4, 2]
    # Parts of 256 keys are half a page.
    assert [cut.parts for cut in splits(paged(512), 4.0)] == [2]


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
