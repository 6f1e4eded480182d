"""The tile dialect as text: it round-trips, and its verifiers refuse programs that no author could have written.

Each wrong program is a correct one with one replacement.
"""

import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.test import Test
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from tilewright.base.element import Element
from tilewright.base.size import parse_size
from tilewright.ir import context
from tilewright.ir.function import Function
from tilewright.ir.tile.operations import ConstantOp, FullOp, FunctionAttr
from tilewright.ir.tile.rules import place_of, violations
from tilewright.ir.tile.types import ELEMENT_TYPES, IndexType, RuleViolation, TensorType, ValueType

PROGRAM = """builtin.module {
  tile.program @matmul ["a", "b", "c"] axes {M = 64 : i64, K = 16 : i64, N = 32 : i64} at "m.py:1" {
  ^bb0(%a: !tile.tensor<["M", "K"], [64, 16], [16, 1], bf16>, %b: !tile.tensor<["K", "N"], [16, 32], [32, 1], bf16>, \
%c: !tile.tensor<["M", "N"], [64, 32], [32, 1], bf16>):
    %i, %j = tile.grid ["M", "N"] at "m.py:2" : !tile.index<"M">, !tile.index<"N">
    %zero = tile.full 0.000000e+00 : f32 at "m.py:3" : !tile.value<["M", "N"], f32>
    %sum = tile.loop "K"(%zero) at "m.py:4" : !tile.value<["M", "N"], f32> -> !tile.value<["M", "N"], f32> {
    ^bb1(%k: !tile.index<"K">, %acc: !tile.value<["M", "N"], f32>):
      %k1 = tile.shift %k by 1 : i64 at "m.py:5" : !tile.index<"K">
      %x = tile.load %a[%i, %k1] at "m.py:5" : !tile.tensor<["M", "K"], [64, 16], [16, 1], bf16>, \
!tile.index<"M">, !tile.index<"K"> -> !tile.value<["M", "K"], bf16>
      %y = tile.load %b[%k, %j] at "m.py:5" : !tile.tensor<["K", "N"], [16, 32], [32, 1], bf16>, \
!tile.index<"K">, !tile.index<"N"> -> !tile.value<["K", "N"], bf16>
      %dot = tile.dot %x, %y, %acc at "m.py:5" : !tile.value<["M", "K"], bf16>, !tile.value<["K", "N"], bf16>, \
!tile.value<["M", "N"], f32> -> !tile.value<["M", "N"], f32>
      tile.yield %dot : !tile.value<["M", "N"], f32>
    }
    %half = tile.constant 5.000000e-01 : f32 at "m.py:6" : !tile.value<[], f32>
    %halves = tile.broadcast %half at "m.py:6" : !tile.value<[], f32> -> !tile.value<["M", "N"], f32>
    %scaled = tile.binary mul %sum, %halves at "m.py:6" : !tile.value<["M", "N"], f32>
    %turned = tile.transpose %scaled at "m.py:6" : !tile.value<["M", "N"], f32> -> !tile.value<["N", "M"], f32>
    %back = tile.transpose %turned at "m.py:6" : !tile.value<["N", "M"], f32> -> !tile.value<["M", "N"], f32>
    %gelu = tile.unary gelu %back at "m.py:6" : !tile.value<["M", "N"], f32>
    %cast = tile.cast %gelu at "m.py:6" : !tile.value<["M", "N"], f32> -> !tile.value<["M", "N"], bf16>
    tile.store %cast, %c[%i, %j] at "m.py:6" : !tile.value<["M", "N"], bf16>, \
!tile.tensor<["M", "N"], [64, 32], [32, 1], bf16>, !tile.index<"M">, !tile.index<"N">
    tile.return
  }
}"""


def parsed(text):
    return Parser(context(), text, "<text>").parse_module()


def test_text_round_trips():
    module = parsed(PROGRAM)
    module.verify()
    assert str(module).replace("^bb1", "^bb0") == PROGRAM.replace("^bb1", "^bb0")


def test_the_generic_form_round_trips():
    text = StringIO()
    Printer(stream=text, print_generic_format=True).print_op(parsed(PROGRAM))
    module = parsed(text.getvalue())
    module.verify()
    assert str(module) == str(parsed(PROGRAM))


