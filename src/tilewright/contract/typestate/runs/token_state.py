"""What barriers, slots and copies in flight hold while `token_machine` runs a kernel's roles.

Checked by: tests/contract/typestate/test_typestate_tokenmachine.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import Operation


class Slot(NamedTuple):
    """Made at every wait and every read: a tuple takes half as long as a record."""

    ring: str
    position: int
    group: int = -1


OWN = Slot("", 0)
"""Memory of a unit's own: nobody else waits for it."""


@dataclass(slots=True)
class Barrier:
    """count: arrivals per phase; completed: phases done."""

    count: int
    pending: int
    tx: int = 0
    completed: int = 0

    def settle(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.completed += 1
            self.pending = self.count

    def passes(self, parity: int) -> bool:
        """Whether a wait for `parity` returns: the preceding phase has that parity."""
        return (self.completed + 1) % 2 == parity


@dataclass(slots=True)
class RingState:
    full: list[Barrier]
    empty: list[Barrier]
    content: list[int]
    readers: list[set[str]]
    fills: dict[str, int] = field(default_factory=dict[str, int])
    reads: dict[str, int] = field(default_factory=dict[str, int])


class InFlight(NamedTuple):
    """A copy: bytes of the copy engine's or, later than all before them, deferred arrivals of copying threads.
    counted_in: the CTA whose barrier counts them, if it is another."""

    cta: int
    ring: str
    stage: int
    position: int
    bytes: int
    arrivals: int = 0
    by: Operation | None = None
    counted_in: int | None = None


class Violation(Exception):
    """The run broke a rule."""

    def __init__(self, code: str, operation: Operation, message: str) -> None:
        self.code, self.operation, self.message = code, operation, message
        super().__init__(message)


class NotRunnable(Exception):
    """The program is not of a shape that can be run; the proof has said why."""
