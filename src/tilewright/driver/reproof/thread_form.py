"""What does a 32-bit register hold in every thread of a block, for all launches: a number of the thread, and symbols?

Theory: abstract interpretation of single-assignment chains. A form is one number for each thread plus a sum of symbols
times constants, modulo 2**32. Symbols are what no thread changes during a launch: where a shared variable begins
(a multiple of its alignment), the block's indices, scalar parameters. Sums, differences and products by constants are
exact. Masks and exclusive ors are exact where the symbols' common power of two exceeds the bits that they touch;
everything else is exact where no symbol occurs, else unknown.

A register has a form only where it is written at one place, without a guard, which dominates each use: then its value
depends on nothing but thread and symbols, in every iteration of every loop. What is not understood, a loop's counter
among it, is no form: the reason is kept, and no claim rests on it.
Not handled: 64-bit arithmetic, values that depend on a loop's counter. Source: PTX ISA, Integer Arithmetic, Logic and
Shift. Checked by tests/driver/reproof/test_address_proof.py against runs on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.frontends.ptx.ast import (
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Register,
    RegisterPart,
    Symbol,
)
from tilewright.machine.protocol.slicing.slice import Text, text_of

Numbers: TypeAlias = "NDArray[np.int64]"
Symbols = tuple[tuple[str, int], ...]

_WORD = 1 << 32
_MASK = _WORD - 1
_PER_BLOCK = frozenset({
    "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%cluster_ctarank", "%cluster_ctaid.x",
})  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ThreadForm:
    """numbers: one for each thread, 0 .. 2**32 - 1; symbols: (name, factor), by name, none with factor 0; the value is
    their sum modulo 2**32. multiple: a power of two that divides the symbols' part, whatever they are."""

    numbers: Numbers
    symbols: Symbols = ()
    multiple: int = _WORD


@dataclass(frozen=True, slots=True, eq=False)
class Truths:
    """A predicate's value in each thread."""

    numbers: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NoForm:
    """reason: why nothing is known."""

    reason: str


Value = ThreadForm | Truths | NoForm


