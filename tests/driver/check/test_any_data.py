"""A launch whose buffers' contents are open: proven where they may be anything, and not where some data breaks it."""

from __future__ import annotations

import pytest

from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 words) .reqntid 64
{{
    .reg .pred %p<10>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b8 full[8];
    .shared .align 8 .b8 other[8];
    .shared .align 4 .b8 shared_word[4];
    ld.param.u64 %rd1, [source];
    ld.param.u64 %rd2, [words];
    mov.u32 %r1, %tid.x;
    mov.u32 %r9, %nctaid.x;
    setp.ne.u32 %p1, %r1, 0;
    setp.ge.u32 %p2, %r1, 32;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [other], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    {body}
DONE:
    ret;
}}
"""
_PARAMS = [{"kind": "ptr", "bytes": 4096}, {"kind": "ptr", "bytes": 64, "buffer": "words"}]
_PHASE = """
    @!%p1 mbarrier.arrive.shared::cta.b64 _, [{0}];
W{0}: mbarrier.try_wait.parity.shared::cta.b64 %p3, [{0}], 0;
    @!%p3 bra W{0};
"""
_LOAD = """
    @%p1 bra LOADED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd3], 1024, [full];
LOADED:
W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;
    @!%p3 bra W;
"""
# Two roles that take as many turns as a word says.
_ROLES = """
    mov.u32 %r4, 0;
    @%p2 bra PRODUCE;
TAKE: setp.ge.u32 %p4, %r4, {0};  @%p4 bra DONE;
    and.b32 %r5, %r4, 1;
T: mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], %r5;  @!%p3 bra T;
    @!%p1 mbarrier.arrive.shared::cta.b64 _, [other];
    add.u32 %r4, %r4, 1;  bra TAKE;
PRODUCE:
    setp.ne.u32 %p5, %r1, 32;
FILL: setp.ge.u32 %p4, %r4, {1};  @%p4 bra DONE;
    and.b32 %r5, %r4, 1;  xor.b32 %r6, %r5, 1;
F: mbarrier.try_wait.parity.shared::cta.b64 %p3, [other], %r6;  @!%p3 bra F;
    @!%p5 mbarrier.arrive.shared::cta.b64 _, [full];
    add.u32 %r4, %r4, 1;  bra FILL;
"""
_TICKET = """
    @%p1 bra SHARE;
    atom.global.acq_rel.gpu.add.u32 %r2, [%rd2], 1;
    st.shared.u32 [shared_word], %r2;
SHARE:
    bar.sync 0;
    ld.shared.u32 %r3, [shared_word];
    add.u32 %r4, %r9, -1;
    setp.ne.u32 %p4, %r3, %r4;
    @%p4 bra DONE;
"""


def _checked(body: str, words: dict[str, object] | None = None) -> KernelReport:
    params = [_PARAMS[0], _PARAMS[1] | (words or {})]
    launch = launch_from_json({"grid": [4], "params": params}, "launch.json")
    (kernel,) = check_text(_KERNEL.format(body=body), "k.ptx", launch=launch).kernels
    return kernel


_ANY = {
    "a branch": "ld.global.u32 %r2, [%rd2]; setp.eq.u32 %p4, %r2, 7; @%p4 bra DONE;" + _PHASE.format("full"),
    "the last ticket of the grid": _TICKET + _PHASE.format("full"),
    "turns of two roles": "ld.global.u32 %r2, [%rd2]; and.b32 %r2, %r2, 3;" + _ROLES.format("%r2", "%r2"),
    "a word that each role reads": "ld.global.u32 %r2, [%rd2]; and.b32 %r2, %r2, 3; ld.global.u32 %r3, [%rd2]; "
    "and.b32 %r3, %r3, 3;" + _ROLES.format("%r2", "%r3"),
    "a place in a buffer that is written, too": "ld.global.u32 %r2, [%rd2]; and.b32 %r2, %r2, 3; "
    "mul.wide.u32 %rd3, %r2, 1024; add.u64 %rd3, %rd1, %rd3;" + _LOAD
    + "mov.u32 %r7, %ctaid.x; mad.lo.u32 %r7, %r7, 64, %r1; mul.wide.u32 %rd4, %r7, 4; add.u64 %rd4, %rd1, %rd4; "
    "st.global.u32 [%rd4+2048], %r1;",
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("body", _ANY.values(), ids=_ANY.keys())
def test_what_holds_for_any_data_is_proven_and_says_so(body: str) -> None:
    kernel = _checked(body)
    assert (kernel.verdict, kernel.scope) == ("proven", "this launch"), kernel.reasons
    assert any("what buffers hold decides" in each for each in kernel.assumptions)


_SOME = {
    "a branch that hangs": "ld.global.u32 %r2, [%rd2]; setp.ne.u32 %p4, %r2, 7; @%p4 bra DONE; "
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0; @!%p3 bra W;",
    "the last ticket hangs": _TICKET + "W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0; @!%p3 bra W;",
    "turns of two roles by two words": "ld.global.u32 %r2, [%rd2]; and.b32 %r2, %r2, 3; ld.global.u32 %r3, [%rd2+4]; "
    "and.b32 %r3, %r3, 3;" + _ROLES.format("%r2", "%r3"),
    "turns of two roles, one more": "ld.global.u32 %r2, [%rd2]; and.b32 %r2, %r2, 3; add.u32 %r3, %r2, 1;"
    + _ROLES.format("%r3", "%r2"),
    "a word that the kernel writes": "ld.global.u32 %r2, [%rd2]; and.b32 %r2, %r2, 3; @!%p1 st.global.u32 [%rd2], 5; "
    "ld.global.u32 %r3, [%rd2]; and.b32 %r3, %r3, 3;" + _ROLES.format("%r2", "%r3"),
    "a word that is waited for": "A: ld.acquire.gpu.global.u32 %r2, [%rd2]; setp.eq.u32 %p4, %r2, 0; @%p4 bra A;"
    + _PHASE.format("full"),
    "bytes that a word says": "ld.global.u32 %r2, [%rd2]; @!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], "
    "%r2; W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0; @!%p3 bra W;",
}  # fmt: skip


@pytest.mark.parametrize("body", _SOME.values(), ids=_SOME.keys())
def test_what_some_data_breaks_is_not_proven(body: str) -> None:
    assert _checked(body).verdict != "proven"


def test_data_that_is_given_is_that_data() -> None:
    hangs = _SOME["a branch that hangs"]
    assert _checked(hangs, {"data": [7], "dtype": "u32"}).verdict == "refuted"
    kernel = _checked(hangs, {"data": [6], "dtype": "u32"})
    assert kernel.verdict == "proven"
    assert not any("what buffers hold decides" in each for each in kernel.assumptions)
