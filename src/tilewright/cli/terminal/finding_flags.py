"""Which findings does a command show and count? The options that `check` and `run` share, and what they ask for.

What is shown (`-q`, `--show-reviews`, `--all`, `--statistics`) changes text alone; JSON, SARIF and the other formats
have everything. What is set aside (`--select`, `--ignore`, `--allow`) changes verdicts and exit codes in all of them.
Checked by: tests/cli/terminal/test_finding_flags.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    from tilewright.base.check_report import FileReport
    from tilewright.report.findings.finding_lines import View


def add_finding_flags(parser: argparse.ArgumentParser, *, unknown: bool = False) -> None:
    """The options, in two groups of the help. unknown: the command has a verdict that may be unknown."""
    shown = parser.add_argument_group("what is shown, as text")
    shown.add_argument("-q", "--quiet", action="store_true", help="only what is not proven, a line for each")
    shown.add_argument("--statistics", action="store_true", help="count findings by rule instead of showing them")
    shown.add_argument("--show-reviews", action="store_true", help="reviews in full, the first of each group")
    shown.add_argument("--all", action="store_true", help="every finding, reason and assumption in full")
    counts = parser.add_argument_group(
        "what counts", "A rule is given by code, name or the beginning of codes: PX101, write-not-fenced, PX."
    )
    counts.add_argument(
        "--select", action="append", default=[], metavar="RULES", help="ignore all rules but these (by commas)"
    )
    counts.add_argument(
        "--ignore", action="append", default=[], metavar="RULES", help="neither show nor count these rules (by commas)"
    )
    counts.add_argument(
        "--allow", action="append", default=[], metavar="RULE=REASON", help="as --ignore, for a reason that is reported"
    )
    if unknown:
        words = "exit with 0, not 3, where something is unknown"
        counts.add_argument("--allow-unknown", action="store_true", help=words)
    counts.add_argument("--exit-zero", action="store_true", help="exit with 0 whatever the verdict; 2 stays 2")


def allowed(arguments: argparse.Namespace) -> dict[str, str]:
    """Reasons by rule. Raises TilewrightError where one is missing."""
    found: dict[str, str] = {}
    for given in arguments.allow:
        rule, equals, reason = given.partition("=")
        if not equals or not rule.strip() or not reason.strip():
            raise TilewrightError(
                f"--allow {given}: there is no {'rule' if equals and not rule.strip() else 'reason'}",
                remedy="write --allow CODE=REASON, as in --allow MB109='the barrier is not used again'",
            )
        found[rule.strip()] = reason.strip()
    return found


def listed(given: Iterable[str]) -> tuple[str, ...]:
    """The rules of an option that may be given several times, each with commas."""
    return tuple(name.strip() for names in given for name in names.split(",") if name.strip())


def view_of(arguments: argparse.Namespace) -> View:
    """What is shown. Raises TilewrightError where two options contradict each other."""
    from tilewright.report.findings.finding_lines import View

    asked = [f"--{name}" for name in ("quiet", "statistics", "all") if getattr(arguments, name)]
    if len(asked) > 1 or (arguments.show_reviews and asked and asked != ["--all"]):
        both = [*asked, *(["--show-reviews"] if arguments.show_reviews else [])]
        raise TilewrightError(f"{' and '.join(both)} contradict each other", remedy="give one of them")
    return View(arguments.quiet, arguments.show_reviews, arguments.all, arguments.statistics)


def unused_allowances(arguments: argparse.Namespace, files: Iterable[FileReport]) -> tuple[str, ...]:
    """The rules of `--allow` that set nothing aside in any file."""
    from tilewright.driver.check.finding_filter import codes_of

    used = {
        each.finding.code
        for file in files
        for kernel in file.kernels
        for each in kernel.suppressed
        if each.by == "option"
    }
    return tuple(rule for rule in allowed(arguments) if not used.intersection(codes_of(rule)))