class ThreadForms:
    """The forms of a kernel's registers. threads: of a block, which is one row: %tid.x is 0 .. threads - 1."""

    def __init__(self, kernel: Kernel, threads: int, alignments: Mapping[str, int], text: Text | None = None) -> None:
        """alignments: of shared variables, in bytes, by name."""
        self.text = text_of(kernel, facts_as_needed=True) if text is None else text
        self.threads = threads
        self.alignments = alignments
        self.known: dict[str, Value] = {}
        self.dominators = _dominators(self.text)

    def of_operand(self, operand: Operand, position: int) -> Value:
        """The value of an operand as the instruction at `position` reads it."""
        match operand:
            case Immediate(value):
                return ThreadForm(np.full(self.threads, value & _MASK, np.int64))
            case Negated(register):
                found = self.of_register(register.name, position)
                return Truths(~found.numbers) if isinstance(found, Truths) else NoForm("negates no known predicate")
            case RegisterPart():
                return NoForm("a part of a register")
            case Register(name):
                return self.of_register(name, position)
            case Symbol(name) if name in self.alignments:
                align = self.alignments[name]
                zeros = np.zeros(self.threads, np.int64)
                return ThreadForm(zeros, ((name, 1),), align & -align)
            case _:
                return NoForm(f"{operand} is no number")

    def of_register(self, name: str, position: int) -> Value:
        """The value of a register as the instruction at `position` reads it."""
        special = self._special(name)
        if special is not None:
            return special
        places = self.text.definitions.get(name, ())
        if len(places) != 1:
            return NoForm(f"{name} is written at {len(places)} places")
        if not self.dominates(places[0], position):
            return NoForm(f"{name} may be read before it is written")
        if name not in self.known:
            self._settle(name)
        return self.known[name]

    def dominates(self, first: int, second: int) -> bool:
        """Whether every way to the second position goes through the first, before it."""
        blocks = self.text.flow.block_of
        if blocks[first] == blocks[second]:
            return first < second
        return bool(self.dominators[blocks[second]] >> blocks[first] & 1)

    def _settle(self, name: str) -> None:
        """Work out the form of a register and of what it is made of, without recursion."""
        waiting = [name]
        entered: set[str] = set()
        while waiting:
            current = waiting[-1]
            if current in self.known:
                waiting.pop()
                continue
            at = self.text.definitions[current][0]
            item = self.text.flow.instructions[at]
            needs = [
                each
                for each in self.text.facts[at].reads
                if each not in self.known
                and len(self.text.definitions.get(each, ())) == 1
                and self.dominates(self.text.definitions[each][0], at)
            ]
            if needs and current not in entered:
                entered.add(current)
                waiting += needs
                continue
            self.known[current] = self._result(item, at)
            waiting.pop()

    def _special(self, name: str) -> Value | None:
        match name:
            case "%tid.x":
                return ThreadForm(np.arange(self.threads, dtype=np.int64))
            case "%laneid":
                return ThreadForm(np.arange(self.threads, dtype=np.int64) % 32)
            case "%tid.y" | "%tid.z":
                return NoForm(f"blocks of several rows of threads are not handled: {name}")
            case _ if name in _PER_BLOCK:
                return ThreadForm(np.zeros(self.threads, np.int64), ((name, 1),), 1)
            case _ if name.startswith("%") and name not in self.text.declared:
                return NoForm(f"{name} is not understood")
            case _:
                return None

    def _result(self, item: Instruction, at: int) -> Value:
        if item.guard is not None:
            return NoForm(f"{item.opcode} is guarded")
        if type(item.operands[0]) is not Register:
            return NoForm(f"{item.opcode} writes more, or less, than one register")
        operands = [self.of_operand(operand, at) for operand in item.operands[1:]]
        if item.row == "shfl.sync":
            return self._shuffled(item, operands)
        for each in operands:
            if isinstance(each, NoForm):
                return each
        return _computed(item, operands)

    def _shuffled(self, item: Instruction, operands: list[Value]) -> Value:
        """Lane 0's value in every lane of a warp."""
        match item.operands[2:], operands[:1]:
            case (Immediate(0), Immediate(31), Immediate(mask)), [ThreadForm() as form] if (
                "idx" in item.modifiers and mask & _MASK == _MASK and self.threads % 32 == 0
            ):
                first = np.repeat(form.numbers[::32], 32)
                return ThreadForm(first, form.symbols, form.multiple)
            case _:
                return NoForm("a shuffle that is not of lane 0")


def _computed(item: Instruction, operands: list[Value]) -> Value:
    kind = item.modifiers[-1] if item.modifiers else ""
    forms = [each for each in operands if isinstance(each, ThreadForm)]
    if item.row == "setp":
        return _compared(item, operands)
    if kind == "pred":
        return _of_predicates(item, operands)
    if kind not in ("b32", "u32", "s32"):
        return NoForm(f"{item.opcode} is not of 32-bit integers")
    if item.row == "selp":
        match operands:
            case [ThreadForm(one, (), _), ThreadForm(other, (), _), Truths(choice)]:
                return ThreadForm(np.where(choice, one, other))
            case _:
                return NoForm("a choice between symbols")
    if len(forms) != len(operands):
        return NoForm(f"{item.opcode} reads a predicate")
    wide = any(part in item.modifiers for part in ("hi", "wide", "sat", "cc"))
    match item.row, forms:
        case _ if wide:
            return NoForm(f"{item.opcode} is not handled")
        case "mov", [only]:
            return only
        case "add", [one, other]:
            return _sum(one, other, 1)
        case "sub", [one, other]:
            return _sum(one, other, -1)
        case "mul", [one, other]:
            return _product(one, other)
        case "mad", [one, other, third]:
            found = _product(one, other)
            return _sum(found, third, 1) if isinstance(found, ThreadForm) else found
        case "shl", [one, other]:
            return _shifted_up(one, other)
        case (("and" | "or" | "xor"), [one, other]):
            return _bitwise(item.row, one, other)
        case _:
            return _plain(item.row, kind, forms)


