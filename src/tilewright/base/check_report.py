"""What did a check say of files and their kernels? Plain values, which `report` renders and the command line sums up.

A kernel is proven, refuted or unknown, as in `verdict`; findings that only ask for review stand beside any of these,
and so do findings that the text or the user sets aside. A proof beside which errors were set aside is a proof except
for them, and says so (`KernelReport.exceptions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.timeline import Timeline

VerdictWord = Literal["proven", "refuted", "unknown"]
SetAside = Literal["source", "option", "ignored"]


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that is set aside, and the reason that was given.

    by: a comment in the source allows it ("source"), the user does ("option", as by `--allow`), or the user does not
    look at its rule ("ignored", as by `--ignore` and `--select`), which has no reason.
    """

    finding: Diagnostic
    reason: str
    by: SetAside = "source"

    @property
    def words(self) -> str:
        """What is set aside and why, in words: "allowed PX101: no engine reads these bytes"."""
        if self.by == "ignored":
            return f"ignored {self.finding.code}"
        return f"allowed {self.finding.code}: {self.reason}"

    @property
    def assumption(self) -> str:
        """As an assumption of a proof. A comment allows one place, an option every place."""
        if self.by == "ignored":
            return f"{self.finding.code} is ignored"
        place = f" at {self.finding.primary}" if self.by == "source" else ""
        return f"{self.finding.code}{place} is allowed: {self.reason}"


@dataclass(frozen=True, slots=True)
class KernelReport:
    """The verdict on one kernel.

    scope: what a proof holds for ("all trip counts", "this launch"), empty where nothing is proven; assumptions: what
    it rests on; claims: what it found to be so; reasons: of `unknown`, what would decide it; findings: errors and
    reviews; suppressed: findings that the text or the user sets aside; seconds: what the check took; steps: warp
    instructions that it ran, the same on every machine; defect: of this program, where one ended the check ("KeyError
    at file.py:12"); launch: that shows what refutes, as the document of a launch file, where none was given; launches:
    how many were made up and explored, 0 where one was given; ranges: of the parameters that steer the kernel, for
    which the proof holds ("parameter 2 from 1 to 2^31 - 1"); stopped: a limit in seconds ended the check;
    cut_short: the run of the launch that is given, or that refutes, ended at a fault or a hang, and what comes behind
    was not judged; reached: warp instructions of that run, to be compared where the launch is one.

    beside: where this text is unknown, what another text of the same kernel gave. It changes no verdict.
    """

    name: str
    target: str
    verdict: VerdictWord
    scope: str = ""
    assumptions: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    seconds: float = 0.0
    timeline: Timeline | None = None
    steps: int = 0
    defect: str = ""
    launch: Mapping[str, object] | None = None
    launches: int = 0
    ranges: tuple[str, ...] = ()
    stopped: bool = False
    beside: Beside | None = None
    cut_short: bool = False
    reached: int = 0

    @property
    def exceptions(self) -> tuple[str, ...]:
        """What errors a proof leaves out, each once: "allowed PX101: no engine reads these bytes"."""
        errors = (each for each in self.suppressed if each.finding.level is Level.ERROR)
        return tuple(dict.fromkeys(each.words for each in errors)) if self.verdict == "proven" else ()

    @property
    def verdict_words(self) -> str:
        """The verdict with its scope and its exceptions: "proven for this launch except ignored PX101"."""
        scope = f" for {self.scope}" if self.scope else ""
        exceptions = f" except {'; '.join(self.exceptions)}" if self.exceptions else ""
        return f"{self.verdict}{scope}{exceptions}"

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The findings that refute."""
        return tuple(finding for finding in self.findings if finding.level is Level.ERROR)


@dataclass(frozen=True, slots=True)
class Beside:
    """The verdict on another text of a kernel. kind: of text, such as "TTGIR"; covers: what its proof says of the
    kernel, and what it does not."""

    kind: str
    path: str
    kernel: KernelReport
    covers: str


@dataclass(frozen=True, slots=True)
class FileReport:
    """The verdicts on one file's kernels, or why the file could not be checked.

    path: as the user gave it, "-" for standard input; text: what was checked; findings: of the file as a whole, such as
    allowances that allow nothing; error: the message where the tool could not do its job, with `error_line` and
    `remedy`; notes: what a reader should know of the check, such as a search that a time limit ended.
    """

    path: str
    text: str = ""
    kernels: tuple[KernelReport, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    error: str = ""
    error_line: int | None = None
    remedy: str = ""
    error_findings: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkippedFiles:
    """What of a folder was not checked. suffix, checked: of the files that were, and how many; by_suffix: how many
    other files of kernels there are, by their suffix."""

    folder: str
    suffix: str
    checked: int
    by_suffix: tuple[tuple[str, int], ...]


def exit_code(files: Iterable[FileReport], *, allow_unknown: bool = False, exit_zero: bool = False) -> int:
    """2 where the tool could not do its job on some file; else 1 where something is refuted; else 3 where something is
    unknown, or nothing was checked at all; else 0. allow_unknown: unknown counts as 0; exit_zero: any verdict does."""
    files = tuple(files)
    if any(file.error for file in files):
        return 2
    if exit_zero:
        return 0
    verdicts = {kernel.verdict for file in files for kernel in file.kernels}
    if "refuted" in verdicts:
        return 1
    return 3 if ("unknown" in verdicts and not allow_unknown) or not verdicts else 0


def all_findings(files: Iterable[FileReport]) -> tuple[Diagnostic, ...]:
    """Every finding of every file, in order, without those that the texts allow."""
    return tuple(
        finding
        for file in files
        for part in (file.error_findings, *(kernel.findings for kernel in file.kernels), file.findings)
        for finding in part
    )
