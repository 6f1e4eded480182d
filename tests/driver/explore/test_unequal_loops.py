"""Loops that a producer and a consumer count by different expressions."""

from __future__ import annotations

from tests.driver.checked_kernels import pipe_text
from tests.driver.hanging_kernels import judged

from tilewright.base.verdict import Proven, Refuted, Unknown

_READ = "READ:\n    setp.ge.u32 %p3, %r4, %r1;"


def of_readers(count: str) -> str:
    """The pipeline whose reader goes up to `%r20`."""
    text = pipe_text(_READ, "READ:\n    setp.ge.u32 %p3, %r4, %r20;")
    return text.replace("    mov.u32 %r4, 0;\n", f"    {count}\n    mov.u32 %r4, 0;\n", 1)


def test_one_number_said_in_two_ways_is_proven() -> None:
    found = judged(of_readers("shl.b32 %r20, %r1, 1; sub.u32 %r20, %r20, %r1;"))
    assert isinstance(found.verdict, Proven), found.verdict


def test_two_numbers_that_differ_at_one_count_are_never_proven() -> None:
    other = "setp.eq.u32 %p9, %r1, 4567; selp.u32 %r20, 4566, %r1, %p9;"
    found = judged(of_readers(other))
    assert isinstance(found.verdict, Unknown | Refuted), found.verdict


_COUNTS_DOWN = """READ:
    setp.eq.s32 %p3, %r20, 1;"""
_NEXT = "    add.s32 %r20, %r20, 1;\n    bra READ;"


def of_readers_that_count_to_one(count: str) -> str:
    """The pipeline whose reader counts a negative number up to 1."""
    text = pipe_text(_READ, _COUNTS_DOWN)
    text = text.replace("    mov.u32 %r4, 0;\n", f"    {count}\n    mov.u32 %r4, 0;\n", 1)
    return text.replace("    bra READ;", _NEXT, 1)


def test_a_counter_that_goes_from_the_negative_number_to_a_constant_is_proven() -> None:
    found = judged(of_readers_that_count_to_one("neg.s32 %r20, %r1; add.s32 %r20, %r20, 1;"))
    assert isinstance(found.verdict, Proven), found.verdict


def test_such_a_counter_that_starts_elsewhere_at_one_count_is_never_proven() -> None:
    other = "setp.eq.u32 %p9, %r1, 4567; mov.s32 %r20, -4566; @!%p9 neg.s32 %r20, %r1; add.s32 %r20, %r20, 1;"
    found = judged(of_readers_that_count_to_one(other))
    assert isinstance(found.verdict, Unknown | Refuted), found.verdict
