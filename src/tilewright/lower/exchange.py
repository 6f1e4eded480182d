"""How does the plan of an exchange become PTX?

A thread's file is followed element by element: which register holds it, and at which byte. Rearrangements are thus no
instructions; a word is packed, by byte permutes, only where an instruction takes it and its bytes are not yet in one
register in that order. An exclusive-or by a thread's parity leaves two files, of even and of odd threads; where a word
of both comes from two registers, one byte permute by a selector of the thread packs and selects at once. What depends
on the thread alone (addresses, selectors, lanes to read from, predicates) is computed once by `prepare`, so that a loop
around `emit` repeats none of it: it is what a rehearsal of `emit` asked for.

Threads are numbered along x, 32 to a warp. Shared memory of a plan may be used again when the threads that took part
have met again: `emit` waits between its stores and its loads, not before the stores. Not handled: threads that do not
take part. Who checks: tests/lower/test_exchange.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.ir.exchange import Access, Cross, ExchangePlan, Load, Parity, Rearrange, Shuffle, Stage, Store, Toggle
from tilewright.lower.emit import Text

_LANE_BITS = 5
_WORD_BYTES = 4
_MATRIX_COUNTS = {1: "x1", 2: "x2", 4: "x4"}
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
        return _WORD_BYTES // self.plan.element_bytes


def prepare(text: Text, plan: ExchangePlan, thread: str, memory: str) -> Ready:
    """Emits what `emit` needs. thread: register with the thread's number; memory: register with the shared address of
    `plan.shared_bytes` bytes, a multiple of 16; any register where there are none."""
    rehearsal = Ready(Text(), plan, thread, memory)
    emit(rehearsal, [f"word {each}" for each in range(-(-plan.elements_in // rehearsal.per_word))])
    ready = Ready(text, plan, thread, memory)
    for parity in rehearsal.odd:
        _odd(ready, parity)
    for key in rehearsal.selectors:
        _selector(ready, *key)
    for key in rehearsal.linear:
        _linear(ready, *key)
    for key in rehearsal.addresses:
        _address(ready, *key)
    for mask in rehearsal.active:
        _active(ready, mask)
    return ready


def emit(ready: Ready, words: Sequence[str]) -> list[str]:
    """Emits one exchange. words: registers of 32 bits with the elements of the source, packed; returns those of the
    destination. Registers may be among those given, none of which is written."""
    plan, per_word = ready.plan, ready.per_word
    file = _file_of(words, plan.elements_in, per_word)
    for at, step in enumerate(plan.steps):
        match step:
            case Rearrange(elements):
                file = file.picked(elements)
            case Toggle():
                after = plan.steps[at + 1] if at + 1 < len(plan.steps) else None
                order = after.elements if isinstance(after, Rearrange) else range(len(file.even))
                file = _toggle(ready, step, file, order)
            case Shuffle():
                file = _file_of(_shuffle(ready, step, _packed(ready, file)), len(file.even), per_word)
            case Cross():
                file = _file_of(_cross(ready, step, _packed(ready, file)), len(file.even), per_word)
            case Stage():
                _store(ready, step.store, file)
                if step.scope == "warp":
                    ready.text.emit("bar.warp.sync", -1)
                else:
                    ready.text.emit("bar.sync", 0)
                file = _load(ready, step.load, step.elements)
            case Store():
                _store(ready, step.access, file)
                file = File(())
            case Load():
                file = _load(ready, step.access, step.elements)
    return _packed(ready, file)


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


# ---------------------------------------------------------------- what depends on the thread


def _odd(ready: Ready, parity: Parity) -> str:
    """Predicate: the parity is odd."""
    if parity not in ready.odd:
        text = ready.text
        mask = parity[0] | parity[1] << _LANE_BITS
        bits = text.into("b32", "and.b32", ready.thread, mask)
        if mask & mask - 1:
            bits = text.into("b32", "and.b32", text.into("b32", "popc.b32", bits), 1)
        ready.odd[parity] = text.into("pred", "setp.ne.u32", bits, 0)
    return ready.odd[parity]


def _selector(ready: Ready, parity: Parity, even: int, odd: int) -> str:
    """Register: `odd` in threads of odd parity, else `even`."""
    key = (parity, even, odd)
    if key not in ready.selectors:
        ready.selectors[key] = ready.text.into("b32", "selp.b32", odd, even, _odd(ready, parity))
    return ready.selectors[key]


def _linear(ready: Ready, images: Images, constant: int) -> str:
    """Register: the exclusive-or of the constant and the images of the thread number's bits."""
    key = (images, constant)
    if key not in ready.linear:
        if constant:
            ready.linear[key] = ready.text.into("b32", "xor.b32", _linear(ready, images, 0), constant)
        else:
            ready.linear[key] = linear_bytes(ready.text, ready.thread, images)
    return ready.linear[key]


