"""Exact numbers keep the laws of fields and of exp, and follow IEEE 754 where they are not finite."""

import itertools
import math
import random
from fractions import Fraction

import pytest

from tilewright.ir.function import Function
from tilewright.synth.streaming.exact import FUNCTIONS, NAN, PRIMES, ZERO, exact, special

INF = math.inf


def numbers(count, seed=0):
    chance = random.Random(seed)
    return [exact(Fraction(chance.randint(-400, 400), 2 ** chance.randint(0, 8))) for _ in range(count)]


def test_the_primes_are_a_chain():
    for prime, following in itertools.pairwise(PRIMES):
        assert prime == 2 * following + 1
    for prime in PRIMES:
        assert all(pow(base, prime - 1, prime) == 1 for base in (2, 3, 5, 7, 11))
    for prime, following in itertools.pairwise(PRIMES):
        assert pow(4, following, prime) == 1


def test_laws_of_a_field_and_of_exp():
    exp, exp2 = FUNCTIONS[Function.EXP], FUNCTIONS[Function.EXP2]
    for a, b, c in zip(numbers(40), numbers(40, 1), numbers(40, 2), strict=True):
        assert ((a + b) * c).same(a * c + b * c)
        assert (a / c * c).same(a) or c.is_zero
        assert exp(a + b).same(exp(a) * exp(b))
        assert exp(a - a).same(exact(1.0))
        small, other = exp(a / exact(512.0)), exp(b / exact(512.0))
        assert exp(small + other).same(exp(small) * exp(other))
        assert exp2(a + b).same(exp2(a) * exp2(b)) and not exp2(a + exact(1.0)).same(exp(a + exact(1.0)))
        assert not exp(a + exact(1.0)).same(exp(a))
    assert exact(0.1).same(exact(Fraction(0.1)))


def test_wrong_laws_do_not_hold():
    log, tanh = FUNCTIONS[Function.LOG], FUNCTIONS[Function.TANH]
    for a, b in zip(numbers(20), numbers(20, 1), strict=True):
        assert not tanh(a + b).same(tanh(a) + tanh(b)) or a.is_zero or b.is_zero
        assert tanh(a + b).same(tanh(b + a))
    assert not log(exact(2.0)).same(log(exact(3.0)))


@pytest.mark.parametrize(
    ("function", "operands", "result"),
    [
        (Function.EXP, (-INF,), 0.0),
        (Function.EXP, (INF,), INF),
        (Function.SUB, (-INF, -INF), math.nan),
        (Function.MUL, (0.0, INF), math.nan),
        (Function.MUL, (-2.0, INF), -INF),
        (Function.DIV, (1.0, 0.0), INF),
        (Function.DIV, (-1.0, 0.0), -INF),
        (Function.DIV, (0.0, 0.0), math.nan),
        (Function.DIV, (1.0, INF), 0.0),
        (Function.DIV, (INF, -2.0), -INF),
        (Function.DIV, (INF, INF), math.nan),
        (Function.MAX, (1.0, math.nan), math.nan),
        (Function.MAX, (-INF, 1.0), 1.0),
        (Function.MIN, (-INF, 1.0), -INF),
        (Function.LOG, (0.0,), -INF),
        (Function.LOG, (-1.0,), math.nan),
        (Function.RSQRT, (0.0,), INF),
        (Function.RSQRT, (INF,), 0.0),
        (Function.LE, (1.0, math.nan), 0.0),
        (Function.LE, (1.0, 1.0), 1.0),
        (Function.LT, (-INF, 1.0), 1.0),
        (Function.EQ, (-INF, -INF), 1.0),
        (Function.WHERE, (0.0, math.nan, 2.0), 2.0),
        (Function.SIGMOID, (-INF,), 0.0),
        (Function.SILU, (-INF,), math.nan),
        (Function.ABS, (-INF,), INF),
        (Function.RELU, (-3.0,), 0.0),
    ],
)
def test_what_is_not_finite(function, operands, result):
    assert FUNCTIONS[function](*map(exact, operands)).same(exact(result))


def test_every_function_has_a_meaning():
    assert set(FUNCTIONS) == set(Function)


def test_sameness():
    assert NAN.same(NAN) and special(INF).same(special(INF))
    assert not special(INF).same(special(-INF)) and not ZERO.same(NAN)
