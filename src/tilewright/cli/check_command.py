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

if TYPE_CHECKING:
    from tilewright.base.check_report import FileReport
    from tilewright.driver.check.check import CheckOptions
    from tilewright.driver.launch.given_launch import LaunchFile

FORMATS = ("text", "json", "sarif", "github", "html")

EXAMPLES = """examples:
  tilewright check kernel.ptx
  tilewright check kernel.ptx --launch launch.json
  tilewright check kernel.ttgir
  tilewright check build/ --format sarif --output findings.sarif
  nvcc -arch=sm_90a -ptx kernel.cu -o - | tilewright check -
  tilewright check kernel.ptx --write-launch launch.json
  tilewright check kernel.ptx --fix --diff
  tilewright check kernel.ptx --launch launch.json --format html --output report.html --trace trace.json

Exit codes: 0 all proven, 1 something refuted, 3 nothing refuted but something unknown, 2 a file could not be checked.
A finding is allowed in the source by `// tilewright: allow[CODE] because REASON`, on its line or the line before.
"""

_STYLES = {"heading": "bold", "good": "green", "bad": "bold red", "doubt": "yellow", "quiet": "dim", "plain": ""}
_QUIET_SECONDS = 2.0
_MORE_REPAIR = 6
"""Times as much work for a repair where one is asked for."""
_LINE_SECONDS = 10.0
"""Where there is no terminal, a line says so often what is being checked."""

