"""How a run of elements that lie together is loaded whole, at whatever address it begins.

The aligned units of 16 bytes that cover the run are loaded and shifted into place, by the misalignment found in the
address (a funnel shift). A unit is loaded only where all of it lies inside the array; the few runs at an array's ends,
and those with elements outside its extents, are loaded element by element under a guard each.
Source: PTX ISA, ld.global (vectors are aligned to their size), shf. Checked by: tests/lower/points/test_runs.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.decisions import RUN_BYTES
from tilewright.lower.ptx.copies.global_access import ELEMENT_BYTES, constant_address
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.numbers import int8, ue8m0
from tilewright.lower.ptx.numbers.float8 import widen_bytes
from tilewright.lower.ptx.places import GlobalPlace

WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class WideLoad:
    """A run on its way: `words` hold the aligned units where `fast`; `address` is the run's own, `misalignment` its
    place in its unit. guards: per element, for the other way."""

    source: GlobalPlace
    address: str
    misalignment: str
    words: list[str]
    fast: str
    guards: list[str]


def issue_wide(
    text: Text, source: GlobalPlace, address: str, end: str, guards: list[str], length_bytes: int, policy: str = ""
) -> WideLoad:
    """Load the aligned units that cover the run, where all of them lie inside the array and no element is to be 0.
    policy: the register of a cache policy, if the units are loaded with one."""
    misalignment = text.into("b32", "and.b32", text.into("b32", "cvt.u32.u64", address), RUN_BYTES - 1)
    aligned = text.into("b64", "and.b64", address, -RUN_BYTES)
    # A run shorter than its units lies in as many more only from some place of one on.
    units_bytes = -(-length_bytes // RUN_BYTES) * RUN_BYTES
    crosses = text.into("pred", "setp.gt.u32", misalignment, units_bytes - length_bytes)
    more = text.into("b64", "selp.b64", units_bytes + RUN_BYTES, units_bytes, crosses)
    fast = text.into("pred", "setp.le.u64", text.into("b64", "add.s64", aligned, more), end)
    begins = text.into("pred", "setp.ge.u64", aligned, source.register)
    fast = text.into("pred", "and.pred", fast, begins)
    # The indices of a run are consecutive: if both its ends are inside, all of it is.
    for guard in dict.fromkeys((guards[0], guards[-1])):
        if guard:
            fast = text.into("pred", "and.pred", fast, guard)
    spills = text.into("pred", "and.pred", fast, crosses)
    words: list[str] = []
    for offset in range(0, units_bytes + RUN_BYTES, RUN_BYTES):
        unit = [text.into("b32", "mov.b32", 0) for _ in range(RUN_BYTES // WORD_BYTES)]
        guard = fast if offset < units_bytes else spills
        hint, policies = (".L2::cache_hint", [policy]) if policy else ("", [])
        registers = f"{{{', '.join(unit)}}}"
        text.emit(f"{source.load}{hint}.v4.b32", registers, f"[{aligned}+{offset}]", *policies, guard=guard)
        words += unit
    return WideLoad(source, address, misalignment, words, fast, guards)


def _shifted(text: Text, load: WideLoad, words: int) -> list[str]:
    """The run's words, shifted down by its misalignment: by 8 and 4 bytes as words, by fewer within them."""
    current = load.words
    for size_bytes in (8, 4):
        skip = size_bytes // WORD_BYTES
        bit = text.into("b32", "and.b32", load.misalignment, size_bytes)
        moves = text.into("pred", "setp.ne.u32", bit, 0)
        current = [
            text.into("b32", "selp.b32", further, word, moves)
            for word, further in zip(current, current[skip:], strict=False)
        ]
    if ELEMENT_BYTES[load.source.element] >= WORD_BYTES:
        return current[:words]
    bits = text.into("b32", "and.b32", load.misalignment, WORD_BYTES - ELEMENT_BYTES[load.source.element])
    shift = text.into("b32", "shl.b32", bits, 3)
    return [text.into("b32", "shf.r.wrap.b32", current[index], current[index + 1], shift) for index in range(words)]


def arrived(text: Text, load: WideLoad, run: int) -> list[str]:
    """The run as packed 32-bit words, whichever way it was loaded."""
    element_bytes = ELEMENT_BYTES[load.source.element]
    count = run * element_bytes // WORD_BYTES
    words = _shifted(text, load, count)
    result = [text.into("b32", "mov.b32", word) for word in words]
    join = text.label("run_loaded")
    text.emit("bra", join, guard=load.fast)
    load_singly(text, load.source, load.address, 0, result, load.guards)
    text.place(join)
    return result


def load_singly(
    text: Text, source: GlobalPlace, base: str, offset_bytes: int, words: list[str], guards: list[str]
) -> None:
    """A run's elements one by one, each where its guard holds and 0 elsewhere, packed into words."""
    element_bytes = ELEMENT_BYTES[source.element]
    singles: list[str] = []
    for number, guard in enumerate(guards):
        kind = "b32" if element_bytes == 4 else "b16"
        single = text.into(kind, f"mov.{kind}", 0)
        address = constant_address(text, base, offset_bytes + number * element_bytes)
        text.emit(f"{source.load}.{'u8' if element_bytes == 1 else kind}", single, address, guard=guard)
        singles.append(single)
    if element_bytes == 1:
        pairs = zip(singles[::2], singles[1::2], strict=True)
        singles = [text.into("b16", "or.b16", low, text.into("b16", "shl.b16", high, 8)) for low, high in pairs]
    for index, word in enumerate(words):
        if element_bytes <= 2:
            text.emit("mov.b32", word, f"{{{singles[2 * index]}, {singles[2 * index + 1]}}}")
        else:
            text.emit("mov.b32", word, singles[index])


def widened(text: Text, element: str, words: list[str]) -> list[str]:
    """Packed elements as float32 registers."""
    match element:
        case "f32":
            return [text.into("f32", "mov.b32", word) for word in words]
        case "i32":
            return [text.into("f32", "cvt.rn.f32.s32", word) for word in words]
        case "bf16":
            result: list[str] = []
            for word in words:
                result.append(text.into("f32", "mov.b32", text.into("b32", "shl.b32", word, 16)))
                result.append(text.into("f32", "mov.b32", text.into("b32", "and.b32", word, 0xFFFF0000)))
            return result
        case "i8":
            return [value for word in words for value in int8.widen_bytes(text, word)]
        case "ue4m3":
            positive = [text.into("b32", "and.b32", word, 0x7F7F_7F7F) for word in words]
            return [value for word in positive for value in widen_bytes(text, "f8e4m3", word)]
        case "ue8m0":
            return [value for word in words for value in ue8m0.widen_bytes(text, word)]
        case "f8e4m3" | "f8e5m2":
            return [value for word in words for value in widen_bytes(text, element, word)]
        case _:
            result = []
            for word in words:
                low, high = text.register("b16"), text.register("b16")
                text.emit("mov.b32", f"{{{low}, {high}}}", word)
                result += [text.into("f32", "cvt.f32.f16", low), text.into("f32", "cvt.f32.f16", high)]
            return result
