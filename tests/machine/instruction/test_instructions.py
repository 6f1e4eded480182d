"""Instructions that compute: each against NumPy or Python integers, lane by lane."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from ml_dtypes import bfloat16
from numpy.typing import NDArray
from tests.machine.small_kernels import HEADER, evaluate, run_into

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read
from tilewright.machine import instruction as instructions
from tilewright.machine.core.decoder import Decoder, Places
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.model import model_of
from tilewright.machine.core.program import decode
from tilewright.machine.core.shared_layout import Frame
from tilewright.machine.instruction import handler_of
from tilewright.machine.instruction.arithmetic.convert import bf16_from_f32
from tilewright.machine.instruction.arithmetic.floating import fused_f32
from tilewright.machine.numbers import arithmetic
from tilewright.targets.ptx import ptx_table

Array = NDArray[np.generic]
RNG = np.random.default_rng(7)
A = RNG.integers(0, 1 << 32, 32, np.uint32)
B = RNG.integers(0, 1 << 32, 32, np.uint32)
C = RNG.integers(0, 1 << 32, 32, np.uint32)
SMALL = (np.arange(32) % 40).astype(np.uint32)
WIDE_A = RNG.integers(0, 1 << 63, 32, np.uint64) * np.uint64(2) + np.uint64(1)
WIDE_B = RNG.integers(0, 1 << 63, 32, np.uint64)
M32 = (1 << 32) - 1
M64 = (1 << 64) - 1


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


CASES: list[tuple[str, Callable[[int, int, int], int]]] = [
    ("add.s32 %r4, %r1, %r2;", lambda a, b, c: a + b),
    ("sub.u32 %r4, %r1, %r2;", lambda a, b, c: a - b),
    ("sub.u32 %r4, 7, %r2;", lambda a, b, c: 7 - b),
    ("add.sat.s32 %r4, %r1, %r2;", lambda a, b, c: min(max(signed(a) + signed(b), -(1 << 31)), (1 << 31) - 1)),
    ("mul.lo.u32 %r4, %r1, %r2;", lambda a, b, c: a * b),
    ("mul.hi.u32 %r4, %r1, %r2;", lambda a, b, c: a * b >> 32),
    ("mul.hi.s32 %r4, %r1, %r2;", lambda a, b, c: signed(a) * signed(b) >> 32),
    ("mad.lo.s32 %r4, %r1, %r2, %r3;", lambda a, b, c: a * b + c),
    ("mad.hi.u32 %r4, %r1, %r2, %r3;", lambda a, b, c: (a * b >> 32) + c),
    ("mul24.lo.u32 %r4, %r1, %r2;", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    ("div.u32 %r4, %r1, 1000;", lambda a, b, c: a // 1000),
    ("rem.u32 %r4, %r1, 1000;", lambda a, b, c: a % 1000),
    ("div.s32 %r4, %r1, 1000;", lambda a, b, c: abs(signed(a)) // 1000 * (1 if signed(a) > 0 else -1)),
    ("rem.s32 %r4, %r1, -7;", lambda a, b, c: abs(signed(a)) % 7 * (1 if signed(a) > 0 else -1)),
    ("min.s32 %r4, %r1, %r2;", lambda a, b, c: min(signed(a), signed(b))),
    ("max.u32 %r4, %r1, %r2;", lambda a, b, c: max(a, b)),
    ("neg.s32 %r4, %r1;", lambda a, b, c: -a),
    ("abs.s32 %r4, %r1;", lambda a, b, c: abs(signed(a))),
    ("and.b32 %r4, %r1, %r2;", lambda a, b, c: a & b),
    ("or.b32 %r4, %r1, 0x0f0f0f0f;", lambda a, b, c: a | 0x0F0F0F0F),
    ("xor.b32 %r4, %r1, %r2;", lambda a, b, c: a ^ b),
    ("not.b32 %r4, %r1;", lambda a, b, c: ~a),
    ("shl.b32 %r4, %r1, 5;", lambda a, b, c: a << 5),
    ("shr.u32 %r4, %r1, 5;", lambda a, b, c: a >> 5),
    ("shr.s32 %r4, %r1, 5;", lambda a, b, c: signed(a) >> 5),
    ("shl.b32 %r4, %r1, %r5;", lambda a, b, c: a << c if c < 32 else 0),
    ("shr.u32 %r4, %r1, %r5;", lambda a, b, c: a >> c if c < 32 else 0),
    ("shr.s32 %r4, %r1, %r5;", lambda a, b, c: signed(a) >> min(c, 31)),
    ("shf.l.wrap.b32 %r4, %r1, %r2, 9;", lambda a, b, c: (b << 32 | a) << 9 >> 32),
    ("shf.r.clamp.b32 %r4, %r1, %r2, 40;", lambda a, b, c: b),
    ("lop3.b32 %r4, %r1, %r2, %r3, 0x96;", lambda a, b, c: a ^ b ^ c),
    ("lop3.b32 %r4, %r1, %r2, %r3, 0xca;", lambda a, b, c: (a & b) | (~a & c)),
    ("bfe.u32 %r4, %r1, 4, 9;", lambda a, b, c: a >> 4 & 0x1FF),
    ("bfe.s32 %r4, %r1, 4, 9;", lambda a, b, c: signed(a >> 4 & 0x1FF, 9)),
    ("bfe.s32 %r4, %r1, 28, 9;", lambda a, b, c: signed(a) >> 28),
    ("bfi.b32 %r4, %r1, %r2, 8, 12;", lambda a, b, c: (b & ~(0xFFF << 8)) | (a & 0xFFF) << 8),
    ("popc.b32 %r4, %r1;", lambda a, b, c: a.bit_count()),
    ("clz.b32 %r4, %r1;", lambda a, b, c: 32 - a.bit_length()),
    ("brev.b32 %r4, %r1;", lambda a, b, c: int(f"{a:032b}"[::-1], 2)),
    ("bfind.u32 %r4, %r1;", lambda a, b, c: a.bit_length() - 1),
    ("sad.u32 %r4, %r1, %r2, %r3;", lambda a, b, c: abs(a - b) + c),
    ("prmt.b32 %r4, %r1, %r2, 0x7531;", lambda a, b, c: prmt(a, b, 0x7531)),
    ("prmt.b32 %r4, %r1, %r2, 0x80f4;", lambda a, b, c: prmt(a, b, 0x80F4)),
    ("setp.lt.s32 %p1, %r1, %r2; selp.b32 %r4, 1, 0, %p1;", lambda a, b, c: signed(a) < signed(b)),
    ("setp.hi.u32 %p1, %r1, %r2; selp.b32 %r4, 1, 0, %p1;", lambda a, b, c: a > b),
    ("setp.ne.u32 %p2, %r5, 3; setp.lt.and.u32 %p1, %r1, %r2, %p2; selp.b32 %r4, 1, 0, %p1;",
     lambda a, b, c: a < b and c != 3),
    ("setp.ne.u32 %p2, %r5, 3; setp.ge.or.u32 %p1|%p3, %r1, %r2, !%p2; selp.b32 %r4, 1, 0, %p3;",
     lambda a, b, c: a < b or c == 3),
    ("set.gt.u32.u32 %r4, %r1, %r2;", lambda a, b, c: -1 if a > b else 0),
    ("setp.gt.u32 %p1, %r1, %r2; setp.lt.u32 %p2, %r5, 9; xor.pred %p3, %p1, %p2; not.pred %p3, %p3;"
     "selp.b32 %r4, 1, 0, %p3;", lambda a, b, c: (a > b) == (c < 9)),
]  # fmt: skip


def prmt(a: int, b: int, control: int) -> int:
    source = (b << 32 | a).to_bytes(8, "little")
    result = 0
    for index in range(4):
        nibble = control >> (4 * index) & 15
        byte = source[nibble & 7]
        if nibble & 8:
            byte = 0xFF if byte & 0x80 else 0
        result |= byte << (8 * index)
    return result


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[case[0].split(";")[-2].strip() for case in CASES])
def test_32_bit_integers(text: str, expected: Callable[[int, int, int], int]) -> None:
    third = SMALL if "%r5" in text else C
    inputs: dict[str, Array] = {"%r1": A, "%r2": B, "%r5" if "%r5" in text else "%r3": third}
    result = evaluate(text, inputs, "%r4", np.uint32)
    wanted = [expected(int(a), int(b), int(c)) & M32 for a, b, c in zip(A, B, third, strict=True)]
    assert result.tolist() == wanted


WIDE_CASES: list[tuple[str, Callable[[int, int], int]]] = [
    ("add.s64 %rd3, %rd1, %rd2;", lambda a, b: a + b),
    ("mul.lo.s64 %rd3, %rd1, %rd2;", lambda a, b: a * b),
    ("mul.hi.u64 %rd3, %rd1, %rd2;", lambda a, b: a * b >> 64),
    ("mul.hi.s64 %rd3, %rd1, %rd2;", lambda a, b: signed(a, 64) * signed(b, 64) >> 64),
    ("shr.s64 %rd3, %rd1, 17;", lambda a, b: signed(a, 64) >> 17),
    ("shl.b64 %rd3, %rd1, 63;", lambda a, b: a << 63),
    ("div.u64 %rd3, %rd1, %rd2;", lambda a, b: a // b),
    ("rem.u64 %rd3, %rd1, %rd2;", lambda a, b: a % b),
    ("xor.b64 %rd3, %rd1, -1;", lambda a, b: ~a),
    ("clz.b64 %r4, %rd2; cvt.u64.u32 %rd3, %r4;", lambda a, b: 64 - b.bit_length()),
    ("mov.b64 {%r4, %r5}, %rd1; mov.b64 %rd3, {%r5, %r4};", lambda a, b: (a << 32 | a >> 32) & M64),
    ("mov.b64 {%h1, %h2, %h3, %h4}, %rd1; mov.b64 %rd3, {%h4, %h3, %h2, %h1};",
     lambda a, b: sum((a >> (16 * i) & 0xFFFF) << (48 - 16 * i) for i in range(4))),
    ("cvt.u32.u64 %r4, %rd1; cvt.s64.s32 %rd3, %r4;", lambda a, b: signed(a & M32)),
    ("cvt.u32.u64 %r4, %rd1; mul.wide.s32 %rd3, %r4, -3;", lambda a, b: signed(a & M32) * -3),
    ("cvt.u32.u64 %r4, %rd1; mad.wide.u32 %rd3, %r4, 48, %rd2;", lambda a, b: (a & M32) * 48 + b),
    ("cvt.s8.s64 %r4, %rd1; cvt.s64.s32 %rd3, %r4;", lambda a, b: signed(a & 0xFF, 8)),
    ("cvt.u16.u64 %h1, %rd1; cvt.u64.u16 %rd3, %h1;", lambda a, b: a & 0xFFFF),
    ("setp.gt.s64 %p1, %rd1, %rd2; selp.b64 %rd3, %rd1, %rd2, %p1;",
     lambda a, b: a if signed(a, 64) > signed(b, 64) else b),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WIDE_CASES, ids=[case[0].split(";")[-2].strip() for case in WIDE_CASES])
def test_64_bit_integers(text: str, expected: Callable[[int, int], int]) -> None:
    result = evaluate(text, {"%rd1": WIDE_A, "%rd2": WIDE_B}, "%rd3", np.uint64)
    assert result.tolist() == [expected(int(a), int(b)) & M64 for a, b in zip(WIDE_A, WIDE_B, strict=True)]


FLOATS = RNG.standard_normal((3, 32)).astype(np.float32)
FLOATS[0, :6] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-40]
FLOAT_CASES: list[tuple[str, Callable[[Array, Array, Array], Array]]] = [
    ("add.f32 %f4, %f1, %f2;", lambda a, b, c: a + b),
    ("sub.rn.f32 %f4, %f1, %f2;", lambda a, b, c: a - b),
    ("mul.f32 %f4, %f1, %f2;", lambda a, b, c: a * b),
    ("fma.rn.f32 %f4, %f1, %f2, %f3;",
     lambda a, b, c: (a.astype(np.longdouble) * b + c).astype(np.float32)),
    ("neg.f32 %f4, %f1;", lambda a, b, c: -a),
    ("abs.f32 %f4, %f1;", lambda a, b, c: np.abs(a)),
    ("max.f32 %f4, %f1, %f2;", lambda a, b, c: np.fmax(a, b)),
    ("min.NaN.f32 %f4, %f1, %f2;", lambda a, b, c: np.minimum(a, b)),
    ("div.rn.f32 %f4, %f1, %f2;", lambda a, b, c: a / b),
    ("rcp.rn.f32 %f4, %f2;", lambda a, b, c: (1 / b.astype(np.float64)).astype(np.float32)),
    ("sqrt.rn.f32 %f4, %f1;", lambda a, b, c: np.sqrt(a)),
    ("ex2.approx.f32 %f4, %f1;", lambda a, b, c: np.exp2(a.astype(np.float64)).astype(np.float32)),
    ("tanh.approx.f32 %f4, %f1;", lambda a, b, c: np.tanh(a.astype(np.float64)).astype(np.float32)),
    ("setp.lt.f32 %p1, %f1, %f2; selp.f32 %f4, %f1, %f2, %p1;", lambda a, b, c: np.where(a < b, a, b)),
    ("cvt.rni.f32.f32 %f4, %f2;", lambda a, b, c: np.rint(b)),
    ("cvt.rzi.s32.f32 %r4, %f2; cvt.rn.f32.s32 %f4, %r4;", lambda a, b, c: np.trunc(b) + np.float32(0)),
    ("add.f32 %f4, %f2, 0fBF800000;", lambda a, b, c: b - 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"), FLOAT_CASES, ids=[case[0].split(";")[-2].strip() for case in FLOAT_CASES]
)
def test_single_precision(text: str, expected: Callable[[Array, Array, Array], Array]) -> None:
    a, b, c = FLOATS
    result = evaluate(text, {"%f1": a, "%f2": b, "%f3": c}, "%f4", np.float32)
    with np.errstate(all="ignore"):
        wanted = expected(a, b, c).astype(np.float32)
    both = np.isnan(result) & np.isnan(wanted)
    assert np.array_equal(result.view(np.uint32)[~both], wanted.view(np.uint32)[~both])
    if not text.startswith(("neg", "abs", "setp")):
        assert (result.view(np.uint32)[both] == 0x7FFF_FFFF).all()


def test_packed_halves_and_brains() -> None:
    for kind, dtype in (("f16", np.float16), ("bf16", bfloat16)):
        a = RNG.standard_normal(64).astype(dtype)
        b = RNG.standard_normal(64).astype(dtype)
        c = RNG.standard_normal(64).astype(dtype)
        inputs = {f"%r{index}": each.view(np.uint32) for index, each in enumerate((a, b, c), 1)}
        total = evaluate(f"fma.rn.{kind}x2 %r4, %r1, %r2, %r3;", inputs, "%r4", np.uint32).view(dtype)
        exact = (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float32).astype(dtype)
        assert np.array_equal(total.view(np.uint16), exact.view(np.uint16))
        largest = evaluate(f"max.{kind}x2 %r4, %r1, %r2;", inputs, "%r4", np.uint32).view(dtype)
        assert np.array_equal(largest, np.maximum(a, b))


def test_neg_and_abs_make_nan_canonical_as_an_h200_does() -> None:
    images = np.resize(np.array([0x7FC0_0001, 0xFFFF_FFFF, 0x8000_0000, 0x3F80_0000], np.uint32), 32)
    negated = evaluate("neg.f32 %f4, %f1;", {"%f1": images.view(np.float32)}, "%f4", np.uint32)
    assert negated.tolist() == [0x7FFF_FFFF, 0x7FFF_FFFF, 0, 0xBF80_0000] * 8
    absolute = evaluate("abs.f32 %f4, %f1;", {"%f1": images.view(np.float32)}, "%f4", np.uint32)
    assert absolute.tolist() == [0x7FFF_FFFF, 0x7FFF_FFFF, 0, 0x3F80_0000] * 8


def test_conversions_between_floats() -> None:
    values = RNG.standard_normal(32).astype(np.float32) * 100
    pair = evaluate("cvt.rn.bf16x2.f32 %r4, %f1, %f2;", {"%f1": values, "%f2": -values}, "%r4", np.uint32)
    halves = pair.view(bfloat16).reshape(32, 2)
    assert np.array_equal(halves[:, 1], values.astype(bfloat16)) and np.array_equal(
        halves[:, 0], -values.astype(bfloat16)
    )
    for kind, dtype in (("f16", np.float16), ("bf16", bfloat16)):
        back = evaluate(f"cvt.rn.{kind}.f32 %h1, %f1; cvt.f32.{kind} %f4, %h1;", {"%f1": values}, "%f4", np.float32)
        assert np.array_equal(back, values.astype(dtype).astype(np.float32))
    clipped = evaluate("cvt.rn.relu.f16x2.f32 %r4, %f1, %f1;", {"%f1": values}, "%r4", np.uint32).view(np.float16)
    assert np.array_equal(clipped[::2], np.maximum(values, 0).astype(np.float16))
    wide = evaluate("cvt.f64.f32 %fd1, %f1; cvt.rn.f32.f64 %f4, %fd1;", {"%f1": values}, "%f4", np.float32)
    assert np.array_equal(wide, values)


BIT_VECTORS = arrays(np.uint32, 32, elements=st.integers(0, M32))


@given(BIT_VECTORS, BIT_VECTORS, BIT_VECTORS)
def test_the_short_ways_agree_with_exact_arithmetic(a: Array, b: Array, c: Array) -> None:
    with np.errstate(all="ignore"):
        assert np.array_equal(fused_f32(a, b, c), arithmetic.fused_multiply_add("f32", a, b, c))
        from tilewright.machine.numbers import conversion

        assert np.array_equal(bf16_from_f32(a), conversion.float_to_float("bf16", "f32", a))


@given(st.integers(0, 2**23 - 1), st.integers(100, 150), st.integers(-3, 3), st.integers(60, 150))
def test_fused_multiply_add_near_halfway(mantissa: int, exponent: int, nudge: int, addend_exponent: int) -> None:
    a = np.full(32, exponent << 23 | mantissa, np.uint32)
    b = np.full(32, 0x3F80_0001 + nudge, np.uint32)
    c = np.arange(32, dtype=np.uint32) + np.uint32(addend_exponent << 23)
    with np.errstate(all="ignore"):
        assert np.array_equal(fused_f32(a, b, c), arithmetic.fused_multiply_add("f32", a, b, c))


def test_shuffles() -> None:
    lane = np.arange(32)
    for mode, amount, expected in (
        ("idx", 5, np.full(32, 5)),
        ("up", 3, np.where(lane >= 3, lane - 3, lane)),
        ("down", 3, np.where(lane < 29, lane + 3, lane)),
        ("bfly", 7, lane ^ 7),
    ):
        clamp = 0 if mode == "up" else 31
        text = f"shfl.sync.{mode}.b32 %r4|%p1, %r1, {amount}, {clamp}, -1;"
        assert np.array_equal(evaluate(text, {"%r1": A}, "%r4", np.uint32), A[expected])
    segment = evaluate("shfl.sync.down.b32 %r4, %r1, 1, 0x181f, -1;", {"%r1": A}, "%r4", np.uint32)
    assert np.array_equal(segment, A[np.where(lane % 8 < 7, lane + 1, lane)])


SHUFFLE_AGAIN = """
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mad.wide.u32 %rd2, %r1, 4, %rd1;
mov.u32 %r2, %r1;
mov.u32 %r3, 0;
NEXT:
shfl.sync.down.b32 %r2, %r2, 1, 31, -1;
st.global.u32 [%rd2], %r2;
setp.ge.u32 %p1, %r1, 16;
@%p1 exit;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, {turns};
@%p2 bra NEXT;
ret;
"""


def test_a_shuffle_again_and_by_fewer_lanes() -> None:
    out = np.zeros(32, np.uint32)
    run_into(SHUFFLE_AGAIN.format(turns=1), out)
    assert np.array_equal(out, np.minimum(np.arange(32) + 1, 31))
    with pytest.raises(MachineFault, match="MF005"):
        run_into(SHUFFLE_AGAIN.format(turns=2), out)
    butterfly = SHUFFLE_AGAIN.replace("down.b32 %r2, %r2, 1,", "bfly.b32 %r2, %r2, 15,")
    run_into(butterfly.format(turns=2), out)
    assert np.array_equal(out, np.where(np.arange(32) < 16, np.arange(32), np.arange(32) ^ 15))


def test_votes_matches_and_reductions() -> None:
    odd = np.arange(32, dtype=np.uint32) & 1
    ballot = "setp.ne.u32 %p1, %r1, 0; vote.sync.ballot.b32 %r4, {}%p1, -1;"
    assert (evaluate(ballot.format(""), {"%r1": odd}, "%r4", np.uint32) == 0xAAAA_AAAA).all()
    assert (evaluate(ballot.format("!"), {"%r1": odd}, "%r4", np.uint32) == 0x5555_5555).all()
    for mode, expected in (("all", 0), ("any", 1), ("uni", 0)):
        text = f"setp.ne.u32 %p1, %r1, 0; vote.sync.{mode}.pred %p2, %p1, -1;"
        assert (evaluate(text, {"%r1": odd}, "%p2", np.uint32) == expected).all()
    assert (evaluate("redux.sync.add.u32 %r4, %r1, -1;", {"%r1": A}, "%r4", np.uint32) == int(A.sum()) & M32).all()
    smallest = evaluate("redux.sync.min.s32 %r4, %r1, -1;", {"%r1": A}, "%r4", np.int32)
    assert (smallest == A.view(np.int32).min()).all()
    same = evaluate("match.any.sync.b32 %r4, %r1, -1;", {"%r1": odd}, "%r4", np.uint32)
    assert np.array_equal(same, np.where(odd == 1, 0xAAAA_AAAA, 0x5555_5555))


def test_election_picks_one_lane() -> None:
    chosen = evaluate("elect.sync %r5|%p1, -1; selp.u32 %r4, 1, 0, %p1;", {}, "%r4", np.uint32)
    assert chosen.sum() == 1


def test_ldmatrix_and_stmatrix_invert_each_other() -> None:
    for transposed in ("", ".trans"):
        out = np.zeros((32, 4), np.uint32)
        run_into(
            f"""
            .shared .align 128 .b8 tile[1024];
            ld.param.u64 %rd1, [out];
            mov.u32 %r1, %tid.x;
            mov.u32 %r2, tile;
            mad.lo.u32 %r3, %r1, 16, %r2;
            mad.lo.u32 %r4, %r1, 1000, 1;
            mad.lo.u32 %r5, %r1, 1000, 2;
            mad.lo.u32 %r6, %r1, 1000, 3;
            mad.lo.u32 %r7, %r1, 1000, 4;
            stmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 [%r3], {{%r4, %r5, %r6, %r7}};
            bar.warp.sync -1;
            ldmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 {{%r8, %r9, %r10, %r11}}, [%r3];
            mad.wide.u32 %rd2, %r1, 16, %rd1;
            st.global.v4.u32 [%rd2], {{%r8, %r9, %r10, %r11}};
            ret;
            """,
            out,
        )
        lane = np.arange(32, dtype=np.uint32)
        assert np.array_equal(out, np.stack([lane * 1000 + index for index in range(1, 5)], 1))


def test_ldmatrix_places_rows() -> None:
    out = np.zeros((32, 1), np.uint32)
    run_into(
        """
        .shared .align 128 .b8 tile[128];
        ld.param.u64 %rd1, [out];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, tile;
        mad.lo.u32 %r3, %r1, 4, %r2;
        st.shared.u32 [%r3], %r1;
        bar.warp.sync -1;
        and.b32 %r4, %r1, 7;
        mad.lo.u32 %r5, %r4, 16, %r2;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r5];
        mad.wide.u32 %rd2, %r1, 4, %rd1;
        st.global.u32 [%rd2], %r8;
        ret;
        """,
        out,
    )
    assert np.array_equal(out[:, 0], np.arange(32))


def _module_of(example: str) -> str:
    lines = "\n".join(
        (
            ".reg .pred %p<32>; .reg .b16 %rs<64>; .reg .b32 %r<300>; .reg .b64 %rd<64>;",
            ".reg .f32 %f<300>; .reg .f64 %fd<64>;",
            example,
            "DONE: L1: $L1: LOOP: ret;",
        )
    )
    return f"{HEADER}.visible .entry k(.param .u64 out) {{\n{lines}\n}}\n"


def test_every_example_of_a_handled_row_is_decoded_or_refused_by_name() -> None:
    """No row's example may fail in any other way than by the machine's own refusal."""
    refused: list[str] = []
    decoded = 0
    for key, row in ptx_table().rows.items():
        if handler_of(key) is None:
            continue
        try:
            module = read(_module_of(row.example))
        except TilewrightError:
            continue  # an example that needs symbols of its own
        (kernel,) = module.kernels
        places = Places({"out": 0x7E00_0000_0000}, {}, Frame({}, 0), np.zeros(64, np.uint8))
        decoder = Decoder(kernel, places, model_of(module), None, True)
        try:
            decode(decoder)
            decoded += 1
        except TilewrightError as error:
            assert "the machine cannot run" in error.message, (key, error)
            refused.append(key)
    assert decoded > 90
    assert not refused, refused


def test_unknown_modifiers_are_refused_by_the_machine_itself() -> None:
    module = read(f"{HEADER}.visible .entry k() {{ .reg .b32 %r<4>; mov.b32 %r1, 1; add.u32 %r2, %r1, %r1; ret; }}")
    (kernel,) = module.kernels
    for item in kernel.body:
        if isinstance(item, Instruction) and item.row == "add":
            odd = Instruction("add.odd.u32", "add", ("odd", "u32"), item.operands, None, item.span)
            broken = type(kernel)(kernel.name, (), {}, kernel.registers, (), (odd,), kernel.span)
            with pytest.raises(TilewrightError, match=r"modifier \.odd is not implemented"):
                places = Places({}, {}, Frame({}, 0), np.zeros(0, np.uint8))
                decode(Decoder(broken, places, model_of(module), None, True))
            return
    raise AssertionError("the kernel has an add")


def test_every_module_has_the_handlers_of_the_rows_that_are_looked_up_in_it() -> None:
    """A module is loaded for the rows that it is said to have; one that has others would never be asked for them."""
    rows = ptx_table().rows
    seen: set[str] = set()
    for found in pkgutil.walk_packages(instructions.__path__, f"{instructions.__name__}."):
        module = importlib.import_module(found.name)
        for row, handler in getattr(module, "HANDLERS", {}).items():
            assert handler_of(row) is handler, (found.name, row)
            seen.add(row)
    assert seen == {row for row in rows if handler_of(row) is not None}
    assert len(seen) > 140
    assert handler_of("tex") is None
