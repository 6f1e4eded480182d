"""Comparisons: `setp` with its boolean combination, and `set`.

Source: PTX ISA, Comparison and Selection Instructions. Not handled: packed comparisons.
Checked by: tests/machine/test_instructions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Instruction, PairOfPredicates
from tilewright.machine import arithmetic
from tilewright.machine.decoder import PREDICATE, Decoder, Modifiers, TypeName, expect_operands, unsupported
from tilewright.machine.instruction import floating
from tilewright.machine.instruction.integer import Operation, operation
from tilewright.machine.lanes import Lanes
from tilewright.machine.step import Plain, compute, compute_many

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
    return operation(
        decoder,
        instruction,
        declared,
        lambda a, b: np.where(function(a, b), yes, np.uint32(0)),
        2,
        result=result,
    )


HANDLERS = {
    "setp": _setp,
    "set": _set,
}
