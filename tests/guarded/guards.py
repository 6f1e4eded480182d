"""Which guards and bounds may hide a bug? Numbers of a launch, computed with in every way that compilers do.

A `Guard` is a few PTX lines that leave a trip count in `%r_count`, or a condition in `%p_guard`. Its names are readable
here (`%r_n`, `%p_guard`); `kernel_text` numbers them as a compiler does. `witness` has numbers at which the count is
from 3 to 24, or the condition holds; `harmless` has numbers at which the count is 0, or the condition does not hold.

Checked by: tests/guarded/test_guarded_kernels.py, which evaluates every guard at its witness by running its kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["count", "condition"]


@dataclass(frozen=True, slots=True)
class Guard:
    """A bound or condition over a launch's numbers."""

    name: str
    kind: Kind
    lines: str
    """PTX that computes `%r_count` or `%p_guard` from `%r_NAME` (32 bits) and `%rd_NAME` (64 bits)."""
    witness: Mapping[str, int]
    """Value of every number; 64 bits where the name has capital letters."""
    harmless: Mapping[str, int]
    group: str
    grid: int = 1
    """CTAs along x of the witness launch."""
    harmless_grid: int = 1
    words: tuple[int, ...] = ()
    """32-bit words of the buffer `data` at the witness, where the guard reads global memory."""
    harmless_words: tuple[int, ...] = ()
    differs_by_cta: bool = False
    """Whether CTAs of one launch may take different ways."""
    optional: bool = False
    """Whether the guard asks if the pointer `data` is given. Either at the witness or in the harmless launch it is."""
    null_at_witness: bool = False
    excuse: str = ""
    """A word that an assumption of a proof must have: the numbers at which it fails may be excluded in words."""
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.witness))

    @property
    def reads_memory(self) -> bool:
        return bool(self.words)


def _counts(group: str, *rows: tuple[str, str, dict[str, int], dict[str, int]]) -> tuple[Guard, ...]:
    return tuple(Guard(name, "count", lines, witness, harmless, group) for name, lines, witness, harmless in rows)


def _conditions(group: str, *rows: tuple[str, str, dict[str, int], dict[str, int]]) -> tuple[Guard, ...]:
    return tuple(Guard(name, "condition", lines, witness, harmless, group) for name, lines, witness, harmless in rows)


