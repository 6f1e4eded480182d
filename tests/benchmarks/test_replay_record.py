"""What is kept of products and how changes of it are told, on records and texts that are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.replay_diff import diffs, shown
from bench.replay_record import Change, ReplayError, compare, read_record, report, row_of, texts_of, write_record


def answer(ptx: str = "ret;", **decisions: Any) -> dict[str, Any]:
    """What a compiler says of a product."""
    chosen = {
        "tile_m": 128,
        "split": 0,
        "reasons": ["for a reason that takes more than forty letters"],
        "order": "grouped",
    }
    return {"decisions": {**chosen, **decisions}, "ac": "builtin.module {}", "ptx": ptx, "plan": {"grid": [1, 2]}}


ROWS = {name: row_of(answer()) for name in ("gemm: one (M=1)", "gemm: two (M=2)", "skinny: three (M=3)")}


def test_a_row_has_four_hashes_and_the_decisions_in_short() -> None:
    row = ROWS["gemm: one (M=1)"]
    assert list(row) == ["decisions", "ac", "ptx", "plan", "chosen"]
    assert {len(row[text]) for text in ("decisions", "ac", "ptx", "plan")} == {12}
    assert row["chosen"]["tile_m"] == 128 and row["chosen"]["order"] == "grouped" and "split" not in row["chosen"]
    assert row["chosen"]["reasons"].startswith("#")
    assert row_of({"refused": "too large"}) == {"refused": "too large"}
    assert row_of({"fault": "KeyError: 'a'"}) == {"refused": "by a fault: KeyError: 'a'"}


def test_the_order_of_fields_is_no_change_and_every_text_is() -> None:
    first = answer()
    turned = {**first, "decisions": dict(reversed(first["decisions"].items()))}
    assert row_of(turned) == row_of(first)
    for text, other in {"decisions": {"tile_m": 64}, "ac": "other", "ptx": "other", "plan": {"grid": [2, 1]}}.items():
        changed = compare({"one": row_of(first)}, {"one": row_of({**first, text: other})}).changes
        assert [each.texts for each in changed] == [(text,)]


def test_a_field_that_is_empty_is_none() -> None:
    more = row_of(answer(rows=[], more_b=0, a={"shift": 0, "name": ""}))
    assert more == row_of(answer())
    (changed,) = compare({"one": more}, {"one": row_of(answer(rows=[1], a={"shift": 2}))}).changes
    assert changed.texts == ("decisions",) and [name for name, _, _ in changed.fields] == ["a", "rows"]


def test_a_record_is_a_line_for_each_product_in_order(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "replay.json"
    write_record(dict(reversed(ROWS.items())), path)
    assert read_record(path) == ROWS
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(ROWS) + 5
    assert [json.loads(line.split('": ')[0] + '"') for line in lines[3:-2]] == sorted(ROWS)
    written = path.read_bytes()
    write_record(ROWS, path)
    assert path.read_bytes() == written


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("{", "is no JSON"),
        ("[]", "is no record of format 1"),
        ('{"format": 2, "products": {}}', "is no record of format 1"),
        ('{"format": 1}', "has no products"),
        ('{"format": 1, "products": {"gemm: one": {"ptx": "1"}}}', "lacks what is kept of gemm: one"),
        ('{"format": 1, "products": {"gemm: one": 3}}', "lacks what is kept of gemm: one"),
    ],
)
def test_a_corrupt_record_is_an_error_of_one_line(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "replay.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ReplayError, match=words) as caught:
        read_record(path)
    assert "--record" in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_equal_is_one_line() -> None:
    found = compare(ROWS, dict(ROWS))
    assert found.equal
    assert report(found) == "3 products compile to the same decisions, ac, PTX and plan as recorded"


def test_changes_are_grouped_by_what_changed() -> None:
    wide = {"tile_m": 256, "split": 2, "reasons": ["for another reason that takes more than forty letters"]}
    after = {
        "gemm: one (M=1)": row_of(answer(**wide)),
        "gemm: two (M=2)": row_of(answer(**wide)),
        "skinny: three (M=3)": row_of(answer("exit;")),
    }
    found = compare(ROWS, after)
    assert found.changes[2] == Change("skinny: three (M=3)", ("ptx",))
    assert report(found).splitlines() == [
        "Of 3 products 3 changed; 0 are as recorded.",
        "",
        "decisions alone of 2 products:",
        "    reasons: another value",
        "    split: none -> 2 (2 products)",
        "    tile_m: 128 -> 256 (2 products)",
        "    gemm: one (M=1)",
        "    gemm: two (M=2)",
        "",
        "ptx alone of 1 product:",
        "    skinny: three (M=3)",
    ]


def test_new_products_and_those_that_are_gone() -> None:
    after = {**ROWS, "gemm: four (M=4)": row_of(answer())}
    del after["gemm: one (M=1)"]
    found = compare(ROWS, after)
    assert (found.added, found.removed, found.same) == (("gemm: four (M=4)",), ("gemm: one (M=1)",), 2)
    assert not found.equal
    assert report(found).splitlines() == [
        "Of 3 products 0 changed, 1 new, 1 gone; 2 are as recorded.",
        "",
        "new:",
        "    gemm: four (M=4)",
        "",
        "gone:",
        "    gemm: one (M=1)",
    ]


def test_refusals_are_told_in_their_words() -> None:
    refused = {name: row_of({"refused": "too large"}) for name in ROWS}
    assert "refused now: too large\n    gemm: one" in report(compare(ROWS, refused))
    assert "refused no more: too large\n    gemm: one" in report(compare(refused, ROWS))
    assert compare(refused, dict(refused)).equal
    other = {name: row_of({"refused": "too small"}) for name in ROWS}
    assert "refused before: too large; now: too small" in report(compare(refused, other))


def test_long_lists_are_cut() -> None:
    before = {f"gemm: {number:02}": row_of(answer()) for number in range(20)}
    after = {name: row_of(answer(tile_m=number + 200)) for number, name in enumerate(before)}
    lines = report(compare(before, after)).splitlines()
    assert lines[3].endswith("14 more") and lines[-1] == "    and 12 more" and len(lines) == 13


def test_a_diff_is_shown_once_with_the_products_that_have_it() -> None:
    texts = {name: texts_of(answer(f"a\nb\nc {name}")) for name in ("one", "two", "three")}
    after = {
        "one": texts_of(answer("a\nx\nc one")),
        "two": texts_of(answer("a\nx\nc two")),
        "three": texts_of(answer("a\nb\nc three", tile_m=64)),
    }
    found = diffs(texts, after)
    assert [(each.text, each.names) for each in found] == [("decisions", ("three",)), ("ptx", ("one", "two"))]
    assert shown(found).splitlines()[-9:] == [
        "==== ptx of 2 products, 1 different diff",
        "",
        "---- one",
        "---- two",
        "@@ -1,3 +1,3 @@",
        " a",
        "-b",
        "+x",
        " c one",
    ]


def test_a_string_of_json_is_compared_by_lines() -> None:
    before, after = (
        texts_of(answer(schedule=json.dumps({"interval": interval, "slots": 4}))) for interval in (512, 640)
    )
    (found,) = diffs({"one": before}, {"one": after})
    assert [line.strip() for line in found.lines if line[0] in "+-"] == ['-  "interval": 512,', '+  "interval": 640,']


def test_diffs_are_cut_unless_all_is_asked_for() -> None:
    long = "\n".join(map(str, range(100)))
    before = {f"{number:02}": texts_of(answer()) for number in range(12)}
    # Words that differ, and, of the last one, a number.
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "mu 1", "mu 2"]
    after = {name: texts_of(answer(f"{word}\n{long}")) for (name, _), word in zip(before.items(), words, strict=True)}
    found = diffs(before, after)
    cut, whole = shown(found).splitlines(), shown(found, everything=True).splitlines()
    assert cut[0] == whole[0] == "==== ptx of 12 products, 12 different diffs"
    assert sum(line.startswith("---- ") for line in cut) == 8 and sum(line.startswith("---- ") for line in whole) == 12
    assert "... 43 more lines: see --all" in cut
    assert "... and 1 diff of 1 product that differ from this in numbers alone: see --all" in cut
    assert cut[-1] == "3 diffs of 3 products more: see --all"
    assert not any("--all" in line for line in whole)
