"""Counters that are used behind their loop: what the launches of one period cover, and what they do not."""

from __future__ import annotations

import pytest
from tests.driver.checked_kernels import pipe

from tilewright.base.verdict import Proven, Unknown
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.explore.judge_unlaunched import judge_unlaunched


def _behind(code: str) -> Proven | Unknown | object:
    """The verdict on the pipeline, whose loops count in %r4, with code behind them that may wait forever."""
    never = "    mbarrier.try_wait.parity.shared::cta.b64 %p6, [bars+24], 0;\n"
    never += "    @%p6 bra LOST;\n    bra HANG;\nLOST:\n"
    module, kernel = pipe("DONE:\n", f"DONE:\n{code}    @!%p5 bra LOST;\nHANG:\n{never}")
    return judge_unlaunched(module, kernel, tolerant()).verdict


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [200, 5000])
def test_a_counter_that_is_compared_behind_its_loop_is_not_proven_away(number: int) -> None:
    verdict = _behind(f"    setp.eq.u32 %p5, %r4, {number};\n")
    assert isinstance(verdict, Unknown)
    assert any("compared after it" in reason for reason in verdict.reasons)


def test_a_remainder_that_the_period_does_not_divide_is_not_proven_away() -> None:
    verdict = _behind("    rem.u32 %r20, %r4, 300;\n    setp.eq.u32 %p5, %r20, 299;\n")
    assert isinstance(verdict, Unknown)
    assert any("is divided by 300" in reason for reason in verdict.reasons)


def test_a_remainder_that_comes_back_with_the_period_is_covered() -> None:
    verdict = _behind("    and.b32 %r20, %r4, 1;\n    setp.eq.u32 %p5, %r20, 2;\n")
    assert isinstance(verdict, Proven), verdict


def test_what_two_uses_of_a_counter_leave_of_it_is_covered() -> None:
    rounded = "    shr.s32 %r20, %r4, 31;\n    shr.u32 %r21, %r20, 30;\n    add.s32 %r22, %r4, %r21;\n"
    rounded += "    and.b32 %r23, %r22, -2;\n    sub.s32 %r24, %r4, %r23;\n"
    verdict = _behind(f"{rounded}    setp.eq.s32 %p5, %r24, 2;\n")
    assert isinstance(verdict, Proven), verdict
    later = rounded.replace("%r4", "%r25").replace("    shr.s32", "    add.s32 %r25, %r4, 1;\n    shr.s32", 1)
    assert isinstance(_behind(f"{later}    setp.eq.s32 %p5, %r24, 2;\n"), Proven)


def test_two_uses_of_a_counter_that_drift_apart_are_not_proven_away() -> None:
    doubled = "    shl.b32 %r20, %r4, 1;\n    sub.s32 %r21, %r20, %r4;\n    setp.eq.s32 %p5, %r21, 5000;\n"
    assert isinstance(_behind(doubled), Unknown)
    guarded = "    setp.ne.u32 %p4, %r2, 77;\n    mov.u32 %r20, %r4;\n    @%p4 mov.u32 %r20, 0;\n"
    assert isinstance(_behind(f"{guarded}    setp.eq.s32 %p5, %r20, 5000;\n"), Unknown)


def test_a_sign_that_a_counter_may_lose_is_not_proven_away() -> None:
    negative = "    sub.s32 %r20, %r4, 5000;\n    shr.s32 %r21, %r20, 31;\n    setp.eq.s32 %p5, %r21, 0;\n"
    verdict = _behind(negative)
    assert isinstance(verdict, Unknown)
    assert any("approaches zero" in reason for reason in verdict.reasons), verdict.reasons


def test_a_counter_in_a_loop_behind_its_loop_ends() -> None:
    grows = "    mov.u32 %r21, 0;\nAGAIN:\n    shl.b32 %r4, %r4, 1;\n    add.u32 %r4, %r4, 3;\n"
    grows += "    add.u32 %r21, %r21, 1;\n    setp.lt.u32 %p4, %r21, 9;\n    @%p4 bra AGAIN;\n"
    assert isinstance(_behind(f"{grows}    setp.eq.s32 %p5, %r4, 5000;\n"), Unknown)
