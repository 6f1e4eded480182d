"""The form of `ac` texts: what is written reads again as the same kernel, numbers are plain, mistakes are named."""

from __future__ import annotations

import re

import pytest
from tests.ac_samples import NAMES, TARGET, TRACED, equal, modules_of, tile_of
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr, i32
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from tilewright.ir import context
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.dialect import Ac
from tilewright.ir.ac.format import AcOperation
from tilewright.ir.ac.names import name_values
from tilewright.ir.ac.text import ac_text
from tilewright.ir.plain_attributes import parse_value, value_text

LINE_MOST = 220


def parse(text: str) -> ModuleOp:
    return Parser(context(), text).parse_module()


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_reads_again_as_the_same_kernel(name: str) -> None:
    for module in modules_of(name):
        bare = parse(str(module))
        assert equal(bare, module)
        name_values(bare)
        named = str(bare)
        again = parse(named)
        assert equal(again, module)
        assert str(again) == named


@pytest.mark.sample(18)
@pytest.mark.parametrize("name", NAMES)
def test_pages_can_be_read(name: str) -> None:
    text = ac_text(modules_of(name), TARGET)
    assert "builtin.int" not in text and '"ac.' not in text and "<{" not in text
    assert not re.search(r"%\d", text), "a value without a name"
    assert max(map(len, text.splitlines())) <= LINE_MOST


def test_the_sample_has_every_operation_and_type() -> None:
    """So an operation whose form does not read again can't be added unnoticed."""
    operations: set[type[Operation]] = set()
    types: set[type[Attribute]] = set()
    for name in NAMES:
        for module in modules_of(name):
            for op in module.walk():
                operations.add(type(op))
                types |= {type(value.type) for value in (*op.operands, *op.results)}
                types |= {type(each.type) for region in op.regions for each in region.block.args}
                types |= {kind for each in op.properties.values() for kind in _kinds(each)}
    assert [op.name for op in Ac.operations if op not in operations] == []
    assert [kind.name for kind in Ac.attributes if kind not in types] == []
    assert all(issubclass(op, AcOperation) for op in Ac.operations)


def _kinds(attribute: Attribute) -> set[type[Attribute]]:
    """Of a property, and of an array's elements."""
    inner = attribute.data if isinstance(attribute, ArrayAttr) else ()
    return {type(attribute)}.union(*(_kinds(each) for each in inner))


@pytest.mark.sample(17)
@pytest.mark.parametrize("name", TRACED)
def test_tile_programs_read_again_too(name: str) -> None:
    tile = tile_of(name)
    assert equal(parse(str(tile)), tile)


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        (IntAttr(-4), "-4"),
        (StringAttr("bf16"), "bf16"),
        (StringAttr("128B"), '"128B"'),
        (StringAttr('a "b"\\'), '"a \\22b\\22\\\\"'),
        (StringAttr("größe"), '"gr\\C3\\B6\\C3\\9Fe"'),
        (ArrayAttr([]), "[]"),
        (ArrayAttr([IntAttr(1), ArrayAttr([StringAttr("x")])]), "[1, [x]]"),
        (DictionaryAttr({}), "{}"),
        (DictionaryAttr({"K": IntAttr(64), "a b": StringAttr("")}), '{K = 64, "a b" = ""}'),
        (IntegerAttr(3, i32), "<3 : i32>"),
        (UnitAttr(), "<unit>"),
        (StringAttr("unit"), "unit"),
        (StringAttr("true"), "true"),
    ],
)
def test_attributes_are_written_plainly(attribute: Attribute, text: str) -> None:
    assert value_text(attribute) == text
    assert parse_value(Parser(context(), text)) == attribute


