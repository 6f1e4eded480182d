"""Does a text, PTX or MLIR, keep the asynchronous protocol? Proven, refuted or unknown, for every kernel of it.

A PTX kernel's run is judged in `judge_kernel`, a structured program in `check_mlir`; here the findings become a
verdict, after those that the text itself allows are set aside. An allowed error does not refute, but if the run ended
at it, the rest was not judged and the verdict is unknown. What can't be judged at all (an instruction that the machine
lacks, time or memory spent) is unknown too, with the reason; only what the user can mend (no such file, no PTX, a
launch that is not this kernel's) is an error, of that file alone.

A defect of this program ends as an error of the file, never as a verdict (`defect`).
Checked by: tests/driver/test_check.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.base.check_report import FileReport, KernelReport, VerdictWord
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.error import TilewrightError
from tilewright.driver.allowance import Allowance, allowances, apply_allowances, unused
from tilewright.driver.budget import BudgetSpent, bounded
from tilewright.driver.check_mlir import is_mlir, mlir_kernels
from tilewright.driver.defect import defects_as_errors
from tilewright.driver.given_launch import LaunchFile, placed
from tilewright.driver.isa import readings_of
from tilewright.driver.judge_kernel import Judgement, JudgeOptions, KernelLaunch, judge_kernel
from tilewright.driver.map_findings import map_findings
from tilewright.driver.origin import with_origin
from tilewright.driver.repair import with_repairs
from tilewright.driver.rules import all_rules
from tilewright.driver.unallocated import unallocated
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.frontends.ptx.reader import read

Progress = Callable[[str, float], None]
"""Told what is being done and which share of it is done, 0 to 1."""

DEFAULT_BUDGET_SECONDS = 60.0
FILE_BYTES_MAX = 64 << 20
"""PTX texts beyond this are refused: no compiler writes such, and reading one would take all memory."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """isa: which reading of contested points, as `isa.readings_of` takes it; entry: check this kernel alone;
    budget_seconds: for each kernel, None for no limit; timeline: record what the roles did; progress: told of each
    kernel; repair_seconds: time to look for edits that mend a refuted kernel, 0 to look for none; dynamic_smem_bytes:
    of shared memory, where that is all that is known of the launch."""

    isa: str = "tolerant"
    entry: str | None = None
    budget_seconds: float | None = DEFAULT_BUDGET_SECONDS
    timeline: bool = False
    progress: Progress | None = None
    repair_seconds: float = 0.0
    dynamic_smem_bytes: int | None = None


def check_text(
    text: str, file: str = "<ptx>", *, launch: LaunchFile | None = None, options: CheckOptions | None = None
) -> FileReport:
    """Check every kernel of a PTX text (with `launch` or `options.entry`, the one that it names).

    file: stands in places and messages. Never raises TilewrightError: a report with `error` says what is wrong.
    """
    options = options or CheckOptions()
    if is_mlir(text, file):
        return _check_mlir_text(text, file, launch, options)
    try:
        with bounded(options.budget_seconds), defects_as_errors(f"the text of {file}"):
            module = read(text, file, tolerant=True)
            chosen = _chosen_kernels(module, file, launch, options.entry)
    except TilewrightError as error:
        return _failed(file, text, error)
    except BudgetSpent:
        seconds = options.budget_seconds
        return FileReport(file, text, error=f"reading {file} took more than {seconds:g} s", remedy="raise --budget")
    allowed, findings = allowances(text, file, (rule.code for rule in all_rules()))
    used: set[Allowance] = set()
    kernels: list[KernelReport] = []
    complete = True
    for kernel, known_launch in chosen:
        try:
            with defects_as_errors(f"{kernel.name} in {file}"):
                report, of_kernel, whole = _check_kernel(module, kernel, known_launch, allowed, options)
        except TilewrightError as error:
            return _failed(file, text, error)
        kernels.append(report)
        used |= of_kernel
        complete = complete and whole
    if complete:
        findings += unused(allowed, frozenset(used))
    report = FileReport(file, text, tuple(kernels), findings)
    if not options.repair_seconds or all(kernel.verdict != "refuted" for kernel in report.kernels):
        return report
    again = replace(options, repair_seconds=0.0, timeline=False, progress=None)
    try:
        # One text that takes long to check must not take all the time, nor more than there is.
        with bounded(2 * options.repair_seconds), defects_as_errors(f"the repair of {file}"):
            return with_repairs(
                report,
                lambda other: check_text(other, file, launch=launch, options=again),
                seconds=options.repair_seconds,
            )
    except (BudgetSpent, TilewrightError):
        return report


def _check_mlir_text(text: str, file: str, launch: LaunchFile | None, options: CheckOptions) -> FileReport:
    """As `check_text`, for TTGIR and nvgpu MLIR, which are judged for all launches."""
    allowed, findings = allowances(text, file, (rule.code for rule in all_rules()))
    used: set[Allowance] = set()
    reports: list[KernelReport] = []
    try:
        with defects_as_errors(f"the text of {file}"):
            if launch is not None:
                raise TilewrightError(f"{file} is MLIR, which needs no launch", remedy="drop --launch")
            for kernel in mlir_kernels(text, file, entry=options.entry):
                begin = time.perf_counter()
                if options.progress is not None:
                    options.progress(kernel.name, 0.0)
                judgement = _within_budget(kernel.judge, options.budget_seconds)
                report, of_kernel = _reported(kernel.name, kernel.target, judgement, judgement.findings, allowed, begin)
                reports.append(report)
                used |= of_kernel
    except TilewrightError as error:
        return _failed(file, text, error)
    if all(report.verdict != "unknown" for report in reports):
        findings += unused(allowed, frozenset(used))
    return FileReport(file, text, tuple(reports), findings)


def check_file(path: str, *, launch: LaunchFile | None = None, options: CheckOptions | None = None) -> FileReport:
    """Check a file. As `check_text`; a file that can't be read is an error of the report."""
    try:
        return check_text(read_text(path), path, launch=launch, options=options)
    except TilewrightError as error:
        return _failed(path, "", error)


