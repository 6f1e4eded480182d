"""Bits of an instruction descriptor that change numbers alone decide nothing; all others are followed."""

from pathlib import Path

import pytest

from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read
from tilewright.machine.symbolic.heeded_bits import heeded_bits

EXAMPLE = (Path(__file__).parents[3] / "docs/rules/examples/TC208/fixed.ptx").read_text("utf-8")
DESCRIPTOR = 134349968
PLAIN = f"mov.b32 %r42, {DESCRIPTOR};"
FLAG = "ld.param.u32 %r50, [flags]; and.b32 %r51, %r50, 1; setp.ne.u32 %p6, %r51, 0;"


def checked(chosen: str, text: str = EXAMPLE) -> KernelReport:
    assert PLAIN in text
    text = text.replace(".param .u64 result)", ".param .u64 result, .param .u32 flags)").replace(PLAIN, chosen)
    (report,) = check_text(text, "k.ptx", options=CheckOptions()).kernels
    return report


def selected(other: int) -> str:
    return f"{FLAG} selp.b32 %r42, {other}, {DESCRIPTOR}, %p6;"


@pytest.mark.parametrize(
    "chosen",
    [
        selected(DESCRIPTOR | 1 << 13),
        selected(DESCRIPTOR ^ 3 << 13),
        f"{FLAG} selp.b32 %r52, 8192, 0, %p6; or.b32 %r42, %r52, {DESCRIPTOR};",
        f"{FLAG} shl.b32 %r52, %r51, 13; add.u32 %r42, %r52, {DESCRIPTOR};",
    ],
)
def test_whether_elements_are_negated_decides_nothing(chosen: str) -> None:
    report = checked(chosen)
    assert report.verdict == "proven" and report.scope == "all trip counts", report.reasons


def test_constants_that_agree_need_no_further_launch() -> None:
    fixed, chosen = checked(PLAIN), checked(selected(DESCRIPTOR | 1 << 13))
    assert chosen.launches == fixed.launches == 1


@pytest.mark.parametrize(
    ("chosen", "code"),
    [
        (selected(DESCRIPTOR | 1 << 23), "TC208"),  # reserved
        (selected(DESCRIPTOR | 1 << 13 | 1 << 23), "TC208"),
        (selected((DESCRIPTOR | 1 << 13) + (6 << 17)), "TC"),  # more columns than were allocated
        (f"{FLAG} selp.b32 %r52, 8192, 786432, %p6; xor.b32 %r42, %r52, {DESCRIPTOR};", "TC"),
        # The halves of constants that agree in the lower one.
        (
            f"{FLAG} mov.b64 %rd8, {DESCRIPTOR << 32}; mov.b64 %rd9, {(DESCRIPTOR | 1 << 23) << 32};"
            "selp.b64 %rd5, %rd9, %rd8, %p6; mov.b64 {%r52, %r42}, %rd5;",
            "TC208",
        ),
        (f"{FLAG} shl.b32 %r52, %r51, 13; mul.lo.u32 %r52, %r52, 1024; add.u32 %r42, %r52, {DESCRIPTOR};", "TC208"),
    ],
)
def test_what_says_which_bytes_are_read_is_followed(chosen: str, code: str) -> None:
    report = checked(chosen)
    assert report.verdict == "refuted", (report.verdict, report.reasons)
    assert report.errors[0].code.startswith(code)


def instruction(text: str) -> Instruction:
    module = read(
        ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k() {\n"
        f".reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n{text}\nret;\n}}\n",
        "k.ptx",
    )
    (kernel,) = module.kernels
    return next(each for each in kernel.body if isinstance(each, Instruction))


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1;", 0xFFFF9FFF),
        ("tcgen05.mma.ws.cta_group::1.kind::tf32 [%r1], %d1, %d2, %r2, %p1;", 0xFFFF9FFF),
        ("tcgen05.mma.sp.cta_group::1.kind::f16 [%r1], %d1, %d2, [%r3], %r2, %p1;", 0xFFFF9FFF),
        # Whole: integers refuse negation, a constant, a register that stands elsewhere too.
        ("tcgen05.mma.cta_group::1.kind::i8 [%r1], %d1, %d2, %r2, %p1;", None),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r2], %d1, %d2, %r2, %p1;", None),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, {%r3, %r4, %r2, %r5}, %p1;", None),
    ],
)
def test_which_operand_it_is(text: str, bits: int | None) -> None:
    assert heeded_bits(instruction(text)) == (None if bits is None else ("%r2", bits))
