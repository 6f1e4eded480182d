# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
"""A kernel that would spill gets another tile, or is refused where its tile was asked for."""

from dataclasses import replace

import pytest
from tests.driver.compile.spilling_programs import residual

from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.spills import roomier, without_spills
from tilewright.frontends.tile import language as tw
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.rows import RowDecision
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


@tw.kernel
def attention(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]) -> None:
    i, t, e, f = tw.axes("Q T E F")
    o[i, f] = tw.dot(tw.softmax(tw.dot(q[i, e], k[t, e], over=e), over=t), v[t, f], over=t)


@tw.kernel
def of_zero_points(
    x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K", tw.i8], s: tw.Tensor["N", "K/64"], z: tw.Tensor["N", "K/64", tw.i8],
    y: tw.Tensor["M", "N"],
) -> None:  # fmt: skip
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[i, k], ((w[j, k] - z[j, k // 64]) * s[j, k // 64]).to(tw.bf16), over=k)


def test_an_operand_whose_threads_spill_is_another_kernels() -> None:
    """ptxas 12.9 spills 100 bytes of the threads that compute it; no sum of the program is divided by the cut."""
    sizes = {"M": 256, "N": 512, "K": 512}
    one = compile_kernel(of_zero_points, dims=sizes, rerun=False, assembled=False)
    made = compile_kernel(of_zero_points, dims=sizes)
    assert (len(one.plan.launches), len(made.plan.launches)) == (1, 2)
    assert made.assembly is not None
    assert made.assembly.spill_bytes == 0
    assert made.text_proof is not None


_SPILLING = Wanted(tile=(128, 200), turns=True)
"""Tiles whose accumulators leave 32 registers: ptxas 12.9 spills 24 bytes of this program."""


@pytest.mark.full
def test_a_tile_that_was_asked_for_gets_slots() -> None:
    made = compile_kernel(residual, dims={"M": 2048, "N": 2048, "K": 2048}, wanted=_SPILLING, rerun=False)
    assert isinstance(made.decisions, CascadeDecisions)
    assert (made.decisions.tile_columns, made.decisions.spill_slots > 0) == (200, True)
    assert made.assembly is not None
    assert made.assembly.spill_bytes == 0


def test_three_consumers_have_registers_enough() -> None:
    """Beside 96 accumulators 56 are left, of which an epilogue with operands of its own needs no more."""
    wanted = Wanted(tile=(192, 192), turns=False)
    made = compile_kernel(residual, dims={"M": 2049, "N": 1921, "K": 65}, wanted=wanted, rerun=False)
    assert isinstance(made.decisions, CascadeDecisions)
    assert (made.decisions.consumers, made.decisions.consumer_registers, made.decisions.spill_slots) == (3, 152, 0)
    assert made.assembly is not None
    assert made.assembly.spill_bytes == 0


@pytest.mark.full
def test_slots_take_no_stage_that_was_asked_for() -> None:
    """Then nothing is left but to refuse the tile, with the place."""
    wanted = replace(_SPILLING, stages=5)
    with pytest.raises(TilewrightError, match=r"would spill \d+ bytes.*registers.*line \d+") as refused:
        compile_kernel(residual, dims={"M": 2048, "N": 2048, "K": 2048}, wanted=wanted, rerun=False)
    assert "fewer columns" in (refused.value.remedy or "")


def test_a_tile_that_the_compiler_chose_stays_with_slots() -> None:
    dims = {"M": 8192, "N": 8192, "K": 8192}
    unassembled = compile_kernel(residual, dims=dims, rerun=False, assembled=False).decisions
    made = compile_kernel(residual, dims=dims, rerun=False)
    assert made.assembly is not None
    assert made.assembly.spill_bytes == 0
    assert isinstance(made.decisions, CascadeDecisions)
    assert isinstance(unassembled, CascadeDecisions)
    assert (made.decisions.turns, made.decisions.tile_columns) == (unassembled.turns, unassembled.tile_columns)
    assert made.decisions.spill_slots > unassembled.spill_slots == 0


def test_two_consumers_come_after_three_and_then_narrower_tiles_of_two() -> None:
    sizes = {"Q": 64, "T": 256, "E": 64, "F": 64}
    decisions = compile_kernel(attention, dims=sizes, rerun=False, assembled=False).decisions
    assert isinstance(decisions, CascadeDecisions)
    three = replace(decisions, consumers=3, tile_streamed=48)
    wishes = list(without_spills(three, Wanted(), 16, target("sm_90a")))
    assert [(each.consumers, each.depth) for each in wishes] == [(2, None), (2, 32), (2, 16)]
    asked = Wanted(consumers=3)
    assert [each.consumers for each in without_spills(three, asked, 16, target("sm_90a"))] == [3, 3]


def test_slots_come_before_other_tiles() -> None:
    dims = {"M": 8192, "N": 8192, "K": 8192}
    decisions = compile_kernel(residual, dims=dims, rerun=False, assembled=False).decisions
    assert isinstance(decisions, CascadeDecisions)
    wishes = list(without_spills(decisions, Wanted(), 16, target("sm_90a")))
    slots = [wish for wish in wishes if wish.spill_slots]
    assert wishes[: len(slots)] == slots
    assert [wish.spill_slots for wish in slots] == sorted({wish.spill_slots for wish in slots})
    assert min(wish.spill_slots for wish in slots) >= 2
    assert wishes[len(slots) :] == list(roomier(decisions, Wanted()))


def test_roomier_tiles_have_fewer_accumulators_and_leave_fixed_ones_alone() -> None:
    dims = {"M": 2048, "N": 2048, "K": 2048}
    decisions = compile_kernel(residual, dims=dims, wanted=_SPILLING, rerun=False, assembled=False).decisions
    found = list(roomier(decisions, Wanted(misaligned=("r",))))
    assert found
    for wish in found:
        assert wish.tile is not None
        assert wish.tile[0] * wish.tile[1] < 128 * 200
        assert wish.misaligned == ("r",)
    assert list(roomier(decisions, _SPILLING)) == []
    assert list(roomier(ElementwiseDecisions(1, 128, ()), Wanted())) == []


def test_rows_are_taken_by_more_threads() -> None:
    """ptxas 12.9 spills 8 bytes of this program where 128 threads hold a row each, at 72 registers."""
    row = RowDecision("N", 128, 8, 4, 0, ("g", "y"))
    wishes = list(without_spills(ElementwiseDecisions(8, 128, (), rows=(row,)), Wanted(), 8, target("sm_90a")))
    assert [(each.row_threads, each.resident) for each in wishes] == [
        *((threads, None) for threads in (256, 512, 1024)), *((None, together) for together in (4, 3, 2, 1))
    ]  # fmt: skip
    short = replace(row, threads=16)
    wishes = without_spills(ElementwiseDecisions(8, 128, (), rows=(short,)), Wanted(), 8, target("sm_90a"))
    assert [each.row_threads for each in wishes if each.row_threads] == [32, 128, 256, 512, 1024]


@tw.kernel
def weighed_experts(
    x: tw.Tensor["T", "K"],
    w: tw.Tensor["G", "N", "K"],
    ends: tw.Tensor["G", tw.i32],
    s: tw.Tensor["T"],
    r: tw.Tensor["T", "N"],
    b: tw.Tensor["G", "N"],
    y: tw.Tensor["T", "N"],
) -> None:
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    total = tw.zeros(i, j)
    for k in tw.loop("K"):
        total += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = tw.gelu(total + b[g, j]) * s[i] + r[i, j]


GROUPS = {"T": 8192, "G": 8, "N": 4096, "K": 4096}


def test_walks_that_sum_get_tiles_of_fewer_sums() -> None:
    """And no slots of another depth, of which their sums have no fewer registers."""
    for kernel, dims, wanted in (
        (weighed_experts, GROUPS, Wanted()),
        (residual, {"M": 4096, "N": 4096, "K": 4096}, Wanted()),
    ):
        made = compile_kernel(kernel, dims=dims, wanted=wanted, rerun=False, assembled=False)
        d = made.decisions
        assert isinstance(d, CascadeDecisions)
        tried = [each for each in without_spills(d, wanted, 8, target("sm_90a")) if not each.spill_slots]
        assert tried and all(each.tile is not None and each.depth is None for each in tried)
        other = compile_kernel(kernel, dims=dims, wanted=tried[0], rerun=False, assembled=False).decisions
        assert isinstance(other, CascadeDecisions)
        assert other.unit_rows * other.tile_columns < d.unit_rows * d.tile_columns
        fixed = without_spills(d, replace(wanted, tile=tried[0].tile), 8, target("sm_90a"))
        assert all(each.spill_slots for each in fixed)


def test_walks_that_sum_get_slots_first_but_for_those_of_groups() -> None:
    for kernel, dims, wanted in (
        (weighed_experts, GROUPS, Wanted()),
        (residual, {"M": 4096, "N": 4096, "K": 4096}, Wanted()),
    ):
        d = compile_kernel(kernel, dims=dims, wanted=wanted, rerun=False, assembled=False).decisions
        assert isinstance(d, CascadeDecisions)
        slots = [each.spill_slots for each in without_spills(d, wanted, 8, target("sm_90a"))]
        assert bool(slots[0]) is not bool(d.grouping) and (not d.grouping or not any(slots))


@pytest.mark.full
def test_an_epilogue_of_many_numbers_in_groups_gets_another_tile() -> None:
    made = compile_kernel(weighed_experts, dims=GROUPS, rerun=False)
    assert made.assembly is not None and made.assembly.spill_bytes == 0


@tw.kernel
def turned(x: tw.Tensor["A", "B", "C"], y: tw.Tensor["A", "C", "B"]) -> None:
    a, c, b = tw.axes("A C B")
    y[a, c, b] = x[a, b, c] * 2.0


@tw.kernel
def turned_twice(x: tw.Tensor["N", "M"], z: tw.Tensor["N", "M"], y: tw.Tensor["M", "N"]) -> None:
    i, j = tw.axes("M N")
    y[i, j] = tw.exp(x[j, i].T) + z[j, i].T


@pytest.mark.parametrize(
    ("kernel", "dims", "words"),
    [
        (turned, {"A": 3, "B": 33, "C": 40}, "registers of a thread: "),
        (turned, {"A": 3, "B": 40, "C": 40}, "registers of a thread: "),
        (turned_twice, {"M": 33, "N": 33}, "tiles of 32 x 32"),
    ],
)
def test_threads_that_turn_tiles_get_registers_or_smaller_tiles(kernel, dims, words) -> None:
    made = compile_kernel(kernel, dims=dims, dtype="f16", rerun=False)
    assert made.assembly is not None
    assert made.assembly.spill_bytes == 0
    assert words in " ".join(made.decisions.reasons)


@tw.kernel
def normed(x: tw.Tensor["K", "M"], w: tw.Tensor["K", "N"], e: tw.Tensor["N"], y: tw.Tensor["M", "N"]) -> None:
    i, j, k = tw.axes("M N K")
    v = tw.dot((x[k, i] * 0.5).to(tw.bf16).T, w[k, j], over=k) + e[j]
    y[i, j] = v * tw.rsqrt(tw.mean(v * v, over=j) + 1e-6)


def test_of_several_kernels_the_one_that_spills_is_cut() -> None:
    made = compile_kernel(normed, target="sm_100a", dims={"M": 200, "N": 136, "K": 129}, rerun=False)
    assert made.assembly is not None
    assert made.assembly.spill_bytes == 0
    assert len(made.parts) == 3
