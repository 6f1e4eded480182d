"""What does a function's body say? Declarations, labels and instructions between `{` and `}`.

The body is read in one pass without recursion, so nesting costs no stack; instructions that name a label before it is
declared are replaced when the label turns out to have another flat name. A tolerant reader keeps an instruction that
the table lacks with an empty row, and passes over a directive that it does not know. Source: PTX ISA 9.1, PTX
Statements; Control Flow Directives. `.pragma` is read and dropped: it is a hint.
Checked by: tests/frontends/test_ptx_grammar.py, test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    BranchTable,
    CallPrototype,
    CallTargets,
    Guard,
    Instruction,
    Label,
    Location,
    Operand,
    Register,
    RegisterDeclaration,
    Symbol,
    TensorAddress,
    Unread,
    Variable,
    Vector,
)
from tilewright.frontends.ptx.constant import read_integer
from tilewright.frontends.ptx.declaration import read_parameters, read_registers, read_variables, space_of
from tilewright.frontends.ptx.lexer import END, STATEMENT, Cursor
from tilewright.frontends.ptx.operand import OperandReader
from tilewright.frontends.ptx.scope import Names
from tilewright.frontends.ptx.statement import SCALAR_ROWS, StatementReader, scalars
from tilewright.frontends.ptx.tuning import read_pragma, read_tuning
from tilewright.targets.ptx import OperandShape, check, instruction_row, is_known, later_target, try_check

_STATEMENT = frozenset({"word", "@", "{", "directive"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the module says of itself, and whether what is unknown is refused or kept as unknown."""

    version: tuple[int, int]
    target: tuple[str, ...]
    tolerant: bool


@dataclass(frozen=True, slots=True)
class Body:
    """What stands between a function's braces, in one flat namespace."""

    registers: tuple[RegisterDeclaration, ...]
    variables: tuple[Variable, ...]
    items: tuple[Instruction | Label, ...]
    locations: tuple[Location, ...]
    branch_tables: tuple[BranchTable, ...]
    prototypes: tuple[CallPrototype, ...]
    call_targets: tuple[CallTargets, ...]
    unread: tuple[Unread, ...]


def read_body(
    cursor: Cursor, symbols: Mapping[str, Symbol], parameters: Mapping[str, Symbol | Register], dialect: Dialect
) -> Body:
    """The body at the cursor's `{`. symbols: what the module declares; parameters: what the parameter lists do.

    Raises TilewrightError at the first thing that PTX does not allow or, if strict, that Tilewright does not know.
    """
    return _BodyReader(cursor, Names(symbols, parameters, cursor.span()), dialect).read()


def _row_of(dialect: Dialect, opcode: str, shapes: tuple[OperandShape, ...], span: Span) -> tuple[str, tuple[str, ...]]:
    """The key of an instruction's row and its modifiers; an empty key for what a tolerant reader does not know."""
    if dialect.tolerant:
        found = try_check(opcode, shapes)
        if found is not None and (needed := later_target(opcode, shapes, dialect.target)):
            raise TilewrightError(
                f"{opcode} does not exist for {', '.join(dialect.target)}",
                span=span,
                remedy=f"it needs .target {needed} or later",
            )
        return found or ("", tuple(opcode.split(".")[1:]))
    row, modifiers = check(opcode, shapes, dialect.version, dialect.target, span)
    return row.key, modifiers


