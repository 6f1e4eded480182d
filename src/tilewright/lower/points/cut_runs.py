"""How is a run stored of which a row's end leaves some elements?

Of 16-bit elements, words that lie in the row go as words, and the one element of a word that the end cuts goes alone.
Others go one by one. A run has a row's first element or its last inside it, not both: rows have several runs.

Checked by: tests/lower/points/test_rows.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lower.points.wide_loads import WORD_BYTES
from tilewright.lower.ptx.copies.global_access import constant_address
from tilewright.lower.ptx.emit import Text

_HALF_BYTES = 2
_HALF_BITS = 16


def store_halves(text: Text, words: Sequence[str], base: str, offset_bytes: int, start: str, length: int | str) -> None:
    """Store 16-bit elements, two in a word, whose numbers from `start` on lie in a row of `length`."""
    count = 2 * len(words)
    first = text.into("b32", "max.s32", text.into("b32", "neg.s32", start), 0)
    behind = text.into("b32", "sub.s32", text.into("b32", "mov.u32", length), start)
    past = text.into("b32", "min.s32", behind, count)
    for number, word in enumerate(words):
        begins = text.into("pred", "setp.le.s32", first, 2 * number)
        inside = text.into("pred", "setp.ge.and.s32", past, 2 * number + 2, begins)
        text.emit("st.global.b32", constant_address(text, base, offset_bytes + number * WORD_BYTES), word, guard=inside)
    odd = text.into("pred", "setp.ne.u32", text.into("b32", "and.b32", first, 1), 0)
    single = text.into("b32", "selp.b32", first, text.into("b32", "sub.s32", past, 1), odd)
    either = text.into("b32", "and.b32", text.into("b32", "or.b32", first, past), 1)
    left, bit = list(words), 2
    while len(left) > 1:
        takes = text.into("pred", "setp.ne.u32", text.into("b32", "and.b32", single, bit), 0)
        pairs = zip(left[::2], left[1::2], strict=True)
        left = [text.into("b32", "selp.b32", high, low, takes) for low, high in pairs]
        bit *= 2
    places = text.into("b32", "mul.lo.u32", text.into("b32", "and.b32", single, 1), _HALF_BITS)
    low, high = text.register("b16"), text.register("b16")
    text.emit("mov.b32", f"{{{low}, {high}}}", text.into("b32", "shr.u32", left[0], places))
    address = text.into("b64", "mad.wide.s32", single, _HALF_BYTES, base)
    is_cut = text.into("pred", "setp.ne.u32", either, 0)
    text.emit("st.global.b16", constant_address(text, address, offset_bytes), low, guard=is_cut)
