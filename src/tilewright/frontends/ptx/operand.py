"""What operand stands here, and how is it written?

Each operand is read with its shape (`register`, `address`, `vector` of 4, ...), by which the instruction table checks
it. A name is a register, a variable, or, if it is neither yet, a use of something that `Names` settles later. Source:
PTX ISA 9.1, Instruction Operands; Vectors as Operands; Scalar Video Instructions; Texture Instructions.
Checked by: tests/frontends/test_ptx_grammar.py, test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    Immediate,
    Negated,
    Operand,
    PairOfPredicates,
    Register,
    RegisterPart,
    ResidentVector,
    Symbol,
    SymbolOffset,
    TensorAddress,
    Vector,
)
from tilewright.frontends.ptx.constant import OPERATORS, STARTS_CONSTANT, WARP_SIZE, read_constant, read_integer
from tilewright.frontends.ptx.lexer import Cursor
from tilewright.frontends.ptx.scope import Meaning, Names
from tilewright.targets.ptx import OperandShape, no_such_register, ptx_table

SINK = Register("_")

REGISTER = OperandShape("register")
SINK_SHAPE = OperandShape("sink")
INTEGER = OperandShape("integer")
_FLOAT = OperandShape("float")
SYMBOL = OperandShape("symbol")
_SYMBOL_OFFSET = OperandShape("symbol_offset")
_NEGATED = OperandShape("negated")
_PAIR = OperandShape("pair")
ADDRESS = OperandShape("address")
_PART = OperandShape("part")
_SELECTOR = re.compile(r"(.+)\.((?:b[0-7]+|h[0-3]+))")


@lru_cache(maxsize=1)
def _special_registers() -> dict[str, Register]:
    return {name: Register(name) for name in ptx_table().special_registers}


class OperandReader:
    """Reads the operands of one function's instructions. `note` is called for a name that is not declared yet."""

    def __init__(self, cursor: Cursor, names: Names, note: Callable[[str, int], None]) -> None:
        self.cursor = cursor
        self.names = names
        self._note = note
        self._special = _special_registers()

    def read(self) -> tuple[Operand, OperandShape]:
        """The operand at the cursor and its shape."""
        cursor = self.cursor
        kind = cursor.kind
        if kind == "word":
            return self._word()
        if kind == "[":
            return self._address()
        if kind == "{":
            vector = Vector(self._items("}"))
            if cursor.accept("|"):
                vector = ResidentVector(vector.items, self.register())
            return vector, OperandShape("vector", len(vector.items))
        if kind == "-" and cursor.kinds[cursor.index + 1] == "word":
            cursor.take()
            register, selector = self._part(cursor.take(), cursor.index - 1)
            return RegisterPart(register.name, selector, True), _PART
        if kind == "!" and cursor.kinds[cursor.index + 1] == "word":
            cursor.take()
            return Negated(self.register()), _NEGATED
        if kind == "(" and cursor.kinds[cursor.index + 1] in ("word", ")"):
            arguments = Arguments(self._items(")"))
            return arguments, OperandShape("arguments", len(arguments.items))
        if kind in STARTS_CONSTANT:
            constant = read_constant(cursor)
            return constant, INTEGER if isinstance(constant, Immediate) else _FLOAT
        cursor.refuse("an operand")

    def register(self) -> Register:
        """The register named at the cursor, special ones included."""
        name, index = self.cursor.expect("word", "a register"), self.cursor.index - 1
        found = self.meaning(name, index)
        if not isinstance(found, Register):
            self.cursor.fail(f"{name} is not a register", "declare it with .reg", index)
        return found

    def _part(self, name: str, index: int) -> tuple[Register, str]:
        """`%r1.b0` as the register and the bytes that are selected of it; `%r1` with no selector."""
        match = _SELECTOR.fullmatch(name)
        stem, selector = (name, "") if match is None or name in self.names.visible else (match[1], match[2])
        found = self.meaning(stem, index)
        if not isinstance(found, Register):
            self.cursor.fail(f"{stem} is not a register", "declare it with .reg", index)
        return found, selector

    def meaning(self, name: str, index: int) -> Meaning | None:
        """What `name` means, or None if it is not declared yet. A name with `%` must be a register that is known."""
        if name == "_":
            return SINK
        found = self.names.visible.get(name) or self._special.get(name)
        if found is None:
            if name[0] == "%":
                no_such_register(name, self.cursor.span(index))
            if "." in name:
                self.cursor.fail(f"{name} is not a name", "declare a vector register with .reg .v2 or .v4", index)
        return found

    def _word(self) -> tuple[Operand, OperandShape]:
        cursor = self.cursor
        index, name = cursor.index, cursor.take()
        if "." in name and name not in self.names.visible and _SELECTOR.fullmatch(name):
            register, selector = self._part(name, index)
            return RegisterPart(register.name, selector), _PART
        found = self.meaning(name, index)
        if cursor.accept("|"):
            if not isinstance(found, Register):
                cursor.fail(f"{name} is not a register", "declare it with .reg", index)
            return PairOfPredicates(found, self.register()), _PAIR
        if isinstance(found, Vector):
            return found, OperandShape("vector", len(found.items))
        if isinstance(found, Register):
            return found, SINK_SHAPE if found is SINK else REGISTER
        if name == "WARP_SZ" and found is None:
            if cursor.kind not in OPERATORS:
                return Immediate(WARP_SIZE), INTEGER
            cursor.index = index
            return Immediate(read_integer(cursor)), INTEGER
        symbol = self.symbol(name, found, index)
        if cursor.kind in ("+", "-"):
            offset = self._offset()
            return (SymbolOffset(symbol, offset), _SYMBOL_OFFSET) if offset else (symbol, SYMBOL)
        return symbol, SYMBOL

    def symbol(self, name: str, found: Symbol | None, index: int) -> Symbol:
        """The symbol that a name stands for. found: what it means, None if it is not declared yet."""
        if found is not None:
            return found
        self._note(name, index)
        return Symbol(name)

    def _address_at(self) -> Address:
        """`a`, `a+4`, `64`: what may stand in brackets."""
        cursor = self.cursor
        if cursor.kind != "word":
            return Address(None, read_integer(cursor))
        index, name = cursor.index, cursor.take()
        base = self.meaning(name, index)
        if base is SINK or isinstance(base, Vector):
            cursor.fail(f"{name} cannot be an address", "name a register or a variable", index)
        if not isinstance(base, Register):
            base = self.symbol(name, base, index)
        return Address(base, self._offset() if cursor.at("+", "-") else 0)

    def _offset(self) -> int:
        """`+4`, `-4`, `+-4`: the cursor at the first sign."""
        sign = -1 if self.cursor.take() == "-" else 1
        return sign * read_integer(self.cursor)

    def _items(self, closing: str) -> tuple[Operand, ...]:
        """`{a, b}` or `(a, b)`: registers, constants and symbols."""
        cursor = self.cursor
        cursor.take()
        items: list[Operand] = []
        while items or not cursor.at(closing):
            if cursor.at("{", "[") or (cursor.at("(") and cursor.kinds[cursor.index + 1] in ("word", ")")):
                cursor.refuse("a register or a constant")
            items.append(self.read()[0])
            if not cursor.accept(","):
                break
        cursor.expect(closing, f"`,` or `{closing}`")
        return tuple(items)

    def _address(self) -> tuple[Operand, OperandShape]:
        cursor = self.cursor
        cursor.take()
        address = self._address_at()
        if not cursor.accept(","):
            cursor.expect("]", "`+`, `,` or `]` in an address")
            if cursor.at(".unified"):
                # The address of a variable that hosts and devices share; the access is the same.
                cursor.take()
            return address, ADDRESS
        sampler: Address | None = None
        if cursor.kind == "word":
            place = self._address_at()
            if not cursor.accept(","):
                # `[texture, x]`: one coordinate needs no braces.
                cursor.expect("]", "`,` or `]` after a coordinate")
                if place.base is None or place.offset:
                    cursor.refuse("a register as the coordinate")
                return TensorAddress(address, (place.base,)), OperandShape("tensor", 1)
            sampler = place
        if cursor.kind != "{":
            cursor.refuse("`{` and the coordinates")
        coordinates = self._items("}")
        cursor.expect("]", "`]` after the coordinates")
        return TensorAddress(address, coordinates, sampler), OperandShape("tensor", len(coordinates))
