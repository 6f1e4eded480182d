"""What the low bits of a pointer decide: none of these kernels hangs unseen, and those that never hang are proven."""

from __future__ import annotations

import pytest

from tests.driver.hanging_kernels import hanging, judged
from tilewright.base.verdict import Proven, Refuted, Unknown

BYTE = "ld.global.u8 %r7, [%d1];"
"""By which `data` is a pointer, to any byte."""
BITS = "cvt.u32.u64 %r4, %d1; and.b32 %r4, %r4, 15;"


@pytest.mark.parametrize(
    "condition",
    [
        f"{BITS} setp.eq.u32 %p1, %r4, 8;",
        "and.b64 %d2, %d1, 255; setp.eq.u64 %p1, %d2, 144;",
        "cvt.u32.u64 %r4, %d1; shr.u32 %r4, %r4, 3; and.b32 %r4, %r4, 7; setp.eq.u32 %p1, %r4, 5;",
        "mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d1, %d2; cvt.u32.u64 %r4, %d2; and.b32 %r4, %r4, 15; "
        "setp.eq.u32 %p1, %r4, 12;",
        "cvt.u32.u64 %r4, %d1; neg.s32 %r4, %r4; and.b32 %r4, %r4, 15; setp.eq.u32 %p1, %r4, 3;",
        "mov.u32 %r5, 31; cvt.u32.u64 %r4, %d1; and.b32 %r4, %r4, %r5; setp.eq.u32 %p1, %r4, 31;",
    ],
    ids=["and", "wide", "shifted", "moved", "negated", "register"],
)
def test_a_kernel_that_hangs_at_some_bits_is_refuted(condition: str) -> None:
    found = judged(hanging(condition, before=BYTE)).verdict
    assert isinstance(found, Refuted) and found.findings[0].code.startswith("MB"), found


@pytest.mark.parametrize(
    "condition",
    [
        f"{BITS} setp.gt.u32 %p1, %r4, 15;",
        "and.b64 %d2, %d1, 255; add.s64 %d2, %d2, 1; setp.gt.u64 %p1, %d2, 256;",
        "mul.wide.u32 %d2, %r1, 16; add.s64 %d2, %d1, %d2; cvt.u32.u64 %r4, %d2; and.b32 %r4, %r4, 15; "
        f"mov.u32 %r6, %r4; {BITS} setp.ne.u32 %p1, %r4, %r6;",
    ],
    ids=["bounded", "wide", "moved by multiples"],
)
def test_bits_that_decide_nothing_are_no_obstacle(condition: str) -> None:
    found = judged(hanging(condition, before=BYTE)).verdict
    assert isinstance(found, Proven), found


@pytest.mark.parametrize(
    "condition",
    [
        "cvt.u32.u64 %r4, %d1; and.b32 %r4, %r4, 511; setp.eq.u32 %p1, %r4, 300;",
        "cvt.u32.u64 %r4, %d1; shr.u32 %r4, %r4, 5; and.b32 %r4, %r4, 15; setp.eq.u32 %p1, %r4, 15;",
        "cvt.u32.u64 %r4, %d1; setp.eq.u32 %p1, %r4, 16;",
        "shr.u64 %d2, %d1, 9; and.b64 %d2, %d2, 1; setp.eq.u64 %p1, %d2, 1;",
        "and.b64 %d2, %d1, -16; setp.ne.u64 %p1, %d2, %d1;",
        "cvt.u32.u64 %r4, %d1; add.u32 %r5, %r4, 8; setp.lt.u32 %p1, %r5, %r4;",
    ],
    ids=["more bits", "shifted away", "no mask", "high bits", "aligned", "compared"],
)
def test_what_depends_on_where_buffers_lie_is_unknown(condition: str) -> None:
    found = judged(hanging(condition, before=BYTE)).verdict
    assert isinstance(found, Unknown), found


def test_a_place_that_a_part_of_an_address_gives_is_unknown() -> None:
    """In the launches that are made up, the lower half of an address is a small number."""
    place = "cvt.u32.u64 %r4, %d1; mov.u32 %r5, bar; add.u32 %r5, %r5, %r4;"
    arrives = f"{place} @%p8 mbarrier.init.shared::cta.b64 [%r5], 1; setp.ne.u32 %p1, %r3, %r3;"
    found = judged(hanging(arrives, before=BYTE).replace("bar[16]", "bar[4096]")).verdict
    assert not isinstance(found, Proven), found


def test_a_launch_whose_accesses_are_misaligned_refutes_nothing() -> None:
    access = "ld.global.u32 %r7, [%d1];"
    odd = judged(hanging(f"{BITS} and.b32 %r4, %r4, 3; setp.eq.u32 %p1, %r4, 2;", before=access)).verdict
    assert isinstance(odd, Unknown), odd
    even = judged(hanging(f"{BITS} setp.eq.u32 %p1, %r4, 4;", before=access)).verdict
    assert isinstance(even, Refuted), even


def test_a_copy_bounds_the_bits_that_steer() -> None:
    copy = (
        "@%p8 cp.async.bulk.global.shared::cta.bulk_group [%d1], [tile], 16; @%p8 cp.async.bulk.commit_group; "
        "@%p8 cp.async.bulk.wait_group 0;"
    )
    text = hanging(f"{BITS} setp.eq.u32 %p1, %r4, 8;", before=copy)
    found = judged(text.replace(".shared", ".shared .align 16 .b8 tile[16]; .shared", 1)).verdict
    assert isinstance(found, Proven), found
    assert any("parameter 2 modulo 256 is a multiple of 16" in each for each in found.assumptions), found.assumptions


def test_no_bits_of_a_null_pointer_are_set() -> None:
    found = judged(hanging(f"{BITS} setp.eq.u64 %p2, %d1, 0; setp.ne.and.u32 %p1, %r4, 0, %p2;", before=BYTE)).verdict
    assert not isinstance(found, Refuted), found
