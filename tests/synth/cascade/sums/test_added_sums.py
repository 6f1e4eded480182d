"""Which sums of 8-bit products threads add up, by target, wish and length of what is contracted."""

import pytest
from tests.lower.narrow_programs import attention, sizes
from tests.synth.cascade.decided_sums import decided

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.kernel import Kernel
from tilewright.synth.tile.wanted import Wanted


@pytest.mark.parametrize(
    ("kernel", "width", "on", "wanted", "added"),
    [
        (attention(), 128, "sm_90a", Wanted(), (1,)),
        (attention(), 128, "sm_100a", Wanted(), ()),
        (attention(), 128, "sm_90a", Wanted(accumulation="fast"), ()),
        (attention(tw.bf16, tw.bf16), 128, "sm_90a", Wanted(), ()),
        (attention(tw.bf16, widened=tw.bf16), 128, "sm_90a", Wanted(), ()),
    ],
    ids=["precise", "enough-bits", "fast", "16-bits", "widened"],
)
def test_products_that_threads_add(kernel: Kernel, width: int, on: str, wanted: Wanted, added: tuple[int, ...]) -> None:
    assert decided(kernel, sizes(64, 256, width), on, wanted).added == added


def test_a_head_of_several_slices_is_summed_in_parts() -> None:
    """Scores of 256 elements are two slices, of which each is an accumulator."""
    dims = {**sizes(64, 256, 256), "F": 64}
    assert decided(attention(), dims).added == (0, 1)


def test_two_sums_of_wide_heads_fit_no_registers() -> None:
    with pytest.raises(TilewrightError, match="no tile of this program fits"):
        decided(attention(), sizes(64, 256, 256))


def test_sums_that_threads_add_are_not_issued_late() -> None:
    assert decided(attention(turned=True), sizes(64, 256)).late == ()
    assert decided(attention(turned=True), sizes(64, 256), wanted=Wanted(accumulation="fast")).late == (1,)
