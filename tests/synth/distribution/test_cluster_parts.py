"""Which slots the CTAs of a cluster can share."""

from tests.synth.decided_products import decided, matmul
from tests.synth.walked_products import column_operand, major_of

from tilewright.synth.tile.wanted import Wanted


def test_rows_of_a_k_major_slot_are_shared_by_eights():
    wanted = Wanted(tile=(128, 192), cluster=(2, 1), swapped=False)
    plan = decided(matmul, 4096, 4096, 4096, wanted=wanted, strides={"b": (1, 4096)})
    assert major_of(plan, "N") == "K" and column_operand(plan).box == (64, 96)


def test_rows_of_an_mn_major_slot_run_along_what_is_summed_and_are_shared():
    plan = decided(matmul, 4096, 4096, 4096, wanted=Wanted(tile=(128, 192), cluster=(2, 1), swapped=False))
    slot = column_operand(plan)
    assert major_of(plan, "N") == "MN" and slot.peers == 2 and slot.box_rows * slot.peers == slot.rows
