"""Whether a result is too large for its register: by the exact one, signed where the instruction is."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.driver.symbolic_instructions import expressions

from tilewright.driver.explore.search.exact_ranges import SUMS
from tilewright.driver.explore.search.exploration import Exploration
from tilewright.driver.explore.search.overflow import overflow_limit, overflows
from tilewright.driver.explore.search.path_search import Dimension
from tilewright.machine.symbolic.expression import Input


class _Explored:
    """What `overflows` asks of an exploration."""

    def __init__(self, of: Any) -> None:
        self.table = of.table
        self.dimensions = {given: Dimension(given, name, (1 << 32) - 1) for name, given in of.inputs.items()}


def _overflows(text: str, value: int, rows: frozenset[str] | None = None) -> bool:
    of = expressions(text)
    exploration = cast("Exploration", _Explored(of))
    return overflows(exploration, dict.fromkeys(of.inputs.values(), value), [of.registers["%r4"]], rows)


@pytest.mark.parametrize(
    ("text", "fits", "wraps"),
    [
        ("add.s32 %r4, %r1, 63;", 0x7FFFFFC0, 0x7FFFFFC1),
        ("add.u32 %r4, %r1, 63;", 0xFFFFFFC0, 0x7FFFFFFF),
        ("shl.b32 %r4, %r1, 2;", 0x3FFFFFFF, 0x40000000),
        ("mul.lo.s32 %r4, %r1, %r1;", 46340, 46341),
        ("mad.lo.s32 %r4, %r1, 3, 1;", 715827882, 715827883),
    ],
)
def test_a_result_that_fits_and_one_that_wraps(text: str, fits: int, wraps: int) -> None:
    assert not _overflows(text, fits)
    assert _overflows(text, wraps) == ("add.u32" not in text)


def test_products_are_no_sums() -> None:
    assert not _overflows("mul.lo.s32 %r4, %r1, %r1;", 1 << 20, SUMS)
    assert _overflows("add.s32 %r2, %r1, %r1; mul.lo.s32 %r4, %r2, %r2;", 1 << 30, SUMS)


def test_the_limit_leaves_room_for_a_few_sums() -> None:
    assert overflow_limit(Input("number", 0, 4)) == 1 << 30
    assert overflow_limit(Input("number", 0, 8)) == 1 << 62
