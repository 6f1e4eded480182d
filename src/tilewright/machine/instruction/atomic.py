"""Atomics.

Atomics of one warp instruction happen lane by lane, lowest first; the elements of a vector, and the halves of a packed
element, are separate atomics. Where the text names no order or scope, `.relaxed` and `.gpu` hold. Source: PTX ISA,
`atom`, `red`. Not handled: that f32 additions in global memory may flush subnormals. Checked by:
tests/machine/core/test_memory.py, test_atomic.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import Decoder, Modifiers, TypeName, unsupported
from tilewright.machine.core.distinct import distinct
from tilewright.machine.core.event import MemoryOrder
from tilewright.machine.core.lanes import FULL, UNINITIALISED, Lanes, Registers, of_lanes, poison
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Plain
from tilewright.machine.instruction.access_form import CACHE_WORDS, ORDERS, SCOPES, Strength, space_of
from tilewright.machine.instruction.memory_access import Place, report_access
from tilewright.machine.numbers import arithmetic

Combine = Callable[[Lanes, Lanes, Lanes], Lanes]
"""(what memory holds, operand b, operand c of `cas`) to what it holds next, bits of each lane."""


def _incremented(old: Lanes, b: Lanes) -> Lanes:
    return np.where(old >= b, 0, old + 1)


def _decremented(old: Lanes, b: Lanes) -> Lanes:
    return np.where((old == 0) | (old > b), b, old - 1)


_INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "inc": _incremented,
    "dec": _decremented,
}
_FLOAT: dict[str, Callable[..., Any]] = {
    "add": arithmetic.add,
    "min": arithmetic.minimum,
    "max": arithmetic.maximum,
}
_OPERATIONS = (*_INTEGER, "exch", "cas")


def _combine(instruction: Instruction, operation: str, element: TypeName) -> Combine:
    """What becomes of an element's bits."""
    if operation == "exch":
        return lambda _old, b, _c: b
    if operation == "cas":
        return lambda old, b, c: np.where(_same(old, b), c, old)
    if element.is_float:
        name = element.name.removesuffix("x2")
        function = _FLOAT.get(operation)
        if function is None or name not in ("f16", "bf16", "f32", "f64"):
            raise unsupported(instruction, f"atomic {operation} of .{element.name}")
        kind: Any = name
        half = np.dtype(np.uint16) if element.name.endswith("x2") else element.raw
        return lambda old, b, _c: np.ascontiguousarray(function(kind, old.view(half), b.view(half))).view(element.raw)
    if element.width_bits == 128:
        raise unsupported(instruction, f"atomic {operation} of 128 bits")
    plain, view, raw = _INTEGER[operation], element.view, element.raw
    return lambda old, b, _c: plain(old.view(view), b.view(view)).astype(view, copy=False).view(raw)


def _same(old: Lanes, b: Lanes) -> Lanes:
    """Lanes whose bits agree, whatever their width."""
    width = old.dtype.itemsize
    pairs = (np.ascontiguousarray(each).view(np.uint8).reshape(-1, width) for each in (old, b))
    left, right = pairs
    return (left == right).all(1)


def _turns(places: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Indices of `places` in rounds, such that no place comes twice in a round and earlier indices come first."""
    if distinct(places).size == places.size:
        return [np.arange(places.size)]
    seen: dict[int, int] = {}
    turns: list[list[int]] = []
    for index, place in enumerate(places.tolist()):
        turn = seen.get(place, 0)
        seen[place] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(index)
    return [np.array(turn) for turn in turns]


def _strength(modifiers: Modifiers) -> Strength:
    order = modifiers.take(*ORDERS) or "relaxed"
    return Strength(cast("MemoryOrder", order), modifiers.take(*SCOPES) or "gpu")


def _atomic(returns: bool) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        strength = _strength(modifiers)
        space = space_of(instruction, modifiers)
        modifiers.take(*CACHE_WORDS)
        hint = modifiers.flag("L2::cache_hint")
        count = {None: 1, "v2": 2, "v4": 4, "v8": 8}[modifiers.take("v2", "v4", "v8")]
        operation = modifiers.take(*_OPERATIONS)
        modifiers.flag("noftz")
        element = modifiers.take_type()
        if operation is None or element.width_bits not in (16, 32, 64, 128):
            raise unsupported(instruction, f"atomics on .{element.name}")
        combine = _combine(instruction, operation, element)
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
        dtype, size, swaps = element.raw, element.bytes, operation == "cas"

        def masked(r: Registers, mask: int) -> None:
            warp: Warp = r[0]
            before = [np.array(poison(dtype) if _unset(r[target], dtype) else r[target]) for target in targets]
            for region, offsets, lanes in place.careful(r, mask):
                words = region.words[size]
                told: list[tuple[int, int, int]] = []
                for turn in _turns(offsets):
                    here = lanes[turn]
                    for index in range(count):
                        places = offsets[turn] // size + index
                        old = words[places]
                        first = r[values[0][index]][here]
                        words[places] = combine(old, first, r[values[1][index]][here] if swaps else first)
                        if place.tells_words:
                            told.extend(zip(offsets[turn].tolist(), old.tolist(), words[places].tolist(), strict=True))
                        if returns:
                            before[index][here] = old
                report_access(
                    warp, region, offsets, place.size_bytes, True, place.span, strength, of_lanes(lanes, mask),
                    modifies=True, words=told,
                )  # fmt: skip
            for target, value in zip(targets, before, strict=True):
                r[target] = value

        return Plain(lambda r: masked(r, FULL), masked)

    return handler


def _unset(value: Any, dtype: np.dtype[Any]) -> bool:
    return value is UNINITIALISED or value.dtype != dtype


HANDLERS = {"atom": _atomic(True), "red": _atomic(False)}
