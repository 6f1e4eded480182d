"""How the command line shows a compilation, a verdict and findings on a terminal, in colours where it has them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.cli.terminal.printing import console, say
from tilewright.cli.terminal.words import Rows, decision_rows, proof_rows, size_rows, time_words
from tilewright.driver.compile.compile import Compilation
from tilewright.report.text import printable, render_finding

_NAME_COLUMNS = 15
_STYLES = {"proven": "green", "proven again": "green", "because": "dim", "warning": "yellow"}


def show_rows(title: str, rows: Rows) -> None:
    """Rows of (name, words) under a title; a name that repeats is not said again."""
    say(title, "bold")
    columns = max([_NAME_COLUMNS, *(len(name) + 1 for name, _ in rows)])
    previous = ""
    for name, words in rows:
        shown = "" if name == previous else name
        console().print(Text.assemble("  ", (f"{shown:<{columns}}", _STYLES.get(name, "cyan")), words))
        previous = name


def show_compilation(compilation: Compilation, written: Iterable[str] = ()) -> None:
    """Decisions, proof, sizes and times."""
    say(f"{compilation.name} for {compilation.target}", "bold")
    show_rows("decisions", decision_rows(compilation))
    show_rows("proof", proof_rows(compilation))
    show_rows("sizes and times", [*size_rows(compilation), ("steps", time_words(compilation))])
    for path in written:
        say(f"wrote {path}")


_RULES_SHOWN = 3


def show_verdict(verdict: Verdict, indent: str = "", *, full: int = 3) -> None:
    """A verdict with its findings, the first of each rule; those after the first `full` in one line."""
    match verdict:
        case Proven(scope):
            say(f"{indent}proven for {scope}", "green")
        case Refuted(findings):
            shown = first_of_each_rule(findings)
            for finding in shown[:full]:
                show_finding(finding, indent)
            for finding in shown[full:]:
                say(f"{indent}also {finding.code}: {printable(finding.message)}")
            if len(shown) < len(findings):
                say(f"{indent}and {len(findings) - len(shown)} more")
        case Unknown(reasons):
            say(f"{indent}unknown: {'; '.join(reasons)}", "yellow")


def first_of_each_rule(findings: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The first finding of each rule, of three rules at most."""
    by_code: dict[str, Diagnostic] = {}
    for finding in findings:
        by_code.setdefault(finding.code, finding)
    return list(by_code.values())[:_RULES_SHOWN]


def show_finding(finding: Diagnostic, indent: str = "") -> None:
    """Code, message, places, interleaving, rule and repair."""
    style = "bold red" if finding.level is Level.ERROR else "bold yellow"
    for number, line in enumerate(render_finding(finding).splitlines()):
        say(indent + line, style if number == 0 else "")
