"""How an accumulator's columns reach a staging slot by the plan of an exchange (`synth.store.staged_store`).

The plan has one step, stores, whose elements are the fragment's values: those of the chunk's columns, 64 rows after the
other. Values are computed where an instruction takes them, a word at a time, so that accumulators are freed as they are
used. The address of an instruction is linear in lane and warp, exclusive-or a constant; bits of the constant that no
thread's address has are added by the instruction.

Not handled: plans with moves between threads, of which there are none to given memory. Checked by:
tests/lower/test_staged_store.py, and for every program by `driver.reproof.address_proof`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.ir.exchange import Access, ExchangePlan, Store
from tilewright.lower.exchange.words import WORD_BYTES, braces, linear_bytes
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.numbers.float8 import narrow, narrow_pair

_MATRIX_COUNTS = {1: "x1", 2: "x2", 4: "x4"}


@dataclass(frozen=True, slots=True)
class Staged:
    """What is staged. element: name of the stored element; value: emits and returns the float32 register of one of the
    plan's elements; pair: the register with two of 16 bits, from this even one on, where they are rounded already."""

    text: Text
    element: str
    value: Callable[[int], str]
    pair: Callable[[int], str] | None = None


def stage_by_plan(staged: Staged, plan: ExchangePlan, origin: str, thread: str) -> None:
    """Every element of the plan into memory. origin: register with the slot's address, a multiple of the swizzle's
    pattern; thread: register, number in the warpgroup."""
    (step,) = plan.steps
    assert isinstance(step, Store), "a plan to given memory stores, and nothing else"
    access, text = step.access, staged.text
    images = (*access.lane_bytes, *access.warp_bytes)
    varying = 0
    for image in images:
        varying |= image
    base = linear_bytes(text, thread, images)
    place, before = "", -1
    for elements, constant in zip(access.elements, access.constants, strict=True):
        turned, added = constant & varying, constant & ~varying
        if turned != before:
            offset = text.into("b32", "xor.b32", base, turned) if turned else base
            place, before = text.into("b32", "add.u32", origin, offset), turned
        _store(staged, access, f"[{place}+{added}]" if added else f"[{place}]", elements, plan.element_bytes)


def _store(staged: Staged, access: Access, place: str, elements: tuple[int, ...], element_bytes: int) -> None:
    text = staged.text
    per_word = WORD_BYTES // element_bytes
    if len(elements) < per_word:
        _store_part(staged, place, elements, element_bytes)
        return
    words = [_word(staged, elements[at : at + per_word]) for at in range(0, len(elements), per_word)]
    if access.form == "vector":
        kind = "f32" if element_bytes == WORD_BYTES else "b32"
        vector = "" if len(words) == 1 else f".v{len(words)}"
        text.emit(f"st.shared{vector}.{kind}", place, words[0] if len(words) == 1 else braces(words))
        return
    if element_bytes == WORD_BYTES:
        words = [text.into("b32", "mov.b32", word) for word in words]
    turned = ".trans" if access.form == "transposed matrix" else ""
    opcode = f"stmatrix.sync.aligned.m8n8.{_MATRIX_COUNTS[len(words)]}{turned}.shared.b16"
    text.emit(opcode, place, braces(words))


def _word(staged: Staged, elements: tuple[int, ...]) -> str:
    """A register with these elements, the first in its lowest bits; of 32 bits as a float."""
    text, element = staged.text, staged.element
    first = elements[0]
    if staged.pair is not None and elements == (first, first + 1) and first % 2 == 0:
        return staged.pair(first)
    values = [staged.value(each) for each in elements]
    match len(values):
        case 1:
            return values[0]
        case 2:
            return text.into("b32", f"cvt.rn.{element}x2.f32", values[1], values[0])
        case _:
            halves = [narrow_pair(text, element, values[at], values[at + 1]) for at in (0, 2)]
            return text.into("b32", "mov.b32", braces(halves))


def _store_part(staged: Staged, place: str, elements: tuple[int, ...], element_bytes: int) -> None:
    """Less than a word."""
    text, element = staged.text, staged.element
    values = [staged.value(each) for each in elements]
    if len(values) == 2:
        text.emit("st.shared.b16", place, narrow_pair(text, element, values[0], values[1]))
    elif element_bytes == 2:
        text.emit("st.shared.b16", place, text.into("b16", f"cvt.rn.{element}.f32", values[0]))
    else:
        text.emit("st.shared.u8", place, narrow(text, element, values[0]))
