# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What scaled sums ask of a walk: depths of slots, products of a slot, room in registers."""

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import slot_sums
from tilewright.ir.scaled_terms import loads_of_scales, scales_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loops, parameter_name, the_program
from tilewright.synth.decide import Wanted, decide
from tilewright.synth.operand.scaled_product import fits_registers
from tilewright.targets import target

HOPPER = target("sm_90a")


def program(size: int, other: int, element: Element = Element.F8E4M3) -> tile.ProgramOp:
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

    elements = {"a": element, "b": element, "s": Element.BF16, "t": Element.F32, "c": Element.BF16}
    return the_program(walked(trace(kernel, {"M": 256, "N": 256, "K": 1024}, elements), HOPPER))


def decided(found: tile.ProgramOp, wanted: Wanted | None = None) -> CascadeDecisions:
    decisions = decide(found, HOPPER, wanted)
    assert isinstance(decisions, CascadeDecisions)
    return decisions


@pytest.mark.parametrize(
    ("element", "size", "other", "depth", "parts"),
    [
        (Element.F8E4M3, 128, 128, 128, 1),
        (Element.F8E5M2, 256, 128, 128, 1),
        (Element.F8E4M3, 256, 512, 256, 1),
        (Element.BF16, 64, 128, 64, 1),
        (Element.F16, 128, 128, 128, 1),
        # Of a part of a slot: the tensor core takes 32 bytes of each row at a time.
        (Element.F8E4M3, 64, 128, 128, 2),
        (Element.F8E4M3, 128, 32, 128, 4),
        (Element.BF16, 16, 64, 64, 4),
    ],
)
def test_a_slot_is_as_deep_as_the_least_block_or_a_row(
    element: Element, size: int, other: int, depth: int, parts: int
) -> None:
    d = decided(program(size, other, element))
    assert (d.tile_streamed, d.slot_parts) == (depth, parts)
    assert parts == 1 or d.partials == 1
    # Numbers of blocks are loaded by threads, whatever their element.
    assert {slot.buffer for slot in d.slots} == {"a", "b"}


@pytest.mark.parametrize(("size", "other"), [(128, 192), (1024, 1024), (130, 130), (16, 128), (48, 96)])
def test_other_blocks_are_refused_at_their_line(size: int, other: int) -> None:
    with pytest.raises(TilewrightError, match=r"blocks of .* elements of K") as caught:
        decided(program(size, other))
    assert caught.value.span is not None and "32, 128, 256 or 512" in str(caught.value.remedy)


def test_the_tensor_core_alone_sums_nothing_scaled() -> None:
    with pytest.raises(TilewrightError, match="cannot be summed by the tensor core alone"):
        decided(program(128, 128), Wanted(accumulation="fast"))


def test_a_scaled_product_is_a_sum_of_slots_with_two_scales() -> None:
    found = program(128, 128)
    (walk,) = loops(found)
    (product,) = slot_sums(found, walk)
    assert len(scales_of(product.op)) == 2
    assert {parameter_name(found, load.tensor) for load in loads_of_scales(product.op)} == {"s", "t"}


def test_a_consumer_holds_two_accumulators() -> None:
    assert fits_registers(128, 128, 2) and fits_registers(128, 192, 2) and fits_registers(192, 128, 3)
    assert not fits_registers(128, 256, 2) and not fits_registers(64, 256, 1)
    for wanted in (Wanted(), Wanted(tile=(128, 128))):
        d = decided(program(128, 128), wanted)
        assert fits_registers(d.tile_rows, d.tile_columns, d.consumers)
