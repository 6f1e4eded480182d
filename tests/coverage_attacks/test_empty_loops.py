"""Kernels that hang at an ordinary number, in which a loop is empty whatever happens: that the loop iterates is no
assumption that excuses them."""

from __future__ import annotations

import pytest

from tests.driver.hanging_kernels import hanging, judged
from tilewright.base.verdict import Proven, Refuted

HANGS = {
    "a remainder": "and.b32 %r6, %r1, 127; setp.eq.u32 %p1, %r6, 77;",
    "one number": "setp.eq.u32 %p1, %r1, 777;",
    "a range": "shr.u32 %r6, %r1, 7; setp.eq.u32 %p1, %r6, 5;",
}
BOUNDS = {
    "never": "min.s32 %r4, %r1, 0;",
    "at large numbers": "shr.u32 %r4, %r1, 20;",
    "at another number": "mov.u32 %r4, %r2;",
    "at both": "min.u32 %r4, %r1, %r2;",
}
LOOP = """
    mov.u32 %r5, 0;
LOOP:
    setp.ge.s32 %p2, %r5, %r4;
    @%p2 bra AFTER;
    add.s32 %r5, %r5, 1;
    bar.sync 0;
    bra LOOP;
AFTER:
"""


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("hang", HANGS)
def test_a_loop_that_is_empty_in_clean_launches_too_excuses_nothing(hang: str, bound: str) -> None:
    found = judged(hanging(HANGS[hang], before=BOUNDS[bound] + LOOP))
    assert isinstance(found.verdict, Refuted), found.verdict


def test_a_loop_without_iterations_that_hangs_is_excused_in_words() -> None:
    """It hangs where no iteration says that it need not."""
    told = "shr.u32 %r4, %r1, 6; mov.u32 %r7, 1;" + LOOP.replace("bra LOOP;", "mov.u32 %r7, 0; bra LOOP;")
    found = judged(hanging("setp.eq.u32 %p1, %r7, 1;", before=told))
    assert isinstance(found.verdict, Proven), found.verdict
    assert any("iterates at least once" in line for line in found.verdict.assumptions), found.verdict.assumptions


GUARDED = """
    mov.u32 %r7, 1;
    mov.u32 %r5, 0;
    setp.lt.u32 %p2, %r1, 64;
    @%p2 bra AFTER;
    shr.u32 %r4, %r1, 6;
LOOP:
    bar.sync 0;
    mov.u32 %r7, 0;
    add.s32 %r5, %r5, 1;
    setp.lt.s32 %p3, %r5, %r4;
    @%p3 bra LOOP;
AFTER:
"""
"""A loop that is tested where it ends, behind a guard, as compilers write it."""


def test_a_loop_behind_a_guard_that_hangs_without_iterations_is_excused_in_words() -> None:
    found = judged(hanging("setp.eq.u32 %p1, %r7, 1;", before=GUARDED))
    assert isinstance(found.verdict, Proven), found.verdict
    assert any("iterates at least once" in line for line in found.verdict.assumptions), found.verdict.assumptions


def test_a_guard_that_asks_for_something_else_excuses_nothing() -> None:
    """The loop iterates %r1 / 64 times, if %r2 is 2. It hangs with all others."""
    other = GUARDED.replace("setp.lt.u32 %p2, %r1, 64;", "setp.ne.u32 %p2, %r2, 2;")
    found = judged(hanging("setp.eq.u32 %p1, %r7, 1;", before=other))
    assert isinstance(found.verdict, Refuted), found.verdict


@pytest.mark.parametrize("hang", HANGS)
def test_a_guard_that_skips_in_clean_launches_too_excuses_nothing(hang: str) -> None:
    never = GUARDED.replace("setp.lt.u32 %p2, %r1, 64;", "setp.lt.u32 %p2, %r1, 0x40000000;")
    found = judged(hanging(HANGS[hang], before=never))
    assert isinstance(found.verdict, Refuted), found.verdict
