"""What does an operation on layouts answer when its result is no layout of the family asked for?

A value that says why: such an answer is a fact about the layouts, and no error of the caller.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotExpressible:
    """There is no such layout. reason: why, in words, with the numbers that show it."""

    reason: str
