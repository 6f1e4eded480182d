"""Programmatic dependent launch: what a kernel touches before it has waited for the grids before it."""

from __future__ import annotations

from dataclasses import replace

from tests.contract.event_stream import at
from tests.contract.judged_stream import ONE, W, codes, ends, levels, sync

from tilewright.base.diagnostic import Level
from tilewright.contract.judge.happens_before import HappensBefore
from tilewright.contract.rules.interpretations import strict, tolerant
from tilewright.machine.core import event as ev

READ = ev.Access(W[0], "global", -1, ((1 << 40, (1 << 40) + 4),), False, "generic", at(10))
WAIT = ev.GridDependency(W[0], "wait", at(5))
LAUNCH = ev.GridDependency(W[0], "launch_dependents", at(6))


def test_global_memory_is_touched_after_the_wait() -> None:
    assert codes([WAIT, READ, *ends(W[0])]) == set()
    assert codes([READ, WAIT, *ends(W[0])]) == {"GD101"}
    assert levels([READ, WAIT, *ends(W[0])], tolerant()) == {Level.REVIEW}
    assert levels([READ, WAIT, *ends(W[0])], strict()) == {Level.ERROR}


def test_another_warps_wait_counts_once_it_is_known() -> None:
    other = ev.GridDependency(W[1], "wait", at(5))
    assert codes([other, *sync(W[:2]), READ, *ends(*W[:2])]) == set()
    assert codes([other, READ, *ends(*W[:2])]) == {"GD101"}


def test_dependents_let_go_without_a_wait() -> None:
    assert codes([LAUNCH, READ, *ends(W[0])]) == {"GD102"}
    assert codes([READ, *ends(W[0])]) == set()
    assert codes([LAUNCH, *ends(W[0])]) == set()
    assert codes([WAIT, LAUNCH, READ, *ends(W[0])]) == set()


def test_a_launch_that_may_begin_early_waits() -> None:
    early = replace(ONE, programmatic=True)
    assert codes([READ, *ends(W[0])], early) == {"GD102"}
    assert codes([WAIT, READ, *ends(W[0])], early) == set() == codes(ends(W[0]), early)


def test_copies_count_for_their_issuer() -> None:
    copy = ev.CopyActor(0)
    issue = [
        ev.CopyIssue(W[0], 0, copy, "store", (0,), ((0, 64),), 64, None, at(12)),
        ev.Access(copy, "global", -1, ((1 << 40, (1 << 40) + 64),), True, "async", at(12)),
        ev.BulkCommit(W[0], 0, 0, (copy,), at(13)),
        ev.BulkWait(W[0], 0, 0, False, at(14)),
    ]
    assert codes([WAIT, *issue, *ends(W[0])]) == set()
    assert codes([*issue, WAIT, *ends(W[0])]) == {"GD101"}
    # Issued before the wait, carried out after it, which nothing makes it wait for.
    assert codes([issue[0], WAIT, *issue[1:], *ends(W[0])]) == {"GD101"}


def test_a_load_may_be_carried_out_before_the_wait_that_follows_it() -> None:
    copy = ev.AsyncCopyIssue(W[0], 1, ev.CopyActor(0), ((0, 4),), at(12))
    read = ev.Access(ev.CopyActor(0), "global", -1, ((1 << 40, (1 << 40) + 4),), False, "generic", at(12))
    assert "GD101" not in codes([WAIT, copy, read, *ends(W[0])])
    assert "GD101" in codes([copy, WAIT, read, *ends(W[0])])


def test_a_load_that_only_asks_for_boxes_may_come_before_the_wait() -> None:
    write = replace(READ, write=True)
    for asking, event, found in ((READ.span, READ, set()), (at(11), READ, {"GD101"}), (write.span, write, {"GD101"})):
        judge = HappensBefore(ONE, strict(), asking=frozenset({asking}))
        for each in (event, WAIT, *ends(W[0])):
            judge.feed(each)
        assert {finding.code for finding in judge.finish()} == found
