"""The reader of MLIR text: every op at its line, in the printed forms of several dialects and in the generic form."""

from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.frontends.mlir.ast import walk
from tilewright.frontends.mlir.reader import arguments_of, read_mlir
from tilewright.frontends.mlir.types import shaped, split_types

DATA = Path(__file__).parent.parent / "data" / "ttgir"

TEXT = """\
// a comment
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false}>
#loc1 = loc("kernel.py":3:1)
module attributes {"ttg.num-ctas" = 1 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32} loc("a"(#loc1)), %n: i32) {
    %c-1_i32 = arith.constant -1 : i32 loc(#loc1)
    %0:2 = scf.for %i = %c-1_i32 to %n step %n iter_args(%x = %n, %y = %a) -> (i32, !tt.ptr<f16>) : i32 {
      %s = arith.addi %x, %i : i32
      scf.yield %s, %y : i32, !tt.ptr<f16>
    } {tt.num_stages = 3 : i32}
    %r = "tt.reduce"(%0#0) <{axis = 0 : i32}> ({
    ^bb0(%p: f32 loc("p"), %q: f32):
      tt.reduce.return %p : f32
    }) : (i32) -> f32
    scf.if %flag {
      tt.print "text with %value and {" : i32
    } else {
    }
    ttg.warp_specialize(%n) attributes {requestedRegisters = array<i32: 40>}
    default {
      ttg.warp_yield
    }
    partition0(%arg: i32) num_warps(4) {
      ttg.warp_return
    } : (i32) -> ()
    ttng.tc_gen5_mma %a, %b, %d[%t], %u, %v, %bar[%w] {is_async} : !ttg.memdesc<1xi64, #shared>, i32
    tt.return
  }
}
"""


@pytest.fixture(scope="module")
def operations():
    document = read_mlir(TEXT, "f.mlir")
    assert document.aliases["#shared"].startswith("#ttg.nvmma_shared<{")
    return {(each.name, each.line): each for each in document.walk()}


def test_every_operation_is_found_at_its_line(operations):
    assert [name for name, _ in operations] == [
        "module", "tt.func", "arith.constant", "scf.for", "arith.addi", "scf.yield", "tt.reduce", "tt.reduce.return",
        "scf.if", "tt.print", "ttg.warp_specialize", "ttg.warp_yield", "ttg.warp_return", "ttng.tc_gen5_mma",
        "tt.return",
    ]  # fmt: skip
    assert [line for _, line in operations][:5] == [4, 5, 6, 7, 8]


def test_names_types_and_attributes(operations):
    module = operations["module", 4]
    assert module.attributes == {"ttg.num-ctas": "1:i32", "ttg.target": '"cuda:90"'}
    function = operations["tt.func", 5]
    assert [(each.name, each.type) for each in arguments_of(function.tokens)] == [("a", "!tt.ptr<f16>"), ("n", "i32")]
    constant = operations["arith.constant", 6]
    assert (constant.results, constant.types, constant.location) == (("c-1_i32",), "i32", "#loc1")
    loop = operations["scf.for", 7]
    assert loop.results == ("0#0", "0#1")
    assert loop.uses == ("i", "c-1_i32", "n", "n", "x", "n", "y", "a")
    assert loop.attributes == {"tt.num_stages": "3:i32"}


def test_regions(operations):
    reduce = operations["tt.reduce", 11]
    assert [each.name for each in reduce.regions[0].arguments] == ["p", "q"]
    assert reduce.uses == ("0#0",) and reduce.types == "(i32)->f32"
    branch = operations["scf.if", 15]
    assert [len(region.operations) for region in branch.regions] == [1, 0]
    assert branch.regions[1].label == "else"
    special = operations["ttg.warp_specialize", 19]
    assert [region.label for region in special.regions] == ["default", "partition0"]
    assert special.regions[1].arguments[0].name == "arg"
    assert "num_warps(4)" in special.regions[1].header
    assert special.uses == ("n",)


def test_operands_with_brackets(operations):
    product = operations["ttng.tc_gen5_mma", 26]
    assert product.uses == ("a", "b", "d", "t", "u", "v", "bar", "w")
    assert product.attributes == {"is_async": ""}
    assert product.types == "!ttg.memdesc<1xi64,#shared>,i32"


def test_types():
    memory = shaped("!ttg.memdesc<3x128x64xf16,#shared,#smem,mutable>")
    assert memory is not None and memory.shape == (3, 128, 64) and memory.size_bytes == 3 * 128 * 64 * 2
    small = shaped("!ttg.memdesc<128xf8E4M3FN,#shared>")
    assert small is not None and small.size_bytes == 128
    assert shaped("!tt.tensordesc<tensor<64x32xbf16,#s>>").shape == (64, 32)
    assert shaped("memref<?xf32>") is None
    assert split_types("(!a<1,2>,i32)->!b<3>") == ("(!a<1,2>,i32)", "!b<3>")


@pytest.mark.parametrize("path", sorted(DATA.glob("*.ttgir")), ids=lambda path: path.stem)
def test_real_modules_are_read(path):
    text = path.read_text()
    document = read_mlir(text, path.name)
    lines = text.splitlines()
    for operation in document.walk():
        assert operation.name in lines[operation.line - 1]
    functions = [each for top in document.operations for each in walk(top) if each.name == "tt.func"]
    assert len(functions) == 1 and functions[0].regions


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("module {\n  %x = \n}\n", 3),
        ("module {\n  tt.return\n", 2),
        ("module {\n  ttg.x %a) : i32\n}\n", 2),
        ("module {\n  ttg.x(%a] : i32\n}\n", 2),
        ("\x00", 1),
        ("%x:99999999999 = a.b\n", 1),
        ("}\n", 1),
        ("a.b " + "(" * 1000 + ")" * 1000, 1),
        ("a.b {\n" * 1000 + "}\n" * 1000, 201),
    ],
)
def test_damaged_text_is_refused_with_its_line(text, line):
    with pytest.raises(TilewrightError) as error:
        read_mlir(text, "bad.mlir")
    assert error.value.span is not None and abs(error.value.span.line - line) <= 1
