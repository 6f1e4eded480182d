"""Programs whose streamed axis is one tile: one iteration, nothing carried, the same meaning."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tilewright.base.element import Element
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import loops, the_program
from tilewright.synth.streaming import streamed
from tilewright.synth.streaming.whole import in_one_tile

sys.path.insert(0, str(Path(__file__).parents[2] / "lower"))
from tests.lower.cascade_programs import PROGRAMS, dims_of


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_meaning_is_the_same(name):
    elements = {each.name: each.element or Element.BF16 for each in PROGRAMS[name].parameters}
    module = trace(PROGRAMS[name], dims_of(name, 5, 6, 8, 8), elements)
    found = streamed(the_program(module))
    assert found is not None
    whole = in_one_tile(the_program(module), found.axis)
    (loop,) = loops(the_program(whole))
    assert loop.whole is not None and loop.axis.data == found.axis
    random = np.random.default_rng(0)
    buffers = [each for each in PROGRAMS[name].parameters]
    stored = evaluate(module, arrays := _arrays(random, module), rounded=False)
    again = evaluate(whole, arrays, rounded=False)
    assert len(buffers) == len(arrays) + len(stored)
    for result, wanted in stored.items():
        assert np.allclose(again[result], wanted, rtol=1e-12, atol=1e-12, equal_nan=True)


def _arrays(random, module):
    from tilewright.frontends.tile.reference import DTYPES
    from tilewright.ir.tile.facts import buffers

    inputs = [each for each in buffers(the_program(module)) if each.role == "input"]
    return {each.name: random.standard_normal(each.shape).astype(DTYPES[each.element]) for each in inputs}


def test_the_text_reads_again():
    from xdsl.parser import Parser

    from tilewright.ir import context

    kernel = PROGRAMS["matmul_softmax"]
    module = trace(kernel, {"M": 5, "N": 6, "K": 8}, dict.fromkeys("xwy", Element.BF16))
    whole = in_one_tile(the_program(module), "N")
    again = Parser(context(), str(whole)).parse_module()
    assert str(again) == str(whole)
    assert loops(the_program(again))[0].whole is not None
