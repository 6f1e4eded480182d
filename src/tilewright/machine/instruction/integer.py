"""Integer arithmetic, logic, shifts and comparisons, lane by lane.

Arithmetic wraps modulo the width; shifts by the width or more give 0 (or the sign); division by zero gives all ones
and the remainder the dividend, as hardware does where the ISA leaves it open. Source: PTX ISA, Integer Arithmetic
Instructions; Logic and Shift Instructions; `setp`, `set`. Not handled: carry chains (`addc`, `subc`, `madc`), `dp4a`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Instruction, PairOfPredicates
from tilewright.machine import arithmetic
from tilewright.machine.decoder import (
    PREDICATE,
    WORD32,
    Decoder,
    Modifiers,
    TypeName,
    expect_operands,
    unsupported,
)
from tilewright.machine.instruction import floating
from tilewright.machine.lanes import WARP_SIZE, Lanes
from tilewright.machine.step import LaneFunction, Plain, compute, compute_many

Operation = Callable[..., Any]


def _operation(
    decoder: Decoder,
    instruction: Instruction,
    declared: TypeName,
    lane_function: LaneFunction,
    count: int,
    *,
    view: bool = False,
    last: TypeName | None = None,
    result: TypeName | None = None,
) -> Plain:
    """Bind `lane_function` to `count` sources. view: it gets and yields signed lanes where the type is signed."""
    function: Operation = lane_function
    target, *operands = expect_operands(instruction, count + 1)
    to = decoder.destination(instruction, target, result or declared)
    types = [declared] * count
    if last is not None:
        types[-1] = last
    sources = tuple(decoder.source(instruction, operand, each) for operand, each in zip(operands, types, strict=True))
    if view and declared.is_signed:
        signed, raw = declared.view, (result or declared).raw
        inner = function

        def through(*lanes: Lanes) -> Lanes:
            return inner(*[item.view(signed) for item in lanes]).view(raw)

        function = through
    return compute(function, to, sources)


def _refuse_float(instruction: Instruction, declared: TypeName) -> None:
    if declared.is_float or declared.name in ("u16x2", "s16x2"):
        raise unsupported(instruction, f"type .{declared.name} is not implemented here")


def _saturated(function: Operation, width: int) -> Operation:
    """Signed 32-bit addition or subtraction clamped to the type (`.sat`)."""
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1

    def clamp(a: Lanes, b: Lanes) -> Lanes:
        wide = function(a.view(np.int32).astype(np.int64), b.view(np.int32).astype(np.int64))
        return np.clip(wide, low, high).astype(np.int32).view(np.uint32)

    return clamp


def _add_like(name: str, function: Operation) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        if floating.is_floating(modifiers):
            return floating.binary(decoder, instruction, modifiers, name)
        saturate = modifiers.flag("sat")
        declared = modifiers.take_type()
        _refuse_float(instruction, declared)
        if saturate and declared.name != "s32":
            raise unsupported(instruction, ".sat is for .s32")
        chosen = _saturated(function, 32) if saturate else function
        return _operation(decoder, instruction, declared, chosen, 2)

    return handler


def _multiply_high(declared: TypeName) -> Operation:
    if declared.width_bits < 64:
        wide = np.dtype(np.int64 if declared.is_signed else np.uint64)
        view, shift = declared.view, wide.type(declared.width_bits)

        def high(a: Lanes, b: Lanes) -> Lanes:
            product = a.view(view).astype(wide) * b.view(view).astype(wide)
            return (product >> shift).astype(declared.raw)

        return high

    def high_64(a: Lanes, b: Lanes) -> Lanes:
        left, right = a.view(declared.view), b.view(declared.view)
        products = [int(x) * int(y) >> 64 & 0xFFFF_FFFF_FFFF_FFFF for x, y in zip(left, right, strict=True)]
        return np.array(products, np.uint64)

    return high_64


def _multiply_wide(declared: TypeName) -> tuple[Operation, TypeName]:
    wide = TypeName(("s" if declared.is_signed else "u") + str(declared.width_bits * 2), declared.width_bits * 2)
    view, target, raw = declared.view, wide.view, wide.raw

    def product(a: Lanes, b: Lanes) -> Lanes:
        return (a.view(view).astype(target) * b.view(view).astype(target)).view(raw)

    return product, wide


def _low_half_24(declared: TypeName) -> Operation:
    shift = np.uint32(8)
    wide = np.int64 if declared.is_signed else np.uint64

    def product(a: Lanes, b: Lanes) -> Lanes:
        left = ((a << shift).view(declared.view) >> declared.view.type(8)).astype(wide)
        right = ((b << shift).view(declared.view) >> declared.view.type(8)).astype(wide)
        return (left * right).astype(np.uint32)

    return product


def _mul(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if floating.is_floating(modifiers):
        return floating.binary(decoder, instruction, modifiers, "mul")
    mode = modifiers.take("lo", "hi", "wide")
    declared = modifiers.take_type()
    _refuse_float(instruction, declared)
    match mode:
        case "lo":
            return _operation(decoder, instruction, declared, np.multiply, 2)
        case "hi":
            return _operation(decoder, instruction, declared, _multiply_high(declared), 2)
        case "wide" if declared.width_bits < 64:
            function, wide = _multiply_wide(declared)
            return _operation(decoder, instruction, declared, function, 2, result=wide)
        case _:
            raise unsupported(instruction, "mul needs .lo, .hi or .wide")


def _mad(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if floating.is_floating(modifiers):
        return floating.fused(decoder, instruction, modifiers)
    mode = modifiers.take("lo", "hi", "wide")
    declared = modifiers.take_type()
    _refuse_float(instruction, declared)
    match mode:
        case "lo":
            return _operation(decoder, instruction, declared, lambda a, b, c: a * b + c, 3)
        case "hi":
            high = _multiply_high(declared)
            return _operation(decoder, instruction, declared, lambda a, b, c: high(a, b) + c, 3)
        case "wide" if declared.width_bits < 64:
            product, wide = _multiply_wide(declared)
            return _operation(
                decoder, instruction, declared, lambda a, b, c: product(a, b) + c, 3, last=wide, result=wide
            )
        case _:
            raise unsupported(instruction, "mad needs .lo, .hi or .wide")


def _mul24(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if not modifiers.flag("lo"):
        raise unsupported(instruction, "only mul24.lo")
    declared = modifiers.take_type()
    return _operation(decoder, instruction, declared, _low_half_24(declared), 2)


def _mad24(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if not modifiers.flag("lo"):
        raise unsupported(instruction, "only mad24.lo")
    declared = modifiers.take_type()
    product = _low_half_24(declared)
    return _operation(decoder, instruction, declared, lambda a, b, c: product(a, b) + c, 3)


def divide(a: Lanes, b: Lanes) -> Lanes:
    """Quotient truncated toward zero; all ones where the divisor is 0."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    with np.errstate(over="ignore"):
        if a.dtype.kind == "u":
            quotient = a // safe
        else:
            quotient = a // safe
            inexact = (a - quotient * safe) != 0
            quotient = quotient + (inexact & (quotient < 0)).astype(a.dtype)
    return np.where(zero, ~np.zeros_like(a), quotient)


