"""Which tiles are streamed, and what is said where none can be."""

from typing import Any

import pytest
from tests.synth.walked_products import decided as decided_of

from tilewright.base.error import TilewrightError
from tilewright.driver.compile.kernels import batched_kernel, matmul_kernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.distribution.stream_k import Stream, costs_of, leftover, pays
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

COSTS = costs_of(target("sm_90a"), turns=True)


def decided(dims: dict[str, int], kernel: Kernel = matmul_kernel, **wanted: Any) -> CascadeDecisions:
    return decided_of(dims, kernel, wanted=Wanted(**wanted))


def test_idle_ctas_help_with_what_is_left_after_whole_waves() -> None:
    d = decided({"M": 4096, "N": 6144, "K": 4096}, tile=(128, 256), turns=False, stream_k=True)
    assert d.stream is not None and (d.stream.tiles, d.ctas, d.stream.helpers) == (32 * 24 % 132, 132, 24)
    assert 5 * d.stream.head_slices <= 64 - d.stream.head_slices
    assert any("the first 108 of 768 tiles are streamed: 24 CTAs take" in reason for reason in d.reasons)
    assert decided({"M": 4096, "N": 6144, "K": 4096}, tile=(128, 256), stream_k=False).stream is None


def test_fewer_tiles_than_ctas_may_all_be_streamed() -> None:
    d = decided({"M": 1024, "N": 1024, "K": 4096}, tile=(128, 128), turns=False, split=1, stream_k=True)
    assert d.stream is not None and (d.stream.tiles, d.ctas, d.stream.helpers) == (64, 132, 68)
    assert d.stream.head_slices == 27


def test_nothing_is_left_where_tiles_come_out_even_or_heads_would_be_too_short() -> None:
    def left(tiles: int, slices: int) -> Stream | None:
        return leftover(tiles, slices, least=2, ctas=132, slice_cycles=1000, costs=COSTS)

    assert left(264, 64) is None
    assert left(131, 64) is None  # one helper of 131 tiles
    assert left(100, 8) is None
    few = left(100, 24)
    assert few is not None and few.saved_cycles == 0 and not pays(few, 232)
    many = left(100, 128)
    assert many is not None and pays(many, 232) and not pays(many, 100)


def test_short_heads_are_expected_to_save_nothing() -> None:
    long, short = (leftover(232, slices, least=2, ctas=132, slice_cycles=700, costs=COSTS) for slices in (128, 28))
    assert long is not None and pays(long, 232)
    assert short is None or not pays(short, 232)
    assert decided({"M": 4096, "N": 4096, "K": 14336}, stream_k=None).stream is not None


@pytest.mark.parametrize(
    ("dims", "kernel", "wanted", "why"),
    [
        ({"M": 2112, "N": 2048, "K": 512}, matmul_kernel, {"tile": (128, 128), "cluster": (2, 1)}, "cluster"),
        ({"M": 128, "N": 2048, "K": 4096}, matmul_kernel, {"tile": (128, 64), "split": 2}, "cluster"),
        ({"B": 3, "M": 512, "N": 512, "K": 512}, batched_kernel("none"), {}, "matrices"),
        ({"M": 128, "N": 132 * 128, "K": 512}, matmul_kernel, {"tile": (128, 128)}, "leave nothing"),
    ],
)
def test_what_cannot_be_streamed_is_refused_with_the_reason(
    dims: dict[str, int], kernel: Kernel, wanted: dict[str, Any], why: str
) -> None:
    with pytest.raises(TilewrightError, match=f"no tiles are streamed: .*{why}") as caught:
        decided(dims, kernel, stream_k=True, **wanted)
    assert "stream_k" in caught.value.remedy
