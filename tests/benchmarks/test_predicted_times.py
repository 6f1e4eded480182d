"""The sections of predicted times and of profiles say what their result files hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.model_page import predicted_times
from bench.model_runs import read_runs, score, write_runs
from bench.profiles import counters_of, parts, summary
from bench.profiles_table import profiles

DATA = Path(__file__).parent.parent / "data" / "profile"
HEAD = {"command": "python -m bench x", "date": "2026-01-01", "versions": {"gpu": "NVIDIA H200"}}


def _row(predicted: float, measured: float, *, chosen: bool = False) -> dict[str, Any]:
    return {
        "shape": [1, 2, 3], "chosen": chosen, "kept": {"tile_m": 64}, "predicted_microseconds": predicted,
        "microseconds": measured,
    }  # fmt: skip


def test_a_product_is_told_by_its_best_its_first_and_the_choice(tmp_path: Path) -> None:
    rows = [_row(9.0, 12.0), _row(10.0, 10.0), _row(11.0, 16.0, chosen=True)]
    write_runs({**HEAD, "rows": rows}, tmp_path / "model.json")
    assert json.loads((tmp_path / "model.json").read_text()) == {**HEAD, "rows": rows}
    _, runs = read_runs(tmp_path / "model.json")
    found = score(runs)
    assert (found.first, found.chosen, found.spearman) == (10 / 12, 10 / 16, 0.5)
    text = "\n".join(predicted_times(tmp_path))
    assert "| 1, 2, 3 | 3 | 10.00 | 12.00 | 0.833 | 0.625 | 0.500 |" in text
    assert "3 runs of 1 products" in text and "0.833 at the least" in text
    assert not list(predicted_times(tmp_path / "nothing"))


def test_a_table_of_ncu_is_cut_at_its_markers_and_summed_up(tmp_path: Path) -> None:
    lines = [line for line in (DATA / "matmul_16_rows_h200.csv").read_text().splitlines() if line.startswith('"')]
    mark = lines[2].replace("matmul_kernel", "at::cuda::spin_kernel(long)")
    found = parts("\n".join(["==PROF== noise", *lines[:2], mark, lines[2], mark, lines[2], lines[2]]))
    once, twice = (counters_of(each) for each in found)
    assert len(once) == 1 and len(twice) == 2
    one, two = summary(once), summary(twice)
    assert one["microseconds"] == 13.28 and two["microseconds"] == 26.56
    assert one["stalls"] == two["stalls"] and str(one["stalls"]).startswith("{'long scoreboard': 4.67")
    assert summary(twice, launches=2)["microseconds"] == 13.28

    row = {"case": "a: 1, 2, 3", "who": "ours", "kernels": ["x"], "compared": [], **one}
    (tmp_path / "profiles-skinny.json").write_text(json.dumps({**HEAD, "rows": [row]}))
    text = "\n".join(profiles(tmp_path))
    assert (
        "| a: 1, 2, 3 | ours | 13.3 | 1679 | 4 % | 86 % | 55 % | 76 MB | 34 MB, 2.58 TB/s | long scoreboard 4.7" in text
    )
    assert not list(profiles(tmp_path / "nothing"))