def check_paths(
    paths: Iterable[str], *, launch: LaunchFile | None = None, options: CheckOptions | None = None
) -> tuple[FileReport, ...]:
    """Check files, and folders with every `*.ptx` below them, in order."""
    return tuple(check_file(path, launch=launch, options=options) for path in expand(paths))


def expand(paths: Iterable[str]) -> Iterator[str]:
    """Files as they are; folders as the `*.ptx` files below them, sorted. A folder without any is given as it is, and
    is then an error to read."""
    for given in paths:
        if not os.path.isdir(given):
            yield given
            continue
        found = sorted(
            os.path.join(folder, name) for folder, _, names in os.walk(given) for name in names if name.endswith(".ptx")
        )
        yield from found or [given]


def read_text(path: str) -> str:
    """The text of a PTX file. Raises TilewrightError: no such file, a folder without PTX, too large, not text."""
    try:
        if os.path.isdir(path):
            raise TilewrightError(f"{path} has no .ptx file in it", remedy="name a file, or a folder of .ptx files")
        if os.path.getsize(path) > FILE_BYTES_MAX:
            raise TilewrightError(
                f"{path} has more than {FILE_BYTES_MAX >> 20} MiB",
                remedy="give one kernel's PTX, not a whole library's",
            )
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise TilewrightError(f"cannot read {path!r}: {reason}", remedy="check the path") from error
    return decode_text(data, path)


def decode_text(data: bytes, path: str) -> str:
    """PTX as text. Raises TilewrightError for what is none, naming a cubin as such."""
    if data[:4] == b"\x7fELF":
        raise TilewrightError(f"{path} is a cubin, not PTX text", remedy="extract the PTX: cuobjdump -ptx FILE")
    # The driver's and nvcc's own texts end in a NUL byte.
    data = data.rstrip(b"\0")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TilewrightError(f"{path} is no text: byte {error.start} is not UTF-8", remedy="check the file") from error
    if "\0" in text:
        raise TilewrightError(f"{path} is no text: it has NUL bytes", remedy="check the file")
    return text


# ---------------------------------------------------------------- one kernel


def _chosen_kernels(
    module: Module, file: str, launch: LaunchFile | None, entry: str | None
) -> list[tuple[Kernel, KernelLaunch | None]]:
    if entry is not None and launch is not None and launch.entry is None:
        launch = replace(launch, entry=entry)
    if launch is not None:
        kernel = launch.kernel(module, file)
        whole = placed(launch.resolve(kernel), launch.buffers)
        return [(kernel, KernelLaunch(whole.launch, whole.buffers))]
    if not module.kernels:
        raise TilewrightError(f"{file} has no kernel", remedy="give a text with a .entry")
    if entry is None:
        return [(kernel, None) for kernel in module.kernels]
    chosen = LaunchFile("--entry", entry, (1, 1, 1), None, None, 0, (), ()).kernel(module, file)
    return [(chosen, None)]


