"""Two ways to count trips that agree for the numbers that come to mind, and differ for others.

`producer` leaves `%r_count`, `consumer` leaves `%r_other`. At the witness the two differ, at `harmless` they agree.
Checked by: tests/guarded/test_guarded_kernels.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Two trip counts."""

    name: str
    producer: str
    consumer: str
    witness: Mapping[str, int]
    harmless: Mapping[str, int]
    words: tuple[int, ...] = ()
    """Of the buffer `data` at the witness, where the counts are read from it; `harmless_words` where they agree."""
    harmless_words: tuple[int, ...] = ()


MISMATCHES = (
    Mismatch(
        "rounded up against rounded down",
        "add.s32 %r_a, %r_n, 127; shr.u32 %r_count, %r_a, 7;",
        "shr.u32 %r_other, %r_n, 7;",
        {"n": 400},
        {"n": 512},
    ),
    Mismatch(
        "quotient against its approximation",
        "div.u32 %r_count, %r_n, 10; min.u32 %r_count, %r_count, 2000;",
        "mul.lo.s32 %r_b, %r_n, 205; shr.u32 %r_other, %r_b, 11; min.u32 %r_other, %r_other, 2000;",
        {"n": 1029},
        {"n": 64},
    ),
    Mismatch(
        "minimum of two against one of them",
        "min.u32 %r_count, %r_n, %r_m;",
        "mov.b32 %r_other, %r_n; setp.gt.u32 %p_x, %r_n, %r_m; add.s32 %r_x, %r_m, 30;"
        "setp.lt.and.u32 %p_x, %r_n, %r_x, %p_x; selp.b32 %r_other, %r_count, %r_other, %p_x;",
        {"n": 36, "m": 5},
        {"n": 5, "m": 6},
    ),
    Mismatch(
        "masked to ten bits",
        "min.u32 %r_count, %r_n, 1030;",
        "and.b32 %r_other, %r_count, 1023;",
        {"n": 1027},
        {"n": 16},
    ),
    Mismatch(
        "product of quotients against quotient of the product",
        "shr.u32 %r_a, %r_n, 3; shr.u32 %r_b, %r_m, 3; mul.lo.s32 %r_count, %r_a, %r_b;",
        "mul.lo.s32 %r_c, %r_n, %r_m; shr.u32 %r_other, %r_c, 6;",
        {"n": 23, "m": 15},
        {"n": 16, "m": 24},
    ),
    Mismatch(
        "32 bits against 64 bits",
        "cvt.u32.u64 %r_a, %rd_N; shr.u32 %r_a, %r_a, 2; min.u32 %r_count, %r_a, 9;",
        "shr.u64 %rd_b, %rd_N, 2; min.u64 %rd_b, %rd_b, 9; cvt.u32.u64 %r_other, %rd_b;",
        {"N": 1 << 33},
        {"N": 20},
    ),
    Mismatch(
        "signed against unsigned quotient",
        "shr.s32 %r_a, %r_n, 28; max.s32 %r_count, %r_a, 0;",
        "shr.u32 %r_other, %r_n, 28;",
        {"n": -(1 << 28)},
        {"n": 3 << 28},
    ),
    Mismatch(
        "16-bit truncation",
        "shr.u32 %r_a, %r_n, 14; min.u32 %r_count, %r_a, 12;",
        "cvt.u16.u32 %rs_a, %r_n; cvt.u32.u16 %r_b, %rs_a; shr.u32 %r_other, %r_b, 14;",
        {"n": 5 << 14},
        {"n": 3 << 14},
    ),
    Mismatch(
        "last tile counted by one of them",
        "shr.u32 %r_count, %r_n, 6;",
        "shr.u32 %r_other, %r_n, 6; and.b32 %r_b, %r_n, 63; setp.eq.s32 %p_x, %r_b, 37;"
        "selp.b32 %r_c, 1, 0, %p_x; add.s32 %r_other, %r_other, %r_c;",
        {"n": 64 * 4 + 37},
        {"n": 256},
    ),
    Mismatch(
        "equal unless two numbers are",
        "shr.u32 %r_count, %r_n, 4;",
        "setp.eq.s32 %p_x, %r_n, %r_m; setp.gt.and.u32 %p_x, %r_n, 77, %p_x; selp.b32 %r_b, 1, 0, %p_x;"
        "add.s32 %r_other, %r_count, %r_b;",
        {"n": 80, "m": 80},
        {"n": 64, "m": 64},
    ),
    Mismatch(
        "two words of memory",
        "ld.global.u32 %r_a, [%rd_data]; min.u32 %r_count, %r_a, 16;",
        "ld.global.u32 %r_b, [%rd_data+4]; min.u32 %r_other, %r_b, 16;",
        {},
        {},
        (5, 6),
        (5, 5),
    ),
    Mismatch(
        "a word of memory against a number",
        "ld.global.u32 %r_a, [%rd_data]; min.u32 %r_count, %r_a, 16;",
        "min.u32 %r_other, %r_n, 16;",
        {"n": 4},
        {"n": 5},
        (5,),
        (5,),
    ),
    Mismatch(
        "sums of words of memory",
        "ld.global.v2.u32 {%r_a, %r_b}, [%rd_data]; add.s32 %r_c, %r_a, %r_b; min.u32 %r_count, %r_c, 16;",
        "ld.global.v2.u32 {%r_d, %r_e}, [%rd_data]; max.u32 %r_f, %r_d, %r_e; add.s32 %r_f, %r_f, %r_e;"
        "min.u32 %r_other, %r_f, 16;",
        {},
        {},
        (2, 4),
        (4, 2),
    ),
)
