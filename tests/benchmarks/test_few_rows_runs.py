"""Today's choices for few rows are near the best of what was timed, and the fit explains runs as its values say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.few_rows import candidates
from bench.few_rows_fit import first_choices, loss, predicted, timed
from bench.few_rows_model import by_model, is_modelled, parts_of, question_of, tile_of, without_model
from bench.few_rows_page import few_rows
from bench.few_rows_runs import Parts, judged, summary, times_of
from bench.tile_runs import CHOSEN

from tilewright.synth.tile.few_rows import parameters_of
from tilewright.targets import target

RESULTS = Path(__file__).parents[2] / "bench" / "results"
NAMES = ("few_rows_of_b", "few_rows", "few_rows_of_b_by_model", "few_rows_by_model")


def rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["rows"]
    return found


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", NAMES)
def test_choices_are_near_the_best_that_was_timed(name: str) -> None:
    """Of each fourth product: the command judges all."""
    mean, worst, count = summary(judged(rows(name)[1::4]))
    assert count >= 5 and mean > 0.985 and worst > 0.92


def test_the_parameters_explain_the_runs_better_than_others() -> None:
    products = timed([rows(name)[::6] for name in (*NAMES, "few_rows_drawn_41", "few_rows_of_b_drawn_42")])
    p = parameters_of(target("sm_90a"))
    least = loss(p, products)
    # The fit's own error, over all runs, is 0.065.
    assert len(products) > 40 and least < 0.07
    for name, times in (("idle_permille", 0.1), ("handing_cycles", 5), ("fetch_bytes_per_kilocycle", 0.3)):
        assert loss(replace(p, **{name: times * getattr(p, name)}), products) > least
    ratios = first_choices(p, products)
    assert min(ratios) > 0.85 and max(ratios) == 1
    # Times that the model itself would have told are explained in full.
    told = [[replace(run, microseconds=predicted(p, run), lost=0.0) for run in runs] for runs in products]
    assert loss(p, told) == pytest.approx(0, abs=1e-9)


def test_what_is_timed_is_of_every_kind_and_nothing_twice() -> None:
    shape = (64, 7168, 8192)
    tried = candidates(shape, rows_of_b=True)
    assert len(set(tried)) == len(tried) > 15
    for kind in ({"swapped": True}, {"swapped": False}, {"split": 2}, {"teams": 2}, {"resident": 2}, {"cluster_m": 2}):
        assert any(all(getattr(each, name) == value for name, value in kind.items()) for each in tried), kind
    question = question_of(shape, rows_of_b=True)
    quick = by_model(shape, 3, rows_of_b=True)
    assert without_model(question) in quick and 3 <= len(quick) <= 4
    assert all(parts_of(tile_of(each)) == each for each in quick)
    assert is_modelled(shape) and not is_modelled((4096, 4096, 4096))


def test_wrong_answers_are_no_runs() -> None:
    row = rows("few_rows")[0]
    name, kept = next(iter(row["parts"].items()))
    alike = [each for each, parts in row["parts"].items() if parts == kept]
    assert Parts(**kept) in times_of(row) and name in row["steady"]
    assert Parts(**kept) not in times_of({**row, "wrong": alike})


def test_the_page_says_what_was_chosen_and_what_was_best(tmp_path: Path) -> None:
    kept = {"a": Parts(64, 8, 1, swapped=True).kept(), CHOSEN: Parts(64, 16, 1, swapped=True).kept()}
    row: dict[str, Any] = {"shape": [1, 2, 3], "rows of b": True, "parts": kept, "wrong": []}
    row["steady"] = {"a": 5.0, "torch": 12.0, CHOSEN: 8.0}
    document = {"command": "c", "date": "d", "versions": {}, "rows": [row]}
    (tmp_path / "few_rows_of_b.json").write_text(json.dumps(document))
    lines = list(few_rows(tmp_path))
    assert "| 1, 2, 3 | 64x16T | 8.0 | 0.625 | 1.500 | 64x8T |" in lines
    assert "`python -m bench few-rows`\n" in lines
