"""Errors that a user can fix: one message naming the place and the remedy. The command line exits 2 on them."""

from __future__ import annotations

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span


class TilewrightError(Exception):
    """Bad input or a missing piece of the environment.

    message: one line, what is wrong; span: where, if it has a place; remedy: what to do about it;
    findings: the rules broken, where the error comes from a check.
    """

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        remedy: str = "",
        findings: tuple[Diagnostic, ...] = (),
    ) -> None:
        self.message = message
        self.span = span
        self.remedy = remedy
        self.findings = findings
        place = f"{span}: " if span is not None else ""
        tail = f" ({remedy})" if remedy else ""
        super().__init__(f"{place}{message}{tail}")


class Undecided(TilewrightError):
    """A check could neither prove nor refute; the message says what would decide it. The command line exits 3."""
