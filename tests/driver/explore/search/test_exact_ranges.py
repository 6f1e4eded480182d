"""Ranges of expressions: the machine's values lie in them, and no sum is said to fit that does not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.driver.symbolic_instructions import WIDTHS, expressions

from tilewright.driver.explore.search import exact_ranges
from tilewright.driver.explore.search.exact_ranges import Range, sums_fit
from tilewright.machine.symbolic.expression import Evaluation, Input, needed

_TEXTS = [
    "add.s32 %r4, %r1, %r2;", "sub.s32 %r4, %r1, %r2;", "add.u32 %r4, %r1, 4294967295;", "mul.lo.s32 %r4, %r1, %r2;",
    "mad.lo.s32 %r4, %r1, %r2, 77;", "mul.wide.s32 %d4, %r1, %r2;", "mul.wide.u32 %d4, %r1, 4294967295;",
    "mad.wide.s32 %d4, %r1, -3, 5;", "neg.s32 %r4, %r1;", "shl.b32 %r4, %r1, 3;", "shl.b32 %r4, %r1, %r2;",
    "sub.s32 %r3, %r1, 9; shr.s32 %r4, %r3, 2;", "sub.s32 %r3, %r1, 9; shr.u32 %r4, %r3, 2;",
    "shr.u32 %r4, %r1, %r2;", "sub.s32 %r3, %r1, 9; div.s32 %r4, %r3, 4;", "div.s32 %r4, %r1, %r2;",
    "sub.s32 %r3, %r1, 9; rem.s32 %r4, %r3, 5;", "sub.s32 %r3, %r1, 9; rem.u32 %r4, %r3, 5;",
    "sub.s32 %r3, %r1, 9; min.s32 %r4, %r3, %r2;", "sub.s32 %r3, %r1, 9; min.u32 %r4, %r3, %r2;",
    "sub.s32 %r3, %r1, 9; max.s32 %r4, %r3, %r2;", "sub.s32 %r3, %r1, 9; and.b32 %r4, %r3, %r2;",
    "or.b32 %r4, %r1, %r2;", "sub.s32 %r3, %r1, 9; xor.b32 %r4, %r3, %r2;",
    "setp.lt.s32 %p1, %r1, 9; selp.b32 %r4, %r1, 100, %p1;", "sub.s32 %r3, %r1, 9; cvt.s64.s32 %d4, %r3;",
    "sub.s32 %r3, %r1, 9; cvt.u64.u32 %d4, %r3;", "cvt.s64.s32 %d3, %r1; cvt.u32.u64 %r4, %d3;",
    "sub.s32 %r3, %r1, 9; cvt.u16.u32 %h4, %r3;", "mov.b32 %r4, %r1;", "mul.hi.s32 %r4, %r1, %r2;",
    "add.sat.s32 %r4, %r1, %r2;", "popc.b32 %r4, %r1;",
]  # fmt: skip
_RANGES = [(0, 0), (0, 5), (3, 40), (1, 1 << 14), (0, (1 << 30) - 1), (0, (1 << 31) - 1), (7, (1 << 32) - 1)]


@pytest.mark.parametrize("text", _TEXTS)
@pytest.mark.parametrize("one", _RANGES)
@pytest.mark.parametrize("other", _RANGES)
def test_what_the_machine_gives_lies_in_the_range(text: str, one: Range, other: Range) -> None:
    of = expressions(text)
    inputs: dict[Input, Range] = {given: one if name == "%r1" else other for name, given in of.inputs.items()}
    known: dict[int, Range | None] = {}
    for node in needed([*of.registers.values()], {}):
        known[node.number] = exact_ranges._of(node, inputs, known)
    random = np.random.default_rng(7)
    rows = 64
    columns = {given: random.integers(low, high + 1, rows, np.uint64) for given, (low, high) in inputs.items()}
    for place, (given, ends) in enumerate(inputs.items()):
        columns[given][:4] = [ends[corner >> place & 1] for corner in range(4)]
    evaluation = Evaluation(of.table, columns, rows)
    for name, node in of.registers.items():
        found = known[node.number]
        if found is None or WIDTHS[name[1]] < 16:
            continue
        values = evaluation.of(node)
        signed = values.view(f"i{values.dtype.itemsize}")
        assert found[0] <= int(signed.min()), name
        assert int(signed.max()) <= found[1], name


@pytest.mark.parametrize(
    ("text", "most", "fits"),
    [
        ("mul.lo.s32 %r3, %r1, %r2; sub.s32 %r4, 100, %r3; add.s32 %r5, %r4, -64;", 1 << 14, True),
        ("mul.lo.s32 %r3, %r1, %r2; sub.s32 %r4, 100, %r3; add.s32 %r5, %r4, -64;", 1 << 16, False),
        ("add.s32 %r3, %r1, %r2; shl.b32 %r4, %r3, 4;", 1 << 14, True),
        ("add.s32 %r3, %r1, %r2; shl.b32 %r4, %r3, 17;", 1 << 14, False),
        ("mul.lo.s32 %r3, %r1, -1640531527; add.s32 %r4, %r3, 1879048192;", 1 << 14, False),
        ("xor.b32 %r3, %r1, -1; add.s32 %r4, %r3, 1;", 1 << 14, False),
        ("div.s32 %r3, %r1, %r2; add.s32 %r4, %r3, 1;", 1 << 14, False),
        ("mul.lo.s32 %r3, %r1, %r2;", 1 << 20, True),
    ],
)
def test_sums_fit_where_their_ranges_say_so(text: str, most: int, fits: bool) -> None:
    """A sum whose range is not known, as of a quotient by what may be 0, is not said to fit."""
    of = expressions(text)
    ranges = dict.fromkeys(of.inputs.values(), (0, most - 1))
    assert sums_fit(of.registers.values(), ranges) == fits
