"""Tensor maps that a kernel writes: fences of the tensormap proxy, and changes while copies use them."""

from __future__ import annotations

from tests.contract.event_stream import at
from tests.contract.judged_stream import ONE, TILE, W, codes, ends, sync

from tilewright.contract.judge.happens_before import HappensBefore
from tilewright.contract.rules.interpretations import Interpretations, tolerant
from tilewright.machine.core import event as ev

MAP = 1 << 40
BYTES = ((MAP, MAP + 128),)
COPY = ev.CopyActor(0)


def write(line: int = 10) -> ev.Access:
    return ev.Access(W[0], "global", -1, BYTES, True, "generic", at(line))


def release() -> ev.TensorMapFence:
    return ev.TensorMapFence(W[0], "release", None, "gpu", at(11))


def acquire(w: ev.WarpActor = W[1]) -> ev.TensorMapFence:
    return ev.TensorMapFence(w, "acquire", MAP, "gpu", at(13))


def store(waits: bool = True) -> list[ev.Event]:
    done: list[ev.Event] = [ev.BulkWait(W[1], 0, 0, True, at(22))] if waits else []
    return [
        ev.CopyIssue(W[1], 0, COPY, "store", (0,), TILE, 512, None, at(20), MAP),
        ev.BulkCommit(W[1], 0, 0, (COPY,), at(21)),
        *done,
    ]


def stream(*middle: ev.Event, interpretations: Interpretations | None = None) -> set[str]:
    return codes([write(), *middle, *store(), *ends(*W[:2])], interpretations=interpretations)


def test_a_written_map_is_released_and_acquired() -> None:
    barrier = sync(W[:2])
    assert stream(release(), *barrier, acquire()) == set()
    assert stream(release(), *barrier) == {"TM104"}
    assert stream(*barrier, acquire()) == {"TM104"}
    assert stream(release(), acquire()) == {"TM104"}
    assert stream(release(), acquire(), *barrier) == {"TM104"}


def test_an_acquire_by_another_thread_is_a_contested_point() -> None:
    barrier = [*sync(W[:2])]
    events = [release(), acquire(W[0]), *barrier]
    assert stream(*events) == {"TM104"}
    assert stream(*events, interpretations=Interpretations(tensor_map_acquire=None)) == set()
    assert stream(*barrier, acquire(W[0]), interpretations=tolerant()) == {"TM104"}


def test_a_map_in_use_does_not_change() -> None:
    start = [write(), release(), *sync(W[:2]), acquire()]
    again = [*sync(W[:2], 1), write(30)]
    late = [ev.BulkWait(W[1], 0, 0, True, at(40))]
    assert codes([*start, *store(), *again, *ends(*W[:2])]) == set()
    assert codes([*start, *store(False), *again, *late, *ends(*W[:2])]) == {"TM105"}


def test_a_map_that_nobody_writes_needs_no_fence() -> None:
    assert codes([*store(), *ends(W[1])]) == set()


def _doubted(*middle: ev.Event) -> bool:
    """Whether a written map is in doubt where global addresses are made up."""
    judge = HappensBefore(ONE, tolerant(), any_global_address=True)
    for event in [write(), *middle, *store(), *ends(*W[:2])]:
        judge.feed(event)
    assert not judge.finish()
    return any("tensor map" in each for each in judge.doubts)


def test_a_written_map_is_in_doubt_where_addresses_are_made_up_unless_it_is_released_and_acquired() -> None:
    barrier = sync(W[:2])
    assert not _doubted(release(), *barrier, acquire())
    assert not _doubted(release(), acquire(W[0]), *barrier)
    assert _doubted(release(), *barrier)
    assert _doubted(*barrier, acquire())
    assert _doubted(release(), acquire())
    assert _doubted(release(), write(12), *barrier, acquire())
