"""What pairs of CTAs are compared with, and how energy is read off a counter that ticks."""

import json

import pytest
from bench.cluster_page import pairs
from bench.clusters import CASES, CHOSEN, best_of, lines_of, pairs_over_single, variants_of
from bench.energy import MEASURED_MILLISECONDS, SETTLING_MILLISECONDS, run_alone
from bench.interleaved import Race

RACED = Race(
    {
        CHOSEN: [10.0, 10.0, 10.0],
        "128x256 shared, 1x1": [12.0, 12.0, 12.0],
        "128x256 shared, 2x1": [11.0, 12.0, 10.0],
        "128x128 in turn, 1x2": [9.0, 9.0, 9.0],
        "cublasLt": [8.0, 8.0, 8.0],
    },
    {},
    1,
    1,
    {},
)


def test_pairs_are_compared_with_single_ctas_of_their_own_tile():
    assert pairs_over_single(RACED) == {"128x256 shared, 2x1": [1.0455, 1.0909, 1.1455]}


def test_the_best_pair_and_the_best_single_ctas_are_of_tiles_that_were_wished_for():
    times = {name: turns[0] for name, turns in RACED.microseconds.items()}
    assert best_of(times) == ("128x256 shared, 1x1", "128x128 in turn, 1x2")
    assert best_of({CHOSEN: 1.0, "64x32 shared, 1x1": 2.0}) is None


def test_the_page_has_a_line_for_each_product(tmp_path):
    row = {
        "case": "a product",
        "shape": [1, 2, 3],
        "microseconds": {name: times[0] for name, times in RACED.microseconds.items()},
        "pairs": pairs_over_single(RACED),
        "alone": {name: {"millijoules": 40.0} for name in RACED.microseconds},
    }
    small = {**row, "case": "without pairs", "microseconds": {CHOSEN: 1.0}}
    document = {"command": "c", "date": "d", "versions": {}, "rows": [row, small]}
    (tmp_path / "clusters.json").write_text(json.dumps(document))
    lines = list(pairs(tmp_path))
    told = "12.0, 128x256 shared | 9.0, 128x128 in turn, 1x2 | 1.333 | 1.091 to 1.091 | 8.0 | 40, 40"
    assert f"| a product | 1, 2, 3 | 10.0 | {told} |" in lines
    assert not any("without pairs" in line for line in lines)
    assert "`python -m bench clusters --alone`\n" in list(pairs(tmp_path / "nowhere"))


def test_a_row_for_a_reader_has_every_contender_and_the_wrong_ones():
    row = {
        "case": "a product",
        "shape": [1, 2, 3],
        "device": {},
        "microseconds": {name: times[0] for name, times in RACED.microseconds.items()},
        "pairs": pairs_over_single(RACED),
        "errors": {CHOSEN: 0.5},
        "wrong": [CHOSEN],
        "refused": {"128x96 shared, 2x1": "a cluster cannot share it"},
    }
    lines = lines_of(row)
    assert len(lines) == 1 + len(RACED.microseconds) + 2
    assert "cublasLt" in lines[1] and "WRONG: chosen 5.0e-01" in lines[-2] and "cannot share" in lines[-1]


def test_the_choice_is_tried_with_every_cluster_and_as_it_is():
    product, tiles = next(case for case in CASES if case[0].name == "square 4096")
    variants = variants_of(product, tiles)
    assert variants[CHOSEN] == product and len(variants) == 1 + 3 * len(tiles)
    wishes = dict(variants["128x128 in turn, 2x1"].wishes)
    assert wishes["cluster"] == (2, 1) and wishes["turns"] is True and wishes["tile"] == (128, 128)


class _Gpu:
    """Takes 500 W, and counts every 25 ms."""

    def __init__(self, watts: float = 500.0) -> None:
        self.milliseconds, self.watts = 0.0, watts

    def replay(self) -> float:
        self.milliseconds += 2.0
        return 2.0

    def millijoules(self) -> int:
        self.milliseconds += 0.1
        return int(self.milliseconds // 25 * 25 * self.watts)


def test_energy_is_counted_from_tick_to_tick():
    gpu = _Gpu()
    alone = run_alone(gpu.replay, 4, gpu.millijoules, lambda: gpu.milliseconds / 1000)
    assert gpu.milliseconds > SETTLING_MILLISECONDS + MEASURED_MILLISECONDS
    assert alone.watts == pytest.approx(500, rel=0.02)
    # A replay takes two milliseconds for four calls, and reading the counter a little besides.
    assert alone.microseconds == pytest.approx(500, rel=0.02)
    assert alone.millijoules == pytest.approx(250, rel=0.02)


def test_a_counter_that_stands_still_is_no_measurement():
    gpu = _Gpu(watts=0.0)
    with pytest.raises(OSError, match="stands still"):
        run_alone(gpu.replay, 1, gpu.millijoules)
