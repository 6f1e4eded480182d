"""The exact interpreter agrees with the NumPy reference, where numbers are few and small."""

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.synth.streaming.programs import PROGRAMS

from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.ir.tile.facts import buffers, the_program
from tilewright.synth.streaming import streamed
from tilewright.synth.streaming.exact import exact
from tilewright.synth.streaming.meaning import cuts, filled, meaning


@pytest.mark.sample(14)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_numbers_as_the_reference(name):
    build, axis, _ = PROGRAMS[name]
    module = build()
    program = the_program(module)
    generator = np.random.default_rng(3)
    arrays, exacts = {}, {}
    for each in buffers(program):
        if each.role == "input":
            values = generator.integers(-8, 9, each.shape) / 8
            values = np.where(values == 0, 0.5, values)
            arrays[each.name] = values.astype(DTYPES[each.element])
            numbers = iter(values.flat)
            exacts[each.name] = filled(each.shape, lambda: exact(Fraction(float(next(numbers)))))  # noqa: B023
    expected = evaluate(module, arrays, rounded=False)
    narrow = "rounded" in name
    for of, cut in ((program, (1,)), (the_program(streamed(program).module), (2, 1, 4))):
        found = meaning(of, program.extents, exacts, cut)
        for output, values in expected.items():
            about = np.vectorize(lambda number: number.about, otypes=[float])(found[output])
            np.testing.assert_allclose(about, values, rtol=1e-9, atol=1e-2 if narrow else 1e-9)
    assert program.extents[axis] == 7


def test_cuts():
    assert cuts(1) == [(1,)]
    assert sorted(cuts(3)) == [(1, 1, 1), (1, 2), (2, 1), (3,)]
    assert all(len(cuts(length)) == 2 ** (length - 1) and {math.fsum(cut) for cut in cuts(length)} == {length}
               for length in range(1, 6))  # fmt: skip
