"""Every operand and result of random products takes the cheapest legal way: in place where the rules allow it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.legal.tensor_map.tensormap import violations
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

HOPPER = target("sm_90a")

extent = st.sampled_from([1, 2, 5, 8, 16, 63, 64, 100, 255, 256, 1023, 1024, 4097])
layout = st.tuples(st.booleans(), st.integers(0, 9), st.sampled_from([1, 1, 1, 2]))
"""(column-major?, elements from a dense pitch to the real one, stride of the inner axis)."""


def strides_of(rows, columns, chosen):
    by_columns, more, inner_stride = chosen
    pitch = ((rows if by_columns else columns) + more) * inner_stride
    return (inner_stride, pitch) if by_columns else (pitch, inner_stride)


def decided(dims, strides, misaligned=()):
    module = trace(matmul_kernel, dims, dict.fromkeys("abc", Element.BF16), strides)
    decisions = decide(the_program(module), HOPPER, Wanted(misaligned=misaligned, unmapped="workspace"))
    assert isinstance(decisions, PipelineDecisions)
    return decisions


def describable(extents, strides):
    """Written from the driver's documentation: an axis of neighbours, the other at a multiple of 16 bytes."""
    pairs = list(zip(extents, strides, strict=True))
    for (inner_extent, inner), (outer_extent, outer) in (pairs, pairs[::-1]):
        if (inner == 1 or inner_extent == 1) and (outer * 2 % 16 == 0 or outer_extent == 1):
            return True
    return False


@settings(max_examples=60, deadline=None)
@given(extent, extent, extent, layout, layout, layout, st.sets(st.sampled_from("abc")))
def test_an_operand_is_copied_exactly_where_no_map_describes_it(m, n, k, a, b, c, misaligned):
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    strides = {name: strides_of(*shapes[name], chosen) for name, chosen in zip("abc", (a, b, c), strict=True)}
    plan = decided({"M": m, "N": n, "K": k}, strides, tuple(sorted(misaligned)))
    for operand in (plan.a, plan.b):
        name = {"left": "a", "right": "b"}[operand.side]
        direct = name not in misaligned and describable(shapes[name], strides[name])
        assert operand.materialized == int(not direct)
        assert not violations(operand.map.tensor_map(), HOPPER)
        assert any(reason.startswith(f"{operand.side} operand") for reason in plan.reasons) == (not direct)
    (store,) = plan.stores
    if store.path == "tma":
        assert not violations(store.map.tensor_map(), HOPPER)
        assert "c" not in misaligned and store.map.dims[0] % 8 == 0
    else:
        assert any(reason.startswith("store of c by plain stores") for reason in plan.reasons)


def test_a_copy_reads_along_its_sources_rows():
    """Where neither axis is dense, the workspace's rows run along the narrower stride."""
    for strides, major in (((8194, 2), "K"), ((2, 8194), "MN")):
        plan = decided({"M": 256, "N": 64, "K": 64}, {"a": strides})
        assert (plan.a.materialized, plan.a.major) == (1, major)


def test_a_slice_of_a_larger_array_is_read_in_place():
    """Keys of a fused projection: rows 3 x 4096 apart, of which each is a third."""
    plan = decided({"M": 2048, "N": 1024, "K": 4096}, {"a": (3 * 4096, 1)})
    assert plan.a.materialized == 0 and plan.a.map.strides_bytes == (2 * 3 * 4096,)
    odd = decided({"M": 2048, "N": 1024, "K": 4096}, {"a": (3 * 4096 + 1, 1)})
    assert odd.a.materialized == 1
    (reason,) = [words for words in odd.reasons if words.startswith("left operand")]
    assert "row stride 24578 bytes is not a multiple of 16" in reason and "rows of 8192 bytes" in reason


KEY = "tensor_map.stride_limit_bytes"
NARROW = replace(HOPPER, facts={**HOPPER.facts, KEY: replace(HOPPER.fact(KEY), value=4096)})
"""A target whose strides end at 4096 bytes."""


def decided_narrowly(m, k):
    module = trace(matmul_kernel, {"M": m, "N": 64, "K": k}, dict.fromkeys("abc", Element.BF16), {})
    return decide(the_program(module), NARROW, Wanted(swapped=False))


def test_a_copy_turns_the_rows_where_only_turned_ones_have_a_map():
    plan = decided_narrowly(64, 4095)
    assert (plan.a.materialized, plan.a.major, plan.a.map.strides_bytes) == (1, "MN", (128,))


def test_where_no_workspace_has_a_map_the_error_names_repairs():
    with pytest.raises(TilewrightError, match=r"no legal tensor map for the left operand.*8192") as caught:
        decided_narrowly(4096, 4095)
    assert "one of: " in caught.value.remedy
