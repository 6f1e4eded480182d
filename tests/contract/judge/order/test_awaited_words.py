"""Words that CTAs wait for, as streams of events: what is certain of a wait, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tests.contract.event_stream import at
from tests.contract.judge.strong_words import WORD, data, strong
from tests.contract.judged_stream import APART, PEER, W, ends

from tilewright.contract.judge.happens_before import HappensBefore
from tilewright.machine.core import event as ev
from tilewright.machine.protocol.loops.polls import Poll

LOOK = at(50)
ONE_IS_AWAITED = {LOOK: Poll(LOOK, "ne", 1, False, False)}
ADDRESS = WORD[0][0]


def write(w: ev.WarpActor, before: int, after: int, line: int, order: str = "release") -> ev.Access:
    return told(strong(w, True, order, line, space="global"), before, after)


def look(w: ev.WarpActor, value: int, order: str = "acquire") -> ev.Access:
    return told(strong(w, False, order, 50, space="global"), value, value)


def told(event: ev.Access, before: int, after: int) -> ev.Access:
    return replace(event, words=((ADDRESS, before, after),))


def judged(events: Sequence[ev.Event]) -> tuple[set[str], tuple[str, ...]]:
    judge = HappensBefore(APART, polls=ONE_IS_AWAITED)
    for event in [*events, *ends(W[0], W[1], PEER[0])]:
        judge.feed(event)
    return {finding.code for finding in judge.finish()}, judge.doubts


def test_a_wait_that_one_write_ends() -> None:
    events: list[ev.Event] = [
        data(W[0], True, 10),
        look(PEER[0], 0),
        write(W[0], 0, 1, 11),
        look(PEER[0], 1),
        data(PEER[0], False, 20),
    ]
    assert judged([*events, write(PEER[0], 1, 0, 21)]) == (set(), ())
    codes, doubts = judged(events)
    assert codes == {"LV103"} and doubts == ()


def test_a_word_may_be_used_again() -> None:
    use = [write(W[0], 0, 1, 11), look(PEER[0], 1), write(PEER[0], 1, 2, 21)]
    back = [told(strong(W[0], False, "acquire", 30, space="global"), 2, 2), write(W[0], 2, 0, 31)]
    codes, doubts = judged([*use, *back, *use, write(PEER[0], 2, 0, 40)])
    assert codes == set()
    assert any("may differ between interleavings" in doubt for doubt in doubts)  # the plain strong read
    assert not any("wait" in doubt for doubt in doubts)


def test_a_word_overwritten_before_it_was_seen() -> None:
    events = [write(W[0], 0, 1, 11), look(PEER[0], 1), write(W[0], 1, 0, 12)]
    assert judged(events)[0] == {"CL106"}
    again = [write(W[0], 0, 1, 11), look(PEER[0], 1), write(W[0], 1, 1, 12)]
    assert any("in place of another write" in doubt for doubt in judged(again)[1])


def test_lanes_that_wait_know_of_one_another_by_synchronization_alone() -> None:
    places = ev.Places((ev.LaneRows(0b11, np.array([ADDRESS, ADDRESS]), 4),))
    wait = replace(look(PEER[0], 1), lanes=0b11, places=places)
    back = replace(write(PEER[0], 1, 0, 21), lanes=0b1)
    one = replace(wait, lanes=0b1, places=None)
    together = ev.MemoryFence(PEER[0], "fence", "warp", at(20))
    for seen, doubted in (([wait], True), ([wait, together], False), ([one], False)):
        _, doubts = judged([write(W[0], 0, 1, 11), *seen, back])
        assert any("other lanes" in doubt for doubt in doubts) == doubted


def test_a_word_that_others_have_written_before() -> None:
    stale = [write(W[0], 1, 1, 11), look(PEER[0], 1), write(PEER[0], 1, 0, 21)]
    assert any("may still hold 1" in doubt for doubt in judged(stale)[1])
    two = [write(W[0], 0, 1, 11), write(W[1], 1, 1, 12), look(PEER[0], 1), write(PEER[0], 1, 0, 21)]
    assert any("unordered" in doubt for doubt in judged(two)[1])


def test_a_look_that_fails_teaches_nothing() -> None:
    handed = [data(W[0], True, 10), write(W[0], 0, 2, 11), look(PEER[0], 2), data(PEER[0], False, 20)]
    assert judged(handed)[0] >= {"CL101"}


def test_what_is_not_known_is_a_doubt() -> None:
    unseen = strong(PEER[0], False, "acquire", 50, space="global")
    assert any("is not known" in doubt for doubt in judged([write(W[0], 0, 1, 11), unseen])[1])
    weak = ev.Access(PEER[0], "global", -1, WORD, True, "generic", at(21))
    events = [write(W[0], 0, 1, 11), look(PEER[0], 1), weak, look(PEER[0], 1)]
    assert judged(events)[0] == {"LV103"}
