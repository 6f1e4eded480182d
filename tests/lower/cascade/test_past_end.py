"""One bound for all where the walked axis ends: numbers that would show a missing one, on the CPU machine.

Past the end, K's rows are 0 and so are scores. A weight there would be exp(0 - bound): infinite where a row's scores
are far below 0, and too much where they are near it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.lower.cascade_programs import PROGRAMS, dims_of
from tests.lower.lowered_programs import lower, random_inputs, reference, run

from tilewright.ir.cascade import CascadeDecisions

Arrays = Mapping[str, NDArray[Any]]


def ordinary(arrays: Arrays) -> None:
    pass


def far_below_zero(arrays: Arrays) -> None:
    """Each score is about -3200."""
    arrays["q"][...] = 20
    arrays["k"][...] = -20


def not_numbers(arrays: Arrays) -> None:
    """Of a row all scores, of another those of its first keys, of others infinite ones of either sign."""
    arrays["q"][..., 3, :] = np.nan
    arrays["q"][..., 5, 0], arrays["q"][..., 9, 0] = np.inf, -np.inf
    arrays["k"][..., 0] = np.abs(arrays["k"][..., 0]) + 1


@pytest.mark.sample(4)
@pytest.mark.parametrize("change", [ordinary, far_below_zero, not_numbers], ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", ["attention", "causal", "grouped_heads"])
def test_what_lies_past_the_end_weighs_nothing(name: str, change: Callable[[Arrays], None]) -> None:
    lowered = lower(PROGRAMS[name], dims_of(name, 70, 150))
    decisions = lowered.decisions
    assert isinstance(decisions, CascadeDecisions) and decisions.bounded_once and 150 % decisions.tile_streamed
    arrays = random_inputs(lowered)
    change(arrays)
    with np.errstate(all="ignore"):
        expected, got = reference(lowered, arrays), run(lowered, arrays)
    for result, wanted in expected.items():
        numbers = np.isfinite(wanted)
        found = got[result].astype(np.float64)
        assert np.array_equal(np.isfinite(found), numbers), result
        assert np.allclose(found[numbers], wanted[numbers], rtol=0.02, atol=0.01), result
