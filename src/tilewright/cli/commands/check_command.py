"""`tilewright check`: prove or refute the asynchronous protocol of PTX kernels from any compiler."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError
from tilewright.cli.terminal.finding_flags import add_finding_flags, allowed, listed, unused_allowances, view_of
from tilewright.cli.terminal.option_values import extents, file_name, processes, seconds

if TYPE_CHECKING:
    from tilewright.base.check_report import FileReport
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.check.options import CheckOptions
    from tilewright.driver.check.settings import Settings
    from tilewright.driver.check.several import Job
    from tilewright.driver.launch.given_launch import LaunchFile
    from tilewright.report.findings.finding_lines import View

FORMATS = ("text", "json", "sarif", "github", "html")

EXAMPLES = """examples:
  tilewright check kernel.ptx
  tilewright check kernel.ptx --launch launch.json
  tilewright check kernel.ttgir
  tilewright check kernel.ac.mlir --target sm_90a
  tilewright check build/ --quiet
  tilewright check build/ --ignore MB105 --allow NB101='the warps of a group run in step'
  tilewright check build/ --format sarif --output findings.sarif
  nvcc -arch=sm_90a -ptx kernel.cu -o - | tilewright check -
  tilewright check kernel.ptx --write-launch launch.json
  tilewright check kernel.ptx --fix --diff
  tilewright check kernel.ptx --launch launch.json --format html --output report.html --trace trace.json

Exit codes: 0 all proven, 1 something refuted, 3 nothing refuted but something unknown, 2 a file could not be checked.
A finding is allowed in the source by `// tilewright: allow[CODE] because REASON`, on its line or the line before, or
everywhere by --allow CODE=REASON. A proof says which errors it leaves out.
"""

_QUIET_SECONDS = 2.0
_MORE_REPAIR = 6
"""Times as much work for a repair where one is asked for."""
_LINE_SECONDS = 10.0
"""Where there is no terminal, a line says so often what is being checked."""

_OTHER_FILES = {
    ".twb": "a bundle's kernels were proved when it was made; `tilewright compile --emit ptx` writes their text",
    ".py": "`tilewright compile FILE.py:KERNEL --emit ptx` writes the text of a tile program, and proves it",
    ".cu": "compile it to PTX: nvcc -arch=sm_90a -ptx",
}
"""What to give instead, by suffix."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    known = (
        "PTX, TTGIR, nvgpu MLIR or ac files, folders of *.ptx (else of *.ttgir, else of *.ac.mlir), or - for standard "
        "input"
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help=known)
    parser.add_argument(
        "--launch", type=file_name, metavar="FILE.json", help="how the kernel is launched (docs/launch-file.md)"
    )
    parser.add_argument("--entry", metavar="NAME", help="check this kernel alone")
    parser.add_argument("--target", metavar="ARCH", help="of ac kernels, where their text names none (sm_90a)")
    for name, what in (("block", "threads of a block"), ("cluster", "CTAs of a cluster"), ("grid", "CTAs of the grid")):
        parser.add_argument(
            f"--{name}", type=extents, default=None, metavar="X[,Y,Z]", help=f"{what}; all else stays unknown"
        )
    parser.add_argument(
        "--isa",
        default=None,
        metavar="INTERPRETATION",
        help="interpretation of points where compilers rely on what the ISA does not promise: tolerant (the default), "
        "strict, or with single points otherwise, as in tolerant,fenced_init=strict",
    )
    parser.add_argument("--output", metavar="FILE", help="write the report here instead of to standard output")
    parser.add_argument("--fix", action="store_true", help="write repairs that were checked again into the files")
    parser.add_argument("--diff", action="store_true", help="print those repairs as a patch")
    parser.add_argument("--no-repair", action="store_true", help="do not look for edits that fix what is refuted")
    parser.add_argument(
        "--budget", type=seconds, default=None, metavar="SECONDS", help="time for each kernel (default: 60)"
    )
    parser.add_argument(
        "--file-budget",
        type=seconds,
        default=None,
        metavar="SECONDS",
        help="time for all kernels of a file (default: no limit); those not reached are unknown",
    )
    parser.add_argument(
        "--source-root",
        action="append",
        default=[],
        metavar="FOLDER",
        help="look here too for the program's files that .loc lines name (may be given several times)",
    )
    parser.add_argument(
        "--write-launch",
        metavar="FILE.json",
        help="write the launch that refutes a kernel, where none was given: a file for --launch",
    )
    parser.add_argument("--trace", metavar="FILE.json", help="write what the roles did, for ui.perfetto.dev")
    parser.add_argument("--sarif", metavar="FILE", help="also write the findings as SARIF, whatever --format prints")
    parser.add_argument(
        "--no-launch-files", action="store_true", help="use no launch files of a folder or of the settings"
    )
    parser.add_argument(
        "-j", "--jobs", type=processes, default=None, metavar="N",
        help="check N files at once, 0 for one on each processor (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--cache",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="take reports of files that have not changed from the cache (default: yes)",
    )
    parser.add_argument(
        "--config", metavar="FILE.toml", help="settings to use instead of the nearest pyproject.toml with a "
        "[tool.tilewright] (docs/how-to/configure.md)",
    )  # fmt: skip
    parser.add_argument("--isolated", action="store_true", help="use no settings file")
    add_finding_flags(parser, unknown=True)


