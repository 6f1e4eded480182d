"""`tilewright demo`: the whole path on a real input, what each proof says, and broken variants refuted."""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    from tilewright.driver.views.demo import Broken, Demo

EXAMPLES = """examples:
  tilewright demo
  tilewright demo --report demo.html
  tilewright demo --format json

Runs on a GPU of compute capability 9.0 where there is one, else on the CPU machine (under a minute either way).
"""

_DEFAULT_REPORT = Path("out", "demo.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report",
        default=str(_DEFAULT_REPORT),
        metavar="FILE.html",
        help=f"page to write (default: {_DEFAULT_REPORT})",
    )


def run(arguments: argparse.Namespace) -> int:
    from tilewright.cli.demo_page import demo_page
    from tilewright.cli.terminal.files import require_writable, write_files
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.views.demo import demonstrate
    from tilewright.report.html import render_page

    path = Path(arguments.report)
    if path == _DEFAULT_REPORT:
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            remedy = "name a file that you may write: --report FILE.html"
            raise TilewrightError(f"cannot make {path.parent}: {error.strerror}", remedy=remedy) from error
    require_writable((path,))
    begin = time.perf_counter()
    with Progress(wanted=arguments.format == "text", plain=True) as progress:
        demo = demonstrate(progress.step, progress.share)
    seconds = time.perf_counter() - begin
    (written,) = write_files({path: render_page(demo_page(demo, seconds)).encode()})
    if arguments.format == "json":
        print(json.dumps({**demo_to_json(demo), "seconds": seconds, "report": written}, indent=2))
    else:
        show_demo(demo)
        print(f"\nwrote {written}; all of it took {seconds:.1f} s")
        if not demo.as_it_should_be:
            print("NOT as it should be: see above")
    return 0 if demo.as_it_should_be else 1


def show_demo(demo: Demo) -> None:
    """Compilation, comparison and broken variants on the terminal."""
    from tilewright.cli.terminal.show import say, show_compilation, show_rows, show_verdict
    from tilewright.cli.terminal.words import comparison_rows

    print()
    show_compilation(demo.compilation)
    show_rows(f"run on the {demo.comparison.where}", comparison_rows(demo.comparison))
    say("the same program at a small size, before it is broken", "bold")
    for what, verdict in zip(("program", "text"), demo.original, strict=True):
        say(f"  {what}:")
        show_verdict(verdict, "    ")
    for variant in demo.broken:
        say(f"\nbroken: {variant.title}", "bold")
        say(f"  {variant.consequence}")
        for what, judged in (("program", variant.program), ("text", variant.ptx)):
            say(f"  {what}, judged in {judged.seconds * 1000:.0f} ms:")
            for edit in judged.edits:
                for sign, line in (("-", edit.before), ("+", edit.after)):
                    if line:
                        say(f"    line {edit.line}: {sign} {line.strip()}", "dim")
            show_verdict(judged.verdict, "    ", full=1)


def demo_to_json(demo: Demo) -> dict[str, object]:
    """What `--format json` prints of the demo."""
    from tilewright.cli.commands.compile_command import summary
    from tilewright.driver.views.demo import RELATIVE_ERROR_LIMIT
    from tilewright.report.findings.findings_json import verdict_to_json

    comparison = demo.comparison
    return {
        "as_it_should_be": demo.as_it_should_be,
        "compilation": summary(demo.compilation, []),
        "comparison": {
            "on": comparison.where,
            "extents": list(comparison.extents),
            "seconds": comparison.seconds,
            "relative_error": _number(comparison.relative_error),
            "relative_error_limit": RELATIVE_ERROR_LIMIT,
            "largest_error": _number(comparison.largest_error),
            "rounded_share": comparison.rounded_share,
        },
        "original": dict(zip(("program", "text"), map(verdict_to_json, demo.original), strict=True)),
        "broken": [_broken_to_json(variant) for variant in demo.broken],
    }


def _number(value: float) -> float | None:
    """JSON has no number for what is not finite."""
    return value if math.isfinite(value) else None


def _broken_to_json(variant: Broken) -> dict[str, object]:
    from tilewright.report.findings.findings_json import verdict_to_json

    def judged(part: str) -> dict[str, object]:
        found = variant.program if part == "program" else variant.ptx
        edits = [{"line": edit.line, "before": edit.before, "after": edit.after} for edit in found.edits]
        return {"edits": edits, "seconds": found.seconds, **verdict_to_json(found.verdict)}

    return {
        "title": variant.title,
        "refuted": variant.refuted,
        "program": judged("program"),
        "text": judged("text"),
    }
