"""How a fragment of 8-bit elements becomes a product's left operand: packed, and exchanged among a row's threads.

A thread has of each eight columns of an accumulator's row two neighbours, columns 2 t and 2 t + 1 with t = lane % 4. Of
an 8-bit operand it has of each sixteen columns four, columns 4 t to 4 t + 3. Packed as they are, the pairs of columns
0-7 in a register's low half and those of columns 8-15 in its high half, a thread's numbers stand at columns 4 t to
4 t + 3 of an operand whose columns are those of the accumulator in another order: place 4 t + i of sixteen has column
8 (i / 2) + 2 t + i % 2. Where the other operand's rows have the same order, this is all. Where they lie as they are
counted, the four threads of a row exchange half registers first, in two rounds of one shuffle for two registers.

Source: PTX ISA, wgmma: register fragments of A and D; tcgen05.st. Checked by:
tests/lower/fragment/test_narrow_operand.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.numbers.float8 import narrow_pair

STEP_REGISTERS = 4
"""Of A for each step of 32 columns: rows 0-7 and 8-15 of the first sixteen, then of the others."""
_VALUES_OF_EIGHT = 4
"""That a thread has of eight columns of an accumulator, in both of its rows."""
_LAST_LANE = 31
_ROUNDS = (2, 1)
"""Distances, in lanes, of the exchanges."""
_SENT = (0x7632, 0x5410)
"""Selectors, by a bit of the lane's number: the high halves of two registers, or the low ones."""
_MERGED = ((0x5410, 0x3254), (0x7610, 0x3276))
"""Of each of the two registers, by that bit: its low half before a half that came, or that before its high half."""


def register_of(first: int) -> tuple[int, tuple[int, ...]]:
    """Which register of a 64-row block values `first` and `first + 1` go to, in the accumulator's order, and the four
    values of the register, if these are the last two of them."""
    eight, upper = divmod(first // 2, 2)
    at = STEP_REGISTERS * (eight // 4) + 2 * (eight // 2 % 2) + upper
    before = first - _VALUES_OF_EIGHT
    return at, (before, before + 1, first, first + 1) if eight % 2 else ()


def pack(text: Text, element: str, register: str, numbers: Sequence[str]) -> None:
    """Four float32 registers, rounded, into a register, the first in its lowest byte."""
    halves = [narrow_pair(text, element, *numbers[first : first + 2]) for first in (0, 2)]
    text.emit("mov.b32", register, f"{{{halves[0]}, {halves[1]}}}")


def exchanged(text: Text, thread: str, blocks: Sequence[Sequence[str]]) -> list[list[str]]:
    """Packed registers with their columns in order, by 64-row block. thread: its number in the unit.

    In the number of a column in its sixteen, the bit that says which half of a register it is in changes places with
    the upper bit of the thread's number in the row's four, and then with the lower one."""
    selectors = {distance: _selectors(text, thread, distance) for distance in _ROUNDS}
    found = [list(block) for block in blocks]
    for words in found:
        for step in range(0, len(words), STEP_REGISTERS):
            for upper in (0, 1):
                places = (step + upper, step + 2 + upper)
                pair = [words[at] for at in places]
                for distance in _ROUNDS:
                    sent, *merged = selectors[distance]
                    halves = text.into("b32", "prmt.b32", *pair, sent)
                    came = text.into("b32", "shfl.sync.bfly.b32", halves, distance, _LAST_LANE, -1)
                    pair = [
                        text.into("b32", "prmt.b32", word, came, selector)
                        for word, selector in zip(pair, merged, strict=True)
                    ]
                for at, word in zip(places, pair, strict=True):
                    words[at] = word
    return found


def _selectors(text: Text, thread: str, distance: int) -> list[str]:
    """What a thread sends, and how it puts together either register, by a bit of its number."""
    bit = text.into("pred", "setp.ne.u32", text.into("b32", "and.b32", thread, distance), 0)
    return [text.into("b32", "selp.b32", odd, even, bit) for even, odd in (_SENT, *_MERGED)]
