"""Sums that a loop carries stay where the tensor core adds to them; what else reads them is given copies."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.lower import cascade_programs
from tests.lower.lowered_programs import Lowered, lower, random_inputs, run

from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.driver.reproof.reproof import reprove
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.lower.fragment import map as fragment_map
from tilewright.lower.fragment import registers
from tilewright.synth.decide import Wanted

DIMS = {"M": 100, "T": 200, "E": 64, "F": 40}


def made(kernel: Kernel, *, ordered: bool = False) -> Lowered:
    """ordered: whether sums run when an iteration ends."""
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    return lower(kernel, DIMS, elements, wanted=Wanted(consumers=2, depth=64, ordered=ordered))


def walk_of(ptx: str) -> str:
    """The loop in which products of registers are issued."""
    loops = re.findall(r"^(loop_\d+):\n(.*?)^\tbra \1;", ptx, re.DOTALL | re.MULTILINE)
    return next(body for _, body in loops if "wgmma" in body)


def sums_of(walk: str) -> set[str]:
    """The accumulators of products whose left operand is in registers."""
    found = re.findall(r"wgmma\.mma_async\S* \{([^}]*)\}, \{", walk)
    return {register for each in found for register in each.split(", ")}


def none_stays(*_: object) -> None:
    """Every sum is moved."""


@pytest.mark.parametrize("ordered", [False, True])
def test_no_register_of_a_carried_sum_is_moved(ordered: bool) -> None:
    walk = walk_of(made(cascade_programs.two_gradients, ordered=ordered).ptx)
    sums = sums_of(walk)
    assert len(sums) == (DIMS["E"] + DIMS["F"]) // 2
    assert not [line for line in walk.splitlines() if "mov.f32" in line and set(re.findall(r"%f\d+", line)) & sums]


def test_a_text_that_moves_them_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stays in place is no other number than what is copied."""
    kernel = cascade_programs.two_gradients
    stays = made(kernel)
    arrays = random_inputs(stays, 3)
    found = run(stays, arrays)
    monkeypatch.setattr(registers, "carried_start", none_stays)
    monkeypatch.setattr(fragment_map, "carried_result", none_stays)
    moved = made(kernel)
    assert moved.ptx != stays.ptx
    running = made(kernel, ordered=True)
    for other in (moved, running):
        for name, values in run(other, arrays).items():
            np.testing.assert_array_equal(values, found[name])
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    expected = evaluate(trace(kernel, DIMS, elements), arrays, rounded=False)
    for name, values in found.items():
        np.testing.assert_allclose(
            values.astype(np.float64), expected[name], rtol=0, atol=2**-6 * np.abs(expected[name]).max()
        )


@pytest.mark.parametrize("ordered", [False, True])
def test_a_sum_that_threads_change_while_a_product_runs_is_not_proven(ordered: bool) -> None:
    """Of the text: one register of an accumulator written behind the issue."""
    lowered = made(cascade_programs.two_gradients, ordered=ordered)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "two_gradients"), Proven)
    walk = walk_of(lowered.ptx)
    register = min(sums_of(walk))
    at = walk.rindex("\twgmma.wait_group")
    spoiled = walk[:at] + f"\tmov.f32 {register}, 0f00000000;\n" + walk[at:]
    text = lowered.ptx.replace(walk, spoiled)
    assert not isinstance(reprove(lowered.module, text, "sm_90a", "two_gradients"), Proven)


def test_a_text_that_gives_back_what_a_running_product_reads_is_not_proven() -> None:
    """In order, an iteration waits for the products of the one before behind its own first product."""
    lowered = made(cascade_programs.two_gradients, ordered=True)
    walk, wait = walk_of(lowered.ptx), "\twgmma.wait_group.sync.aligned 1;\n"
    first = walk.index(wait)
    assert "mbarrier.arrive" in walk[first : walk.index("wgmma.mma_async", first)]
    for edited in ("", wait.replace("1", "2")):
        text = lowered.ptx.replace(walk, walk.replace(wait, edited, 1))
        assert not isinstance(reprove(lowered.module, text, "sm_90a", "two_gradients"), Proven)


def test_a_sum_that_a_loop_leaves_for_a_last_product_is_not_moved() -> None:
    dims = {"B": 2, "H": 1, "Q": 128, "T": 512, "E": 64, "F": 64}
    text = lower(cascade_programs.attention, dims, wanted=Wanted(consumers=2)).ptx
    behind = text[text.index(f"bra {re.findall(r'^(loop_[0-9]+):', text, re.MULTILINE)[-1]};") :]
    sums = sums_of(behind)
    assert len(sums) == dims["F"] // 2
    assert not [line for line in behind.splitlines() if "mov.f32" in line and set(re.findall(r"%f\d+", line)) & sums]
