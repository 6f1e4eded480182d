"""How much work may a question cost, counted so that the same question always ends the same way?

Limits count steps of the engines (z3's own `rlimit` among them), never seconds: an answer does not hang on the load of
the machine. A question that meets its limit is undetermined; that is never read as a yes or a no. z3 honours its limit
to within a few percent (tests/solve/constraints/test_fields.py), so no child process is used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """search_steps: conditions judged by the branch-and-bound search; z3_resources: z3's `rlimit`, about 1 to 4 million
    a second; set_operations: isl's operation count."""

    search_steps: int = 40_000
    z3_resources: int = 2_000_000
    set_operations: int = 1_000_000


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True, slots=True)
class Undetermined:
    """No answer within the limit: why, and what would decide the question."""

    reason: str
    would_decide: str
