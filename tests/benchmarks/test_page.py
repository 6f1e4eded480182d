"""The page of benchmarks is what the result files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.page import PAGE, TABLES, page, tables
from bench.suite import summarised
from tests.benchmarks.benchmark_records import CONTENDERS, RACE, errors


def document(rows: list[dict[str, Any]]) -> str:
    versions = {"torch": "2.0", "gpu": "NVIDIA H200"}
    return json.dumps({"command": "python -m bench gemm", "date": "2026-01-01", "versions": versions, "rows": rows})


def test_the_page_is_of_the_result_files_there() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it anew with python -m bench.page"
    assert TABLES.read_text("utf-8") == tables(), "write it anew with python -m bench.page"


def test_rows_stand_with_their_ratios_and_refusals_with_their_words(tmp_path: Path) -> None:
    row = {"case": "a", "shape": [1, 2, 3], **summarised(RACE, CONTENDERS, [], errors(2e-3, 1e-3), 1e9)}
    refused = {"case": "b", "shape": [4, 5, 6], "refused": "too | odd\nindeed"}
    summary = {"cases": 2, "refused": 1, "geometric_mean": 1.1, "worst": 1.1}
    (tmp_path / "gemm.json").write_text(document([summary, row, refused]))
    text = page(tmp_path) + tables(tmp_path)
    assert "| a | 1, 2, 3 | 10.0 | 100 | torch | 1.100 | 1.100 to 1.150 | triton 2.000 |" in text
    assert "2.0e-03, 1.0e-03 |" in text
    assert "| b | 4, 5, 6 | | | | | | too / odd | | |" in text
    assert "| Large products | 2 | 1 | 1.100 | 1.03 | 1.100 | 0.97 | 0 | `python -m bench gemm` |" in text
    assert "`python -m bench gemm`, 2026-01-01: torch 2.0, gpu NVIDIA H200." in text


def test_goals_that_are_missed_and_cases_behind_are_told(tmp_path: Path) -> None:
    row = {"case": "a", "shape": [1, 2, 3], **summarised(RACE, CONTENDERS, [], errors(2e-3, 1e-3), 1e9), "ratio": 0.98}
    summary = {"cases": 1, "refused": 0, "geometric_mean": 0.98, "worst": 0.98}
    (tmp_path / "gemm.json").write_text(document([summary, row]))
    row_of_suite = "| Large products | 1 | 0 | 0.980 | 1.03, **missed** | 0.980 | 0.97 | 1 | `python -m bench gemm` |"
    assert row_of_suite in page(tmp_path)


def test_a_suite_of_other_programs_has_its_mean_and_what_was_refused(tmp_path: Path) -> None:
    timed = [{"case": name, "ratio": ratio} for name, ratio in (("a", 1.0), ("b", 1.44))]
    (tmp_path / "random-rows.json").write_text(document([*timed, {"case": "c", "refused": "why"}]))
    line = "| Drawn rows | 3 | 1 | 1.200 | 1.10 | 1.000 | 0.85 | 0 | `python -m bench random-rows` |"
    assert line in page(tmp_path)


def test_a_row_that_was_refused_stands_among_others_with_its_words(tmp_path: Path) -> None:
    refused = {"case": "c", "program": "softmax", "shape": [3, 5], "refused": "too | odd\nindeed"}
    (tmp_path / "random-rows.json").write_text(document([refused, _row_of_softmax()]))
    text = tables(tmp_path)
    assert "| softmax | 3, 5 | too / odd | | | | | | |" in text and "| softmax | 7, 9 | 10.0 | torch | 1.100 |" in text


def _row_of_softmax() -> dict[str, Any]:
    ratios = {name: {"median": 1.1, "quartiles": [1.0, 1.2]} for name in ("torch", "torch.compile")}
    times = {"ours": {"microseconds": 10.0}}
    return {"case": "d", "program": "softmax", "shape": [7, 9], "contenders": times, "ratios": ratios, "ratio": 1.1,
            "best_peer": "torch", "quartiles": [1.0, 1.2], "error_no_worse": True, "share_of_copy": 0.9}  # fmt: skip


def test_files_of_another_form_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "gemm.json").write_text(document([{"shape": [1, 2, 3], "ratio": 1.0}]))
    assert "| Large products | not measured |" in page(tmp_path)
