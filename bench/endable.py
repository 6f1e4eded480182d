"""Cases measured one after another in a process that can be ended: some kernels of a library do not return.

A kernel that runs cannot be stopped but with its process. So the process that races a case tells, before it calls what
may not return, what that is (by its place in a list) and the longest that it may take. Where it says nothing for so
long it is killed, and another, which stands ready since a process takes seconds to load PyTorch, begins the case again
and is told what to leave out. All of a case's contenders are still timed in turns in one process.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

_READY = "ready"
_STARTING_SECONDS = 120.0
_BUILDING_SECONDS = 60.0
_SPARES = 2


@dataclass(frozen=True, slots=True)
class Calling:
    """What may not return: a place, or None, and how long may pass until the next word."""

    place: int | None
    seconds: float


Serve = Callable[[Connection, Any], None]
"""What a process does with its end of a pipe, and what it was given: it makes itself ready and calls `answer`."""


Measure = Callable[[Any, frozenset[int], Callable[[int | None, float], object]], dict[str, Any]]
"""Of (a case, places to leave out, what to tell before something is called that may not return): the row."""


def answer(connection: Connection, measure: Measure) -> None:
    """Say that this process is ready, and measure what it is asked for until nobody asks any more."""
    connection.send(_READY)
    while True:
        try:
            case, stopped = connection.recv()
        except EOFError:
            return
        connection.send(measure(case, stopped, lambda place, seconds: connection.send(Calling(place, seconds))))


class Endable:
    """A process that measures, and others that stand ready; `close` ends them all."""

    def __init__(self, serve: Serve, given: object) -> None:
        self._serve, self._given = serve, given
        self._processes = [_Process(serve, given) for _ in range(1 + _SPARES)]

    def measured(self, case: object) -> dict[str, Any]:
        """A case's row. Raises RuntimeError where a process ends, or is silent, while it calls nothing of the list; the
        next case has another process."""
        stopped: set[int] = set()
        while True:
            try:
                found = self._processes[0].measured(case, frozenset(stopped))
            except RuntimeError:
                self._replace()
                raise
            if not isinstance(found, int):
                return found
            stopped.add(found)
            print(f"    {case}: place {found} did not return", flush=True)
            self._replace()

    def _replace(self) -> None:
        self._processes[0].end()
        self._processes = [*self._processes[1:], _Process(self._serve, self._given)]

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.end()


class _Process:
    def __init__(self, serve: Serve, given: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=serve, args=(there, given), daemon=True)
        self._process.start()
        there.close()
        self._ready = False

    def measured(self, case: object, stopped: frozenset[int]) -> dict[str, Any] | int:
        """The row, or the place of what did not return."""
        if not self._ready:
            self._word(Calling(None, _STARTING_SECONDS))
            self._ready = True
        self._here.send((case, stopped))
        last = Calling(None, _BUILDING_SECONDS)
        while True:
            found = self._word(last)
            if not isinstance(found, Calling):
                return found
            last = found

    def _word(self, last: Calling) -> Any:
        """What the process says next; the place, where it says nothing or is gone. Raises RuntimeError without one."""
        try:
            if self._here.poll(last.seconds):
                return self._here.recv()
            why = f"a process that measures said nothing for {last.seconds:g} s"
        except EOFError:
            why = "a process that measures ended"
        if last.place is None:
            raise RuntimeError(why)
        return last.place

    def end(self) -> None:
        self._process.kill()
        self._process.join()
