"""`tilewright reduce kernel.ptx --code MB013`: the smallest kernel that still shows a finding.

The text goes to standard output or to `--output`, what was done to standard error. Exit codes: 0 reduced; 2 where the
file can't be read or does not show the finding.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError
from tilewright.cli.terminal.option_values import file_name, seconds

if TYPE_CHECKING:
    from tilewright.driver.reduce.reduce import ReducedFinding

EXAMPLES = """examples:
  tilewright reduce kernel.ptx --code MB013
  tilewright reduce kernel.ptx --code TX104 --launch launch.json --output small.ptx
  tilewright reduce kernel.ptx --code TM101 --isa strict --budget 20
"""
_DEFAULT_SECONDS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="FILE", help="a PTX file, or - for standard input")
    parser.add_argument("--code", required=True, help="the finding's code or name, as for explain")
    parser.add_argument("--launch", type=file_name, metavar="FILE", help="the launch, as for check")
    parser.add_argument("--entry", metavar="NAME", help="reduce this kernel")
    parser.add_argument(
        "--isa", default="tolerant", metavar="INTERPRETATION", help="interpretation of the ISA, as for check"
    )
    parser.add_argument("--output", metavar="FILE", help="write the reduced text here instead of to standard output")
    parser.add_argument(
        "--budget", type=seconds, default=_DEFAULT_SECONDS, metavar="SECONDS", help="time for all of it (default: 60)"
    )


def run(arguments: argparse.Namespace) -> int:
    from tilewright.cli.terminal.files import require_writable, write_files
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.check.finding_filter import nearest_rule
    from tilewright.driver.check.sources.text_file import read_given
    from tilewright.driver.launch.launch_file import read_launch_file
    from tilewright.driver.reduce.reduce import reduce_finding
    from tilewright.driver.rules.catalog import codes_named
    from tilewright.driver.rules.isa import interpretations_of

    if not codes_named(arguments.code):
        raise TilewrightError(f"there is no rule {arguments.code}", remedy=nearest_rule(arguments.code))
    interpretations_of(arguments.isa)
    require_writable((arguments.output,), (arguments.path, arguments.launch))
    launch = read_launch_file(arguments.launch) if arguments.launch else None
    text, file = read_given(arguments.path)
    begin = time.monotonic()
    with Progress() as progress:
        progress.step(f"reducing {arguments.path}")
        found = reduce_finding(
            text,
            file,
            arguments.code,
            launch=launch,
            isa=arguments.isa,
            entry=arguments.entry,
            seconds=arguments.budget,
            progress=progress.share,
        )
    elapsed = time.monotonic() - begin
    if arguments.output:
        write_files({Path(arguments.output): found.reduced.text.encode("utf-8")})
    if arguments.format == "json":
        print(json.dumps(_as_json(found, elapsed), indent=2))
        return 0
    if not arguments.output:
        print(found.reduced.text, end="")
    print(_words(found, elapsed), file=sys.stderr)
    return 0


def _words(found: ReducedFinding, elapsed: float) -> str:
    from tilewright.report.text import printable

    reduced, finding = found.reduced, found.finding
    place = f" at line {finding.primary.line}" if finding.primary is not None else ""
    end = "no statement can be left out" if reduced.finished else "time was over: a longer --budget may find less"
    return (
        f"{reduced.lines_before} lines reduced to {reduced.lines} in {elapsed:.1f} s, {reduced.tries} checks; {end}\n"
        f"{finding.code} ({finding.name}){place}: {printable(finding.message)}"
    )


def _as_json(found: ReducedFinding, elapsed: float) -> dict[str, object]:
    reduced, finding = found.reduced, found.finding
    return {
        "text": reduced.text,
        "lines": reduced.lines,
        "lines_before": reduced.lines_before,
        "checks": reduced.tries,
        "finished": reduced.finished,
        "seconds": round(elapsed, 3),
        "finding": {
            "code": finding.code,
            "name": finding.name,
            "message": finding.message,
            "line": finding.primary.line if finding.primary is not None else None,
            "conflicts_with_line": finding.conflicts_with.line if finding.conflicts_with is not None else None,
            "interleaving": list(finding.interleaving),
        },
    }
