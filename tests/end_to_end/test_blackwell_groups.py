"""Products over groups for sm_100a: proved twice, assembled, with NumPy's numbers on the CPU machine; broken texts.

No GPU of that architecture was at hand: the assembler, the exact machine and both proofs stand in for one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.end_to_end.expert_programs import experts, in_role, masked_experts, role_of
from tests.end_to_end.grouped_cases import (
    CASES,
    HELD,
    rows_of_groups,
)
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.walked import walked
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_groups import at_these_sizes, limits_of
from tilewright.driver.reproof.whole_results import results_in_groups
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.runtime.arrays import numpy_dtype
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

TARGET = "sm_100a"
BLACKWELL = target(TARGET)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "dims", "tile", "dtype", "limits"),
    CASES,
    ids=[f"{kernel.name}-{'x'.join(map(str, dims.values()))}" for kernel, dims, *_ in CASES],
)
def test_whatever_memory_says(
    kernel: Kernel, dims: Mapping[str, int], tile: tuple[int, int] | None, dtype: Any, limits: Sequence[Sequence[int]]
) -> None:
    """One compilation, proved and assembled; rows of no group keep what they hold."""
    made = compile_kernel(kernel, target=TARGET, dims=dims, dtype=dtype, wanted=Wanted(tile=tile))
    assert made.text_proof is not None and made.assembly is not None and made.assembly.spill_bytes == 0
    assert "tcgen05.mma" in made.ptx and any("where groups end" in line for line in made.assumptions)
    run, random = CompiledKernel(made.bundle()), np.random.default_rng(0)
    given = [each for each in made.plan.buffers if each.name in {item.name for item in kernel.parameters}]
    elements = {each.name: each.element for each in given}
    for ends in limits:
        inputs: dict[str, NDArray[Any]] = {}
        for each in (each for each in given if each.role == "input"):
            if each.name == "rows":
                inputs["rows"] = random.integers(-1, dims["R"] + 1, dims["T"]).astype(np.int32)
            elif each.element is Element.S32:
                inputs[each.name] = np.array(ends, np.int32)
            else:
                inputs[each.name] = random.standard_normal(each.shape).astype(numpy_dtype(each.element))
        results = [each for each in given if each.role == "output"]
        out = tuple(np.full(each.shape, HELD, numpy_dtype(each.element)) for each in results)
        run(*inputs.values(), out=out if len(out) > 1 else out[0])
        exact = evaluate(trace(kernel, dims, elements, {}), inputs, rounded=False)
        for each, got in zip(results, out, strict=True):
            kept = rows_of_groups(got.shape, ends)
            assert (got[~kept].astype(np.float64) == HELD).all()
            expected, found = exact[each.name][kept], got[kept].astype(np.float64)
            assert np.linalg.norm(found - expected) <= 6e-3 * np.linalg.norm(expected), (each.name, ends)


@pytest.mark.sample(1)
def test_a_large_product() -> None:
    """Its small instance has fewer groups, rows and columns; 64 and 128 rows a tile."""
    for rows in (512, 8192):
        dims = {"T": rows, "G": 64, "N": 1024, "K": 512}
        made = compile_kernel(experts, target=TARGET, dims=dims, assembled=False)
        assert made.text_proof is not None
        # Each tile of an empty or a short group is waited for by all roles alike, however many there are.
        assert made.proof.scope == "all trip counts"


# ---------------------------------------------------------------- texts broken in one place


@cache
def instance(kernel: Kernel, tile: tuple[int, int]) -> tuple[ModuleOp, str]:
    """A small instance, decided, and its text."""
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    dims = {"T": 4096, "M": 512, "G": 8, "K": 1024, "N": 1024}
    traced = trace(kernel, {axis: dims[axis] for axis in kernel.axes}, elements)
    module, wanted = walked(traced, BLACKWELL), Wanted(tile=tile)
    decide(the_program(module), BLACKWELL, wanted)
    small = small_instance(module)
    return small, lower_to_ptx([each.module for each in lower_program(the_program(small)).kernels], TARGET)


def judged(small: ModuleOp, text: str) -> Proven | Refuted | Unknown:
    lowered = lower_program(the_program(small))
    (kernel,) = lowered.kernels
    claims = at_these_sizes(small, {kernel.name: protocol_claims(kernel.module, BLACKWELL)[0]})
    limits = limits_of(small)
    kept = results_in_groups(the_program(small), limits)
    return replay_plan(read(text), launch_plan(lowered), claims, (0,), limits, kept=kept)


def less_of_a_role(name: str, pattern: str, number: int = 0) -> Callable[[str], str]:
    """Without a line of a role."""

    def edit(text: str) -> str:
        part = role_of(text, name)
        lines = part.split("\n")
        at = [place for place, line in enumerate(lines) if re.search(pattern, line)][number]
        return text.replace(part, "\n".join(lines[:at] + lines[at + 1 :]))

    return edit


@pytest.mark.parametrize(("kernel", "tile"), [(experts, (128, 64)), (experts, (64, 64)), (masked_experts, (128, 64))])
def test_the_text_as_emitted_is_proven(kernel: Kernel, tile: tuple[int, int]) -> None:
    found = judged(*instance(kernel, tile))
    assert isinstance(found, Proven), found


EDITS: dict[str, Callable[[str], str]] = {
    "a consumer begins with another CTA's tile": in_role(
        "consumer", r"mov\.u32 (%r\d+), %ctaid\.x;", r"mov.u32 \1, 0;"
    ),
    "the issuer steps over three CTAs": in_role("issuer", r"(%ctaid\.x;\n\tmov\.u32 %r\d+), 2;", r"\1, 3;"),
    "the producer steps over three CTAs": in_role("producer", r"(%ctaid\.x;\n\tmov\.u32 %r\d+), 2;", r"\1, 3;"),
    "a group's last tile is dropped by the issuer": in_role("issuer", r"(add\.u32 %r\d+, %r\d+), 127;", r"\1, 63;"),
    "a group's last tile is dropped by all": lambda text: re.sub(r"(add\.u32 %r\d+, %r\d+), 127;", r"\1, 63;", text),
    "the producer reads one limit again and again": in_role(
        "producer", r"(?s)(add\.u32 %r\d+, %r\d+, 1;\n\tmin\.u32 %r\d+), (%r\d+), %r\d+;", r"\1, \2, 1;"
    ),
    "sums are never handed over": less_of_a_role("issuer", r"tcgen05\.commit", -1),
    "a slot of operands is never released": less_of_a_role("issuer", r"tcgen05\.commit"),
    "a slot of sums is never released": less_of_a_role("consumer", r"mbarrier\.arrive", -1),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", EDITS)
def test_each_edit_of_the_text_is_refuted(name: str) -> None:
    small, text = instance(experts, (128, 64))
    edited = EDITS[name](text)
    assert edited != text
    found = judged(small, edited)
    assert isinstance(found, Refuted), found


def test_rows_of_another_warp_are_not_proven() -> None:
    """Two warps store to the same rows; whether they store the same is no matter of the protocol."""
    small, text = instance(experts, (128, 64))
    edited = in_role("consumer", r"(mul\.lo\.u32 %r\d+, %r\d+), 32;", r"\1, 16;")(text)
    assert not isinstance(judged(small, edited), Proven)


def test_a_store_past_its_group_is_refuted() -> None:
    """The rows left are those of the array, and not of the group."""
    small, text = instance(experts, (128, 64))
    part = role_of(text, "consumer")
    left = re.search(r"sub\.s32 %r\d+, (%r\d+), %r\d+;\n\tmov\.u32 %r\d+, \d+;\n\tsub\.s32", part)
    assert left is not None
    changed = part.replace(left.group(0), left.group(0).replace(left.group(1), "4096", 1))
    assert isinstance(judged(small, text.replace(part, changed)), Refuted)