class _BodyReader:
    def __init__(self, cursor: Cursor, names: Names, dialect: Dialect) -> None:
        self.cursor = cursor
        self.dialect = dialect
        self.names = names
        self.row = partial(_row_of, dialect)
        self.registers: list[RegisterDeclaration] = []
        self.variables: list[Variable] = []
        self.items: list[Instruction | Label] = []
        self.locations: list[Location] = []
        self.tables: list[BranchTable] = []
        self.prototypes: list[CallPrototype] = []
        self.call_targets: list[CallTargets] = []
        self.unread: list[Unread] = []
        # Items that name what was not declared when they were read: no others can name labels.
        noted: set[int] = set()
        self.noted = noted
        # New names of labels, by the index of the item or the branch table that uses the old ones.
        renamed: dict[int, dict[str, str]] = {}
        self.renamed_items = renamed
        self.renamed_tables: dict[int, dict[str, str]] = {}
        items = self.items

        def note(name: str, index: int) -> None:
            """An operand of the instruction now being read names something that is not declared yet."""
            position = len(items)
            noted.add(position)

            def patch(old: str, new: str) -> None:
                renamed.setdefault(position, {})[old] = new

            names.use(name, cursor.span(index), patch)

        # These do not know the reader, so that it is freed with all that it read without a search for circles.
        self.operands = OperandReader(cursor, names, note)
        self.statements = StatementReader(self.operands, self.row)

    def read(self) -> Body:
        cursor, names = self.cursor, self.names
        cursor.expect("{", "`{` and the body")
        while names.depth:
            kind = cursor.kind
            if kind == STATEMENT:
                self._plain_statements()
            elif kind == "word":
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
        self._rename()
        self._check_branches()
        return Body(
            tuple(self.registers),
            tuple(self.variables),
            tuple(self.items),
            tuple(self.locations),
            tuple(self.tables),
            tuple(self.prototypes),
            tuple(self.call_targets),
            tuple(self.unread),
        )

    # Instructions

    def _plain_statements(self) -> None:
        """The statements at the cursor that the lexer gives as one token each."""
        cursor = self.cursor
        kinds, end = cursor.kinds, cursor.index + 1
        while kinds[end] == STATEMENT:
            end += 1
        self.statements.read(cursor.index, end, self.items.append)
        cursor.index = end

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
        if cursor.kind == "directive":
            parts = [opcode]
            while cursor.kind == "directive":
                parts.append(cursor.take())
            opcode = "".join(parts)
        operands: tuple[Operand, ...] = ()
        shapes: tuple[OperandShape, ...] = ()
        if self.dialect.tolerant and not is_known(opcode):
            try:
                operands, _ = self._operands(opcode, span)
            except TilewrightError:
                # Its operands may be written in a way that does not exist yet.
                while cursor.kind not in (";", "{", "}", END):
                    cursor.take()
                if cursor.kind != ";":
                    raise
        else:
            operands, shapes = self._operands(opcode, span)
        cursor.take()
        row, modifiers = self.row(opcode, shapes, span)
        if row in SCALAR_ROWS:
            operands = scalars(operands)
        self.items.append(Instruction(opcode, row, modifiers, operands, guard, span))

    def _operands(self, opcode: str, span: Span) -> tuple[tuple[Operand, ...], tuple[OperandShape, ...]]:
        """The operands up to the `;`, which is left."""
        cursor = self.cursor
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
        return tuple(operands), tuple(shapes)

    def _rename(self) -> None:
        """Give every use of a label the label's flat name."""
        for position, names in self.renamed_items.items():
            item = self.items[position]
            assert isinstance(item, Instruction)
            operands = tuple(_renamed(operand, names) for operand in item.operands)
            self.items[position] = replace(item, operands=operands)
        for position, names in self.renamed_tables.items():
            table = self.tables[position]
            self.tables[position] = replace(table, labels=tuple(names.get(label, label) for label in table.labels))

    def _check_branches(self) -> None:
        """Every `bra` goes to a label, every `brx.idx` through a table of labels."""
        labels = {item.name for item in self.items if isinstance(item, Label)}
        tables = {table.name for table in self.tables}
        for table in self.tables:
            for name in table.labels:
                if name not in labels:
                    raise TilewrightError(f"{name} is not a label", span=table.span, remedy="list labels of this body")
        for position, item in enumerate(self.items):
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
            elif position in self.noted and item.row and not labels.isdisjoint(
                name for operand in item.operands for name in _symbols(operand)
            ):  # fmt: skip
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
        elif cursor.at(".callprototype"):
            cursor.take()
            self._prototype(unique, span)
        elif cursor.at(".calltargets"):
            cursor.take()
            self._call_targets(unique, span)
        else:
            self.items.append(Label(unique, span))

    def _branch_table(self, name: str, span: Span) -> None:
        cursor, position = self.cursor, len(self.tables)
        labels: list[str] = []
        renamed = self.renamed_tables

        def patch(old: str, new: str) -> None:
            renamed.setdefault(position, {})[old] = new

        while True:
            place = cursor.span()
            labels.append(cursor.expect("word", "a label"))
            self.names.use(labels[-1], place, patch, is_label=True)
            if not cursor.accept(","):
                break
        cursor.expect(";", "`,` or `;` after a label")
        self.tables.append(BranchTable(name, tuple(labels), span))

    def _prototype(self, name: str, span: Span) -> None:
        """`(results) _ (parameters) .noreturn;`: the name in the middle means nothing."""
        cursor = self.cursor
        results = read_parameters(cursor) if cursor.kind == "(" else ()
        cursor.expect("word", "`_`")
        parameters = read_parameters(cursor) if cursor.kind == "(" else ()
        directives = read_tuning(cursor, self.unread if self.dialect.tolerant else None)
        cursor.expect(";")
        self.prototypes.append(CallPrototype(name, results, parameters, directives, span))

    def _call_targets(self, name: str, span: Span) -> None:
        cursor = self.cursor
        functions: list[str] = []
        while True:
            place = cursor.span()
            functions.append(cursor.expect("word", "a function's name"))
            self.names.use(functions[-1], place, _keep)
            if not cursor.accept(","):
                break
        cursor.expect(";", "`,` or `;` after a function's name")
        self.call_targets.append(CallTargets(name, tuple(functions), span))

    def _directive(self) -> None:
        cursor, names = self.cursor, self.names
        index, word = cursor.index, cursor.take()
        if word == ".loc":
            location = read_location(cursor, len(self.items))
            # Inside inline assembly LLVM counts lines of the assembly's text on from the statement's line, which are no
            # lines of the program; behind it, the `.loc` from before is in force for LLVM, which does not repeat it.
            if not cursor.in_inline_assembly(index):
                self.locations.append(location)
        elif word == ".reg":
            self.registers.append(read_registers(cursor, names.declare_registers, names.declare_vector))
        elif (space := space_of(word)) is not None:
            if space in ("const", "tex"):
                cursor.fail(f".{space} variables stand outside functions", "move it to the top of the module", index)
            self.variables += read_variables(cursor, space, "", names.declare_variable)
        elif word == ".pragma":
            read_pragma(cursor)
        elif self.dialect.tolerant:
            self.unread.append(cursor.pass_over(index, _STATEMENT))
        else:
            cursor.fail(f"{word} is not a directive that Tilewright knows in a body", "see PTX ISA, Directives", index)


