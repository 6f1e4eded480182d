"""Streamed programs mean what the programs mean that they were derived from, for every size of tile."""

from io import StringIO

import numpy as np
import pytest
from tests.synth.streaming.programs import PROGRAMS
from tests.synth.streaming.streamed_inputs import inputs
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.frontends.tile.reference import evaluate
from tilewright.ir import context
from tilewright.ir.tile.facts import grid_axes, loops, the_program
from tilewright.synth.streaming import streamed


@pytest.fixture(scope="module")
def results():
    found = {}
    for name, (build, _, _) in PROGRAMS.items():
        module = build()
        found[name] = module, streamed(the_program(module))
    return found


@pytest.mark.sample(14)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_axis_and_the_number_of_walks(name, results):
    _, axis, walks = PROGRAMS[name]
    _, found = results[name]
    assert (found.axis, found.walks) == (axis, walks)
    program = the_program(found.module)
    assert len(loops(program)) == walks
    assert axis not in grid_axes(program)
    assert len(found.waits) >= walks - 1
    assert all(wait.place.startswith("m.py:") and wait.reason for wait in found.waits)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_numbers_for_any_tile(name, results):
    module, found = results[name]
    arrays = inputs(module)
    expected = evaluate(module, arrays, rounded=False)
    extent = the_program(module).extents[found.axis]
    for elements in range(1, extent + 1):
        actual = evaluate(found.module, arrays, rounded=False, tile_elements={found.axis: elements})
        for output, values in expected.items():
            np.testing.assert_allclose(actual[output], values, rtol=1e-12, atol=1e-13, err_msg=f"{elements}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_round_trips(name, results):
    _, found = results[name]
    text = StringIO()
    Printer(stream=text).print_op(found.module)
    again = Parser(context(), text.getvalue()).parse_module()
    again.verify()
    assert again.is_structurally_equivalent(found.module)
