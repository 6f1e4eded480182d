"""Products over groups from Python source to values, and texts of them that were broken in one place."""

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from tests.end_to_end.expert_programs import experts, in_role, masked_experts, role_of
from xdsl.dialects.builtin import ModuleOp

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.walked import walked
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_groups import at_these_sizes, limits_of
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

HOPPER = target("sm_90a")


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(ml_dtypes.bfloat16)


def close(got: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.allclose(got.astype(np.float64), expected, rtol=2.0**-7, atol=1e-2))


def test_rows_sorted_by_expert() -> None:
    kernel = tw.compile(experts, T=150, G=4, N=72, K=80)
    x, w = normal(150, 80), normal(4, 72, 80)
    ends = np.array([0, 70, 70, 150], np.int32)
    y = kernel(x, w, ends)
    exact = x.astype(np.float64)
    expected = np.concatenate([exact[:70] @ w[1].astype(np.float64).T, exact[70:] @ w[3].astype(np.float64).T])
    assert close(y, expected)


def test_one_compilation_serves_all_sizes() -> None:
    kernel = tw.compile(experts, T=60, G=2, N=64, K=64)
    x, w = normal(60, 64), normal(2, 64, 64)
    for first in (0, 1, 59, 60):
        y = kernel(x, w, np.array([first, 60], np.int32))
        exact, weights = x.astype(np.float64), w.astype(np.float64)
        assert close(y, np.concatenate([exact[:first] @ weights[0].T, exact[first:] @ weights[1].T]))


def test_groups_of_an_array_each() -> None:
    kernel = tw.compile(masked_experts, G=3, M=40, N=64, K=64)
    x, w = normal(3, 40, 64), normal(3, 64, 64)
    counts = np.array([40, 0, 13], np.int32)
    out = np.full((3, 40, 64), 7, ml_dtypes.bfloat16)
    kernel(x, w, counts, out=out)
    expected = np.full((3, 40, 64), 7.0)
    for group, count in enumerate(counts):
        expected[group, :count] = np.maximum(x[group, :count].astype(np.float64) @ w[group].astype(np.float64), 0)
    assert close(out, expected)


def test_what_a_bundle_says_of_it() -> None:
    compilation = compile_kernel(experts, dims={"T": 4096, "G": 32, "N": 4096, "K": 7168}, assembled=False)
    facts = compilation.bundle().facts
    assert any("where groups end" in line for line in facts["assumptions"])
    assert facts["alignment_bytes"]["y"] == 16
    assert compilation.text_proof is not None


# ---------------------------------------------------------------- texts broken in one place


def instance() -> tuple[ModuleOp, str]:
    """A small instance, decided, and its text."""
    elements = {parameter.name: Element.BF16 for parameter in experts.parameters} | {"ends": Element.S32}
    module = walked(trace(experts, {"T": 4096, "G": 8, "K": 1024, "N": 1024}, elements), HOPPER)
    decide(the_program(module), HOPPER, Wanted(tile=(128, 128), stages=2))
    small = small_instance(module)
    return small, lower_to_ptx([kernel.module for kernel in lower_program(the_program(small)).kernels], "sm_90a")


def judged(small: ModuleOp, text: str) -> Proven | Refuted | Unknown:
    lowered = lower_program(the_program(small))
    (kernel,) = lowered.kernels
    claims = at_these_sizes(small, {kernel.name: protocol_claims(kernel.module, HOPPER)[0]})
    return replay_plan(read(text), launch_plan(lowered), claims, (0,), limits_of(small))


def stores_past_a_group(text: str) -> str:
    """The rows left are those of the array, and not of the group."""
    rows = re.search(r"mov\.u32 (%r\d+), 14\d;", text)
    part = role_of(text, "consumer")
    left = re.search(r"sub\.s32 %r\d+, (%r\d+), %r\d+;\n\tmov\.u32 %r\d+, \d+;\n\tsub\.s32", part)
    assert left is not None and rows is not None
    changed = part.replace(left.group(0), left.group(0).replace(left.group(1), "4096", 1))
    return text.replace(part, changed)


def test_the_text_as_emitted_is_proven() -> None:
    assert isinstance(judged(*instance()), Proven)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "edit",
    [
        in_role("consumer", r"mov\.u32 (%r\d+), %ctaid\.x;", r"mov.u32 \1, 0;"),
        in_role("producer", r"(%ctaid\.x;\n\tmov\.u32 %r\d+), 2;", r"\1, 3;"),
        in_role("consumer", r"(add\.u32 %r\d+, %r\d+), 127;", r"\1, 63;"),
        in_role("producer", r"(?s)(add\.u32 %r\d+, %r\d+, 1;\n\tmin\.u32 %r\d+), (%r\d+), %r\d+;", r"\1, \2, 1;"),
        stores_past_a_group,
    ],
)
def test_a_walk_that_differs_between_roles_or_a_store_past_its_group_is_not_proven(edit: Callable[[str], str]) -> None:
    small, text = instance()
    assert not isinstance(judged(small, edit(text)), Proven)
