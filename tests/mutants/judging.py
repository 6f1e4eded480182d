"""Was a mutant caught, by a right code, at a right place?

Right code: an error of a family that the mutation names. Place, of the finding's line or the line it conflicts with:

- `line`: at most 8 lines from the edit;
- `step`: at most 3 steps of the protocol from it. A step is a run of neighbouring instructions of one kind (copies, a
  tensor-core group, loads) that take part in the protocol; in a loop the first follows the last. What was removed has
  no line of its own: a missing wait shows where the data are used, on the other side of its neighbours;
- `shows`: an instruction at which this fault shows, wherever it stands: of an arrival that is missing, the wait for it;
- `far`: elsewhere.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from tests.mutants.mutations import Mutant
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.given_launch import LaunchFile
from tilewright.frontends.ptx.ast import Instruction, Kernel, Label
from tilewright.frontends.ptx.reader import read

LINES_BESIDE = 8
STEPS_BESIDE = 3
_PROTOCOL = (
    "bar.", "barrier", "cp.", "fence", "griddepcontrol", "ld.shared", "ldmatrix", "mbarrier", "setmaxnreg", "st.shared",
    "stmatrix", "tcgen05", "tensormap", "wgmma",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """verdict: of the mutant, or `error` if it was not even checked; code: whether it is a right one; place: `line`,
    `step`, `shows` or `far`, empty unless refuted; why: codes with lines, or reasons."""

    mutation: str
    line: int
    verdict: str
    code: bool
    place: str
    why: str


Said = tuple[str, int]
"""A finding's code and line."""


def findings_of(text: str, file: str, launch: LaunchFile, seconds: float = 30.0) -> frozenset[Said]:
    """What the strict reading says of a subject already: no credit for a mutant."""
    report = check_text(text, file, launch=launch, options=CheckOptions(isa="strict", budget_seconds=seconds))
    return frozenset(_code_and_line(each) for kernel in report.kernels for each in kernel.findings)


def judged(
    mutant: Mutant, file: str, launch: LaunchFile, known: frozenset[Said] = frozenset(), seconds: float = 30.0
) -> Outcome:
    """known: findings of the subject itself, that do not count."""
    options = CheckOptions(isa=mutant.isa, budget_seconds=seconds)
    report = check_text(mutant.text, file, launch=launch, options=options)
    if report.error:
        return Outcome(mutant.mutation, mutant.line, "error", False, "", f"{report.error} ({report.error_line})")
    kernel = report.kernels[0]
    if kernel.defect:
        return Outcome(mutant.mutation, mutant.line, "error", False, "", kernel.defect)
    errors = [each for each in kernel.findings if each.level is Level.ERROR and _code_and_line(each) not in known]
    verdict = "proven" if kernel.verdict == "refuted" and not errors else kernel.verdict
    why = "; ".join(_said(finding) for finding in errors[:4]) or " | ".join(kernel.reasons)[:200]
    code = any(finding.code[:2] in mutant.families for finding in errors)
    place = _place(read(mutant.text, file, tolerant=True).kernels, mutant, _lines(errors)) if errors else ""
    return Outcome(mutant.mutation, mutant.line, verdict, code, place, why)


def _code_and_line(finding: Diagnostic) -> Said:
    return finding.code, finding.primary.line if finding.primary is not None else 0


def _lines(errors: list[Diagnostic]) -> set[int]:
    return {span.line for each in errors for span in (each.primary, each.conflicts_with) if span is not None}


def _said(finding: Diagnostic) -> str:
    at = finding.primary.line if finding.primary is not None else 0
    other = f"/{finding.conflicts_with.line}" if finding.conflicts_with is not None else ""
    return f"{finding.code}@{at}{other}"


def _place(kernels: tuple[Kernel, ...], mutant: Mutant, found: set[int]) -> str:
    if any(abs(mutant.line - other) <= LINES_BESIDE for other in found):
        return "line"
    if any(_steps_apart(kernel, mutant.line, other) <= STEPS_BESIDE for kernel in kernels for other in found):
        return "step"
    at_found = [
        item.opcode
        for kernel in kernels
        for item in kernel.body
        if isinstance(item, Instruction) and item.span.line in found
    ]
    return "shows" if any(opcode.startswith(mutant.shows) for opcode in at_found if mutant.shows) else "far"


def _steps_apart(kernel: Kernel, line: int, other: int) -> int:
    starts = _step_starts(kernel)
    here, there = bisect.bisect_right(starts, line), bisect.bisect_right(starts, other)
    apart = abs(here - there)
    for first, last in _loops(kernel):
        if first <= line <= last and first <= other <= last:
            whole = bisect.bisect_right(starts, last) - bisect.bisect_right(starts, first)
            apart = min(apart, max(0, whole - apart))
    return apart


def _step_starts(kernel: Kernel) -> list[int]:
    """Lines at which steps begin."""
    starts: list[int] = []
    before = ""
    for item in kernel.body:
        if isinstance(item, Instruction) and item.opcode.startswith(_PROTOCOL):
            kind = item.row + ("" if item.row not in ("ld", "st") else "shared")
            if kind != before:
                starts.append(item.span.line)
            before = kind
        elif isinstance(item, Label):
            before = ""
    return starts


def _loops(kernel: Kernel) -> list[tuple[int, int]]:
    """First and last line of every loop: from a label to a branch back to it."""
    labels = {item.name: item.span.line for item in kernel.body if isinstance(item, Label)}
    found: list[tuple[int, int]] = []
    for item in kernel.body:
        if isinstance(item, Instruction) and item.row == "bra":
            target = labels.get(getattr(item.operands[-1], "name", ""))
            if target is not None and target < item.span.line:
                found.append((target, item.span.line))
    return found