RING = """
ac.kernel @k [
    symbols = {K = 4}, minima = {K = 1}, grid = [1, 1, 1], cluster = [1, 1, 1], block = [128, 1, 1],
    dynamic_smem_bytes = 32, launch_registers = 0] {
  %r = ac.ring @r [stages = 2, full_arrivals = 1, empty_arrivals = 1, address = 0]
  ac.role @reader [execution = #tier.exec<warpgroup128, count = 1, first_thread = 0>, registers = 0] (%unit) {
    %start = ac.cursor.start full %r
    %end = ac.loop over K [begin = 0] (%k) carrying (%cursor = %start) {
      %phase = ac.mbarrier.wait full ring(%r) cursor(%cursor) [invert_parity = 0]
      ac.mbarrier.arrive %phase [peers = 1]
      %sum = ac.affine 64 * %k + -8 * %unit + 3
      %next = ac.advance %cursor
      ac.yield %next
    }
  }
}
"""


def test_a_hand_written_kernel_is_read_as_meant() -> None:
    module = parse(RING)
    module.verify()
    by_class = {type(op): op for op in module.walk()}
    wait, affine, loop = by_class[ac.BarrierWaitOp], by_class[ac.AffineOp], by_class[ac.LoopOp]
    assert isinstance(wait, ac.BarrierWaitOp) and isinstance(affine, ac.AffineOp) and isinstance(loop, ac.LoopOp)
    assert wait.result.type == ac.PhaseType(StringAttr("r"), StringAttr("full"))
    assert [each.data for each in affine.coefficients] == [64, -8] and affine.constant.data == 3
    assert [str(each.type) for each in loop.body.block.args] == ["!ac.index", "!ac.cursor<r>"]
    assert [str(each) for each in loop.result_types] == ["!ac.cursor<r>"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%phase = ac.mbarrier.wait full ring(%r) cursor(%cursor) [invert_parity = 0]",
         "%phase = ac.mbarrier.wait full ring(%r) cursor(%cursor) [invert_parity = 0] -> !ac.phase<r, empty>"),
        ("(%cursor = %start)", "(%cursor: !ac.cursor<other> = %start)"),
        ("(%k)", "(%k: !ac.scalar_type)"),
        ("address = 0]", "address = 0] -> !ac.ring_type<other, stages = 7>"),
    ],
)  # fmt: skip
def test_types_that_do_not_follow_are_written(old: str, new: str) -> None:
    module = parse(RING.replace(old, new))
    assert not equal(module, parse(RING))
    assert equal(parse(str(module)), module)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("stages = 2", "stage = 2", "no attribute stage; did you mean stages"),
        ("stages = 2, ", "", "ac.ring lacks stages"),
        ("stages = 2", "stages = 2, stages = 3", "ac.ring has stages twice"),
        ("ring(%r) ", "", "lacks its operand ring"),
        ("ring(%r)", "ring(%r, %r)", "ring of ac.mbarrier.wait is one value, not 2"),
        ("cursor(%cursor)", "cursor(%cursr)", "%cursr is not defined before this use; did you mean %cursor"),
        ("full %r", "full %start", "%start is not defined before this use"),
        ("over K", "for K", "Expected 'over'"),
        ("ac.advance %cursor", "ac.advance %cursor -> !ac.cursor<r>, !ac.index", "has 1 results, not 2"),
        ("#tier.exec<warpgroup128, count = 1", "#tier.exec<warpgroup128, number = 1", "expected count, not number"),
        ("ac.yield %next", "ac.yields %next", "ac.yields is not registered"),
        ("{K = 4}", "{K = 4, K = 5}", "a name twice"),
    ],
)
def test_mistakes_are_named(old: str, new: str, said: str) -> None:
    with pytest.raises(ParseError, match=re.escape(said)):
        parse(RING.replace(old, new, 1))


def test_an_operation_that_lacks_what_the_form_needs_is_still_shown() -> None:
    assert "ac.cursor.start" in str(ac.CursorStartOp.create())
    assert "ac.wgmma.wait" in str(ac.WgmmaWaitOp.create())
    assert "ac.affine" in str(ac.AffineOp.create(result_types=[ac.IndexType()]))