def run(arguments: argparse.Namespace) -> int:
    from tilewright.base.check_report import exit_code
    from tilewright.cli.terminal.files import require_writable, write_files
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.check.options import DEFAULT_BUDGET_SECONDS, CheckOptions
    from tilewright.driver.check.settings import settings_of
    from tilewright.driver.check.sources.folder import expand
    from tilewright.driver.launch.launch_file import read_launch_file
    from tilewright.driver.rules.isa import interpretations_of

    settings = settings_of(arguments.config, arguments.isolated)
    isa = arguments.isa or settings.isa or "tolerant"
    interpretations_of(isa)
    view = view_of(arguments)
    require_writable(
        (arguments.output, arguments.trace, arguments.write_launch, arguments.sarif),
        (*expand(arguments.paths), arguments.launch),
    )
    launch = read_launch_file(arguments.launch) if arguments.launch else None
    options = CheckOptions(
        isa,
        arguments.entry,
        arguments.budget or settings.budget_seconds or DEFAULT_BUDGET_SECONDS,
        timeline=bool(arguments.trace) or arguments.format == "html",
        repair_steps=_repair_steps(arguments),
        file_budget_seconds=arguments.file_budget or settings.file_budget_seconds,
        source_roots=tuple(arguments.source_root),
        block=arguments.block,
        cluster=arguments.cluster,
        grid=arguments.grid,
        allow={**settings.allow, **allowed(arguments)},
        select=listed(arguments.select),
        ignore=listed(arguments.ignore),
        target=arguments.target,
    )
    _ = options.set_aside  # a rule that does not exist is one mistake, not one of each file
    with Progress(after_seconds=_QUIET_SECONDS, every_seconds=_LINE_SECONDS) as progress:

        def reported(name: str, share: float) -> None:
            if share == 0.0:
                progress.step(f"checking {name}")
            progress.share(share)

        jobs = _jobs(arguments, settings, launch, replace(options, progress=reported))
        processes = settings.jobs if arguments.jobs is None else arguments.jobs
        files = _check(jobs, 1 if processes is None else processes, progress)
    patches = ""
    if arguments.fix or arguments.diff:
        files, patches = _fixed(files, jobs, arguments)
    contents: dict[Path, bytes] = {}
    if arguments.trace:
        from tilewright.report.figures.trace import check_to_trace

        contents[Path(arguments.trace)] = json.dumps(check_to_trace(files)).encode()
    if arguments.write_launch:
        contents |= _launches(files, Path(arguments.write_launch))
    if arguments.sarif:
        contents[Path(arguments.sarif)] = (_sarif(files) + "\n").encode("utf-8", "replace")
    if arguments.output:
        contents[Path(arguments.output)] = (_rendered(files, arguments, view) + "\n").encode("utf-8", "replace")
    if contents:
        write_files(contents)
    if not arguments.output:
        _show(files, arguments, view)
    for rule in unused_allowances(arguments, files):
        print(f"--allow {rule} allowed nothing", file=sys.stderr)
    if patches:
        # A machine-readable report on standard output stays one document.
        print(patches, end="", file=sys.stdout if arguments.output or arguments.format == "text" else sys.stderr)
    return exit_code(files, allow_unknown=arguments.allow_unknown, exit_zero=arguments.exit_zero)


