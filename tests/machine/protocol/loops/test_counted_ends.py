"""Bounds behind loops written as counters again: where that is exact, and that nothing else is rewritten."""

from __future__ import annotations

import pytest

from tilewright.frontends.ptx.ast import Instruction, Register
from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.loops.counted_ends import with_counted_ends
from tilewright.machine.protocol.slicing.slice_flow import flow_of

_TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u32 m)
{{
    .reg .b32 %r<20>;
    .reg .b64 %rd<4>;
    .reg .pred %p<9>;
    ld.param.u32 %r2, [n];
    ld.param.u32 %r4, [m];
    mov.u32 %r1, 0;
    mov.u32 %r3, 0;
    {before}
TOP:
    mov.u32 %r1, 0;
HEAD:
    add.u32 %r1, %r1, 1;
    {code}
    setp.lt.u32 %p8, %r3, %r5;
    @%p8 bra {again};
END:
    ret;
}}
"""
_NOT_EQUAL = "setp.ne.u32 %p1, %r1, %r2;\n@%p1 bra HEAD;\n"
_EQUAL = "setp.eq.b32 %p1, %r2, %r1;\n@%p1 bra OUT;\nbra.uni HEAD;\nOUT:\n"
_SUM = "add.u32 %r3, %r3, %r2;\n"


def sums(code: str, before: str = "", again: str = "TOP") -> list[list[str]]:
    """The registers that each sum behind the loop reads, as it was rewritten."""
    kernel = read(_TEXT.format(code=code, before=before, again=again), "k.ptx").kernels[0]
    rewritten = with_counted_ends(kernel, flow_of(kernel))
    assert [type(each) for each in rewritten.body] == [type(each) for each in kernel.body]
    found = [each for each in rewritten.body if isinstance(each, Instruction) and each.row == "add"][1:]
    return [[each.name for each in item.operands[1:] if isinstance(each, Register)] for item in found]


@pytest.mark.parametrize(
    "code",
    [
        _NOT_EQUAL + _SUM,
        _EQUAL + _SUM,
        "setp.ne.s32 %p1, %r2, %r1;\n@%p1 bra HEAD;\nadd.s32 %r3, %r3, %r2;\n",
        "setp.eq.u32 %p1, %r1, %r2;\n@!%p1 bra HEAD;\n" + _SUM,
        _NOT_EQUAL + "mov.u32 %r7, 3;\n" + _SUM,
        _NOT_EQUAL + "@%p2 " + _SUM,
    ],
)
def test_a_sum_behind_a_loop_that_ends_as_equal_has_its_counter(code: str) -> None:
    assert sums(code) == [["%r3", "%r1"]]


_AS_THEY_ARE = {
    "ends as no longer less": "setp.lt.u32 %p1, %r1, %r2;\n@%p1 bra HEAD;\n" + _SUM,
    "goes on as equal": "setp.eq.u32 %p1, %r1, %r2;\n@%p1 bra HEAD;\n" + _SUM,
    "ends as different": "setp.ne.u32 %p1, %r1, %r2;\n@!%p1 bra HEAD;\n" + _SUM,
    "compares with two": "setp.ne.and.u32 %p1, %r1, %r2, %p3;\n@%p1 bra HEAD;\n" + _SUM,
    "compares under a guard": "@%p3 setp.ne.u32 %p1, %r1, %r2;\n@%p1 bra HEAD;\n" + _SUM,
    "compares floating numbers": "setp.ne.f32 %p1, %r1, %r2;\n@%p1 bra HEAD;\n" + _SUM,
    "counts after it compares": "setp.ne.u32 %p1, %r1, %r2;\nadd.u32 %r1, %r1, 0;\n@%p1 bra HEAD;\n" + _SUM,
    "moves the bound after it compares": "setp.ne.u32 %p1, %r1, %r2;\nmov.u32 %r2, 9;\n@%p1 bra HEAD;\n" + _SUM,
    "decides by another predicate": "setp.ne.u32 %p1, %r1, %r2;\nnot.pred %p1, %p1;\n@%p1 bra HEAD;\n" + _SUM,
    "the bound moves behind it": _NOT_EQUAL + "mov.u32 %r2, 9;\n" + _SUM,
    "the counter moves behind it": _NOT_EQUAL + "mov.u32 %r1, 9;\n" + _SUM,
    "adds another number": _NOT_EQUAL + "add.u32 %r3, %r3, %r4;\n",
    "adds 64 bits": _NOT_EQUAL + "cvt.u64.u32 %rd1, %r2;\nadd.u64 %rd1, %rd1, %rd2;\n",
    "adds behind another label": _NOT_EQUAL + "bra.uni ON;\nON:\n" + _SUM,
    "the loop writes both": "add.u32 %r2, %r2, 0;\n" + _NOT_EQUAL + _SUM,
}


@pytest.mark.parametrize("code", _AS_THEY_ARE.values(), ids=_AS_THEY_ARE)
def test_what_is_not_known_to_be_equal_stays(code: str) -> None:
    assert ["%r3", "%r1"] not in sums(code)


def test_a_block_that_others_lead_to_stays() -> None:
    skips = "setp.eq.u32 %p2, %r2, 0;\n@%p2 bra OUT;"
    assert sums(_EQUAL + _SUM, skips) == [["%r3", "%r2"]]


def test_a_sum_that_no_loop_comes_to_again_stays_an_expression_of_inputs() -> None:
    assert sums(_NOT_EQUAL + _SUM, again="END") == [["%r3", "%r2"]]
    assert sums(_NOT_EQUAL + "add.u32 %r6, %r4, %r2;\n") == [["%r4", "%r2"]]
