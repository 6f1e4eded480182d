"""What does an exchange cost: instructions, wavefronts, barriers, and an estimate of the cycles of all together?

Theory: a CTA's warps are dealt to the multiprocessor's schedulers, each of which issues byte permutes, selections and
moves at its own rate; shuffles and wavefronts of all warps go through one pipe; each dependent round adds its latency.
The estimate is the sum of the three, except that words are selected while others are shuffled: of these two the longer
counts. Bytes are packed beside accesses too, but the first store waits for its words, and the last load's words are
taken apart when nothing else is left, so that wide accesses wait longer. Byte permutes are counted by following every
byte of a thread's file: a word whose bytes lie in one register as they shall costs nothing, one of two registers one
permute.

The constants are the target's, `exchange.*`: least squares of cycles measured (relative error 10 %, root mean square).
What the assembler folds into what stands before and after an exchange is in the mean of what was measured. Not handled:
what else runs on the multiprocessor at the same time, which hides latency and barriers and competes for the pipe. Who
checks: tests/synth/exchange/test_search.py; bench/conversions.py sets the estimate beside cycles measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.ir.exchange import (
    Access,
    Cross,
    ExchangeCost,
    Load,
    Rearrange,
    Shuffle,
    Stage,
    Step,
    Store,
    Toggle,
    Turn,
)
from tilewright.synth.exchange.rounds import drifts
from tilewright.targets import Target

_WORD_BYTES = 4


@dataclass(slots=True)
class _Count:
    """Of one warp, except barriers.

    fresh: the next register's number. Of the permutes, `selected` are those whose bytes depend on the thread, and
    `crossed` those between two registers and two. shuffles: of whole words; crossings: of words put together for it.
    stored, loaded: accesses; filled: permutes of words that are stored; unloaded: permutes so far when the last load
    was issued.
    """

    fresh: int
    permutes: int = 0
    selected: int = 0
    crossed: int = 0
    shuffles: int = 0
    crossings: int = 0
    stored: int = 0
    loaded: int = 0
    filled: int = 0
    unloaded: int = 0
    turns: int = 0
    wavefronts: int = 0
    accesses: int = 0
    latency: int = 0
    barriers: int = 0
    shared_bytes: int = 0
    moved_bytes: int = 0
    rounds: list[str] = field(default_factory=list[str])


def cost_of(steps: tuple[Step, ...], elements: int, element_bytes: int, warps: int, target: Target) -> ExchangeCost:
    """Of the steps, by all warps of a CTA once. elements: of a thread before the first step."""
    count = _counted(steps, elements, element_bytes, target)
    schedulers = target.limit("exchange.schedulers")
    turns = -(-warps // schedulers)
    # Bytes are permuted one word at a time; of halves the assembler makes fewer instructions than are asked for.
    rate = target.limit("exchange.byte_centicycles" if element_bytes == 1 else "exchange.integer_centicycles")
    packed = count.permutes - count.selected - count.crossed
    issue = (packed * rate + count.crossed * target.limit("exchange.integer_centicycles")) * turns
    shuffle = target.limit("exchange.shuffle_centicycles")
    pipe = warps * (
        count.wavefronts * target.limit("exchange.wavefront_centicycles")
        + count.accesses * target.limit("exchange.access_centicycles")
        + count.crossings * shuffle
        + count.turns * target.limit("exchange.turn_centicycles")
    )
    # Words are selected while others are under way.
    selecting = count.selected * target.limit("exchange.select_centicycles") * turns
    overlapped = max(selecting, warps * count.shuffles * shuffle)
    if element_bytes < _WORD_BYTES:
        overlapped += _ends_per_access(count) * target.limit("exchange.fill_centicycles") * turns
    slots = count.permutes + count.shuffles + count.crossings + count.turns + count.accesses
    return ExchangeCost(
        cycles=-(-(issue + pipe + overlapped) // 100) + count.latency,
        issue_slots=slots,
        wavefronts=count.wavefronts * warps,
        shuffles=count.shuffles + count.crossings + count.turns,
        barriers=count.barriers,
        shared_bytes=count.shared_bytes,
        moved_bytes=count.moved_bytes * warps,
    )


def packed_words(steps: tuple[Step, ...], elements: int, element_bytes: int, target: Target) -> int:
    """Instructions of a thread that put words together: 0 where every word is moved as it stands."""
    return _counted(steps, elements, element_bytes, target).permutes


def _counted(steps: tuple[Step, ...], elements: int, element_bytes: int, target: Target) -> _Count:
    per_word = _WORD_BYTES // element_bytes
    # Every element's register and place in it.
    file = _in_order(0, elements, per_word)
    count = _Count(fresh=-(-elements // per_word))
    for at, step in enumerate(steps):
        after = steps[at + 1] if at + 1 < len(steps) else None
        order = after.elements if isinstance(after, Rearrange) else range(len(file))
        file = _followed(count, file, step, order, per_word, element_bytes, target)
    _pack(count, file, per_word)
    return count


def _ends_per_access(count: _Count) -> int:
    """Permutes that nothing else hides: of the words that the first access stores, and of those that the last loads."""
    stored = -(-count.filled // count.stored) if count.stored else 0
    loaded = -(-(count.permutes - count.unloaded) // count.loaded) if count.loaded else 0
    return stored + loaded


_Part = tuple[int, int]
_File = list[tuple[_Part, _Part]]
"""By element, register and place in it: in threads of even parity of a pending exclusive-or, and of odd."""


def _followed(
    count: _Count, file: _File, step: Step, order: Sequence[int], per_word: int, element_bytes: int, target: Target
) -> _File:
    """order: what is made of the file next."""
    match step:
        case Rearrange(elements):
            return [file[each] for each in elements]
        case Toggle(masks):
            return _toggled(count, file, [mask for mask, _ in masks], order, per_word)
        case Shuffle():
            _pack(count, file, per_word)
            count.shuffles += step.moved_words
            count.moved_bytes += step.moved_words * _WORD_BYTES * 32
            count.latency += target.limit("exchange.shuffle_latency_cycles") if step.moved_words else 0
            return _renewed(count, len(file), per_word)
        case Cross():
            words = _pack(count, file, per_word)
            pairs = words // 2
            count.crossings += pairs + words % 2
            count.permutes += 3 * pairs + words % 2
            count.crossed += 3 * pairs + words % 2
            count.moved_bytes += (pairs + words % 2) * _WORD_BYTES * 32
            count.latency += target.limit("exchange.shuffle_latency_cycles")
            return _renewed(count, len(file), per_word)
        case Turn():
            words = _pack(count, file, per_word)
            count.turns += words
            count.moved_bytes += words * _WORD_BYTES * 32
            count.latency += target.limit("exchange.shuffle_latency_cycles")
            return _renewed(count, len(file), per_word)
        case Stage():
            _store(count, file, step.store, per_word)
            for access in (step.store, step.load):
                _count_access(count, access, element_bytes)
            count.latency += target.limit(f"exchange.{step.scope}_trip_cycles")
            if step.rounds:
                count.latency -= target.limit(f"exchange.rounds_{step.scope}_gain_cycles")
            if drifts(step, target):
                count.latency += target.limit("exchange.drift_cycles")
            count.barriers += len(step.parts) if step.scope == "block" else 0
            count.shared_bytes = max(count.shared_bytes, step.size_bytes)
            return _loaded(count, step.load, step.elements, per_word)
        case Store():
            _store(count, file, step.access, per_word)
            _count_access(count, step.access, element_bytes)
            count.shared_bytes = max(count.shared_bytes, step.size_bytes)
            return []
        case Load():
            _count_access(count, step.access, element_bytes)
            count.latency += target.limit("exchange.warp_trip_cycles")
            count.shared_bytes = max(count.shared_bytes, step.size_bytes)
            return _loaded(count, step.access, step.elements, per_word)


def _pack(count: _Count, file: _File, per_word: int) -> int:
    """Words made so that the file's elements follow each other; their number."""
    words = 0
    for begin in range(0, len(file), per_word):
        _count_word(count, file[begin : begin + per_word])
        words += 1
    return words


