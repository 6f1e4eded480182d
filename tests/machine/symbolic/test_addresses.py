"""What an instruction makes of addresses: `a` and `b` come from two pointers, `c` from `a`'s with an offset, `t` is a
part of an address, of which four bits are its own."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read
from tilewright.machine.symbolic.addresses import LOW_BITS, Bases, LowBits, bases_of_result, joined

A = Bases(frozenset({"one"}), True, True)
B = Bases(frozenset({"two"}), True, True)
C = Bases(frozenset({"one"}), False, True)
BOTH = Bases(frozenset({"one", "two"}), True, False)
PART = Bases(frozenset({"one"}), False, True, 4)
HELD = {"%a": A, "%b": B, "%c": C, "%both": BOTH, "%t": PART, "%n": None, "%p": None}


def _instruction(text: str) -> Instruction:
    module = read(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k() { .reg .b64 %a, %b, %c, %d, %n, %both; "
        f".reg .b32 %r, %s, %t; .reg .b16 %h; .reg .pred %p, %q; {text} ret; }}",
        "k.ptx",
    )
    return next(item for item in module.kernels[0].body if isinstance(item, Instruction))


def _result(text: str) -> Bases | LowBits | str | None:
    instruction = _instruction(text)
    names = [name for name in HELD if any(f"name='{name}'" in repr(each) for each in instruction.operands[1:])]
    sources = [np.zeros(1, np.uint64) if name == "%n" else object() for name in names]
    return bases_of_result(instruction, names, sources, [HELD[name] for name in names])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov.b64 %d, %a;", A),
        ("cvta.to.global.u64 %d, %a;", A),
        ("add.s64 %d, %a, %n;", C),
        ("add.s64 %d, %n, %c;", C),
        ("add.s64 %d, %a, 16;", C),
        ("sub.s64 %d, %c, 16;", C),
        ("mad.wide.u32 %d, %r, 4, %a;", C),
        ("selp.b64 %d, %a, %b, %p;", BOTH),
        ("selp.b64 %d, %a, %a, %p;", A),
        ("sub.s64 %d, %c, %a;", None),
        ("setp.eq.s64 %q, %a, 0;", None),
        ("setp.ne.u64 %q, %n, %a;", None),
        ("setp.ne.u64 %q, %both, 0;", None),
        ("setp.lt.u64 %q, %a, %c;", None),
    ],
)
def test_what_follows_an_address(text: str, expected: Bases | None) -> None:
    assert _result(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "and.b64 %d, %a, 256;", "and.b64 %d, %a, -16;", "shr.u64 %d, %a, 8;", "mov.b64 {%r, %s}, %a;",
        "cvt.u16.u64 %h, %a;", "and.b64 %d, %both, 15;", "and.b64 %d, %a, %c;",
        "setp.eq.u32 %q, %t, 0;", "and.b32 %r, %t, 16;", "shr.u32 %r, %t, 4;", "mul.lo.u32 %r, %t, 3;",
        "add.s64 %d, %a, %b;", "sub.s64 %d, %a, %b;", "sub.s64 %d, %n, %a;", "sub.s64 %d, %both, %a;",
        "mul.lo.s64 %d, %a, 2;", "setp.eq.s64 %q, %a, 4096;", "setp.eq.s64 %q, %c, 0;", "setp.eq.s64 %q, %a, %b;",
        "setp.lt.u64 %q, %a, %b;", "setp.lt.u64 %q, %a, 0;", "setp.eq.u64 %q, %both, %a;", "min.u64 %d, %a, %b;",
        "add.cc.u64 %d, %a, %n;", "mad.lo.s64 %d, %a, 4, %n;",
    ],
)  # fmt: skip
def test_what_looks_at_its_high_bits(text: str) -> None:
    assert isinstance(_result(text), str)


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("cvt.u32.u64 %r, %c;", 8), ("shr.u64 %d, %a, 3;", 5), ("neg.s64 %d, %a;", 8), ("shr.u32 %r, %t, 1;", 3),
        ("add.u32 %r, %t, 12;", 4), ("sub.u32 %r, 16, %t;", 4), ("mov.b32 %r, %t;", 4), ("cvt.u64.u32 %d, %t;", 4),
    ],
)  # fmt: skip
def test_what_keeps_some_of_its_low_bits(text: str, bits: int) -> None:
    found = _result(text)
    assert isinstance(found, Bases) and (found.bits, found.bare, found.single) == (bits, False, True)


@pytest.mark.parametrize("text", ["and.b64 %d, %a, 255;", "and.b64 %d, 15, %c;", "and.b32 %r, %t, 15;"])
def test_what_is_left_of_it_by_a_mask_is_a_number(text: str) -> None:
    assert _result(text) is LOW_BITS


def test_parts_of_several_addresses_are_not_known() -> None:
    found = joined([PART, PART])
    assert found is not None and not found.single and found.bits == 0


def test_a_choice_of_an_address_and_a_number_is_no_distance_from_its_pointer() -> None:
    assert joined([A, None]) == Bases(frozenset({"one"}), True, False)
    assert joined([None, None]) is None
