"""`tilewright reduce`: exit codes, what goes where, and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.cli.main import main

BROKEN = Path(__file__).parents[3] / "docs" / "bugs" / "store-never-committed" / "buggy.ptx"


def test_the_text_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reduce", str(BROKEN), "--code", "BG101", "--budget", "10"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(".version") and len(shown.out.splitlines()) < 20
    before = len(BROKEN.read_text().splitlines())
    assert f"{before} lines reduced to {len(shown.out.splitlines())} " in shown.err and "BG101" in shown.err


def test_a_file_is_written_and_checks_as_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "small.ptx"
    assert main(["reduce", str(BROKEN), "--code", "bg101", "--budget", "10", "--output", str(target)]) == 0
    assert not capsys.readouterr().out
    assert main(["check", str(target), "--format", "json", "--no-repair"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert {each["code"] for each in document["files"][0]["kernels"][0]["findings"]} == {"BG101"}


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reduce", str(BROKEN), "--code", "BG101", "--format", "json", "--budget", "10"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["lines"] == len(document["text"].splitlines()) < document["lines_before"]
    assert document["finding"]["code"] == "BG101" and document["finished"] is True and document["checks"] > 0
    line = document["text"].splitlines()[document["finding"]["line"] - 1]
    assert "cp.async.bulk" in line


@pytest.mark.parametrize("arguments", [["--code", "MB013"], ["--code", "BG101", "--entry", "nobody"], []])
def test_what_cannot_be_reduced(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reduce", str(BROKEN), *arguments]) == 2
    shown = capsys.readouterr()
    assert not shown.out and "error" in shown.err


def test_no_such_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reduce", "no-such.ptx", "--code", "BG101"]) == 2
    assert "no-such.ptx" in capsys.readouterr().err
    assert main(["reduce", str(BROKEN), "--code", "BG101", "--budget", "0"]) == 2


def test_a_code_that_no_rule_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reduce", str(BROKEN), "--code", "BG1O1"]) == 2
    assert "there is no rule BG1O1" in (words := capsys.readouterr().err) and "did you mean BG1" in words


def test_the_finding_is_named_as_for_explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unfenced = str(BROKEN.parents[1] / "store-without-a-proxy-fence" / "buggy.ptx")
    for name in ("write-not-fenced", "proxy_fence", "Proxy-Fence"):
        assert main(["reduce", unfenced, "--code", name, "--budget", "10"]) == 0
        assert "PX101 (write-not-fenced)" in capsys.readouterr().err
    assert main(["reduce", unfenced, "--code", "fenced_init", "--budget", "10"]) == 2
    assert "does not show" in capsys.readouterr().err
    assert main(["reduce", unfenced, "--code", "write-not-fence", "--budget", "10"]) == 2
    assert "did you mean write-not-fenced?" in capsys.readouterr().err