def _sum(one: ThreadForm, other: ThreadForm, sign: int) -> ThreadForm:
    factors = dict(one.symbols)
    for name, factor in other.symbols:
        factors[name] = factors.get(name, 0) + sign * factor
    symbols = tuple(sorted((name, factor % _WORD) for name, factor in factors.items() if factor % _WORD))
    multiple = min(one.multiple, other.multiple) if symbols else _WORD
    return ThreadForm((one.numbers + sign * other.numbers) & _MASK, symbols, multiple)


def _product(one: ThreadForm, other: ThreadForm) -> Value:
    if one.symbols and not other.symbols:
        one, other = other, one
    if one.symbols:
        return NoForm("a product of symbols")
    if other.symbols:
        factor = int(one.numbers[0])
        if bool((one.numbers != factor).any()):
            return NoForm("a symbol times a number of the thread")
        return _scaled(other, factor)
    # Factors below 2**32: split one so that no product leaves 64 bits.
    low, high = one.numbers & 0xFFFF, one.numbers >> 16
    return ThreadForm((low * other.numbers + ((high * other.numbers & _MASK) << 16)) & _MASK)


def _scaled(form: ThreadForm, factor: int) -> ThreadForm:
    symbols = tuple((name, each * factor % _WORD) for name, each in form.symbols if each * factor % _WORD)
    numbers = _product(ThreadForm(np.full_like(form.numbers, factor)), ThreadForm(form.numbers))
    assert isinstance(numbers, ThreadForm)
    power = factor & -factor if factor else _WORD
    return ThreadForm(numbers.numbers, symbols, min(_WORD, form.multiple * power) if symbols else _WORD)


def _shifted_up(one: ThreadForm, other: ThreadForm) -> Value:
    if other.symbols:
        return NoForm("a shift by a symbol")
    if not one.symbols:
        return ThreadForm(np.where(other.numbers < 32, one.numbers << np.minimum(other.numbers, 31), 0) & _MASK)
    count = int(other.numbers[0])
    if bool((other.numbers != count).any()) or count > 31:
        return NoForm("a symbol shifted by a number of the thread")
    return _scaled(one, 1 << count)


