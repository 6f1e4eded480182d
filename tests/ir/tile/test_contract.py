"""Contractions in the tile dialect: their text round-trips, and what does not multiply is refused."""

import re
from io import StringIO

import pytest
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.base.element import Element
from tilewright.ir import context
from tilewright.ir.tile.contract import ContractOp, contracted_axes
from tilewright.ir.tile.types import RuleViolation, ValueType

PROGRAM = """builtin.module {
  tile.program @products ["x", "w", "y", "z"] axes {M = 64 : i64, N = 32 : i64, K = 16 : i64} at "m.py:1" {
  ^bb0(%x: !tile.tensor<["M", "K"], [64, 16], [16, 1], bf16>, %w: !tile.tensor<["N", "K"], [32, 16], [16, 1], bf16>, \
%y: !tile.tensor<["M", "N"], [64, 32], [32, 1], f32>, %z: !tile.tensor<["M"], [64], [1], f32>):
    %i, %j, %k = tile.grid ["M", "N", "K"] at "m.py:2" : !tile.index<"M">, !tile.index<"N">, !tile.index<"K">
    %a = tile.load %x[%i, %k] at "m.py:3" : !tile.tensor<["M", "K"], [64, 16], [16, 1], bf16>, \
!tile.index<"M">, !tile.index<"K"> -> !tile.value<["M", "K"], bf16>
    %b = tile.load %w[%j, %k] at "m.py:3" : !tile.tensor<["N", "K"], [32, 16], [16, 1], bf16>, \
!tile.index<"N">, !tile.index<"K"> -> !tile.value<["N", "K"], bf16>
    %c = tile.contract %a, %b over "K" at "m.py:4" : !tile.value<["M", "K"], bf16>, !tile.value<["N", "K"], bf16> \
-> !tile.value<["M", "N"], f32>
    tile.store %c, %y[%i, %j] at "m.py:5" : !tile.value<["M", "N"], f32>, \
!tile.tensor<["M", "N"], [64, 32], [32, 1], f32>, !tile.index<"M">, !tile.index<"N">
    %s = tile.reduce add %c over "N" at "m.py:6" : !tile.value<["M", "N"], f32> -> !tile.value<["M"], f32>
    tile.store %s, %z[%i] at "m.py:6" : !tile.value<["M"], f32>, !tile.tensor<["M"], [64], [1], f32>, \
!tile.index<"M">
    tile.return
  }
}
"""


def parsed(text: str):
    return Parser(context(), text).parse_module()


def test_text_round_trips():
    module = parsed(PROGRAM)
    module.verify()
    text = StringIO()
    Printer(stream=text).print_op(module)
    assert text.getvalue().split() == PROGRAM.split()
    assert parsed(text.getvalue()).is_structurally_equivalent(module)


WRONG = {
    "another axis": ('over "K" at "m.py:4"', 'over "N" at "m.py:4"', r"summed over N"),
    "no axis of the grid": (
        'tile.grid ["M", "N", "K"]',
        'tile.grid ["M", "N", "L"]',
        "the grid's axis L has no extent|yields other indices",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_refused(name):
    old, new, message = WRONG[name]
    assert PROGRAM.count(old) == 1
    with pytest.raises(VerifyException, match=message):
        parsed(PROGRAM.replace(old, new)).verify()


@pytest.mark.parametrize(
    "given",
    [
        ValueType.of(("M", "K"), Element.F32),
        ValueType.of(("M",), Element.F32),
        ValueType.of(("M", "N"), Element.BF16),
    ],
)
def test_other_results_are_refused(given):
    right = next(op for op in parsed(PROGRAM).walk() if isinstance(op, ContractOp))
    wrong = ContractOp.create(operands=right.operands, properties=dict(right.properties), result_types=[given])
    with pytest.raises(RuleViolation, match=r"a product over \(M, N\) gives"):
        wrong.verify_()


def tile(*axes, element=Element.BF16):
    return ValueType.of(axes, element)


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (tile("M", "K"), tile("N", "K"), {"M", "N"}),
        (tile("B", "K", "M"), tile("B", "N", "K"), {"B", "M", "N"}),
        (tile("K"), tile("K"), set()),
        (tile("H", "Q", "K"), tile("H/4", "T", "K"), {"H", "Q", "T"}),
        (tile("H/4", "K"), tile("H/4", "K"), {"H/4"}),
        (tile("M", "K", element=Element.F32), tile("N", "K"), {"M", "N"}),
        (tile("M", "K"), tile("N", "K", element=Element.F32), {"M", "N"}),
        (tile("M", "K", element=Element.F8E4M3), tile("N", "K", element=Element.F8E4M3), {"M", "N"}),
    ],
)
def test_axes_of_both_operands_stay_but_for_the_one_that_is_summed_over(left, right, wanted):
    assert contracted_axes(left, right, "K") == wanted


@pytest.mark.parametrize(
    ("left", "right", "message", "remedy"),
    [
        (tile("M"), tile("N", "K"), r"\(M\) and \(N, K\) summed over K", "name an axis that both have"),
        (tile("M", "K/2"), tile("N", "K"), "summed over K", "name an axis that both have"),
        (tile("M", "K"), tile("N", "K", element=Element.F16), "of bf16 and f16", "cast one of them"),
        (
            tile("M", "K", element=Element.F32),
            tile("N", "K", element=Element.F32),
            "of f32, which no tensor core multiplies exactly",
            r"cast one with .to\(tw.bf16\)",
        ),
    ],
)
def test_what_does_not_multiply_is_refused_with_a_remedy(left, right, message, remedy):
    with pytest.raises(RuleViolation, match=message) as caught:
        contracted_axes(left, right, "K")
    assert re.search(remedy, caught.value.remedy)


def test_several_results_need_the_axes_they_depend_on_alone():
    """N is no axis of `z` once nothing folds it: `y` has it, and the program names all of its axes."""
    fold = '%s = tile.reduce add %c over "N" at "m.py:6" : !tile.value<["M", "N"], f32> -> !tile.value<["M"], f32>'
    other = (
        '%l = tile.load %v[%i] at "m.py:6" : !tile.tensor<["M"], [64], [1], f32>, !tile.index<"M"> -> '
        '!tile.value<["M"], f32>\n'
        '    %s = tile.unary exp %l at "m.py:6" : !tile.value<["M"], f32>'
    )
    text = PROGRAM.replace(fold, other).replace('"y", "z"]', '"y", "z", "v"]')
    text = text.replace(
        '%z: !tile.tensor<["M"], [64], [1], f32>):',
        '%z: !tile.tensor<["M"], [64], [1], f32>, %v: !tile.tensor<["M"], [64], [1], f32>):',
    )
    parsed(text).verify()
