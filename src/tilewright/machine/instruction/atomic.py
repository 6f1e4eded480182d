"""Atomics.

Atomics of one warp instruction happen lane by lane, lowest first; the elements of a vector, and the halves of a packed
element, are separate atomics. Where the text names no order or scope, `.relaxed` and `.gpu` hold. Source: PTX ISA,
`atom`, `red`. Not handled: that f32 additions in global memory may flush subnormals. Checked by:
tests/machine/test_memory.py, test_atomic.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine import arithmetic
from tilewright.machine.decoder import Decoder, Modifiers, TypeName, unsupported
from tilewright.machine.event import MemoryOrder
from tilewright.machine.instruction.memory_access import ORDERS, SCOPES, Place, Strength, report_access, space_of
from tilewright.machine.lanes import FULL, UNINITIALISED, Registers, of_lanes, poison
from tilewright.machine.state import Warp
from tilewright.machine.step import Plain

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
_ATOMIC_FLOAT: dict[str, Callable[..., Any]] = {
    "add": arithmetic.add,
    "min": arithmetic.minimum,
    "max": arithmetic.maximum,
}
_CACHE = ("L1::evict_normal", "L1::evict_first", "L1::evict_last", "L1::no_allocate")


def _function(instruction: Instruction, operation: str, element: TypeName) -> IntegerAtomic:
    """What becomes of an element's bits, as an unsigned integer."""
    bits = element.width_bits
    whole = (1 << bits) - 1
    if element.is_float and operation not in ("exch", "cas"):
        name = element.name.removesuffix("x2")
        function = _ATOMIC_FLOAT.get(operation)
        if function is None or name not in ("f16", "bf16", "f32", "f64"):
            raise unsupported(instruction, f"atomic {operation} of .{element.name}")
        kind: Any = name
        dtype = np.dtype(np.uint16) if element.name.endswith("x2") else element.raw

        def float_function(old: int, b: int, _c: int) -> int:
            pair = [np.frombuffer(value.to_bytes(bits // 8, "little"), dtype) for value in (old, b)]
            return int.from_bytes(np.ascontiguousarray(function(kind, *pair)).tobytes(), "little")

        return float_function
    plain = _ATOMIC_INTEGER[operation]
    if not element.is_signed:
        return lambda old, b, c: plain(old, b, c) & whole

    def signed(value: int) -> int:
        return value - (1 << bits) if value >> (bits - 1) else value

    return lambda old, b, c: plain(signed(old), signed(b), signed(c)) & whole


def _strength(modifiers: Modifiers) -> Strength:
    order = modifiers.take(*ORDERS) or "relaxed"
    return Strength(cast("MemoryOrder", order), modifiers.take(*SCOPES) or "gpu")


def _number(values: Any, lane: int) -> int:
    return int.from_bytes(values[lane].tobytes(), "little")


def _atomic(returns: bool) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        strength = _strength(modifiers)
        space = space_of(instruction, modifiers)
        modifiers.take(*_CACHE)
        hint = modifiers.flag("L2::cache_hint")
        count = {None: 1, "v2": 2, "v4": 4, "v8": 8}[modifiers.take("v2", "v4", "v8")]
        operation = modifiers.take(*_ATOMIC_INTEGER)
        modifiers.flag("noftz")
        element = modifiers.take_type()
        if operation is None or element.width_bits not in (16, 32, 64, 128):
            raise unsupported(instruction, f"atomics on .{element.name}")
        function = _function(instruction, operation, element)
        operands = list(instruction.operands)
        targets: tuple[int, ...] = ()
        if returns:
            items = decoder.vector(operands.pop(0))
            targets = tuple(decoder.destination(instruction, item, element) for item in items)
        if hint:
            operands.pop()
        if len(operands) != (3 if operation == "cas" else 2):
            raise unsupported(instruction, f"it has {len(instruction.operands)} operands")
        slot, offset = decoder.address(instruction, operands[0])
        values = [
            tuple(decoder.source(instruction, item, element) for item in decoder.vector(operand))
            for operand in operands[1:]
        ]
        if any(len(items) != count for items in (*values, *([targets] if returns else []))):
            raise unsupported(instruction, f"vectors that are not of {count} elements")
        place = Place(decoder, instruction, space, slot, offset, element, count, strength)
        dtype, size = element.raw, element.bytes

        def masked(r: Registers, mask: int) -> None:
            warp: Warp = r[0]
            before = [np.array(poison(dtype) if _unset(r[target], dtype) else r[target]) for target in targets]
            for region, offsets, lanes in place.careful(r, mask):
                words = region.words[size]
                for index in range(count):
                    places = (offsets // size + index).tolist()
                    first = r[values[0][index]]
                    second = r[values[1][index]] if len(values) > 1 else first
                    for at, lane in zip(places, lanes.tolist(), strict=True):
                        old = words[at : at + 1].copy()
                        new = function(_number(old, 0), _number(first, lane), _number(second, lane))
                        words[at] = np.frombuffer(new.to_bytes(size, "little"), dtype)[0]
                        if returns:
                            before[index][lane] = old[0]
                report_access(
                    warp, region, offsets, place.size_bytes, True, place.span, strength, of_lanes(lanes, mask),
                    modifies=True,
                )  # fmt: skip
            for target, value in zip(targets, before, strict=True):
                r[target] = value

        return Plain(lambda r: masked(r, FULL), masked)

    return handler


def _unset(value: Any, dtype: np.dtype[Any]) -> bool:
    return value is UNINITIALISED or value.dtype != dtype


HANDLERS = {"atom": _atomic(True), "red": _atomic(False)}
