"""How the threads of a unit fold what each has of a row: through the lanes of a warp by exchanges, then, where the unit
has several warps, through words of shared memory.

All threads of the CTA meet there, so such a unit is a CTA, or all of a cluster's. Every fold has words of its own, so
that one barrier is enough. All threads get the same bits: each exchange computes the same in both lanes, and every warp
folds all warps' words in the same order.

A cluster's CTAs have the words once each, and an mbarrier for each fold, which expects the bytes of all warps' words
from its beginning on. Of each warp, lane p writes what the warp has into CTA p by st.async, which completes its bytes
on that CTA's barrier, so that nobody fences the device's memory for them, as a cluster's barrier does that releases.
Each barrier has one phase, whose end comes behind all writes of its fold, and each thread waits for it. What is written
lies in the shared memory of CTAs that have begun, for which all wait before the first write (they have arrived at the
kernel's beginning, so that their loads are on their way meanwhile), and that have not ended, since they wait for it.

Where an element stands that is largest along the row: a thread goes through its own elements in the row's order and
keeps the number of the best so far. A later one is better where it is larger or NaN, and the earlier one is no NaN.
Between threads, numbers interleave: their elements are compared as integers in the same order (negative numbers'
magnitudes inverted, -0 turned into +0, any NaN the largest integer), and the least number is taken among the equal. The
smallest element is the largest of the negated ones.

Source: PTX ISA, shfl.sync, bar.sync, barrier.cluster, mapa, st.async, setp (`gtu`: greater, or one is NaN; `num`:
neither is). Checked by: tests/lower/points/test_rows.py, test_kept_rows.py and test_row_places.py.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.ir.placement import Placement, contributors
from tilewright.ir.rows import BARRIER_BYTES
from tilewright.lower.points.wide_loads import WORD_BYTES
from tilewright.lower.ptx.emit import Text, float_literal
from tilewright.lower.ptx.numbers.scalar import emit_scalar

WARP_THREADS = 32
_WARP_SHIFT = 5
IDENTITIES = {"add": 0.0, "max": -math.inf, "min": math.inf}
_LAST_INTEGER = 2**31 - 1
"""More than the number of any element, and the key of NaN."""
_SIGN_SHIFT = 31
_LATER_IS_BETTER = {"max": "setp.gtu.and.f32", "min": "setp.ltu.and.f32"}


@dataclass(frozen=True, slots=True)
class Unit:
    """thread: register with a thread's number in its unit; met: where contributions to a fold lie before it, by level;
    shared: a register with the address of the words of folds, of which this one's first is number `word` of each warp;
    barrier: where several CTAs have contributions, one with the address of the fold's barrier."""

    thread: str
    met: Placement
    shared: str
    word: int
    barrier: str = ""

    @property
    def lanes(self) -> int:
        return contributors(self.met, "lane")

    @property
    def ctas(self) -> int:
        return contributors(self.met, "cta")

    @property
    def warps(self) -> int:
        """Of all CTAs."""
        return contributors(self.met, "warp") * self.ctas


@dataclass(frozen=True, slots=True)
class Chosen:
    """Registers of an element and of its number; that of one of a few known elements is an immediate."""

    value: str
    number: str | int


# ---------------------------------------------------------------- values


def folded(text: Text, function: str, unit: Unit, own: Sequence[str]) -> list[str]:
    """`own` of all threads of the unit, folded, of each of its rows."""
    identity, fold = float_literal(IDENTITIES[function]), _scalar(text, function)

    def across(own: Sequence[Sequence[str]], lanes: int) -> list[str]:
        return [_across_lanes(text, "f32", fold, functools.reduce(fold, [word for (word,) in own]), lanes)]

    return [total for (total,) in _across_unit(text, unit, "f32", [[each] for each in own], [identity], across)]


def _scalar(text: Text, function: str) -> Callable[[str, str], str]:
    return lambda left, right: emit_scalar(text, function, (left, right))


# ---------------------------------------------------------------- places


def better(text: Text, function: str, earlier: Chosen, later: Chosen) -> Chosen:
    """The chosen one of two elements, the later of which stands behind the earlier one in the row."""
    number = text.into("pred", "setp.num.f32", earlier.value, earlier.value)
    takes = text.into("pred", _LATER_IS_BETTER[function], later.value, earlier.value, number)
    value = text.into("f32", "selp.f32", later.value, earlier.value, takes)
    return Chosen(value, text.into("b32", "selp.b32", later.number, earlier.number, takes))


