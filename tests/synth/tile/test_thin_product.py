"""Products of few rows: which tiles, which orientation, when split, when two CTAs share a multiprocessor."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synth.walked_products import HOPPER, decided_product, is_swapped, major_of, ring_slots

from tilewright.base.error import TilewrightError
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.synth.tile.thin_product import thin_cycles, thin_rates

_TOO_LARGE = {"tile": (128, 128), "depth": 256, "resident": 2}


@pytest.mark.parametrize("m", [1, 8, 16])
@pytest.mark.parametrize(("n", "k"), [(4096, 4096), (14336, 4096), (7168, 2048)])
def test_very_few_rows_are_the_accumulators_columns(m: int, n: int, k: int):
    plan = decided_product(m, n, k)
    assert is_swapped(plan) and plan.tile_rows == 64 and plan.tile_columns == max(8, m)


@pytest.mark.parametrize(("n", "k"), [(14336, 4096), (6144, 4096), (7168, 2048)])
def test_more_rows_are_multiplied_as_they_are_by_an_even_share_of_columns(n: int, k: int):
    plan = decided_product(64, n, k)
    assert not is_swapped(plan) and plan.ctas == -(-n // plan.tile_columns) <= HOPPER.limit("device.multiprocessors")
    assert n % plan.tile_columns == 0


def test_a_long_contracted_axis_of_many_rows_is_split():
    """Each CTA would fetch all rows again; two that share a tile fetch half of them each."""
    plan = decided_product(128, 4096, 14336)
    assert plan.split == 2 and plan.ctas == 128
    assert decided_product(128, 14336, 4096).split == 1


@pytest.mark.parametrize("size", [16, 48, 64])
def test_a_product_of_one_tile_is_shared_by_teams_of_several_gpcs(size: int):
    plan = decided_product(size, size, 20480)
    tiles = -(-size // plan.tile_columns)
    assert plan.teams >= 4 and plan.ctas == tiles * plan.shares >= 24 and plan.tile_rows == 64
    assert plan.split <= HOPPER.limit("cluster.ctas_max_portable")


@pytest.mark.parametrize("n", [4096, 7168, 12288, 13312, 22016])
def test_rows_of_the_other_operand_are_fetched_in_whole_lines(n: int):
    """Shares of 32 to 168 columns would deal them out more evenly; boxes of their rows would cross lines."""
    plan = decided_product(64, n, 4096, strides={})
    assert not is_swapped(plan) and major_of(plan, "N") == "MN"
    assert plan.tile_columns % 64 == 0


def test_small_rings_leave_room_for_the_next_launch_where_there_are_many_ctas():
    plan = decided_product(1, 7168, 2048)
    limit = HOPPER.limit("multiprocessor.shared_bytes")
    assert 2 * (plan.smem_bytes + HOPPER.limit("cta.shared_reserved_bytes")) <= limit
    assert 2 * plan.launch_registers * 128 * (1 + plan.consumers) <= HOPPER.limit("multiprocessor.registers")
    assert plan.prefetch == 0
    # Half of the multiprocessors are free anyway.
    assert decided_product(1, 4096, 4096).smem_bytes > limit // 2


def test_what_is_asked_for_is_not_overruled():
    plan = decided_product(16, 4096, 4096, tile=(64, 64), swapped=False)
    assert (plan.tile_rows, plan.tile_columns, is_swapped(plan), plan.split) == (64, 64, False, 1)
    assert decided_product(16, 4096, 4096, split=2, tile=(64, 16), swapped=True).split == 2
    assert not is_swapped(decided_product(16, 4096, 4096, swapped=False))
    for wish in ({"split": 3}, {"split": 32}, {"resident": 5}, {"prefetch": -1}, {"depth": 100}, _TOO_LARGE):
        with pytest.raises(TilewrightError) as refused:
            decided_product(16, 4096, 4096, **wish)
        assert refused.value.remedy


def test_a_result_by_a_tensor_map_of_its_own_is_not_transposed():
    assert not is_swapped(decided_product(16, 4096, 4096, mapped=("c",)))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 128), st.integers(1, 20000), st.integers(1, 20000))
def test_any_thin_product_fits(m: int, n: int, k: int):
    plan = decided_product(m, n, k)
    assert plan.smem_bytes <= HOPPER.limit("cta.shared_bytes_max") and ring_slots(plan) >= 2
    assert plan.tile_columns % (8 * plan.split_sum.parts) == 0 and plan.ctas % plan.cluster_ctas == 0


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
    short = decided_product(128, 32768, 128)
    assert short.prefetch == 0 < ring_slots(short) - -(-128 // short.tile_streamed)
    assert decided_product(128, 8192, 8192, resident=1, split=1).prefetch > 0


@pytest.mark.parametrize(("shape", "room"), [((4, 2304, 16384), True), ((64, 4096, 14336), False)])
def test_shared_tiles_leave_room_where_multiprocessors_would_idle(shape: tuple[int, int, int], room: bool):
    plan = decided_product(*shape)
    assert plan.split == 2
    taken = plan.smem_bytes + HOPPER.limit("cta.shared_reserved_bytes")
    assert (2 * taken <= HOPPER.limit("multiprocessor.shared_bytes")) == room
