"""What does an operation on layouts say where no layout is the answer?

Two things are no errors: that the answer, which exists as a function, is no value of the type asked for
(`NotExpressible`, a definite no), and that the question was too large or had too many unknown sizes to be settled here
(`NotDecided`, with what would settle it). Both are values, so that a search can go on. Neither is true or false: a
caller that forgets to look at the type of an answer is stopped. Errors of the caller raise TilewrightError instead.

Checked by tests/layout/test_composition.py and test_inverses.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, TypeVar

from tilewright.base.error import TilewrightError, Undecided

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class NotExpressible:
    """No value of the type asked for is the answer. reason: one line, with a witness where there is one."""

    reason: str

    def __str__(self) -> str:
        return f"not expressible: {self.reason}"

    def __bool__(self) -> NoReturn:
        raise TypeError("an answer that is not expressible is neither true nor false: look at its type")


@dataclass(frozen=True, slots=True)
class NotDecided:
    """Whether there is an answer was not settled. would_decide: what would settle it."""

    reason: str
    would_decide: str = ""

    def __str__(self) -> str:
        return f"undecided: {self.reason}" + (f" (decided by {self.would_decide})" if self.would_decide else "")

    def __bool__(self) -> NoReturn:
        raise TypeError("an undecided answer is neither true nor false: look at its type")


Refusal = NotExpressible | NotDecided


def expect(answer: Found | NotExpressible | NotDecided) -> Found:
    """The answer itself. Raises TilewrightError where there is none, Undecided where that was not settled."""
    match answer:
        case NotExpressible(reason):
            raise TilewrightError(reason)
        case NotDecided(reason, would_decide):
            raise Undecided(reason, remedy=would_decide)
        case _:
            return answer
