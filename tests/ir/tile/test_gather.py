"""Arrays that tables lead to: what an op says of places, what it refuses, and its text."""

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.parser import Parser

from tilewright.base.element import Element
from tilewright.ir import context
from tilewright.ir.tile.gather import Direct, GatherOp, Remainder, Table, blocks_along, gathered_axes
from tilewright.ir.tile.types import RuleViolation, TensorType


def tensor(axes: str, *shape: int, element: Element = Element.BF16) -> TensorType:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return TensorType.of(axes.split(), shape, strides, element)


def gather(*places: str, axes: str = "B T H E", table: TensorType | None = None) -> GatherOp:
    kind = table or tensor("B T/64", 2, 3, element=Element.S32)
    block = Block(arg_types=[tensor("P S H E", 7, 64, 2, 16), kind])
    op = GatherOp(block.args[0], [block.args[1]], places, axes.split(), "here:1")
    block.add_op(op)
    return op


def test_places_of_a_page_table():
    op = gather("[0]", "T%64", "H", "E")
    op.verify()
    page, row, head, element = (each.where for each in op.dimensions)
    assert isinstance(page, Table) and page.axes == ("B", "T/64")
    assert row == Remainder("T", 64) and row.blocks == "T/64"
    assert (head, element) == (Direct("H"), Direct("E"))
    assert [each.stride for each in op.dimensions] == [2048, 32, 16, 1]
    assert gathered_axes(op.dimensions) == ("B", "T", "H", "E")
    assert blocks_along(op.dimensions, "T") == (64,) and blocks_along(op.dimensions, "B") == (1,)


def test_what_only_blocks_tell_apart_stays_over_blocks():
    op = gather("[0]", "S", "H", "E", axes="B T/64 S H E")
    op.verify()
    assert gathered_axes(op.dimensions) == ("B", "T/64", "S", "H", "E")


@pytest.mark.parametrize(
    ("places", "axes", "words"),
    [
        (("[0]", "T%64", "H"), "B T H E", "gathered at 3 places"),
        (("[0]", "T%64", "E", "H"), "B T H E", "is read at E along H"),
        (("[0]", "T%32", "H", "E"), "B T H E", "read at places in blocks of 32"),
        (("[1]", "T%64", "H", "E"), "B T H E", "none of 1 tables"),
        (("[0]", "T%64", "H", "E"), "B T H", "is declared over"),
        (("[0]", "T%64", "H", "E"), "B T/64 H E", "is declared over"),
    ],
)
def test_what_is_refused(places, axes, words):
    with pytest.raises(RuleViolation, match=words.replace("[", "\\[")):
        gather(*places, axes=axes).verify_()


def test_tables_hold_integers():
    with pytest.raises(RuleViolation, match="where no integers say"):
        gather("[0]", "T%64", "H", "E", table=tensor("B T/64", 2, 3, element=Element.F32)).verify_()


def test_the_text_is_read_back():
    table = '!tile.tensor<["B", "T/64"], [2, 3], [3, 1], i32>'
    pool = '!tile.tensor<["P", "S", "E"], [7, 64, 16], [1024, 16, 1], bf16>'
    text = (
        f'"test.op"() ({{\n^bb0(%k: {pool}, %t: {table}):\n'
        f'  %0 = tile.gather %k places ["[0]", "T%64", "E"] by %t : {table} at "a:1" : {pool} -> '
        '!tile.gathered<["B", "T", "E"], bf16>\n}) : () -> ()'
    )
    read = context()
    read.allow_unregistered = True
    module = Parser(read, text).parse_module()
    assert isinstance(module, ModuleOp)
    again = context()
    again.allow_unregistered = True
    assert str(Parser(again, str(module)).parse_module()) == str(module)
