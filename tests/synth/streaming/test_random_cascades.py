"""Random cascades: whatever is derived, in however many walks, means what the program means."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synth.streaming.tracing import INFINITY, Program, exp, log, neg, rsqrt, sigmoid

from tilewright.base.element import Element
from tilewright.frontends.tile.reference import evaluate
from tilewright.ir.tile.facts import the_program
from tilewright.synth.streaming import streamed


class Cascade:
    """A program over M and N that draws its values: `wide` ones change along N, `narrow` ones are results."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.program = Program(M=2, N=6)
        self.wide = [self.program.load("x", "M", "N"), self.program.load("z", "N")]
        self.narrow = [self.program.load("b", "M")]

    def pick(self):
        return self.chance.choice(self.wide[-4:] + self.wide[:1])

    def result(self):
        return self.chance.choice(self.narrow[-3:])

    def grow(self):
        """One more value that changes, positive results dividing."""
        p, kind = self.program, self.chance.randrange(11)
        x = self.pick()
        if kind == 0:
            x = x * self.pick()
        elif kind == 1:
            x = x + self.pick()
        elif kind == 2:
            x = x * self.result()
        elif kind == 3:
            x = x / (exp(neg(self.result()) * 0.1) + 1.0)
        elif kind == 4:
            x = x - self.result()
        elif kind in (5, 6):
            x = p.spread(x, ("M", "N"))
            rate = self.chance.choice([1.0, 0.5, 2.0])
            x = exp((x - p.max(x, "N")) * rate)
        elif kind == 7:
            x = p.spread(x, ("M", "N"))
            x = exp(p.min(x, "N") - x)
        elif kind == 8:
            x = p.where(p.position("N") <= float(self.chance.randrange(6)), x, self.chance.choice([0.0, 1.0]))
        elif kind == 9:
            x = sigmoid(x)
        else:
            x = p.spread(p.where(p.position("N") < 3.0, x, -INFINITY), ("M", "N"))
            x = exp(x - p.max(x, "N"))
        self.wide.append(x)

    def fold(self):
        p, x = self.program, self.pick()
        x = p.spread(x, ("M", "N"))
        kind = self.chance.randrange(5)
        if kind == 0:
            self.narrow.append(p.max(x, "N"))
        elif kind == 1:
            self.narrow.append(p.min(x, "N"))
        elif kind == 2:
            self.narrow.append(log(p.sum(exp(x - p.max(x, "N")), "N")))
        elif kind == 3:
            self.narrow.append(p.sum(x, "N") * rsqrt(p.sum(x * x, "N") + 1.0))
        else:
            self.narrow.append(p.sum(x, "N"))

    def module(self):
        for _ in range(self.chance.randrange(2, 7)):
            self.grow()
            if self.chance.random() < 0.5:
                self.fold()
        self.fold()
        everything = self.narrow[0] + self.program.sum(self.wide[0] * self.wide[1], "N") * 0.0
        self.program.store(self.narrow[-1] + everything, "y", "M")
        if self.chance.random() < 0.4:
            self.program.store(self.program.spread(self.wide[-1], ("M", "N")), "t", "M", "N", element=Element.F32)
        return self.program.module()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_random_cascades(seed):
    module = Cascade(seed).module()
    found = streamed(the_program(module))
    generator = np.random.default_rng(seed)
    arrays = {
        "x": generator.normal(0, 1, (2, 6)).astype(np.float32),
        "z": generator.normal(0, 1, 6).astype(np.float32),
        "b": generator.normal(0, 1, 2).astype(np.float32),
    }
    expected = evaluate(module, arrays, rounded=False)
    for size in (1, 2, 4, 6):
        actual = evaluate(found.module, arrays, rounded=False, tile_elements={"N": size})
        for name, values in expected.items():
            scale = 1e-9 * max(1.0, float(np.nanmax(np.abs(values), initial=0.0)))
            np.testing.assert_allclose(actual[name], values, rtol=1e-7, atol=scale)
