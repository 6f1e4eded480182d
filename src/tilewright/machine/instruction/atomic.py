"""Atomics and fences.

Atomics of one warp instruction happen lane by lane, lowest first. Fences yield events only, since warps interleave at
instructions. Source: PTX ISA, `atom`, `red`, `membar`, `fence`, `fence.proxy`. Not handled: 128-bit, vector and packed
atomics; one-way proxy fences. Checked by: tests/machine/test_memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine import arithmetic
from tilewright.machine.decoder import Decoder, Modifiers, TypeName, expect_operands, unsupported
from tilewright.machine.event import MemoryFence, ProxyFence
from tilewright.machine.instruction.memory_access import ORDERS, SCOPES, Place, report_access, space_of
from tilewright.machine.lanes import FULL, UNINITIALISED, Registers, poison, to_bits
from tilewright.machine.state import Warp
from tilewright.machine.step import Plain, nothing

IntegerAtomic = Callable[[int, int, int], int]
"""(what memory holds, operand b, operand c of `cas`) to what it holds next, as unbounded integers."""

_ATOMIC_INTEGER: dict[str, IntegerAtomic] = {
    "add": lambda old, b, _c: old + b,
    "and": lambda old, b, _c: old & b,
    "or": lambda old, b, _c: old | b,
    "xor": lambda old, b, _c: old ^ b,
    "exch": lambda _old, b, _c: b,
    "min": lambda old, b, _c: min(old, b),
    "max": lambda old, b, _c: max(old, b),
    "inc": lambda old, b, _c: 0 if old >= b else old + 1,
    "dec": lambda old, b, _c: b if old == 0 or old > b else old - 1,
    "cas": lambda old, b, c: c if old == b else old,
}


def _atomic_function(instruction: Instruction, operation: str, element: TypeName) -> IntegerAtomic:
    if element.is_float:
        kind: Any = element.name
        if kind not in ("f16", "bf16", "f32", "f64") or operation != "add":
            raise unsupported(instruction, f"atomic {operation} of .{element.name}")
        dtype = element.raw
        return lambda old, b, _c: int(arithmetic.add(kind, np.array([old], dtype), np.array([b], dtype))[0])
    return _ATOMIC_INTEGER[operation]


def _atomic(returns: bool) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        modifiers.take(*ORDERS)
        operation = modifiers.take(*_ATOMIC_INTEGER)
        modifiers.take(*SCOPES)
        space = space_of(instruction, modifiers)
        modifiers.take(*SCOPES)
        operation = operation or modifiers.take(*_ATOMIC_INTEGER)
        modifiers.flag("noftz")
        element = modifiers.take_type()
        if operation is None or element.width_bits not in (16, 32, 64) or element.name.endswith("x2"):
            raise unsupported(instruction, "only scalar 16-, 32- and 64-bit atomics")
        function = _atomic_function(instruction, operation, element)
        operands = list(instruction.operands)
        target = decoder.destination(instruction, operands.pop(0), element) if returns else -1
        expected = 3 if operation == "cas" else 2
        if len(operands) != expected:
            raise unsupported(instruction, f"it has {len(instruction.operands)} operands")
        slot, offset = decoder.address(instruction, operands[0])
        values = [decoder.source(instruction, operand, element) for operand in operands[1:]]
        place = Place(decoder, instruction, space, slot, offset, element, 1, True)
        bits, dtype = element.width_bits, element.raw
        signed = element.is_signed

        def read(value: Any) -> int:
            number = int(value)
            return number - (1 << bits) if signed and number >> (bits - 1) else number

        def masked(r: Registers, mask: int) -> None:
            warp: Warp = r[0]
            before = np.array(poison(dtype) if target < 0 or r[target] is UNINITIALISED else r[target])
            for region, offsets, lanes in place.careful(r, mask):
                words = region.words[place.element_bytes]
                for offset_bytes, lane in zip(offsets, lanes, strict=True):
                    at = int(offset_bytes) // place.element_bytes
                    old = words[at]
                    b = read(r[values[0]][lane])
                    c = read(r[values[1]][lane]) if len(values) > 1 else 0
                    words[at] = dtype.type(function(read(old), b, c) & ((1 << bits) - 1))
                    before[lane] = old
                report_access(warp, region, offsets, place.element_bytes, True, place.span, True, mask)
            if target >= 0:
                r[target] = before

        return Plain(lambda r: masked(r, FULL), masked)

    return handler


def _fence(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    initial = instruction.row == "fence.mbarrier_init"
    modifiers.take("sc", "acq_rel", "acquire", "release")
    scope = modifiers.take("cta", "cluster", "gpu", "sys", "gl") or "cta"
    expect_operands(instruction, 0)
    observe = decoder.observe
    if observe is None:
        return nothing()
    watch = observe
    kind: Literal["fence", "mbarrier_init"] = "mbarrier_init" if initial else "fence"

    def masked(r: Registers, _mask: int) -> None:
        watch(MemoryFence(r[0].actor, kind, "gpu" if scope == "gl" else scope, instruction.span))

    return Plain(lambda r: masked(r, FULL), masked)


def _fence_proxy(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    space = modifiers.take("global", "shared::cta", "shared::cluster")
    expect_operands(instruction, 0)
    observe = decoder.observe
    if observe is None or instruction.row == "fence.proxy.alias":
        return nothing()
    watch = observe
    covered: Literal["all", "shared", "global"] = "all"
    if space is not None:
        covered = "global" if space == "global" else "shared"

    def masked(r: Registers, mask: int) -> None:
        watch(ProxyFence(r[0].actor, covered, instruction.span, to_bits(mask)))

    return Plain(lambda r: masked(r, FULL), masked)


HANDLERS = {
    "atom": _atomic(True),
    "red": _atomic(False),
    "membar": _fence,
    "fence": _fence,
    "fence.mbarrier_init": _fence,
    "fence.proxy.async": _fence_proxy,
    "fence.proxy.alias": _fence_proxy,
}
