"""Many files: in several processes as in one, each with the launches that are its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.checked_texts import BAD_EXPECT, NO_FENCE, launch_document
from tests.cli.conftest import Tilewright
from tests.contract.replay_kernels import copy_text

from tilewright.base.check_report import FileReport
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.check.several import Job, check_jobs


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    texts = {"a": copy_text(), "b": copy_text(**NO_FENCE), "c": copy_text(expect=BAD_EXPECT), "e": "no kernel"}
    for name, text in texts.items():
        Path(f"{name}.ptx").write_text(text, encoding="utf-8")
        Path(f"{name}.launch.json").write_text(json.dumps(launch_document()), encoding="utf-8")
    return ["c.ptx", "a.ptx", "missing.ptx", "b.ptx", "e.ptx"]


def plain(report: FileReport) -> FileReport:
    return replace(report, kernels=tuple(replace(kernel, seconds=0.0) for kernel in report.kernels))


def test_processes_give_the_reports_of_one(paths: list[str]) -> None:
    jobs = [Job(path, CheckOptions(), None, (path.replace(".ptx", ".launch.json"),)) for path in paths]
    done: list[str] = []
    one, two = check_jobs(jobs, 1, done.append), check_jobs(jobs, 2, done.append)
    assert list(map(plain, one)) == list(map(plain, two)) and done == paths
    assert [report.kernels[0].verdict if report.kernels else report.error[:11] for report in two] == [
        "refuted", "proven", "cannot read", "refuted", two[4].error[:11]
    ]  # fmt: skip


@pytest.mark.full
def test_launch_files_of_a_folder_are_used_unless_told_otherwise(paths: list[str], tilewright: Tilewright) -> None:
    def scope(*arguments: str) -> str:
        files = tilewright("check", *arguments, "--format", "json", "--no-cache").document["files"]
        return next(file["kernels"][0]["scope"] for file in files if file["path"].endswith("a.ptx"))

    assert scope(".") == "this launch"
    assert scope(".", "--no-launch-files") != "this launch" and scope("a.ptx") != "this launch"


def test_kernels_that_no_launch_file_names_are_checked_as_well(tmp_path: Path, tilewright: Tilewright) -> None:
    first = copy_text()
    second = first[first.index(".visible") :].replace("double", "other")
    (tmp_path / "two.ptx").write_text(first + second, encoding="utf-8")
    (tmp_path / "two.other.launch.json").write_text(json.dumps({**launch_document(), "entry": "other"}), "utf-8")
    kernels = tilewright("check", str(tmp_path), "--format", "json").document["files"][0]["kernels"]
    assert {kernel["name"]: kernel["scope"] == "this launch" for kernel in kernels} == {"double": False, "other": True}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no JSON"),
        (json.dumps({**launch_document(), "entry": "nobody"}), "has no kernel 'nobody'"),
        (json.dumps({**launch_document(), "params": []}), "takes 3 parameters"),
    ],
)
def test_a_wrong_launch_file_is_an_error_of_its_kernels_file(
    paths: list[str], tilewright: Tilewright, content: str, said: str
) -> None:
    Path("a.launch.json").write_text(content, encoding="utf-8")
    answer = tilewright("check", ".")
    assert answer.code == 2 and said in answer.out and "a.launch.json" in answer.out
    assert "b.ptx" in answer.out and "refuted" in answer.out


def test_two_launches_of_one_kernel_are_an_error(paths: list[str], tilewright: Tilewright) -> None:
    Path("a.again.launch.json").write_text(json.dumps(launch_document()), encoding="utf-8")
    answer = tilewright("check", ".")
    assert answer.code == 2 and "both launch double" in answer.out


def test_settings_reach_the_check(paths: list[str], tilewright: Tilewright) -> None:
    Path("pyproject.toml").write_text('[tool.tilewright]\nisa = "strict"\njobs = 2\n', encoding="utf-8")
    Path("e.ptx").unlink()
    assert tilewright("check", ".").code == 1
    Path("pyproject.toml").write_text('[tool.tilewright]\nisa = "lenient"\n', encoding="utf-8")
    wrong = tilewright("check", "a.ptx")
    assert wrong.code == 2 and "pyproject.toml:2" in wrong.err and "help:" in wrong.err
    launch = ("--launch", "a.launch.json")
    assert tilewright("check", "a.ptx", *launch, "--isolated").code == 0
    assert tilewright("check", "a.ptx", *launch, "-j", "0", "--isolated", "--no-cache").code == 0
    assert tilewright("check", "a.ptx", *launch, "-j", "-1").code == 2
