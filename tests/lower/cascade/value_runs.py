"""Programs of folds and products, and their numbers beside the reference's."""

import numpy as np
from tests.lower.cascade_programs import PROGRAMS
from tests.lower.lowered_programs import Lowered, run

from tilewright.base.element import Element
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace

UNITS = {Element.F32: 2.0**-18, Element.BF16: 2.0**-8, Element.F16: 2.0**-10}
"""Of a result of this element, the relative error allowed for its rounding."""


OPERANDS = {Element.BF16: 2.0**-8, Element.F16: 2.0**-11}
"""A computed operand is rounded to the element of the array that it meets: by up to half of this, independently for
each term of a sum. Of normal numbers, the largest of a few thousand sums is about four times as large as one is on
average, and the largest error about six deviations of one: some 0.6 of this, of the largest sum."""


def elements_of(name: str, element: Element) -> dict[str, Element]:
    return {each.name: each.element or element for each in PROGRAMS[name].parameters}


def meaning(name: str, dims, elements, arrays):
    """The results in float64, of the program as it was traced."""
    return evaluate(trace(PROGRAMS[name], dims, elements), arrays, rounded=False)


def assert_near(name: str, dims, lowered: Lowered, arrays, elements) -> None:
    expected, got = meaning(name, dims, elements, arrays), run(lowered, arrays)
    narrow = next(each for each in elements.values() if each is not Element.F32)
    for buffer in lowered.plan.buffers:
        if buffer.role == "output":
            wanted = expected[buffer.name]
            size = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-30)
            allowed = UNITS[buffer.element] * np.abs(wanted) + OPERANDS[narrow] * size
            found = got[buffer.name].astype(np.float64)
            same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
            with np.errstate(invalid="ignore"):
                assert np.all(same | (np.abs(found - wanted) <= allowed)), (buffer.name, np.abs(found - wanted).max())
