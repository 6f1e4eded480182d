"""What does a function's body say? Declarations, labels and instructions between `{` and `}`.

The body is read in one pass without recursion, so nesting costs no stack; instructions that name a label before it is
declared are replaced when the label turns out to have another flat name. Source: PTX ISA 8.8, PTX Statements.
Not handled, and refused: `.callprototype`, `.calltargets`. `.pragma` is read and dropped: it is a hint.
Checked by: tests/frontends/test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    BranchTable,
    Guard,
    Instruction,
    Label,
    Location,
    Operand,
    RegisterDeclaration,
    Symbol,
    TensorAddress,
    Variable,
    Vector,
)
from tilewright.frontends.ptx.constant import read_integer
from tilewright.frontends.ptx.declaration import read_registers, read_variables, space_of
from tilewright.frontends.ptx.lexer import END, Cursor
from tilewright.frontends.ptx.operand import OperandReader
from tilewright.frontends.ptx.scope import Names
from tilewright.targets.ptx import OperandShape, check, instruction_row


@dataclass(frozen=True, slots=True)
class Body:
    """What stands between a function's braces, in one flat namespace."""

    registers: tuple[RegisterDeclaration, ...]
    variables: tuple[Variable, ...]
    items: tuple[Instruction | Label, ...]
    locations: tuple[Location, ...]
    branch_tables: tuple[BranchTable, ...]


def read_body(cursor: Cursor, outer: dict[str, Symbol], version: tuple[int, int], target: tuple[str, ...]) -> Body:
    """The body at the cursor's `{`. outer: what the module and the parameter list declare.

    Raises TilewrightError at the first thing that PTX does not allow or that Tilewright does not know.
    """
    return _BodyReader(cursor, outer, version, target).read()


class _BodyReader:
    def __init__(
        self, cursor: Cursor, outer: dict[str, Symbol], version: tuple[int, int], target: tuple[str, ...]
    ) -> None:
        self.cursor = cursor
        self.version = version
        self.target = target
        self.names = Names(outer, cursor.span())
        self.operands = OperandReader(cursor, self.names, self._note)
        self.registers: list[RegisterDeclaration] = []
        self.variables: list[Variable] = []
        self.items: list[Instruction | Label] = []
        self.locations: list[Location] = []
        self.tables: list[BranchTable] = []

    def read(self) -> Body:
        cursor, names = self.cursor, self.names
        cursor.expect("{", "`{` and the body")
        while names.depth:
            kind = cursor.kind
            if kind == "word":
                if cursor.kinds[cursor.index + 1] == ":":
                    self._label()
                else:
                    self._instruction(None, cursor.span())
            elif kind == "@":
                self._guarded()
            elif kind == "directive":
                self._directive()
            elif kind == "{":
                names.push(cursor.span())
                cursor.take()
            elif kind == "}":
                cursor.take()
                names.pop()
            elif kind == END:
                opened = names.opened
                cursor.fail(
                    f"the file ends inside the body opened at line {opened.line}", "was it cut? close it with }"
                )
            else:
                cursor.refuse("an instruction, a label or a directive")
        self._check_branches()
        return Body(
            tuple(self.registers),
            tuple(self.variables),
            tuple(self.items),
            tuple(self.locations),
            tuple(self.tables),
        )

    # Instructions

    def _guarded(self) -> None:
        cursor = self.cursor
        span = cursor.span()
        cursor.take()
        negated = cursor.accept("!")
        guard = Guard(self.operands.register(), negated)
        if cursor.kind != "word":
            cursor.refuse("an instruction after its guard")
        self._instruction(guard, span)

    def _instruction(self, guard: Guard | None, span: Span) -> None:
        cursor = self.cursor
        opcode = cursor.take()
        while cursor.kind == "directive":
            opcode += cursor.take()
        operands: list[Operand] = []
        shapes: list[OperandShape] = []
        if cursor.kind != ";":
            while True:
                operand, shape = self.operands.read()
                operands.append(operand)
                shapes.append(shape)
                if not cursor.accept(","):
                    break
            if cursor.kind != ";":
                # Name an unknown instruction first: what follows it need not look like operands.
                instruction_row(opcode, span)
                cursor.refuse(f"`,` or `;` after an operand of {opcode}")
        cursor.take()
        row, modifiers = check(opcode, tuple(shapes), self.version, self.target, span)
        self.items.append(Instruction(opcode, row.key, modifiers, tuple(operands), guard, span))

    def _note(self, name: str, index: int) -> None:
        """An operand of the instruction now being read names something that is not declared yet."""
        position = len(self.items)

        def patch(old: str, new: str) -> None:
            item = self.items[position]
            assert isinstance(item, Instruction)
            self.items[position] = replace(
                item, operands=tuple(_rename(operand, old, new) for operand in item.operands)
            )

        self.names.use(name, self.cursor.span(index), patch)

    def _check_branches(self) -> None:
        """Every `bra` goes to a label, every `brx.idx` through a table of labels."""
        labels = {item.name for item in self.items if isinstance(item, Label)}
        tables = {table.name for table in self.tables}
        for table in self.tables:
            for name in table.labels:
                if name not in labels:
                    raise TilewrightError(f"{name} is not a label", span=table.span, remedy="list labels of this body")
        for item in self.items:
            if isinstance(item, Label):
                continue
            if item.row in ("bra", "brx.idx"):
                goal = item.operands[-1]
                if not isinstance(goal, Symbol) or goal.name not in (labels if item.row == "bra" else tables):
                    what = "a label" if item.row == "bra" else "a table made by .branchtargets"
                    raise TilewrightError(
                        f"the target of {item.opcode} is not {what} of this body",
                        span=item.span,
                        remedy="branch within the function",
                    )
            elif not labels.isdisjoint(name for operand in item.operands for name in _symbols(operand)):
                raise TilewrightError(f"{item.opcode} takes no label", span=item.span, remedy="only branches do")

    # Labels and directives

    def _label(self) -> None:
        cursor = self.cursor
        span, index = cursor.span(), cursor.index
        name = cursor.take()
        cursor.take()
        if "." in name or name == "_":
            cursor.fail(f"{name} cannot be a label", "a label has no dots", index)
        unique = self.names.declare_label(name, span)
        if cursor.at(".branchtargets"):
            cursor.take()
            self._branch_table(unique, span)
        else:
            self.items.append(Label(unique, span))

    def _branch_table(self, name: str, span: Span) -> None:
        cursor, position = self.cursor, len(self.tables)
        labels: list[str] = []

        def patch(old: str, new: str) -> None:
            table = self.tables[position]
            self.tables[position] = replace(
                table, labels=tuple(new if label == old else label for label in table.labels)
            )

        while True:
            place = cursor.span()
            labels.append(cursor.expect("word", "a label"))
            self.names.use(labels[-1], place, patch, is_label=True)
            if not cursor.accept(","):
                break
        cursor.expect(";", "`,` or `;` after a label")
        self.tables.append(BranchTable(name, tuple(labels), span))

    def _directive(self) -> None:
        cursor = self.cursor
        index, word = cursor.index, cursor.take()
        if word == ".loc":
            self.locations.append(read_location(cursor, len(self.items)))
        elif word == ".reg":
            self.registers.append(read_registers(cursor, self.names.declare_register))
        elif (space := space_of(word)) is not None:
            if space == "const":
                cursor.fail(".const variables stand outside functions", "move it to the top of the module", index)
            self.variables += read_variables(cursor, space, "", self.names.declare_variable)
        elif word == ".pragma":
            read_pragma(cursor)
        else:
            cursor.fail(f"{word} is not a directive that Tilewright knows in a body", "see PTX ISA, Directives", index)


