"""Bytes that a bulk store sends must have been written since another one has sent them."""

import re

from tests.driver.reproof.judged_instances import codes, instance

from tilewright.base.span import Span
from tilewright.base.verdict import Proven
from tilewright.contract.replay.staged_bytes import StagedBytes
from tilewright.machine.core.event import Access, CopyActor, CopyIssue, Ranges, WarpActor

WARP = WarpActor(3, 0)


def fed(*steps: tuple[str, int, int]) -> list[str]:
    """What is found of writes and sends of bytes, in order."""
    judge = StagedBytes()
    judge.begin()
    for number, (what, begin, end) in enumerate(steps, start=1):
        ranges: Ranges = ((begin, end),)
        span = Span("text", number)
        if what == "write":
            event: Access | CopyIssue = Access(WARP, "shared", 3, ranges, True, "generic", span)
        else:
            direction = "store" if what == "send" else "load"
            event = CopyIssue(WARP, 0, CopyActor(number), direction, (3,), ranges, end - begin, None, span)
        judge.handlers[type(event)](event)
    return [f"{finding.code} {finding.primary.line}" for finding in judge.findings() if finding.primary is not None]


def test_what_was_written_again_is_sent_again() -> None:
    assert fed(("write", 0, 64), ("send", 0, 64), ("write", 0, 64), ("send", 0, 64)) == []
    assert fed(("send", 0, 64), ("send", 64, 128), ("load", 0, 64), ("send", 0, 64)) == []


def test_a_byte_that_was_not() -> None:
    assert fed(("send", 0, 64), ("write", 0, 63), ("send", 0, 64)) == ["UM109 3"]
    assert fed(("send", 0, 64), ("send", 32, 48)) == ["UM109 2"]


def test_every_store_of_a_lane_counts() -> None:
    """A piece of shared memory holds several parts of one tile, one after the other."""
    made = instance("staged again")
    assert isinstance(made.judge(made.text), Proven)
    lines = made.text.split("\n")
    places = [number for number, line in enumerate(lines) if re.match(r"\tstmatrix\.", line)]
    found = [codes(made.judge("\n".join([*lines[:at], *lines[at + 1 :]]))) for at in (places[0], places[-1])]
    assert {"UM109"} in found
    assert all(each & {"UM109", "UM101"} for each in found)
