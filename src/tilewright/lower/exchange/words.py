"""What does one thread hold in the course of an exchange: which register, which byte, and how words are packed of them?

A thread's file is followed element by element, so that rearrangements are no instructions; a word is packed, by byte
permutes, only where an instruction takes it and its bytes are not yet in one register in that order. An exclusive-or by
a thread's parity leaves two files, of even and of odd threads; where a word of both comes from two registers, one byte
permute by a selector of the thread packs and selects at once. What depends on the thread alone is asked for by key,
and made once.

Not handled: elements of more than 4 bytes. Who checks: tests/lower/exchange/test_steps.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.ir.exchange import ExchangePlan, Parity, Toggle
from tilewright.lower.ptx.emit import Text

LANE_BITS = 5
WORD_BYTES = 4
Part = tuple[str, int]
"""A register of 32 bits, and the byte of it at which an element begins."""
Images = tuple[int, ...]
"""Of the bits of the thread's number, the lane's first."""


@dataclass(frozen=True, slots=True)
class File:
    """A thread's elements. odd: where they are in threads for which `parity` is odd, if that is elsewhere."""

    even: tuple[Part, ...]
    odd: tuple[Part, ...] | None = None
    parity: Parity = (0, 0)

    def picked(self, elements: Sequence[int]) -> File:
        odd = None if self.odd is None else tuple(self.odd[each] for each in elements)
        return File(tuple(self.even[each] for each in elements), odd, self.parity)


@dataclass(slots=True)
class Ready:
    """What depends on the thread alone. thread: register, number in the CTA; memory: register, shared address, aligned
    to 16 bytes; the rest: registers by what they hold."""

    text: Text
    plan: ExchangePlan
    thread: str
    memory: str
    odd: dict[Parity, str] = field(default_factory=dict[Parity, str])
    selectors: dict[tuple[Parity, int, int], str] = field(default_factory=dict[tuple[Parity, int, int], str])
    linear: dict[tuple[Images, int], str] = field(default_factory=dict[tuple[Images, int], str])
    addresses: dict[tuple[Images, int], str] = field(default_factory=dict[tuple[Images, int], str])
    active: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def per_word(self) -> int:
        return WORD_BYTES // self.plan.element_bytes


def linear_bytes(text: Text, thread: str, images: Sequence[int]) -> str:
    """Register with the exclusive-or of the images of the thread number's bits."""
    moved: dict[int, int] = {}
    for bit, image in enumerate(images):
        for place in range(image.bit_length()):
            if image >> place & 1:
                moved[place - bit] = moved.get(place - bit, 0) | 1 << bit
    total = ""
    for distance, mask in sorted(moved.items()):
        part = text.into("b32", "and.b32", thread, mask)
        if distance:
            part = text.into("b32", "shl.b32" if distance > 0 else "shr.u32", part, abs(distance))
        total = text.into("b32", "xor.b32", total, part) if total else part
    return total or text.into("b32", "mov.b32", 0)


def odd_predicate(ready: Ready, parity: Parity) -> str:
    """Predicate: the parity is odd."""
    if parity not in ready.odd:
        text = ready.text
        mask = parity[0] | parity[1] << LANE_BITS
        bits = text.into("b32", "and.b32", ready.thread, mask)
        if mask & mask - 1:
            bits = text.into("b32", "and.b32", text.into("b32", "popc.b32", bits), 1)
        ready.odd[parity] = text.into("pred", "setp.ne.u32", bits, 0)
    return ready.odd[parity]


def selector_register(ready: Ready, parity: Parity, even: int, odd: int) -> str:
    """Register: `odd` in threads of odd parity, else `even`."""
    key = (parity, even, odd)
    if key not in ready.selectors:
        ready.selectors[key] = ready.text.into("b32", "selp.b32", odd, even, odd_predicate(ready, parity))
    return ready.selectors[key]


def linear_register(ready: Ready, images: Images, constant: int) -> str:
    """Register: the exclusive-or of the constant and the images of the thread number's bits."""
    key = (images, constant)
    if key not in ready.linear:
        if constant:
            ready.linear[key] = ready.text.into("b32", "xor.b32", linear_register(ready, images, 0), constant)
        else:
            ready.linear[key] = linear_bytes(ready.text, ready.thread, images)
    return ready.linear[key]


def address_register(ready: Ready, images: Images, turned: int) -> str:
    key = (images, turned)
    if key not in ready.addresses:
        ready.addresses[key] = ready.text.into("b32", "add.u32", linear_register(ready, images, turned), ready.memory)
    return ready.addresses[key]


def active_predicate(ready: Ready, mask: int) -> str:
    """Predicate of threads whose number has 0 in the bits of the mask; empty for no bits."""
    if not mask:
        return ""
    if mask not in ready.active:
        bits = ready.text.into("b32", "and.b32", ready.thread, mask)
        ready.active[mask] = ready.text.into("pred", "setp.eq.u32", bits, 0)
    return ready.active[mask]


# ---------------------------------------------------------------- within a thread