def test_every_op_but_terminators_carries_its_place():
    ops = [op for op in parsed(PROGRAM).walk() if op.name.startswith("tile.")]
    assert len(ops) == 18
    unplaced = {op.name for op in ops if not re.fullmatch(r"m\.py:\d", place_of(op))}
    assert unplaced == {"tile.yield", "tile.return"}


SECOND_STORE = PROGRAM[PROGRAM.index("    tile.store") : PROGRAM.index("    tile.return")]
SECOND_GRID = '    %p, %q = tile.grid ["M", "N"] at "m.py:9" : !tile.index<"M">, !tile.index<"N">\n'


NINE_INDICES = "(" + ", ".join(f'!tile.index<"{axis}">' for axis in "ABCDEFGHI") + ")"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # program
        ('["a", "b", "c"] axes', '["a", "b"] axes', "2 names for 3 tensors"),
        ('["a", "b", "c"] axes', '["a", "b", "b"] axes', "3 names for 3 tensors"),
        ("K = 16 : i64", "K = 17 : i64", "parameter a over (M, K) has shape (64, 16)"),
        ("K = 16 : i64, ", "", "parameter a over (M, K) has shape (64, 16)"),
        ("N = 32 : i64", 'N = 32 : i64, Z = "8"', "the extent of axis Z is"),
        ("N = 32 : i64", "N = 32 : i64, Z = -1 : i64", "axis Z has extent -1"),
        ("    tile.return\n", SECOND_STORE + "    tile.return\n", "c is stored twice"),
        (SECOND_STORE, "", "the program stores nothing"),
        ("    tile.return\n", SECOND_GRID + "    tile.return\n", "the program has two grids"),
        ("    tile.return\n", "", "tile.store terminates block in single-block region but is not a terminator"),
        # grid
        ('tile.grid ["M", "N"]', 'tile.grid ["N", "M"]', "a grid over (N, M) yields other indices"),
        ('tile.grid ["M", "N"]', 'tile.grid ["M", "M"]', "names an axis twice"),
        # loop
        ('"K"(%zero)', '"N"(%zero)', "dot contracts K inside a loop over N"),
        ("yield %dot", "yield %acc", "a value carried by the loop over K never changes"),
        ("yield %dot", "yield %zero", "a value carried by the loop over K is not just added to"),
        ("%x, %y, %acc at", "%x, %y, %zero at", "a value carried by the loop over K is not just added to"),
    ],
)
def test_wrong_programs_are_refused(old, new, message):
    assert PROGRAM.count(old) >= 1
    with pytest.raises(VerifyException, match=re.escape(message)):
        parsed(PROGRAM.replace(old, new)).verify()


VALUE = "!tile.value"
MN = f'{VALUE}<["M", "N"], f32>'


