"""Registers that a loop writes the same to in each iteration, and those that only look so."""

from __future__ import annotations

from collections import Counter

import pytest

from tilewright.frontends.ptx.ast import Instruction, Register
from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.loops.steady_registers import steady_registers

_TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {{
    .reg .b32 %r<9>;
    .reg .pred %p<3>;
    .shared .b32 word;
{body}
    ret;
}}
"""


def _steady(body: str, skipped: frozenset[int] = frozenset()) -> set[str]:
    """Of a loop with these instructions; skipped: those that some iterations do not come to."""
    (kernel,) = read(_TEXT.format(body=body), "k.ptx").kernels
    items = [each for each in kernel.body if isinstance(each, Instruction) and each.row != "ret"]
    writes = Counter(each.operands[0].name for each in items if isinstance(each.operands[0], Register))
    places = [None if at in skipped else (0, at) for at in range(len(items))]
    return set(steady_registers(items, places, writes))


def test_what_is_computed_of_what_the_loop_leaves_alone_is_the_same() -> None:
    body = "add.u32 %r1, %r0, -1;\nmul.lo.u32 %r2, %r1, 3;\nmov.u32 %r3, %tid.x;\nadd.u32 %r4, %r4, 1;"
    assert _steady(body) == {"%r1", "%r2", "%r3"}


@pytest.mark.parametrize(
    "body",
    [
        "add.u32 %r0, %r0, 1;\nadd.u32 %r1, %r0, -1;",
        "add.u32 %r1, %r0, -1;\nadd.u32 %r0, %r0, 1;",
        "@%p1 add.u32 %r1, %r0, -1;",
        "add.u32 %r1, %r0, -1;\nadd.u32 %r1, %r2, -1;",
        "ld.shared.u32 %r1, [word];",
        "mov.u32 %r1, %clock;",
        "mov.u32 %r1, %r2;\nld.shared.u32 %r2, [word];",
    ],
)
def test_what_may_be_another_number_is_not(body: str) -> None:
    assert _steady(body) == set()


def test_nor_is_what_some_iterations_do_not_come_to() -> None:
    body = "add.u32 %r1, %r0, -1;\nadd.u32 %r2, %r1, -1;"
    assert _steady(body, frozenset({0})) == set() and _steady(body, frozenset({1})) == {"%r1"}
