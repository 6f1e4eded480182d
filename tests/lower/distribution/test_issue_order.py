# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Consumers of a product alone issue as their slots come: an order of them that is asked for is refused."""

import pytest
from tests.lower import cascade_programs

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def in_two_levels(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    c[i, j] = acc


@pytest.mark.parametrize("wanted", [{}, {"accumulation": "fast"}, {"tile": (64, 64)}, {"tile": (192, 128)}])
def test_what_has_no_order_is_refused(wanted):
    with pytest.raises(TilewrightError, match="order"):
        dtype = {"a": "f8e4m3", "b": "f8e4m3", "c": "bf16"}
        dims = {"M": 512, "N": 512, "K": 512}
        compile_kernel(in_two_levels, dims=dims, dtype=dtype, wanted=Wanted(ordered=True, **wanted), assembled=False)


@pytest.mark.parametrize(
    ("kernel", "name"), [(cascade_programs.weights_stored, "sm_90a"), (cascade_programs.attention, "sm_100a")]
)
def test_a_walk_whose_consumers_keep_no_order_is_refused(kernel: Kernel, name: str) -> None:
    """It stores on the way; with sums in tensor memory no walk keeps one."""
    every = {"B": 1, "H": 1, "Q": 128, "M": 128, "T": 256, "E": 64, "F": 64}
    dims = {axis: every[axis] for axis in {axis for each in kernel.parameters for axis in each.axes}}
    with pytest.raises(TilewrightError, match="asked to be issued in order"):
        compile_kernel(kernel, target=name, dims=dims, dtype="bf16", wanted=Wanted(ordered=True), assembled=False)
