# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Matrices that epilogues read two columns at a time: which, values on the CPU machine, and what is not proven."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lower.lowered_programs import assert_close, lower, random_inputs
from xdsl.dialects.builtin import IntAttr

import tilewright.frontends.tile.language as tw
from tilewright.base.verdict import Proven, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import int_array
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


def residual(shift):
    @tw.kernel
    def kernel(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], r: tw.Tensor["M", "N"], c: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[j, k].T)
        c[i, j] = acc + r[i + 1, j + shift]

    return kernel


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 100),
    st.integers(1, 100),
    st.sampled_from([0, 2, -2, -4, 1]),
    st.sampled_from([tw.bf16, tw.f16, tw.f32]),
    st.sampled_from([0, 1, 2]),
)
def test_values(m, n, shift, element, gap):
    lowered = lower(
        residual(shift),
        {"M": m, "N": n, "K": 24},
        {"r": element},
        {"r": (n + gap, 1)},
        Wanted((64, 64), swapped=False),
    )
    assert lowered.decisions.paired_loads == (() if n % 2 or shift % 2 or gap % 2 else ("r",))
    (module,) = lowered.kernels[-1:]
    assert isinstance(verify(module, HOPPER), Proven)
    assert_close(lowered, random_inputs(lowered))


@pytest.mark.parametrize(
    "options",
    [
        {"strides": {"r": (1, 64)}},
        {"wanted": Wanted((64, 64), misaligned=("r",), swapped=False)},
        {"wanted": Wanted((64, 64), swapped=True)},
    ],
)
def test_matrices_that_are_read_one_by_one(options):
    assert lower(residual(0), {"M": 64, "N": 64, "K": 64}, **options).decisions.paired_loads == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [("shape", int_array([64, 63])), ("strides", int_array([65, 1])), ("strides", int_array([64, 2]))],
)
def test_pairs_that_may_be_torn_are_not_proven(name, value):
    lowered = lower(residual(0), {"M": 64, "N": 64, "K": 64}, wanted=Wanted((64, 64), swapped=False))
    (module,) = lowered.kernels
    array = next(op for op in module.walk() if isinstance(op, ac.GlobalOp) and op.buffer.data == "r")
    array.properties[name] = value
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown) and any("may be torn" in reason for reason in verdict.reasons)


def test_pairs_that_begin_between_two_are_not_proven():
    lowered = lower(residual(2), {"M": 64, "N": 64, "K": 64}, wanted=Wanted((64, 64), swapped=False))
    (module,) = lowered.kernels
    load = next(op for op in module.walk() if isinstance(op, ac.FragmentLoadOp))
    column = load.column.owner
    assert isinstance(column, ac.AffineOp) and column.constant.data == 2
    column.properties["constant"] = IntAttr(1)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown) and any("may be torn" in reason for reason in verdict.reasons)
