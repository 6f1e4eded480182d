"""Carries, dot products, bit fields and byte permutations, each against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.machine.small_kernels import evaluate

RNG = np.random.default_rng(21)
M32, M64, M128 = (1 << 32) - 1, (1 << 64) - 1, (1 << 128) - 1
EDGES = np.array([0, 1, 0x7FFF_FFFF, 0x8000_0000, M32], np.uint32)
A, B, C = (np.concatenate([np.roll(EDGES, turn), RNG.integers(0, 1 << 32, 27, np.uint32)]) for turn in range(3))
SMALL = (np.arange(32) % 37).astype(np.uint32)


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def two_words(text: str, expected: Callable[[int, int], int]) -> None:
    """`text` makes %rd3 of the words %r1, %r2 of a and %r3, %r5 of b."""
    inputs = {"%r1": A, "%r2": B, "%r3": C, "%r5": np.roll(A, 7)}
    found = evaluate(text + " mov.b64 %rd3, {%r6, %r7};", inputs, "%rd3", np.uint64)
    a = [int(low) | int(high) << 32 for low, high in zip(A, B, strict=True)]
    b = [int(low) | int(high) << 32 for low, high in zip(C, np.roll(A, 7), strict=True)]
    assert found.tolist() == [expected(x, y) & M64 for x, y in zip(a, b, strict=True)]


def test_carries_make_numbers_of_two_words() -> None:
    two_words("add.cc.u32 %r6, %r1, %r3; addc.u32 %r7, %r2, %r5;", lambda a, b: a + b)
    two_words("sub.cc.u32 %r6, %r1, %r3; subc.u32 %r7, %r2, %r5;", lambda a, b: a - b)
    # A product of two words, as cuDNN's and CUTLASS's own helpers spell it.
    two_words(
        "mul.lo.u32 %r6, %r1, %r3; mul.hi.u32 %r7, %r1, %r3;"
        "mad.lo.cc.u32 %r7, %r1, %r5, %r7; mad.lo.u32 %r7, %r2, %r3, %r7;",
        lambda a, b: a * b,
    )


def test_carries_go_through_three_words_and_stay_apart_by_lane() -> None:
    text = (
        "add.cc.u32 %r6, %r1, %r2; addc.cc.u32 %r7, %r3, -1; addc.u32 %r8, 0, 0;"
        "mov.b64 %rd1, {%r7, %r8}; shl.b64 %rd3, %rd1, 8;"
    )
    found = evaluate(text, {"%r1": A, "%r2": B, "%r3": C}, "%rd3", np.uint64)
    wanted = [((int(a) + int(b) + ((int(c) + M32) << 32)) >> 32) << 8 for a, b, c in zip(A, B, C, strict=True)]
    assert found.tolist() == wanted


def test_a_high_product_adds_with_the_carry() -> None:
    text = "add.cc.u32 %r6, %r1, %r2; madc.hi.s32 %r4, %r1, %r3, %r2;"
    found = evaluate(text, {"%r1": A, "%r2": B, "%r3": C}, "%r4", np.uint32)
    wanted = [
        ((signed(int(a)) * signed(int(c)) >> 32) + int(b) + (int(a) + int(b) >> 32)) & M32
        for a, b, c in zip(A, B, C, strict=True)
    ]
    assert found.tolist() == wanted


def fields(value: int, bits: int, is_signed: bool) -> list[int]:
    parts = [value >> at & ((1 << bits) - 1) for at in range(0, 32, bits)]
    return [signed(part, bits) if is_signed else part for part in parts]


def halves(function: Callable[[int, int], int], a: int, b: int, is_signed: bool = False) -> int:
    pairs = zip(fields(a, 16, is_signed), fields(b, 16, is_signed), strict=True)
    low, high = (function(x, y) & 0xFFFF for x, y in pairs)
    return low | high << 16


CASES: list[tuple[str, Callable[[int, int, int], int]]] = [
    ("dp4a.s32.u32 %r4, %r1, %r2, %r3;",
     lambda a, b, c: sum(x * y for x, y in zip(fields(a, 8, True), fields(b, 8, False), strict=True)) + c),
    ("dp4a.u32.u32 %r4, %r1, %r2, %r3;",
     lambda a, b, c: sum(x * y for x, y in zip(fields(a, 8, False), fields(b, 8, False), strict=True)) + c),
    ("dp2a.lo.s32.s32 %r4, %r1, %r2, %r3;",
     lambda a, b, c: sum(x * y for x, y in zip(fields(a, 16, True), fields(b, 8, True)[:2], strict=True)) + c),
    ("dp2a.hi.u32.s32 %r4, %r1, %r2, %r3;",
     lambda a, b, c: sum(x * y for x, y in zip(fields(a, 16, False), fields(b, 8, True)[2:], strict=True)) + c),
    ("mul24.hi.s32 %r4, %r1, %r2;", lambda a, b, c: signed(a & 0xFFFFFF, 24) * signed(b & 0xFFFFFF, 24) >> 16),
    ("mad24.hi.u32 %r4, %r1, %r2, %r3;", lambda a, b, c: ((a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16) + c),
    ("mad.hi.sat.s32 %r4, %r1, %r2, %r3;",
     lambda a, b, c: min(max((signed(a) * signed(b) >> 32) + signed(c), -(1 << 31)), (1 << 31) - 1)),
    ("max.relu.s32 %r4, %r1, %r2;", lambda a, b, c: max(signed(a), signed(b), 0)),
    ("min.relu.s16x2 %r4, %r1, %r2;", lambda a, b, c: halves(lambda x, y: max(min(x, y), 0), a, b, True)),
    ("max.u16x2 %r4, %r1, %r2;", lambda a, b, c: halves(max, a, b)),
    ("min.s16x2 %r4, %r1, %r2;", lambda a, b, c: halves(min, a, b, True)),
    ("add.u16x2 %r4, %r1, %r2;", lambda a, b, c: halves(lambda x, y: x + y, a, b)),
    ("add.s16x2 %r4, %r1, %r2;", lambda a, b, c: halves(lambda x, y: x + y, a, b)),
    ("bmsk.clamp.b32 %r4, %r5, %r6;", lambda a, b, c: ((1 << min(b, 32)) - 1) << min(a, 32)),
    ("bmsk.wrap.b32 %r4, %r5, %r6;", lambda a, b, c: ((1 << b % 32) - 1) << a % 32),
    ("szext.clamp.s32 %r4, %r1, %r5;",
     lambda a, b, c: 0 if b == 0 else signed(a & ((1 << min(b, 32)) - 1), min(b, 32))),
    ("szext.wrap.u32 %r4, %r1, %r5;", lambda a, b, c: a & ((1 << b % 32) - 1)),
    ("lop3.or.b32 %r4|%p1, %r1, %r2, %r3, 0x80, 0; selp.b32 %r4, 1, 0, %p1;", lambda a, b, c: a & b & c != 0),
    ("setp.ne.u32 %p2, %r1, 1; lop3.and.b32 %r4|%p1, %r1, %r2, %r3, 0xfe, !%p2; selp.b32 %r4, 1, 0, %p1;",
     lambda a, b, c: a | b | c != 0 and a == 1),
    ("slct.u32.s32 %r4, %r1, %r2, %r3;", lambda a, b, c: a if signed(c) >= 0 else b),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text.split(" ")[0] for text, _ in CASES])
def test_words(text: str, expected: Callable[[int, int, int], int]) -> None:
    if text.startswith("bmsk"):
        triples = (SMALL, np.roll(SMALL, 9), C)
        inputs = {"%r5": triples[0], "%r6": triples[1]}
    elif text.startswith("szext"):
        triples = (A, SMALL, C)
        inputs = {"%r1": A, "%r5": SMALL}
    else:
        triples = (A, B, C)
        inputs = {"%r1": A, "%r2": B, "%r3": C}
    found = evaluate(text, inputs, "%r4", np.uint32)
    assert found.tolist() == [expected(int(a), int(b), int(c)) & M32 for a, b, c in zip(*triples, strict=True)]


def test_the_nth_set_bit() -> None:
    base = (np.arange(32) % 32).astype(np.uint32)
    for n in (0, 1, 3, -1, -4):
        found = evaluate(f"fns.b32 %r4, %r1, %r2, {n};", {"%r1": A, "%r2": base}, "%r4", np.uint32)
        for value, start, got in zip(A.tolist(), base.tolist(), found.tolist(), strict=True):
            up = [bit for bit in range(start, 32) if value >> bit & 1]
            down = [bit for bit in range(start, -1, -1) if value >> bit & 1]
            places = up if n > 0 else down
            wanted = start if n == 0 and value >> start & 1 else M32
            if n:
                wanted = places[abs(n) - 1] if len(places) >= abs(n) else M32
            assert got == wanted


def test_byte_permutations_of_every_mode() -> None:
    """Each mode's result spelled as the ISA describes it: extraction, replication, clamping."""
    control = (np.arange(32) % 4).astype(np.uint32)
    pairs = [(int(b) << 32 | int(a)).to_bytes(8, "little") for a, b in zip(A, B, strict=True)]
    modes: dict[str, Callable[[bytes, int], list[int]]] = {
        "f4e": lambda all8, n: [all8[n + i] for i in range(4)],
        "b4e": lambda all8, n: [all8[(n - i) % 8] for i in range(4)],
        "rc8": lambda all8, n: [all8[n]] * 4,
        "ecl": lambda all8, n: [all8[max(i, n)] for i in range(4)],
        "ecr": lambda all8, n: [all8[min(i, n)] for i in range(4)],
        "rc16": lambda all8, n: [all8[2 * (n % 2) + i % 2] for i in range(4)],
    }
    for mode, function in modes.items():
        found = evaluate(f"prmt.b32.{mode} %r4, %r1, %r2, %r3;", {"%r1": A, "%r2": B, "%r3": control}, "%r4", np.uint32)
        wanted = [
            int.from_bytes(bytes(function(pair, n)), "little") for pair, n in zip(pairs, control.tolist(), strict=True)
        ]
        assert found.tolist() == wanted, mode
