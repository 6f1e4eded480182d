"""Which numbers are programs compared by, that are to store the same?

Numbers are drawn, each seldom met twice, of either sign. So a root or a logarithm may be none, and neither is then what
is computed of it; programs that differ there look alike. Inputs at which a program stores something that is no number
are followed by others of which it stores numbers, if such are found: of some arrays all numbers are positive. The first
ones are compared too, since of what a mask leaves nothing there is no number either.
Checked by: tests/synth/streaming/test_made_up.py.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial

from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import buffers, gathers
from tilewright.ir.tile.gather import Direct, Remainder, Table
from tilewright.ir.tile.types import tensor_type
from tilewright.synth.streaming.exact import Exact, exact
from tilewright.synth.streaming.meaning import Array, filled

REDRAWN = 8
"""Times that inputs are drawn again for results that are numbers."""
TABLE_ROWS = 3
"""Places along a dimension where tables say."""


def drawn(chance: random.Random, signs: tuple[int, ...] = (-1, 1)) -> Exact:
    """A number that is not 0, and is seldom met twice."""
    return exact(Fraction(chance.choice(signs) * (2 * chance.randint(0, 127) + 1), 64))


def points(
    program: tile.ProgramOp,
    extents: Mapping[str, int],
    chance: random.Random,
    of: Callable[[Mapping[str, Array]], dict[str, Array]],
    number: Callable[[int], int] = int,
) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:
    """Inputs of the program and what it stores, once, or twice where that is no number somewhere. of: what it stores of
    inputs; number: as `made_up_inputs` has it."""
    for attempt in range(1 + REDRAWN):
        inputs = made_up_inputs(program, extents, chance, number, of_one_sign=attempt > 0)
        stored = of(inputs)
        are_numbers = not any(math.isnan(each.about) for array in stored.values() for each in array.flat if each)
        if attempt == 0 or are_numbers:
            yield inputs, stored
        if are_numbers:
            return


def made_up_inputs(
    program: tile.ProgramOp,
    extents: Mapping[str, int],
    chance: random.Random,
    number: Callable[[int], int] = int,
    *,
    of_one_sign: bool = False,
) -> dict[str, Array]:
    """An array of numbers for each tensor that a program loads. Integers are whole: those of tables places, and none
    once in a while; others such as elements along axes have, as lengths are, rather long ones. number: what an index of
    those axes is as a number; of_one_sign: all numbers of an array are positive, of half of the arrays."""
    found: dict[str, Array] = {}
    wider, tables = _gathered_extents(program, extents), {each for op in gathers(program) for each in op.tables}
    most = max(extents.values(), default=1)

    def length() -> Exact:
        return exact(number(max(chance.randint(-1, most + 1) for _ in range(2))))

    for argument, buffer in zip(program.body.block.args, buffers(program), strict=True):
        if buffer.role == "input":
            axes = tensor_type(argument).axis_names
            shape = [
                wider.get((argument, axis), -(-extents.get(base_axis(axis), 1) // block_size(axis))) for axis in axes
            ]
            if argument in tables:
                found[buffer.name] = filled(shape, lambda: exact(chance.randint(-1, TABLE_ROWS)))
            elif buffer.element is Element.S32:
                found[buffer.name] = filled(shape, length)
            else:
                signs = (1,) if of_one_sign and chance.random() < 0.5 else (-1, 1)
                found[buffer.name] = filled(shape, partial(drawn, chance, signs))
    return found


def _gathered_extents(program: tile.ProgramOp, extents: Mapping[str, int]) -> dict[tuple[SSAValue, str], int]:
    """Of tensors' dimensions that gathers read: where tables say, a few; of places in blocks, as many as are met."""
    found: dict[tuple[SSAValue, str], int] = {}
    for op in gathers(program):
        for axis, each in zip(tensor_type(op.tensor).axis_names, op.dimensions, strict=True):
            match each.where:
                case Table():
                    found[op.tensor, axis] = TABLE_ROWS
                case Remainder(own, size):
                    found[op.tensor, axis] = min(size, extents.get(own, 1))
                case Direct():
                    pass
    return found
