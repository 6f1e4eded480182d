"""Which slots the CTAs of a cluster can share, and that copies of their parts may begin at any row of a slot."""

import pytest
from tests.synth.decided_products import decided, matmul
from tests.synth.walked_products import column_operand, decided_product, major_of

from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.distribution.cluster_parts import in_equal_parts
from tilewright.synth.tile.wanted import Wanted


def test_rows_of_a_k_major_slot_are_shared():
    wanted = Wanted(tile=(128, 192), cluster=(2, 1), swapped=False)
    plan = decided(matmul, 4096, 4096, 4096, wanted=wanted, strides={"b": (1, 4096)})
    assert major_of(plan, "N") == "K" and column_operand(plan).box == (64, 96)


def test_rows_of_an_mn_major_slot_run_along_what_is_summed_and_are_shared():
    plan = decided(matmul, 4096, 4096, 4096, wanted=Wanted(tile=(128, 192), cluster=(2, 1), swapped=False))
    slot = column_operand(plan)
    assert major_of(plan, "N") == "MN" and slot.peers == 2 and slot.box_rows * slot.peers == slot.rows


@pytest.mark.parametrize(
    ("extent", "ctas", "step", "equal"),
    [
        (112, 4, 8, True), (112, 2, 8, True), (64, 4, 8, True), (24, 4, 8, False), (36, 8, 8, False),
        # Boxes across the contracted axis are whole.
        (128, 2, 64, True), (112, 2, 64, False), (64, 2, 64, False),
    ],
)  # fmt: skip
def test_equal_parts(extent: int, ctas: int, step: int, equal: bool) -> None:
    assert in_equal_parts(extent, ctas, step) == equal


def test_parts_may_begin_inside_the_pattern_of_their_swizzle() -> None:
    """28 of 112 rows each, and tiles that overlap: all is proved, and the small instance runs."""
    wanted = Wanted(tile=(64, 112), swapped=True, cluster=(4, 1), steps=(0, 106))
    made = compile_kernel(
        matmul_kernel, dims={"M": 530, "N": 512, "K": 256}, strides={"b": (1, 256)}, wanted=wanted, assembled=False
    )
    decisions = made.parts[0].decisions
    assert isinstance(decisions, CascadeDecisions)
    (slot,) = (each for each in decisions.slots if each.peers > 1)
    assert slot.box_rows == 28 and made.text_proof is not None


def test_parts_too_small_are_refused() -> None:
    with pytest.raises(TilewrightError, match="fewer than 8"):
        decided_product(530, 512, 256, tile=(64, 16), swapped=True, cluster=(4, 1))
