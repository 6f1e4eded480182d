"""How does the plan of an exchange become PTX?

Words are packed and selected as `exchange.words` says. What depends on the thread alone (addresses, selectors, lanes to
read from, predicates) is computed once by `prepare`, so that a loop around `emit` repeats none of it: it is what a
rehearsal of `emit` asked for.

Threads are numbered along x, 32 to a warp. Shared memory of a plan may be used again when the threads that took part
have met again: `emit` waits between its stores and its loads, not before the stores. Not handled: threads that do not
take part. Who checks: tests/lower/exchange/test_steps.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.exchange import Access, Cross, ExchangePlan, Load, Rearrange, Shuffle, Stage, Store, Toggle, Turn
from tilewright.lower.exchange.order import streamed
from tilewright.lower.exchange.words import (
    LANE_BITS,
    WORD_BYTES,
    File,
    Part,
    Ready,
    active_predicate,
    address_register,
    braces,
    file_of,
    linear_register,
    odd_predicate,
    packed_word,
    packed_words,
    selection,
    selector_register,
    toggled,
)
from tilewright.lower.ptx.emit import Text

_MATRIX_COUNTS = {1: "x1", 2: "x2", 4: "x4"}


def prepare(text: Text, plan: ExchangePlan, thread: str, memory: str) -> Ready:
    """Emits what `emit` needs. thread: register with the thread's number; memory: register with the shared address of
    `plan.shared_bytes` bytes, a multiple of 16; any register where there are none."""
    rehearsal = Ready(Text(), plan, thread, memory)
    emit(rehearsal, [f"word {each}" for each in range(-(-plan.elements_in // rehearsal.per_word))])
    ready = Ready(text, plan, thread, memory)
    for parity in rehearsal.odd:
        odd_predicate(ready, parity)
    for key in rehearsal.selectors:
        selector_register(ready, *key)
    for key in rehearsal.linear:
        linear_register(ready, *key)
    for key in rehearsal.addresses:
        address_register(ready, *key)
    for mask in rehearsal.active:
        active_predicate(ready, mask)
    return ready


def emit(ready: Ready, words: Sequence[str]) -> list[str]:
    """Emits one exchange. words: registers of 32 bits with the elements of the source, packed; returns those of the
    destination. Registers may be among those given, none of which is written."""
    if not all(isinstance(step, Rearrange | Toggle | Shuffle) for step in ready.plan.steps):
        return _emitted(ready, words)
    begin = len(ready.text.lines)
    found = _emitted(ready, words)
    ready.text.lines[begin:] = streamed(ready.text.lines[begin:])
    return found


def _emitted(ready: Ready, words: Sequence[str]) -> list[str]:
    plan, per_word = ready.plan, ready.per_word
    file = file_of(words, plan.elements_in, per_word)
    for at, step in enumerate(plan.steps):
        match step:
            case Rearrange(elements):
                file = file.picked(elements)
            case Toggle():
                after = plan.steps[at + 1] if at + 1 < len(plan.steps) else None
                order = after.elements if isinstance(after, Rearrange) else range(len(file.even))
                file = toggled(ready, step, file, order)
            case Shuffle():
                file = file_of(_shuffle(ready, step, file), len(file.even), per_word)
            case Cross():
                file = file_of(_cross(ready, step, packed_words(ready, file)), len(file.even), per_word)
            case Turn():
                turned = [
                    ready.text.into("b32", "movmatrix.sync.aligned.m8n8.trans.b16", word)
                    for word in packed_words(ready, file)
                ]
                file = file_of(turned, len(file.even), per_word)
            case Stage():
                file = _trip(ready, step, file)
            case Store():
                _store(ready, step.access, file)
                file = File(())
            case Load():
                parts = _loaded(ready, step.access)
                file = File(tuple(parts[each] for each in range(step.elements)))
    return packed_words(ready, file)


# ---------------------------------------------------------------- between lanes


def _shuffle(ready: Ready, step: Shuffle, file: File) -> list[str]:
    text = ready.text
    found: list[str] = []
    for given, constant in zip(packed_words(ready, file), step.constants, strict=True):
        if not step.is_exclusive_or:
            origin = linear_register(ready, (*step.lanes, *step.warps), constant)
            found.append(text.into("b32", "shfl.sync.idx.b32", given, origin, 31, -1))
        elif constant:
            found.append(text.into("b32", "shfl.sync.bfly.b32", given, constant, 31, -1))
        else:
            found.append(given)
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
        kept = [byte for byte in range(WORD_BYTES) if byte // width % 2 == own]
        sent = [byte for byte in range(WORD_BYTES) if byte // width % 2 != own]
        given.append(selection([*sent, *(byte + WORD_BYTES for byte in sent)]))
        for found, start in ((first, 0), (second, len(sent))):
            places = {byte: WORD_BYTES + start + rank for rank, byte in enumerate(sent)}
            found.append(selection([places.get(byte, byte) for byte in range(WORD_BYTES)]))
        others = {byte: WORD_BYTES + kept[rank] for rank, byte in enumerate(sent)}
        alone.append(selection([others.get(byte, byte) for byte in range(WORD_BYTES)]))
    return {
        "given": (given[0], given[1]),
        "first": (first[0], first[1]),
        "second": (second[0], second[1]),
        "alone": (alone[0], alone[1]),
    }


def _cross(ready: Ready, step: Cross, words: list[str]) -> list[str]:
    text = ready.text
    selectors = {
        name: selector_register(ready, (1 << step.lane_bit, 0), *each)
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


def _place(ready: Ready, access: Access, constant: int) -> str:
    """Operand of an access. Bits of the constant that no thread's address has are added by the instruction."""
    images = (*access.lane_bytes, *access.warp_bytes)
    varying = 0
    for image in images:
        varying |= image
    register, added = address_register(ready, images, constant & varying), constant & ~varying
    return f"[{register}+{added}]" if added else f"[{register}]"


