"""What does the TTGIR of a kernel say where its PTX is not decided? A verdict beside the PTX's, never in its place.

Triton keeps both texts of a kernel, `kernel.ptx` and `kernel.ttgir`, in one folder. The TTGIR has the plan of barriers
and copies in few operations, and is often proven in a fraction of a second where a run of the PTX meets something that
it cannot follow. It is another text, though: what lowering makes of it is trusted, and nobody compares the two.

Not handled: TTGIR of another name or folder, which is checked by itself.
Checked by: tests/driver/check/mlir/test_ttgir_beside.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tilewright.base.check_report import Beside, FileReport, KernelReport
from tilewright.base.value import dataclass

_BYTES_MAX = 16 << 20
SECONDS = 10.0
"""A kernel's TTGIR is judged in less than a second, or not at all."""

COVERS = (
    "this covers the barriers, copies and products of the TTGIR, not what lowering made of them in this PTX, "
    "where it adds barriers and proxy fences of its own; the PTX stays unknown"
)

Check = Callable[[str, str, str], FileReport]
"""Checks a text under a path, one kernel of it."""


@dataclass(frozen=True, slots=True)
class Ttgir:
    """path: for places and messages."""

    path: str
    text: str


def ttgir_beside(path: str) -> Ttgir | None:
    """The TTGIR file that has the name of a PTX file and stands in its folder; None where there is none to be read."""
    beside = Path(path).with_suffix(".ttgir")
    try:
        if Path(path).suffix != ".ptx" or os.path.getsize(beside) > _BYTES_MAX:
            return None
        return Ttgir(str(beside), beside.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def with_ttgir(report: FileReport, ttgir: Ttgir | None, check: Check) -> FileReport:
    """The report of a PTX text with what the TTGIR's kernel of the same name and target gives, where one is unknown."""
    if ttgir is None or all(kernel.verdict != "unknown" for kernel in report.kernels):
        return report
    return replace(report, kernels=tuple(_with_ttgir(kernel, ttgir, check) for kernel in report.kernels))


def _with_ttgir(kernel: KernelReport, ttgir: Ttgir, check: Check) -> KernelReport:
    if kernel.verdict != "unknown":
        return kernel
    found = [each for each in check(ttgir.text, ttgir.path, kernel.name).kernels if each.name == kernel.name]
    if len(found) != 1 or found[0].target != kernel.target:
        return kernel
    return replace(kernel, beside=Beside("TTGIR", ttgir.path, found[0], COVERS))
