# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products that numbers of blocks scale, as walks: what is multiplied with what, and which tiles are taken."""

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import is_of_slots, products_of
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.types import value_type
from tilewright.ir.tile.walked_block import WalkedBlockOp
from tilewright.synth.decide import decide
from tilewright.synth.streaming.loop_products import as_walk
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

BLACKWELL = target("sm_100a")
DIMS = {"M": 128, "N": 128, "K": 512}


def scaled_by(size: int) -> Kernel:
    @tw.kernel
    def scaled(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M", f"K/{size}"], c: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[j, k].T) * s[i, k // size]
        c[i, j] = acc

    return scaled


@tw.kernel
def by_blocks_alone(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["K/64"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * s[k // 64]
    c[i, j] = acc


def decided(kernel: Kernel, wanted: Wanted | None = None) -> CascadeDecisions:
    module = walked(trace(kernel, DIMS, elements_of(kernel, "bf16"), None), BLACKWELL)
    decisions = decide(the_program(module), BLACKWELL, wanted or Wanted())
    assert isinstance(decisions, CascadeDecisions)
    return decisions


@pytest.mark.parametrize("size", [64, 128, 256])
def test_tiles_of_the_walk_lie_within_blocks(size: int) -> None:
    d = decided(scaled_by(size))
    assert size % d.tile_streamed == 0 and d.tile_columns <= 128
    # Each consumer issues its own products, whose operands are both in slots.
    assert d.tensor_columns and not d.sum_slots and {slot.buffer for slot in d.slots} == {"a", "b"}


def test_a_depth_that_straddles_blocks_is_refused() -> None:
    with pytest.raises(TilewrightError, match="no tile of this program fits"):
        decided(scaled_by(64), Wanted(depth=128))


def test_blocks_that_are_no_whole_rows_of_a_slot_are_refused_at_their_line() -> None:
    with pytest.raises(TilewrightError, match="scaled by blocks of 32 elements of K") as caught:
        decided(scaled_by(32))
    assert caught.value.span is not None and caught.value.span.file == __file__


def test_a_scale_is_taken_at_the_tiles_own_block() -> None:
    kernel = scaled_by(128)
    found = as_walk(trace(kernel, DIMS, elements_of(kernel, "bf16"), None))
    assert found is not None
    program = the_program(found)
    (block,) = [op for op in program.walk() if isinstance(op, WalkedBlockOp)]
    (product,) = products_of(program)
    assert block.axis.data == "K/128" and is_of_slots(program, product)


def test_a_number_for_each_block_alone_has_no_axis_left() -> None:
    found = as_walk(trace(by_blocks_alone, DIMS, elements_of(by_blocks_alone, "bf16"), None))
    assert found is not None
    (block,) = [op for op in the_program(found).walk() if isinstance(op, WalkedBlockOp)]
    assert value_type(block.result).axis_names == ()
    assert decided(by_blocks_alone).tile_streamed == 64