def _count_word(count: _Count, parts: _File) -> None:
    permutes = _word_permutes(parts)
    count.permutes += permutes
    count.selected += permutes if any(even != odd for even, odd in parts) else 0


def _word_permutes(parts: _File) -> int:
    even, odd = [each for each, _ in parts], [each for _, each in parts]
    if even == odd:
        return _static_permutes(even)
    if len({register for register, _ in (*even, *odd)}) <= 2:
        return 1
    return _static_permutes(even) + _static_permutes(odd) + 1


def _static_permutes(parts: list[_Part]) -> int:
    registers = {register for register, _ in parts}
    if len(registers) == 1 and [place for _, place in parts] == list(range(len(parts))):
        return 0
    return max(1, len(registers) - 1)


def _file_permutes(file: _File, order: Sequence[int], per_word: int) -> int:
    moved = [file[each] for each in order]
    return sum(_word_permutes(moved[begin : begin + per_word]) for begin in range(0, len(moved), per_word))


def _toggled(count: _Count, file: _File, masks: Sequence[int], order: Sequence[int], per_word: int) -> _File:
    """The last exclusive-or is left to whoever packs its words, where that takes no more instructions."""
    plain = range(len(file))
    for number, mask in enumerate(masks):
        wanted = order if number == len(masks) - 1 else plain
        turned = _turned(file, mask)
        if any(even != odd for even, odd in file):
            turned = None
        else:
            packed = _turned(_in_order(count.fresh, len(file), per_word), mask)
            repacked = _file_permutes(file, plain, per_word) + _file_permutes(packed, wanted, per_word)
            if _file_permutes(turned, wanted, per_word) > repacked:
                turned = None
        if turned is None:
            _pack(count, file, per_word)
            turned = _turned(_renewed(count, len(file), per_word), mask)
        file = turned
    return file


