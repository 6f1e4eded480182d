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


_UNROLLED = """
    mov.u32 %r4, 0; and.b32 %r21, %r1, 3; setp.lt.u32 %p3, %r1, 4; sub.u32 %r22, %r1, %r21; {before} @%p3 bra REST;
MANY: {body}{body}{body}{body}
    add.s32 %r22, %r22, -4; setp.ne.s32 %p3, %r22, 0; @%p3 bra MANY;
REST: setp.eq.u32 %p3, %r21, 0; @%p3 bra DONE;
ONE: {body}
    add.s32 %r21, %r21, -1; setp.ne.s32 %p3, %r21, 0; @%p3 bra ONE;
    bra DONE;
"""


def of_an_unrolled_producer(before: str = "") -> str:
    """The pipeline whose producer does four steps at a time, and the rest one by one."""
    text = pipe_text()
    begin, end = text.index("LOAD:"), text.index("READ:")
    head = "    setp.ge.u32 %p3, %r4, %r1;\n    @%p3 bra DONE;\n"
    body = text[begin:end].removeprefix("LOAD:\n").replace(head, "").replace("    bra LOAD;\n", "")
    pieces = [body.replace("EMPTY", f"EMPTY_{number}") for number in range(5)]
    filled = _UNROLLED.replace("{before}", before)
    for piece in pieces:
        filled = filled.replace("{body}", piece, 1)
    return text[:begin] + filled + text[end:]


def test_a_producer_that_is_unrolled_is_proven() -> None:
    found = judged(of_an_unrolled_producer())
    assert isinstance(found.verdict, Proven), found.verdict


def test_an_unrolled_producer_that_does_less_at_one_count_is_never_proven() -> None:
    other = "setp.eq.u32 %p9, %r1, 45672; @%p9 add.s32 %r22, %r22, -4;"
    found = judged(of_an_unrolled_producer(other))
    assert isinstance(found.verdict, Unknown | Refuted), found.verdict


_IN_FOURS = (
    ("sub.u32 %r22, %r1, %r21;", "shr.u32 %r22, %r1, 2;"),
    ("add.s32 %r22, %r22, -4;", "add.s32 %r22, %r22, -1;"),
)


def test_an_unrolled_producer_that_counts_fours_and_does_less_at_one_count_is_never_proven() -> None:
    """At that count there is no rest, so that the loop of the rest is not come to."""
    text = of_an_unrolled_producer()
    for old, new in _IN_FOURS:
        text = text.replace(old, new)
    text = text.replace(
        "shr.u32 %r22, %r1, 2;", "shr.u32 %r22, %r1, 2; setp.eq.u32 %p9, %r1, 45672; @%p9 add.s32 %r22, %r22, -1;"
    )
    found = judged(text)
    assert isinstance(found.verdict, Unknown | Refuted), found.verdict