PRODUCTS = _counts(
    "product",
    (
        "product of shifts",
        "shr.u32 %r_a, %r_n, 7; shr.u32 %r_b, %r_m, 7; mul.lo.s32 %r_count, %r_a, %r_b;",
        {"n": 256, "m": 384},
        {"n": 100, "m": 100000},
    ),
    (
        "product of quotients",
        "div.u32 %r_a, %r_n, 100; div.u32 %r_b, %r_m, 100; mul.lo.s32 %r_count, %r_a, %r_b;",
        {"n": 230, "m": 399},
        {"n": 99, "m": 99999},
    ),
    (
        "product of ceiling quotients less the small",
        "add.s32 %r_a, %r_n, -65; shr.s32 %r_a, %r_a, 7; "
        "add.s32 %r_b, %r_m, -65; shr.s32 %r_b, %r_b, 7;"
        "max.s32 %r_a, %r_a, 0; max.s32 %r_b, %r_b, 0; mul.lo.s32 %r_count, %r_a, %r_b;",
        {"n": 321, "m": 321},
        {"n": 64, "m": 999},
    ),
    (
        "product of three",
        "shr.u32 %r_a, %r_n, 6; shr.u32 %r_b, %r_m, 6; shr.u32 %r_c, %r_k, 6;"
        "mul.lo.s32 %r_d, %r_a, %r_b; mul.lo.s32 %r_count, %r_d, %r_c;",
        {"n": 128, "m": 129, "k": 127},
        {"n": 63, "m": 4096, "k": 4096},
    ),
    (
        "shifted times a number",
        "shr.u32 %r_a, %r_n, 20; mul.lo.s32 %r_count, %r_a, %r_m;",
        {"n": 2 << 20, "m": 3},
        {"n": 77, "m": 1000},
    ),
    (
        "one bit times a number",
        "shr.u32 %r_a, %r_m, 5; and.b32 %r_b, %r_a, 1; mul.lo.s32 %r_count, %r_b, %r_n;",
        {"n": 5, "m": 32},
        {"n": 5, "m": 64},
    ),
    (
        "mad of a product",
        "shr.u32 %r_a, %r_n, 8; shr.u32 %r_b, %r_m, 8; mad.lo.s32 %r_count, %r_a, %r_b, %r_a;",
        {"n": 256, "m": 1024},
        {"n": 255, "m": 99999},
    ),
    (
        "wide product shifted",
        "mul.wide.u32 %rd_a, %r_n, %r_m; shr.u64 %rd_b, %rd_a, 34; cvt.u32.u64 %r_count, %rd_b;",
        {"n": 1 << 18, "m": 1 << 18},
        {"n": 1 << 14, "m": 1 << 14},
    ),
    (
        "high half of a product",
        "mul.hi.u32 %r_count, %r_n, %r_m;",
        {"n": 1 << 17, "m": 5 << 15},
        {"n": 65535, "m": 65535},
    ),
    (
        "division by a magic number",
        "mul.hi.u32 %r_a, %r_n, 1374389535; shr.u32 %r_b, %r_a, 5; "
        "shr.u32 %r_c, %r_b, 3; mul.lo.s32 %r_count, %r_c, %r_m;",
        {"n": 1700, "m": 2},
        {"n": 799, "m": 3},
    ),
    (
        "signed 64-bit product",
        "mul.lo.s64 %rd_a, %rd_N, %rd_M; shr.s64 %rd_b, %rd_a, 36; cvt.u32.u64 %r_count, %rd_b; "
        "max.s32 %r_count, %r_count, 0;",
        {"N": 1 << 20, "M": 5 << 16},
        {"N": 1 << 10, "M": 1 << 12},
    ),
    (
        "product of remainders",
        "rem.u32 %r_a, %r_n, 7; rem.u32 %r_b, %r_m, 11; shr.u32 %r_c, %r_a, 2; "
        "shr.u32 %r_d, %r_b, 3; mul.lo.s32 %r_e, %r_c, %r_d;"
        "mul.lo.s32 %r_count, %r_e, 4;",
        {"n": 6, "m": 9},
        {"n": 64, "m": 64},
    ),
    (
        "product of two 16-bit fields",
        "and.b32 %r_a, %r_n, 65535; shr.u32 %r_b, %r_n, 16; mul.lo.s32 %r_count, %r_a, %r_b;",
        {"n": (2 << 16) | 3},
        {"n": 1 << 16},
    ),
)

EXTREMES = _counts(
    "minimum and maximum",
    (
        "minimum of shifts",
        "shr.u32 %r_a, %r_n, 7; shr.u32 %r_b, %r_m, 7; min.u32 %r_count, %r_a, %r_b;",
        {"n": 512, "m": 640},
        {"n": 99999, "m": 127},
    ),
    (
        "minimum of three",
        "min.s32 %r_a, %r_n, %r_m; min.s32 %r_b, %r_a, %r_k; shr.s32 %r_c, %r_b, 5; max.s32 %r_count, %r_c, 0;",
        {"n": 100, "m": 128, "k": 160},
        {"n": 1000, "m": 1000, "k": 31},
    ),
    (
        "maximum less a constant",
        "max.u32 %r_a, %r_n, 5000; sub.s32 %r_b, %r_a, 5000; shr.u32 %r_count, %r_b, 4;",
        {"n": 5064},
        {"n": 5000},
    ),
    (
        "maximum of differences",
        "sub.s32 %r_a, %r_n, %r_m; sub.s32 %r_b, %r_a, 777; max.s32 %r_count, %r_b, 0;",
        {"n": 1000, "m": 219},
        {"n": 1000, "m": 1000},
    ),
    (
        "clamped window",
        "sub.s32 %r_a, %r_n, %r_m; max.s32 %r_b, %r_a, 0; min.s32 %r_c, %r_b, 4096; "
        "shr.u32 %r_d, %r_c, 9; min.u32 %r_count, %r_d, 6;",
        {"n": 5000, "m": 700},
        {"n": 700, "m": 5000},
    ),
)