def file_of(words: Sequence[str], elements: int, per_word: int) -> File:
    width = WORD_BYTES // per_word
    return File(tuple((words[each // per_word], each % per_word * width) for each in range(elements)))


def packed_words(ready: Ready, file: File) -> list[str]:
    count, step = len(file.even), ready.per_word
    return [packed_word(ready, file.picked(range(at, min(at + step, count)))) for at in range(0, count, step)]


def packed_word(ready: Ready, file: File) -> str:
    """A register whose low bytes are these elements, in order."""
    if file.odd is None or file.odd == file.even:
        return _static_word(ready, file.even)
    registers = _registers((*file.even, *file.odd))
    if len(registers) > 2 or all(_is_whole(ready, parts) for parts in (file.even, file.odd)):
        even, odd = _static_word(ready, file.even), _static_word(ready, file.odd)
        return ready.text.into("b32", "selp.b32", odd, even, odd_predicate(ready, file.parity))
    first, second = registers[0], registers[-1]
    selectors = [selection([_nibble(each, first) for each in _bytes(ready, part)]) for part in (file.even, file.odd)]
    selector = selector_register(ready, file.parity, selectors[0], selectors[1])
    return ready.text.into("b32", "prmt.b32", first, second, selector)


def _static_word(ready: Ready, parts: Sequence[Part]) -> str:
    if _is_whole(ready, parts):
        return parts[0][0]
    if ready.plan.element_bytes * len(parts) == WORD_BYTES and len(parts) == 2:
        # The assembler sees through pairs of halves, and not through byte permutes.
        halves = [_half(ready.text, part) for part in parts]
        return ready.text.into("b32", "mov.b32", braces(halves))
    wanted = _bytes(ready, parts)
    registers = _registers(wanted)
    while len(registers) > 2:
        # Bytes of the first two go to one register, each once.
        first, second = registers[:2]
        pair = list(dict.fromkeys(each for each in wanted if each[0] in (first, second)))
        merged = _permute(ready.text, first, second, [_nibble(each, first) for each in pair])
        wanted = [(merged, pair.index(each)) if each in pair else each for each in wanted]
        registers = [*registers[2:], merged]
    first, second = registers[0], registers[-1]
    return _permute(ready.text, first, second, [_nibble(each, first) for each in wanted])


def _half(text: Text, part: Part) -> str:
    register, byte = part
    halves = [text.register("b16"), text.register("b16")]
    text.emit("mov.b32", braces(halves), register)
    return halves[byte // 2]


def _bytes(ready: Ready, parts: Sequence[Part]) -> list[Part]:
    return [(register, byte + each) for register, byte in parts for each in range(ready.plan.element_bytes)]


def _registers(parts: Sequence[Part]) -> list[str]:
    return list(dict.fromkeys(register for register, _ in parts))


def _is_whole(ready: Ready, parts: Sequence[Part]) -> bool:
    """Do the elements stand in one register from its lowest byte on, in order?"""
    width = ready.plan.element_bytes
    return all(part == (parts[0][0], at * width) for at, part in enumerate(parts))


def _nibble(part: Part, first: str) -> int:
    return part[1] + (0 if part[0] == first else WORD_BYTES)


def _permute(text: Text, first: str, second: str, nibbles: Sequence[int]) -> str:
    return text.into("b32", "prmt.b32", first, second, f"{selection(nibbles):#06x}")


def selection(nibbles: Sequence[int]) -> int:
    return sum([each << 4 * place for place, each in enumerate(nibbles)])


def toggled(ready: Ready, step: Toggle, file: File, order: Sequence[int]) -> File:
    """order: what is made of the file next. The last exclusive-or is left to whoever packs its words."""
    for number, (mask, parity) in enumerate(step.masks):
        last = number == len(step.masks) - 1
        wanted = order if last else range(len(file.even))
        if file.odd is None:
            names = [f"new {each}" for each in range(len(file.even))]
            packed = _turned(file_of(names, len(file.even), ready.per_word), mask, parity)
            repacked = _cost(ready, file) + _cost(ready, packed.picked(wanted))
            if _cost(ready, _turned(file, mask, parity).picked(wanted)) <= repacked:
                file = _turned(file, mask, parity)
                continue
        file = file_of(packed_words(ready, file), len(file.even), ready.per_word)
        file = _turned(file, mask, parity)
    return file


def _turned(file: File, mask: int, parity: Parity) -> File:
    return File(file.even, tuple(file.even[each ^ mask] for each in range(len(file.even))), parity)


def _cost(ready: Ready, file: File) -> int:
    """Instructions that pack the file."""
    total = 0
    for at in range(0, len(file.even), ready.per_word):
        word = file.picked(range(at, min(at + ready.per_word, len(file.even))))
        if word.odd is None or word.odd == word.even:
            total += _static_cost(ready, word.even)
        elif len(_registers((*word.even, *word.odd))) <= 2:
            total += 1
        else:
            total += _static_cost(ready, word.even) + _static_cost(ready, word.odd) + 1
    return total


def _static_cost(ready: Ready, parts: Sequence[Part]) -> int:
    return 0 if _is_whole(ready, parts) else max(1, len(_registers(parts)) - 1)


def braces(words: Sequence[str]) -> str:
    return "{" + ", ".join(words) + "}"
