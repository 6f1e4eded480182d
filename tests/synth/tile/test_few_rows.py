"""Few to middling rows: which tile, shared by how many, with room for another CTA, and what is left as it was."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synth.walked_products import HOPPER, decided_product, is_swapped, ring_slots
from tests.synth.walked_products import decided as decided_of

from tilewright.base.element import Element
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.cost.model import rates_of
from tilewright.synth.distribution.split import clusters_at_once
from tilewright.synth.operand.scaled_product import fits_registers
from tilewright.synth.tile.few_rows import estimated, few_rows_shape, is_few_rows, parameters_of, row_cycles, stages_of
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.synth.tile.wanted import Wanted

RATES = rates_of(HOPPER)


def decided(m: int, n: int, k: int, *, rows_of_b: bool = True, **wanted) -> CascadeDecisions:
    return decided_product(m, n, k, strides={} if rows_of_b else None, **wanted)


def asked(m: int, n: int, k: int, *, rows_of_b: bool = True) -> TileQuestion:
    orientations = (False, True) if m <= 128 else (False,)
    return TileQuestion((m, n, k), 2, 2, orientations, (8, 64 if rows_of_b else 8), turnable=True)


def cycles(question: TileQuestion, shape: TileShape, stages: int = 6) -> float:
    return row_cycles(parameters_of(HOPPER), RATES, question, shape, stages, HOPPER)


def resident_ctas(plan: CascadeDecisions) -> int:
    shared = HOPPER.limit("multiprocessor.shared_bytes") // (
        plan.smem_bytes + HOPPER.limit("cta.shared_reserved_bytes")
    )
    threads = 128 * (1 + plan.consumers)
    return min(shared, HOPPER.limit("multiprocessor.registers") // (plan.launch_registers * threads))


@pytest.mark.parametrize(("m", "n", "k"), [(8, 13312, 16384), (32, 22016, 4096), (64, 13312, 16384), (64, 22016, 4096)])
def test_where_multiprocessors_idle_the_next_launch_has_room(m: int, n: int, k: int) -> None:
    plan = decided(m, n, k)
    assert plan.ctas < HOPPER.limit("device.multiprocessors") and resident_ctas(plan) == 2


@pytest.mark.parametrize(
    ("m", "n", "k"), [(64, 2304, 16384), (128, 2304, 16384), (256, 4096, 11008), (512, 2304, 16384)]
)
def test_few_tiles_of_long_sums_are_shared(m: int, n: int, k: int) -> None:
    plan = decided(m, n, k)
    assert plan.shares > 1 and plan.ctas > 50
    assert plan.ctas <= plan.split * clusters_at_once(plan.split, HOPPER)


def test_middling_rows_may_be_the_accumulators_columns_and_leave_in_bulk() -> None:
    plan = decided(512, 2304, 16384)
    assert is_swapped(plan) and all(store.turned for store in plan.stores)


def test_a_wish_is_not_overruled_and_others_products_are_theirs() -> None:
    question = asked(64, 13312, 16384)
    assert is_few_rows(question, Wanted())
    for wish in (
        {"tile": (64, 64)},
        {"split": 2},
        {"teams": 2},
        {"resident": 1},
        {"cluster": (2, 1)},
        {"turns": False},
    ):
        assert not is_few_rows(question, Wanted(**wish))
    assert is_few_rows(replace(question, element_bytes=1), Wanted())
    # In two levels, but for scales that the loop multiplies with.
    assert is_few_rows(replace(question, element_bytes=1, scaled_depth=128), Wanted())
    for other in ({"batch": 2}, {"products": 2}, {"scaled_depth": 128, "scaled": True}):
        assert not is_few_rows(replace(question, **other), Wanted())
    for m, n in ((4096, 4096), (2049, 8192), (256, 511), (128, 256)):
        assert not is_few_rows(asked(m, n, 4096), Wanted())
    assert decided(64, 13312, 16384, tile=(64, 64)).tile_rows == 64


def test_the_choice_made_before_stays_where_little_is_saved() -> None:
    question = asked(64, 13312, 16384)
    best = few_rows_shape(question, TileShape(64, 8, 64, 1), HOPPER, reasons := [])
    assert best != TileShape(64, 8, 64, 1) and "small-M model" in reasons[0]
    assert few_rows_shape(question, best, HOPPER, reasons) == best and len(reasons) == 1


def test_what_lengthens_a_launch() -> None:
    question, shape = asked(64, 13312, 8192), TileShape(64, 128, 64, 1)
    usual = cycles(question, shape)
    # Room for the next launch where multiprocessors idle; more slots; not waiting for others.
    assert cycles(question, replace(shape, resident=2)) < usual < cycles(question, shape, 2)
    assert usual < cycles(asked(64, 13312, 16384), shape) and usual < cycles(asked(64, 13312 * 2, 8192), shape)
    # Tiles that end inside a line of B's rows, or past the operand.
    assert usual < cycles(question, replace(shape, columns=120))
    assert cycles(asked(33, 13312, 8192), replace(shape, rows=128, consumers=2)) > cycles(asked(33, 13312, 8192), shape)
    # Both halves of the rows ask for the large operand.
    assert cycles(asked(128, 13312, 8192), shape) > cycles(
        asked(128, 13312, 8192), replace(shape, rows=128, consumers=2)
    )


@pytest.mark.parametrize(("m", "n", "k"), [(13, 10240, 8192), (2, 10240, 8192), (8, 9216, 3072), (16, 9728, 2560)])
def test_a_second_wave_of_few_tiles_is_avoided(m: int, n: int, k: int) -> None:
    plan = decided(m, n, k, rows_of_b=False)
    tiles = -(-n // plan.tile_rows)
    assert is_swapped(plan) and tiles * plan.split <= HOPPER.limit("device.multiprocessors") < -(-n // 64)


@pytest.mark.parametrize(("m", "n", "k"), [(734, 1536, 8960), (530, 1536, 8960), (1170, 3584, 18944)])
def test_of_more_rows_sums_are_shared_where_whole_tiles_leave_too_much(m: int, n: int, k: int) -> None:
    assert is_few_rows(asked(m, n, k, rows_of_b=False), Wanted())
    plan = decided(m, n, k, rows_of_b=False)
    assert plan.shares > 1 and plan.ctas > 90


def test_sums_in_two_levels_are_transposed_where_less_is_wasted() -> None:
    plan = decided_of(
        {"M": 135, "N": 27648, "K": 5120},
        strides={"b": (1, 5120)},
        elements=dict.fromkeys("ab", Element.F8E4M3),
        wanted=Wanted(accumulation="precise"),
    )
    assert plan.partials and is_swapped(plan) and plan.tile_columns == 136
    assert plan.stores and all(store.turned for store in plan.stores)


@pytest.mark.parametrize(("m", "n", "k"), [(16, 4096, 4096), (300, 8192, 4096)])
def test_a_consumer_has_registers_for_two_sums(m: int, n: int, k: int) -> None:
    question = replace(asked(m, n, k), element_bytes=1, scaled_depth=128)
    found = [shape for shape, _ in estimated(question, HOPPER)]
    assert found and all(fits_registers(shape.rows, shape.columns, shape.consumers) for shape in found)
    # Nobody adds up what others have summed, or loads for others.
    assert all(shape.teams == 1 and not shape.paired for shape in found)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 512), st.integers(1025, 20000), st.integers(8, 20000), st.booleans())
def test_every_product_has_a_choice_that_fits(m: int, n: int, k: int, rows_of_b: bool) -> None:
    n, k = n // 8 * 8, k // 8 * 8
    plan = decided(m, n, k, rows_of_b=rows_of_b)
    assert plan.smem_bytes <= HOPPER.limit("cta.shared_bytes_max") and ring_slots(plan) >= 2
    if plan.teams > 1:
        tiles = -(-(n if is_swapped(plan) else m) // plan.tile_rows) * -(
            -(m if is_swapped(plan) else n) // plan.tile_columns
        )
        assert tiles * plan.teams <= clusters_at_once(plan.split, HOPPER)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 4096, 4096), (100, 3000, 500), (512, 4096, 128)])
def test_all_that_is_compared_fits(m: int, n: int, k: int) -> None:
    question = asked(m, n, k)
    for shape, found in estimated(question, HOPPER):
        slot = (shape.rows + shape.columns) * shape.depth * 2
        assert found > 0 and stages_of(shape, question, HOPPER) * slot * shape.resident <= HOPPER.limit(
            "multiprocessor.shared_bytes"
        )
        assert shape.columns % (8 * shape.split) == 0


@pytest.mark.parametrize("rows_of_b", [True, False])
def test_one_wave_of_middling_rows_shares_loads(rows_of_b: bool) -> None:
    """Two tiles along the rows read the same part of the large operand at the same time."""
    plan = decided(580, 2560, 4096, rows_of_b=rows_of_b)
    assert plan.cluster != (1, 1) and plan.shares == 1


@pytest.mark.parametrize(("m", "n", "k"), [(1598, 1024, 4096), (1100, 4096, 4096), (953, 3072, 8192)])
def test_tiles_of_other_middling_products_are_chosen_by_others(m: int, n: int, k: int) -> None:
    """One operand is no twice the other, or rows or tiles are many."""
    assert all(shape.shares > 1 for shape, _ in estimated(asked(m, n, k), HOPPER))


def test_middling_rows_of_bytes_are_not_known() -> None:
    bytes_ = replace(asked(580, 2560, 4096), element_bytes=1)
    assert all(shape.shares > 1 for shape, _ in estimated(bytes_, HOPPER))
