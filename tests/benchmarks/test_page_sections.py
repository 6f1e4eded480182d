"""Sections of the page that are no races say what their files hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.compile_suites import products, summary
from bench.gemm_suites import Product
from bench.moe_shapes import CASES as LAYERS
from bench.page_sections import choices, compile_time


def document(rows: list[dict[str, Any]]) -> str:
    return json.dumps({"command": "python -m bench it", "date": "2026-01-01", "versions": {"gpu": "G"}, "rows": rows})


def test_without_files_there_are_commands(tmp_path: Path) -> None:
    text = "\n".join([*choices(tmp_path), *compile_time(tmp_path)])
    for name in ("unmapped", "stream-k", "large-tiles --orders", "compile", "compile-suites", "compile --optimum"):
        assert f"`python -m bench {name}`" in text


def test_choices_stand_beside_the_best(tmp_path: Path) -> None:
    ratios = {"chosen": 1.0, "128x256 shared": 0.9, "128x128 in turn": 1.0, "128x128 in turn, streamed": 1.25}
    (tmp_path / "stream_k.json").write_text(document([{"shape": [1, 2, 3], "ratios": ratios}]))
    orders = {"chosen": 1.0, "chosen again": 1.01, "groups of 6": 1.03, "Hilbert, 4": 0.98}
    (tmp_path / "tile_orders.json").write_text(document([{"shape": [4, 5, 6], "ratios": orders}]))
    threads = {"chosen": 10.2, "copied first": 10.0, "threads": 12.0, "threads, 3 stages": 11.0}
    row = {"case": "odd", "shape": [7, 8, 9], "microseconds": threads, "chosen": "copied first"}
    (tmp_path / "unmapped.json").write_text(document([row]))
    text = "\n".join(choices(tmp_path))
    assert "| 1, 2, 3 | 0.900 | 1.000 / 1.250 | 1.000 | 1.250 |" in text
    assert "20.0% slower than the fastest of these in the mean" in text
    assert "by more than 1% in 1 of 1, by 1.9% at the most" in text
    assert "| odd | 7, 8, 9 | 10.0 | 11.0 | 10.2 | copied first |" in text
    assert "within 3 % of it, in 1 of 1" in text


def test_compile_times_stand_with_ptxas_apart(tmp_path: Path) -> None:
    steps = {"decide": 0.1, "prove text": 0.5}
    rows = [
        {"who": "ours", "kernel": "a", "shape": [1, 2, 3], "steps": steps, "apart": 0.6, "ptxas": 0.2, "wall": 0.7,
         "optimum": 3.0},
        {"who": "ours", "kernel": "b", "shape": [1, 2, 3], "refused": "too | odd"},
        {"who": "triton", "kernel": "c", "apart": 0.3, "ptxas": 0.1, "wall": 0.5},
    ]  # fmt: skip
    (tmp_path / "compile.json").write_text(document(rows))
    text = "\n".join(compile_time(tmp_path))
    assert "| ours | a | 1, 2, 3 | 0.100 |  |  |  |  | 0.500 | 0.600 | 0.200 | 0.700 | 3.000 |" in text
    assert "| ours | b | 1, 2, 3 | too / odd |" in text
    assert "| triton | c |  |  |  |  |  |  |  | 0.300 | 0.100 | 0.500 |  |" in text


def test_compile_times_of_all_products_in_a_sentence(tmp_path: Path) -> None:
    rows = [
        {"suite": "gemm", "case": "a", "shape": [1, 2, 3], "first": 0.9, "apart": 0.4},
        {"suite": "fp8", "case": "b", "shape": [4, 5, 6], "first": 2.0, "apart": 1.25},
        {"suite": "fp8", "case": "c", "shape": [7, 8, 9], "refused": "no"},
    ]
    (tmp_path / "compile_suites.json").write_text(document(rows))
    text = "\n".join(compile_time(tmp_path))
    assert "Of 3 products 1 take no more than 1 s; these take more: 4, 5, 6 of fp8 (1.25); 1 are refused." in text
    assert "the slowest 0.40 s." in summary(rows[:1])


def test_every_product_is_compiled_once() -> None:
    listed = [each.case for each in products()]
    assert {each.name for each in LAYERS} <= {each.name for each in listed}
    shapes = [(case.m, case.n, case.k, case.dtype, case.transposed, case.scaling, case.accumulation, case.wishes)
              for case in listed if isinstance(case, Product)]  # fmt: skip
    assert len(shapes) == len(set(shapes))