def _symbols(operand: Operand) -> tuple[str, ...]:
    """The names of the symbols in an operand."""
    match operand:
        case Symbol(name) | Address(Symbol(name)) | TensorAddress(Address(Symbol(name))):
            return (name,)
        case Vector(items) | Arguments(items):
            return tuple(item.name for item in items if isinstance(item, Symbol))
        case _:
            return ()


def _rename(operand: Operand, old: str, new: str) -> Operand:
    """The operand with symbol `old` called `new`."""
    match operand:
        case Symbol(name):
            return Symbol(new) if name == old else operand
        case Address(Symbol(name)):
            return replace(operand, base=Symbol(new)) if name == old else operand
        case TensorAddress(base, _):
            renamed = _rename(base, old, new)
            return replace(operand, base=renamed) if isinstance(renamed, Address) else operand
        case Vector(items):
            return Vector(tuple(_rename(item, old, new) for item in items))
        case Arguments(items):
            return Arguments(tuple(_rename(item, old, new) for item in items))
        case _:
            return operand


def read_pragma(cursor: Cursor) -> None:
    """`.pragma "a", "b";`, the cursor after the directive."""
    cursor.expect("string", "a string")
    while cursor.accept(","):
        cursor.expect("string", "a string")
    cursor.expect(";")


def read_location(cursor: Cursor, index: int) -> Location:
    """`.loc file line column`, the cursor after the directive; index: of the next item of the body.

    `function_name` and `inlined_at`, which say how the place was inlined, are read and dropped.
    """
    file, line, column = read_integer(cursor), read_integer(cursor), read_integer(cursor)
    while cursor.accept(","):
        word = cursor.expect("word", "function_name or inlined_at")
        if word == "function_name":
            cursor.expect("word", "a label of the debug section")
            if cursor.accept("+"):
                read_integer(cursor)
        elif word == "inlined_at":
            for _ in range(3):
                read_integer(cursor)
        else:
            cursor.index -= 1
            cursor.refuse("function_name or inlined_at")
    return Location(index, file, line, column)
