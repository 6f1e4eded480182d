# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The time of walks that only sum: what the tiles that are chosen rest on."""

from dataclasses import replace

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import cascade_axes
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cascade.sums.sum_time import sum_cycles, walk_cycles
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

BLACKWELL = target("sm_100a")


@tw.kernel
def product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[i, k], w[j, k], over=k)


def decided(m: int, n: int, k: int, shape: tuple[int, int] | None = None) -> tuple[tile.ProgramOp, CascadeDecisions]:
    wanted = Wanted(tile=shape)
    module = walked(trace(product, {"M": m, "N": n, "K": k}, elements_of(product, "bf16"), None), BLACKWELL, wanted)
    found = decide(the_program(module), BLACKWELL, wanted)
    assert isinstance(found, CascadeDecisions)
    return the_program(module), found


def test_a_second_slot_hides_what_is_stored() -> None:
    program, two = decided(8192, 8192, 1024, (128, 256))
    axes, one = cascade_axes(program), replace(two, sum_slots=1)
    summed = walk_cycles(program, axes, two, BLACKWELL)
    waves = -(-64 * 32 // two.ctas)
    both, apart = (sum_cycles(program, axes, each, BLACKWELL) for each in (two, one))
    stored = apart / waves - summed
    assert stored > 0 and both == pytest.approx(waves * max(summed, stored) + min(summed, stored))


def test_a_product_of_half_the_rows_takes_as_long() -> None:
    tall, low = (decided(4096, 4096, 1024, (rows, 256)) for rows in (128, 64))
    cycles = [walk_cycles(program, cascade_axes(program), d, BLACKWELL) for program, d in (tall, low)]
    assert cycles[0] < 1.3 * cycles[1], "what is fetched for more rows may take longer"


@pytest.mark.parametrize(
    ("extents", "shape"), [((8192, 8192, 4096), (128, 256)), ((16, 4096, 4096), (64, 32)), ((512, 512, 512), (64, 32))]
)
def test_tiles_are_as_large_as_leaves_all_multiprocessors_at_work(
    extents: tuple[int, int, int], shape: tuple[int, int]
) -> None:
    _, found = decided(*extents)
    assert (found.tile_rows, found.tile_columns, found.sum_slots) == (*shape, 2)
