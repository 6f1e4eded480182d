"""Copies of 8-bit arrays that are widened: both programs mean what the one did, and are taken where that is quicker."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.lower.narrow_programs import attention, sizes
from xdsl.dialects.builtin import ModuleOp

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.sequence import sequence
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.types import tensor_type
from tilewright.synth.cut.widened_before import widened_before
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

CACHE = attention(tw.bf16, widened=tw.bf16, sharing=2)


def traced(kernel: tw.Kernel, dims: dict[str, int]) -> ModuleOp:
    return trace(kernel, dims, elements_of(kernel, "bf16"), None)


def test_the_copy_and_the_program_of_the_copy_mean_the_same() -> None:
    """Of heads in groups, which are blocks of an axis."""
    module = traced(CACHE, sizes(3, 5, 16, heads=4))
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for name, shape in (("q", (1, 4, 3, 16)), ("k", (1, 2, 5, 16)), ("v", (1, 2, 5, 16))):
        kind = ml_dtypes.bfloat16 if name == "q" else ml_dtypes.float8_e4m3fn
        arrays[name] = random.standard_normal(shape).astype(kind)
    found = widened_before(module, "k")
    assert found is not None
    copy, rest = found
    copied = evaluate(copy, {"k": arrays["k"]})
    ((workspace, values),) = copied.items()
    np.testing.assert_array_equal(values, arrays["k"].astype(np.float64))
    after = evaluate(rest, {"q": arrays["q"], "v": arrays["v"], workspace: values})
    np.testing.assert_array_equal(after["o"], evaluate(module, arrays)["o"])
    at = [each.data for each in the_program(rest).parameters].index(workspace)
    assert tensor_type(the_program(rest).body.block.args[at]).element_kind is Element.BF16


@pytest.mark.parametrize("name", ["q", "o", "nothing"])
def test_what_is_not_widened_is_not_copied(name: str) -> None:
    assert widened_before(traced(CACHE, sizes(3, 5, 16, heads=4)), name) is None


@pytest.mark.parametrize(
    ("queries", "wanted", "kinds"),
    [
        (4096, Wanted(), [ElementwiseDecisions, ElementwiseDecisions, CascadeDecisions]),
        (4096, Wanted(cut=False), [CascadeDecisions]),
    ],
)
def test_many_tiles_of_rows_have_it_widened_before(queries: int, wanted: Wanted, kinds: list[type]) -> None:
    kernel = attention(tw.bf16, widened=tw.bf16)
    module = traced(kernel, sizes(queries, 4096, 128, heads=16, batch=4))
    parts = sequence(module, target("sm_90a"), wanted)
    assert [type(part.decisions) for part in parts] == kinds
