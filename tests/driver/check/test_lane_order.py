"""What lanes and warps leave in shared memory by chance must not decide whether a kernel hangs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.coverage_attacks.hanging import checked, hanging

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.taint.lane_order import same_in_any_order

_FIRST = "setp.ge.u32 %p_far, %r_tid, 32; mov.pred %p_bug, 0; @%p_far bra M; and.b32 %r_l, %r_tid, 31; "
_ALONE = "setp.eq.u32 %p_a, %r_l, 0; "
_ZERO = f"{_ALONE}@%p_a st.shared.u32 [%r_buf], 0; bar.warp.sync -1; "
_BUGGY = {
    "one of 32 numbers stays": "st.shared.u32 [%r_buf], %r_l; bar.warp.sync -1; ld.shared.u32 %r_x, [%r_buf]; "
    "setp.eq.u32 %p_bug, %r_x, 0;",
    "one of two numbers stays in each of two places": "and.b32 %r_y, %r_l, 1; shl.b32 %r_y, %r_y, 4; "
    "add.u32 %r_y, %r_y, %r_buf; and.b32 %r_z, %r_l, 2; st.shared.v2.u32 [%r_y], {%r_l, %r_z}; bar.warp.sync -1; "
    "ld.shared.u32 %r_x, [%r_buf+4]; setp.eq.u32 %p_bug, %r_x, 0;",
    "a ticket of another lane": f"{_ZERO}atom.shared.add.u32 %r_x, [%r_buf], 1; setp.eq.u32 %p_a, %r_l, 6; "
    "setp.eq.and.u32 %p_bug, %r_x, 5, %p_a;",
    "what the last lane left": f"{_ZERO}atom.shared.exch.b32 %r_y, [%r_buf], %r_l; bar.warp.sync -1; "
    "ld.shared.u32 %r_x, [%r_buf]; setp.eq.u32 %p_bug, %r_x, 5;",
    "extremes with a sign and without": f"{_ALONE}mov.u32 %r_y, 5; @%p_a st.shared.u32 [%r_buf], %r_y; "
    "bar.warp.sync -1; mov.u32 %r_y, -1; @%p_a red.shared.min.s32 [%r_buf], %r_y; setp.eq.u32 %p_a, %r_l, 1; "
    "mov.u32 %r_y, 3; @%p_a red.shared.min.u32 [%r_buf], %r_y; bar.warp.sync -1; ld.shared.u32 %r_x, [%r_buf]; "
    "setp.eq.u32 %p_bug, %r_x, -1;",
}  # fmt: skip
_FIXED = {
    "all store the same": "mov.u32 %r_y, 7; st.shared.u32 [%r_buf], %r_y; bar.warp.sync -1; "
    "ld.shared.u32 %r_x, [%r_buf]; setp.eq.u32 %p_bug, %r_x, 0;",
    "one stores": f"{_ALONE}add.u32 %r_y, %r_l, 1; @%p_a st.shared.u32 [%r_buf], %r_y; bar.warp.sync -1; "
    "ld.shared.u32 %r_x, [%r_buf]; setp.eq.u32 %p_bug, %r_x, 0;",
    "each has a place": "shl.b32 %r_y, %r_l, 2; add.u32 %r_y, %r_y, %r_buf; st.shared.u32 [%r_y], %r_l; "
    "bar.warp.sync -1; ld.shared.u32 %r_x, [%r_buf+124]; setp.eq.u32 %p_bug, %r_x, 0;",
    "a sum is the same in any order": f"{_ZERO}red.shared.add.u32 [%r_buf], %r_l; bar.warp.sync -1; "
    "ld.shared.u32 %r_x, [%r_buf]; setp.eq.u32 %p_bug, %r_x, 5;",
}  # fmt: skip


@pytest.mark.parametrize("body", _BUGGY.values(), ids=_BUGGY)
def test_what_is_left_by_chance_is_not_proven_away(body: str) -> None:
    report = checked(hanging(f"{_FIRST}{body} M: mov.u32 %r_m, 0;", ()))
    assert report.verdict == "unknown"


@pytest.mark.parametrize("body", _FIXED.values(), ids=_FIXED)
def test_what_is_the_same_in_any_order_is_known(body: str) -> None:
    report = checked(hanging(f"{_FIRST}{body} M: mov.u32 %r_m, 0;", ()))
    assert report.verdict == "proven", report.reasons


def test_tickets_of_several_warps_are_known_to_nobody() -> None:
    body = (
        "@%p_other bra M; st.shared.u32 [%r_buf], 0; M: bar.sync 0; shr.u32 %r_w, %r_tid, 5; and.b32 %r_l, %r_tid, 31; "
        "mov.pred %p_bug, 0; setp.ne.u32 %p_a, %r_l, 0; @%p_a bra N; atom.shared.add.u32 %r_x, [%r_buf], 1; "
        "setp.ne.u32 %p_bug, %r_x, %r_w; N: mov.u32 %r_m, 0;"
    )
    assert checked(hanging(body, ())).verdict == "unknown"


@pytest.mark.parametrize(
    ("operations", "same"),
    [
        (("red.shared.add.u32", "red.shared.add.s32"), True),
        (("red.shared.add.noftz.bf16x2",), False),
        (("red.shared.add.f32",), False),
        (("red.shared.min.s32", "red.shared.min.u32"), False),
        (("red.shared.min.s32", "red.shared.min.s32"), True),
        (("red.shared.add.u32", "red.shared.add.u64"), False),
        (("red.shared.inc.u32",), False),
    ],
)
def test_which_operations_are_the_same_in_any_order(operations: tuple[str, ...], same: bool) -> None:
    span = Span("k.ptx", 1)
    instructions = [Instruction(each, "red", tuple(each.split(".")[1:]), (), None, span) for each in operations]
    facts = [SimpleNamespace(space="shared") for _ in operations]
    assert same_in_any_order(instructions, facts) == same
