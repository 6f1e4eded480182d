# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What is decided for products over groups: tiles by rows a group, maps with an axis of groups, and what is refused."""

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions, SlotDecision
from tilewright.ir.decisions import decisions_of
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target


@tw.kernel
def experts(x: tw.Tensor["T", "K"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G"], y: tw.Tensor["T", "N"]):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = acc


@tw.kernel
def masked(x: tw.Tensor["G", "T", "K"], w: tw.Tensor["G", "K", "N"], ends: tw.Tensor["G"], y: tw.Tensor["G", "T", "N"]):
    g, i, j = tw.grid("G", tw.within("T", ends), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, k, j])
    y[g, i, j] = acc


@tw.kernel
def shared_weights(x: tw.Tensor["T", "K"], w: tw.Tensor["K", "N"], ends: tw.Tensor["G"], y: tw.Tensor["T", "N"]):
    _g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[k, j])
    y[i, j] = acc


@tw.kernel
def columns_in_groups(x: tw.Tensor["N", "K"], w: tw.Tensor["K", "T"], ends: tw.Tensor["G"], y: tw.Tensor["N", "T"]):
    _g, j, i = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[k, j])
    y[i, j] = acc


def decided(kernel: tw.Kernel, wanted: Wanted | None = None, strides=None, **dims: int) -> CascadeDecisions:
    elements = {parameter.name: Element.BF16 for parameter in kernel.parameters} | {"ends": Element.S32}
    traced = trace(kernel, {"T": 4096, "G": 8, "K": 2048, "N": 4096} | dims, elements, strides)
    module = walked(traced, target("sm_90a"), wanted)
    decide(the_program(module), target("sm_90a"), wanted)
    found = decisions_of(the_program(module).attributes["decisions"])
    assert isinstance(found, CascadeDecisions)
    return found


def slot(d: CascadeDecisions, name: str) -> SlotDecision:
    (found,) = (each for each in d.slots if each.buffer == name)
    return found


@pytest.mark.parametrize(("rows", "most"), [(128, 64), (1024, 128), (8192, 256), (65536, 256)])
def test_few_rows_a_group_take_low_tiles(rows: int, most: int) -> None:
    assert decided(experts, T=rows).tile_rows <= most


def test_many_rows_a_group_take_tiles_that_fetch_little() -> None:
    d = decided(experts, T=65536)
    assert d.tile_rows >= 128


def test_weights_are_picked_by_an_axis_of_their_map() -> None:
    d = decided(experts)
    assert slot(d, "w").map.dims == (2048, 4096, 8)
    assert slot(d, "w").map.strides_bytes == (4096, 2 * 2048 * 4096)
    assert slot(d, "w").map.box[-1] == 1
    assert slot(d, "x").map.dims == (2048, 4096)
    assert d.grouping[0].pitch == 0


def test_groups_that_stand_apart_are_rows_in_one_line() -> None:
    d = decided(masked, T=100)
    assert d.grouping[0].pitch == 100
    assert slot(d, "x").map.dims == (2048, 800)


def test_groups_of_padded_arrays_keep_their_distance() -> None:
    strides = {"x": (128 * 2048, 2048, 1), "y": (128 * 4096, 4096, 1)}
    assert decided(masked, strides=strides, T=100).grouping[0].pitch == 128


def test_one_row_of_each_group_is_as_far_from_the_next_as_the_groups_are() -> None:
    for strides in (None, {"x": (96, 48, 1), "y": (2 * 4096, 4096, 1)}):
        d = decided(masked, strides=strides, T=1, K=48)
        assert d.grouping[0].pitch == (2 if strides else 1)
        assert slot(d, "x").map.strides_bytes == (96,)
        assert slot(d, "x").map.dims == (48, 15 if strides else 8)


def test_many_rows_are_taken_in_turn_lower_tiles_where_sums_are_long() -> None:
    """A lower tile wastes fewer rows at a group's end; the turns of more of them cost more where each is short."""
    assert decided(experts, T=65536, G=128, N=2048, K=768).turns
    assert decided(experts, T=65536, G=128, N=2048, K=768).tile_rows == 128
    assert not decided(experts, Wanted(turns=False), T=65536, G=128, N=2048, K=768).turns
    assert decided(experts, T=65536, G=128, N=2048, K=4096).turns
    assert decided(experts, T=65536, G=128, N=2048, K=4096).tile_rows == 64
    assert not decided(experts, T=65536, G=128, N=2048, K=64).turns


def test_weights_that_hardly_two_tiles_read_are_given_up_first() -> None:
    """Where groups have few rows, and the weights are more than the L2 cache keeps for the next launch."""
    few, many = decided(experts, T=512, G=32, N=7168, K=2048), decided(experts, T=65536, G=32, N=7168, K=2048)
    assert slot(few, "w").read_once and not slot(few, "x").read_once
    assert not slot(many, "w").read_once
    assert not slot(decided(experts, T=16, G=4, N=1024, K=1024), "w").read_once