def op_text(body):
    """A module with one op, its operands made by unknown ops, so that the op's own verifier is what speaks."""
    arguments = {
        "%mn": MN,
        "%nm": f'{VALUE}<["N", "M"], f32>',
        "%n": f'{VALUE}<["N"], f32>',
        "%mk": f'{VALUE}<["M", "K"], bf16>',
        "%kn": f'{VALUE}<["K", "N"], bf16>',
        "%kn16": f'{VALUE}<["K", "N"], f16>',
        "%mn16": f'{VALUE}<["M", "N"], bf16>',
        "%i": '!tile.index<"M">',
        "%j": '!tile.index<"N">',
        "%t": '!tile.tensor<["M", "N"], [8, 8], [8, 1], bf16>',
    }
    declared = "\n".join(f'{name} = "test.op"() : () -> {type_}' for name, type_ in arguments.items())
    used = re.findall(r"%\w+", body[body.index("(") : body.index(")")])
    types = ", ".join(arguments[name] for name in used)
    return f"builtin.module {{\n{declared}\n{body.format(types=types)}\n}}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            '%r = "tile.load"(%t, %j, %i) <{{place = "p:1"}}> : ({types}) -> !tile.value<["M", "N"], bf16>',
            "a tensor over (M, N) is read at (N, M)",
        ),
        ('%r = "tile.load"(%t, %i, %j) <{{place = "p:1"}}> : ({types}) -> ' + MN, "a load from"),
        (
            '"tile.store"(%mn, %t, %i, %j) <{{place = "p:1"}}> : ({types}) -> ()',
            "a tile of f32 is stored to a tensor of bf16",
        ),
        (
            '"tile.store"(%nm, %t, %i, %j) <{{place = "p:1"}}> : ({types}) -> ()',
            "a tile over (N, M) is stored to a tensor over (M, N)",
        ),
        ('"tile.store"(%mn16, %t, %i) <{{place = "p:1"}}> : ({types}) -> ()', "is stored at (M)"),
        ('%r = "tile.broadcast"(%nm) <{{place = "p:1"}}> : ({types}) -> ' + MN, "does not broadcast to (M, N)"),
        ('%r = "tile.broadcast"(%mn) <{{place = "p:1"}}> : ({types}) -> ' + MN, "does not broadcast to (M, N)"),
        (
            '%r = "tile.broadcast"(%n) <{{place = "p:1"}}> : ({types}) -> !tile.value<["M", "N"], bf16>',
            "a broadcast of",
        ),
        ('%r = "tile.transpose"(%n) <{{place = "p:1"}}> : ({types}) -> !tile.value<["N"], f32>', "has no transpose"),
        ('%r = "tile.transpose"(%mn) <{{place = "p:1"}}> : ({types}) -> ' + MN, "a transpose of"),
        ('%r = "tile.cast"(%nm) <{{place = "p:1"}}> : ({types}) -> ' + MN, "a cast of"),
        (
            '%r = "tile.unary"(%mn) <{{place = "p:1", function = #tile<function add>}}> : ({types}) -> ' + MN,
            "add takes 2 operands, not 1",
        ),
        (
            '%r = "tile.unary"(%mn16) <{{place = "p:1", function = #tile<function exp>}}> : ({types}) -> '
            '!tile.value<["M", "N"], bf16>',
            "exp works on",
        ),
        (
            '%r = "tile.binary"(%mn, %mn) <{{place = "p:1", function = #tile<function exp>}}> : ({types}) -> ' + MN,
            "exp takes 1 operands, not 2",
        ),
        (
            '%r = "tile.binary"(%mn, %nm) <{{place = "p:1", function = #tile<function add>}}> : ({types}) -> ' + MN,
            "!tile.value",
        ),
        ('%r = "tile.dot"(%mk, %mk, %mn) <{{place = "p:1"}}> : ({types}) -> ' + MN, "dot of tiles over"),
        ('%r = "tile.dot"(%mk, %kn16, %mn) <{{place = "p:1"}}> : ({types}) -> ' + MN, "dot of bf16 with f16"),
        ('%r = "tile.dot"(%mk, %kn, %nm) <{{place = "p:1"}}> : ({types}) -> ' + MN, "a product over (M, N) is added"),
        (
            '%r = "tile.full"() <{{value = 0.0 : f32, place = "p:1"}}> : () -> !tile.value<[], f32>',
            "an accumulator has type",
        ),
        (
            '%r = "tile.full"() <{{value = 0.0 : f32, place = "p:1"}}> : () -> !tile.value<["M"], bf16>',
            "an accumulator has type",
        ),
        (
            '%r = "tile.constant"() <{{value = 0.0 : f32, place = "p:1"}}> : () -> !tile.value<["M"], f32>',
            "a constant has type",
        ),
        ('%r = "tile.full"() <{{value = 0.0 : f32}}> : () -> ' + MN, "place"),
        (
            '%r:9 = "tile.grid"() <{{axes = ["A", "B", "C", "D", "E", "F", "G", "H", "I"], place = "p:1"}}> : () -> '
            + NINE_INDICES,
            "a grid over (A, B, C, D, E, F, G, H, I) has 9 axes",
        ),
    ],
)
def test_wrong_ops_are_refused(body, message):
    op = Parser(with_unknown_ops(), op_text(body), "<text>").parse_module().body.block.last_op
    op.detach()  # so that the place it stands in is not what is wrong
    with pytest.raises(VerifyException, match=re.escape(message)):
        op.verify()