def _launches(files: Sequence[FileReport], target: Path) -> dict[Path, bytes]:
    """The launches that refute, by the file to write: the one that is named, with a number where there are several."""
    found = [kernel for file in files for kernel in file.kernels if kernel.launch is not None]
    if not found:
        print(f"no kernel was refuted by a launch that was made up: {target} is not written", file=sys.stderr)
    contents: dict[Path, bytes] = {}
    for number, kernel in enumerate(found, start=1):
        path = target if len(found) == 1 else target.with_name(f"{target.stem}-{number}{target.suffix}")
        contents[path] = (json.dumps(kernel.launch, indent=2) + "\n").encode()
        print(f"{path}: the launch that refutes {kernel.name}", file=sys.stderr)
    return contents


def _repair_steps(arguments: argparse.Namespace) -> int:
    """Looking for a repair takes a while: more of it where repairs are what was asked for."""
    if arguments.no_repair:
        if arguments.fix or arguments.diff:
            raise TilewrightError("--no-repair leaves nothing to write or show", remedy="drop it, or --fix and --diff")
        return 0
    from tilewright.driver.check.options import REPAIR_STEPS

    return _MORE_REPAIR * REPAIR_STEPS if arguments.fix or arguments.diff else REPAIR_STEPS


def _jobs(
    arguments: argparse.Namespace, settings: Settings, launch: LaunchFile | None, options: CheckOptions
) -> list[Job]:
    """What is to be checked: files, and folders' files, each with the launches that are at hand for it."""
    from tilewright.driver.check.several import Job
    from tilewright.driver.check.sources.folder import expand

    if arguments.paths.count("-") > 1:
        raise TilewrightError("standard input can be read once", remedy="give - once")
    cached = arguments.cache if arguments.cache is not None else settings.cache is not False
    own = launch is None and not arguments.no_launch_files
    return [
        Job(path, options, launch, settings.launch_files(path, beside=path != given) if own else (), cached)
        for given in arguments.paths
        for path in expand((given,))
    ]


def _check(jobs: Sequence[Job], processes: int, progress: Progress) -> tuple[FileReport, ...]:
    """Reports in the order of the jobs. Standard input is read here; what is no text to check is said at once."""
    from tilewright.driver.check.several import check_jobs

    at_once = {job.path: report for job in jobs if (report := _other(job)) is not None}
    left = [job for job in jobs if job.path not in at_once]
    checked = 0

    def done(path: str) -> None:
        nonlocal checked
        checked += 1
        progress.step(f"checked {checked} of {len(left)} files, {path} last")

    reports = iter(check_jobs(left, processes, done))
    return tuple(at_once[job.path] if job.path in at_once else next(reports) for job in jobs)


def _other(job: Job) -> FileReport | None:
    """The report of standard input, or of a file by whose name it is nothing that can be checked."""
    from tilewright.base.check_report import FileReport

    if job.path == "-":
        from tilewright.driver.check.check import check_text
        from tilewright.driver.check.sources.text_file import read_given

        try:
            text, file = read_given("-")
        except TilewrightError as error:
            return FileReport("-", error=error.message, remedy=error.remedy)
        return replace(check_text(text, file, launch=job.launch, options=job.options), path="-")
    remedy = _OTHER_FILES.get(Path(job.path).suffix)
    if remedy is None or not Path(job.path).is_file():
        return None
    return FileReport(job.path, error=f"{job.path} is no PTX, TTGIR or MLIR", remedy=remedy)