SHIFTS = _counts(
    "shift and quotient",
    ("high bits", "shr.u32 %r_count, %r_n, 20;", {"n": 5 << 20}, {"n": (1 << 20) - 1}),
    ("high bits, signed", "shr.s32 %r_a, %r_n, 24; max.s32 %r_count, %r_a, 0;", {"n": 6 << 24}, {"n": 1 << 20}),
    ("quotient", "div.s32 %r_a, %r_n, 9999; max.s32 %r_count, %r_a, 0;", {"n": 50000}, {"n": 9998}),
    (
        "quotient of two numbers",
        "max.u32 %r_a, %r_m, 1; div.u32 %r_b, %r_n, %r_a; shr.u32 %r_count, %r_b, 12;",
        {"n": 1 << 20, "m": 50},
        {"n": 1 << 20, "m": 1 << 19},
    ),
    (
        "ceiling quotient less one tile",
        "add.s32 %r_a, %r_n, 127; shr.u32 %r_b, %r_a, 7; sub.s32 %r_c, %r_b, 9000; max.s32 %r_count, %r_c, 0;",
        {"n": 9004 * 128},
        {"n": 4096},
    ),
    (
        "shifted by a number",
        "and.b32 %r_a, %r_m, 31; shr.u32 %r_b, %r_n, %r_a; shr.u32 %r_count, %r_b, 16;",
        {"n": 20 << 16, "m": 2},
        {"n": 1 << 16, "m": 4},
    ),
    (
        "one shifted by a number",
        "and.b32 %r_a, %r_m, 15; shl.b32 %r_b, 1, %r_a; shr.u32 %r_count, %r_b, 11;",
        {"m": 13},
        {"m": 64},
    ),
    (
        "64-bit high half",
        "shr.u64 %rd_a, %rd_N, 33; cvt.u32.u64 %r_count, %rd_a;",
        {"N": 5 << 33},
        {"N": 1 << 32},
    ),
    (
        "64-bit quotient",
        "div.u64 %rd_a, %rd_N, 3000000; cvt.u32.u64 %r_count, %rd_a;",
        {"N": 12000000},
        {"N": 2999999},
    ),
    (
        "high word unpacked",
        "mov.b64 {%r_low, %r_high}, %rd_N; shr.u32 %r_count, %r_high, 3;",
        {"N": 40 << 32},
        {"N": 0xFFFFFFFF},
    ),
)

BITS = _counts(
    "bits",
    (
        "bit field extract",
        "bfe.u32 %r_count, %r_n, 13, 3;",
        {"n": 5 << 13},
        {"n": 4096},
    ),
    (
        "population count",
        "popc.b32 %r_a, %r_n; shr.u32 %r_b, %r_a, 2; shl.b32 %r_count, %r_b, 1;",
        {"n": 0x1F7},
        {"n": 4096},
    ),
    (
        "leading zeros",
        "clz.b32 %r_a, %r_n; sub.s32 %r_b, 12, %r_a; max.s32 %r_count, %r_b, 0;",
        {"n": 1 << 23},
        {"n": 1 << 18},
    ),
    (
        "find last set bit",
        "bfind.u32 %r_a, %r_n; max.s32 %r_b, %r_a, 21; sub.s32 %r_count, %r_b, 21;",
        {"n": 1 << 25},
        {"n": 1 << 20},
    ),
    (
        "byte permute",
        "prmt.b32 %r_a, %r_n, 0, 0x4443; and.b32 %r_b, %r_a, 15; mov.b32 %r_count, %r_b;",
        {"n": 5 << 24},
        {"n": 1 << 20},
    ),
    (
        "three-input logic",
        "lop3.b32 %r_a, %r_n, %r_m, 0x70, 0x80; shr.u32 %r_count, %r_a, 4;",
        {"n": 0x55, "m": 0x7F},
        {"n": 64, "m": 1},
    ),
    (
        "and with a mask",
        "and.b32 %r_a, %r_n, 0x3800; shr.u32 %r_count, %r_a, 11;",
        {"n": 0x2800},
        {"n": 64},
    ),
    (
        "and-not of two numbers",
        "not.b32 %r_a, %r_m; and.b32 %r_b, %r_n, %r_a; shr.u32 %r_c, %r_b, 2; and.b32 %r_count, %r_c, 7;",
        {"n": 0x17, "m": 0x2},
        {"n": 64, "m": 64},
    ),
    (
        "funnel shift",
        "shf.l.wrap.b32 %r_a, %r_n, 0, 8; and.b32 %r_count, %r_a, 7;",
        {"n": 4 << 24},
        {"n": 4096},
    ),
    ("reversed bits", "brev.b32 %r_a, %r_n; and.b32 %r_count, %r_a, 7;", {"n": 0xA0000000}, {"n": 4096}),
    (
        "bit field insert",
        "bfi.b32 %r_a, %r_n, 0, 4, 2; shr.u32 %r_b, %r_a, 3; shl.b32 %r_count, %r_b, 2;",
        {"n": 0x3},
        {"n": 0x40},
    ),
)

