"""The demo as a user runs it: text, JSON and page, and exit code 1 where something is not as it should be."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Tilewright

from tilewright.cli.commands import demo_command
from tilewright.cli.demo_page import demo_page
from tilewright.driver.views import demo as driver_demo
from tilewright.driver.views.demo import Demo, Variant
from tilewright.report.html import render_page

_kept: list[Demo] = []


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's steps are taken once for all tests; the commands get what they gave."""
    steps = driver_demo.demonstrate

    def demonstrate(tell: driver_demo.Tell, progress: driver_demo.Progress | None = None) -> Demo:
        if not _kept:
            _kept.append(steps(tell, progress))
        tell("compiling")
        return _kept[0]

    monkeypatch.setattr(driver_demo, "demonstrate", demonstrate)


def test_text(folder: Path, tilewright: Tilewright, once: None) -> None:
    answer = tilewright("demo")
    assert answer.code == 0
    assert "compiling" in answer.err and "\r" not in answer.err
    for word in ("proven", "PTX", "cubin", "relative error", "broken: one proxy fence dropped", "PX001", "PX101"):
        assert word in answer.out
    assert (folder / "out" / "demo.html").is_file()


def test_a_folder_that_cannot_be_made(folder: Path, tilewright: Tilewright, once: None) -> None:
    (folder / "out").write_text("no folder")
    answer = tilewright("demo")
    assert answer.code == 2 and "cannot make out" in answer.err and "--report FILE.html" in answer.err


def test_json(folder: Path, tilewright: Tilewright, once: None) -> None:
    answer = tilewright("demo", "--format", "json", "--report", "page.html")
    assert answer.code == 0 and answer.err == ""
    document = answer.document
    assert document["as_it_should_be"] is True and document["report"] == "page.html"
    assert document["comparison"]["relative_error"] < document["comparison"]["relative_error_limit"]
    assert [variant["refuted"] for variant in document["broken"]] == [True, True, True]
    assert document["broken"][0]["text"]["findings"][0]["conflicts_with_line"]
    assert not (folder / "out").exists()


def test_the_page_shows_it_all(folder: Path, tilewright: Tilewright, once: None) -> None:
    tilewright("demo", "--report", "page.html")
    html = Path("page.html").read_text(encoding="utf-8")
    for word in ("Shared memory", "full[0]", "staging", "Pipeline", "consumer 1", "Proof", "Comparison with NumPy"):
        assert word in html
    assert html.count("<svg") == 3 and html.count("Broken: ") >= 3
    assert "acc += tw.dot(a[i, k], b[k, j])" in html


def test_a_report_that_cannot_be_written(folder: Path, tilewright: Tilewright, once: None) -> None:
    assert tilewright("demo", "--report", "no/such/page.html").code == 2


def test_what_is_not_as_it_should_be_exits_1(
    folder: Path, tilewright: Tilewright, once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tilewright("demo").code == 0
    demo = _kept[0]
    # A variant that breaks nothing is not refuted, and the demo must not hide that.
    harmless = Variant("nothing", "nothing", lambda module: None, r"\tret;\n", lambda match: match.group(0))
    specimen = driver_demo.Specimen.of(demo.compilation)
    unbroken = driver_demo.break_it(specimen, harmless, lambda _: None)
    changed = Demo(demo.compilation, demo.comparison, demo.history, demo.original, (*demo.broken, unbroken))
    monkeypatch.setattr(driver_demo, "demonstrate", lambda tell, progress=None: changed)
    answer = tilewright("demo")
    assert answer.code == 1 and "NOT as it should be" in answer.out
    assert "NOT refuted" in render_page(demo_page(changed, 1.0))
    assert demo_command.demo_to_json(changed)["as_it_should_be"] is False