def _keep(old: str, new: str) -> None:
    """A function's name is the module's, and stays; a label of the same name cannot be called."""


def _symbols(operand: Operand) -> tuple[str, ...]:
    """The names of the symbols in an operand."""
    match operand:
        case Symbol(name) | Address(Symbol(name)) | TensorAddress(Address(Symbol(name))):
            return (name,)
        case Vector(items) | Arguments(items):
            return tuple(item.name for item in items if isinstance(item, Symbol))
        case _:
            return ()


def _renamed(operand: Operand, names: dict[str, str]) -> Operand:
    """The operand with its symbols called by their new names."""
    match operand:
        case Symbol(name):
            return Symbol(names.get(name, name))
        case Address(Symbol(name)):
            return replace(operand, base=Symbol(names.get(name, name)))
        case TensorAddress(base, _, sampler):
            renamed = replace(operand, base=_renamed_address(base, names))
            return renamed if sampler is None else replace(renamed, sampler=_renamed_address(sampler, names))
        case Vector(items) | Arguments(items):
            return replace(operand, items=tuple(_renamed(item, names) for item in items))
        case _:
            return operand


def _renamed_address(address: Address, names: dict[str, str]) -> Address:
    base = address.base
    return replace(address, base=Symbol(names.get(base.name, base.name))) if isinstance(base, Symbol) else address


def read_location(cursor: Cursor, index: int) -> Location:
    """`.loc file line column`, the cursor after the directive; index: of the next item of the body.

    `function_name` names a label of a debug section, with or without a distance: `label` or `label+distance`.
    """
    inlined_at: tuple[int, int, int] | None = None
    function = ""
    file, line, column = read_integer(cursor), read_integer(cursor), read_integer(cursor)
    while cursor.accept(","):
        word = cursor.expect("word", "function_name or inlined_at")
        if word == "function_name":
            function = cursor.expect("word", "a label of the debug section")
            if cursor.accept("+"):
                function += f"+{read_integer(cursor)}"
        elif word == "inlined_at":
            inlined_at = (read_integer(cursor), read_integer(cursor), read_integer(cursor))
        else:
            cursor.index -= 1
            cursor.refuse("function_name or inlined_at")
    return Location(index, file, line, column, inlined_at, function)