def with_unknown_ops():
    loaded = context()
    loaded.load_dialect(Test)
    return loaded


def test_a_dot_contracts_the_axis_of_its_loop():
    text = PROGRAM.replace('"K"(%zero)', '"L"(%zero)').replace('^bb1(%k: !tile.index<"K">', '^bb1(%k: !tile.index<"L">')
    text = text.replace("%k1 = tile.shift %k", "%k1 = tile.shift %kk").replace("%b[%k, %j]", "%b[%k1, %j]")
    text = text.replace("      %k1", '      %kk = "test.op"() : () -> !tile.index<"K">\n      %k1')
    with pytest.raises(RuleViolation, match="dot contracts K inside a loop over L") as caught:
        Parser(with_unknown_ops(), text, "<text>").parse_module().verify()
    assert caught.value.remedy == "loop over K, or contract L"


def test_a_carried_value_is_read_once_only():
    text = PROGRAM.replace(
        "      tile.yield",
        '      %bad = tile.unary exp %dot at "m.py:5" : !tile.value<["M", "N"], f32>\n      tile.yield',
    )
    with pytest.raises(RuleViolation, match="is read before the loop ends"):
        parsed(text).verify()


def test_values_are_used_after_they_are_computed():
    module = parsed(PROGRAM)
    (program,) = module.ops
    block = program.body.block
    gelu = next(op for op in block.ops if op.name == "tile.unary")
    gelu.detach()
    block.insert_op_before(gelu, block.first_op)
    with pytest.raises(RuleViolation, match=r"tile\.unary uses a value that is not computed before it"):
        module.verify()


def test_a_loops_values_stay_in_it():
    module = parsed(PROGRAM)
    (program,) = module.ops
    loop = next(op for op in module.walk() if op.name == "tile.loop")
    shift = next(op for op in module.walk() if op.name == "tile.shift")
    shift.result.replace_all_uses_with(shift.index)
    shift.detach()
    program.body.block.insert_op_after(shift, loop)
    with pytest.raises(RuleViolation, match=r"tile\.shift uses a value that is not computed before it"):
        module.verify()


def test_violations_name_the_op_to_blame():
    module = parsed(
        PROGRAM.replace("    tile.return\n", SECOND_STORE.replace("m.py:6", "m.py:7") + "    tile.return\n")
    )
    (program,) = module.ops
    found = list(violations(program))
    assert [(place_of(op), str(violation)) for op, violation in found] == [("m.py:7", "c is stored twice")]
    assert found[0][1].remedy == "store each tensor once"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('!tile.tensor<["M"], [8], [0], bf16>', "has strides (0,)"),
        ('!tile.tensor<["M"], [-1], [1], bf16>', "has shape (-1,)"),
        ('!tile.tensor<["M"], [8, 8], [8, 1], bf16>', "has 2 extents and 2 strides"),
        ("!tile.tensor<[], [], [], bf16>", "a tensor has no axis"),
        ('!tile.tensor<["M", "M"], [8, 8], [8, 1], bf16>', "names an axis twice"),
        ('!tile.value<["A", "B", "C", "D", "E", "F"], bf16>', "has 6 axes"),
        ('!tile.tensor<["M/0"], [8], [1], bf16>', "has an axis 'M/0'"),
        ('!tile.tensor<["M"], [8], [1], f64>', "f64 is not an element of tile programs"),
        ('!tile.tensor<["M"], [2147483649], [1], bf16>', "spans 2147483649 elements"),
        ('!tile.value<["M"], i16>', "i16 is not an element of tile programs"),
        ('!tile.value<["M", "M"], f32>', "names an axis twice"),
    ],
)
def test_wrong_types_are_refused(text, message):
    with pytest.raises(Exception, match=re.escape(message)) as caught:
        Parser(context(), text, "<text>").parse_type()
    assert isinstance(caught.value, VerifyException | ParseError)


def test_unknown_functions_are_refused():
    with pytest.raises(ParseError, match="no elementwise function is called sine"):
        parsed(PROGRAM.replace("unary gelu", "unary sine"))


