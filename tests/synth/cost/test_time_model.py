"""Predicted times: what they grow with, and how they rank runs that were measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cost.time_model import predicted_time
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

TARGET = target("sm_90a")
Shape = tuple[int, int, int]
LAYER = (128, 7168, 2048)


def _decided(shape: Shape, wanted: Wanted) -> PipelineDecisions:
    m, n, k = shape
    program = the_program(
        trace(matmul_kernel, {"M": m, "N": n, "K": k}, elements_of(matmul_kernel, "bf16"), {"b": (1, k)})
    )
    found = decide(program, TARGET, wanted)
    assert isinstance(found, PipelineDecisions)
    return found


def _microseconds(shape: Shape, wanted: Wanted) -> float:
    return predicted_time(_decided(shape, wanted), shape, TARGET).microseconds


def test_no_launch_is_faster_than_its_start_or_its_operations() -> None:
    small = predicted_time(_decided((64, 64, 64), Wanted()), (64, 64, 64), TARGET)
    assert 0.5 < small.start < small.microseconds
    shape = (8192, 8192, 8192)
    large = predicted_time(_decided(shape, Wanted()), shape, TARGET)
    assert large.microseconds > 2 * 8192**3 / 1e15 * 1e6
    assert large.dominant in ("loop", "power")


def test_few_rows_are_bound_by_memory() -> None:
    shape = (16, 14336, 4096)
    found = predicted_time(_decided(shape, Wanted()), shape, TARGET)
    assert found.dominant == "memory"
    assert found.memory > 2 * 14336 * 4096 / 5e12 * 1e6


def test_two_stages_are_slower_than_four_where_memory_is_waited_for() -> None:
    tile = (128, 128)
    shape = (2048, 2048, 2048)
    assert _microseconds(shape, Wanted(tile, 2)) > _microseconds(shape, Wanted(tile, 4))
    held = Wanted(tile, 2, release_distance=1)
    assert _microseconds(shape, held) > _microseconds(shape, Wanted(tile, 2, release_distance=0))


def test_a_wave_more_costs_time() -> None:
    wanted = Wanted((128, 256), turns=False)
    assert _microseconds((128 * 12, 256 * 12, 4096), wanted) > _microseconds((128 * 12, 256 * 11, 4096), wanted)


def test_a_launch_begins_sooner_where_the_next_has_room_beside_it() -> None:
    """As many CTAs of as much work, which leave room beside them by shared memory and registers, or do not."""
    decisions = _decided(LAYER, Wanted((64, 64), 4))
    roomy = replace(decisions, smem_bytes=100 * 1024, launch_registers=80)
    full = replace(roomy, smem_bytes=200 * 1024)
    many = replace(roomy, launch_registers=168)
    least = predicted_time(roomy, LAYER, TARGET).start
    assert least < predicted_time(full, LAYER, TARGET).start == predicted_time(many, LAYER, TARGET).start
    few = replace(full, ctas=TARGET.limit("device.multiprocessors") // 2)
    assert predicted_time(few, LAYER, TARGET).start == least


def test_a_warpgroup_alone_takes_longer_to_store_a_tile() -> None:
    decisions = _decided(LAYER, Wanted((128, 64), turns=False))
    assert decisions.consumers == 2
    alone = replace(decisions, consumers=1)
    assert predicted_time(alone, LAYER, TARGET).epilogue > predicted_time(decisions, LAYER, TARGET).epilogue


def test_help_with_the_last_wave_shortens_it() -> None:
    shape = (128 * 12, 256 * 16, 8192)
    decisions = replace(_decided(shape, Wanted((128, 256), turns=False)), streamed=0, head_slices=0, ctas=132)
    helped = replace(decisions, streamed=60, head_slices=64)
    assert predicted_time(helped, shape, TARGET).loop < predicted_time(decisions, shape, TARGET).loop


@pytest.mark.parametrize("shape", [(2048, 1024, 512), (1024, 2048, 512)])
def test_a_swapped_product_is_that_of_the_other_orientation(shape: Shape) -> None:
    m, n, k = shape
    decisions = _decided(shape, Wanted((128, 128)))
    turned = replace(decisions, swapped=1 - decisions.swapped)
    assert predicted_time(decisions, (m, n, k), TARGET) == predicted_time(turned, (n, m, k), TARGET)


_MEASURED = Path(__file__).parents[3] / "bench" / "results" / "model.json"


def test_measured_runs_are_ranked() -> None:
    """The runs kept from an H200, with the predictions made then: the rank correlation that is claimed."""
    from bench.model_runs import spearman

    rows = json.loads(_MEASURED.read_text())["rows"]
    assert len(rows) >= 200
    predicted = [row["predicted_microseconds"] for row in rows]
    assert spearman(predicted, [row["microseconds"] for row in rows]) >= 0.9


def test_rank_correlation_by_hand() -> None:
    from bench.model_runs import spearman

    assert spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / (4.5 * 5.0) ** 0.5)
