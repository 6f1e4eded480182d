"""What does an exchange cost: instructions, wavefronts, barriers, and an estimate of the cycles of all together?

Theory: a CTA's warps are dealt to the multiprocessor's schedulers, each of which issues byte permutes, selections and
moves at its own rate; shuffles and wavefronts of all warps go through one pipe; each dependent round adds its latency.
The estimate is the sum of the three. Byte permutes are counted by following every byte of a thread's file: a word whose
bytes lie in one register as they shall costs nothing, one of two registers one permute.

The constants are the target's, `exchange.*`. Not handled: what else runs on the multiprocessor at the same time, which
hides latency and barriers and competes for the pipe. Who checks: tests/synth/test_exchange.py; bench/conversions.py
sets the estimate beside cycles measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.ir.exchange import Access, Cross, ExchangeCost, Load, Rearrange, Shuffle, Stage, Step, Store, Toggle
from tilewright.targets import Target

_WORD_BYTES = 4


@dataclass(slots=True)
class _Count:
    """Of one warp, except barriers. fresh: the next register's number."""

    fresh: int
    permutes: int = 0
    others: int = 0
    shuffles: int = 0
    wavefronts: int = 0
    accesses: int = 0
    latency: int = 0
    barriers: int = 0
    shared_bytes: int = 0
    moved_bytes: int = 0
    rounds: list[str] = field(default_factory=list[str])


def cost_of(steps: tuple[Step, ...], elements: int, element_bytes: int, warps: int, target: Target) -> ExchangeCost:
    """Of the steps, by all warps of a CTA once. elements: of a thread before the first step."""
    per_word = _WORD_BYTES // element_bytes
    # Every element's register and place in it.
    file = [(each // per_word, each % per_word) for each in range(elements)]
    count = _Count(fresh=-(-elements // per_word))
    for step in steps:
        file = _followed(count, file, step, per_word, element_bytes, target)
    _pack(count, file, per_word)
    schedulers = target.limit("exchange.schedulers")
    turns = -(-warps // schedulers)
    issue = (count.permutes + count.others) * target.limit("exchange.integer_cycles") * turns
    pipe = warps * max(
        count.wavefronts + count.shuffles * target.limit("exchange.shuffle_cycles"),
        (count.accesses + count.shuffles) * target.limit("exchange.access_issue_cycles"),
    )
    slots = count.permutes + count.others + count.shuffles + count.accesses
    return ExchangeCost(
        cycles=issue + pipe + count.latency,
        issue_slots=slots,
        wavefronts=count.wavefronts * warps,
        shuffles=count.shuffles,
        barriers=count.barriers,
        shared_bytes=count.shared_bytes,
        moved_bytes=count.moved_bytes * warps,
    )


_File = list[tuple[int, int]]


def _followed(count: _Count, file: _File, step: Step, per_word: int, element_bytes: int, target: Target) -> _File:
    match step:
        case Rearrange(elements):
            return [file[each] for each in elements]
        case Toggle(masks):
            words = _pack(count, file, per_word)
            for mask, _ in masks:
                count.others += words if mask >= per_word else 0
                count.permutes += words if mask % per_word else 0
            return _renewed(count, len(file), per_word)
        case Shuffle():
            _pack(count, file, per_word)
            count.shuffles += step.moved_words
            count.moved_bytes += step.moved_words * _WORD_BYTES * 32
            count.latency += target.limit("exchange.shuffle_latency") if step.moved_words else 0
            return _renewed(count, len(file), per_word)
        case Cross():
            words = _pack(count, file, per_word)
            pairs = words // 2
            count.shuffles += pairs + words % 2
            count.permutes += 3 * pairs + words % 2
            count.moved_bytes += (pairs + words % 2) * _WORD_BYTES * 32
            count.latency += target.limit("exchange.shuffle_latency")
            return _renewed(count, len(file), per_word)
        case Stage():
            _store(count, file, step.store, per_word)
            for access in (step.store, step.load):
                _count_access(count, access, element_bytes)
            count.latency += target.limit("exchange.trip_latency")
            count.latency += target.limit(
                "exchange.warp_barrier_cycles" if step.scope == "warp" else "exchange.block_barrier_cycles"
            )
            count.barriers += step.scope == "block"
            count.shared_bytes = max(count.shared_bytes, step.size_bytes)
            return _loaded(count, step.load, step.elements, per_word)
        case Store():
            _store(count, file, step.access, per_word)
            _count_access(count, step.access, element_bytes)
            count.shared_bytes = max(count.shared_bytes, step.size_bytes)
            return []
        case Load():
            _count_access(count, step.access, element_bytes)
            count.latency += target.limit("exchange.trip_latency")
            count.shared_bytes = max(count.shared_bytes, step.size_bytes)
            return _loaded(count, step.access, step.elements, per_word)


def _pack(count: _Count, file: _File, per_word: int) -> int:
    """Words made so that the file's elements follow each other; their number."""
    words = 0
    for begin in range(0, len(file), per_word):
        _pack_word(count, file[begin : begin + per_word])
        words += 1
    return words


def _pack_word(count: _Count, parts: _File) -> None:
    registers = {register for register, _ in parts}
    if len(registers) == 1 and [place for _, place in parts] == list(range(len(parts))):
        return
    count.permutes += max(1, len(registers) - 1)


def _renewed(count: _Count, elements: int, per_word: int) -> _File:
    first = count.fresh
    count.fresh += -(-elements // per_word)
    return [(first + each // per_word, each % per_word) for each in range(elements)]


def _store(count: _Count, file: _File, access: Access, per_word: int) -> None:
    for moved in access.elements:
        if len(moved) < per_word:
            # Less than a word: what is not in the low bytes is shifted there.
            count.permutes += file[moved[0]][1] > 0 or len({file[each][0] for each in moved}) > 1
            continue
        for begin in range(0, len(moved), per_word):
            _pack_word(count, [file[each] for each in moved[begin : begin + per_word]])


def _count_access(count: _Count, access: Access, element_bytes: int) -> None:
    count.accesses += len(access.elements)
    count.wavefronts += access.wavefronts * len(access.elements)
    count.moved_bytes += len(access.elements) * len(access.elements[0]) * element_bytes * 32


def _loaded(count: _Count, access: Access, elements: int, per_word: int) -> _File:
    file = [(0, 0)] * elements
    for moved in access.elements:
        for at, element in enumerate(moved):
            file[element] = (count.fresh + at // per_word, at % per_word)
        count.fresh += -(-len(moved) // per_word)
    return file
