"""A child that does not answer is ended, and the next one goes on with the same list."""

from __future__ import annotations

import math
import time
from multiprocessing.connection import Connection

import pytest
from bench.cliffs import Case
from bench.cublaslt import CublasError, DidNotReturn
from bench.cublaslt_trials import Trials

SILENT, REFUSED, ENDS = 1, 2, 3


def serve(connection: Connection) -> None:
    """Algorithms that take as many milliseconds as the case has rows, and three that are not like that."""
    connection.send(0.0)
    rows = 0.0
    while True:
        match connection.recv():
            case ("build", Case() as case):
                rows = float(case.m)
                connection.send(0.0)
            case ("call", place, _, _):
                if place == SILENT:
                    time.sleep(60)
                if place == ENDS:
                    return
                connection.send("refused" if place == REFUSED else rows)
            case other:
                raise AssertionError(other)


def test_children_are_ended_and_replaced() -> None:
    trials = Trials(serve, silence_seconds=1.0)
    first, second = Case("first", 3, 8, 8), Case("second", 5, 8, 8)
    try:
        assert trials.milliseconds(first, 0, False, math.inf) == 3.0
        with pytest.raises(DidNotReturn):
            trials.milliseconds(first, SILENT, True, math.inf)
        assert trials.milliseconds(first, 0, True, math.inf) == 3.0
        with pytest.raises(CublasError, match="refused"):
            trials.milliseconds(first, REFUSED, True, math.inf)
        assert trials.milliseconds(second, 0, True, math.inf) == 5.0
        with pytest.raises(DidNotReturn):
            trials.milliseconds(second, ENDS, True, math.inf)
        assert trials.milliseconds(second, 0, True, math.inf) == 5.0
    finally:
        trials.close()
