"""What stands beside an error that the text allows is judged as well."""

from __future__ import annotations

import pytest

from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

KERNEL = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u32 trips) .reqntid 64
{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    .shared .align 128 .b8 words[256];
    .shared .align 8 .b8 full[8];
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r5, [trips];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, words;
    mad.lo.u32 %r3, %r1, 4, %r2;
    xor.b32 %r4, %r1, 32;
    mad.lo.u32 %r4, %r4, 4, %r2;
    setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.shared::cta.b64 [full], 64;
    FIRST
    bar.sync 0;
    SECOND
    ret;
}
"""
RACE = "st.shared.u32 [%r3], %r1;{comment}\n    ld.shared.u32 %r6, [%r4];"
ALLOW = "  // tilewright: allow[{codes}] because it is a test"
LAUNCH = {"params": [{"kind": "ptr", "bytes": 256}, {"kind": "i32", "value": 3}], "grid": [9, 1, 1]}


def checked(first: str, second: str, launched: bool) -> KernelReport:
    launch = launch_from_json(LAUNCH, "launch.json") if launched else None
    text = KERNEL.replace("FIRST", first).replace("SECOND", second)
    (kernel,) = check_text(text, launch=launch).kernels
    return kernel


@pytest.mark.parametrize("launched", [True, False])
def test_an_allowed_race_alone_is_an_assumption(launched: bool) -> None:
    comment = ALLOW.format(codes="NB101")
    assert checked(RACE.format(comment=""), "", launched).verdict == "refuted"
    kernel = checked(RACE.format(comment=comment), "", launched)
    assert kernel.verdict == "proven" and kernel.suppressed
    assert any("is allowed: it is a test" in line for line in kernel.assumptions)


@pytest.mark.parametrize("launched", [True, False])
def test_another_race_beside_it_refutes(launched: bool) -> None:
    kernel = checked(RACE.format(comment=ALLOW.format(codes="NB101")), RACE.format(comment=""), launched)
    assert kernel.verdict == "refuted" and kernel.suppressed


@pytest.mark.parametrize("launched", [True, False])
def test_an_allowed_error_of_one_choice_hides_none_of_another(launched: bool) -> None:
    """The race that nobody allows needs three trips, or is in a CTA that comes late."""
    late = "setp.lt.u32 %p3, %r5, 3;\n    @%p3 bra DONE;\n    " + RACE.format(comment="") + "\nDONE:"
    kernel = checked(RACE.format(comment=ALLOW.format(codes="NB101")), late, launched)
    assert kernel.verdict == "refuted"
    elsewhere = "mov.u32 %r7, %ctaid.x;\n    setp.ne.u32 %p3, %r7, 8;\n    @%p3 bra DONE;\n    "
    if launched:
        late = elsewhere + RACE.format(comment="") + "\nDONE:"
        assert checked(RACE.format(comment=ALLOW.format(codes="NB101")), late, launched).verdict == "refuted"


@pytest.mark.parametrize("launched", [True, False])
def test_what_follows_an_allowed_hang_is_unknown(launched: bool) -> None:
    waits = """mbarrier.arrive.shared::cta.b64 _, [full];
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;COMMENT
    @!%p2 bra AGAIN;"""
    hangs = waits.replace("mbarrier.arrive", "@%p1 mbarrier.arrive")
    assert checked("", waits.replace("COMMENT", ""), launched).verdict == "proven"
    found = checked("", hangs.replace("COMMENT", ""), launched)
    assert found.verdict == "refuted"
    codes = ",".join(sorted({finding.code for finding in found.errors}))
    kernel = checked("", hangs.replace("COMMENT", ALLOW.format(codes=codes)), launched)
    assert kernel.verdict == "unknown" and "the run ended at a finding" in " ".join(kernel.reasons)
