"""What did a check say of files and their kernels? Plain values, which `report` renders and the command line sums up.

A kernel is proven, refuted or unknown, as in `verdict`; findings that only ask for review stand beside any of these,
and so do findings that the text or the user sets aside. A proof beside which errors were set aside is a proof except
for them, and says so (`KernelReport.exceptions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.timeline import Timeline
from tilewright.base.value import dataclass

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
    """The verdict on one kernel."""

    name: str
    target: str
    verdict: VerdictWord
    scope: str = ""
    """What a proof holds for ("all trip counts", "this launch"); empty where nothing is proven."""
    assumptions: tuple[str, ...] = ()
    """What a proof rests on."""
    claims: tuple[str, ...] = ()
    """What a proof found to be so."""
    reasons: tuple[str, ...] = ()
    """Of `unknown`: what would decide it."""
    findings: tuple[Diagnostic, ...] = ()
    """Errors and reviews."""
    suppressed: tuple[Suppressed, ...] = ()
    """Findings that the text or the user sets aside."""
    seconds: float = 0.0
    """What the check took."""
    timeline: Timeline | None = None
    """What the roles did around the first finding."""
    steps: int = 0
    """Warp instructions that were run; the same on every machine."""
    defect: str = ""
    """A defect of this program that ended the check, such as "KeyError at file.py:12"."""
    launch: Mapping[str, object] | None = None
    """The launch that shows what refutes, as the document of a launch file, where none was given."""
    launches: int = 0
    """How many launches were explored; 0 where one was given."""
    ranges: tuple[str, ...] = ()
    """The parameters that steer the kernel, such as "parameter 2 from 1 to 2^31 - 1": the proof holds for these."""
    stopped: bool = False
    """A limit in seconds ended the check."""
    beside: Beside | None = None
    """Where this text is unknown: the verdict on another text of the kernel. It changes no verdict."""
    cut_short: bool = False
    """The run ended at a fault or a hang, and what comes behind was not judged."""
    reached: int = 0
    """Warp instructions of the run that was given or that refutes, to be compared where the launch is one."""

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
    """The verdicts on one file's kernels, or why the file could not be checked."""

    path: str
    """As the user gave it; "-" for standard input."""
    text: str = ""
    """What was checked."""
    kernels: tuple[KernelReport, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    """Of the file as a whole, such as a comment that allows nothing."""
    error: str = ""
    """The message where the file could not be checked."""
    error_line: int | None = None
    error_column: int | None = None
    remedy: str = ""
    error_findings: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader should know of the check, such as a search that a time limit ended."""


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
