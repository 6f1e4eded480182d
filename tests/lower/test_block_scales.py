# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products scaled by blocks inside their loop: values against NumPy, proofs, and what the text looks like."""

import numpy as np
import pytest
from tests.lower.lowered_programs import Lowered, instructions, lower, random_inputs, reference, run

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.ptx.ast import Immediate
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

E4M3, E5M2, BF16, F32 = Element.F8E4M3, Element.F8E5M2, Element.BF16, Element.F32


@tw.kernel
def by_blocks(
    a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M", "K/128"], t: tw.Tensor["N/128", "K/128"],
    c: tw.Tensor["M", "N"],
):  # fmt: skip
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * s[i, k // 128] * t[j // 128, k // 128]
    c[i, j] = acc


@tw.kernel
def by_columns(
    a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], t: tw.Tensor["K/128", "N"], bias: tw.Tensor["N"],
    c: tw.Tensor["M", "N"],
):  # fmt: skip
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * tw.exp(t[k // 128, j] * 0.25)
    c[i, j] = tw.relu(acc + bias[j])


@tw.kernel
def by_deep_blocks(
    a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["K/256"], t: tw.Tensor["N/96", "K/128"],
    c: tw.Tensor["M", "N"],
):  # fmt: skip
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * s[k // 256] * t[j // 96, k // 128]
    c[i, j] = acc


@tw.kernel
def by_half_rows(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M", "K/64"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * s[i, k // 64]
    c[i, j] = acc


@tw.kernel
def by_steps(
    a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M", "K/32"], t: tw.Tensor["K/64", "N"],
    c: tw.Tensor["M", "N"],
):  # fmt: skip
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * s[i, k // 32] * t[k // 64, j]
    c[i, j] = acc


@tw.kernel
def by_neighbours(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M", "K/128"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * s[i + 1, k // 128]
    c[i, j] = acc


def lower_blocks(dims, kernel=by_blocks, element=E4M3, strides=None, **wanted) -> Lowered:
    elements = {item.name: F32 for item in kernel.parameters} | {"a": element, "b": element, "c": F32}
    return lower(kernel, dict(zip("MNK", dims, strict=True)), elements, strides, Wanted(**wanted))


def assert_right(lowered: Lowered) -> None:
    arrays = random_inputs(lowered)
    expected, got = reference(lowered, arrays)["c"], run(lowered, arrays)["c"]
    assert np.abs(got - expected).max() <= 2e-6 * np.abs(expected).max()


def assert_proved(lowered: Lowered) -> None:
    for module in lowered.kernels:
        assert isinstance(verify(module, HOPPER), Proven)


@pytest.mark.sample(2)
@pytest.mark.parametrize("tile", [(64, 64), (64, 128), (128, 64), (128, 128), (128, 192), (128, 160), (192, 128)])
def test_tiles(tile):
    lowered = lower_blocks((256, 384, 384), tile=tile)
    assert_proved(lowered)
    assert_right(lowered)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dims", [(1, 16, 128), (100, 200, 272), (129, 392, 640), (64, 7, 48)])
def test_extents_that_fill_no_tile_and_no_block(dims):
    lowered = lower_blocks(dims)
    assert_proved(lowered)
    assert_right(lowered)


@pytest.mark.sample(2)
@pytest.mark.parametrize("strides", [{"s": (1, 256)}, {"t": (1, 5)}, {"s": (7, 1), "t": (9, 2)}])
def test_scales_of_any_strides(strides):
    assert_right(lower_blocks((200, 256, 512), strides=strides, tile=(128, 128)))


@pytest.mark.sample(2)
@pytest.mark.parametrize("kernel", [by_columns, by_deep_blocks])
@pytest.mark.parametrize("tile", [None, (128, 128), (64, 96)])
def test_scales_along_other_axes(kernel, tile):
    lowered = lower_blocks((128, 288, 560), kernel, tile=tile)
    assert_proved(lowered)
    assert_right(lowered)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("kernel", "parts"), [(by_half_rows, 2), (by_steps, 4), (by_neighbours, 1)])
def test_blocks_of_a_part_of_a_slot_and_scales_of_neighbours(kernel, parts):
    lowered = lower_blocks((130, 160, 432), kernel)
    assert lowered.decisions.slot_parts == parts
    assert_proved(lowered)
    assert_right(lowered)


def test_sixteen_bit_products_are_scaled_in_deeper_slots():
    lowered = lower_blocks((128, 128, 320), element=BF16)
    assert lowered.decisions.tile_streamed == 128
    assert_right(lowered)


def test_a_transposed_result_exchanges_the_scales_axes():
    lowered = lower_blocks((200, 256, 256), strides={"c": (1, 200)})
    assert lowered.decisions.row == "N"
    assert_right(lowered)


def test_the_large_kernel_is_proved_as_text():
    dtype = {"a": "f8e4m3", "b": "f8e4m3", "s": "f32", "t": "f32", "c": "bf16"}
    dims = {"M": 4096, "N": 7168, "K": 2048}
    done = compile_kernel(by_blocks, dims=dims, dtype=dtype, assembled=False)
    assert done.text_proof is not None


def test_a_number_is_loaded_once_for_all_that_share_it():
    """A thread has two rows of every 64 and, in a tile of 128 columns, one block of columns."""
    lowered = lower_blocks((256, 256, 128), tile=(192, 128))
    assert (lowered.decisions.partials, lowered.decisions.scales_ahead) == (1, 2)
    found = [item for item in instructions(lowered.parsed) if item.row == "ld" and "global" in item.modifiers]
    assert len(found) == 5 * 3  # for two slices before the loop, for two in it, and for the odd one


def test_a_slice_is_multiplied_apart_and_added_by_the_threads():
    lowered = lower_blocks((256, 256, 512), tile=(192, 128))
    rows = [item.row for item in instructions(lowered.parsed)]
    # Two copies of the loop's body.
    assert rows.count("fma") == 2 * 64
    assert rows.count("wgmma.mma_async") == 2 * 4


@pytest.mark.sample(2)
@pytest.mark.parametrize("slices", range(1, 7))
@pytest.mark.parametrize("tile", [(64, 64), (128, 128), (192, 128)])
def test_any_number_of_slices(slices, tile):
    """Copies of the loop's body are left over, or not; a tile may have fewer slices than scales are loaded ahead."""
    assert_right(lower_blocks((tile[0] + 8, 2 * tile[1], 128 * slices - 32), tile=tile))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("split", "tile"), [(2, (64, 64)), (2, (128, 128)), (4, (128, 64))])
def test_ctas_share_the_slices_of_a_tile(split, tile):
    lowered = lower_blocks((tile[0] + 8, 2 * tile[1], 128 * 7 - 16), split=split, tile=tile)
    assert_proved(lowered)
    assert_right(lowered)


@pytest.mark.parametrize(("tile", "consumers"), [((192, 128), 3), ((128, 128), 2)])
def test_pairs_share_the_rows_of_scaled_slots(tile, consumers):
    lowered = lower_blocks((384, 256, 512), tile=tile, consumers=consumers, cluster=(1, 2))
    assert lowered.decisions.cluster == (1, 2) and "multicast::cluster" in lowered.ptx
    assert_right(lowered)


def test_many_scaled_slices_are_shared_by_pairs_and_proved():
    lowered = lower_blocks((4096, 2112, 7168))
    assert lowered.decisions.cluster == (1, 2)
    assert_proved(lowered)


def test_two_partial_products_and_two_sets_of_scales_keep_their_registers():
    """Round the loop, nothing but the cursor and the index is moved; one slot's product runs while another is added."""
    lowered = lower_blocks((256, 256, 1024), tile=(128, 128))
    assert (lowered.decisions.partials, lowered.decisions.scales_ahead, lowered.decisions.scaled_copies) == (2, 4, 2)
    found = instructions(lowered.parsed)
    assert not [item for item in found if item.opcode == "mov.f32" and str(item.operands[1]).startswith("%")]
    products = {item.operands[0] for item in found if item.row == "wgmma.mma_async"}
    assert len(products) == 2
    assert [item.operands[0] for item in found if item.row == "wgmma.wait_group"] == 2 * [Immediate(1), Immediate(0)]


def test_an_odd_slot_is_taken_alone():
    assert lower_blocks((256, 256, 896), tile=(128, 128)).decisions.partials == 1


def test_an_order_of_issue_that_a_walk_has_not_is_refused():
    with pytest.raises(TilewrightError, match="a walk issues products as they come"):
        lower_blocks((256, 256, 256), ordered=True)


def test_a_tile_without_room_for_two_accumulators_is_refused():
    with pytest.raises(TilewrightError, match="no registers for a total and a partial product"):
        lower_blocks((256, 256, 256), tile=(128, 256))
