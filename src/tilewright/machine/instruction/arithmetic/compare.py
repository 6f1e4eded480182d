"""Comparisons: `setp` and `set` with their boolean combinations, packed or not; `slct` and `testp`.

Source: PTX ISA, Comparison and Selection Instructions; Half Precision Comparison Instructions; `testp`.
Checked by: tests/machine/instruction/test_instructions.py, test_instructions_floating.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Instruction, PairOfPredicates
from tilewright.machine.core.decoder import PREDICATE, Decoder, Modifiers, TypeName, expect_operands, unsupported
from tilewright.machine.core.lanes import Lanes
from tilewright.machine.core.step import Plain, compute, compute_many
from tilewright.machine.instruction.arithmetic import floating
from tilewright.machine.instruction.arithmetic.integer import Operation, operation
from tilewright.machine.instruction.arithmetic.move import select
from tilewright.machine.numbers import arithmetic

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
_ALL_COMPARISONS = (*_COMPARISONS, *_FLOAT_COMPARISONS)
_COMBINATIONS: dict[str, Operation] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
"""Of predicates."""


def _setp(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    comparison = modifiers.take(*_ALL_COMPARISONS)
    combination = modifiers.take(*_COMBINATIONS)
    ftz = modifiers.flag("ftz")
    declared = modifiers.take_type()
    operands = expect_operands(instruction, 4 if combination else 3)
    if comparison is None:
        raise unsupported(instruction, "it names no comparison")
    target = operands[0]
    if declared.name in ("f16x2", "bf16x2"):
        return _packed_setp(decoder, instruction, comparison, combination, declared, ftz)
    if declared.name.endswith("x2"):
        raise unsupported(instruction, "packed comparisons of integers")
    pair = isinstance(target, PairOfPredicates)
    first = target.first if isinstance(target, PairOfPredicates) else target
    targets = (decoder.destination(instruction, first, PREDICATE),)
    if isinstance(target, PairOfPredicates):
        targets += (decoder.destination(instruction, target.second, PREDICATE),)
    sources = [decoder.source(instruction, operand, declared) for operand in operands[1:3]]
    function = comparison_of(instruction, comparison, declared, ftz)
    if combination is None and not pair:
        decoder.remember(instruction, (PREDICATE, declared, declared), partial(compute, function))
        return compute(function, targets[0], tuple(sources))
    negated = False
    if combination is not None:
        slot, negated = decoder.predicate(instruction, operands[3])
        sources.append(slot)
    join = _COMBINATIONS.get(combination or "")

    if join is not None and not pair:
        joined = _joined(function, join, negated=negated)
        decoder.remember(instruction, (PREDICATE, declared, declared, PREDICATE), partial(compute, joined))
        return compute(joined, targets[0], tuple(sources))

    def together(a: Lanes, b: Lanes, *rest: Lanes) -> tuple[Lanes, Lanes]:
        holds = function(a, b)
        if join is None:
            return holds, ~holds
        other = ~rest[0] if negated else rest[0]
        return join(holds, other), join(~holds, other)

    return compute_many(together, targets, tuple(sources))


def _joined(function: Operation, join: Operation, *, negated: bool) -> Operation:
    """A comparison and its combination: a text has one for each column of a store that may be past the end."""

    def combined(a: Lanes, b: Lanes, other: Lanes) -> Lanes:
        return join(function(a, b), ~other if negated else other)

    return combined


def _packed_setp(
    decoder: Decoder, instruction: Instruction, comparison: str, combination: str | None, declared: TypeName, ftz: bool
) -> Plain:
    """`setp` of two halves: the first predicate is the low half's, the second the high half's."""
    target, *operands = instruction.operands
    if not isinstance(target, PairOfPredicates):
        raise unsupported(instruction, "a packed comparison writes p|q")
    targets = tuple(decoder.destination(instruction, each, PREDICATE) for each in (target.first, target.second))
    sources = [decoder.source(instruction, operand, declared) for operand in operands[:2]]
    function = comparison_of(instruction, comparison, _half(declared), ftz)
    negated = False
    if combination is not None:
        slot, negated = decoder.predicate(instruction, operands[2])
        sources.append(slot)
    join = _COMBINATIONS.get(combination or "")

    def both(a: Lanes, b: Lanes, *rest: Lanes) -> tuple[Lanes, Lanes]:
        holds = function(_halves(a), _halves(b)).reshape(len(a), 2)
        if join is not None:
            holds = join(holds, (rest[0] != negated)[:, None])
        return np.ascontiguousarray(holds[:, 0]), np.ascontiguousarray(holds[:, 1])

    return compute_many(both, targets, tuple(sources))


def _half(declared: TypeName) -> TypeName:
    return TypeName(declared.name.removesuffix("x2"), 16)


def _halves(lanes: Lanes) -> Lanes:
    return np.ascontiguousarray(lanes).view(np.uint16)


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


_YES = {"f32": 0x3F80_0000, "f16": 0x3C00, "bf16": 0x3F80}


def _set(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """Ones, or 1.0 of a floating-point result, where the comparison holds; packed operands give 16 bits a half."""
    comparison = modifiers.take(*_ALL_COMPARISONS)
    combination = modifiers.take(*_COMBINATIONS)
    ftz = modifiers.flag("ftz")
    result = modifiers.take_type()
    declared = modifiers.take_type()
    if comparison is None:
        raise unsupported(instruction, "it names no comparison")
    packed = declared.name in ("f16x2", "bf16x2")
    if result.name not in ("u32", "s32", "f32", "u16", "s16", "f16", "bf16", "f16x2", "bf16x2"):
        raise unsupported(instruction, f"comparisons into .{result.name}")
    target, *operands = expect_operands(instruction, 4 if combination else 3)
    sources = [decoder.source(instruction, operand, declared) for operand in operands[:2]]
    to = decoder.destination(instruction, target, result)
    dtype = np.dtype(np.uint16) if packed else result.raw
    ones = (1 << (8 * dtype.itemsize)) - 1
    yes = dtype.type(_YES.get(result.name.removesuffix("x2"), ones))
    function = comparison_of(instruction, comparison, _half(declared) if packed else declared, ftz)
    negated = False
    if combination is not None:
        slot, negated = decoder.predicate(instruction, operands[2])
        sources.append(slot)
    join = _COMBINATIONS.get(combination or "")

    def choose(a: Lanes, b: Lanes, *rest: Lanes) -> Lanes:
        holds = function(_halves(a), _halves(b)) if packed else function(a, b)
        if join is not None:
            holds = join(holds, np.repeat(rest[0] != negated, 2 if packed else 1))
        chosen = np.where(holds, yes, dtype.type(0))
        return chosen.view(np.uint32) if packed else chosen

    return compute(choose, to, tuple(sources))


def _slct(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """a where c is at least zero (-0 is), else b: so b where c is NaN."""
    ftz = modifiers.flag("ftz")
    declared, condition = modifiers.take_type(), modifiers.take_type()
    if condition.name not in ("s32", "f32"):
        raise unsupported(instruction, "it selects by .s32 or .f32")
    target, first, second, third = expect_operands(instruction, 4)
    sources = (
        decoder.source(instruction, first, declared),
        decoder.source(instruction, second, declared),
        decoder.source(instruction, third, condition),
    )
    to = decoder.destination(instruction, target, declared)
    zero = np.zeros(1, np.uint32)

    def choose(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        holds = c.view(np.int32) >= 0 if condition.name == "s32" else arithmetic.compare("f32", "ge", c, zero, ftz=ftz)
        return select(a, b, holds)

    return compute(choose, to, sources)


_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "finite": lambda size, bound: size < bound,
    "infinite": lambda size, bound: size == bound,
    "number": lambda size, bound: size <= bound,
    "notanumber": lambda size, bound: size > bound,
}


def _testp(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    test = modifiers.take(*_TESTS, "normal", "subnormal")
    declared = modifiers.take_type()
    if test is None or declared.name not in ("f32", "f64"):
        raise unsupported(instruction, "it needs a test, and .f32 or .f64")
    fraction = 23 if declared.name == "f32" else 52
    one = declared.raw.type
    whole, least = (1 << (declared.width_bits - 1)) - 1, one(1 << fraction)
    magnitude, infinity = one(whole), one(whole >> fraction << fraction)

    def classify(a: Lanes) -> Lanes:
        size = a & magnitude
        if test == "normal":
            return (size >= least) & (size < infinity)
        if test == "subnormal":
            return (size > 0) & (size < least)
        return _TESTS[test](size, infinity)

    return operation(decoder, instruction, declared, classify, 1, result=PREDICATE)


HANDLERS = {
    "setp": _setp,
    "set": _set,
    "slct": _slct,
    "testp": _testp,
}
