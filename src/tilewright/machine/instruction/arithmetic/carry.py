"""Arithmetic with the carry flag: numbers of several words.

Every lane has one flag, which `.cc` sets and `addc`, `subc` and `madc` add or subtract; for subtractions it holds the
borrow. It is a register without a name in the text. Source: PTX ISA, Extended-Precision Integer Arithmetic
Instructions. Checked by: tests/machine/instruction/test_instructions_integer.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import PREDICATE, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.lanes import WARP_SIZE, Lanes
from tilewright.machine.core.step import Plain, compute, compute_many
from tilewright.machine.numbers import integer

FLAG = "condition code: carry"


def _flag(decoder: Decoder) -> int:
    """The flag's slot; it is clear when a warp starts."""
    return decoder.warp_constant(FLAG, PREDICATE, lambda _cta, _warp: np.zeros(WARP_SIZE, np.bool_))


def _add(a: Lanes, b: Lanes, flag: Lanes) -> tuple[Lanes, Lanes]:
    partial = a + b
    total = partial + flag
    return total, (partial < a) | (total < partial)


def _subtract(a: Lanes, b: Lanes, flag: Lanes) -> tuple[Lanes, Lanes]:
    partial = a - b
    return partial - flag, (a < b) | (partial < flag)


def _bind(
    decoder: Decoder, instruction: Instruction, function: Callable[..., tuple[Lanes, Lanes]], target: int,
    sources: tuple[int, ...], *, sets: bool, uses: bool,
) -> Plain:  # fmt: skip
    """function: of the sources and the flag (as numbers of their type), yields result and new flag."""
    flag = _flag(decoder)

    def together(*lanes: Lanes) -> tuple[Lanes, Lanes]:
        *numbers, carried = lanes
        return function(*numbers, carried.astype(numbers[0].dtype) if uses else numbers[0].dtype.type(0))

    def result(*lanes: Lanes) -> Lanes:
        return together(*lanes)[0]

    if sets:
        return compute_many(together, (target, flag), (*sources, flag))
    return compute(result, target, (*sources, flag))


def chained(
    decoder: Decoder, instruction: Instruction, modifiers: Modifiers, name: str, *, sets: bool, uses: bool
) -> Plain:
    """`add.cc`, `addc`, `sub.cc`, `subc`. sets: it writes the flag; uses: it reads it."""
    declared = modifiers.take_type()
    if declared.name not in ("u32", "s32", "u64", "s64", "b32", "b64"):
        raise unsupported(instruction, "carries are for 32- and 64-bit integers")
    target, *operands = expect_operands(instruction, 3)
    sources = tuple(decoder.source(instruction, operand, declared) for operand in operands)
    to = decoder.destination(instruction, target, declared)
    function = _add if name == "add" else _subtract
    return _bind(decoder, instruction, function, to, sources, sets=sets, uses=uses)


def multiplied(decoder: Decoder, instruction: Instruction, modifiers: Modifiers, *, sets: bool, uses: bool) -> Plain:
    """`mad.cc` and `madc`."""
    high = modifiers.take("lo", "hi") == "hi"
    declared = modifiers.take_type()
    if declared.name not in ("u32", "s32", "u64", "s64"):
        raise unsupported(instruction, "carries are for 32- and 64-bit integers")
    kind: Any = declared.name
    target, *operands = expect_operands(instruction, 4)
    sources = tuple(decoder.source(instruction, operand, declared) for operand in operands)
    to = decoder.destination(instruction, target, declared)

    def function(a: Lanes, b: Lanes, c: Lanes, flag: Lanes) -> tuple[Lanes, Lanes]:
        return _add(integer.multiply_high(kind, a, b) if high else a * b, c, flag)

    return _bind(decoder, instruction, function, to, sources, sets=sets, uses=uses)


def _with_carry(name: str) -> Callable[[Decoder, Instruction, Modifiers], Plain]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
        sets = modifiers.flag("cc")
        if name == "mad":
            return multiplied(decoder, instruction, modifiers, sets=sets, uses=True)
        return chained(decoder, instruction, modifiers, name, sets=sets, uses=True)

    return handler


HANDLERS = {"addc": _with_carry("add"), "subc": _with_carry("sub"), "madc": _with_carry("mad")}