ARITHMETIC = _counts(
    "arithmetic",
    (
        "absolute difference",
        "sub.s32 %r_a, %r_n, %r_m; abs.s32 %r_b, %r_a; shr.u32 %r_count, %r_b, 18;",
        {"n": 10, "m": 10 + (4 << 18)},
        {"n": 64, "m": 1000},
    ),
    (
        "sum of absolute differences",
        "sad.u32 %r_a, %r_n, %r_m, 0; shr.u32 %r_count, %r_a, 19;",
        {"n": 4 << 19, "m": 0},
        {"n": 64, "m": 1000},
    ),
    ("remainder", "rem.u32 %r_a, %r_n, 1000; shr.u32 %r_count, %r_a, 8;", {"n": 2999}, {"n": 4096}),
    (
        "remainder of two numbers",
        "max.u32 %r_a, %r_m, 1; rem.u32 %r_b, %r_n, %r_a; shr.u32 %r_c, %r_b, 10; min.u32 %r_count, %r_c, 8;",
        {"n": 4999, "m": 5000},
        {"n": 4096, "m": 64},
    ),
    ("negated", "neg.s32 %r_a, %r_n; max.s32 %r_b, %r_a, 0; shr.u32 %r_count, %r_b, 3;", {"n": -40}, {"n": 1000}),
    (
        "saturating difference of products",
        "mul.lo.s32 %r_a, %r_n, %r_m; sub.s32 %r_b, %r_a, 1000996; max.s32 %r_count, %r_b, 0;",
        {"n": 1000, "m": 1001},
        {"n": 64, "m": 64},
    ),
    (
        "square root of a square",
        "mul.lo.s32 %r_a, %r_n, %r_n; mul.lo.s32 %r_b, %r_m, %r_m; "
        "sub.s32 %r_c, %r_a, %r_b; sub.s32 %r_d, %r_c, 21;"
        "setp.eq.s32 %p_a, %r_d, 0; selp.b32 %r_count, 4, 0, %p_a;",
        {"n": 5, "m": 2},
        {"n": 64, "m": 64},
    ),
    (
        "mad with a bias",
        "mad.lo.s32 %r_a, %r_n, 3, %r_m; sub.s32 %r_b, %r_a, 30000; max.s32 %r_c, %r_b, 0; min.s32 %r_count, %r_c, 9;",
        {"n": 10000, "m": 5},
        {"n": 64, "m": 64},
    ),
    (
        "added with carry",
        "add.cc.u32 %r_a, %r_n, %r_m; addc.u32 %r_b, 0, 0; shl.b32 %r_count, %r_b, 2;",
        {"n": -5, "m": 6},
        {"n": 64, "m": 64},
    ),
)

SELECTS = _counts(
    "select",
    (
        "select by equality",
        "setp.eq.s32 %p_a, %r_m, 37; selp.b32 %r_count, %r_n, 0, %p_a;",
        {"n": 4, "m": 37},
        {"n": 4, "m": 64},
    ),
    (
        "select of selects",
        "setp.gt.u32 %p_a, %r_n, 70000; selp.b32 %r_a, %r_m, 0, %p_a; setp.lt.u32 %p_b, %r_m, 20;"
        "selp.b32 %r_count, %r_a, 0, %p_b;",
        {"n": 70001, "m": 5},
        {"n": 70001, "m": 64},
    ),
    (
        "slct by a sign",
        "sub.s32 %r_a, %r_n, 3000; slct.s32.s32 %r_count, 6, 0, %r_a;",
        {"n": 3000},
        {"n": 2999},
    ),
    (
        "set to a mask",
        "set.eq.u32.u32 %r_a, %r_n, 1234; and.b32 %r_count, %r_a, 5;",
        {"n": 1234},
        {"n": 64},
    ),
)

