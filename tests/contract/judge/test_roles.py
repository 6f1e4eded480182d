"""Roles of warps, and findings that name them."""

from __future__ import annotations

from tests.contract.event_stream import at
from tests.contract.judged_stream import BAR, TILE, W

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.plan import Launch
from tilewright.contract.judge.happens_before import HappensBefore
from tilewright.contract.judge.roles import Roles
from tilewright.machine.core import event as ev


def test_a_role_is_what_a_warp_issues() -> None:
    roles = Roles()
    roles.note(ev.WarpActor(0, 4), "load")
    roles.note(ev.WarpActor(0, 9), "wgmma")
    roles.note(ev.WarpActor(0, 5), "mma")
    roles.note(ev.WarpActor(0, 0), "tensor load")
    roles.note(ev.WarpActor(0, 0), "store")
    roles.note(ev.WarpActor(0, 1), "store")
    named = [roles.role(ev.WarpActor(0, warp)) for warp in (4, 9, 5, 0, 1, 2)]
    assert named == ["producer", "consumer warpgroup 2", "mma", "epilogue", "store", ""]
    roles.note(ev.WarpActor(0, 4), "wgmma")
    assert roles.role(ev.WarpActor(0, 4)) == ""
    assert len(roles.tasks) == 5


def test_words_with_roles() -> None:
    roles = Roles()
    roles.note(ev.WarpActor(0, 4), "load")
    found = roles.named(Diagnostic("TM101", "n", "CTA 0 warp 4 writes", None, interleaving=("CTA 0 warp 41 waits",)))
    assert found.message == "CTA 0 producer warp 4 writes"
    assert found.interleaving == ("CTA 0 warp 41 waits",)


def test_the_judges_findings_name_roles() -> None:
    judge = HappensBefore(Launch("k", (1, 1, 1), (64, 1, 1), ()))
    judge.feed(ev.CopyIssue(W[0], 0, ev.CopyActor(0), "load", (0,), TILE, 512, BAR, at(3)))
    judge.feed(ev.Access(W[1], "shared", 0, TILE, False, "generic", at(4)))
    messages = [finding.message for finding in judge.findings if finding.code == "MB111"]
    assert messages and "bulk copy 0 of CTA 0 producer warp 0" in messages[0]
