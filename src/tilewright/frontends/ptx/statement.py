"""How is a plain statement read at once, not token by token?

Most of a compiler's text is lines such as `add.s32 %r3, %r1, 4;`: a guard perhaps, an opcode, operands that are names,
integers, `[name+4]` and `{name, name}`. The lexer hands such a line over as one token (`PlainStatement`). Its operands
are known by their spelling: what a spelling means stays the same as long as no declaration comes and no scope closes.
Everything else is read by `operand`, and a text in which anything is refused is read again token by token, so that
messages are of tokens.

Source: as of `operand`. Checked by: tests/frontends/test_ptx_statement.py, against the reading token by token.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Address, Guard, Immediate, Instruction, Operand, Register, Symbol, Vector
from tilewright.frontends.ptx.constant import WARP_SIZE, literal_value
from tilewright.frontends.ptx.operand import ADDRESS, INTEGER, REGISTER, SINK, SINK_SHAPE, SYMBOL, OperandReader
from tilewright.targets.ptx import OperandShape

# Where a vector of one register means that register.
SCALAR_ROWS = frozenset({"ld", "ldu", "st", "st.async", "atom", "red"})
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^\s,]+")
_NAME = re.compile(r"[^\s,{}]+")
_ONE = OperandShape("vector", 1)
_Read = tuple[Operand, OperandShape]
Row = Callable[[str, tuple[OperandShape, ...], Span], tuple[str, tuple[str, ...]]]


class StatementReader:
    """Reads the plain statements of one function. operands: reads its other operands; row: of an opcode with operands
    of these shapes, the row's key, empty for what a tolerant reader does not know, and the modifiers."""

    def __init__(self, operands: OperandReader, row: Row) -> None:
        self._operands = operands
        self._row = row
        self._visible = operands.names.visible
        # By spelling, and by opcode and shapes of the operands.
        self._known: dict[str, _Read] = {}
        self._rows: dict[tuple[str, tuple[OperandShape, ...]], tuple[str, tuple[str, ...], bool]] = {}
        self._shown = -1

    def read(self, begin: int, end: int, add: Callable[[Instruction], None]) -> None:
        """Hand to `add`, one by one, the instructions that the tokens from `begin` to before `end` spell, each a plain
        statement. Raises TilewrightError, not with the place that is meant, for one that PTX does not allow."""
        known, visible, rows, cursor = self._known, self._visible, self._rows, self._operands.cursor
        if self._shown != self._operands.names.changes:
            known.clear()
            known["_"] = SINK, SINK_SHAPE  # whatever is declared
            self._shown = self._operands.names.changes
        statements, index = cursor.statements, begin
        for span in cursor.spans_of_lines(begin, end):
            negated, name, opcode, written = statements[index]
            guard: Guard | None = None
            if name is not None:
                register, _ = known.get(name) or self._word(name, index)
                if type(register) is not Register:
                    raise TilewrightError(f"{name} is no guard", span=span)
                guard = Guard(register, negated == "!")
            operands: tuple[Operand, ...] = ()
            shapes: tuple[OperandShape, ...] = ()
            if written:
                # Splitting is quicker, where nothing is in braces and a space follows each comma.
                texts = written.split(", ")
                if "{" in written or written.count(",") >= len(texts):
                    texts = _OPERAND.findall(written)
                found: list[_Read] = []
                for text in texts:
                    each = known.get(text)
                    if each is None:
                        meaning = visible.get(text)
                        if type(meaning) is Register:  # most are
                            each = known[text] = (meaning, REGISTER)
                        else:
                            each = self._operand(text, index)
                    found.append(each)
                operands, shapes = zip(*found, strict=True)
            form = rows.get((opcode, shapes))
            if form is None:
                key, modifiers = self._row(opcode, shapes, span)
                if not key:
                    raise TilewrightError(f"{opcode} is not known, and so are its operands", span=span)
                form = rows[opcode, shapes] = key, modifiers, key in SCALAR_ROWS and _ONE in shapes
            key, modifiers, braces = form
            if braces:
                operands = scalars(operands)
            add(Instruction(opcode, key, modifiers, operands, guard, span))
            index += 1

    def _operand(self, text: str, index: int) -> _Read:
        """What an operand spells that is met for the first time."""
        known = self._known
        first = text[0]
        if first == "[":
            name, _, offset = text[1:-1].partition("+")
            base, shape = known.get(name) or self._word(name, index)
            if shape is not REGISTER and (base is SINK or not isinstance(base, Register | Symbol)):
                raise TilewrightError(f"{name} cannot be an address")
            found = (Address(cast("Register | Symbol", base), _integer(offset) if offset else 0), ADDRESS)
            if shape is not SYMBOL:
                known[text] = found
            return found
        if first == "{":
            items = [known.get(each) or self._word(each, index) for each in _NAME.findall(text)]
            found = (Vector(tuple([item for item, _ in items])), OperandShape("vector", len(items)))
            if all(shape is not SYMBOL for _, shape in items):
                known[text] = found
            return found
        if first in "-0123456789":
            found = known[text] = (Immediate(_integer(text)), INTEGER)
            return found
        return self._word(text, index)

    def _word(self, name: str, index: int) -> _Read:
        """What a name means. Symbols are not kept: one that is not declared yet is noted wherever it is used."""
        meaning = self._operands.meaning(name, index)
        if isinstance(meaning, Vector):
            return meaning, OperandShape("vector", len(meaning.items))
        if isinstance(meaning, Register):
            found = self._known[name] = (meaning, SINK_SHAPE if meaning is SINK else REGISTER)
            return found
        if name == "WARP_SZ" and meaning is None:
            return Immediate(WARP_SIZE), INTEGER
        return self._operands.symbol(name, meaning, index), SYMBOL


def scalars(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """The operands of a row of SCALAR_ROWS, without the braces around one register."""
    for operand in operands:
        if isinstance(operand, Vector) and len(operand.items) == 1:
            return tuple(
                each.items[0] if isinstance(each, Vector) and len(each.items) == 1 else each for each in operands
            )
    return operands


def _integer(text: str) -> int:
    """`12`, `-0x1f`. Raises TilewrightError where 64 bits do not hold it."""
    if len(text) < 18 and text.isdecimal() and (text[0] != "0" or text == "0"):  # most are such
        return int(text)
    value = -literal_value(text[1:]) if text[0] == "-" else literal_value(text)
    if not -(1 << 63) <= value < 1 << 64:
        raise TilewrightError(f"{value} does not fit 64 bits")
    return value
