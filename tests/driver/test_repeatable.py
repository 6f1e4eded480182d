"""A report is a function of its input: no clock, no order of a set and no earlier check changes it.

Only the seconds that a report shows may differ. A limit in seconds may end a check, and the report then says so.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.checked_texts import BAD_EXPECT, NO_FENCE, launch_document
from tests.contract.replay_kernels import copy_text

import tilewright
from tilewright.driver.check import judge_kernel
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import REPAIR_STEPS, CheckOptions
from tilewright.driver.launch.given_launch import LaunchFile
from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.report.findings.check_json import check_to_json

SOURCES = Path(tilewright.__file__).parent
BUGS = Path(__file__).parents[2] / "docs" / "bugs"
GRID = json.loads(json.dumps({**launch_document(), "grid": [60, 1, 1]}).replace('"value": 4', '"value": 0'))
"""A grid of which only some clusters are run, without a step in any."""

CLOCKS = {
    "driver/check/limits/budget.py": "the alarm that ends a check",
    "driver/check/limits/time_for_file.py": "the limits in seconds, whose reasons name them",
    "driver/check/check_each.py": "the seconds that a report shows",
    "driver/repair/rechecks.py": "the limit in seconds of the search, which a note names",
    "driver/reduce/reduce.py": "the limit in seconds of the search, which the result names",
    "driver/compile/compile.py": "the seconds that a compilation shows",
    "driver/views/demo.py": "the seconds that the demonstration shows",
}
"""Who may look at a clock, and what for. Everything else counts work (`driver.check.limits.work`)."""
WITHOUT_CLOCKS = ("base", "contract", "driver", "frontends", "ir", "legal", "machine", "solve", "targets")


def test_nothing_that_decides_a_verdict_looks_at_a_clock() -> None:
    found = {
        path.relative_to(SOURCES).as_posix()
        for package in WITHOUT_CLOCKS
        for path in (SOURCES / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.Import) and any(name.name in ("time", "datetime") for name in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime"))
    }
    assert found <= set(CLOCKS), "count work instead"


def shown(text: str, launch: LaunchFile | None) -> Any:
    """The report with all that it says, but for the seconds it took."""
    report = check_text(text, "k.ptx", launch=launch, options=CheckOptions(repair_steps=REPAIR_STEPS))
    document = json.loads(json.dumps(check_to_json((report,), tool="t")))
    for kernel in document["files"][0]["kernels"]:
        assert kernel.pop("seconds") >= 0
    return document


def bug(name: str) -> str:
    return (BUGS / name / "buggy.ptx").read_text("utf-8")


CASES = {
    "proven": (copy_text(), launch_document()),
    "some clusters": (copy_text(), GRID),
    "refuted and repaired": (copy_text(**NO_FENCE), launch_document()),
    "refuted": (copy_text(expect=BAD_EXPECT), launch_document()),
    "explored": (copy_text().replace("steps) {", "steps) .reqntid 64 {"), None),
    "explored and repaired": (bug("slot-rewritten-without-a-wait"), None),
    "zero trips": (bug("zero-trips-are-waited-for"), None),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
def test_the_same_report_twice_and_under_any_clock(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(judge_kernel, "ALL_CLUSTERS_STEPS", 10_000)
    text, document = CASES[name]
    launch = launch_from_json(document, "launch.json") if document is not None else None
    first = shown(text, launch)
    assert (name == "some clusters") == ("of 60 clusters, " in json.dumps(first))
    assert shown(text, launch) == first
    real = {name: getattr(time, name) for name in ("monotonic", "perf_counter", "process_time")}
    for factor in (0.01, 100.0):
        with monkeypatch.context() as patched:
            for clock, read in real.items():

                def other(read: Any = read, factor: float = factor) -> float:
                    return read() * factor

                patched.setattr(time, clock, other)
                for module_name, module in list(sys.modules.items()):
                    if module_name.startswith("tilewright.") and getattr(module, clock, None) is read:
                        patched.setattr(module, clock, other)
            assert shown(text, launch) == first, f"a clock {factor:g} times as fast changes the report"


def test_the_order_of_sets_changes_nothing(tmp_path: Path) -> None:
    for name, (text, _) in CASES.items():
        (tmp_path / f"{name}.ptx").write_text(text, encoding="utf-8")
    reports: set[str] = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", "check", ".", "--format", "json", "--no-repair"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(SOURCES.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        document = json.loads(done.stdout)
        for file in document["files"]:
            for kernel in file["kernels"]:
                del kernel["seconds"]
        reports.add(json.dumps(document))
    assert len(reports) == 1
