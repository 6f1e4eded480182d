"""Logic, shifts, bit fields, bit counts and byte permutations.

Shifts by the width or more give 0, or the sign. Source: PTX ISA, Logic and Shift Instructions; `bfe`, `bfi`, `popc`,
`clz`, `brev`, `bfind`, `fns`, `bmsk`, `szext`, `prmt`.
Checked by: tests/machine/instruction/test_instructions.py, test_instructions_integer.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Immediate, Instruction, PairOfPredicates
from tilewright.machine.core.decoder import (
    PREDICATE,
    WORD32,
    Decoder,
    Modifiers,
    TypeName,
    expect_operands,
    unsupported,
)
from tilewright.machine.core.lanes import Lanes, Registers, indices, merge
from tilewright.machine.core.step import LaneFunction, Plain, compute, compute_many
from tilewright.machine.instruction.arithmetic.integer import Operation, operation, refuse_float
from tilewright.machine.numbers import integer


def _logic(function: Operation, boolean: Operation, count: int) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        declared = modifiers.take_type()
        refuse_float(instruction, declared)
        return operation(decoder, instruction, declared, boolean if declared.name == "pred" else function, count)

    return handler


def _or(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """In runs for a proof it is noted where a bit is set in both operands: an address that has the bit by chance, since
    shared memory begins where it does in this run, would hide that it is set by the text as well."""
    declared = modifiers.take_type()
    refuse_float(instruction, declared)
    dropped = decoder.dropped
    if declared.name == "pred":
        return operation(decoder, instruction, declared, np.logical_or, 2)
    if dropped is None:
        return operation(decoder, instruction, declared, np.bitwise_or, 2)
    target, *operands = expect_operands(instruction, 3)
    to = decoder.destination(instruction, target, declared)
    one, other = (decoder.source(instruction, operand, declared) for operand in operands)
    overlapping, span = dropped.overlapping, instruction.span

    def full(r: Registers) -> None:
        a, b = r[one], r[other]
        if (a & b).any():
            overlapping[span] = None
        r[to] = a | b

    def masked(r: Registers, mask: int) -> None:
        a, b = r[one], r[other]
        if (a & b)[indices(mask)].any():
            overlapping[span] = None
        r[to] = merge(r[to], a | b, mask)

    return Plain(full, masked)


def _cnot(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    return operation(decoder, instruction, declared, lambda a: (a == 0).astype(declared.raw), 1)


def _lop3(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    combination = modifiers.take("and", "or")
    declared = modifiers.take_type()
    target, *operands = expect_operands(instruction, 6 if combination else 5)
    table = operands[3]
    if not isinstance(table, Immediate) or declared.width_bits != 32:
        raise unsupported(instruction, "lop3 needs .b32 and a constant table")
    value = table.value
    first = target.first if isinstance(target, PairOfPredicates) else target
    to = decoder.destination(instruction, first, declared)
    sources = tuple(decoder.source(instruction, operand, declared) for operand in operands[:3])
    rows = [index for index in range(8) if value >> index & 1]

    def look_up(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        result = np.zeros(len(a), np.uint32)
        for row in rows:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    if combination is None:
        return compute(look_up, to, sources)
    if not isinstance(target, PairOfPredicates):
        raise unsupported(instruction, "with a boolean operation it writes d|p")
    also = decoder.destination(instruction, target.second, PREDICATE)
    slot, negated = decoder.predicate(instruction, operands[4])
    join: Operation = np.logical_and if combination == "and" else np.logical_or

    def with_predicate(a: Lanes, b: Lanes, c: Lanes, q: Lanes) -> tuple[Lanes, Lanes]:
        result = look_up(a, b, c)
        return result, join(result != 0, q != negated)

    return compute_many(with_predicate, (to, also), (*sources, slot))


def _shift(left: bool) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        declared = modifiers.take_type()
        refuse_float(instruction, declared)
        width, raw, view = declared.width_bits, declared.raw, declared.view
        amount = instruction.operands[-1]
        if isinstance(amount, Immediate) and 0 <= amount.value < width:
            constant, signed_constant = raw.type(amount.value), view.type(amount.value)
            if left:
                return _shift_by(decoder, instruction, declared, lambda a: a << constant)
            if declared.is_signed:
                return _shift_by(decoder, instruction, declared, lambda a: (a.view(view) >> signed_constant).view(raw))
            return _shift_by(decoder, instruction, declared, lambda a: a >> constant)
        if left:
            return operation(decoder, instruction, declared, integer.shift_left, 2, last=WORD32)
        kind: Any = declared.name if declared.is_signed else f"u{width}"
        return operation(decoder, instruction, declared, lambda a, b: integer.shift_right(kind, a, b), 2, last=WORD32)

    return handler


def _shift_by(decoder: Decoder, instruction: Instruction, declared: TypeName, function: LaneFunction) -> Plain:
    target, value, _ = expect_operands(instruction, 3)
    to = decoder.destination(instruction, target, declared)
    return compute(function, to, (decoder.source(instruction, value, declared),))


def _funnel(left: bool) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        modifiers.take("l", "r")
        mode = modifiers.take("clamp", "wrap")
        declared = modifiers.take_type()

        def funnel(low: Lanes, high: Lanes, amount: Lanes) -> Lanes:
            if mode == "clamp":
                count = np.minimum(amount, np.uint32(32)).astype(np.uint64)
            else:
                count = (amount & np.uint32(31)).astype(np.uint64)
            whole = high.astype(np.uint64) << np.uint64(32) | low
            if left:
                # Shifting 64 bits left by up to 32 keeps the wanted high word intact.
                return ((whole << count) >> np.uint64(32)).astype(np.uint32)
            return (whole >> count).astype(np.uint32)

        return operation(decoder, instruction, declared, funnel, 3)

    return handler


def _shf(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    return _funnel("l" in modifiers.left)(decoder, instruction, modifiers)


def _bfe(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    target, value, position, length = expect_operands(instruction, 4)
    to = decoder.destination(instruction, target, declared)
    sources = (
        decoder.source(instruction, value, declared),
        decoder.source(instruction, position, WORD32),
        decoder.source(instruction, length, WORD32),
    )
    width, signed = declared.width_bits, declared.is_signed
    at, size = (decoder.static_value(source) for source in sources[1:])
    if at is not None and size is not None:
        return compute(bit_field(declared, at & 0xFF, size & 0xFF), to, sources[:1])

    def extract(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        found: list[int] = []
        for bits, at, size in zip(a.tolist(), (b & 0xFF).tolist(), (c & 0xFF).tolist(), strict=True):
            sign = (bits >> min(at + size - 1, width - 1)) & 1 if signed and size else 0
            field = bits >> at & ((1 << size) - 1)
            present = max(0, min(size, width - at))
            found.append((field | -(sign << present)) & ((1 << width) - 1))
        return np.array(found, declared.raw)

    return compute(extract, to, sources)


def bit_field(declared: TypeName, at: int, size: int) -> Callable[[Lanes], Lanes]:
    """What `bfe` gives of a position and a length that the text fixes."""
    bits, width = declared.raw.type, declared.width_bits
    present = max(0, min(size, width - at))
    inside = (1 << present) - 1
    shift, kept, above = bits(min(at, width - 1)), bits(inside), bits((1 << width) - 1 - inside)
    sign = bits(min(at + size - 1, width - 1)) if declared.is_signed and size else None

    def field(a: Lanes) -> Lanes:
        found = (a >> shift) & kept
        return found if sign is None else found | ((a >> sign) & bits(1)) * above

    return field


def _bfi(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    target, field, into, position, length = expect_operands(instruction, 5)
    to = decoder.destination(instruction, target, declared)
    sources = (
        decoder.source(instruction, field, declared),
        decoder.source(instruction, into, declared),
        decoder.source(instruction, position, WORD32),
        decoder.source(instruction, length, WORD32),
    )
    whole = (1 << declared.width_bits) - 1

    def insert(a: Lanes, b: Lanes, c: Lanes, d: Lanes) -> Lanes:
        found: list[int] = []
        for bits, under, at, size in zip(a.tolist(), b.tolist(), (c & 0xFF).tolist(), (d & 0xFF).tolist(), strict=True):
            hole = ((1 << size) - 1) << at & whole
            found.append(under & ~hole | bits << at & hole)
        return np.array(found, declared.raw)

    return compute(insert, to, sources)


def _count(name: str) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        shift_amount = modifiers.flag("shiftamt")
        declared = modifiers.take_type()
        width = declared.width_bits

        def one(value: int) -> int:
            match name:
                case "popc":
                    return value.bit_count()
                case "clz":
                    return width - value.bit_length()
                case "brev":
                    return int(f"{value:0{width}b}"[::-1], 2)
                case _:
                    if declared.is_signed and value >> (width - 1):
                        value = ~value & ((1 << width) - 1)
                    if not value:
                        return 0xFFFF_FFFF
                    top = value.bit_length() - 1
                    return width - 1 - top if shift_amount else top

        result = declared if name == "brev" else WORD32
        if name != "bfind" and shift_amount:
            raise unsupported(instruction, ".shiftamt is for bfind")

        def count(a: Lanes) -> Lanes:
            return np.array([one(value) for value in a.tolist()], result.raw)

        return operation(decoder, instruction, declared, count, 1, result=result)

    return handler


def _bmsk(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """`b` ones from bit `a` on: both clamped to 32, or both taken modulo 32."""
    mode = modifiers.take("clamp", "wrap")
    declared = modifiers.take_type()
    if mode is None:
        raise unsupported(instruction, "it needs .clamp or .wrap")

    def mask(a: Lanes, b: Lanes) -> Lanes:
        if mode == "clamp":
            at, size = np.minimum(a, np.uint32(32)), np.minimum(b, np.uint32(32))
        else:
            at, size = a & np.uint32(31), b & np.uint32(31)
        ones = (np.uint64(1) << size.astype(np.uint64)) - np.uint64(1)
        return (ones << at.astype(np.uint64)).astype(np.uint32)

    return operation(decoder, instruction, declared, mask, 2)


def _szext(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """The low `b` bits of `a`, extended by their sign or by zeros; nothing of a 0-bit field."""
    mode = modifiers.take("clamp", "wrap")
    declared = modifiers.take_type()
    if mode is None:
        raise unsupported(instruction, "it needs .clamp or .wrap")
    signed = declared.is_signed

    def extend(a: Lanes, b: Lanes) -> Lanes:
        size = np.minimum(b, np.uint32(32)) if mode == "clamp" else b & np.uint32(31)
        drop = (np.uint32(32) - size).astype(np.uint64)
        high = (a.astype(np.uint64) << drop).astype(np.uint32)
        if signed:
            return (high.view(np.int32).astype(np.int64) >> drop.view(np.int64)).astype(np.uint32)
        return (high.astype(np.uint64) >> drop).astype(np.uint32)

    return operation(decoder, instruction, declared, extend, 2)


def _fns(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """The place of the n-th set bit from `base` on, upward for positive and downward for negative n."""
    declared = modifiers.take_type()

    def find(bits: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if base < 32 and bits >> base & 1 else 0xFFFF_FFFF
        places = range(base, 32) if offset > 0 else range(min(base, 31), -1, -1)
        found = [place for place in places if bits >> place & 1]
        return found[abs(offset) - 1] if len(found) >= abs(offset) else 0xFFFF_FFFF

    def each(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        triples = zip(a.tolist(), b.tolist(), c.view(np.int32).tolist(), strict=True)
        return np.array([find(*triple) for triple in triples], np.uint32)

    return operation(decoder, instruction, declared, each, 3)


# Which of eight bytes (b's above a's) each of the four result bytes is, by the two low bits of the selector.
_PERMUTATIONS: dict[str, tuple[tuple[int, int, int, int], ...]] = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def _prmt(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    mode = modifiers.take(*_PERMUTATIONS)
    if declared.width_bits != 32:
        raise unsupported(instruction, "prmt works on 32 bits")
    chosen_bytes = None if mode is None else np.array(_PERMUTATIONS[mode], np.intp)

    def permute(low: Lanes, high: Lanes, chosen: Lanes) -> Lanes:
        pool = np.empty((len(low), 2), np.uint32)
        pool[:, 0] = low
        pool[:, 1] = high
        source_bytes = pool.view(np.uint8)
        if chosen_bytes is not None:
            picked = np.take_along_axis(source_bytes, chosen_bytes[chosen & np.uint32(3)], axis=1)
            return np.ascontiguousarray(picked).view(np.uint32)[:, 0]
        nibbles = (chosen[:, None] >> np.array([0, 4, 8, 12], np.uint32)) & np.uint32(15)
        picked = np.take_along_axis(source_bytes, (nibbles & np.uint32(7)).astype(np.intp), axis=1)
        sign = np.where(picked & np.uint8(0x80), np.uint8(0xFF), np.uint8(0))
        return np.ascontiguousarray(np.where(nibbles & np.uint32(8), sign, picked)).view(np.uint32)[:, 0]

    return operation(decoder, instruction, declared, permute, 3)


HANDLERS = {
    "and": _logic(np.bitwise_and, np.logical_and, 2),
    "or": _or,
    "xor": _logic(np.bitwise_xor, np.logical_xor, 2),
    "not": _logic(np.invert, np.logical_not, 1),
    "cnot": _cnot,
    "lop3": _lop3,
    "shl": _shift(True),
    "shr": _shift(False),
    "shf": _shf,
    "bfe": _bfe,
    "bfi": _bfi,
    "popc": _count("popc"),
    "clz": _count("clz"),
    "brev": _count("brev"),
    "bfind": _count("bfind"),
    "bmsk": _bmsk,
    "szext": _szext,
    "fns": _fns,
    "prmt": _prmt,
}
