"""The meaning of every instruction that has a term, against the machine's own steps.

A wrong term makes something possible look impossible, and so a wrong proof: boundaries and random operands of each
form that has a term are compared, and forms that have none are listed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from tests.driver.symbolic_instructions import (
    Expressions,
    disagreement,
    expressions,
    machine_values,
    terms_of,
)
from tests.solve.evaluated_terms import signed, value_of

from tilewright.driver.explore.terms.symbolic_terms import NoTerm
from tilewright.solve.bit_vectors import Applied, Number, Question, Variable, Witness, ask

REGISTER = {16: "h", 32: "r", 64: "d"}
UNSIGNED, SIGNED, BITS = ("u16", "u32", "u64"), ("s16", "s32", "s64"), ("b16", "b32", "b64")
NUMBERS = (*UNSIGNED, *SIGNED)


def width(name: str) -> int:
    return int(name[1:])


def reg(name: str, number: int) -> str:
    return f"%{REGISTER[width(name)]}{number}"


def two(row: str, types: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(f"{row}.{t} {reg(t, 1)}, {reg(t, 2)}, {reg(t, 3)};", reg(t, 1)) for t in types]


def one(row: str, types: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(f"{row}.{t} {reg(t, 1)}, {reg(t, 2)};", reg(t, 1)) for t in types]


def wide(t: str) -> str:
    return f"{t[0]}{2 * width(t)}"


ARITHMETIC = [
    *(each for row in ("add", "sub", "min", "max") for each in two(row, NUMBERS)),
    *(each for row in ("mul.lo", "mul.hi") for each in two(row, NUMBERS)),
    *((f"mul.wide.{t} {reg(wide(t), 1)}, {reg(t, 2)}, {reg(t, 3)};", reg(wide(t), 1))
      for t in ("u16", "s16", "u32", "s32")),
    *((f"mad.{part}.{t} {reg(t, 1)}, {reg(t, 2)}, {reg(t, 3)}, {reg(t, 4)};", reg(t, 1))
      for part in ("lo", "hi") for t in NUMBERS),
    *((f"mad.wide.{t} {reg(wide(t), 1)}, {reg(t, 2)}, {reg(t, 3)}, {reg(wide(t), 4)};", reg(wide(t), 1))
      for t in ("u16", "s16", "u32", "s32")),
    *((f"mad.lo.{t} {reg(t, 1)}, {reg(t, 2)}, {reg(t, 2)}, {reg(t, 2)};", reg(t, 1)) for t in NUMBERS),
    *one("neg", SIGNED),
    *one("abs", SIGNED),
    *((f"add.{t} {reg(t, 1)}, {reg(t, 2)}, {number};", reg(t, 1)) for t in NUMBERS for number in (-1, 7, 65535)),
    *((f"sub.{t} {reg(t, 1)}, {number}, {reg(t, 2)};", reg(t, 1)) for t in NUMBERS for number in (-1, 7)),
]  # fmt: skip
LOGIC = [
    *(each for row in ("and", "or", "xor") for each in two(row, BITS)),
    *one("not", BITS),
    *((f"{row}.pred %p1, %p2, %p3;", "%p1") for row in ("and", "or", "xor")),
    ("not.pred %p1, %p2;", "%p1"),
    *((f"and.{t} {reg(t, 1)}, {reg(t, 2)}, -2;", reg(t, 1)) for t in BITS),
]
SHIFTS = [
    *((f"shl.{t} {reg(t, 1)}, {reg(t, 2)}, %r9;", reg(t, 1)) for t in BITS),
    *((f"shr.{t} {reg(t, 1)}, {reg(t, 2)}, %r9;", reg(t, 1)) for t in (*NUMBERS, *BITS)),
    *((f"{row}.{t} {reg(t, 1)}, {reg(t, 2)}, {amount};", reg(t, 1))
      for row, types in (("shl", BITS), ("shr", (*NUMBERS, *BITS))) for t in types
      for amount in (0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 200, -1)),
    *((f"shr.{t} {reg(t, 1)}, {number}, %r2;", reg(t, 1)) for t in NUMBERS for number in (-8, 1000)),
]  # fmt: skip
DIVISORS = {16: (1, 2, 3, 7, 255, 32767, -1, -3), 32: (1, 3, 10, 641, 65536, 0x7FFFFFFF, -1, -7),
            64: (1, 3, 10, 1 << 40, -1, -10)}  # fmt: skip
DIVISION = [
    (f"{row}.{t} {reg(t, 1)}, {reg(t, 2)}, {divisor};", reg(t, 1))
    for row in ("div", "rem")
    for t in NUMBERS
    for divisor in DIVISORS[width(t)]
]
SIGNED_SIGNS = ("eq", "ne", "lt", "le", "gt", "ge")
UNSIGNED_SIGNS = (*SIGNED_SIGNS, "lo", "ls", "hi", "hs")
COMPARED = [(t, sign) for t in UNSIGNED for sign in UNSIGNED_SIGNS]
COMPARED += [(t, sign) for t in SIGNED for sign in SIGNED_SIGNS] + [(t, sign) for t in BITS for sign in ("eq", "ne")]
COMPARISONS = [
    *((f"setp.{sign}.{t} %p1, {reg(t, 2)}, {reg(t, 3)};", "%p1") for t, sign in COMPARED),
    *((f"setp.{sign}.{t} %p1, {reg(t, 2)}, -3;", "%p1") for t, sign in COMPARED),
    *((f"setp.{sign}.{joined}.{t} {targets}, {reg(t, 2)}, {reg(t, 3)}, {third};", target)
      for (t, sign), joined, third in product(
          [("u32", "lt"), ("s32", "ge"), ("u64", "hi"), ("s16", "le"), ("b32", "eq")], ("and", "or", "xor"),
          ("%p4", "!%p4"))
      for targets, target in (("%p1", "%p1"), ("%p1|%p2", "%p1"), ("%p1|%p2", "%p2"))),
    *((f"setp.lt.{t} %p1|%p2, {reg(t, 2)}, {reg(t, 3)};", target) for t in NUMBERS for target in ("%p1", "%p2")),
]  # fmt: skip
MOVES = [
    *((f"selp.{t} {reg(t, 1)}, {reg(t, 2)}, {reg(t, 3)}, %p1;", reg(t, 1)) for t in (*NUMBERS, *BITS)),
    *((f"selp.{t} {reg(t, 1)}, 7, -2, %p1;", reg(t, 1)) for t in (*NUMBERS, *BITS)),
    *one("mov", (*NUMBERS, *BITS)),
    ("mov.pred %p1, %p2;", "%p1"),
    ("mov.b32 %r1, {%h2, %h3};", "%r1"),
    ("mov.b64 %d1, {%r2, %r3};", "%d1"),
    ("mov.b64 %d1, {%h2, %h3, %h4, %h5};", "%d1"),
    ("mov.b32 {%h1, %h2}, %r3;", "%h1"),
    ("mov.b32 {%h1, %h2}, %r3;", "%h2"),
    ("mov.b64 {%r1, %r2}, %d3;", "%r1"),
    ("mov.b64 {%r1, %r2}, %d3;", "%r2"),
    ("mov.b64 {_, %r2}, %d3;", "%r2"),
    ("mov.b64 {%r1, _}, %d3;", "%r1"),
    ("mov.b64 {%h1, %h2, %h3, %h4}, %d3;", "%h1"),
    ("mov.b64 {%h1, %h2, %h3, %h4}, %d3;", "%h3"),
    ("mov.b64 {%h1, %h2, %h3, %h4}, %d3;", "%h4"),
]
CONVERSIONS = [
    *((f"cvt.{to}.{t} {reg(to, 1)}, {reg(t, 2)};", reg(to, 1)) for to in NUMBERS for t in NUMBERS),
    # A narrow part of a wider register.
    *((f"cvt.{to}.{t} {reg(to, 1)}, {register};", reg(to, 1))
      for to in NUMBERS for t, register in (("u8", "%r2"), ("s8", "%r2"), ("u16", "%r2"), ("s16", "%r2"),
                                            ("u8", "%h2"), ("s8", "%h2"))),
]  # fmt: skip
FIELDS = [
    *((f"bfe.{t} {reg(t, 1)}, {reg(t, 2)}, {begin}, {count};", reg(t, 1))
      for t in ("u32", "u64", "s32", "s64")
      for begin, count in ((0, 1), (0, 8), (4, 12), (31, 1), (0, 32), (30, 8), (0, 0), (40, 4), (40, 40), (260, 4))),
    *((f"bfe.{t} {reg(t, 1)}, {reg(t, 2)}, %r8, %r9;", reg(t, 1)) for t in ("u32", "u64", "s32", "s64")),
    *((f"bfi.{t} {reg(t, 1)}, {reg(t, 2)}, {reg(t, 3)}, {begin}, {count};", reg(t, 1))
      for t in ("b32", "b64")
      for begin, count in ((0, 1), (4, 12), (31, 1), (0, 32), (30, 8), (5, 0), (40, 4), (3, 260), ("%r8", "%r9"))),
]  # fmt: skip
COUNTED = [
    *((f"{row}.{t} %r1, {reg(t, 2)};", "%r1") for row in ("popc", "clz") for t in ("b32", "b64")),
    *((f"bfind.{t} %r1, {reg(t, 2)};", "%r1") for t in ("u32", "s32", "u64", "s64")),
    *one("brev", ("b32", "b64")),
    *one("cnot", BITS),
]
PICKED = [
    *((f"lop3.b32 %r1, %r2, %r3, {third}, {table};", "%r1")
      for third in ("%r4", "12") for table in (0, 255, 0x80, 0xFE, 0xEA, 0x96, 0xE8, 0x1B, 0x7F, 1, 0xF0, 0xCA)),
    *((f"shf.{way}.{mode}.b32 %r1, %r2, %r3, {amount};", "%r1")
      for way in "lr" for mode in ("wrap", "clamp") for amount in ("%r4", 0, 4, 31, 32, 33, 64, -1)),
    *((f"prmt.b32 %r1, %r2, {other}, {selector};", "%r1")
      for other in ("%r3", "0x8001ff7f") for selector in ("0x3210", "0x7654", "0x5410", "0xba98", "0x0f4c")),
    *((f"slct.{t}.s32 {reg(t, 1)}, {reg(t, 2)}, {reg(t, 3)}, {decides};", reg(t, 1))
      for t in ("u32", "s64", "b16", "b32") for decides in ("%r4", "-1", "0")),
    *((f"set.{sign}.{to}.{t} %r1, {reg(t, 2)}, {reg(t, 3)};", "%r1")
      for to in ("u32", "s32") for sign, t in (("lt", "s32"), ("ge", "u64"), ("eq", "b16"), ("ne", "s64"))),
    *((f"set.gt.{joined}.u32.s32 %r1, %r2, %r3, {third};", "%r1")
      for joined in ("and", "xor") for third in ("%p4", "!%p4")),
    *((f"sad.{t} {reg(t, 1)}, {reg(t, 2)}, {reg(t, 3)}, {reg(t, 4)};", reg(t, 1)) for t in NUMBERS),
]  # fmt: skip
NESTED = [
    ("mul.lo.u32 %r1, %r2, %r3; mul.lo.u32 %r4, %r5, %r2; mul.lo.u32 %r1, %r4, %r1; mul.lo.u32 %r1, %r1, 3;", "%r1"),
    ("add.u32 %r1, %r2, %r3; add.u32 %r4, %r1, %r2; sub.u32 %r4, %r4, %r1; add.u32 %r1, %r4, %r1;", "%r1"),
    ("mad.lo.u32 %r1, %r2, %r3, %r2; mad.lo.u32 %r1, %r1, %r1, %r1;", "%r1"),
    ("mul.wide.u32 %d1, %r2, %r3; mul.wide.u32 %d2, %r3, %r2; mul.lo.u64 %d1, %d1, %d2; add.u64 %d1, %d1, %d1;", "%d1"),
    ("mul.lo.u32 %r1, %r2, %r3; sub.u32 %r4, %r2, %r3; sub.u32 %r5, %r3, %r2; add.u32 %r1, %r4, %r1;", "%r1"),
]
LISTED = [
    *NESTED, *ARITHMETIC, *LOGIC, *SHIFTS, *DIVISION, *COMPARISONS, *MOVES, *CONVERSIONS, *FIELDS, *COUNTED, *PICKED,
]  # fmt: skip


@pytest.mark.sample(250)
@pytest.mark.parametrize(("text", "target"), LISTED, ids=[f"{text} {target}" for text, target in LISTED])
def test_a_term_is_what_the_machine_computes(text: str, target: str) -> None:
    assert disagreement(text, target) is None


MAYBE = [
    # Forms whose results or operands are of other widths than their types, or that keep something besides.
    ("cvt.u8.u32 %r1, %r2;", "%r1"), ("cvt.s8.s32 %r1, %r2;", "%r1"), ("cvt.u8.u32 %h1, %r2;", "%h1"),
    ("cvt.s8.s32 %h1, %r2;", "%h1"), ("cvt.u16.u32 %r1, %r2;", "%r1"), ("cvt.s16.s32 %r1, %r2;", "%r1"),
    ("cvt.s16.u64 %d1, %d2;", "%d1"), ("cvt.u32.u64 %d1, %d2;", "%d1"), ("cvt.sat.u8.s32 %r1, %r2;", "%r1"),
    ("cvt.sat.u32.s32 %r1, %r2;", "%r1"), ("cvt.sat.s16.s32 %h1, %r2;", "%h1"),
    ("add.u16x2 %r1, %r2, %r3;", "%r1"), ("add.s16x2 %r1, %r2, %r3;", "%r1"), ("min.u16x2 %r1, %r2, %r3;", "%r1"),
    ("min.s16x2 %r1, %r2, %r3;", "%r1"), ("max.u16x2 %r1, %r2, %r3;", "%r1"), ("max.s16x2 %r1, %r2, %r3;", "%r1"),
    ("min.relu.s32 %r1, %r2, %r3;", "%r1"), ("max.relu.s32 %r1, %r2, %r3;", "%r1"),
    ("add.sat.s32 %r1, %r2, %r3;", "%r1"), ("sub.sat.s32 %r1, %r2, %r3;", "%r1"),
    ("mad.hi.sat.s32 %r1, %r2, %r3, %r4;", "%r1"),
    ("add.cc.u32 %r1, %r2, %r3; addc.u32 %r4, %r5, %r6;", "%r4"), ("bfind.shiftamt.u32 %r1, %r2;", "%r1"),
    ("div.u32 %r1, %r2, %r3;", "%r1"), ("div.s32 %r1, %r2, %r3;", "%r1"),
    ("mul24.lo.u32 %r1, %r2, %r3;", "%r1"), ("mad24.lo.s32 %r1, %r2, %r3, %r4;", "%r1"),
    ("prmt.b32.f4e %r1, %r2, %r3, %r4;", "%r1"), ("prmt.b32.rc8 %r1, %r2, %r3, 2;", "%r1"),
    ("prmt.b32 %r1, %r2, %r3, %r4;", "%r1"), ("dp4a.u32.u32 %r1, %r2, %r3, %r4;", "%r1"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "target"), MAYBE, ids=[text for text, _ in MAYBE])
def test_other_forms_have_a_right_term_or_none(text: str, target: str) -> None:
    try:
        assert disagreement(text, target) is None
    except NoTerm:
        # Whatever stands in its place can be anything that the register can hold.
        of = expressions(text)
        terms = terms_of(of)
        try:
            term = terms.of(of.registers[target])
        except NoTerm:
            return
        assert isinstance(term, Variable)
        assert term.largest >= max(machine_values(of, target, [(7,) * len(of.inputs), (0xFFFF_FFFF,) * len(of.inputs)]))


@pytest.mark.parametrize("row", ["div", "rem"])
@pytest.mark.parametrize("t", ["u32", "s32", "u64", "s64"])
def test_a_division_by_a_number_allows_what_the_machine_gives(row: str, t: str) -> None:
    """What holds of its quotient and remainder holds of the machine's, and of no others near them where no product of
    these overflows."""
    bits, high = width(t), (1 << width(t)) - 1
    of = expressions(f"{row}.{t} {reg(t, 1)}, {reg(t, 2)}, {reg(t, 3)};")
    quotients = expressions(f"div.{t} {reg(t, 1)}, {reg(t, 2)}, {reg(t, 3)};")
    numbers = (0, 1, 2, 3, 7, 64, 1000, (high >> 1) - 1, high >> 1, (high >> 1) + 1, high - 6, high)
    pairs = list(product(numbers, repeat=2))
    results = machine_values(of, reg(t, 1), pairs)
    for pair, result, quotient in zip(pairs, results, machine_values(quotients, reg(t, 1), pairs), strict=True):
        terms = terms_of(of)
        term = terms.of(of.registers[reg(t, 1)])
        found: set[int] = set()
        for near in (quotient - 1, quotient, quotient + 1):
            # The variables are the operands, the quotient, and what a remainder is where nothing is known of it.
            values = {**dict(enumerate(pair)), 2: near & high, 3: result}
            known: dict[int, int] = {}
            if all(value_of(side, values, known) for side in terms.sides):
                found.add(value_of(term, values, known))
        assert result in found, pair
        assert not pair[1] or max(pair) >> bits // 2 or found == {result}, pair


# ---------------------------------------------------------------- divisions as compilers write them


def magic(divisor: int, shift: int) -> int:
    """The factor that compilers multiply by, rounded up; it may be wrong for some dividends."""
    return -(-(1 << (32 + shift)) // divisor)


def dividends(divisor: int, *, is_signed: bool) -> list[int]:
    """Extremes, multiples of the divisor and what is beside them, of both signs."""
    low, high = (-(1 << 31), (1 << 31) - 1) if is_signed else (0, (1 << 32) - 1)
    found = {low, low + 1, -1, 0, 1, high - 1, high}
    for times in (-3, -2, -1, 1, 2, 3, high // divisor - 1, high // divisor, low // divisor, low // divisor + 1):
        found |= {times * divisor + beside for beside in (-1, 0, 1)}
    found |= {int(each) for each in np.random.default_rng(divisor).integers(low, high, 6)}
    return sorted(each for each in found if low <= each <= high)


def allowed(of: Expressions, targets: tuple[str, ...]) -> Callable[[int], set[tuple[int, ...]]]:
    """Values that the terms of registers can have where the dividend is fixed, by the conditions on the quotient and
    remainder that stand for the division."""
    terms = terms_of(of)
    wanted = [terms.of(of.registers[target]) for target in targets]
    fresh = terms.variables[1:]
    assert len(fresh) in (0, 2), "a quotient and a remainder"

    def solutions(dividend: int) -> set[tuple[int, ...]]:
        if not fresh:
            return {tuple(value_of(term, {0: dividend}) for term in wanted)}
        ((_, divisor, is_signed),) = terms._quotients
        value = signed(dividend, 32) if is_signed else dividend
        found: set[tuple[int, ...]] = set()
        for quotient in range(value // divisor - 2, value // divisor + 3):
            remainder = value - quotient * divisor
            values = {0: dividend, 1: quotient & 0xFFFF_FFFF, 2: remainder & 0xFFFF_FFFF}
            known: dict[int, int] = {}
            if all(value_of(side, values, known) for side in terms.sides):
                found.add(tuple(value_of(term, values, known) for term in wanted))
        return found

    return solutions


def quotient_text(t: str, factor: int, shift: int, shr: str = "") -> str:
    text = f"mul.hi.{t} %r2, %r1, {factor};"
    return f"{text} shr.{shr or t} %r3, %r2, {shift};" if shift else f"{text} mov.b32 %r3, %r2;"


@pytest.mark.sample(2)
@pytest.mark.parametrize("shift", range(9))
@pytest.mark.parametrize("t", ["u32", "s32"])
def test_a_division_by_a_reciprocal_allows_what_the_machine_gives(t: str, shift: int) -> None:
    """What the machine computes of a dividend must be a solution, else it looks impossible; no other, else what is
    found is no launch."""
    followed = 0
    targets = ("%r3", "%r5")
    for divisor in range(2, 301):
        factor = magic(divisor, shift)
        if factor >> 32:
            continue
        of = expressions(quotient_text(t, factor, shift) + f"mul.lo.s32 %r4, %r3, {divisor}; sub.s32 %r5, %r1, %r4;")
        terms = terms_of(of)
        terms.of(of.registers["%r5"])
        followed += len(terms.variables) > 1
        solutions = allowed(of, targets)
        rows = [(each & 0xFFFF_FFFF,) for each in dividends(divisor, is_signed=t == "s32")]
        expected = zip(*(machine_values(of, target, rows) for target in targets), strict=True)
        for (row,), values in zip(rows, expected, strict=True):
            assert solutions(row) == {values}, f"{row:#x} / {divisor} >> {shift}: {values}"
    none = [("u32", 0), ("s32", 8)]  # only powers of two, and none whose factor is positive
    assert bool(followed) == ((t, shift) not in none), "the rewriting is used"


@pytest.mark.sample(2)
@pytest.mark.parametrize("order", ["%r2, %r1", "%r1, %r2"])
@pytest.mark.parametrize("shift", range(9))
def test_a_division_whose_factor_has_32_bits_adds_the_dividend(shift: int, order: str) -> None:
    followed = 0
    targets = ("%r4", "%r6")
    for divisor in range(2, 301):
        factor = magic(divisor, shift)
        if not 1 << 31 <= factor < 1 << 32:
            continue
        of = expressions(
            f"mul.hi.s32 %r2, %r1, {factor - (1 << 32)}; add.s32 %r3, {order};"
            + (f"shr.s32 %r4, %r3, {shift};" if shift else "mov.b32 %r4, %r3;")
            + f"mul.lo.s32 %r5, %r4, {divisor}; sub.s32 %r6, %r1, %r5;"
        )
        terms = terms_of(of)
        terms.of(of.registers["%r6"])
        followed += len(terms.variables) > 1
        solutions = allowed(of, targets)
        rows = [(each & 0xFFFF_FFFF,) for each in dividends(divisor, is_signed=True)]
        expected = zip(*(machine_values(of, target, rows) for target in targets), strict=True)
        for (row,), values in zip(rows, expected, strict=True):
            assert solutions(row) == {values}, f"{row:#x} / {divisor} >> {shift}: {values}"
    assert followed or not shift


@pytest.mark.parametrize("factor", [1, 0x66666667, 0x7FFFFFFF, -1, -580400985, -(1 << 31), 0])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("shr", ["u32", "b32", "s32"])
def test_the_sign_of_a_high_half(factor: int, added: bool, shr: str) -> None:
    add = "add.s32 %r3, %r2, %r1;" if added else "mov.b32 %r3, %r2;"
    of = expressions(f"mul.hi.s32 %r2, %r1, {factor}; {add} shr.{shr} %r4, %r3, 31;")
    solutions = allowed(of, ("%r4",))
    rows = [(each & 0xFFFF_FFFF,) for each in (0, 1, 7, -1, -7, (1 << 31) - 1, -(1 << 31))]
    for (row,), value in zip(rows, machine_values(of, "%r4", rows), strict=True):
        assert solutions(row) == {(value,)}, f"{row:#x} * {factor}"


@pytest.mark.parametrize(
    ("t", "shr", "factor", "shift"),
    [
        ("s32", "u32", 0x66666667, 2),
        ("s32", "b32", 0x66666667, 2),
        ("u32", "s32", 0xAAAAAAAB, 1),
        ("u32", "u32", 3, 2),  # the divisor has more than 32 bits
        ("s32", "s32", 3, 2),
        ("u32", "u32", 0xAAAAAAAB, 33),
        ("u32", "u32", 0xCCCCCCCD, 40),
        ("u32", "u32", 0xAAAAAAAB, -1),
        ("s32", "s32", 0x55555556, -1),
        ("u32", "u32", 1, 31),
        ("u32", "u32", 0x80000001, 31),
        ("s32", "s32", 0x40000001, 31),
        ("s32", "s32", 1, 0),
        ("s32", "s32", -5, 2),
        ("u32", "u32", -5, 2),
    ],
)
def test_what_only_looks_like_a_division_is_none(t: str, shr: str, factor: int, shift: int) -> None:
    of = expressions(quotient_text(t, factor, shift, shr))
    solutions = allowed(of, ("%r3",))
    values = [0, 1, 2, 5, 6, 7, 100, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, 0xFFFF_FFF0, 0xFFFF_FFFF, 3_000_000_001]
    for each in values:
        (expected,) = machine_values(of, "%r3", [(each,)])
        assert (expected,) in solutions(each), hex(each)


def test_one_dividend_divided_signed_and_unsigned() -> None:
    """Two quotients of one number are two, even where the divisor is the same."""
    of = expressions(
        f"mul.hi.u32 %r2, %r1, {0xAAAAAAAB}; shr.u32 %r3, %r2, 1; mul.hi.s32 %r4, %r1, {0x55555556};"
        "add.u32 %r5, %r3, %r4; sub.u32 %r6, %r3, %r4;"
    )
    terms = terms_of(of)
    wanted = [terms.of(of.registers[target]) for target in ("%r5", "%r6")]
    for dividend in (-9, -1, 0, 7, (1 << 31) - 1):
        bits = dividend & 0xFFFF_FFFF
        expected = [machine_values(of, target, [(bits,)])[0] for target in ("%r5", "%r6")]
        conditions = [Applied("eq", (terms.variables[0], Number(bits, 32)), 1)]
        conditions += [
            Applied("eq", (term, Number(value, 32)), 1) for term, value in zip(wanted, expected, strict=True)
        ]
        assert isinstance(ask(Question(tuple(terms.variables), (*conditions, *terms.sides))), Witness), dividend


def test_dividends_with_several_divisors_stay_right() -> None:
    of = expressions(
        f"mul.hi.u32 %r2, %r1, {0xAAAAAAAB}; shr.u32 %r3, %r2, 1; mul.hi.u32 %r4, %r1, {0xCCCCCCCD};"
        "shr.u32 %r5, %r4, 2; mul.lo.u32 %r6, %r3, 3; sub.u32 %r7, %r1, %r6; mul.lo.u32 %r8, %r5, 5;"
        "sub.u32 %r9, %r1, %r8; mad.lo.u32 %r10, %r7, 5, %r9;"
    )
    terms = terms_of(of)
    term = terms.of(of.registers["%r10"])
    for dividend in (0, 1, 14, 15, 0xFFFF_FFFF, 0x8000_0000):
        conditions = (
            Applied("eq", (terms.variables[0], Number(dividend, 32)), 1),
            Applied("eq", (term, Number(dividend % 3 * 5 + dividend % 5, 32)), 1),
        )
        assert isinstance(ask(Question(tuple(terms.variables), (*conditions, *terms.sides))), Witness), dividend