def test_an_order_of_issue_is_refused() -> None:
    with pytest.raises(TilewrightError, match="in order"):
        decided(experts, Wanted(ordered=True))


def test_weights_without_groups_serve_all() -> None:
    assert len(slot(decided(shared_weights), "w").map.dims) == 2


def test_vectors_only_where_rows_are_whole_ones() -> None:
    assert decided(experts).grouping[0].vectors == ("y",)
    assert decided(experts, N=4100).grouping[0].vectors == ()
    assert decided(experts, Wanted(misaligned=("y",))).grouping[0].vectors == ()


def test_everything_fits_shared_memory() -> None:
    for shape in ((128, 256), (256, 128), (128, 192), (128, 128), (64, 256), (64, 128)):
        d = decided(experts, Wanted(tile=shape))
        assert d.smem_bytes <= target("sm_90a").limit("cta.shared_bytes_max")
        assert d.slots[0].slots >= 3


@pytest.mark.parametrize(
    ("kernel", "options", "words"),
    [
        (experts, {"wanted": Wanted(tile=(96, 256))}, "no tile shape"),
        (experts, {"wanted": Wanted(stages=9)}, "9 stages"),
        (experts, {"wanted": Wanted(turns=True), "K": 64}, "ping-pong"),
        (experts, {"K": 2041}, "no tensor map brings w: row stride 4082 bytes"),
        (experts, {"wanted": Wanted(misaligned=("w",))}, "w begins at no multiple of 16 bytes"),
        (experts, {"strides": {"x": (1, 4096)}}, "x is contiguous along T, whose groups begin at any row"),
        (experts, {"strides": {"y": (1, 4096)}}, "is not contiguous along N"),
        (masked, {"T": 1, "K": 129}, "no tensor map brings x: row stride 258 bytes"),
        (masked, {"T": 1, "K": 2}, "no tensor map brings x: row stride 4 bytes"),
        (masked, {"strides": {"y": (4096 * 4096 + 8, 4096, 1)}}, "stand differently far apart"),
        (masked, {"strides": {"y": (4096 * 4097, 4096, 1)}}, "stand differently far apart"),
        (columns_in_groups, {}, "w is contiguous along T, whose groups begin at any row"),
    ],
)
def test_what_is_refused_and_how(kernel: tw.Kernel, options: dict, words: str) -> None:
    with pytest.raises(TilewrightError, match=words) as caught:
        decided(kernel, **options)
    assert caught.value.remedy


FEW = {"T": 512, "G": 32, "N": 7168, "K": 2048}


def test_slices_are_deep_where_device_memory_binds() -> None:
    d = decided(experts, **FEW)
    assert d.tile_streamed == 128 and d.slots[0].slots >= 2
    assert d.smem_bytes <= target("sm_90a").limit("cta.shared_bytes_max")
    assert any("device memory takes" in reason for reason in d.reasons)


@pytest.mark.parametrize(
    "dims", [{"T": 32768}, {"K": 1024}, {"G": 2, "T": 32}], ids=["many rows", "short sums", "weights in the cache"]
)
def test_slices_keep_to_one_span_elsewhere(dims: dict[str, int]) -> None:
    assert decided(experts, **FEW | dims).tile_streamed == 64


def test_slices_of_weights_along_columns_keep_to_one_span() -> None:
    assert decided(masked, **FEW | {"T": 16}).tile_streamed == 64


def test_wishes_decide_the_depth_of_slices() -> None:
    assert decided(experts, Wanted(depth=64), **FEW).tile_streamed == 64
    assert decided(experts, Wanted(stages=4), **FEW).slots[0].slots == 4


def test_launches_overlap_where_weights_are_read_once() -> None:
    assert decided(experts, **FEW).programmatic
    assert not decided(experts, **FEW | {"T": 32768}).programmatic
    assert not decided(experts, Wanted(programmatic=False), **FEW).programmatic
    assert decided(experts, Wanted(programmatic=True), **FEW | {"T": 32768}).programmatic


def test_where_memory_binds_few_groups_need_two_tiles() -> None:
    """And weights that some groups read twice are not given up first."""
    dims = {"T": 8192, "G": 128, "N": 3072, "K": 4096}
    d = decided(experts, **dims)
    assert (d.tile_rows, d.tile_columns, d.tile_streamed, d.turns) == (128, 256, 128, 0)
    assert not slot(d, "w").read_once and not d.programmatic
    assert decided(experts, Wanted(tile=(64, 256)), **dims).tile_rows == 64
    assert decided(experts, **FEW).tile_rows == 64