def _address(ready: Ready, images: Images, turned: int) -> str:
    key = (images, turned)
    if key not in ready.addresses:
        ready.addresses[key] = ready.text.into("b32", "add.u32", _linear(ready, images, turned), ready.memory)
    return ready.addresses[key]


def _place(ready: Ready, access: Access, constant: int) -> str:
    """Operand of an access. Bits of the constant that no thread's address has are added by the instruction."""
    images = (*access.lane_bytes, *access.warp_bytes)
    varying = 0
    for image in images:
        varying |= image
    register, added = _address(ready, images, constant & varying), constant & ~varying
    return f"[{register}+{added}]" if added else f"[{register}]"


def _active(ready: Ready, mask: int) -> str:
    """Predicate of threads whose number has 0 in the bits of the mask; empty for no bits."""
    if not mask:
        return ""
    if mask not in ready.active:
        bits = ready.text.into("b32", "and.b32", ready.thread, mask)
        ready.active[mask] = ready.text.into("pred", "setp.eq.u32", bits, 0)
    return ready.active[mask]


# ---------------------------------------------------------------- within a thread


def _file_of(words: Sequence[str], elements: int, per_word: int) -> File:
    width = _WORD_BYTES // per_word
    return File(tuple((words[each // per_word], each % per_word * width) for each in range(elements)))


def _packed(ready: Ready, file: File) -> list[str]:
    count, step = len(file.even), ready.per_word
    return [_word(ready, file.picked(range(at, min(at + step, count)))) for at in range(0, count, step)]


def _word(ready: Ready, file: File) -> str:
    """A register whose low bytes are these elements, in order."""
    if file.odd is None or file.odd == file.even:
        return _static_word(ready, file.even)
    registers = _registers((*file.even, *file.odd))
    if len(registers) > 2 or all(_is_whole(ready, parts) for parts in (file.even, file.odd)):
        even, odd = _static_word(ready, file.even), _static_word(ready, file.odd)
        return ready.text.into("b32", "selp.b32", odd, even, _odd(ready, file.parity))
    first, second = registers[0], registers[-1]
    selectors = [_selection([_nibble(each, first) for each in _bytes(ready, part)]) for part in (file.even, file.odd)]
    selector = _selector(ready, file.parity, selectors[0], selectors[1])
    return ready.text.into("b32", "prmt.b32", first, second, selector)


def _static_word(ready: Ready, parts: Sequence[Part]) -> str:
    if _is_whole(ready, parts):
        return parts[0][0]
    if ready.plan.element_bytes * len(parts) == _WORD_BYTES and len(parts) == 2:
        # The assembler sees through pairs of halves, and not through byte permutes.
        halves = [_half(ready.text, part) for part in parts]
        return ready.text.into("b32", "mov.b32", _braces(halves))
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
    text.emit("mov.b32", _braces(halves), register)
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
    return part[1] + (0 if part[0] == first else _WORD_BYTES)


def _permute(text: Text, first: str, second: str, nibbles: Sequence[int]) -> str:
    return text.into("b32", "prmt.b32", first, second, f"{_selection(nibbles):#06x}")


def _selection(nibbles: Sequence[int]) -> int:
    return sum([each << 4 * place for place, each in enumerate(nibbles)])


def _toggle(ready: Ready, step: Toggle, file: File, order: Sequence[int]) -> File:
    """order: what is made of the file next. The last exclusive-or is left to whoever packs its words."""
    for number, (mask, parity) in enumerate(step.masks):
        last = number == len(step.masks) - 1
        wanted = order if last else range(len(file.even))
        if file.odd is None:
            names = [f"new {each}" for each in range(len(file.even))]
            packed = _turned(_file_of(names, len(file.even), ready.per_word), mask, parity)
            repacked = _cost(ready, file) + _cost(ready, packed.picked(wanted))
            if _cost(ready, _turned(file, mask, parity).picked(wanted)) <= repacked:
                file = _turned(file, mask, parity)
                continue
        file = _file_of(_packed(ready, file), len(file.even), ready.per_word)
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


# ---------------------------------------------------------------- between lanes


def _shuffle(ready: Ready, step: Shuffle, words: list[str]) -> list[str]:
    text = ready.text
    found: list[str] = []
    for word, constant in zip(words, step.constants, strict=True):
        if not step.is_exclusive_or:
            origin = _linear(ready, (*step.lanes, *step.warps), constant)
            found.append(text.into("b32", "shfl.sync.idx.b32", word, origin, 31, -1))
        elif constant:
            found.append(text.into("b32", "shfl.sync.bfly.b32", word, constant, 31, -1))
        else:
            found.append(word)
    return found


def _crossed(step: Cross, element_bytes: int) -> dict[str, tuple[int, int]]:
    """Selectors for lanes whose bit is 0, and 1: of what two words give, and of either's new word from itself and
    what came; of one word alone and the other lane's."""
    width = element_bytes << step.element_bit
    given: list[int] = []
    first: list[int] = []
    second: list[int] = []
    alone: list[int] = []
    for own in (0, 1):
        kept = [byte for byte in range(_WORD_BYTES) if byte // width % 2 == own]
        sent = [byte for byte in range(_WORD_BYTES) if byte // width % 2 != own]
        given.append(_selection([*sent, *(byte + _WORD_BYTES for byte in sent)]))
        for found, start in ((first, 0), (second, len(sent))):
            places = {byte: _WORD_BYTES + start + rank for rank, byte in enumerate(sent)}
            found.append(_selection([places.get(byte, byte) for byte in range(_WORD_BYTES)]))
        others = {byte: _WORD_BYTES + kept[rank] for rank, byte in enumerate(sent)}
        alone.append(_selection([others.get(byte, byte) for byte in range(_WORD_BYTES)]))
    return {
        "given": (given[0], given[1]),
        "first": (first[0], first[1]),
        "second": (second[0], second[1]),
        "alone": (alone[0], alone[1]),
    }


def _cross(ready: Ready, step: Cross, words: list[str]) -> list[str]:
    text = ready.text
    selectors = {
        name: _selector(ready, (1 << step.lane_bit, 0), *each)
        for name, each in _crossed(step, ready.plan.element_bytes).items()
    }
    if len(words) == 1:
        other = text.into("b32", "shfl.sync.bfly.b32", words[0], 1 << step.lane_bit, 31, -1)
        return [text.into("b32", "prmt.b32", words[0], other, selectors["alone"])]
    found: list[str] = []
    for first, second in zip(words[::2], words[1::2], strict=True):
        given = text.into("b32", "prmt.b32", first, second, selectors["given"])
        came = text.into("b32", "shfl.sync.bfly.b32", given, 1 << step.lane_bit, 31, -1)
        found.append(text.into("b32", "prmt.b32", first, came, selectors["first"]))
        found.append(text.into("b32", "prmt.b32", second, came, selectors["second"]))
    return found


# ---------------------------------------------------------------- through shared memory


def _store(ready: Ready, access: Access, file: File) -> None:
    text, width = ready.text, ready.plan.element_bytes
    guard = _active(ready, access.lane_active | access.warp_active << _LANE_BITS)
    for moved, constant in zip(access.elements, access.constants, strict=True):
        address = _place(ready, access, constant)
        parts = file.picked(moved)
        size = len(moved) * width
        if size < _WORD_BYTES:
            text.emit(f"st.shared.b{8 * size}", address, _low(ready, parts), guard=guard)
            continue
        words = _packed(ready, parts)
        if access.form == "vector":
            text.emit(f"st.shared{_vector(len(words))}.b32", address, _group(words), guard=guard)
        else:
            turned = ".trans" if access.form == "transposed matrix" else ""
            opcode = f"stmatrix.sync.aligned.m8n8.{_MATRIX_COUNTS[len(words)]}{turned}.shared.b16"
            text.emit(opcode, address, _braces(words))


def _low(ready: Ready, file: File) -> str:
    """A register with the elements in its low bytes; what its others hold does not matter."""
    register, byte = file.even[0]
    width = ready.plan.element_bytes
    if file.odd is not None or any(part != (register, byte + at * width) for at, part in enumerate(file.even)):
        return _word(ready, file)
    return ready.text.into("b32", "shr.u32", register, 8 * byte) if byte else register


def _load(ready: Ready, access: Access, elements: int) -> File:
    text, width = ready.text, ready.plan.element_bytes
    file: list[Part] = [("", 0)] * elements
    for moved, constant in zip(access.elements, access.constants, strict=True):
        address = _place(ready, access, constant)
        size = len(moved) * width
        words = [text.register("b32") for _ in range(max(1, size // _WORD_BYTES))]
        if size < _WORD_BYTES:
            text.emit(f"ld.shared.u{8 * size}", words[0], address)
        elif access.form == "vector":
            text.emit(f"ld.shared{_vector(len(words))}.b32", _group(words), address)
        else:
            turned = ".trans" if access.form == "transposed matrix" else ""
            opcode = f"ldmatrix.sync.aligned.m8n8.{_MATRIX_COUNTS[len(words)]}{turned}.shared.b16"
            text.emit(opcode, _braces(words), address)
        for at, element in enumerate(moved):
            file[element] = (words[at * width // _WORD_BYTES], at * width % _WORD_BYTES)
    return File(tuple(file))


def _vector(words: int) -> str:
    return "" if words == 1 else f".v{words}"


def _group(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else _braces(words)


def _braces(words: Sequence[str]) -> str:
    return "{" + ", ".join(words) + "}"