@pytest.mark.parametrize("function", Function)
def test_functions_round_trip(function):
    attribute = FunctionAttr(function)
    assert str(attribute) == f"#tile<function {function.value}>"
    assert Parser(context(), str(attribute)).parse_attribute() == attribute
    assert function.arity in (1, 2, 3)


@given(
    st.lists(st.tuples(st.sampled_from("MNKL"), st.integers(1, 99), st.integers(1, 999)), min_size=1, max_size=2),
    st.sampled_from(list(ELEMENT_TYPES)),
)
def test_types_round_trip_and_tell_their_parts(dimensions, element):
    axes, shape, strides = zip(*dimensions, strict=True)
    if len(set(axes)) < len(axes):
        return
    tensor = TensorType.of(axes, shape, strides, element)
    assert (tensor.axis_names, tensor.extents, tensor.stride_elements) == (axes, shape, strides)
    assert tensor.element_kind is element
    value = ValueType.of(axes, element)
    for type_ in (tensor, value, IndexType.of(axes[0])):
        assert Parser(context(), str(type_)).parse_type() == type_


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 12)), min_size=1, max_size=2),
)
def test_injective_tensors_have_no_two_elements_at_one_address(dimensions):
    shape, strides = zip(*dimensions, strict=True)
    tensor = TensorType.of(("M", "N")[: len(shape)], shape, strides, Element.BF16)
    addresses = [0]
    for extent, stride in dimensions:
        addresses = [address + stride * at for address in addresses for at in range(extent)]
    if tensor.is_injective:
        assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize("shape_strides", [((4, 6), (6, 1)), ((4, 6), (1, 4)), ((1, 6), (1, 1)), ((4, 1), (3, 1))])
def test_dense_and_degenerate_tensors_are_injective(shape_strides):
    assert TensorType.of(("M", "N"), *shape_strides, Element.BF16).is_injective


@pytest.mark.parametrize("number", [float("nan"), 3.4028236e38])
def test_constants_are_float32(number):
    for make in (lambda: ConstantOp(number, "p:1"), lambda: FullOp(number, ("M",), "p:1")):
        with pytest.raises(RuleViolation, match="is not a finite float32"):
            make()


@pytest.mark.parametrize("number", [float("inf"), float("-inf")])
def test_infinities_are_constants_and_what_derived_loops_start_from(number):
    text = f"builtin.module {{\n  {ConstantOp(number, 'p:1')!s}\n}}\n"
    (op,) = Parser(context(), text).parse_module().ops
    assert isinstance(op, ConstantOp) and op.value.value.data == number
    assert FullOp(number, ("M",), "p:1").value.value.data == number


@pytest.mark.parametrize("number", ["0x7f800000", "0xff800000"])
def test_no_accumulator_of_a_written_loop_is_infinite(number):
    assert PROGRAM.count("tile.full 0.000000e+00") == 1
    with pytest.raises(VerifyException, match="starts from an infinity"):
        parsed(PROGRAM.replace("tile.full 0.000000e+00", f"tile.full {number}")).verify()


def test_the_largest_float32_is_a_constant():
    assert ConstantOp(3.4028234663852886e38, "p:1").value.value.data == 3.4028234663852886e38


def test_strides_may_follow_from_the_extents() -> None:
    kind = TensorType.of(("B", "T", "E"), (3, 700, 64), (parse_size("T * 64"), 64, 1), Element.BF16)
    assert str(kind) == '!tile.tensor<["B", "T", "E"], [3, 700, 64], ["T * 64", 64, 1], bf16>'
    assert Parser(context(), str(kind)).parse_attribute() == kind
    assert kind.stride_elements == (44800, 64, 1) and kind.stride_sizes[0] == parse_size("T * 64")
    shorter = TensorType.of(kind.axis_names, (3, 5, 64), kind.stride_sizes, Element.BF16)
    assert shorter.stride_elements == (320, 64, 1)
    for text in ("Q * 64", "T - 700", "T +"):
        with pytest.raises((VerifyException, ParseError)):
            Parser(context(), str(kind).replace("T * 64", text)).parse_attribute()
