"""Reductions in the tile dialect: their text round-trips, and what no author could have written is refused."""

from io import StringIO

import pytest
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.ir import context

PROGRAM = """builtin.module {
  tile.program @sums ["x", "y"] axes {M = 64 : i64, N = 32 : i64} at "m.py:1" {
  ^bb0(%x: !tile.tensor<["M", "N"], [64, 32], [32, 1], f32>, %y: !tile.tensor<["M"], [64], [1], f32>):
    %i, %j = tile.grid ["M", "N"] at "m.py:2" : !tile.index<"M">, !tile.index<"N">
    %a = tile.load %x[%i, %j] at "m.py:3" : !tile.tensor<["M", "N"], [64, 32], [32, 1], f32>, \
!tile.index<"M">, !tile.index<"N"> -> !tile.value<["M", "N"], f32>
    %sum = tile.reduce add %a over "N" at "m.py:4" : !tile.value<["M", "N"], f32> -> !tile.value<["M"], f32>
    tile.store %sum, %y[%i] at "m.py:5" : !tile.value<["M"], f32>, !tile.tensor<["M"], [64], [1], f32>, \
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
    "function": ("reduce add", "reduce mul", "a reduction by mul"),
    "no such axis": ('over "N"', 'over "K"', "reduced over K, which it does not have"),
    "element": (
        'reduce add %a over "N" at "m.py:4" : !tile.value<["M", "N"], f32>',
        'reduce add %h over "N" at "m.py:4" : !tile.value<["M", "N"], bf16>',
        "fold float32|a reduction of",
    ),
}


PLACES = (
    PROGRAM.replace("tile.reduce add", "tile.argreduce max")
    .replace('!tile.value<["M"], f32>', '!tile.value<["M"], i32>')
    .replace('!tile.tensor<["M"], [64], [1], f32>', '!tile.tensor<["M"], [64], [1], i32>')
)


def test_text_of_places_round_trips():
    module = parsed(PLACES)
    module.verify()
    text = StringIO()
    Printer(stream=text).print_op(module)
    assert text.getvalue().split() == PLACES.split()


WRONG_PLACES = {
    "function": ("argreduce max", "argreduce add", "a reduction by add"),
    "an element of its own": (
        '-> !tile.value<["M"], i32>\n    tile.store %sum, %y[%i] at "m.py:5" : !tile.value<["M"], i32>',
        '-> !tile.value<["M"], f32>\n    tile.store %sum, %y[%i] at "m.py:5" : !tile.value<["M"], f32>',
        "a reduction of .* gives .*f32",
    ),
    "a cast": (
        "    tile.store %sum",
        '    %f = tile.reduce add %a over "N" at "m.py:4" : !tile.value<["M", "N"], f32> -> !tile.value<["M"], f32>\n'
        '    %i32 = tile.cast %f at "m.py:4" : !tile.value<["M"], f32> -> !tile.value<["M"], i32>\n'
        "    tile.store %i32",
        "a tile of f32 becomes one of integers",
    ),
}


@pytest.mark.parametrize("name", WRONG_PLACES)
def test_wrong_places_are_refused(name):
    old, new, message = WRONG_PLACES[name]
    assert PLACES.count(old) == 1
    with pytest.raises(Exception, match=message):
        parsed(PLACES.replace(old, new)).verify()


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_refused(name):
    old, new, message = WRONG[name]
    assert PROGRAM.count(old) == 1
    cast = '    %h = tile.cast %a at "m.py:4" : !tile.value<["M", "N"], f32> -> !tile.value<["M", "N"], bf16>\n'
    text = PROGRAM.replace("    %sum", f"{cast}    %sum").replace(old, new)
    with pytest.raises(VerifyException, match=message):
        parsed(text).verify()


def test_what_is_reduced_over_is_an_axis_of_the_grid():
    wrong = PROGRAM.replace('%i, %j = tile.grid ["M", "N"]', '%i = tile.grid ["M"]').replace(
        'at "m.py:2" : !tile.index<"M">, !tile.index<"N">', 'at "m.py:2" : !tile.index<"M">'
    )
    wrong = wrong.replace("[%i, %j]", "[%i]").replace('!tile.index<"M">, !tile.index<"N"> ->', '!tile.index<"M"> ->')
    wrong = wrong.replace('<["M", "N"], [64, 32], [32, 1], f32>', '<["M"], [64], [1], f32>')
    wrong = wrong.replace('!tile.value<["M", "N"], f32>', '!tile.value<["M"], f32>')
    with pytest.raises(VerifyException, match="which it does not have"):
        parsed(wrong).verify()


def test_a_store_may_lack_only_what_is_reduced():
    wrong = PROGRAM.replace('reduce add %a over "N"', 'reduce add %a over "M"').replace(
        'f32> -> !tile.value<["M"], f32>\n    tile.store %sum, %y[%i] at "m.py:5" : !tile.value<["M"], f32>',
        'f32> -> !tile.value<["N"], f32>\n    tile.store %b, %y[%i] at "m.py:5" : !tile.value<["M"], f32>',
    )
    load = '%b = tile.load %z[%i] at "m.py:4" : !tile.tensor<["M"], [64], [1], f32>, !tile.index<"M"> -> '
    wrong = wrong.replace("    tile.store", f'    {load}!tile.value<["M"], f32>\n    tile.store')
    wrong = wrong.replace('["x", "y"]', '["x", "y", "z"]').replace(
        "[1], f32>):", '[1], f32>, %z: !tile.tensor<["M"], [64], [1], f32>):'
    )
    with pytest.raises(VerifyException, match="several programs would write the same tile"):
        parsed(wrong).verify()
