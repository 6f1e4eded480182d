"""Atomic and strong accesses: what they order, at which scope, and what stays unordered."""

from __future__ import annotations

import pytest
from tests.contract.event_stream import at
from tests.contract.judge.strong_words import WORD, data, strong
from tests.contract.judged_stream import APART, ONE, PAIR, PEER, W, access, cluster_sync, codes, doubts, ends

from tilewright.base.plan import Launch
from tilewright.contract.judge.happens_before import HappensBefore
from tilewright.machine.core import event as ev


def fence(w: ev.WarpActor, line: int, scope: str = "gpu", order: str = "acq_rel") -> ev.MemoryFence:
    return ev.MemoryFence(w, "fence", scope, at(line), order)  # type: ignore[arg-type]


def test_release_and_acquire_order_what_lies_around_them() -> None:
    write, read = access(W[0], True, 10), access(W[1], False, 20)
    release, acquire = strong(W[0], True, "release", 11), strong(W[1], False, "acquire", 19)
    assert codes([write, release, acquire, read, *ends(*W[:2])]) == set()
    assert codes([write, strong(W[0], True, "relaxed", 11), acquire, read, *ends(*W[:2])]) == {"NB101"}
    assert codes([write, release, strong(W[1], False, "relaxed", 19), read, *ends(*W[:2])]) == {"NB101"}
    assert codes([release, write, acquire, read, *ends(*W[:2])]) == {"NB101"}


def test_fences_make_relaxed_accesses_release_and_acquire() -> None:
    write, read = access(W[0], True, 10), access(W[1], False, 21)
    relaxed = strong(W[0], True, "relaxed", 12), strong(W[1], False, "relaxed", 19)
    exits = ends(*W[:2])
    assert codes([write, fence(W[0], 11), relaxed[0], relaxed[1], fence(W[1], 20), read, *exits]) == set()
    assert codes([write, relaxed[0], fence(W[0], 11), relaxed[1], fence(W[1], 20), read, *exits]) == {"NB101"}
    assert codes([write, fence(W[0], 11), relaxed[0], relaxed[1], read, *exits]) == {"NB101"}
    one_way = [write, fence(W[0], 11, order="acquire"), relaxed[0], relaxed[1], fence(W[1], 20), read]
    assert codes([*one_way, *exits]) == {"NB101"}


def test_a_fence_by_one_lane_releases_nothing_of_the_others() -> None:
    write, read = access(W[0], True, 10), access(W[1], False, 21)
    flag = strong(W[0], True, "relaxed", 12), strong(W[1], False, "acquire", 19)
    by_one = ev.MemoryFence(W[0], "fence", "gpu", at(11), lanes=1)
    together = ev.MemoryFence(W[0], "fence", "warp", at(10))
    assert codes([write, by_one, *flag, read, *ends(*W[:2])]) == {"MB112"}
    assert codes([write, together, by_one, *flag, read, *ends(*W[:2])]) == set()


def test_an_atomic_operation_keeps_what_its_word_holds() -> None:
    write, read = access(W[0], True, 10), access(W[2], False, 20)
    release = strong(W[0], True, "release", 11)
    acquire = strong(W[2], False, "acquire", 19)
    add = strong(W[1], True, "relaxed", 15, modifies=True)
    plain = strong(W[1], True, "relaxed", 15)
    assert codes([write, release, add, acquire, read, *ends(*W[:3])]) == set()
    assert codes([write, release, plain, acquire, read, *ends(*W[:3])]) == {"NB101"}


@pytest.mark.parametrize("scope", ["cta", "gpu"])
def test_scopes_must_reach_the_other_cta(scope: str) -> None:
    warps = (W[0], PEER[0])
    events = [
        data(W[0], True, 10), strong(W[0], True, "release", 11, scope=scope, space="global"),
        strong(PEER[0], False, "acquire", 19, space="global"), data(PEER[0], False, 20), *ends(*warps),
    ]  # fmt: skip
    found = codes(events, PAIR)
    assert found == (set() if scope == "gpu" else {"CL101"} | ({"CL104"} & found)), found
    assert ("CL101" in codes(events, APART)) == (scope == "cta")


def test_clusters_are_ordered_by_memory() -> None:
    write, read = data(W[0], True, 10), data(PEER[0], False, 20)
    release = strong(W[0], True, "release", 11, space="global")
    acquire = strong(PEER[0], False, "acquire", 19, space="global")
    exits = ends(W[0], PEER[0])
    assert codes([write, release, acquire, read, *exits], APART) == set()
    assert codes([write, acquire, release, read, *exits], APART) == {"CL101"}
    counter = [
        write, fence(W[0], 11), strong(W[0], True, "relaxed", 12, space="global", modifies=True),
        strong(PEER[0], True, "relaxed", 13, space="global", modifies=True), fence(PEER[0], 14), read,
    ]  # fmt: skip
    assert codes([*counter, *exits], APART) == set()


def test_atomics_of_all_ctas_do_not_race_but_with_weak_accesses_they_do() -> None:
    adds = [strong(w, True, "relaxed", 10, space="global", modifies=True) for w in (W[0], PEER[0])]
    assert codes([*adds, *ends(W[0], PEER[0])], APART) == set()
    weak = ev.Access(PEER[0], "global", -1, WORD, True, "generic", at(11))
    assert codes([adds[0], weak, *ends(W[0], PEER[0])], APART) == {"CL101"}
    narrow = [strong(w, True, "relaxed", 10, scope="cta", space="global", modifies=True) for w in (W[0], PEER[0])]
    assert codes([*narrow, *ends(W[0], PEER[0])], APART) == {"CL104"}


def test_what_an_unordered_strong_read_sees_is_doubted_unless_the_caller_follows_it() -> None:
    events = [strong(W[0], True, "relaxed", 10), strong(W[1], False, "relaxed", 11), *ends(*W[:2])]
    assert any("may differ between interleavings" in reason for reason in doubts(events))
    assert _doubts(events, follows=True) == ()
    ordered = [events[0], *cluster_sync(W[:2]), events[1], *ends(*W[:2])]
    assert doubts(ordered, Launch("k", (1, 1, 1), (64, 1, 1), ())) == ()
    adds = [strong(w, True, "relaxed", 10, modifies=True) for w in W[:2]]
    assert doubts([*adds, *ends(*W[:2])]) != ()
    assert _doubts([*adds, *ends(*W[:2])], unread=frozenset({at(10)})) == ()


def _doubts(
    events: list[ev.Event], *, follows: bool = False, unread: frozenset[ev.Span] = frozenset()
) -> tuple[str, ...]:
    judge = HappensBefore(ONE, follows_values=follows, unread=unread)
    for event in events:
        judge.feed(event)
    judge.finish()
    return judge.doubts