def _trip(ready: Ready, step: Stage, file: File) -> File:
    found: list[Part] = [("", 0)] * step.elements
    for store, load in step.parts:
        _store(ready, store, file)
        if step.scope == "warp":
            ready.text.emit("bar.warp.sync", -1)
        else:
            ready.text.emit("bar.sync", 0)
        for element, part in _loaded(ready, load).items():
            found[element] = part
    return File(tuple(found))


def _store(ready: Ready, access: Access, file: File) -> None:
    text, width = ready.text, ready.plan.element_bytes
    guard = active_predicate(ready, access.lane_active | access.warp_active << LANE_BITS)
    for moved, constant in zip(access.elements, access.constants, strict=True):
        address = _place(ready, access, constant)
        parts = file.picked(moved)
        size = len(moved) * width
        if size < WORD_BYTES:
            text.emit(f"st.shared.b{8 * size}", address, _low(ready, parts), guard=guard)
            continue
        words = packed_words(ready, parts)
        if access.form == "vector":
            text.emit(f"st.shared{_vector(len(words))}.b32", address, _group(words), guard=guard)
        else:
            turned = ".trans" if access.form == "transposed matrix" else ""
            opcode = f"stmatrix.sync.aligned.m8n8.{_MATRIX_COUNTS[len(words)]}{turned}.shared.b16"
            # No lane of a warp that takes part stands aside, so that the guard is the same in all of them.
            text.emit(opcode, address, braces(words), guard=guard)


def _low(ready: Ready, file: File) -> str:
    """A register with the elements in its low bytes; what its others hold does not matter."""
    register, byte = file.even[0]
    width = ready.plan.element_bytes
    if file.odd is not None or any(part != (register, byte + at * width) for at, part in enumerate(file.even)):
        return packed_word(ready, file)
    return ready.text.into("b32", "shr.u32", register, 8 * byte) if byte else register


def _loaded(ready: Ready, access: Access) -> dict[int, Part]:
    """Where the elements that an access loads are then."""
    text, width = ready.text, ready.plan.element_bytes
    file: dict[int, Part] = {}
    for moved, constant in zip(access.elements, access.constants, strict=True):
        address = _place(ready, access, constant)
        size = len(moved) * width
        words = [text.register("b32") for _ in range(max(1, size // WORD_BYTES))]
        if size < WORD_BYTES:
            text.emit(f"ld.shared.u{8 * size}", words[0], address)
        elif access.form == "vector":
            text.emit(f"ld.shared{_vector(len(words))}.b32", _group(words), address)
        else:
            turned = ".trans" if access.form == "transposed matrix" else ""
            opcode = f"ldmatrix.sync.aligned.m8n8.{_MATRIX_COUNTS[len(words)]}{turned}.shared.b16"
            text.emit(opcode, braces(words), address)
        for at, element in enumerate(moved):
            file[element] = (words[at * width // WORD_BYTES], at * width % WORD_BYTES)
    return file


def _vector(words: int) -> str:
    return "" if words == 1 else f".v{words}"


def _group(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else braces(words)
