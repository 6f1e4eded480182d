"""Random products: the seed alone decides, the whole range is drawn, and what is told of them is right."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import random_gemm, suite, tuned
from bench.interleaved import Contender, Race
from bench.model_layers import LAYERS
from bench.page import page, tables
from bench.prepared import Refused
from bench.random_gemm import COUNT, MOST_ROWS, drawn
from bench.suite import summarised
from bench.worst_cases import decisions_of, share_at_least, worst
from tests.benchmarks.benchmark_records import CONTENDERS, RACE, errors

DECIDED = {
    "tile_m": 128, "tile_n": 256, "tile_k": 64, "stages": 4, "consumers": 2, "cluster_m": 2, "cluster_n": 1,
    "ctas": 132, "swapped": 0, "turns": 1, "split": 1, "teams": 3, "streamed": 0,
}  # fmt: skip


def row(ratio: float, m: int = 1, dtype: str = "bf16") -> dict[str, Any]:
    found = {"case": f"case {ratio}", "shape": [m, 2, 3], "dtype": dtype}
    found |= {**summarised(RACE, CONTENDERS, [], errors(1e-3, 1e-3), 1e9), "ratio": ratio}
    return json.loads(json.dumps(found)) | {
        "contenders": {"ours": {"microseconds": 10.0, "errors": None, "notes": {"decisions": DECIDED}}}
    }


def test_the_seed_alone_decides() -> None:
    assert drawn(7) == drawn(7) and len(drawn(7)) == COUNT
    assert drawn(7, 20) == drawn(7)[:20], "a shorter list is the beginning of a longer one"
    assert drawn(7) != drawn(8)
    first = drawn(7, 2)
    assert [(each.m, each.n, each.k) for each in first] == [(23, 30720, 3840), (34, 2304, 9216)]


def test_the_whole_range_is_drawn() -> None:
    products = [each for seed in range(20) for each in drawn(seed)]
    assert min(each.m for each in products) == 1 and 0.9 * MOST_ROWS < max(each.m for each in products) <= MOST_ROWS
    # Log-uniform: each octave of rows is drawn about as often.
    octaves = [int(math.log2(each.m)) for each in products if each.m < MOST_ROWS]
    counts = [octaves.count(at) / len(products) for at in range(14)]
    assert all(0.8 / 14 < part < 1.2 / 14 for part in counts[4:]), counts
    kinds = {(each.dtype, each.scaling, each.accumulation) for each in products}
    assert len(kinds) == 6 and {dtype for dtype, _, _ in kinds} == {"bf16", "f16", "e4m3"}
    assert {(each.n, each.k) for each in products} == {(layer.n, layer.k) for layer in LAYERS}
    assert len({each.name for each in drawn(3)}) == COUNT


def test_layers_have_names_of_their_own_and_extents_that_every_peer_takes() -> None:
    assert len({(layer.model, layer.name) for layer in LAYERS}) == len(LAYERS)
    assert all(layer.n % 16 == 0 and layer.k % 16 == 0 for layer in LAYERS)
    shapes = {(layer.model, layer.name): (layer.n, layer.k) for layer in LAYERS}
    assert shapes["Llama 3 8B", "QKV"] == (6144, 4096) and shapes["Llama 3 70B", "down"] == (8192, 28672)
    assert shapes["Qwen 3 0.6B", "attention out"] == (1024, 2048)


def test_worst_cases_come_with_their_decisions() -> None:
    rows = [row(1.2), row(0.8), {"case": "c", "shape": [1, 1, 1], "refused": "no"}, row(0.95)]
    assert [each["ratio"] for each in worst(rows, 2)] == [0.8, 0.95]
    assert share_at_least(rows, 0.95) == 0.5, "what is refused is not reached"
    words = "tile 128x256x64, 4 stages, 2 consumers, cluster 2x1, 132 CTAs, ping-pong, teams 3"
    assert decisions_of(rows[0]) == words


def test_the_page_has_bands_and_the_worst(tmp_path: Path) -> None:
    assert "random" in tables(tmp_path) and "### Random products" not in tables(tmp_path)
    rows = [row(1.0 + at / 100, 2**at, "e4m3" if at % 2 else "bf16") for at in range(15)]
    document: dict[str, Any] = {"command": "python -m bench random-gemm --seed 7", "date": "2026-01-01", "versions": {}}
    (tmp_path / "random-gemm.json").write_text(json.dumps({**document, "rows": [suite.summary_of(rows), *rows]}))
    text = tables(tmp_path)
    assert f"| all | 15 | {statistics.geometric_mean(row['ratio'] for row in rows):.3f} | 1.000 | 100.0% |" in text
    assert "| 1 to 16 rows | 5 |" in text and "| 1025 to 16384 rows | 4 |" in text and "| e4m3 | 7 |" in text
    assert "| case 1.0 | 1, 2, 3 | 10.0 | torch | 1.000 | tile 128x256x64, 4 stages" in text


def test_a_seed_that_is_drawn_is_named_by_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(sys, "argv", ["bench", "random-gemm"])

    def run_products(*arguments: Any) -> int:
        asked.append(arguments)
        return 0

    monkeypatch.setattr(suite, "run_products", run_products)
    parser = argparse.ArgumentParser()
    random_gemm.add_arguments(parser)
    assert random_gemm.run(parser.parse_args(["--count", "3"])) == 0
    assert sys.argv[-2] == "--seed" and asked[0][:2] == ("random-gemm", drawn(int(sys.argv[-1]), 3))
    assert asked[0][2].peer == ["torch", "cublasLt"]


@pytest.mark.full
def test_candidates_are_kept_beside_the_kernels(tmp_path: Path) -> None:
    products = drawn(7, 2)
    found = tuned.prepared_candidates(products, tmp_path, jobs=1)
    assert (
        found[0] == products[0]
        and 2 < len(found) <= 30
        and {each.name for each in found} == {each.name for each in products}
    )
    wishes = dict(found[1].wishes)
    assert isinstance(wishes["tile"], tuple) and found[1].k == products[0].k
    assert tuned.candidates_of(products[1], tmp_path) == found[-len(tuned.candidates_of(products[1], tmp_path)) :]
    (first, _) = sorted(tmp_path.glob("*.candidates.json"))
    first.write_text("[{}]")
    assert len(tuned.prepared_candidates(products, tmp_path, jobs=1)) < len(found), "lists that are there are read"


def test_the_quickest_candidate_is_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    product = drawn(7, 1)[0]
    made = iter([Contender("ours", lambda index: 0, None), Refused("spills"), Contender("ours", lambda index: 1, None)])
    monkeypatch.setattr(tuned, "candidates_of", lambda *_: [product] * 3)
    monkeypatch.setattr(suite, "ours_of", lambda *_: next(made))
    times = {"0": [10.0, 10.0], "2": [9.0, 9.0]}
    monkeypatch.setattr(tuned, "race", lambda *_, **__: Race(times, {}, 1, 1, {}))
    ours = tuned.tuned_ours(None, product, suite.Arrays([]), tmp_path, 1)
    assert isinstance(ours, Contender) and ours.name == "ours" and ours.call(0) == 1
    assert ours.notes["taken"] == "2" and ours.notes["tuned"] == [{"0": 10.0, "2": 9.0}] * 2


@pytest.mark.full
def test_tuned_products_are_a_suite_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = "| Random products, tuned | not measured | | | 1.06 | | 0.95 |  | `python -m bench random-gemm --tune` |"
    assert line in page(tmp_path)
    asked: list[Any] = []

    def run_products(*arguments: Any, **options: Any) -> int:
        asked.append((arguments, options))
        return 0

    monkeypatch.setattr(suite, "run_products", run_products)
    parser = argparse.ArgumentParser()
    random_gemm.add_arguments(parser)
    words = ["--seed", "7", "--count", "1", "--tune", "--kernels", str(tmp_path), "--jobs", "1"]
    assert random_gemm.run(parser.parse_args(words)) == 0
    (name, products, _), options = asked[0]
    assert name == "random-gemm-tuned" and options["serve"] is tuned.serve_tuned
    assert products == drawn(7, 1) and options["kernels"][0] == products[0] and len(options["kernels"]) > 1
