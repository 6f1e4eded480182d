"""Predicted times: what they grow with, and how they rank runs that were measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.synth.walked_products import decided, is_swapped

from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile_stream import TileStream
from tilewright.synth.cost.time_model import predicted_time
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

TARGET = target("sm_90a")
Shape = tuple[int, int, int]
LAYER = (128, 7168, 2048)


def _decided(shape: Shape, wanted: Wanted) -> CascadeDecisions:
    m, n, k = shape
    return decided({"M": m, "N": n, "K": k}, strides={"b": (1, k)}, wanted=wanted)


def _predicted(decisions: CascadeDecisions, shape: Shape):
    m, n, k = shape
    return predicted_time(decisions, (n, m, k) if is_swapped(decisions) else shape, TARGET, stored_bytes=2)


def _microseconds(shape: Shape, wanted: Wanted) -> float:
    return _predicted(_decided(shape, wanted), shape).microseconds


def test_no_launch_is_faster_than_its_start_or_its_operations() -> None:
    small = _predicted(_decided((64, 64, 64), Wanted()), (64, 64, 64))
    assert 0.5 < small.start < small.microseconds
    shape = (8192, 8192, 8192)
    large = _predicted(_decided(shape, Wanted()), shape)
    assert large.microseconds > 2 * 8192**3 / 1e15 * 1e6
    assert large.dominant in ("loop", "power")


def test_few_rows_are_bound_by_memory() -> None:
    shape = (16, 14336, 4096)
    found = _predicted(_decided(shape, Wanted()), shape)
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
    least = _predicted(roomy, LAYER).start
    assert least < _predicted(full, LAYER).start == _predicted(many, LAYER).start
    few = replace(full, ctas=TARGET.limit("device.multiprocessors") // 2)
    assert _predicted(few, LAYER).start == least


def test_a_warpgroup_alone_takes_longer_to_store_a_tile() -> None:
    decisions = _decided(LAYER, Wanted((128, 64), turns=False))
    assert decisions.consumers == 2
    alone = replace(decisions, consumers=1, unit_rows=2 * decisions.unit_rows)
    assert _predicted(alone, LAYER).epilogue > _predicted(decisions, LAYER).epilogue


def test_help_with_the_last_wave_shortens_it() -> None:
    shape = (128 * 12, 256 * 16, 8192)
    decisions = replace(_decided(shape, Wanted((128, 256), turns=False)), cut=(), ctas=132)
    helped = replace(decisions, cut=(TileStream(60, 72, 64),))
    assert _predicted(helped, shape).loop < _predicted(decisions, shape).loop


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