def _turned(file: _File, mask: int) -> _File:
    return [(file[each][0], file[each ^ mask][0]) for each in range(len(file))]


def _in_order(first: int, elements: int, per_word: int) -> _File:
    parts = [(first + each // per_word, each % per_word) for each in range(elements)]
    return [(each, each) for each in parts]


def _renewed(count: _Count, elements: int, per_word: int) -> _File:
    first = count.fresh
    count.fresh += -(-elements // per_word)
    return _in_order(first, elements, per_word)


def _store(count: _Count, file: _File, access: Access, per_word: int) -> None:
    before = count.permutes
    _fill(count, file, access, per_word)
    count.filled += count.permutes - before
    count.stored += len(access.elements)


def _fill(count: _Count, file: _File, access: Access, per_word: int) -> None:
    for moved in access.elements:
        parts = [file[each] for each in moved]
        if len(moved) < per_word:
            # Less than a word: what is not in the low bytes is shifted there.
            (first, odd), registers = parts[0], {each[0] for part in parts for each in part}
            count.permutes += first[1] > 0 or first != odd or len(registers) > 1
            continue
        for begin in range(0, len(moved), per_word):
            _count_word(count, parts[begin : begin + per_word])


def _count_access(count: _Count, access: Access, element_bytes: int) -> None:
    count.accesses += len(access.elements)
    count.wavefronts += access.wavefronts * len(access.elements)
    count.moved_bytes += len(access.elements) * len(access.elements[0]) * element_bytes * 32


def _loaded(count: _Count, access: Access, elements: int, per_word: int) -> _File:
    count.unloaded = count.permutes
    count.loaded += len(access.elements)
    file = _in_order(0, elements, per_word)
    for moved in access.elements:
        for at, element in enumerate(moved):
            part = (count.fresh + at // per_word, at % per_word)
            file[element] = (part, part)
        count.fresh += -(-len(moved) // per_word)
    return file
