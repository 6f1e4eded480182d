"""Operands that are another expression in each iteration, since loops add up what inputs say."""

from __future__ import annotations

import pytest
from tests.coverage_attacks.hanging import checked, hanging

from tilewright.driver.explore.in_any_iteration import WrittenAround, keeps
from tilewright.frontends.ptx.ast import Immediate, Register
from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.slice_flow import flow_of

_LOOP = (
    "mov.u32 %r_i, 0; mov.u32 %r_b, 0; mov.u32 %r_c, 0; mov.u32 %r_z, 0; and.b32 %r_d, %r_n, 255; mov.pred %p_bug, 0; "
    "@%p_other bra M; L: setp.ge.u32 %p_e, %r_i, %r_m; @%p_e bra K; "
    "CALC mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bar+8], %r_z; "
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar+8], %r_b; @!%p_w bra W; xor.b32 %r_b, %r_b, 1; "
    "STEP add.u32 %r_i, %r_i, 1; bra L; K: M: mov.u32 %r_y, 0;"
)
_ASSUMED = "what loops add up stays below 2^30"
_REST = "rem.u32 %r_x, %r_c, 3; shr.u32 %r_z, %r_x, 2; "
"""Bytes of which there are none, whatever was added up."""
_ADD = "add.u32 %r_c, %r_c, %r_d; "


def _kernel(calc: str, step: str) -> str:
    return hanging(_LOOP.replace("CALC", calc).replace("STEP", step), ("n", "m"))


_FIXED = {
    "a rest": (_REST, _ADD),
    "a rest of the sum and a count": (
        "add.u32 %r_v, %r_c, %r_i; rem.u32 %r_x, %r_v, 3; shr.u32 %r_z, %r_x, 2; ", _ADD
    ),
    "a signed rest": (
        "mul.hi.s32 %r_v, %r_c, 1431655766; shr.u32 %r_u, %r_v, 31; add.s32 %r_t, %r_v, %r_u; "
        "mul.lo.s32 %r_s, %r_t, 3; sub.s32 %r_x, %r_c, %r_s; shr.u32 %r_z, %r_x, 2; ",
        _ADD,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _FIXED)
def test_what_no_sum_gives_is_proven(name: str) -> None:
    report = checked(_kernel(*_FIXED[name]))
    assert report.verdict == "proven", report.reasons
    assert any(_ASSUMED in each for each in report.assumptions)


_AT = "setp.ne.u32 %p_a, %r_i, %r_n; @%p_a bra C; "
_HIGH = "shr.u32 %r_x, %r_c, 31; shl.b32 %r_z, %r_x, 4; "
"""Sixteen bytes, which nobody copies, of a number that no sum comes to."""
_BUGGY = {
    "another number in an iteration that a launch chooses": (_HIGH, f"{_AT}mov.u32 %r_c, 0x80000000; C: {_ADD}"),
    "another step in such an iteration": (_HIGH, f"{_AT}add.u32 %r_c, %r_c, 0x80000000; C: {_ADD}"),
    "what is added is another one then": (_HIGH, f"{_AT}mov.u32 %r_d, 0x80000000; C: {_ADD}"),
    "a copy is another one then": (
        f"mov.u32 %r_v, %r_c; {_AT}mov.u32 %r_v, 0x80000000; C: shr.u32 %r_x, %r_v, 31; shl.b32 %r_z, %r_x, 4; ", _ADD
    ),
    "what is computed is another one then": (
        f"add.u32 %r_v, %r_c, 1; {_AT}mov.u32 %r_v, 0x80000000; C: shr.u32 %r_x, %r_v, 31; shl.b32 %r_z, %r_x, 4; ",
        _ADD,
    ),
    "a sum that some iteration comes to": (
        "setp.ge.u32 %p_a, %r_c, 50000; selp.u32 %r_z, 16, 0, %p_a; ", _ADD
    ),
    "a sum that goes down": (_HIGH, "sub.u32 %r_c, %r_c, %r_d; "),
    "a large step": (_HIGH, "shl.b32 %r_x, %r_d, 28; add.u32 %r_c, %r_c, %r_x; "),
    "a doubled sum": (_HIGH, "add.u32 %r_c, %r_c, %r_c; add.u32 %r_c, %r_c, %r_d; "),
}  # fmt: skip


@pytest.mark.parametrize("name", _BUGGY)
def test_what_some_iteration_gives_is_never_passed_over(name: str) -> None:
    assert checked(_kernel(*_BUGGY[name])).verdict != "proven"


def _keeps(step: str, *, by: int = 0) -> bool:
    """Whether `%r_c` only goes on by `%r_d`, or by multiples of a number, in the loop."""
    flow = flow_of(read(_kernel("add.u32 %r_x, %r_c, 77; add.u32 %r_x, %r_d, 78; ", step), "k.ptx").kernels[0])
    names: dict[int, str] = {}
    inside = 0
    for at, item in enumerate(flow.instructions):
        match item.operands:
            case (_, Register(name), Immediate(77 | 78 as mark)):
                names[mark], inside = name, at
            case _:
                pass
    return keeps(WrittenAround(flow, inside), names[77], 0, by=by, step_register="" if by else names[78])


@pytest.mark.parametrize(
    "step", [_ADD, "add.u32 %r_c, %r_d, %r_c; ", f"{_AT}{_ADD}C: ", f"{_AT}mov.u32 %r_c, 0; C: {_ADD}"]
)
def test_sums_that_go_on(step: str) -> None:
    assert _keeps(step)


@pytest.mark.parametrize(
    "step",
    [
        f"{_AT}mov.u32 %r_c, 1; C: {_ADD}",
        f"{_AT}add.u32 %r_c, %r_c, 3; C: {_ADD}",
        f"{_AT}add.u32 %r_c, %r_c, %r_i; C: {_ADD}",
        f"{_AT}ld.shared.u32 %r_c, [%r_buf]; C: {_ADD}",
        f"{_ADD}mad.lo.u32 %r_c, %r_c, %r_d, %r_c; ",
        "sub.u32 %r_c, %r_c, %r_d; ",
        "add.u32 %r_c, %r_d, %r_d; ",
        "",
    ],
)
def test_sums_that_something_else_writes(step: str) -> None:
    assert not _keeps(step)


@pytest.mark.parametrize("step", ["add.u32 %r_c, %r_c, 6; ", f"{_AT}mov.u32 %r_c, 9; C: add.u32 %r_c, %r_c, 3; "])
def test_counts_that_go_on(step: str) -> None:
    assert _keeps(step, by=3)


@pytest.mark.parametrize(
    "step",
    [
        "add.u32 %r_c, %r_c, 4; ",
        "add.u32 %r_c, %r_c, -3; ",
        "add.u32 %r_c, %r_c, %r_d; ",
        "add.u32 %r_c, %r_x, 3; ",
        f"{_AT}mov.u32 %r_c, 8; C: add.u32 %r_c, %r_c, 3; ",
        f"{_AT}mov.u32 %r_c, 0x60000000; C: add.u32 %r_c, %r_c, 3; ",
    ],
)
def test_counts_that_something_else_writes(step: str) -> None:
    assert not _keeps(step, by=3)
