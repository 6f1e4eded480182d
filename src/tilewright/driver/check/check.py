"""Does a text, PTX or MLIR or `ac`, keep the asynchronous protocol? Proven, refuted or unknown, for every kernel of it.

A PTX kernel's run is judged in `judge_kernel`, a structured program in `check_mlir` or `check_ac`; `check_each` makes a
report of each kernel, after what the text itself allows is set aside. An allowed error does not refute, but if the run
ended at it, the rest was not judged and the verdict is unknown. What can't be judged at all (an instruction that the
machine lacks, time or memory spent, a defect of this program) makes that kernel unknown, with the reason. Only what the
user can fix (no such file, no PTX, a launch that is not this kernel's) is an error, of that file alone.

Checked by: tests/driver/check/test_check.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import prod

from tilewright.base.check_report import FileReport
from tilewright.base.collector import collector_paused
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.error import TilewrightError
from tilewright.driver.check.allowance import Allowance, allowances, apply_allowances, may_allow, unused
from tilewright.driver.check.check_each import Share, Task, check_each
from tilewright.driver.check.defect import defects_as_errors
from tilewright.driver.check.finding_filter import FindingFilter
from tilewright.driver.check.judge_kernel import Judgement, JudgeOptions, KernelLaunch, judge_kernel
from tilewright.driver.check.limits.budget import BudgetSpent, bounded
from tilewright.driver.check.limits.time_for_file import TimeForFile
from tilewright.driver.check.mlir.ttgir_beside import SECONDS, Ttgir, ttgir_beside, with_ttgir
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.check.sources.folder import expand
from tilewright.driver.check.sources.origin import mlir_origins, ptx_origins, with_origin
from tilewright.driver.check.sources.source_text import SourceFiles
from tilewright.driver.check.sources.text_file import is_ac, is_mlir, read_text
from tilewright.driver.explore.control_flow.unallocated import unallocated
from tilewright.driver.launch.given_launch import LaunchFile, PartialLaunch, placed, require_shape
from tilewright.driver.launch.launch_buffers import shifted
from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.driver.launch.launch_shapes import GivenShape, launch_shapes
from tilewright.driver.launch.map_findings import map_findings
from tilewright.driver.rules.isa import interpretations_of, with_contested
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.model import model_of


@collector_paused()
def check_text(
    text: str, file: str = "<ptx>", *, launch: LaunchFile | None = None, options: CheckOptions | None = None
) -> FileReport:
    """Check every kernel of a PTX text (with `launch` or `options.entry`, the one that it names).

    file: stands in places and messages. Never raises TilewrightError: a report with `error` says what is wrong.
    """
    options = options or CheckOptions()
    try:
        chosen = options.set_aside
    except TilewrightError as error:
        return _failed(file, text, error)
    ac = is_ac(text, file)
    if options.target is not None and not ac:
        needless = TilewrightError(
            f"{file} is no text of the `ac` dialect, so its target is its own", remedy="drop --target"
        )
        return _failed(file, text, needless)
    if ac or is_mlir(text, file):
        return chosen.of_file(_check_mlir_text(text, file, launch, options, chosen))
    limits = TimeForFile(options.budget_seconds, options.file_budget_seconds)
    seconds, stopped = limits.for_kernel()
    own = False
    try:
        with bounded(seconds) as own, defects_as_errors(f"the text of {file}"):
            module = read(text, file, tolerant=True)
            kernels = _chosen_kernels(module, file, launch, options)
    except TilewrightError as error:
        return _failed(file, text, error)
    except BudgetSpent:
        if not own:
            raise
        return FileReport(file, text, error=f"reading {file} was {stopped}", remedy="give one kernel's PTX")
    allowed, findings = _allowances(text, file)
    sources = SourceFiles(file, options.source_roots)
    tasks = [_task(module, kernel, known, allowed, options, chosen, sources) for kernel, known in kernels]
    reports = check_each(
        tasks, file, allowed, limits, steps=options.budget_steps, progress=options.progress, chosen=chosen
    )
    if reports.complete:
        findings += unused(allowed, reports.used)
    report = chosen.of_file(FileReport(file, text, reports.kernels, findings))
    report = _with_repairs(report, launch, options, limits)
    if all(finding.repair is None for kernel in report.kernels for finding in kernel.findings):
        return report
    from tilewright.driver.repair.source_edits import with_source_edits  # which most reports need not

    try:
        with defects_as_errors(f"the source of {file}"):
            return with_source_edits(report, module, sources, options.language)
    except TilewrightError as error:
        return replace(report, notes=(*report.notes, f"repairs are not said in terms of the source: {error.message}"))


def _with_repairs(
    report: FileReport, launch: LaunchFile | None, options: CheckOptions, limits: TimeForFile
) -> FileReport:
    """The report with edits that fix what is refuted, if they are asked for and the time of the file is not over."""
    if not options.repair_steps or all(kernel.verdict != "refuted" for kernel in report.kernels):
        return report
    from tilewright.driver.repair.repair import with_repairs  # which takes long to load, and few texts need

    again = replace(options, repair_steps=0, timeline=False, progress=None, file_budget_seconds=None)

    def recheck(text: str, kernel: str | None) -> FileReport:
        alone = again if kernel is None or launch is not None else replace(again, entry=kernel)
        return check_text(text, report.path, launch=launch, options=alone)

    def recheck_at(text: str, kernel: str, document: Mapping[str, object]) -> FileReport:
        shown = replace(launch_from_json(document, "the launch that refutes"), entry=kernel)
        unshaped = replace(again, launches=(), block=None, cluster=None, grid=None, dynamic_smem_bytes=None)
        return check_text(text, report.path, launch=shown, options=unshaped)

    seconds, _ = limits.for_kernel()
    limit = "--budget" if seconds == options.budget_seconds else "--file-budget"
    try:
        with defects_as_errors(f"the repair of {report.path}"):
            return with_repairs(
                report, recheck, recheck_at=recheck_at, steps=options.repair_steps, seconds=seconds, limit=limit
            )
    except TilewrightError as error:
        return replace(report, notes=(*report.notes, f"no repair was looked for: {error.message}"))


def _check_mlir_text(
    text: str, file: str, launch: LaunchFile | None, options: CheckOptions, chosen: FindingFilter
) -> FileReport:
    """As `check_text`, for TTGIR, nvgpu MLIR and the `ac` dialect, which are judged for all launches."""
    from tilewright.driver.check.check_ac import ac_kernels  # no PTX needs these
    from tilewright.driver.check.mlir.check_mlir import mlir_kernels

    limits = TimeForFile(options.budget_seconds, options.file_budget_seconds)
    allowed, findings = _allowances(text, file)
    try:
        with defects_as_errors(f"the text of {file}"):
            if launch is not None:
                raise TilewrightError(f"{file} is MLIR, which needs no launch", remedy="drop --launch")
            if options.shape != GivenShape():
                raise TilewrightError(
                    f"{file} is MLIR, which is judged for all launches", remedy="drop --block, --cluster and --grid"
                )
            ac = is_ac(text, file)
            kernels = (
                ac_kernels(text, file, entry=options.entry, target=options.target)
                if ac
                else mlir_kernels(text, file, entry=options.entry)
            )
    except TilewrightError as error:
        return _failed(file, text, error)
    origins = mlir_origins(text, SourceFiles(file, options.source_roots))

    def beside(judgement: Judgement) -> tuple[Diagnostic, ...]:
        return tuple(with_origin(finding, origins) for finding in judgement.findings)

    tasks = [Task(each.name, each.target, _ignoring_share(each.judge), beside) for each in kernels]
    reports = check_each(tasks, file, allowed, limits, progress=options.progress, chosen=chosen)
    if all(report.verdict != "unknown" for report in reports.kernels):
        findings += unused(allowed, reports.used)
    report = FileReport(file, text, reports.kernels, findings)
    # Edits of an `ac` text are not looked for: a finding says what to change.
    return report if ac else _with_repairs(report, None, options, limits)


def _allowances(text: str, file: str) -> tuple[tuple[Allowance, ...], tuple[Diagnostic, ...]]:
    """What the text allows, and findings about comments that allow nothing."""
    if not may_allow(text):
        return (), ()
    from tilewright.driver.rules.catalog import all_rules  # most texts name no rule

    return allowances(text, file, [rule.code for rule in all_rules()])


def _ignoring_share(judge: Callable[[], Judgement]) -> Callable[[Share], Judgement]:
    return lambda _share: judge()


def check_file(path: str, *, launch: LaunchFile | None = None, options: CheckOptions | None = None) -> FileReport:
    """Check a file. As `check_text`; a file that can't be read is an error of the report. What is not decided of a PTX
    file is asked of the TTGIR file beside it."""
    try:
        report = check_text(read_text(path), path, launch=launch, options=options)
    except TilewrightError as error:
        return _failed(path, "", error)
    return beside_ttgir(report, ttgir_beside(path), options)


def beside_ttgir(report: FileReport, ttgir: Ttgir | None, options: CheckOptions | None = None) -> FileReport:
    """The report of a PTX text with the verdicts on its TTGIR beside those that are unknown, and else as it is."""
    options = options or CheckOptions()
    limit = options.file_budget_seconds
    if limit is not None and sum(kernel.seconds for kernel in report.kernels) >= limit:
        return report
    seconds = min(SECONDS, options.budget_seconds or SECONDS)

    def check(text: str, path: str, kernel: str) -> FileReport:
        shapeless = replace(options, block=None, cluster=None, grid=None, timeline=False, repair_steps=0)
        return check_text(text, path, options=replace(shapeless, entry=kernel, progress=None, budget_seconds=seconds))

    return with_ttgir(report, ttgir, check)


def check_paths(
    paths: Iterable[str], *, launch: LaunchFile | None = None, options: CheckOptions | None = None
) -> tuple[FileReport, ...]:
    """Check files, and folders as `folder.expand` takes them, in order."""
    return tuple(check_file(path, launch=launch, options=options) for path in expand(paths))


# ---------------------------------------------------------------- one kernel


def _chosen_kernels(
    module: Module, file: str, launch: LaunchFile | None, options: CheckOptions
) -> list[tuple[Kernel, KernelLaunch | PartialLaunch]]:
    entry = options.entry
    if entry is not None and launch is not None and launch.entry is None:
        launch = replace(launch, entry=entry)
    if launch is not None:
        launch = launch.with_shape(options.shape)
        kernel = launch.kernel(module, file)
        require_shape(kernel, options.shape)  # before what the file says: the option is at fault
        _require_limits(module, kernel, GivenShape(launch.block, launch.cluster, launch.grid))
        return [(kernel, _known_launch(module, kernel, launch.partial(kernel)))]
    if not module.kernels:
        raise TilewrightError(f"{file} has no kernel", remedy="give a text with a .entry")
    chosen = list(module.kernels)
    if entry is not None:
        chosen = [LaunchFile("--entry", entry, None, None, None, None, None, ()).kernel(module, file)]
    given = _launches_by_kernel(module, file, options)
    for kernel in chosen:
        require_shape(kernel, options.shape)
        _require_limits(module, kernel, options.shape)
    return [
        (
            kernel,
            _known_launch(module, kernel, given[kernel.name].partial(kernel))
            if kernel.name in given
            else _nothing_given(kernel, file, options),
        )
        for kernel in chosen
    ]


def _nothing_given(kernel: Kernel, file: str, options: CheckOptions) -> PartialLaunch:
    from tilewright.driver.launch.parameter_names import names_beside

    names = options.parameter_names or names_beside(file, kernel.name)
    return PartialLaunch(options.shape, options.dynamic_smem_bytes, names=names[: len(kernel.parameters)])


def _require_limits(module: Module, kernel: Kernel, shape: GivenShape) -> None:
    """Raises TilewrightError where a launch of that shape asks for blocks or clusters that the target does not have."""
    try:
        model = model_of(module)
        most_threads, most_ctas = model.limit("cta.threads_max"), model.limit("cluster.ctas_max")
    except TilewrightError:
        return  # a target without a table leaves the kernel unknown
    for given, directive, most, what in (
        (shape.block, "reqntid", most_threads, "threads; a block"),
        (shape.cluster, "reqnctapercluster", most_ctas, "CTAs; a cluster"),
    ):
        asked = prod(given or kernel.directives.get(directive) or ())
        if asked > most:
            named = "the launch" if given else f".{directive}"
            raise TilewrightError(
                f"{named} of {kernel.name} asks for {asked:,} {what} has at most {most:,}",
                span=kernel.span,
                remedy=f"correct {'what is given of the launch' if given else named}",
            )


def _launches_by_kernel(module: Module, file: str, options: CheckOptions) -> dict[str, LaunchFile]:
    """Raises TilewrightError for a launch of no kernel of the module, and for two of one."""
    found: dict[str, LaunchFile] = {}
    for launch in options.launches:
        name = launch.kernel(module, file).name
        if name in found:
            raise TilewrightError(
                f"{found[name].file} and {launch.file} both launch {name} of {file}", remedy="keep one of the two"
            )
        found[name] = launch.with_shape(options.shape)
    return found


def _known_launch(module: Module, kernel: Kernel, given: PartialLaunch) -> KernelLaunch | PartialLaunch:
    """The launch, if nothing is left open on which the kernel depends."""
    if given.left_open(module, kernel):
        return given
    whole = placed(given.whole(kernel), given.buffers)
    assumptions = launch_shapes(module, kernel, given.shape).assumptions
    return KernelLaunch(whole.launch, whole.buffers, assumptions, shifted(given.contents, whole.shifts), given)


def _task(
    module: Module,
    kernel: Kernel,
    launch: KernelLaunch | PartialLaunch,
    allowed: tuple[Allowance, ...],
    options: CheckOptions,
    chosen: FindingFilter,
    sources: SourceFiles,
) -> Task:
    """What judges a kernel of a PTX text, and what its text and its launch show beside that."""

    def allows(finding: Diagnostic) -> bool:
        return chosen.excludes(finding) or bool(apply_allowances((finding,), allowed)[1])

    def judge(share: Share) -> Judgement:
        interpretations = interpretations_of(options.isa)
        known = JudgeOptions(interpretations, options.timeline, share, allows)
        judgement = judge_kernel(module, kernel, launch, known)
        return replace(judgement, doubts=(*_unread(module), *judgement.doubts))

    def beside(judgement: Judgement) -> list[Diagnostic]:
        params = launch.launch.params if isinstance(launch, KernelLaunch) else launch.params
        maps = map_findings(module, kernel, params)
        of_text = (*maps, *unallocated(module, kernel))
        origins, interpretations = ptx_origins(module, kernel, sources), interpretations_of(options.isa)
        findings = (*of_text, *judgement.findings)
        return [with_contested(with_origin(finding, origins), interpretations) for finding in findings]

    return Task(kernel.name, module.target[0] if module.target else "", judge, beside)


def _unread(module: Module) -> tuple[str, ...]:
    """What the reader passed over, as doubts."""
    return tuple(f"{each.span}: the directive {each.text!r} is not understood" for each in module.unread)


def _failed(file: str, text: str, error: TilewrightError) -> FileReport:
    place = error.span if error.span is not None and error.span.file == file else None
    return FileReport(
        file,
        text,
        error=error.message,
        error_line=place.line if place is not None else None,
        error_column=place.column if place is not None else None,
        remedy=error.remedy,
        error_findings=error.findings,
    )