_OTHER_FILES = {
    ".twb": "a bundle's kernels were proved when it was made; `tilewright compile --emit ptx` writes their text",
    ".py": "`tilewright compile FILE.py:KERNEL --emit ptx` writes the text of a tile program, and proves it",
    ".cubin": "give the PTX that it was assembled from",
    ".cu": "compile it to PTX: nvcc -arch=sm_90a -ptx",
}
"""What to give instead, by suffix."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    known = "PTX, TTGIR or nvgpu MLIR files, folders of *.ptx, or - for standard input"
    parser.add_argument("paths", nargs="+", metavar="PATH", help=known)
    parser.add_argument("--launch", metavar="FILE.json", help="how the kernel is launched (docs/launch-file.md)")
    parser.add_argument("--entry", metavar="NAME", help="check this kernel alone")
    for name, what in (("block", "threads of a block"), ("cluster", "CTAs of a cluster"), ("grid", "CTAs of the grid")):
        parser.add_argument(
            f"--{name}", type=_extents, default=None, metavar="X[,Y,Z]", help=f"{what}; all else stays unknown"
        )
    parser.add_argument(
        "--isa",
        default="tolerant",
        metavar="READING",
        help="reading of points where compilers rely on what the ISA does not promise: tolerant (the default), strict, "
        "or with single points otherwise, as in tolerant,fenced_init=strict",
    )
    parser.add_argument("--output", metavar="FILE", help="write the report here instead of to standard output")
    parser.add_argument("--fix", action="store_true", help="write repairs that were checked again into the files")
    parser.add_argument("--diff", action="store_true", help="print those repairs as a patch")
    parser.add_argument("--no-repair", action="store_true", help="do not look for edits that mend what is refuted")
    parser.add_argument("--all", action="store_true", help="show every finding, not the first of each kernel")
    parser.add_argument(
        "--budget", type=_seconds, default=None, metavar="SECONDS", help="time for each kernel (default: 60)"
    )
    parser.add_argument(
        "--file-budget",
        type=_seconds,
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


def _extents(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or any(not part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError("write X, X,Y or X,Y,Z, as in 128 or 2,1,1")
    x, y, z = (*(int(part) for part in parts), 1, 1)[:3]
    if not all(1 <= extent < 1 << 31 for extent in (x, y, z)):
        raise argparse.ArgumentTypeError("an extent is at least 1 and less than 2^31")
    return x, y, z


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError("write a number of seconds") from error
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError("a budget is more than 0 and at most 86400 seconds")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    from tilewright.base.check_report import exit_code
    from tilewright.cli.files import require_writable, write_files
    from tilewright.cli.progress import Progress
    from tilewright.driver.check.check import DEFAULT_BUDGET_SECONDS, CheckOptions, expand
    from tilewright.driver.check.isa import readings_of
    from tilewright.driver.launch.launch_file import read_launch_file

    readings_of(arguments.isa)
    require_writable(
        (arguments.output, arguments.trace, arguments.write_launch), (*expand(arguments.paths), arguments.launch)
    )
    launch = read_launch_file(arguments.launch) if arguments.launch else None
    options = CheckOptions(
        arguments.isa,
        arguments.entry,
        arguments.budget if arguments.budget is not None else DEFAULT_BUDGET_SECONDS,
        timeline=bool(arguments.trace) or arguments.format == "html",
        repair_steps=_repair_steps(arguments),
        file_budget_seconds=arguments.file_budget,
        source_roots=tuple(arguments.source_root),
        block=arguments.block,
        cluster=arguments.cluster,
        grid=arguments.grid,
    )
    with Progress(after_seconds=_QUIET_SECONDS, every_seconds=_LINE_SECONDS) as progress:

        def told(name: str, share: float) -> None:
            if share == 0.0:
                progress.step(f"checking {name}")
            progress.share(share)

        files = _check(arguments.paths, launch, replace(options, progress=told))
    patches = ""
    if arguments.fix or arguments.diff:
        files, patches = _mend(files, launch, options, arguments)
    contents: dict[Path, bytes] = {}
    if arguments.trace:
        from tilewright.report.trace import check_to_trace

        contents[Path(arguments.trace)] = json.dumps(check_to_trace(files)).encode()
    if arguments.write_launch:
        contents |= _launches(files, Path(arguments.write_launch))
    if arguments.output:
        contents[Path(arguments.output)] = (_rendered(files, arguments) + "\n").encode("utf-8", "replace")
    if contents:
        write_files(contents)
    if not arguments.output:
        _show(files, arguments)
    if patches:
        # A machine-readable report on standard output stays one document.
        print(patches, end="", file=sys.stdout if arguments.output or arguments.format == "text" else sys.stderr)
    return exit_code(files)


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
    from tilewright.driver.repair.repair import STEPS

    return _MORE_REPAIR * STEPS if arguments.fix or arguments.diff else STEPS


def _check(paths: Sequence[str], launch: LaunchFile | None, options: CheckOptions) -> tuple[FileReport, ...]:
    from tilewright.base.check_report import FileReport
    from tilewright.driver.check.check import check_file, check_text, decode_text, expand

    if paths.count("-") > 1:
        raise TilewrightError("standard input can be read once", remedy="give - once")
    files: list[FileReport] = []
    for path in expand(paths):
        if (remedy := _OTHER_FILES.get(Path(path).suffix)) is not None and Path(path).is_file():
            files.append(FileReport(path, error=f"{path} is no PTX, TTGIR or MLIR", remedy=remedy))
            continue
        if path != "-":
            files.append(check_file(path, launch=launch, options=options))
            continue
        try:
            text = decode_text(sys.stdin.buffer.read(), "standard input")
        except TilewrightError as error:
            files.append(FileReport("-", error=error.message, remedy=error.remedy))
            continue
        files.append(replace(check_text(text, "<stdin>", launch=launch, options=options), path="-"))
    return tuple(files)


def _mend(
    files: tuple[FileReport, ...], launch: LaunchFile | None, options: CheckOptions, arguments: argparse.Namespace
) -> tuple[tuple[FileReport, ...], str]:
    """Reports of the files as they are afterwards, and the patch. Files are written where --fix asks for it."""
    from tilewright.cli.files import write_files
    from tilewright.driver.check.check import check_text
    from tilewright.driver.repair.edits import patch, repaired_text

    results: list[FileReport] = []
    contents: dict[Path, bytes] = {}
    patches: list[str] = []
    for file in files:
        mended = repaired_text(file)
        results.append(file)
        if mended == file.text:
            continue
        if arguments.diff:
            patches.append(patch(file.text, mended, "standard-input.ptx" if file.path == "-" else file.path))
        if arguments.fix and file.path != "-":
            results[-1] = check_text(mended, file.path, launch=launch, options=options)
            contents[Path(file.path)] = mended.encode("utf-8")
    for path in write_files(contents) if contents else []:
        print(f"mended {path}", file=sys.stderr)
    if not contents and not patches:
        print("no repair was found that checks clean", file=sys.stderr)
    return tuple(results), "".join(patches)


def _rendered(files: tuple[FileReport, ...], arguments: argparse.Namespace) -> str:
    """The report in the format asked for, without a newline at its end."""
    from tilewright import __version__

    match arguments.format:
        case "json":
            from tilewright.report.check_json import check_to_json

            return json.dumps(check_to_json(files, tool=f"tilewright {__version__}"), indent=2)
        case "sarif":
            from tilewright.driver.check.rules import all_rules
            from tilewright.report.sarif import RuleDescription, check_to_sarif

            rules = [
                RuleDescription(rule.code, rule.name, rule.summary, rule.rule, rule.remedy) for rule in all_rules()
            ]
            return json.dumps(check_to_sarif(files, version=__version__, rules=rules), indent=2)
        case "github":
            from tilewright.report.github import workflow_commands

            return "\n".join(workflow_commands(files))
        case "html":
            from tilewright.report.check_page import check_page
            from tilewright.report.html import render_page

            return render_page(check_page(files, f"Tilewright {__version__}"))
        case _:
            from tilewright.report.check_text import render_check

            return render_check(files, limit=None if arguments.all else 8)


def _show(files: tuple[FileReport, ...], arguments: argparse.Namespace) -> None:
    """The report on standard output; text in colours where the terminal has them."""
    if arguments.format != "text":
        text = _rendered(files, arguments)
        if text:
            print(text)
        return
    from tilewright.cli.terminal import say
    from tilewright.report.check_text import check_lines

    for line, tone in check_lines(files, limit=None if arguments.all else 8):
        say(line, _STYLES[tone])
