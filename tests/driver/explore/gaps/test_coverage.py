"""What launches cover, in words, and what stands in the way."""

from __future__ import annotations

import re

from tests.driver.checked_kernels import pipe_text
from tests.driver.hanging_kernels import hanging, judged

from tilewright.base.verdict import Proven, Unknown


def test_a_proof_says_what_its_launches_covered() -> None:
    found = judged(pipe_text())
    assert isinstance(found.verdict, Proven)
    (said,) = [each for each in found.verdict.claims if "launches covered" in each]
    assert "instructions of the protocol" in said and "the loop at pipe.ptx" not in said
    assert said.count("the loop at k.ptx") == 2 and "with 0 to" in said


def test_what_is_impossible_is_counted() -> None:
    found = judged(hanging("setp.lt.u32 %p1, %r1, 0;"))
    assert isinstance(found.verdict, Proven)
    assert "1 way through the kernel shown to be impossible" in found.verdict.claims


def test_a_proof_says_what_no_launch_executes() -> None:
    """A count of the protocol behind a guard that no number meets: the proof is about a kernel without it."""
    found = judged(hanging("setp.lt.u32 %p1, %r1, 0;"))
    assert isinstance(found.verdict, Proven)
    (said,) = [each for each in found.verdict.claims if each.startswith("no launch executes")]
    assert re.fullmatch("no launch executes instructions of the protocol at line [0-9]+", said)
    assert not [each for each in judged(pipe_text()).verdict.claims if each.startswith("no launch executes")]


def test_a_way_that_nobody_found_is_a_reason_with_its_expression() -> None:
    found = judged(hanging("mul24.lo.u32 %r4, %r1, %r1; setp.eq.u32 %p1, %r4, 2041;"))
    assert isinstance(found.verdict, Unknown)
    assert any("no launch tried goes the other way" in each and "mul24" in each for each in found.verdict.reasons)
