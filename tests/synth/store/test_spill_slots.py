"""Slots of registers in shared memory: where they are, what they cost, and who may not have them."""

import pytest

from tilewright.base.error import TilewrightError
from tilewright.synth.store.spill_slots import refuse_spill_slots, spill_bytes
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

_H200 = target("sm_90a")


def test_each_slot_has_a_word_of_each_consumer_s_thread() -> None:
    assert spill_bytes(2, _H200, Wanted(spill_slots=8), []) == 8 * 256 * 4


@pytest.mark.parametrize("count", [-1, 65])
def test_as_many_slots_as_no_thread_needs_are_refused(count: int) -> None:
    with pytest.raises(TilewrightError, match="cannot wait in shared memory"):
        spill_bytes(2, _H200, Wanted(spill_slots=count), [])


def test_a_program_without_a_product_has_none() -> None:
    refuse_spill_slots(Wanted(), "a program")
    with pytest.raises(TilewrightError, match="in a program no registers"):
        refuse_spill_slots(Wanted(spill_slots=1), "a program")
