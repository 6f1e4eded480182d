"""Loops that the compiler derives: what may stand in them, and what may not."""

from io import StringIO

import pytest
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.ir import context

X, Y, ROW = (
    '!tile.tensor<["M", "N"], [3, 7], [7, 1], f32>',
    '!tile.tensor<["M", "N"], [3, 7], [7, 1], f32>',
    '!tile.value<["M"], f32>',
)
WIDE = '!tile.value<["M", "N"], f32>'
ROWS, COLUMNS = '!tile.index<"M">', '!tile.index<"N">'
PROGRAM = f"""builtin.module {{
  tile.program @shares ["x", "y"] axes {{M = 3 : i64, N = 7 : i64}} at "m.py:1" {{
  ^bb0(%x: {X}, %y: {Y}):
    %i = tile.grid ["M"] at "m.py:2" : {ROWS}
    %zero = tile.full 0.000000e+00 : f32 at "m.py:3" : {ROW}
    %sum = tile.loop "N" streamed(%zero) at "m.py:3" : {ROW} -> {ROW} {{
    ^bb1(%j: {COLUMNS}, %old: {ROW}):
      %a = tile.load %x[%i, %j] at "m.py:3" : {X}, {ROWS}, {COLUMNS} -> {WIDE}
      %part = tile.reduce add %a over "N" at "m.py:3" : {WIDE} -> {ROW}
      %new = tile.binary add %old, %part at "m.py:3" : {ROW}
      tile.yield %new : {ROW}
    }}
    tile.loop "N" streamed() at "m.py:4" : -> {{
    ^bb2(%j2: {COLUMNS}):
      %a2 = tile.load %x[%i, %j2] at "m.py:4" : {X}, {ROWS}, {COLUMNS} -> {WIDE}
      %wide = tile.broadcast %sum at "m.py:4" : {ROW} -> {WIDE}
      %share = tile.binary div %a2, %wide at "m.py:4" : {WIDE}
      tile.store %share, %y[%i, %j2] at "m.py:4" : {WIDE}, {Y}, {ROWS}, {COLUMNS}
      tile.yield :
    }}
    tile.return
  }}
}}
"""


def parsed(text):
    return Parser(context(), text).parse_module()


def test_loops_that_fold_and_loops_that_store_round_trip():
    module = parsed(PROGRAM)
    module.verify()
    text = StringIO()
    Printer(stream=text).print_op(module)
    assert parsed(text.getvalue()).is_structurally_equivalent(module)


WRONG = {
    "a fold in a loop that is written": ('"N" streamed(%zero)', '"N" (%zero)', "is not just added to|inside a loop"),
    "an axis that is not walked": (
        '    tile.loop "N" streamed() at',
        f'    %w = tile.broadcast %sum at "m.py:4" : {ROW} -> {WIDE}\n    tile.loop "N" streamed() at',
        r"a tile over \(M, N\) where only \(M\) are walked",
    ),
    "an axis of the grid": (
        f'%i = tile.grid ["M"] at "m.py:2" : {ROWS}',
        f'%i, %k = tile.grid ["M", "N"] at "m.py:2" : {ROWS}, {COLUMNS}',
        "an axis of the grid",
    ),
    "a store that is not the tile's own": (
        'tile.store %share, %y[%i, %j2] at "m.py:4"',
        f'%s = tile.shift %j2 by 1 : i64 at "m.py:4" : {COLUMNS}\n      tile.store %share, %y[%i, %s] at "m.py:4"',
        "stored in each iteration|outside the program's own tile",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_loops_are_refused(name):
    old, new, message = WRONG[name]
    assert PROGRAM.count(old) == 1
    text = PROGRAM.replace(old, new)
    with pytest.raises(VerifyException, match=message):
        parsed(text).verify()