SPECIAL = (
    Guard(
        "grid less four",
        "count",
        "mov.u32 %r_a, %nctaid.x; add.s32 %r_b, %r_a, -4; max.s32 %r_count, %r_b, 0;",
        {},
        {},
        "grid",
        grid=8,
        harmless_grid=4,
    ),
    Guard(
        "CTA number over a tile",
        "count",
        "mov.u32 %r_a, %ctaid.x; shr.u32 %r_b, %r_a, 3; mul.lo.s32 %r_count, %r_b, 4;",
        {},
        {},
        "grid",
        grid=9,
        harmless_grid=8,
        differs_by_cta=True,
    ),
    Guard(
        "product of grid extents",
        "count",
        "mov.u32 %r_a, %nctaid.x; mov.u32 %r_b, %nctaid.y; mul.lo.s32 %r_c, %r_a, %r_b; shr.u32 %r_count, %r_c, 2;",
        {},
        {},
        "grid",
        grid=12,
        harmless_grid=3,
    ),
    Guard(
        "grid times a number",
        "count",
        "mov.u32 %r_a, %nctaid.x; mul.lo.s32 %r_b, %r_a, %r_n; shr.u32 %r_c, %r_b, 10; min.u32 %r_count, %r_c, 12;",
        {"n": 1024},
        {"n": 100},
        "grid",
        grid=5,
    ),
    Guard(
        "persistent tiles of this CTA",
        "count",
        "mov.u32 %r_a, %ctaid.x; mov.u32 %r_b, %nctaid.x; sub.s32 %r_c, %r_n, 5000; "
        "sub.s32 %r_d, %r_c, %r_a;"
        "add.s32 %r_e, %r_d, %r_b; sub.s32 %r_f, %r_e, 1; max.s32 %r_g, %r_f, 0; "
        "div.u32 %r_count, %r_g, %r_b;",
        {"n": 5008},
        {"n": 5000},
        "grid",
        grid=2,
        differs_by_cta=True,
    ),
    Guard(
        "not the first CTA",
        "condition",
        "mov.u32 %r_a, %ctaid.x; setp.eq.s32 %p_guard, %r_a, 5;",
        {},
        {},
        "grid",
        grid=6,
        harmless_grid=5,
        differs_by_cta=True,
    ),
    Guard(
        "the grid is one large extent",
        "condition",
        "mov.u32 %r_a, %nctaid.x; setp.eq.s32 %p_guard, %r_a, 7;",
        {},
        {},
        "grid",
        grid=7,
        harmless_grid=1,
    ),
)

