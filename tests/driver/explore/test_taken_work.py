"""Kernels that take over other clusters' work: which one, and how often, is not the text's to say."""

from __future__ import annotations

import pytest

from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_TEXT = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u32 n) .reqntid 64 .explicitcluster .reqnctapercluster 1, 1, 1
{
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<4>; .reg .b128 %q;
.shared .align 16 .b8 response[16];
.shared .align 8 .b64 bar[2];
ld.param.u32 %r9, [n];
mov.u32 %r1, %tid.x;
mov.u32 %r2, 0;
mov.u32 %r3, 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra INITED;
mbarrier.init.shared::cta.b64 [bar], 1;
mbarrier.init.shared::cta.b64 [bar+8], 1;
INITED:
AGAIN:
SYNC
@%p1 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [response], [bar];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r2;
@!%p2 bra WAIT;
xor.b32 %r2, %r2, 1;
add.u32 %r3, %r3, 1;
ld.shared.v2.b64 {%rd1, %rd2}, [response];
mov.b128 %q, {%rd1, %rd2};
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q;
mov.u32 %r4, -1;
@%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r4, %q;
setp.eq.s32 %p4, %r4, -1;
@%p4 bra END;
CHECK
@!%p5 bra AGAIN;
HANG:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar+8], 0;
@!%p2 bra HANG;
END:
ret;
}
"""
_SYNC = "fence.proxy.async.shared::cta;\nbar.sync 0;"
_BUGGY = {
    "the response is overwritten while it is read": ("bar.warp.sync -1;", "setp.lt.s32 %p5, %r4, -1;"),
    "one cluster's work": (_SYNC, "setp.eq.s32 %p5, %r4, 5;"),
    "a number decides once work was taken": (_SYNC, "setp.eq.s32 %p5, %r9, 777;"),
    "a number decides once work was taken twice": (
        _SYNC, "setp.eq.s32 %p6, %r3, 2; setp.eq.and.s32 %p5, %r9, 777, %p6;"
    ),
}  # fmt: skip


def _verdict(sync: str, check: str) -> str:
    text = _TEXT.replace("SYNC", sync, 1).replace("CHECK", check)
    (report,) = check_text(text, "k.ptx").kernels
    return report.verdict


@pytest.mark.sample(2)
@pytest.mark.parametrize(("sync", "check"), _BUGGY.values(), ids=_BUGGY)
def test_what_taken_work_brings_is_not_proven_away(sync: str, check: str) -> None:
    assert _verdict(sync, check) != "proven"


_NEVER = "setp.lt.s32 %p5, %r4, -1;"
_LATE = {
    "the third": "setp.eq.u32 %p5, %r3, 3;",
    "the fortieth": "setp.eq.u32 %p5, %r3, 40;",
    "the sixth, where a number says so": "setp.eq.u32 %p6, %r3, 6; setp.eq.and.u32 %p5, %r9, 777, %p6;",
    "every fifth": "rem.u32 %r5, %r3, 5; setp.eq.u32 %p5, %r5, 4;",
}
_GRID = {"grid": [64], "params": [{"kind": "i32", "value": 777}]}


@pytest.mark.sample(2)
@pytest.mark.parametrize("check", _LATE.values(), ids=_LATE)
def test_what_fails_once_much_work_was_taken_is_refuted(check: str) -> None:
    """Without a launch, and with one in which there is so much work to take."""
    text = _TEXT.replace("SYNC", _SYNC, 1).replace("CHECK", check)
    for launch in (None, launch_from_json(_GRID, "launch.json")):
        (report,) = check_text(text, "k.ptx", launch=launch).kernels
        assert (report.verdict, {each.code for each in report.errors}) == ("refuted", {"MB113"}), report.reasons


def test_a_proof_is_for_however_much_work_is_taken() -> None:
    text = _TEXT.replace("SYNC", _SYNC, 1).replace("CHECK", _NEVER)
    for launch in (None, launch_from_json(_GRID, "launch.json")):
        (report,) = check_text(text, "k.ptx", launch=launch).kernels
        assert report.verdict == "proven", report.reasons
        assert not any("takes over" in each for each in (*report.ranges, *report.assumptions))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_grids_that_have_little_to_take_are_explored_as_well(count: int) -> None:
    """At one size of the grid the kernel hangs, whatever it takes."""
    first = f"mov.u32 %r5, %nctaid.x;\nsetp.eq.u32 %p5, %r5, {count};\n@%p5 bra HANG;\nAGAIN:"
    text = _TEXT.replace("SYNC", _SYNC, 1).replace("CHECK", _NEVER).replace("AGAIN:", f"bar.sync 0;\n{first}", 1)
    (report,) = check_text(text, "k.ptx").kernels
    assert report.verdict == "refuted", report.reasons


def test_a_ring_over_taken_work_repeats_itself() -> None:
    """Three responses, one after the other: a parity that never changes is for the fourth cluster's work to show."""
    ring = (
        "setp.eq.u32 %p6, %r6, 2;\nadd.u32 %r6, %r6, 1;\nselp.u32 %r6, 0, %r6, %p6;\nselp.u32 %r7, 1, 0, %p6;\nPARITY\n"
    )
    work = (
        "@!%p1 mbarrier.arrive.shared::cta.b64 _, [%r8];\nRING:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r8], %r10;\n@!%p7 bra RING;\n"
    )
    place = "mov.u32 %r8, more;\nshl.b32 %r11, %r6, 3;\nadd.u32 %r8, %r8, %r11;\n"
    inits = "".join(f"mbarrier.init.shared::cta.b64 [more+{8 * each}], 1;\n" for each in range(3))
    text = _TEXT.replace("SYNC", f"{_SYNC}\n{place}{work}{ring}", 1).replace("CHECK", _NEVER)
    text = text.replace("INITED:", f"{inits}INITED:\nmov.u32 %r6, 0;\nmov.u32 %r10, 0;", 1)
    text = text.replace(
        ".shared .align 8 .b64 bar[2];", ".shared .align 8 .b64 bar[2];\n.shared .align 8 .b64 more[3];"
    )
    verdicts = [
        check_text(text.replace("PARITY", parity), "k.ptx").kernels[0].verdict
        for parity in ("", "xor.b32 %r10, %r10, %r7;")
    ]
    assert verdicts == ["refuted", "proven"]


_ONCE_MORE = """bra END;
ONCE:
bar.sync 0;
@%p1 bra LAST;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [response], [bar];
LAST:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r2;
@!%p2 bra LAST;
END:
"""


def test_work_is_not_asked_for_once_there_was_none() -> None:
    """The ISA leaves a request undefined whose CTA has seen an earlier one fail."""
    text = _TEXT.replace("SYNC", _SYNC, 1).replace("CHECK", "setp.lt.s32 %p5, %r4, -1;")
    text = text.replace("@%p4 bra END;", "@%p4 bra ONCE;").replace("END:\n", _ONCE_MORE)
    (report,) = check_text(text, "k.ptx").kernels
    assert report.verdict == "unknown"
    assert "there is none left" in report.reasons[0]
