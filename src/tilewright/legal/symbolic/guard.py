"""Under which sizes is something legal? A condition on named sizes that a program can ask before it launches.

A guard is a conjunction: what was assumed of the sizes (their declared ranges and divisibility, and conditions given
with them), and the conditions that remain. It is evaluated in Python, and written as Python.

Checked by tests/legal/symbolic/test_guard.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.condition import (
    Condition,
    condition_text,
    every,
    holds,
)
from tilewright.layout.numbers.integer_fact import IntegerFact


@dataclass(frozen=True, slots=True)
class Guard:
    """declared: what is assumed of each size, by name; assumed: conditions assumed besides; conditions: what remains to
    be asked, all of which must hold; none: nothing remains."""

    declared: tuple[tuple[str, IntegerFact], ...]
    assumed: Condition
    conditions: tuple[Condition, ...]

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether these sizes satisfy the assumptions and the conditions. Raises TilewrightError for a missing size."""
        missing = [name for name, _ in self.declared if name not in sizes]
        if missing:
            raise TilewrightError(f"the guard needs the size {missing[0]}", remedy="give every size that was declared")
        return (
            all(sizes[name] in fact for name, fact in self.declared)
            and holds(self.assumed, sizes)
            and all(holds(condition, sizes) for condition in self.conditions)
        )

    @property
    def text(self) -> str:
        """The conditions as Python writes them, such as `N % 8 == 0 and M >= 1`; `True` where none remains."""
        return condition_text(every(self.conditions))

    def __str__(self) -> str:
        return self.text
