# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Which products are summed in two levels, and which wishes that excludes."""

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.accumulation import level_depth, require_promotable
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


@tw.kernel
def product(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    c[i, j] = acc


@tw.kernel
def grouped(x: tw.Tensor["T", "K"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G", tw.i32], c: tw.Tensor["T", "N"]):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    c[i, j] = acc


def module_of(kernel, dims, element=Element.F8E4M3):
    known = {"c": Element.BF16, "ends": Element.S32}
    return trace(kernel, dims, {each.name: known.get(each.name, element) for each in kernel.parameters})


def depth_of(k: int, element=Element.F8E4M3, **wanted) -> int:
    return level_depth(element.bytes, k, Wanted(**wanted))


def test_who_is_promoted():
    assert depth_of(512) == 128
    assert depth_of(512, Element.F8E5M2) == 128
    assert depth_of(512, depth=256) == 256
    assert depth_of(512, accumulation="fast") == 0
    # A sum of one slot is the tensor core's in either way; 16-bit operands lose nothing there.
    assert depth_of(128) == depth_of(256, depth=256) == 0
    assert depth_of(512, Element.BF16) == 0
    # Whoever asks for it gets it.
    assert depth_of(512, Element.BF16, accumulation="precise") == 64


def test_wishes_that_exclude_one_another():
    with pytest.raises(TilewrightError, match="not summed in two levels"):
        require_promotable(128, Wanted(computed="registers"))
    require_promotable(0, Wanted(computed="registers"))


def test_tiles_leave_room_for_two_accumulators():
    dims, hopper = {"M": 4096, "N": 4096, "K": 4096}, target("sm_90a")
    grouped_dims = {"T": 4096, "G": 8, "N": 4096, "K": 4096}
    for kernel, extents in ((product, dims), (grouped, grouped_dims)):
        found = []
        for wanted in (Wanted(), Wanted(accumulation="fast")):
            module = module_of(kernel, extents)
            found.append(decide(the_program(walked(module, hopper, wanted)), hopper, wanted))
        precise, fast = found
        assert precise.partials >= 1 and not fast.partials
        numbers = precise.unit_rows * precise.tile_columns // 128
        assert (1 + precise.partials) * numbers <= precise.consumer_registers - 16