def remainder(a: Lanes, b: Lanes) -> Lanes:
    """a - divide(a, b) * b, with the dividend's sign; the dividend where the divisor is 0."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    with np.errstate(over="ignore"):
        return np.where(zero, a, a - divide(a, safe) * safe)


def _div(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if floating.is_floating(modifiers):
        return floating.division(decoder, instruction, modifiers)
    declared = modifiers.take_type()
    return _operation(decoder, instruction, declared, divide, 2, view=True)


def _rem(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    _refuse_float(instruction, declared)
    return _operation(decoder, instruction, declared, remainder, 2, view=True)


def _extremum(name: str, function: Operation) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        if floating.is_floating(modifiers):
            return floating.extremum(decoder, instruction, modifiers, name)
        declared = modifiers.take_type()
        if declared.name in ("u16x2", "s16x2"):
            half = np.dtype(np.int16 if declared.is_signed else np.uint16)
            return _operation(
                decoder, instruction, declared, lambda a, b: function(a.view(half), b.view(half)).view(np.uint32), 2
            )
        return _operation(decoder, instruction, declared, function, 2, view=True)

    return handler


def _neg(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if floating.is_floating(modifiers):
        return floating.sign_operation(decoder, instruction, modifiers, "neg")
    declared = modifiers.take_type()
    zero = declared.raw.type(0)
    return _operation(decoder, instruction, declared, lambda a: zero - a, 1)


def _abs(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    if floating.is_floating(modifiers):
        return floating.sign_operation(decoder, instruction, modifiers, "abs")
    declared = modifiers.take_type()
    return _operation(decoder, instruction, declared, np.abs, 1, view=True)


def _logic(function: Operation, boolean: Operation, count: int) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        declared = modifiers.take_type()
        _refuse_float(instruction, declared)
        return _operation(decoder, instruction, declared, boolean if declared.name == "pred" else function, count)

    return handler


def _cnot(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    return _operation(decoder, instruction, declared, lambda a: (a == 0).astype(declared.raw), 1)


def _lop3(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    target, *operands, table = expect_operands(instruction, 5)
    value = getattr(table, "value", None)
    if not isinstance(value, int) or declared.width_bits != 32:
        raise unsupported(instruction, "lop3 needs .b32 and a constant table")
    to = decoder.destination(instruction, target, declared)
    sources = tuple(decoder.source(instruction, operand, declared) for operand in operands)
    rows = [index for index in range(8) if value >> index & 1]

    def look_up(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        result = np.zeros(WARP_SIZE, np.uint32)
        for row in rows:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    return compute(look_up, to, sources)


def _shift(left: bool) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        declared = modifiers.take_type()
        _refuse_float(instruction, declared)
        width, raw = declared.width_bits, declared.raw
        limit, most, zero = np.uint32(width), np.uint32(width - 1), raw.type(0)

        def shift_left(a: Lanes, b: Lanes) -> Lanes:
            return np.where(b < limit, a << np.minimum(b, most).astype(raw), zero)

        def shift_right(a: Lanes, b: Lanes) -> Lanes:
            return np.where(b < limit, a >> np.minimum(b, most).astype(raw), zero)

        def shift_signed(a: Lanes, b: Lanes) -> Lanes:
            return (a.view(declared.view) >> np.minimum(b, most).astype(declared.view)).view(raw)

        function = shift_left if left else shift_signed if declared.is_signed else shift_right
        constant = getattr(instruction.operands[-1], "value", None)
        if isinstance(constant, int) and 0 <= constant < width:
            amount = raw.type(constant)
            signed_amount = declared.view.type(constant) if declared.is_signed else amount
            if left:
                return _shift_by(decoder, instruction, declared, lambda a: a << amount)
            if declared.is_signed:
                view = declared.view
                return _shift_by(decoder, instruction, declared, lambda a: (a.view(view) >> signed_amount).view(raw))
            return _shift_by(decoder, instruction, declared, lambda a: a >> amount)
        return _operation(decoder, instruction, declared, function, 2, last=WORD32)

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

        return _operation(decoder, instruction, declared, funnel, 3)

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

    def extract(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        found: list[int] = []
        for bits, at, size in zip(a.tolist(), (b & 0xFF).tolist(), (c & 0xFF).tolist(), strict=True):
            sign = (bits >> min(at + size - 1, width - 1)) & 1 if signed and size else 0
            field = bits >> at & ((1 << size) - 1)
            present = max(0, min(size, width - at))
            found.append((field | -(sign << present)) & ((1 << width) - 1))
        return np.array(found, declared.raw)

    return compute(extract, to, sources)


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

        return _operation(decoder, instruction, declared, count, 1, result=result)

    return handler


def _sad(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    declared = modifiers.take_type()
    view, raw = declared.view, declared.raw

    def distance(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        x, y = a.view(view), b.view(view)
        return np.where(x > y, a - b, b - a).astype(raw) + c

    return _operation(decoder, instruction, declared, distance, 3)


_COMPARISONS: dict[str, Operation] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
_FLOAT_COMPARISONS = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_COMBINATIONS: dict[str, Operation] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def _setp(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    comparison = modifiers.take(*_COMPARISONS, *_FLOAT_COMPARISONS)
    combination = modifiers.take(*_COMBINATIONS)
    ftz = modifiers.flag("ftz")
    declared = modifiers.take_type()
    operands = expect_operands(instruction, 4 if combination else 3)
    if comparison is None:
        raise unsupported(instruction, "it names no comparison")
    if declared.name in ("f16x2", "bf16x2", "u16x2", "s16x2"):
        raise unsupported(instruction, "packed comparisons")
    target = operands[0]
    pair = isinstance(target, PairOfPredicates)
    first = target.first if isinstance(target, PairOfPredicates) else target
    targets = (decoder.destination(instruction, first, PREDICATE),)
    if isinstance(target, PairOfPredicates):
        targets += (decoder.destination(instruction, target.second, PREDICATE),)
    sources = [decoder.source(instruction, operand, declared) for operand in operands[1:3]]
    function = comparison_of(instruction, comparison, declared, ftz)
    if combination is None and not pair:
        return compute(function, targets[0], tuple(sources))
    negated = False
    if combination is not None:
        slot, negated = decoder.predicate(instruction, operands[3])
        sources.append(slot)
    join = _COMBINATIONS.get(combination or "")

    def together(a: Lanes, b: Lanes, *rest: Lanes) -> tuple[Lanes, Lanes]:
        holds = function(a, b)
        if join is None:
            return holds, ~holds
        other = ~rest[0] if negated else rest[0] | False
        return join(holds, other), join(~holds, other)

    if pair:
        return compute_many(together, targets, tuple(sources))

    def first_only(*lanes: Lanes) -> Lanes:
        return together(*lanes)[0]

    return compute(first_only, targets[0], tuple(sources))


def comparison_of(
    instruction: Instruction, comparison: str, declared: TypeName, ftz: bool
) -> Callable[[Any, Any], Any]:
    """The function that compares lanes of type `declared`."""
    if declared.is_float:
        kind = floating.kind_of(instruction, declared)
        name: Any = comparison
        if comparison in ("lo", "ls", "hi", "hs"):
            raise unsupported(instruction, f".{comparison} compares unsigned integers")
        return lambda a, b: arithmetic.compare(kind, name, a, b, ftz=ftz)
    if comparison in _FLOAT_COMPARISONS or ftz:
        raise unsupported(instruction, f".{comparison} compares floating-point numbers")
    compared = _COMPARISONS[comparison]
    view = declared.view
    if declared.is_signed and comparison not in ("lo", "ls", "hi", "hs"):
        return lambda a, b: compared(a.view(view), b.view(view))
    return compared


def _set(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    comparison = modifiers.take(*_COMPARISONS, *_FLOAT_COMPARISONS)
    ftz = modifiers.flag("ftz")
    result = modifiers.take_type()
    declared = modifiers.take_type()
    if comparison is None or result.name not in ("u32", "s32", "f32"):
        raise unsupported(instruction, "only comparisons into .u32, .s32 or .f32")
    function = comparison_of(instruction, comparison, declared, ftz)
    yes = np.uint32(0x3F80_0000 if result.name == "f32" else 0xFFFF_FFFF)
    return _operation(
        decoder,
        instruction,
        declared,
        lambda a, b: np.where(function(a, b), yes, np.uint32(0)),
        2,
        result=result,
    )


HANDLERS = {
    "add": _add_like("add", np.add),
    "sub": _add_like("sub", np.subtract),
    "mul": _mul,
    "mad": _mad,
    "fma": _mad,
    "mul24": _mul24,
    "mad24": _mad24,
    "div": _div,
    "rem": _rem,
    "min": _extremum("min", np.minimum),
    "max": _extremum("max", np.maximum),
    "neg": _neg,
    "abs": _abs,
    "and": _logic(np.bitwise_and, np.logical_and, 2),
    "or": _logic(np.bitwise_or, np.logical_or, 2),
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
    "sad": _sad,
    "setp": _setp,
    "set": _set,
}
