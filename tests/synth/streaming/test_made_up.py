"""Programs are compared by numbers at which they store numbers, where there are such."""

import math
import random
from functools import partial

from tests.synth.streaming.programs import attention, attention_with_logarithms
from tests.synth.streaming.tracing import Program, log, neg

from tilewright.ir.tile.facts import the_program
from tilewright.synth.streaming.made_up import drawn, points
from tilewright.synth.streaming.meaning import meaning

EXTENTS = {"B": 1, "H": 1, "Q": 1, "T": 3, "E": 1, "F": 1, "M": 2}


def compared_by(module, seed):
    program = the_program(module)
    of = partial(meaning, program, EXTENTS, cut=())
    return list(points(program, EXTENTS, random.Random(seed), of))


def are_numbers(stored):
    return not any(math.isnan(each.about) for array in stored.values() for each in array.flat)


def test_logarithms_are_of_positive_numbers_besides():
    found = [compared_by(attention_with_logarithms(), seed) for seed in range(20)]
    assert all(are_numbers(each[-1][1]) for each in found if len(each) == 2)
    assert sum(are_numbers(each[-1][1]) for each in found) >= 15
    assert any(len(each) == 2 for each in found)


def test_a_program_that_stores_numbers_is_compared_once():
    (first,) = compared_by(attention(), 0)
    assert are_numbers(first[1])


def test_what_is_never_a_number_is_compared_too():
    p = Program(M=2)
    x = p.load("x", "M")
    p.store(log(neg(x * x)), "y", "M")
    (only,) = compared_by(p.module(), 0)
    assert not are_numbers(only[1])


def test_numbers_have_both_signs_unless_asked_for_one():
    chance = random.Random(0)
    assert {drawn(chance).about > 0 for _ in range(50)} == {True, False}
    assert {drawn(chance, (1,)).about > 0 for _ in range(50)} == {True}
