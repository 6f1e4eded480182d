# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products of few rows: which tiles, which orientation, when split, when two CTAs share a multiprocessor."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted, decide
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.synth.tile.thin_product import thin_cycles, thin_rates
from tilewright.targets import target

HOPPER = target("sm_90a")
_TOO_LARGE = {"tile": (128, 128), "depth": 256, "resident": 2}


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


def decided(m: int, n: int, k: int, **wanted: object) -> PipelineDecisions:
    module = trace(matmul, {"M": m, "N": n, "K": k}, {name: tw.bf16 for name in "abc"}, {"b": (1, k)})
    decisions = decide(the_program(module), HOPPER, Wanted(**wanted))
    assert isinstance(decisions, PipelineDecisions)
    return decisions


@pytest.mark.parametrize("m", [1, 8, 16])
@pytest.mark.parametrize(("n", "k"), [(4096, 4096), (14336, 4096), (7168, 2048)])
def test_very_few_rows_are_the_accumulators_columns(m: int, n: int, k: int):
    plan = decided(m, n, k)
    assert plan.swapped == 1 and plan.tile_m == 64 and plan.tile_n == max(8, m)


@pytest.mark.parametrize(("n", "k"), [(14336, 4096), (6144, 4096), (7168, 2048)])
def test_more_rows_are_multiplied_as_they_are_by_an_even_share_of_columns(n: int, k: int):
    plan = decided(64, n, k)
    assert plan.swapped == 0 and plan.ctas == -(-n // plan.tile_n) <= HOPPER.limit("device.multiprocessors")
    assert n % plan.tile_n == 0


def test_a_long_contracted_axis_of_many_rows_is_split():
    """Each CTA would fetch all rows again; two that share a tile fetch half of them each."""
    plan = decided(128, 4096, 14336)
    assert plan.split == 2 and plan.ctas == 128
    assert decided(128, 14336, 4096).split == 1


@pytest.mark.parametrize("size", [16, 48, 64])
def test_a_product_of_one_tile_is_shared_by_teams_of_several_gpcs(size: int):
    plan = decided(size, size, 20480)
    tiles = -(-size // plan.tile_n)
    assert plan.teams >= 4 and plan.ctas == tiles * plan.shares >= 24 and plan.tile_m == 64
    assert plan.split <= HOPPER.limit("cluster.ctas_max_portable")


@pytest.mark.parametrize("n", [4096, 7168, 12288, 13312, 22016])
def test_rows_of_the_other_operand_are_fetched_in_whole_lines(n: int):
    """Shares of 32 to 168 columns would deal them out more evenly; boxes of their rows would cross lines."""
    module = trace(matmul, {"M": 64, "N": n, "K": 4096}, {name: tw.bf16 for name in "abc"})
    plan = decide(the_program(module), HOPPER)
    assert isinstance(plan, PipelineDecisions) and plan.b.major == "MN"
    assert plan.tile_n % 64 == 0


def test_small_rings_leave_room_for_the_next_launch_where_there_are_many_ctas():
    plan = decided(1, 7168, 2048)
    limit = HOPPER.limit("multiprocessor.shared_bytes")
    assert 2 * (plan.smem_bytes + HOPPER.limit("cta.shared_reserved_bytes")) <= limit
    assert 2 * plan.launch_registers * 128 * (1 + plan.consumers) <= HOPPER.limit("multiprocessor.registers")
    assert plan.prefetch == 0
    # Half of the multiprocessors are free anyway.
    assert decided(1, 4096, 4096).smem_bytes > limit // 2


def test_what_is_asked_for_is_not_overruled():
    plan = decided(16, 4096, 4096, tile=(64, 64), swapped=False)
    assert (plan.tile_m, plan.tile_n, plan.swapped, plan.split) == (64, 64, 0, 1)
    assert decided(16, 4096, 4096, split=2, tile=(64, 16), swapped=True).split == 2
    assert decided(16, 4096, 4096, swapped=False).swapped == 0
    for wish in ({"split": 3}, {"split": 32}, {"resident": 5}, {"prefetch": -1}, {"depth": 100}, _TOO_LARGE):
        with pytest.raises(TilewrightError) as refused:
            decided(16, 4096, 4096, **wish)
        assert refused.value.remedy


def test_a_result_by_a_tensor_map_of_its_own_is_not_transposed():
    assert decided(16, 4096, 4096, mapped=("c",)).swapped == 0


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 128), st.integers(1, 20000), st.integers(1, 20000))
def test_any_thin_product_fits(m: int, n: int, k: int):
    plan = decided(m, n, k)
    assert plan.smem_bytes <= HOPPER.limit("cta.shared_bytes_max") and plan.stages >= 2
    assert plan.tile_n % (8 * plan.sum_parts) == 0 and plan.ctas % plan.cluster_ctas == 0


def test_the_model_counts_bytes():
    rates = thin_rates(HOPPER)

    def cycles(extents: tuple[int, int, int], shape: TileShape) -> float:
        return thin_cycles(rates, TileQuestion(extents, 2, 2, (False, True)), shape, HOPPER)

    one = TileShape(64, 16, 128, 1, True)
    assert cycles((16, 8192, 4096), one) > 1.5 * cycles((16, 4096, 4096), one)
    # Rows that are not there are brought as zeros.
    assert (
        cycles((16, 4096, 4096), TileShape(64, 64, 64, 1)) > cycles((64, 4096, 4096), TileShape(64, 64, 64, 1)) * 0.99
    )
    # A rendezvous costs.
    assert cycles((1, 4096, 4096), TileShape(64, 16, 64, 1, True, 2)) > cycles((1, 4096, 4096), one)


def test_nothing_is_asked_for_ahead_where_a_tile_has_fewer_slices_than_the_ring():
    """Boxes past the contracted axis are fetches of nothing, before the first that counts."""
    short = decided(128, 32768, 128)
    assert short.prefetch == 0 < short.stages - -(-128 // short.tile_k)
    assert decided(128, 8192, 8192, resident=1, split=1).prefetch > 0


@pytest.mark.parametrize(("shape", "room"), [((4, 2304, 16384), True), ((64, 4096, 14336), False)])
def test_shared_tiles_leave_room_where_multiprocessors_would_idle(shape: tuple[int, int, int], room: bool):
    plan = decided(*shape)
    assert plan.split == 2
    taken = plan.smem_bytes + HOPPER.limit("cta.shared_reserved_bytes")
    assert (2 * taken <= HOPPER.limit("multiprocessor.shared_bytes")) == room