def _check_kernel(
    module: Module,
    kernel: Kernel,
    launch: KernelLaunch | None,
    allowed: tuple[Allowance, ...],
    options: CheckOptions,
) -> tuple[KernelReport, frozenset[Allowance], bool]:
    """The report, the allowances it used, and whether the kernel was judged to its end."""
    begin = time.perf_counter()
    progress = options.progress

    def told(share: float) -> None:
        if progress is not None:
            progress(kernel.name, share)

    told(0.0)

    def allows(finding: Diagnostic) -> bool:
        return bool(apply_allowances((finding,), allowed)[1])

    judge_options = JudgeOptions(readings_of(options.isa), options.timeline, told, options.dynamic_smem_bytes, allows)
    judgement = _within_budget(lambda: judge_kernel(module, kernel, launch, judge_options), options.budget_seconds)
    judgement = replace(judgement, doubts=(*_unread(module), *judgement.doubts))
    maps = map_findings(module, kernel, launch.launch) if launch is not None else ()
    of_text = (*maps, *unallocated(module, kernel))
    findings = [with_origin(finding, module, kernel) for finding in (*of_text, *judgement.findings)]
    target = module.target[0] if module.target else ""
    report, used = _reported(kernel.name, target, judgement, findings, allowed, begin)
    return report, used, judgement.complete


def _within_budget(judge: Callable[[], Judgement], seconds: float | None) -> Judgement:
    """What `judge` finds, or why it can't be found."""
    try:
        with bounded(seconds):
            return judge()
    except BudgetSpent:
        return _undecided(f"the time given ({seconds:g} s) was not enough; raise --budget")
    except MemoryError:
        return _undecided("the run needs more memory than there is")
    except RecursionError:
        return _undecided("the text is nested too deeply to be followed")
    except TilewrightError as error:
        # The machine says so of what it can't run; whatever the user could mend was looked at before.
        place = f"{error.span}: " if error.span is not None else ""
        return _undecided(f"{place}{error.message}")


def _reported(
    name: str,
    target: str,
    judgement: Judgement,
    findings: Iterable[Diagnostic],
    allowed: tuple[Allowance, ...],
    begin: float,
) -> tuple[KernelReport, frozenset[Allowance]]:
    """The report of a kernel of which `findings` are told, and the allowances it used; begin: when its check began."""
    kept, suppressed, used = apply_allowances(findings, allowed)
    verdict, reasons = decide(judgement, kept, bool(suppressed))
    assumptions = tuple(
        f"{each.finding.code} at {each.finding.primary} is allowed: {each.reason}"
        for each in suppressed
        if each.finding.level is Level.ERROR
    )
    proven = verdict == "proven"
    report = KernelReport(
        name,
        target,
        verdict,
        judgement.scope if proven else "",
        (*judgement.assumptions, *assumptions) if proven else (),
        judgement.claims if proven else (),
        reasons,
        kept,
        suppressed,
        time.perf_counter() - begin,
        judgement.timeline,
    )
    return report, used


def decide(
    judgement: Judgement, kept: tuple[Diagnostic, ...], some_allowed: bool
) -> tuple[VerdictWord, tuple[str, ...]]:
    """The verdict, and for `unknown` the reasons. kept: findings that the text does not allow."""
    if any(finding.level is Level.ERROR for finding in kept):
        return "refuted", ()
    if judgement.doubts:
        return "unknown", judgement.doubts
    if not judgement.complete:
        why = "the run ended at a finding that the text allows" if some_allowed else "the run did not come to its end"
        return "unknown", (f"{why}, so that the rest was not judged",)
    return "proven", ()


def _unread(module: Module) -> tuple[str, ...]:
    """What the reader passed over, as doubts."""
    return tuple(f"{each.span}: the directive {each.text!r} is not understood" for each in module.unread)


def _undecided(reason: str) -> Judgement:
    return Judgement(doubts=(reason,), complete=False)


def _failed(file: str, text: str, error: TilewrightError) -> FileReport:
    line = error.span.line if error.span is not None and error.span.file == file else None
    return FileReport(
        file, text, error=error.message, error_line=line, remedy=error.remedy, error_findings=error.findings
    )
