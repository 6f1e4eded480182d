"""What operand stands here, and how is it written?

Each operand is read with its shape (`register`, `address`, `vector` of 4, ...), by which the instruction table checks
it. A name is a register, a variable, or, if it is neither yet, a use of something that `Names` settles later. Source:
PTX ISA 8.8, Instruction Operands. Not handled, and refused: elements of vector registers (`v.x`), byte selectors.
Checked by: tests/frontends/test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    Immediate,
    Negated,
    Operand,
    PairOfPredicates,
    Register,
    Symbol,
    SymbolOffset,
    TensorAddress,
    Vector,
)
from tilewright.frontends.ptx.constant import STARTS_CONSTANT, read_constant, read_integer
from tilewright.frontends.ptx.lexer import Cursor
from tilewright.frontends.ptx.scope import Names
from tilewright.targets.ptx import OperandShape, no_such_register, ptx_table

SINK = Register("_")
_WARP_SIZE = 32

_REGISTER = OperandShape("register")
_SINK = OperandShape("sink")
_INTEGER = OperandShape("integer")
_FLOAT = OperandShape("float")
_SYMBOL = OperandShape("symbol")
_SYMBOL_OFFSET = OperandShape("symbol_offset")
_NEGATED = OperandShape("negated")
_PAIR = OperandShape("pair")
_ADDRESS = OperandShape("address")


class OperandReader:
    """Reads the operands of one function's instructions. `note` is called for a name that is not declared yet."""

    def __init__(self, cursor: Cursor, names: Names, note: Callable[[str, int], None]) -> None:
        self.cursor = cursor
        self.names = names
        self._note = note
        self._special = {name: Register(name) for name in ptx_table().special_registers}

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
            return vector, OperandShape("vector", len(vector.items))
        if kind == "!" and cursor.kinds[cursor.index + 1] == "word":
            cursor.take()
            return Negated(self.register()), _NEGATED
        if kind == "(" and cursor.kinds[cursor.index + 1] in ("word", ")"):
            arguments = Arguments(self._items(")"))
            return arguments, OperandShape("arguments", len(arguments.items))
        if kind in STARTS_CONSTANT:
            constant = read_constant(cursor)
            return constant, _INTEGER if isinstance(constant, Immediate) else _FLOAT
        cursor.refuse("an operand")

    def register(self) -> Register:
        """The register named at the cursor, special ones included."""
        name, index = self.cursor.expect("word", "a register"), self.cursor.index - 1
        found = self._find(name, index)
        if not isinstance(found, Register):
            self.cursor.fail(f"{name} is not a register", "declare it with .reg", index)
        return found

    def _find(self, name: str, index: int) -> Register | Symbol | None:
        """What `name` means, or None if it is not declared yet. A name with `%` must be a register that is known."""
        if name == "_":
            return SINK
        found = self.names.visible.get(name) or self._special.get(name)
        if found is None:
            if name[0] == "%":
                no_such_register(name, self.cursor.span(index))
            if "." in name:
                self.cursor.fail(f"{name} is not a name", "elements of vector registers are not handled", index)
        return found

    def _word(self) -> tuple[Operand, OperandShape]:
        cursor = self.cursor
        index, name = cursor.index, cursor.take()
        found = self._find(name, index)
        if cursor.accept("|"):
            if not isinstance(found, Register):
                cursor.fail(f"{name} is not a register", "declare it with .reg", index)
            return PairOfPredicates(found, self.register()), _PAIR
        if isinstance(found, Register):
            return found, _SINK if found is SINK else _REGISTER
        if name == "WARP_SZ" and found is None:
            return Immediate(_WARP_SIZE), _INTEGER
        symbol = self._symbol(name, found, index)
        if cursor.kind in ("+", "-"):
            offset = self._offset()
            return (SymbolOffset(symbol, offset), _SYMBOL_OFFSET) if offset else (symbol, _SYMBOL)
        return symbol, _SYMBOL

    def _symbol(self, name: str, found: Symbol | None, index: int) -> Symbol:
        if found is not None:
            return found
        self._note(name, index)
        return Symbol(name)

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
            if cursor.at("{", "["):
                cursor.refuse("a register or a constant")
            items.append(self.read()[0])
            if not cursor.accept(","):
                break
        cursor.expect(closing, f"`,` or `{closing}`")
        return tuple(items)

    def _address(self) -> tuple[Operand, OperandShape]:
        cursor = self.cursor
        cursor.take()
        if cursor.kind == "word":
            index, name = cursor.index, cursor.take()
            base = self._find(name, index)
            if base is SINK:
                cursor.fail("_ cannot be an address", "name a register or a variable", index)
            if not isinstance(base, Register):
                base = self._symbol(name, base, index)
            address = Address(base, self._offset() if cursor.at("+", "-") else 0)
        else:
            address = Address(None, read_integer(cursor))
        if not cursor.accept(","):
            cursor.expect("]", "`+`, `,` or `]` in an address")
            return address, _ADDRESS
        if cursor.kind != "{":
            cursor.refuse("`{` and the coordinates")
        coordinates = self._items("}")
        cursor.expect("]", "`]` after the coordinates")
        return TensorAddress(address, coordinates), OperandShape("tensor", len(coordinates))
