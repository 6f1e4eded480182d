"""How the threads of a unit fold what each has of a row: through the lanes of a warp by exchanges, then, where the unit
has several warps, through words of shared memory.

All threads of the CTA meet there, so such a unit is a CTA. Every fold has words of its own, so that one barrier is
enough. All threads get the same bits: each exchange computes the same in both lanes.

Where an element stands that is largest along the row: a thread goes through its own elements in the row's order and
keeps the number of the best so far. A later one is better where it is larger or NaN, and the earlier one is no NaN.
Between threads, numbers interleave: their elements are compared as integers in the same order (negative numbers'
magnitudes inverted, -0 turned into +0, any NaN the largest integer), and the least number is taken among the equal. The
smallest element is the largest of the negated ones.

Source: PTX ISA, shfl.sync, bar.sync, setp (`gtu`: greater, or one is NaN; `num`: neither is). Checked by:
tests/lower/points/test_rows.py and test_row_places.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.lower.points.wide_loads import WORD_BYTES
from tilewright.lower.ptx.emit import Text, float_literal
from tilewright.lower.ptx.scalar import emit_scalar

WARP_THREADS = 32
_WARP_SHIFT = 5
IDENTITIES = {"add": 0.0, "max": -math.inf, "min": math.inf}
_LAST_INTEGER = 2**31 - 1
"""More than the number of any element, and the key of NaN."""
_SIGN_SHIFT = 31
_LATER_IS_BETTER = {"max": "setp.gtu.and.f32", "min": "setp.ltu.and.f32"}


@dataclass(frozen=True, slots=True)
class Unit:
    """thread: register with a thread's number in its unit, of `threads`; shared: one with the address of the words of
    folds, of which this one's first is number `word` of each warp."""

    thread: str
    threads: int
    shared: str
    word: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """Registers of an element and of its number; that of one of a few known elements is an immediate."""

    value: str
    number: str | int


# ---------------------------------------------------------------- values


def folded(text: Text, function: str, unit: Unit, own: str) -> str:
    """`own` of all threads of the unit, folded."""
    identity = float_literal(IDENTITIES[function])

    def across(words: Sequence[str], lanes: int) -> list[str]:
        return [_across_lanes(text, "f32", _scalar(text, function), words[0], lanes)]

    return _across_unit(text, unit, "f32", [own], [identity], across)[0]


def _scalar(text: Text, function: str) -> Callable[[str, str], str]:
    return lambda left, right: emit_scalar(text, function, (left, right))


# ---------------------------------------------------------------- places


def better(text: Text, function: str, earlier: Chosen, later: Chosen) -> Chosen:
    """The chosen one of two elements, the later of which stands behind the earlier one in the row."""
    number = text.into("pred", "setp.num.f32", earlier.value, earlier.value)
    takes = text.into("pred", _LATER_IS_BETTER[function], later.value, earlier.value, number)
    value = text.into("f32", "selp.f32", later.value, earlier.value, takes)
    return Chosen(value, text.into("b32", "selp.b32", later.number, earlier.number, takes))


def chosen(text: Text, function: str, unit: Unit, own: Chosen) -> str:
    """The number of the element chosen among those of all threads of the unit."""
    key = _key(text, function, own.value)

    def across(words: Sequence[str], lanes: int) -> list[str]:
        mine, number = words
        best = _across_lanes(text, "b32", lambda left, right: text.into("b32", "max.s32", left, right), mine, lanes)
        is_best = text.into("pred", "setp.eq.s32", mine, best)
        least = text.into("b32", "selp.b32", number, _LAST_INTEGER, is_best)
        least = _across_lanes(text, "b32", lambda left, right: text.into("b32", "min.s32", left, right), least, lanes)
        return [best, least]

    identities = [-_LAST_INTEGER - 1, _LAST_INTEGER]
    return _across_unit(text, unit, "b32", [key, str(own.number)], identities, across)[1]


def _key(text: Text, function: str, value: str) -> str:
    """A signed integer, the larger the better."""
    zero = float_literal(0.0)
    operands = (zero, value) if function == "min" else (value, zero)
    signed = text.into("f32", "sub.rn.f32" if function == "min" else "add.rn.f32", *operands)
    bits = text.into("b32", "mov.b32", signed)
    sign = text.into("b32", "shr.s32", bits, _SIGN_SHIFT)
    key = text.into("b32", "xor.b32", bits, text.into("b32", "and.b32", sign, _LAST_INTEGER))
    is_number = text.into("pred", "setp.num.f32", value, value)
    return text.into("b32", "selp.b32", key, _LAST_INTEGER, is_number)


# ---------------------------------------------------------------- exchanges


def _across_unit(
    text: Text,
    unit: Unit,
    kind: str,
    own: Sequence[str],
    identities: Sequence[str | int],
    across: Callable[[Sequence[str], int], list[str]],
) -> list[str]:
    """Words of each thread folded over the unit. across: folds them over groups of neighbouring lanes; identities:
    words that change nothing."""
    totals = across(own, min(unit.threads, WARP_THREADS))
    warps = unit.threads // WARP_THREADS
    if warps <= 1:
        return totals
    lane = text.into("b32", "and.b32", unit.thread, WARP_THREADS - 1)
    first = text.into("pred", "setp.eq.u32", lane, 0)
    base = text.into("b32", "add.u32", unit.shared, unit.word * warps * WORD_BYTES)
    warp = text.into("b32", "shr.u32", unit.thread, _WARP_SHIFT)
    place = text.into("b32", "mad.lo.u32", warp, WORD_BYTES, base)
    for number, total in enumerate(totals):
        text.emit(f"st.shared.{kind}", _word(place, number * warps), total, guard=first)
    text.emit("bar.sync", 0)
    theirs = [text.into(kind, f"mov.{kind}", identity) for identity in identities]
    place = text.into("b32", "mad.lo.u32", lane, WORD_BYTES, base)
    is_warp = text.into("pred", "setp.lt.u32", lane, warps)
    for number, word in enumerate(theirs):
        text.emit(f"ld.shared.{kind}", word, _word(place, number * warps), guard=is_warp)
    return across(theirs, WARP_THREADS)


def _word(place: str, words: int) -> str:
    return f"[{place}+{words * WORD_BYTES}]" if words else f"[{place}]"


def _across_lanes(text: Text, kind: str, fold: Callable[[str, str], str], value: str, lanes: int) -> str:
    """Folded over groups of so many neighbouring lanes; each step folds the same two in both lanes, so that all get the
    same."""
    distance = lanes // 2
    while distance:
        theirs = text.into(kind, "shfl.sync.bfly.b32", value, distance, WARP_THREADS - 1, -1)
        value = fold(value, theirs)
        distance //= 2
    return value
