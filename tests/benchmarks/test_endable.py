"""A process that is silent is ended, and the next one begins the case again and leaves out what did not return."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

import pytest
from bench.endable import READY, Calling, Endable

SILENT, ENDS, LAST = 1, 2, 4


def serve(connection: Connection, given: object) -> None:
    """Calls the places 0 to 4 in order; a case is what becomes of some of them."""
    connection.send(READY)
    while True:
        case, stopped = connection.recv()
        if case == "ends before":
            return
        called = [place for place in range(LAST + 1) if place not in stopped]
        for place in called:
            connection.send(Calling(place, 0.5))
            if case == "hard" and place == SILENT:
                time.sleep(60)
            if case == "hard" and place == ENDS:
                return
        connection.send({"case": case, "given": given, "called": called})


def test_processes_are_ended_and_replaced() -> None:
    process = Endable(serve, 7)
    try:
        assert process.measured("easy") == {"case": "easy", "given": 7, "called": [0, 1, 2, 3, 4]}
        assert process.measured("hard")["called"] == [0, 3, 4]
        assert process.measured("easy")["called"] == [0, 1, 2, 3, 4]
        with pytest.raises(RuntimeError, match="ended"):
            process.measured("ends before")
    finally:
        process.close()
