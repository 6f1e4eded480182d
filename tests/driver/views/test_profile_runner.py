"""What inputs a profiled program gets."""

import numpy as np
import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer, LaunchPlan
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.views.profile_runner import group_limits, main, random_image
from tilewright.frontends.tile import language as tw
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.runtime.bundle import Bundle

# Axis names in annotations are data.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false


@tw.kernel
def consecutive(
    x: tw.Tensor["T", "K"], w: tw.Tensor["G", "K", "N"], ends: tw.Tensor["G", tw.i32], y: tw.Tensor["T", "N"]
) -> None:
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, k, j])
    y[i, j] = acc


@tw.kernel
def within(
    x: tw.Tensor["G", "M", "K"], w: tw.Tensor["G", "K", "N"], counts: tw.Tensor["G", tw.i32],
    y: tw.Tensor["G", "M", "N"],
) -> None:  # fmt: skip
    g, i, j = tw.grid("G", tw.within("M", counts), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, k, j])
    y[g, i, j] = acc


def bundle_of(kernel: Kernel, limits: str, **dims: int) -> Bundle:
    elements = elements_of(kernel, {limits: "i32"})
    return Bundle("grouped", "sm_90a", LaunchPlan((), ()), "", facts={"tile": str(trace(kernel, dims, elements))})


def test_ends_do_not_decrease_and_cover_every_row() -> None:
    for seed in range(20):
        (ends,) = group_limits(bundle_of(consecutive, "ends", T=300, G=7, K=64, N=64), seed).values()
        assert ends.dtype == np.int32 and ends.shape == (7,)
        assert (np.diff(ends) >= 0).all() and ends[0] >= 0 and ends[-1] == 300


def test_counts_lie_within_their_axis() -> None:
    for seed in range(20):
        (counts,) = group_limits(bundle_of(within, "counts", G=50, M=9, K=64, N=64), seed).values()
        assert counts.shape == (50,) and counts.min() >= 0 and counts.max() <= 9
        assert set(counts.tolist()) >= {0, 9}  # either end occurs among fifty


def test_other_programs_have_no_limits() -> None:
    assert group_limits(Bundle("plain", "sm_90a", LaunchPlan((), ()), "")) == {}


def test_an_unreadable_tile_program_is_said() -> None:
    bundle = Bundle("odd", "sm_90a", LaunchPlan((), ()), "", facts={"tile": "tile.nonsense"})
    with pytest.raises(TilewrightError, match="cannot be read"):
        group_limits(bundle)


def test_images_are_normal_and_no_two_blocks_alike() -> None:
    buffer = Buffer("a", Element.F32, (3, 1 << 20), (1 << 20, 1), "input")
    blocks = random_image(buffer, 1).reshape(3, -1)
    assert abs(float(blocks[0].mean())) < 0.01 and abs(float(blocks[0].std()) - 1) < 0.01
    assert not (blocks[0] == blocks[1]).all() and not (blocks[1] == blocks[2]).all()


def test_the_whole_span_of_a_strided_buffer_is_filled() -> None:
    buffer = Buffer("a", Element.BF16, (4, 3), (8, 1), "input")
    assert random_image(buffer, 0).nbytes == buffer.span_bytes == 2 * (3 * 8 + 3)


def test_a_missing_bundle_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nowhere.twb", "1"]) == 2
    assert "nowhere.twb" in capsys.readouterr().err
