"""The corpus bench: rows of files with several kernels and without a launch, reasons by count, and a page that keeps
what a run does not make."""

from dataclasses import replace
from pathlib import Path

import pytest
from bench.corpus import add_arguments, kernel_texts, rows_of, run
from bench.corpus_page import Checked, most_frequent, normalised, page, totals

from tilewright.base.check_report import FileReport, KernelReport

_TWO = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry first(.param .u64 first_p)
{
	.shared .align 8 .b64 bar;
	.reg .b32 %r<2>;
	mov.u32 %r1, bar;
	mbarrier.init.shared::cta.b64 [%r1], 1;
	ret;
}
.entry second()
{
	ret;
}
"""

_ROW = Checked("nvcc", "sm_90a", "a", 10, "refuted", "", ":7:2: CTA 0 warp 1 waits | at 0x40", 1.25)


def test_a_kernel_text_ends_where_the_next_begins() -> None:
    texts = kernel_texts(_TWO)
    assert list(texts) == ["first", "second"]
    assert "mbarrier" in texts["first"] and "mbarrier" not in texts["second"]


def test_each_kernel_of_a_file_has_a_row(tmp_path: Path) -> None:
    path = tmp_path / "own" / "sm_90a" / "two.ptx"
    kernels = (KernelReport("first", "sm_90a", "unknown", reasons=("why",), seconds=3.0),
               KernelReport("second", "sm_90a", "proven", "all trip counts", seconds=1.0))  # fmt: skip
    rows = list(rows_of(FileReport(str(path), _TWO, kernels), tmp_path, False, 8.0))
    assert [(row.family, row.name, row.verdict, row.seconds) for row in rows] == [
        ("own", "two #1", "unknown", 6.0),
        ("own", "two #2", "proven", 2.0),
    ]
    assert [row.asynchronous for row in rows] == [True, False]


def test_no_kernel_of_a_file_that_failed_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "own" / "sm_90a" / "two.ptx"
    rows = list(rows_of(FileReport(str(path), _TWO, error="no such thing"), tmp_path, False, 8.0))
    assert [(row.verdict, row.reason) for row in rows] == [("error", "no such thing")] * 2


def test_reasons_that_differ_in_places_and_numbers_are_one() -> None:
    rows = [
        replace(_ROW, name="a", reason="MB108 kernel.ptx:214:2: CTA 0 warp 1 waits at mbarrier +0x40 for parameter 3"),
        replace(_ROW, name="b", reason="MB108 kernel.ptx:99:2: CTA 1 warp 12 waits at mbarrier +0x1c8 for parameter 9"),
        replace(_ROW, name="c", reason="MB109 other"),
        replace(_ROW, name="d", verdict="unknown", reason="MB109 other"),
        replace(_ROW, name="e", verdict="proven", reason=""),
    ]
    assert [(verdict, count, first[-1]) for verdict, _, count, first in most_frequent(rows, 9)] == [
        ("refuted", 2, "a"),
        ("refuted", 1, "c"),
        ("unknown", 1, "d"),
    ]
    assert most_frequent(rows, 1)[1] == ("", "2 further reasons", 2, "")


def test_rule_numbers_stay_in_a_reason() -> None:
    assert normalised("MB108 of 3") == "MB108 of N"
    assert normalised("TX001 of 3, 4 and 5") != normalised("TX002 of 3, 4 and 5")


def test_roles_do_not_tell_reasons_apart() -> None:
    said = {normalised(f"CTA 0 {role}warp 3 waits") for role in ("", "producer ", "consumer warpgroup 1 ")}
    assert said == {"CTA N warp N waits"}


def test_kernels_without_an_asynchronous_instruction_are_counted_apart() -> None:
    rows = [replace(_ROW, verdict="proven"), replace(_ROW, asynchronous=False)]
    assert totals(rows) == (
        "1 asynchronous kernels: 1 proven, 0 unknown, 0 refuted, 0 error (100.0% proven, 0 for all trip counts); "
        "others: 1 refuted"
    )


def test_a_page_keeps_families_and_arguments_that_a_run_does_not_make() -> None:
    marks = "<!-- argued by hand: kept when the page is written again -->\n## Why\n<!-- end -->"
    other = replace(_ROW, family="triton", name="t", launch=False, verdict="unknown", reason="x" * 200)
    first = page({True: [_ROW], False: [other]}, {"nvcc": {"source": "s", "commit": "c"}}, marks, "")
    assert "## Why" in first
    assert page({}, {}, first, "") == first
    again = page({True: [replace(_ROW, verdict="proven")]}, {}, first, "")
    assert "| triton | sm_90a | t | 10 | unknown |" in again and "| nvcc | s | c |" in again
    assert "refuted | " not in again.partition("## With launch")[2] and "## Why" in again


def test_the_page_of_the_repository_loses_no_row_when_written_again() -> None:
    old = (Path(__file__).parents[2] / "docs" / "corpus.md").read_text("utf-8")
    again = page({}, {}, old, "")
    for line in old.split("\n"):
        if line.startswith(("| nvcc", "| triton", "- **")):
            assert line in again


def test_a_folder_is_checked_with_and_without_launches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    folder = tmp_path / "own" / "sm_90a"
    folder.mkdir(parents=True)
    (folder / "two.ptx").write_text(_TWO, "utf-8")
    (folder / "one.ptx").write_text(_TWO.partition(".entry second")[0], "utf-8")
    (folder / "one.launch.json").write_text(
        '{"grid": [1, 1, 1], "block": [32, 1, 1], "cluster": [1, 1, 1], "dynamic_smem": 0,'
        ' "params": [{"kind": "ptr", "bytes": 0}]}',
        "utf-8",
    )
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    written = tmp_path / "page.md"
    assert run(parser.parse_args([str(tmp_path), "--jobs", "1", "--write", str(written)])) == 0
    said = capsys.readouterr().out
    assert "1/1 own/sm_90a/one" in said and "2/2 own/sm_90a/two #2" in said
    text = written.read_text("utf-8")
    with_launch, _, without = text.partition("## Without launch")
    assert "| own | sm_90a | one |" in with_launch and "| own | sm_90a | two #1 |" not in with_launch
    assert "| own | sm_90a | one |" in without and "| own | sm_90a | two #1 |" in without
    assert "two #2" not in text  # nothing asynchronous


def test_a_folder_without_kernels_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert run(parser.parse_args([str(tmp_path)])) == 2
    assert "no .ptx file" in capsys.readouterr().out