def _bitwise(row: str, one: ThreadForm, other: ThreadForm) -> Value:
    function: Callable[[Numbers, Numbers], Numbers] = {
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[row]  # fmt: skip
    if one.symbols and not other.symbols:
        one, other = other, one
    if one.symbols:
        return NoForm(f"{row} of two symbols")
    if not other.symbols:
        return ThreadForm(function(one.numbers, other.numbers))
    # Below `multiple` the symbols' part has no bits, so nothing carries into or out of there.
    low = other.multiple - 1
    if row == "and":
        if not bool((one.numbers & ~low).any()):
            return ThreadForm(one.numbers & other.numbers)
        if bool(((one.numbers | low) == _MASK).all()):
            dropped = other.numbers & low & ~one.numbers
            return ThreadForm((other.numbers - dropped) & _MASK, other.symbols, other.multiple)
    elif not bool((one.numbers & ~low).any()):
        # The bits above stay as they are, and with them the sum.
        changed = function(one.numbers, other.numbers & low)
        return ThreadForm((other.numbers - (other.numbers & low) + changed) & _MASK, other.symbols, other.multiple)
    return NoForm(f"{row} of bits that a symbol may have")


def _plain(row: str, kind: str, forms: list[ThreadForm]) -> Value:
    """Operations on numbers of the thread alone."""
    if any(form.symbols for form in forms):
        return NoForm(f"{row} of a symbol")
    numbers = [form.numbers for form in forms]
    if kind == "s32" and any(bool((each >> 31).any()) for each in numbers):
        return NoForm(f"{row} of negative numbers")
    match row, numbers:
        case "shr", [one, count]:
            return ThreadForm(np.where(count < 32, one >> np.minimum(count, 31), 0))
        case "rem", [one, other] if bool((other > 0).all()):
            return ThreadForm(one % other)
        case "div", [one, other] if bool((other > 0).all()):
            return ThreadForm(one // other)
        case "min", [one, other]:
            return ThreadForm(np.minimum(one, other))
        case "max", [one, other]:
            return ThreadForm(np.maximum(one, other))
        case "not", [one]:
            return ThreadForm(~one & _MASK)
        case _:
            return NoForm(f"{row} is not handled")


def _compared(item: Instruction, operands: list[Value]) -> Value:
    if len(item.modifiers) != 2 or item.modifiers[1] not in ("b32", "u32", "s32"):
        return NoForm(f"{item.opcode} is not handled")
    match operands:
        case [ThreadForm(one, (), _), ThreadForm(other, (), _)]:
            if item.modifiers[1] == "s32":
                one, other = _signed(one), _signed(other)
            match item.modifiers[0]:
                case "eq":
                    return Truths(one == other)
                case "ne":
                    return Truths(one != other)
                case "lt" | "lo":
                    return Truths(one < other)
                case "le" | "ls":
                    return Truths(one <= other)
                case "gt" | "hi":
                    return Truths(one > other)
                case "ge" | "hs":
                    return Truths(one >= other)
                case _:
                    return NoForm(f"{item.opcode} is not handled")
        case _:
            return NoForm("a comparison of symbols")


def _of_predicates(item: Instruction, operands: list[Value]) -> Value:
    match item.row, operands:
        case "and", [Truths(one), Truths(other)]:
            return Truths(one & other)
        case "or", [Truths(one), Truths(other)]:
            return Truths(one | other)
        case "not", [Truths(one)]:
            return Truths(~one)
        case "mov", [Truths() as one]:
            return one
        case _:
            return NoForm(f"{item.opcode} is not handled")


def _signed(numbers: Numbers) -> Numbers:
    return np.where(numbers >> 31, numbers - _WORD, numbers)


def _dominators(text: Text) -> list[int]:
    """By block, the set of blocks on every way to it, as a mask."""
    blocks = text.flow.blocks
    every = (1 << len(blocks)) - 1
    found = [1] + [every] * (len(blocks) - 1)
    changed = True
    while changed:
        changed = False
        for at in range(1, len(blocks)):
            meet = every
            for before in blocks[at].predecessors:
                meet &= found[before]
            meet |= 1 << at
            if meet != found[at]:
                found[at], changed = meet, True
    return found


def active_threads(forms: ThreadForms) -> list[NDArray[np.bool_]]:
    """By block, the threads that may run it: where a branch's predicate is known, only those that take its way."""
    flow = forms.text.flow
    found = [np.zeros(forms.threads, np.bool_) for _ in flow.blocks]
    found[0][:] = True
    waiting = [0]
    while waiting:
        at = waiting.pop()
        block = flow.blocks[at]
        taken: dict[int, NDArray[np.bool_]] = {}
        last = flow.instructions[block.end - 1] if block.end > block.begin else None
        if last is not None and last.row == "bra" and last.guard is not None and len(block.successors) == 2:
            value = forms.of_register(last.guard.register.name, block.end - 1)
            following = flow.block_of[block.end]
            if isinstance(value, Truths) and following in block.successors:
                jumps = value.numbers ^ last.guard.negated
                taken = {each: ~jumps if each == following else jumps for each in block.successors}
        for each in block.successors:
            reached = found[at] & taken[each] if each in taken else found[at]
            if bool((reached & ~found[each]).any()):
                found[each] = found[each] | reached
                waiting.append(each)
    return found