def _fixed(
    files: tuple[FileReport, ...], jobs: Sequence[Job], arguments: argparse.Namespace
) -> tuple[tuple[FileReport, ...], str]:
    """Reports of the files as they are afterwards, and the patch. Files are written where --fix asks for it."""
    from tilewright.cli.terminal.files import write_files
    from tilewright.driver.check.check import check_text
    from tilewright.driver.check.sources.embedded import is_embedded
    from tilewright.driver.launch.launch_file import read_launch_file
    from tilewright.driver.repair.edits import patch, repaired_text

    results: list[FileReport] = []
    contents: dict[Path, bytes] = {}
    patches: list[str] = []
    for file, job in zip(files, jobs, strict=True):
        edited = repaired_text(file)
        results.append(file)
        if edited == file.text:
            continue
        if arguments.diff:
            patches.append(patch(file.text, edited, "standard-input.ptx" if file.path == "-" else file.path))
        if arguments.fix and is_embedded(file.path):
            print(f"{file.path} is in a binary, which is not edited; --diff shows the repair", file=sys.stderr)
        elif arguments.fix and file.path == "-":
            if not arguments.diff:
                print("standard input is not edited; --diff shows the repair", file=sys.stderr)
        elif arguments.fix:
            launches = () if job.launch is not None else tuple(map(read_launch_file, job.launches))
            again = replace(job.options, progress=None, launches=launches)
            results[-1] = check_text(edited, file.path, launch=job.launch, options=again)
            contents[Path(file.path)] = edited.encode("utf-8")
    left = {Path(report.path): sum(len(kernel.errors) for kernel in report.kernels) for report in results}
    for path in write_files(contents) if contents else []:
        count = left.get(Path(path), 0)
        remain = "" if not count else f": {count} finding{'s remain' if count > 1 else ' remains'}"
        print(f"edited {path}{remain}", file=sys.stderr)
    if not any(repaired_text(file) != file.text for file in files):
        print("no repair was found that checks clean", file=sys.stderr)
    return tuple(results), "".join(patches)


def _rendered(files: tuple[FileReport, ...], arguments: argparse.Namespace, view: View) -> str:
    """The report in the format asked for, without a newline at its end."""
    from tilewright import __version__
    from tilewright.driver.check.sources.folder import skipped_files

    skipped = skipped_files(arguments.paths)

    match arguments.format:
        case "json":
            from tilewright.report.findings.check_json import check_to_json

            return json.dumps(check_to_json(files, tool=f"tilewright {__version__}", skipped=skipped), indent=2)
        case "sarif":
            return _sarif(files)
        case "github":
            from tilewright.report.findings.github import workflow_commands

            return "\n".join(workflow_commands(files))
        case "html":
            from tilewright.report.findings.check_page import check_page
            from tilewright.report.html import render_page

            return render_page(check_page(files, f"Tilewright {__version__}"))
        case _:
            from tilewright.report.findings.check_text import render_check

            return render_check(files, view, skipped)


def _sarif(files: tuple[FileReport, ...]) -> str:
    from tilewright import __version__
    from tilewright.driver.rules.catalog import all_rules
    from tilewright.report.findings.sarif import RuleDescription, check_to_sarif

    rules = [RuleDescription(rule.code, rule.name, rule.summary, rule.rule, rule.remedy) for rule in all_rules()]
    return json.dumps(check_to_sarif(files, version=__version__, rules=rules), indent=2)


def _show(files: tuple[FileReport, ...], arguments: argparse.Namespace, view: View) -> None:
    """The report on standard output; text in colours where the terminal has them."""
    if arguments.format != "text":
        text = _rendered(files, arguments, view)
        if text:
            print(text)
        return
    from tilewright.cli.terminal.printing import STYLES, say
    from tilewright.driver.check.sources.folder import skipped_files
    from tilewright.report.findings.check_text import check_lines

    for line, tone in check_lines(files, view, skipped_files(arguments.paths)):
        say(line, STYLES[tone])
