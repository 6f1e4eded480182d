# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What scaled products ask of the schedule: depths of slots, room in registers."""

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import dots, the_program
from tilewright.synth.decide import Wanted, decide
from tilewright.synth.operand.scaled_product import fits_registers, scale_loads, scaled_depth
from tilewright.targets import target


def program(size: int, other: int, element: Element = Element.F8E4M3):
    @tw.kernel
    def kernel(
        a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M", f"K/{size}"], t: tw.Tensor[f"K/{other}"],
        c: tw.Tensor["M", "N"],
    ):  # fmt: skip
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[j, k].T) * s[i, k // size] * (t[k // other] + t[k // other])
        c[i, j] = acc

    elements = {"a": element, "b": element, "s": Element.F32, "t": Element.F32, "c": Element.BF16}
    return the_program(trace(kernel, {"M": 256, "N": 256, "K": 1024}, elements))


@pytest.mark.parametrize(
    ("element", "size", "other", "depth"),
    [
        (Element.F8E4M3, 128, 128, 128),
        (Element.F8E5M2, 256, 128, 128),
        (Element.F8E4M3, 256, 512, 256),
        (Element.BF16, 64, 128, 64),
        (Element.F16, 128, 128, 128),
    ],
)
def test_a_slot_is_as_deep_as_the_least_block(element, size, other, depth):
    found = program(size, other, element)
    assert scaled_depth(dots(found)[0]) == depth
    decisions = decide(found, target("sm_90a"))
    assert decisions.tile_k == depth


@pytest.mark.parametrize(("size", "other"), [(64, 128), (128, 192), (1024, 1024), (130, 130)])
def test_other_blocks_are_refused_at_their_line(size, other):
    with pytest.raises(TilewrightError, match=r"blocks of .* elements of K") as caught:
        decide(program(size, other), target("sm_90a"))
    assert caught.value.span is not None and "128, 256 or 512" in caught.value.remedy


def test_each_load_behind_a_scale_is_named_once():
    (dot,) = dots(program(128, 128))
    assert len(scale_loads(dot)) == 2


def test_a_consumer_holds_two_accumulators():
    assert fits_registers(128, 128, 2) and fits_registers(128, 192, 2) and fits_registers(192, 128, 3)
    assert not fits_registers(128, 256, 2) and not fits_registers(64, 256, 1)
    for tile in (None, (128, 128)):
        decisions = decide(program(128, 128), target("sm_90a"), Wanted(tile=tile))
        assert fits_registers(decisions.tile_m, decisions.tile_n, decisions.consumers)
