"""How are edited texts checked again, and how much of that may a search do?

`Rechecks` counts what is left: texts, work, seconds. Each text is checked once. `others_worse` looks at the other
kernels of the file where an edit may have changed more than its own kernel's lines.
Checked by: tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import process_time

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.driver.check.limits.budget import BudgetSpent, bounded
from tilewright.driver.check.limits.work import WorkSpent, counted
from tilewright.frontends.ptx.ast import Module

_BUGS_PAID = 3
"""Steps for each of which a search may do more."""

LINE_STEPS = 8
"""What a line of a text costs besides its run, in steps: it is read, sliced and judged. A step takes some 12 us, a line
some 100 us."""

Recheck = Callable[[str, str | None], FileReport]
"""Checks another text in the same way as the one that a report is of: one kernel of it, by name, or all (None)."""
RecheckAt = Callable[[str, str, Mapping[str, object]], FileReport]
"""Checks a kernel of another text, by name, with a launch that is a launch file's document."""


@dataclass(slots=True)
class Rechecks:
    """How texts are checked, and how much of that may still be done. stopped: the seconds were over; bonus: attempts
    and steps for a bug that is fixed on the way; depth: of those in the longest chain."""

    recheck: Recheck
    attempts: int
    steps: int
    deadline: float | None
    seen: set[str] = field(default_factory=set[str])
    stopped: bool = False
    bonus: tuple[int, int] = (0, 0)
    depth: int = 0

    @property
    def over(self) -> bool:
        if self.deadline is not None and process_time() >= self.deadline:
            self.stopped = True
        return self.stopped or self.steps <= 0 or self.attempts <= 0

    def deeper(self, depth: int) -> None:
        """A chain of so many steps was found: the first of its length gives the search more to do."""
        if self.depth < depth <= _BUGS_PAID:
            self.depth = depth
            self.attempts += self.bonus[0]
            self.steps += self.bonus[1]

    def report(self, text: str, kernel: str | None) -> FileReport | None:
        """The report on a text that was not checked before, or None."""
        if text in self.seen or self.over:
            return None
        self.seen.add(text)
        self.attempts -= 1
        return self.checked(text, kernel)

    def checked(self, text: str, kernel: str | None) -> FileReport | None:
        """The report on a text, or None where the time is over before it is there."""
        with counted(self.steps) as meter:
            try:
                found = self.bounded(lambda: self.recheck(text, kernel))
            except WorkSpent:
                found = None
        self.steps -= meter.steps + LINE_STEPS * text.count("\n")
        return None if self.over and self.stopped else found

    def bounded(self, check: Callable[[], FileReport]) -> FileReport | None:
        """What a check finds, or None where the seconds are over before."""
        own = False
        try:
            with bounded(None if self.deadline is None else max(0.0, self.deadline - process_time())) as own:
                return check()
        except BudgetSpent:
            if not own:
                raise
        return None


def rechecks_of(recheck: Recheck, attempts: int, steps: int, seconds: float | None) -> Rechecks:
    """So many texts, so much work, so many seconds from now; half as much again for each of the first bugs fixed."""
    deadline = None if seconds is None else process_time() + seconds
    return Rechecks(recheck, attempts, steps, deadline, bonus=(attempts // 2, steps // 2))


def others_worse(
    text: str, before: str, module: Module | None, report: FileReport, kernel: KernelReport, rechecks: Rechecks
) -> bool:
    """Has another kernel of the text errors that it did not have? module: of the text before."""
    if len(report.kernels) < 2 or (module is not None and _within(text, before, module, kernel.name)):
        return False
    after = rechecks.checked(text, None)
    had = {each.name: len(each.errors) for each in report.kernels}
    return after is None or any(
        each.name != kernel.name and len(each.errors) > had.get(each.name, 0) for each in after.kernels
    )


def _within(text: str, before: str, module: Module, name: str) -> bool:
    """Is the difference of two texts within the lines of one kernel, where nothing else of the module stands?"""
    kernel = next((each for each in module.kernels if each.name == name), None)
    if kernel is None:
        return False
    first = kernel.span.line
    last = max((item.span.line for item in kernel.body), default=first)
    others = (*(each for each in module.kernels if each is not kernel), *module.functions)
    if any(first <= each.span.line <= last for each in others):
        return False
    old, new = before.split("\n"), text.split("\n")
    least = min(len(old), len(new))
    same = next((index for index in range(least) if old[index] != new[index]), least)
    rest = next((index for index in range(least - same) if old[-1 - index] != new[-1 - index]), least - same)
    return same >= first and len(old) - rest <= last
