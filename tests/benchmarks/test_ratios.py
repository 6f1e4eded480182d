"""Ratios, lists and pictures of the benchmark, none of which needs a GPU."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from bench.gemm_suites import SUITES, fp8, gemm, skinny
from bench.interleaved import (
    COLD_BYTES,
    MOST_CALLS,
    MOST_WARM_MILLISECONDS,
    WARM_MILLISECONDS,
    calls_for,
    quartiles,
    sets_for,
    warm_up,
)
from bench.kernel_kinds import random_products
from bench.moe_shapes import CASES, counts
from bench.ratio_plot import plot
from bench.repeated import merged, without_option
from bench.suite import line_of, summarised
from tests.benchmarks.benchmark_records import CONTENDERS, RACE, errors


def test_a_ratio_is_of_neighbours_in_time_and_not_of_medians() -> None:
    assert RACE.ratio("ours", "torch")[1] == pytest.approx(1.1)
    assert RACE.ratio("ours", "triton")[1] == pytest.approx(2.0)


def test_the_best_peer_has_the_smallest_median() -> None:
    row = summarised(RACE, CONTENDERS, [], errors(1e-3, 1e-3), 1e9)
    assert row["best_peer"] == "torch" and row["ratio"] == pytest.approx(1.1) and row["error_no_worse"] is True
    assert set(row["ratios"]) == {"torch", "triton"}  # type: ignore[call-overload]


def test_a_worse_error_or_a_lost_nan_is_said() -> None:
    assert summarised(RACE, CONTENDERS, [], errors(2e-3, 1e-3), 1e9)["error_no_worse"] is False
    assert summarised(RACE, CONTENDERS, [], errors(1e-3, 1e-3, agree=False), 1e9)["error_no_worse"] is False
    assert summarised(RACE, CONTENDERS, [], errors(float("nan"), 1e-3), 1e9)["error_no_worse"] is False


def test_a_refused_case_is_a_line_with_its_words_and_the_peers_times() -> None:
    row: dict[str, Any] = {"case": "odd", "shape": [1, 2, 3], "refused": "no such thing"}
    row |= summarised(RACE, CONTENDERS[1:], [], {}, 1e9)
    assert "ratio" not in row
    assert "refused: no such thing" in line_of(row) and "torch 12.0" in line_of(row)


def test_cold_sets_exceed_the_cache_and_a_replay_takes_them_all() -> None:
    for size in (1 << 12, 1 << 22, 1 << 26, 1 << 30):
        sets = sets_for(size, warm=False)
        assert sets >= 2 and (sets * size >= COLD_BYTES or sets == 64)
        for milliseconds in (1e-3, 0.1, 10.0):
            assert sets <= calls_for(milliseconds, sets) <= MOST_CALLS
    assert sets_for(1 << 20, warm=True) == 1


def test_quartiles_of_one_number_are_that_number() -> None:
    assert quartiles([3.0]) == (3.0, 3.0, 3.0)
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 3.0, 4.0)


def test_the_lists_are_whole() -> None:
    assert len(gemm()) == 8 + 12 and {each.m for each in skinny()} == {1, 2, 4, 8, 16, 32, 64, 128}
    assert {each.scaling for each in fp8()} == {"tensor", "row", "block"}
    assert [each.m for each in SUITES["tritonbench"]()] == list(range(256, 4097, 128))
    assert len(SUITES["tritonbench-splitk"]()) == 32 and len(SUITES["tritonbench-llama"]()) == 17 * 12
    for suite in SUITES.values():
        names = [(each.name, each.m, each.n, each.k, each.scaling) for each in suite()]
        assert len(set(names)) == len(names)


def test_every_row_is_routed_and_experts_differ() -> None:
    assert len(CASES) == 10
    for case in CASES:
        found = counts(case)
        assert sum(found) == case.rows and len(found) == case.experts
        assert max(found) <= case.tokens and max(found) > min(found)
        assert counts(case, 1) != found


def test_random_products_are_the_same_every_time() -> None:
    assert random_products(6, 3) == random_products(6, 3) != random_products(6, 4)


def test_the_plot_names_every_case_and_escapes() -> None:
    row = summarised(RACE, CONTENDERS, [], {}, 1e9)
    rows = [{"case": "a < b", "shape": [1, 2, 3], **row}, {"case": "none", "shape": [4, 5, 6], "refused": "no"}]
    text = plot("suite", rows, (1.03, 0.97))
    root = ElementTree.fromstring(text)
    words = ["".join(each.itertext()) for each in root.iter() if each.tag.endswith("}text")]
    assert "a < b (1, 2, 3)" in words and "none (4, 5, 6)" in words and "not measured" in words
    assert sum(each.tag.endswith("}circle") for each in root.iter()) == 1 + 4  # one measured case, four in the legend


def test_of_several_processes_the_median_row_is_kept_with_all_ratios() -> None:
    def run(ratio: float) -> list[dict[str, Any]]:
        return [{"case": "a", "ratio": ratio, "us": 1 / ratio}, {"case": "b", "refused": "no"}]

    first, second = merged([run(1.2), run(0.9), run(1.0)])
    assert first == {"case": "a", "ratio": 1.0, "us": 1.0, "ratio_by_process": [1.2, 0.9, 1.0]}
    assert second == {"case": "b", "refused": "no"}


def test_a_command_is_repeated_without_its_own_options() -> None:
    line = ["gemm", "--processes", "3", "--turns", "5", "--results=x", "--warm"]
    assert without_option(line, "--processes", "--results") == ["gemm", "--turns", "5", "--warm"]


def test_contenders_run_untimed_until_their_times_are_steady():
    assert warm_up(lambda: 1.0) == 2 * WARM_MILLISECONDS

    clock = iter([1.0] * 60 + [1.2] * 50 + [1.3] * 1000)
    spent = warm_up(lambda: next(clock))
    assert 3 * WARM_MILLISECONDS < spent < 6 * WARM_MILLISECONDS

    drift = iter(range(1, 10**6))
    spent = warm_up(lambda: 1.02 ** next(drift))
    assert MOST_WARM_MILLISECONDS <= spent < 3 * MOST_WARM_MILLISECONDS
