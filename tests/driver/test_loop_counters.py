"""Counters that are used behind their loop: what the launches of one period cover, and what they do not."""

from __future__ import annotations

import pytest
from tests.driver.checked_kernels import pipe

from tilewright.base.verdict import Proven, Unknown
from tilewright.contract.readings import tolerant
from tilewright.driver.judge_unlaunched import judge_unlaunched


def _behind(code: str) -> Proven | Unknown | object:
    """The verdict on the pipeline, whose loops count in %r4, with code behind them that may wait for ever."""
    never = "    mbarrier.try_wait.parity.shared::cta.b64 %p6, [bars+24], 0;\n"
    never += "    @%p6 bra LOST;\n    bra HANG;\nLOST:\n"
    module, kernel = pipe("DONE:\n", f"DONE:\n{code}    @!%p5 bra LOST;\nHANG:\n{never}")
    return judge_unlaunched(module, kernel, tolerant()).verdict


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
