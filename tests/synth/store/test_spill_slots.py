"""Slots of registers in shared memory: where they are, what they cost, and who may not have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.legal.bank.banks import wavefronts
from tilewright.synth.store.spill_slots import refuse_spill_slots, slot_address, spill_bytes
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

_H200 = target("sm_90a")


@given(slot=st.integers(0, 63), warp=st.integers(0, 11), consumers=st.integers(1, 3))
def test_a_warp_s_words_are_stored_and_loaded_in_one_wavefront(slot: int, warp: int, consumers: int) -> None:
    threads = 128 * consumers
    first = 32 * (warp % (threads // 32))
    addresses = [[slot_address(slot, first + lane, threads) for lane in range(32)]]
    assert wavefronts("ld.shared.b32", addresses, _H200).tolist() == [1]
    assert wavefronts("st.shared.b32", addresses, _H200).tolist() == [1]


def test_no_two_words_share_a_place() -> None:
    places = {slot_address(slot, thread, 256) for slot in range(8) for thread in range(256)}
    assert len(places) == 8 * 256
    assert max(places) + 4 == spill_bytes(2, _H200, Wanted(spill_slots=8), [])


@pytest.mark.parametrize("count", [-1, 65])
def test_as_many_slots_as_no_thread_needs_are_refused(count: int) -> None:
    with pytest.raises(TilewrightError, match="cannot wait in shared memory"):
        spill_bytes(2, _H200, Wanted(spill_slots=count), [])


def test_a_program_without_a_product_has_none() -> None:
    refuse_spill_slots(Wanted(), "a program")
    with pytest.raises(TilewrightError, match="in a program no registers"):
        refuse_spill_slots(Wanted(spill_slots=1), "a program")
