"""Every pair of docs/bugs: the buggy kernel is refuted by a fitting rule beside the mark, the fixed one is proven."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest

from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_file
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import read_launch_file

_BUGS = Path(__file__).parents[2] / "docs" / "bugs"
_INDEX: dict[str, dict[str, Any]] = tomllib.loads((_BUGS / "index.toml").read_text("utf-8"))
_BESIDE = 6
"""Lines between the marked line and the finding's: the mark stands where the mistake is, the finding where it shows."""


def _checked(name: str, kind: str) -> KernelReport:
    launch = _BUGS / name / "launch.json"
    isa: Literal["tolerant", "strict"] = _INDEX[name].get("isa", "tolerant")
    known = read_launch_file(str(launch)) if launch.exists() else None
    report = check_file(str(_BUGS / name / f"{kind}.ptx"), launch=known, options=CheckOptions(isa, budget_seconds=20))
    assert not report.error, report.error
    (kernel,) = report.kernels
    return kernel


def test_the_index_names_every_pair() -> None:
    assert sorted(_INDEX) == sorted(path.name for path in _BUGS.iterdir() if path.is_dir())
    assert len(_INDEX) >= 40


@pytest.mark.parametrize("name", sorted(_INDEX))
def test_the_buggy_kernel_is_refuted_beside_the_mark(name: str) -> None:
    kernel = _checked(name, "buggy")
    assert kernel.verdict == "refuted", kernel.reasons
    families = {finding.code[:2] for finding in kernel.errors}
    assert families & set(_INDEX[name]["families"]), [f"{each.code} {each.message}" for each in kernel.errors]
    lines = (_BUGS / name / "buggy.ptx").read_text("utf-8").split("\n")
    marked = [number for number, line in enumerate(lines, 1) if line.endswith("// here")]
    if marked:
        places = [
            span.line for each in kernel.errors for span in (each.primary, each.conflicts_with) if span is not None
        ]
        assert min(abs(place - mark) for place in places for mark in marked) <= _BESIDE, places


@pytest.mark.parametrize("name", sorted(_INDEX))
def test_the_fixed_kernel_is_proven(name: str) -> None:
    kernel = _checked(name, "fixed")
    assert kernel.verdict == "proven", [
        *kernel.reasons,
        *(f"{each.code} {each.message} {each.primary}" for each in kernel.errors),
    ]
