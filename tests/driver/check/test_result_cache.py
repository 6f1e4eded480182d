"""Reports from the cache: of the very same input alone, and never from a file that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.cli.checked_texts import NO_FENCE, launch_document
from tests.contract.replay_kernels import copy_text

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.driver.check import check
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.check.result_cache import fetch, keep, result_key
from tilewright.driver.check.several import Job, check_job
from tilewright.driver.launch.launch_buffers import BufferContents
from tilewright.driver.launch.launch_file import launch_from_json

LAUNCH = launch_from_json(launch_document(), "launch")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    Path("kernel.ptx").write_text(copy_text(), encoding="utf-8")
    return tmp_path


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths that were really checked."""
    paths: list[str] = []
    check_text = check.check_text

    def counting(text: str, file: str, **options: object) -> FileReport:
        paths.append(file)
        return check_text(text, file, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(check, "check_text", counting)
    return paths


JOB = Job("kernel.ptx", CheckOptions(), LAUNCH, cached=True)


def test_the_same_input_is_checked_once_and_reported_alike(checked: list[str]) -> None:
    first, second = check_job(JOB), check_job(JOB)
    assert len(checked) == 1 and first == second and first.kernels[0].verdict == "proven" and second.text


@pytest.mark.sample(4)
@pytest.mark.parametrize("changed", ["text", "isa", "budget", "launch", "entry", "without", "path", "ttgir", "source"])
def test_anything_that_decides_a_verdict_makes_it_another_input(checked: list[str], changed: str) -> None:
    check_job(JOB)
    job = JOB
    match changed:
        case "text":
            Path("kernel.ptx").write_text(copy_text(**NO_FENCE), encoding="utf-8")
        case "isa":
            job = replace(JOB, options=CheckOptions("strict"))
        case "budget":
            job = replace(JOB, options=CheckOptions(budget_seconds=59.0))
        case "entry":
            job = replace(JOB, options=CheckOptions(entry="double"))
        case "launch":
            document = launch_document()
            document["params"][2]["value"] = 3
            job = replace(JOB, launch=launch_from_json(document, "launch"))
        case "without":
            job = replace(JOB, launch=None)
        case "ttgir":
            Path("kernel.ttgir").write_text("module {}", encoding="utf-8")
        case "source":
            text = copy_text() + '.file 1 "kernel.cu"\n'
            Path("kernel.ptx").write_text(text, encoding="utf-8")
            check_job(JOB)
            checked.pop()
            Path("kernel.cu").write_text("// another line", encoding="utf-8")
        case _:
            Path("other.ptx").write_text(copy_text(), encoding="utf-8")
            job = replace(JOB, path="other.ptx")
    report = check_job(job)
    assert len(checked) == 2
    if changed == "text":
        assert report.kernels[0].verdict == "refuted"


def test_contents_of_buffers_count() -> None:
    keys = set[str]()
    for data in (b"", bytes(8), bytes(7), b"\1" * 8):
        contents = BufferContents("x", np.frombuffer(data, np.uint8), ((0, len(data)),))
        keys.add(result_key("text", "path", (replace(LAUNCH, contents=(contents,)),), CheckOptions()))
    assert len(keys) == 4


def test_what_no_solver_answered_is_asked_again_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = result_key("text", "path", (), CheckOptions())
    monkeypatch.setattr("tilewright.driver.check.result_cache._packages", lambda: ("z3_solver-1.0.dist-info",))
    assert result_key("text", "path", (), CheckOptions()) != installed


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"path": 3}', b"[" * 100_000])
def test_a_damaged_entry_is_made_again(checked: list[str], folder: Path, content: bytes) -> None:
    check_job(JOB)
    (entry,) = (folder / "cache" / "checks").glob("*.json")
    entry.write_bytes(content)
    assert check_job(JOB).kernels[0].verdict == "proven" and len(checked) == 2


def test_a_folder_that_can_not_be_written_means_no_cache(checked: list[str], folder: Path) -> None:
    (folder / "cache").write_text("a file, not a folder", encoding="utf-8")
    assert check_job(JOB).kernels[0].verdict == "proven"
    assert check_job(JOB).kernels[0].verdict == "proven" and len(checked) == 2


@pytest.mark.parametrize("report", [
    FileReport("k.ptx", kernels=(KernelReport("k", "sm_90a", "unknown", stopped=True),)),
    FileReport("k.ptx", kernels=(KernelReport("k", "sm_90a", "unknown", defect="KeyError at file.py:12"),)),
    FileReport("k.ptx", kernels=(KernelReport("k", "sm_90a", "proven"),), notes=("a search was stopped",)),
    FileReport("k.ptx", error="cannot read k.ptx"),
])  # fmt: skip
def test_what_another_check_may_not_say_again_is_not_kept(report: FileReport) -> None:
    keep("key", report)
    assert fetch("key", "") is None
    keep("key", FileReport("k.ptx", kernels=(KernelReport("k", "sm_90a", "unknown"),)))
    assert fetch("key", "text") == FileReport("k.ptx", "text", (KernelReport("k", "sm_90a", "unknown"),))


def test_the_oldest_entries_go(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr("tilewright.driver.check.result_cache.ENTRIES_MOST", 4)
    for budget in range(1, 8):
        check_job(replace(JOB, options=CheckOptions(budget_seconds=50.0 + budget)))
    assert 3 <= len(list((folder / "cache" / "checks").glob("*.json"))) <= 4
