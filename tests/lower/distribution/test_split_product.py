"""Products whose contracted axis is shared by the CTAs of a cluster: proved, proved as text, equal to the reference."""

import re

import numpy as np
import pytest
from tests.lower.lowered_programs import (
    Lowered,
    assert_close,
    gemm,
    lower,
    matmul,
    matmul_bias_relu,
    random_inputs,
    run,
)

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.driver.reproof.address_proof import OtherAddress, staged_stores
from tilewright.driver.reproof.reproof import replay_plan, reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.frontends.ptx.reader import read
from tilewright.ir.ac.split import SPARE_ROWS
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


def proved(lowered: Lowered) -> Lowered:
    for kernel in lowered.kernels:
        assert isinstance(verify(kernel, HOPPER), Proven), verify(kernel, HOPPER)
    verdict = reprove(lowered.module, lowered.ptx, "sm_90a", "product")
    assert isinstance(verdict, Proven), verdict
    for staged in staged_stores(lowered.parsed, lowered.plan.launches):
        # What is staged has been through shared memory, where that analysis does not follow it; values are compared.
        assert not isinstance(staged.verdict, OtherAddress), staged
    return lowered


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("split", "tile", "swapped"),
    [
        *((2, (64, 16), True), (4, (64, 32), True), (2, (128, 32), False), (2, (64, 128), False), (8, (64, 64), False)),
        # Fewer parts than CTAs: two, three, one, four.
        *((4, (64, 16), False), (8, (128, 24), True), (2, (64, 8), True), (16, (64, 32), False)),
    ],
)
def test_a_split_product_is_proved_and_right(split, tile, swapped):
    """Slices that come out uneven, a last tile that is not full."""
    m, n = (tile[1] - 3, tile[0] + 40) if swapped else (tile[0] + 16, tile[1] + 8)
    lowered = proved(gemm(m, n, 64 * split + 72, tile=tile, split=split, depth=64, swapped=swapped))
    assert lowered.decisions.split == split
    assert_close(lowered, random_inputs(lowered))


def test_epilogues_see_their_part_of_the_columns():
    lowered = proved(lower(matmul_bias_relu, {"M": 70, "N": 72, "K": 200}, wanted=Wanted((64, 64), split=4, depth=64)))
    assert_close(lowered, random_inputs(lowered))


def test_sums_are_taken_in_the_order_of_ranks():
    """float32 results equal those of a sum of each CTA's slices, in order, to the last bit."""
    lowered = lower(
        matmul,
        {"M": 64, "N": 64, "K": 64 * 6},
        {"c": Element.F32},
        wanted=Wanted((64, 64), split=2, depth=64, swapped=False),
    )
    arrays = random_inputs(lowered)
    first, second = run(lowered, arrays)["c"], run(lowered, arrays)["c"]
    assert np.array_equal(first, second)
    assert_close(lowered, arrays)


def _without(text: str, pattern: str, number: int) -> str:
    """The text without the `number`-th line that has `pattern`."""
    lines = text.split("\n")
    found = [place for place, line in enumerate(lines) if re.search(pattern, line)]
    del lines[found[number]]
    return "\n".join(lines)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("pattern", "number"),
    [
        (r"mbarrier\.arrive\.expect_tx.*\], 2048;", 0),
        (r"st\.async", 0),
        (r"fence\.proxy\.async", 0),
        (r"bar\.sync %r", 0),
        (r"mbarrier\.arrive\.release\.cluster", 0),
    ],
)
def test_a_weaker_meeting_is_refuted(pattern, number):
    """Of more tiles than run at once: what is missing after a meeting shows in the next."""
    lowered = gemm(13, 64 * 70, 200, tile=(64, 16), split=2, depth=64, swapped=True)
    instance = small_instance(lowered.module)
    small = lower_program(the_program(instance))
    text = lower_to_ptx([kernel.module for kernel in small.kernels], "sm_90a")
    claims = {kernel.name: protocol_claims(kernel.module, HOPPER)[0] for kernel in small.kernels}
    good = replay_plan(read(text), launch_plan(small), claims, (0,))
    bad = replay_plan(read(_without(text, pattern, number)), launch_plan(small), claims, (0,))
    assert isinstance(good, Proven) and not isinstance(bad, Proven)


@pytest.mark.sample(1)
@pytest.mark.parametrize("split", [2, 4])
@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("mbarrier.arrive.release.cluster", "mbarrier.arrive.release.cta"), (".acquire.cluster", ".acquire.cta")],
)
def test_an_exchange_at_the_scope_of_a_cta_is_refuted(split, wide, narrow):
    """A slot is free for a peer only if both sides' scope includes the other CTA: it shows in the next tile."""
    lowered = gemm(13, 64 * 70, 64 * split + 72, tile=(64, 16 * split), split=split, depth=64, swapped=True)
    small = lower_program(the_program(small_instance(lowered.module)))
    text = lower_to_ptx([kernel.module for kernel in small.kernels], "sm_90a")
    assert wide in text
    claims = {kernel.name: protocol_claims(kernel.module, HOPPER)[0] for kernel in small.kernels}
    verdict = replay_plan(read(text.replace(wide, narrow)), launch_plan(small), claims, (0,))
    assert isinstance(verdict, Refuted) and "CL104" in {finding.code for finding in verdict.findings}


def test_a_cta_without_a_part_that_stores_is_refuted():
    """Of four CTAs and one part, the second to fourth write zeros where the first writes the sum."""
    lowered = gemm(40, 8, 64 * 4 + 72, tile=(64, 8), split=4, depth=64, swapped=False)
    small = lower_program(the_program(small_instance(lowered.module)))
    text = lower_to_ptx([kernel.module for kernel in small.kernels], "sm_90a")
    claims = {kernel.name: protocol_claims(kernel.module, HOPPER)[0] for kernel in small.kernels}
    moved = str(SPARE_ROWS)
    assert text.count(moved) == 1
    good = replay_plan(read(text), launch_plan(small), claims, (0,))
    bad = replay_plan(read(text.replace(moved, "0")), launch_plan(small), claims, (0,))
    assert isinstance(good, Proven) and not isinstance(bad, Proven)
