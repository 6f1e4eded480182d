"""Which operands consumers make anew, and what of shared memory that takes."""

from collections.abc import Mapping

import pytest
from tests.lower.narrow_programs import attention, sizes
from tests.synth.cascade.decided_sums import decided

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.kernel import Kernel
from tilewright.synth.cascade.slots.remade import chunks_of
from tilewright.synth.tile.wanted import Wanted


@pytest.mark.parametrize(
    ("kernel", "on", "remade"),
    [
        (attention(), "sm_90a", {"q": "", "k": "", "v": "turned"}),
        (attention(), "sm_100a", {"q": "", "k": "", "v": ""}),
        (attention(turned=True), "sm_90a", {"q": "", "k": "", "v": ""}),
        (attention(tw.bf16, widened=tw.bf16), "sm_90a", {"q": "", "k": "widened", "v": "widened"}),
        (attention(tw.f16, tw.f8e5m2, widened=tw.f16), "sm_100a", {"q": "", "k": "widened", "v": "widened"}),
    ],
)
def test_what_is_made_anew(kernel: Kernel, on: str, remade: Mapping[str, str]) -> None:
    found = decided(kernel, sizes(64, 256, 128), on)
    assert {each.buffer: each.remade for each in found.slots} == remade
    slots = sum(each.slots * each.slot_bytes for each in found.slots)
    assert found.smem_bytes >= slots + found.consumers * sum(each.room_bytes for each in found.slots)


@pytest.mark.parametrize(("inner_bytes", "chunks"), [(16, 4), (64, 4), (72, 8), (128, 8), (130, 12)])
def test_warps_take_chunks_in_fours(inner_bytes: int, chunks: int) -> None:
    assert chunks_of(inner_bytes) == chunks


def test_rooms_are_laid_out_as_they_are_multiplied() -> None:
    found = decided(attention(), sizes(64, 256, 80))
    (slot,) = (each for each in found.slots if each.remade)
    made = slot.multiplied
    assert (slot.inner, slot.outer) == ("F", "T") and (made.inner, made.outer) == ("T", "F")
    assert (made.rows, made.inner_elements) == (128, 128)  # 80 columns are taken as eight chunks; keys fill a row
    widened = next(
        each for each in decided(attention(tw.bf16, widened=tw.bf16), sizes(64, 256, 80)).slots if each.remade
    )
    assert (widened.multiplied.element, widened.multiplied.inner_elements) == ("bf16", 128)
    assert widened.multiplied.rows == widened.rows


def test_a_copy_that_is_asked_for_is_refused_for_it() -> None:
    with pytest.raises(TilewrightError, match="the tensor core takes it along T"):
        decided(attention(), sizes(64, 256), wanted=Wanted(unmapped="workspace"))
