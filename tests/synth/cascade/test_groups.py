# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What is decided of walks whose rows stand in groups, and what is refused at which line."""

from pathlib import Path

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.sequence import uncut
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cascade.groups import tile_count
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

BLACKWELL = target("sm_100a")


@tw.kernel
def experts(x: tw.Tensor["T", "K"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G", tw.i32], y: tw.Tensor["T", "N"]):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = acc


@tw.kernel
def masked(
    x: tw.Tensor["G", "T", "K"], w: tw.Tensor["G", "K", "N"], ends: tw.Tensor["G", tw.i32], y: tw.Tensor["G", "T", "N"]
):
    g, i, j = tw.grid("G", tw.within("T", ends), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, k, j])
    y[g, i, j] = acc


@tw.kernel
def stored_across(
    x: tw.Tensor["T", "K"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G", tw.i32], y: tw.Tensor["N", "T"]
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[j, i] = acc.T


@tw.kernel
def displaced(
    x: tw.Tensor["T", "K"],
    w: tw.Tensor["G", "N", "K"],
    r: tw.Tensor["T", "N"],
    ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = acc + r[i + 1, j]


@tw.kernel
def computed(x: tw.Tensor["T", "K"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G", tw.i32], y: tw.Tensor["T", "N"]):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((x[i, k] * 2.0).to(tw.bf16), w[g, j, k].T)
    y[i, j] = acc


def decided(kernel: Kernel, strides: dict[str, tuple[int, ...]] | None = None, **dims: int) -> CascadeDecisions:
    module = walked(trace(kernel, dims, elements_of(kernel, "bf16"), strides), BLACKWELL)
    decisions = decide(the_program(module), BLACKWELL, Wanted())
    assert isinstance(decisions, CascadeDecisions)
    return decisions


def test_groups_that_follow_one_another() -> None:
    d = decided(experts, T=4096, G=16, N=1024, K=512)
    (groups,) = d.grouping
    assert (groups.axis, groups.limits, groups.pitch, groups.vectors) == ("G", "ends", 0, ("y",))
    assert (d.batch, d.row, d.column) == (("G",), "T", "N")
    weights, rows = sorted(d.slots, key=lambda each: each.buffer == "x")
    assert weights.batch == ("G",) and weights.dims == (512, 1024, 16)
    assert rows.batch == () and rows.dims == (512, 4096)


def test_groups_that_stand_apart_are_one_line_of_rows() -> None:
    d = decided(masked, {"x": (300 * 64, 64, 1), "y": (300 * 72, 72, 1)}, T=200, G=3, N=72, K=64)
    (groups,) = d.grouping
    assert groups.pitch == 300
    (rows,) = (each for each in d.slots if each.buffer == "x")
    assert rows.batch == () and rows.dims == (64, 2 * 300 + 200)


def test_results_whose_rows_are_no_whole_vectors_leave_in_words() -> None:
    assert decided(experts, T=64, G=2, N=67, K=64).grouping[0].vectors == ()


def test_a_group_has_half_a_tile_more_than_its_rows() -> None:
    program = the_program(trace(experts, {"T": 1280, "G": 4, "N": 256, "K": 64}, elements_of(experts, "bf16"), None))
    assert tile_count(program, ("T", 128), ("N", 128), ("G",)) == 4 * 3 * 2
    assert tile_count(program, ("T", 640), ("N", 256), ("G",)) == 4, "no group has fewer than one"
    program = the_program(trace(masked, {"T": 320, "G": 4, "N": 256, "K": 64}, elements_of(masked, "bf16"), None))
    assert tile_count(program, ("T", 128), ("N", 128), ("G",)) == 4 * 3 * 2


@tw.kernel
def of_bytes(
    x: tw.Tensor["T", "K"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G", tw.i32], y: tw.Tensor["T", "N", tw.f8e4m3]
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = acc * 0.1


@pytest.mark.parametrize(
    ("kernel", "words", "line"),
    [
        (of_bytes, "y of 8-bit elements, behind rows in groups", "y[i, j] = acc * 0.1"),
        (stored_across, "y over (N, T) is not contiguous along N, behind rows in groups", "y[j, i]"),
        (displaced, "r is displaced in groups", "r[i + 1, j]"),
    ],
)
def test_what_is_refused(kernel: Kernel, words: str, line: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        decided(kernel, T=256, G=2, N=64, K=64)
    assert words in caught.value.message and caught.value.span is not None
    assert line in Path(__file__).read_text("utf-8").split("\n")[caught.value.span.line - 1]


def test_an_operand_that_is_computed_before() -> None:
    """Then the tensor core takes the rows of a group as those of any sum."""
    module = trace(computed, {"T": 256, "G": 2, "N": 64, "K": 64}, elements_of(computed, "bf16"), None)
    _, product = uncut(module, BLACKWELL, Wanted())
    d = product.decisions
    assert isinstance(d, CascadeDecisions) and d.grouping and d.tensor_columns and d.sum_slots


def test_groups_that_stand_differently_far_apart() -> None:
    with pytest.raises(TilewrightError, match="stand differently far apart in x and y"):
        decided(masked, {"x": (300 * 64, 64, 1)}, T=200, G=3, N=72, K=64)
