# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""When two CTAs may compute tiles as a pair, what each brings, and when that is chosen."""

from collections.abc import Mapping

import pytest
from tests.lower import cascade_programs

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import cascade_axes
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cascade.decide import decide_cascade
from tilewright.synth.cascade.sums.sum_time import sum_cycles
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

BLACKWELL = target("sm_100a")
PAIR, ALONE = (2, 1), (1, 1)


@tw.kernel
def product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[i, k], w[j, k], over=k)


@tw.kernel
def of_columns(x: tw.Tensor["K", "M"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[k, i], w[k, j], over=k)


def decided(kernel: Kernel, dims: Mapping[str, int], wanted: Wanted) -> tuple[CascadeDecisions, float]:
    """The decisions, and the cycles that are predicted."""
    module = walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), BLACKWELL, wanted)
    program = the_program(module)
    found = decide_cascade(program, BLACKWELL, wanted)
    time = sum_cycles(program, cascade_axes(program), found, BLACKWELL) if found.sum_slots else 0.0
    return found, time


LARGE = {"M": 4096, "N": 4096, "K": 4096}


@pytest.mark.parametrize(("kernel", "dimension"), [(product, 1), (of_columns, 0)])
def test_each_cta_brings_half_of_the_columns(kernel: Kernel, dimension: int) -> None:
    d, _ = decided(kernel, LARGE, Wanted(tile=(128, 192), cluster=PAIR))
    assert (d.pair, d.cluster, d.tile_columns, d.tile_rows) == (1, PAIR, 192, 128)
    x, w = sorted(d.slots, key=lambda slot: slot.buffer, reverse=True)
    assert (w.halved, w.halved_dimension, x.halved) == (96, dimension, 0)
    alone, _ = decided(kernel, LARGE, Wanted(tile=(128, 192), cluster=ALONE))
    (whole,) = (slot for slot in alone.slots if slot.buffer == "w")
    assert whole.halved == 0 and w.slot_bytes < whole.slot_bytes
    assert d.ctas % 2 == 0


def test_what_takes_less_time_is_chosen() -> None:
    """Whatever is larger: the choice without a wish is the quicker one of both."""
    chosen: set[int] = set()
    for dims in (
        LARGE,
        {"M": 1024, "N": 1024, "K": 1024},
        {"M": 129, "N": 64, "K": 64},
        {"M": 16384, "N": 512, "K": 64},
    ):
        free, time = decided(product, dims, Wanted())
        times = [decided(product, dims, Wanted(cluster=each))[1] for each in (ALONE, PAIR)]
        assert time == min(times), dims
        assert bool(free.pair) == (times[1] < times[0])
        chosen.add(free.pair)
    assert chosen == {0, 1}


def test_an_odd_number_of_tiles_takes_a_pair_more() -> None:
    d, _ = decided(product, {"M": 384, "N": 64, "K": 64}, Wanted(tile=(128, 64), cluster=PAIR))
    assert d.ctas == 4


@tw.kernel
def in_groups(
    x: tw.Tensor["T", "K"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G", tw.i32], y: tw.Tensor["T", "N"]
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = acc


SQUARE = {"M": 512, "N": 512, "K": 512}


@pytest.mark.parametrize(
    ("kernel", "dims", "wanted", "reason"),
    [
        (product, SQUARE, Wanted(tile=(64, 64), cluster=PAIR), "a pair has tiles of 128 rows"),
        (product, SQUARE, Wanted(tile=(128, 48), cluster=PAIR), "columns come in steps of 32"),
        (product, SQUARE, Wanted(cluster=(1, 2)), "pairs are 2x1"),
        (
            cascade_programs.attention,
            {"B": 1, "H": 1, "Q": 256, "T": 256, "E": 64, "F": 64},
            Wanted(cluster=PAIR),
            "consumers issue some of the products",
        ),
        (in_groups, {"T": 512, "K": 64, "G": 4, "N": 64}, Wanted(cluster=PAIR), "rows in groups"),
    ],
    ids=["of 64 rows", "of columns that no pair takes", "of another shape", "beside folds", "in groups"],
)
def test_a_pair_that_there_is_not_is_refused(
    kernel: Kernel, dims: Mapping[str, int], wanted: Wanted, reason: str
) -> None:
    with pytest.raises(TilewrightError, match=reason):
        decided(kernel, dims, wanted)


def test_where_one_cta_is_asked_for() -> None:
    d, _ = decided(product, SQUARE, Wanted(tile=(128, 64), cluster=ALONE))
    assert (d.pair, d.cluster) == (0, ALONE)


@tw.kernel
def of_pages(
    x: tw.Tensor["M", "K"], pages: tw.Tensor["N/16", tw.i32], w: tw.Tensor["P", "S", "K"], y: tw.Tensor["M", "N"]
):
    i, j, k = tw.axes("M N K")
    rows = w[pages[j // 16], j % 16, k]
    y[i, j] = tw.dot(x[i, k], rows, over=k)


def test_no_pair_where_tables_lead_to_columns() -> None:
    """A half begins where the CTA's rank says, and no table is asked for that."""
    dims = {"M": 1024, "N": 1024, "K": 4096, "P": 64, "S": 16}
    d, _ = decided(of_pages, dims, Wanted())
    assert d.pair == 0 and any(slot.lookups for slot in d.slots)
    with pytest.raises(TilewrightError, match="columns of w that lie where tables or blocks say"):
        decided(of_pages, dims, Wanted(cluster=PAIR))
