"""`tilewright profile FILE.twb`: what the hardware's counters say of a program, beside what the model predicted.

Options are read and results printed here; the answers are those of `driver.views.profile`. Checked by:
tests/cli/commands/test_profile_command.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tilewright.base.error import TilewrightError

FORMATS = ("text", "json", "html")

EXAMPLES = """examples:
  tilewright profile gemm.twb
  tilewright profile gemm.twb --launches 5 --warm --format json
  tilewright profile gemm.twb --keep counters.csv --format html --output profile.html
  tilewright profile gemm.twb --from counters.csv

Needs Nsight Compute (ncu) and a GPU that runs the program, whose counters you may read. Inputs are random. With --from
a table that --keep wrote (or ncu --csv --page raw) is read instead, which needs neither.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="FILE.twb", help="what `tilewright compile` wrote")
    parser.add_argument("--launches", type=_launches, default=3, metavar="N", help="runs to profile (default: 3)")
    parser.add_argument("--warm", action="store_true", help="do not flush caches before each pass")
    parser.add_argument("--from", dest="table", metavar="FILE.csv", help="read this table of ncu's and run nothing")
    parser.add_argument("--keep", metavar="FILE.csv", help="write ncu's table here")
    parser.add_argument("--output", "-o", metavar="FILE", help="write the report here")


def _launches(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:5]) <= 1000):
        raise argparse.ArgumentTypeError("between 1 and 1000 launches")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    from tilewright.cli.commands.run_command import load_bundle
    from tilewright.cli.terminal.files import require_writable, write_files
    from tilewright.driver.views.profile import profile_report, run_ncu
    from tilewright.driver.views.profile_runner import require_gpu

    bundle = load_bundle(arguments.bundle)
    require_writable((arguments.keep, arguments.output), (arguments.bundle, arguments.table))
    if arguments.table:
        if arguments.keep:
            raise TilewrightError("--from reads a table, so there is none to --keep", remedy="give one of the two")
        table = _read(arguments.table)
    else:
        try:
            require_gpu(bundle)
        except TilewrightError as error:
            remedy = "profile it where the GPU is; --from FILE.csv shows what --keep FILE.csv wrote there"
            raise TilewrightError(error.message, span=error.span, remedy=remedy) from error
        table = run_ncu(bundle, arguments.launches, warm=arguments.warm)
    report = profile_report(bundle, table, warm=arguments.warm)
    contents: dict[Path, bytes] = {}
    if arguments.keep:
        contents[Path(arguments.keep)] = table.encode("utf-8", "replace")
    match arguments.format:
        case "json":
            from tilewright.report.profile import profile_to_json

            shown = json.dumps(profile_to_json(report), indent=2)
        case "html":
            from tilewright.report.html import render_page
            from tilewright.report.profile import profile_page

            shown = render_page(profile_page(report))
        case _:
            from tilewright.report.profile import profile_lines

            shown = "\n".join(profile_lines(report))
    if arguments.output:
        contents[Path(arguments.output)] = (shown + "\n").encode("utf-8", "replace")
    write_files(contents)
    if not arguments.output:
        print(shown)
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise TilewrightError(f"cannot read {path}: {error.strerror}", remedy="name a table that ncu wrote") from error
