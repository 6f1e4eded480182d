"""Integers that a program is tried on are ones that it can use."""

import numpy as np
import pytest
from examples import fused

from tilewright.base.error import TilewrightError
from tilewright.base.plan import LaunchPlan
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.run.random_integers import Array, random_integers
from tilewright.frontends.tile import language as tw
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import buffers, the_program
from tilewright.ir.tile.index_inputs import Places, index_inputs
from tilewright.runtime.bundle import Bundle

# Axis names in annotations are data.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportUnknownVariableType=false


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


@tw.kernel
def of_documents(
    x: tw.Tensor["Q", "E"], y: tw.Tensor["T", "E"], document: tw.Tensor["Q", tw.i32], other: tw.Tensor["T", tw.i32],
    first: tw.Tensor["Q", tw.i32], z: tw.Tensor["Q"],
):  # fmt: skip
    q, t, e = tw.axes("Q T E")
    seen = tw.where(tw.equal(document[q], other[t]), tw.dot(x[q, e], y[t, e], over=e), 0.0)
    z[q] = tw.sum(tw.where(first[q] <= t * 2.0 + 1.0, seen, 0.0), over=t)


def drawn(kernel: Kernel, seed: int = 0, **dims: int) -> dict[str, Array]:
    module = trace(kernel, dims, elements_of(kernel, "bf16"))
    bundle = Bundle(kernel.name, "sm_90a", LaunchPlan((), ()), "", facts={"tile": str(module)})
    return random_integers(bundle, buffers(the_program(module)), seed)


def test_ends_do_not_decrease_and_cover_every_row() -> None:
    for seed in range(20):
        (ends,) = drawn(consecutive, seed, T=300, G=7, K=64, N=64).values()
        assert ends.dtype == np.int32 and ends.shape == (7,)
        assert (np.diff(ends) >= 0).all() and ends[0] >= 0 and ends[-1] == 300


def test_counts_lie_within_their_axis() -> None:
    for seed in range(20):
        (counts,) = drawn(within, seed, G=50, M=9, K=64, N=64).values()
        assert counts.shape == (50,) and counts.min() >= 0 and counts.max() <= 9
        assert set(counts.tolist()) >= {0, 9}  # either end occurs among fifty


def test_a_table_names_pages_that_are_there_and_lengths_are_up_to_the_last_key() -> None:
    found = drawn(fused.paged_attention, B=64, H=4, T=128, E=64, F=64, P=3, S=64)
    assert set(found) == {"table", "lengths"}
    assert found["table"].shape == (64, 2) and set(found["table"].ravel().tolist()) == {0, 1, 2}
    assert found["lengths"].min() >= 0 and 100 < found["lengths"].max() <= 128


def test_rows_by_number_are_rows_of_the_array() -> None:
    (rows,) = drawn(fused.gathered_matmul, R=5, M=200, K=64, N=64).values()
    assert set(rows.tolist()) == {0, 1, 2, 3, 4}


def test_what_is_compared_with_positions_is_a_place_and_what_is_not_is_left() -> None:
    module = trace(of_documents, {"Q": 8, "T": 40, "E": 16}, elements_of(of_documents, "bf16"))
    assert index_inputs(the_program(module)) == {"first": Places(40)}


def test_other_programs_have_none() -> None:
    assert random_integers(Bundle("plain", "sm_90a", LaunchPlan((), ()), ""), ()) == {}
    assert drawn(fused.matmul_argmax, M=64, N=64, K=64) == {}


def test_an_unreadable_tile_program_is_said() -> None:
    bundle = Bundle("odd", "sm_90a", LaunchPlan((), ()), "", facts={"tile": "tile.nonsense"})
    with pytest.raises(TilewrightError, match="cannot be read"):
        random_integers(bundle, ())