CONDITIONS = _conditions(
    "condition",
    (
        "xor equals",
        "xor.b32 %r_a, %r_n, %r_m; setp.eq.s32 %p_guard, %r_a, 85;",
        {"n": 0x54, "m": 1},
        {"n": 64, "m": 64},
    ),
    (
        "one more than another by three",
        "add.s32 %r_a, %r_m, 3; setp.eq.s32 %p_guard, %r_n, %r_a;",
        {"n": 10, "m": 7},
        {"n": 64, "m": 64},
    ),
    (
        "two numbers and a mask",
        "setp.eq.s32 %p_a, %r_n, 45; setp.gt.u32 %p_b, %r_m, 1000; and.pred %p_guard, %p_a, %p_b;",
        {"n": 45, "m": 1001},
        {"n": 45, "m": 64},
    ),
    (
        "setp combined with a predicate",
        "setp.eq.s32 %p_a, %r_n, 45; setp.gt.and.u32 %p_guard, %r_m, 1000, %p_a;",
        {"n": 45, "m": 1001},
        {"n": 64, "m": 1001},
    ),
    (
        "neither of two",
        "setp.lt.u32 %p_a, %r_n, 3000; setp.lt.u32 %p_b, %r_m, 3000; "
        "or.pred %p_c, %p_a, %p_b; not.pred %p_guard, %p_c;",
        {"n": 3000, "m": 3000},
        {"n": 64, "m": 9999},
    ),
    (
        "exactly one of two",
        "setp.gt.u32 %p_a, %r_n, 90000; setp.gt.u32 %p_b, %r_m, 2; xor.pred %p_guard, %p_a, %p_b;"
        "setp.ge.and.u32 %p_guard, %r_n, 90000, %p_guard;",
        {"n": 90001, "m": 1},
        {"n": 64, "m": 64},
    ),
    (
        "equal to a product",
        "mul.lo.s32 %r_a, %r_m, 12; setp.eq.s32 %p_guard, %r_n, %r_a;",
        {"n": 36, "m": 3},
        {"n": 64, "m": 64},
    ),
    ("square equals", "mul.lo.s32 %r_a, %r_n, %r_n; setp.eq.s32 %p_guard, %r_a, 1369;", {"n": 37}, {"n": 64}),
    (
        "divisible by one and not by another",
        "rem.u32 %r_a, %r_n, 96; rem.u32 %r_b, %r_n, 64; setp.eq.s32 %p_a, %r_a, 0; "
        "setp.eq.s32 %p_b, %r_b, 32;"
        "and.pred %p_guard, %p_a, %p_b;",
        {"n": 96},
        {"n": 64},
    ),
    (
        "sum of two is odd and large",
        "add.s32 %r_a, %r_n, %r_m; and.b32 %r_b, %r_a, 1; setp.eq.s32 %p_a, %r_b, 1; "
        "setp.gt.and.u32 %p_guard, %r_a, 4000000, %p_a;",
        {"n": 4000000, "m": 3},
        {"n": 64, "m": 65},
    ),
    ("64-bit compare", "setp.gt.u64 %p_guard, %rd_N, 4294967301;", {"N": 4294967302}, {"N": 64}),
    (
        "64-bit equality of two",
        "add.s64 %rd_a, %rd_M, 4294967296; setp.eq.s64 %p_guard, %rd_N, %rd_a;",
        {"N": (1 << 32) + 9, "M": 9},
        {"N": 64, "M": 64},
    ),
    (
        "64-bit number times 32-bit number",
        "cvt.s64.s32 %rd_a, %r_n; mul.lo.s64 %rd_b, %rd_a, %rd_N; setp.gt.s64 %p_guard, %rd_b, 1099511627776;",
        {"N": 1 << 30, "n": 1 << 11},
        {"N": 64, "n": 64},
    ),
    ("negative", "setp.lt.s32 %p_guard, %r_n, -3;", {"n": -4}, {"n": 64}),
    ("within a range", "add.s32 %r_a, %r_n, -130; setp.lt.u32 %p_guard, %r_a, 9;", {"n": 133}, {"n": 64}),
    (
        "power of two beyond a limit",
        "add.s32 %r_a, %r_n, -1; and.b32 %r_b, %r_a, %r_n; setp.eq.s32 %p_a, %r_b, 0; "
        "setp.eq.and.u32 %p_guard, %r_n, 2048, %p_a;",
        {"n": 2048},
        {"n": 4096},
    ),
    (
        "switch case",
        "shr.u32 %r_a, %r_n, 2; and.b32 %r_b, %r_a, 7; setp.eq.s32 %p_guard, %r_b, 6;",
        {"n": 24},
        {"n": 64},
    ),
    (
        "of three numbers the middle one",
        "setp.lt.s32 %p_a, %r_n, %r_m; setp.lt.and.s32 %p_b, %r_m, %r_k, %p_a; "
        "add.s32 %r_a, %r_n, 2; setp.eq.and.s32 %p_guard, %r_a, %r_m, %p_b;",
        {"n": 5, "m": 7, "k": 8},
        {"n": 64, "m": 64, "k": 64},
    ),
    (
        "byte of a packed number",
        "prmt.b32 %r_a, %r_n, 0, 0x4442; setp.eq.s32 %p_guard, %r_a, 9;",
        {"n": 9 << 16},
        {"n": 64},
    ),
    ("parity of bits", "popc.b32 %r_a, %r_n; setp.eq.s32 %p_guard, %r_a, 5;", {"n": 31}, {"n": 64}),
    (
        "product equals a prime pair",
        "mul.lo.s32 %r_a, %r_n, %r_m; setp.eq.s32 %p_guard, %r_a, 10403;",
        {"n": 101, "m": 103},
        {"n": 64, "m": 64},
    ),
    (
        "16-bit truncation",
        "cvt.u16.u32 %rs_a, %r_n; setp.eq.u16 %p_guard, %rs_a, 513;",
        {"n": (3 << 16) | 513},
        {"n": 64},
    ),
)

