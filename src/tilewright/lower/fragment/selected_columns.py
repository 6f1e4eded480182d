"""Which of a thread's numbers in a row meet a condition of places, as bits of words that selections test?

Theory: a form of places whose factor for columns is 1 or -1 is at least 0 from some column on, or up to one. A thread
has two neighbouring columns of each eight, so its share of the columns up to one is a number n of its first, and their
bits are 2^n - 1. Forms that hold together are words with `and`. Of a test for one bit, ptxas (13.0) makes predicates
for seven at once; compared one by one, each number takes a sum, a conversion and a comparison besides.

Not handled (None): other factors. Places at which float32 is exact, `tile_bounds` asks for.
Checked by: tests/lower/fragment/test_selected_columns.py and test_map.py, which run what is emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from tilewright.lower.fragment.tile_bounds import Linear
from tilewright.lower.ptx.emit import Text

_BITS = 32
_APART, _TOGETHER = 8, 2
"""Of so many columns, a thread has the first so many."""


def are_ranges(forms: Sequence[Linear]) -> bool:
    """Whether the columns of a row at which a form is at least 0 are the first ones, the last ones, or all or none."""
    return all(abs(form.column) <= 1 for form in forms)


def selected_columns(text: Text, forms: Sequence[Linear], totals: Sequence[str], row: int, count: int) -> list[str]:
    """Words whose bits say of a thread's `count` numbers in a row whether all forms are at least 0 there, the lowest
    bit first. totals: registers with the forms at the thread's first place; row: of these numbers, after that."""
    found: list[list[str]] = []
    for form, total in zip(forms, totals, strict=True):
        value = text.into("b32", "add.s32", total, form.row * row) if form.row * row else total
        if form.column == 0:
            # The sign, for all of them.
            sign = text.into("b32", "not.b32", text.into("b32", "shr.s32", value, _BITS - 1))
            found.append([sign for _ in range(0, count, _BITS)])
        elif form.column < 0:
            found.append(_up_to(text, value, count))
        else:
            # From -value on: not up to -value - 1.
            before = _up_to(text, text.into("b32", "not.b32", value), count)
            found.append([text.into("b32", "not.b32", each) for each in before])
    together = partial(text.into, "b32", "and.b32")
    return [reduce(together, words) for words in zip(*found, strict=True)]


def _up_to(text: Text, last: str, count: int) -> list[str]:
    """Words with the bits of a thread's columns that are at most `last`, of columns after its first."""
    whole = text.into("b32", "shr.s32", last, _APART.bit_length() - 1)
    rest = text.into("b32", "min.u32", text.into("b32", "and.b32", last, _APART - 1), _TOGETHER - 1)
    number = text.into("b32", "add.s32", text.into("b32", "mad.lo.s32", whole, _TOGETHER, rest), 1)
    words: list[str] = []
    for first in range(0, count, _BITS):
        here = text.into("b32", "max.s32", text.into("b32", "sub.s32", number, first) if first else number, 0)
        # Past its width a shift leaves 0, of which 1 is taken for all bits.
        power = text.into("b32", "shl.b32", text.into("b32", "mov.u32", 1), here)
        words.append(text.into("b32", "sub.u32", power, 1))
    return words
