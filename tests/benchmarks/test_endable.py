"""A process that is silent is ended, and the next one begins the case again and leaves out what did not return."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest
from bench.endable import Endable, answer

SILENT, ENDS, LAST = 1, 2, 4


def serve(connection: Connection, given: object) -> None:
    """Calls the places 0 to 4 in order; a case is what becomes of some of them."""

    def measure(case: str, stopped: frozenset[int], calling: Callable[[int | None, float], object]) -> dict[str, Any]:
        if case == "ends before":
            sys.exit(0)
        called = [place for place in range(LAST + 1) if place not in stopped]
        for place in called:
            calling(place, 0.5)
            if case == "hard" and place == SILENT:
                time.sleep(60)
            if case == "hard" and place == ENDS:
                sys.exit(0)
        return {"case": case, "given": given, "called": called}

    answer(connection, measure)


def test_processes_are_ended_and_replaced() -> None:
    process = Endable(serve, 7)
    try:
        assert process.measured("easy") == {"case": "easy", "given": 7, "called": [0, 1, 2, 3, 4]}
        assert process.measured("hard")["called"] == [0, 3, 4]
        assert process.measured("easy")["called"] == [0, 1, 2, 3, 4]
        with pytest.raises(RuntimeError, match="ended"):
            process.measured("ends before")
        assert process.measured("easy")["called"] == [0, 1, 2, 3, 4]
    finally:
        process.close()