def chosen(text: Text, function: str, unit: Unit, own: Sequence[Chosen]) -> list[str]:
    """The number of the element chosen among those of all threads of the unit, of each of its rows."""
    keys = [[_key(text, function, each.value), str(each.number)] for each in own]

    def most(left: str, right: str) -> str:
        return text.into("b32", "max.s32", left, right)

    def least(left: str, right: str) -> str:
        return text.into("b32", "min.s32", left, right)

    def if_best(mine: str, number: str, best: str) -> str:
        is_best = text.into("pred", "setp.eq.s32", mine, best)
        return text.into("b32", "selp.b32", number, _LAST_INTEGER, is_best)

    def across(own: Sequence[Sequence[str]], lanes: int) -> list[str]:
        best = _across_lanes(text, "b32", most, functools.reduce(most, [mine for mine, _ in own]), lanes)
        first = functools.reduce(least, [if_best(mine, number, best) for mine, number in own])
        return [best, _across_lanes(text, "b32", least, first, lanes)]

    identities = [-_LAST_INTEGER - 1, _LAST_INTEGER]
    return [number for _, number in _across_unit(text, unit, "b32", keys, identities, across)]


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
    own: Sequence[Sequence[str]],
    identities: Sequence[str | int],
    across: Callable[[Sequence[Sequence[str]], int], list[str]],
) -> list[list[str]]:
    """Words of each thread folded over the unit, of each of its rows. across: folds several of a thread, and those over
    groups of neighbouring lanes; identities: words that change nothing."""
    totals, warps = [across([each], unit.lanes) for each in own], unit.warps
    if warps == 1:
        return totals
    lane = text.into("b32", "and.b32", unit.thread, WARP_THREADS - 1)
    writes = text.into("pred", "setp.lt.u32", lane, unit.ctas)
    base = text.into("b32", "add.u32", unit.shared, unit.word * warps * WORD_BYTES)
    warp = text.into("b32", "shr.u32", unit.thread, _WARP_SHIFT)
    place = text.into("b32", "mad.lo.u32", warp, WORD_BYTES, base)
    if unit.ctas > 1:
        if unit.word == 0:
            text.emit("barrier.cluster.wait.acquire")
        to = text.into("b32", "min.u32", lane, unit.ctas - 1)
        place, barrier = (text.into("b32", "mapa.shared::cluster.u32", each, to) for each in (place, unit.barrier))
        opcode = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{kind}"
        for number, total in enumerate(itertools.chain(*totals)):
            text.emit(opcode, _word(place, number * warps), total, f"[{barrier}]", guard=writes)
        _await_words(text, unit.barrier)
    else:
        for number, total in enumerate(itertools.chain(*totals)):
            text.emit(f"st.shared.{kind}", _word(place, number * warps), total, guard=writes)
        text.emit("bar.sync", 0)
    # So many neighbouring lanes have all warps' words that few exchanges are left.
    lanes = min(WARP_THREADS, 1 << (warps - 1).bit_length())
    if lanes < WARP_THREADS:
        lane = text.into("b32", "and.b32", lane, lanes - 1)
    place = text.into("b32", "mad.lo.u32", lane, WORD_BYTES, base)
    are_warps = [text.into("pred", "setp.lt.u32", lane, warps - begin) for begin in range(0, warps, WARP_THREADS)]
    found: list[list[str]] = []
    for row in range(len(own)):
        theirs: list[list[str]] = []
        for part, is_warp in enumerate(are_warps):
            words = [text.into(kind, f"mov.{kind}", identity) for identity in identities]
            for number, word in enumerate(words, start=row * len(identities)):
                at = _word(place, number * warps + part * WARP_THREADS)
                text.emit(f"ld.shared.{kind}", word, at, guard=is_warp)
            theirs.append(words)
        found.append(across(theirs, lanes))
    return found


def begin_meetings(text: Text, thread: str, barriers: str, expected_bytes: Sequence[int]) -> None:
    """One barrier for each fold of a cluster, from an address on, with the bytes that come to it; then arrive, so that
    the others may write. thread: register with a thread's number in its CTA."""
    others, done = text.into("pred", "setp.ne.u32", thread, 0), text.label("barriers_made")
    text.emit("bra", done, guard=others)
    for number, count in enumerate(expected_bytes):
        address = f"[{barriers}+{number * BARRIER_BYTES}]"
        text.emit("mbarrier.init.shared::cta.b64", address, 1)
        text.emit("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64", "_", address, count)
    text.place(done)
    text.emit("fence.mbarrier_init.release.cluster")
    text.emit("barrier.cluster.arrive.relaxed")


def _await_words(text: Text, barrier: str) -> None:
    """The only phase of a fold's barrier."""
    retry, done, passed = text.label("words"), text.label("words_there"), text.register("pred")
    text.place(retry)
    text.emit("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", passed, f"[{barrier}]", 0)
    text.emit("bra", done, guard=passed)
    text.emit("bra", retry)
    text.place(done)


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
