"""What along a row is emitted in a quicker form, as results of few bits do not show its error (`ir.tile.narrow`).

exp(x) is 2^(x log2 e). x / s is (x c) (1 / (s c)), to which is added what it leaves of x c, divided in the same way: so
it is rounded as the quotient is, but where that is subnormal. c is a power of 2 that keeps the reciprocal of a very
small or very large s finite and normal: 2^64 where s is below 2^-96 in size, by which only x overflow whose quotients
do; and 2^-64 where it is above 2^96, by which only x vanish in part whose quotients vanish. Where anything is infinite
or NaN, the product gives what a quotient does. Checked by: tests/lower/points/test_narrow_rows.py.
"""

from __future__ import annotations

import math

from xdsl.ir import Operation, SSAValue

from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.narrow import is_simplified
from tilewright.ir.tile.repeats import in_order, is_computed_tile
from tilewright.lower.build import Build
from tilewright.lower.expression import constant, point_value, scalar_function

_LOG2E = math.log2(math.e)
_SMALL, _LARGE = 2.0**-96, 2.0**96
"""Between them, a divisor's reciprocal is a normal float32, and further products are as near as one."""
_APART = 2.0**64


def emit_simplified(build: Build, value: SSAValue, axis: str, leaves: dict[SSAValue, SSAValue]) -> None:
    """Emit what has a quicker form of an expression, the inner operations first."""
    for each in in_order(value, lambda each: is_computed_tile(each) and each not in leaves):
        owner = each.owner
        if each in leaves or not isinstance(owner, Operation) or not is_simplified(owner, axis):
            continue
        operands = [point_value(build, operand, leaves) for operand in owner.operands]
        if isinstance(owner, tile.UnaryOp):
            exponent = _function(build, Function.MUL, operands[0], constant(build, _LOG2E))
            leaves[each] = _function(build, Function.EXP2, exponent)
        else:
            leaves[each] = _quotient(build, *operands)


def _quotient(build: Build, dividend: SSAValue, divisor: SSAValue) -> SSAValue:
    factor, scaled, reciprocal = _reciprocal(build, divisor)
    dividend = _function(build, Function.MUL, dividend, factor)
    guess = _function(build, Function.MUL, dividend, reciprocal)
    opposite = _function(build, Function.SUB, constant(build, 0.0), scaled)
    left = _function(build, Function.FMA, guess, opposite, dividend)
    nearer = _function(build, Function.FMA, left, reciprocal, guess)
    # What is left of a zero is not less, so that it keeps its sign; nor is NaN, which is left of what is infinite.
    less = _function(build, Function.LT, _function(build, Function.ABS, left), _function(build, Function.ABS, dividend))
    return _function(build, Function.WHERE, less, nearer, guess)


def _reciprocal(build: Build, divisor: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """(c, s c, 1 / (s c))."""
    size = _function(build, Function.ABS, divisor)
    small = _function(build, Function.LT, size, constant(build, _SMALL))
    large = _function(build, Function.LT, constant(build, _LARGE), size)
    factor = _function(build, Function.WHERE, large, constant(build, 1 / _APART), constant(build, 1.0))
    factor = _function(build, Function.WHERE, small, constant(build, _APART), factor)
    scaled = _function(build, Function.MUL, divisor, factor)
    return factor, scaled, _function(build, Function.DIV, constant(build, 1.0), scaled)


def _function(build: Build, function: Function, *operands: SSAValue) -> SSAValue:
    return scalar_function(build, function.value, *operands)
