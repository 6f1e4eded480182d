"""cp.async by short streams of events: groups, deferred arrivals and proxy fences."""

from __future__ import annotations

from tests.contract.event_stream import at
from tests.contract.judged_stream import BAR, TILE, W, access, codes, end, ends, init, sync, wait

from tilewright.machine.core import event as ev

COPY = ev.CopyActor(0)
ALL = 0xFFFF_FFFF


def issue(number: int = 0, line: int = 10, ranges: ev.Ranges = TILE, lanes: int = ALL) -> ev.AsyncCopyIssue:
    return ev.AsyncCopyIssue(W[0], lanes, ev.CopyActor(number), ranges, at(line))


def landed(number: int = 0, ranges: ev.Ranges = TILE, lanes: int = ALL) -> ev.Access:
    return ev.Access(ev.CopyActor(number), "shared", 0, ranges, True, "generic", at(10), lanes=lanes)


def commit(lanes: int = ALL) -> ev.AsyncCopyCommit:
    return ev.AsyncCopyCommit(W[0], lanes, at(11))


def waited(pending: int, lanes: int = ALL, everything: bool = False) -> ev.AsyncCopyWait:
    return ev.AsyncCopyWait(W[0], lanes, pending, everything, at(12))


def test_a_group_is_waited_for_before_its_bytes_are_used() -> None:
    one = [issue(), commit(), landed()]
    use = [access(W[0], False, 20), *ends(W[0])]
    assert codes([*one, waited(0), *use]) == set()
    assert codes([*one, waited(1), *use]) == {"BG105", "BG104"}
    assert codes([issue(), landed(), waited(0), commit(), *use]) == {"BG105", "BG104"}
    assert codes([issue(), landed(), waited(0, everything=True), *use]) == set()


def test_the_newest_groups_may_remain() -> None:
    other = ((1024, 1536),)
    two = [issue(0), commit(), issue(1, ranges=other), commit(), landed(0), landed(1, other), waited(1)]
    finish = [waited(0), *ends(W[0])]
    assert codes([*two, access(W[0], False, 20), *finish]) == set()
    assert codes([*two, access(W[0], False, 20, other), *finish]) == {"BG105"}


def test_others_need_a_barrier_after_the_wait() -> None:
    one = [issue(), commit(), landed()]
    read = access(W[1], False, 20)
    assert codes([*one, waited(0), *sync(W[:2]), read, *ends(*W[:2])]) == set()
    assert codes([*one, *sync(W[:2]), waited(0), read, *ends(*W[:2])]) == {"BG105"}


def test_lanes_wait_for_themselves() -> None:
    half, rest = 0xFFFF, 0xFFFF_0000
    one = [issue(), commit(half), commit(rest), landed()]
    use = [access(W[0], False, 20), *ends(W[0])]
    assert codes([*one, waited(0, half), waited(0, rest), *use]) == set()
    assert codes([*one, waited(0, half), *use]) == {"BG105", "BG104"}


def deferred(copies_before: bool, no_increment: bool = True) -> list[ev.Event]:
    """A deferred arrival hands a copy over to warp 1."""
    arrive = ev.AsyncCopyArriveIssue(W[0], ALL, 0, at(13))
    counts = ev.AsyncCopyArrive(W[0], ALL, 0, BAR, 0, 32, no_increment, at(13), 0)
    extra = [] if no_increment else [ev.BarrierArrive(W[0], 0, BAR, 0, 32, 0, at(14))]
    made = [issue(), arrive] if copies_before else [arrive, issue()]
    return [init(32), *sync(W[:2]), *made, landed(), *extra, counts, end(0), wait(W[1], 0, 15)]


def test_a_deferred_arrival_hands_over_the_copies_before_it() -> None:
    use = [access(W[1], False, 20), *ends(*W[:2])]
    assert codes([*deferred(True), *use]) == set()
    assert codes([*deferred(True, no_increment=False), *use]) == set()
    assert codes([*deferred(False), *use]) == {"BG105", "BG104"}


def test_a_deferred_arrival_on_no_barrier() -> None:
    arrive = ev.AsyncCopyArriveIssue(W[0], ALL, 0, at(13))
    counts = ev.AsyncCopyArrive(W[0], ALL, 0, BAR, 0, 32, True, at(13), 0)
    assert codes([arrive, counts, *ends(W[0])]) == {"MB101"}


def test_an_engine_needs_a_proxy_fence_after_the_wait() -> None:
    one = [issue(), commit(), landed()]
    store = ev.CopyIssue(W[1], 0, ev.CopyActor(5), "store", (0,), TILE, 512, None, at(30))
    finish = [ev.BulkCommit(W[1], 0, 0, (ev.CopyActor(5),), at(31)), ev.BulkWait(W[1], 0, 0, True, at(32))]
    fence = ev.ProxyFence(W[0], "shared", at(13))
    late = ev.ProxyFence(W[1], "shared", at(14))
    rest = [*sync(W[:2]), store, *finish, *ends(*W[:2])]
    assert codes([*one, waited(0), fence, *rest]) == set()
    assert codes([*one, waited(0), *rest]) == {"PX103"}
    assert codes([*one, fence, waited(0), *rest]) == {"PX103"}
    assert codes([*one, waited(0), *sync(W[:2]), late, store, *finish, *ends(*W[:2])]) == set()


def test_a_copy_over_what_is_still_read() -> None:
    assert codes([access(W[1], False, 5), issue(), commit(), landed(), waited(0), *ends(*W[:2])]) == {"NB101"}
    ordered = [access(W[1], False, 5), *sync(W[:2]), issue(), commit(), landed(), waited(0)]
    assert codes([*ordered, *ends(*W[:2])]) == set()