MEMORY = (
    Guard(
        "trip count from memory",
        "count",
        "ld.global.u32 %r_count, [%rd_data];",
        {},
        {},
        "memory",
        words=(4,),
        harmless_words=(0,),
    ),
    Guard(
        "trip count from an indexed word",
        "count",
        "mul.wide.u32 %rd_a, %r_n, 4; add.s64 %rd_b, %rd_data, %rd_a; "
        "ld.global.u32 %r_a, [%rd_b]; min.u32 %r_count, %r_a, 16;",
        {"n": 2},
        {"n": 0},
        "memory",
        words=(0, 0, 5, 0),
        harmless_words=(0, 0, 5, 0),
    ),
    Guard(
        "difference of offsets in memory",
        "count",
        "ld.global.u32 %r_a, [%rd_data]; ld.global.u32 %r_b, [%rd_data+4]; "
        "sub.s32 %r_c, %r_b, %r_a; max.s32 %r_count, %r_c, 0;",
        {},
        {},
        "memory",
        words=(7, 12),
        harmless_words=(7, 7),
    ),
    Guard(
        "tiles of a group in memory",
        "count",
        "ld.global.nc.u32 %r_a, [%rd_data]; add.s32 %r_b, %r_a, 127; "
        "shr.u32 %r_c, %r_b, 7; mul.lo.s32 %r_count, %r_c, %r_n;",
        {"n": 2},
        {"n": 0},
        "memory",
        words=(300,),
        harmless_words=(300,),
    ),
    Guard(
        "flag in memory",
        "condition",
        "ld.global.u32 %r_a, [%rd_data]; setp.eq.s32 %p_guard, %r_a, 77;",
        {},
        {},
        "memory",
        words=(77,),
        harmless_words=(1,),
    ),
    Guard(
        "flag in memory against a number",
        "condition",
        "ld.global.u32 %r_a, [%rd_data+8]; setp.gt.s32 %p_guard, %r_a, %r_n;",
        {"n": 100},
        {"n": 1000},
        "memory",
        words=(0, 0, 500),
        harmless_words=(0, 0, 500),
    ),
)

POINTERS = (
    Guard(
        "missing pointer",
        "condition",
        "setp.eq.s64 %p_guard, %rd_data0, 0;",
        {},
        {},
        "pointer",
        optional=True,
        null_at_witness=True,
        excuse="null",
    ),
    Guard("optional pointer", "condition", "setp.ne.s64 %p_guard, %rd_data0, 0;", {}, {}, "pointer", optional=True),
    Guard(
        "number if a pointer is given",
        "count",
        "setp.eq.s64 %p_a, %rd_data0, 0; shr.u32 %r_a, %r_n, 9; selp.b32 %r_count, 0, %r_a, %p_a;",
        {"n": 2048},
        {"n": 2048},
        "pointer",
        optional=True,
    ),
    Guard(
        "pointer given and a number",
        "condition",
        "setp.ne.s64 %p_a, %rd_data0, 0; setp.eq.and.s32 %p_guard, %r_n, 3001, %p_a;",
        {"n": 3001},
        {"n": 3001},
        "pointer",
        optional=True,
    ),
)

COUNTS = (
    *PRODUCTS,
    *EXTREMES,
    *SHIFTS,
    *BITS,
    *ARITHMETIC,
    *SELECTS,
    *(each for each in SPECIAL if each.kind == "count"),
)
GUARDS = (*COUNTS, *CONDITIONS, *(each for each in SPECIAL if each.kind == "condition"))
