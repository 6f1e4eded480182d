"""What does a PTX text say? `read` makes a `Module` of it, or refuses it at the first thing that it does not know.

Nothing is skipped in silence: an unknown directive, instruction or modifier, a wrong number or kind of operands, an
undeclared or twice declared name, a file that ends too early are all errors with a place and a remedy. A tolerant
reader keeps what is new to it instead, marked: an instruction without a row, a directive in `Module.unread`; and it
does not ask whether the module's version and target have an instruction. Dropped, because they carry no meaning here:
comments, `.pragma`, DWARF `.section`s but for the names of inlined functions, `@@DWARF` lines, the settings of textures
and samplers. Source: PTX ISA 9.1, Directives. `writer` prints a module again; tests check that what it prints reads as
the same module, and ptxas assembles the samples.
"""

from __future__ import annotations

from tilewright.base.collector import collector_paused
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import (
    Alias,
    Function,
    Kernel,
    Module,
    Parameter,
    Register,
    Symbol,
    Unread,
    Variable,
)
from tilewright.frontends.ptx.body import Body, Dialect, read_body
from tilewright.frontends.ptx.constant import read_integer
from tilewright.frontends.ptx.debug_strings import DebugStrings
from tilewright.frontends.ptx.declaration import read_attributes, read_parameters, read_variables, space_of
from tilewright.frontends.ptx.lexer import END, Cursor
from tilewright.frontends.ptx.tuning import read_pragma, read_tuning

_LINKAGE = (".visible", ".extern", ".weak", ".common")
_TOP_LEVEL = frozenset({"directive", "@"})


@collector_paused()
def read(text: str, file: str = "<ptx>", *, tolerant: bool = False) -> Module:
    """The module that `text` spells. file: its name, for spans.

    tolerant: keep instructions and directives that Tilewright does not know, marked as such (see `Instruction.row` and
    `Module.unread`), and leave the module's version and target unchecked. Raises TilewrightError, with the place and a
    remedy, for anything that is not PTX or, unless tolerant, that Tilewright does not know.
    """
    try:
        return _ModuleReader(Cursor(text, file, statements=True), tolerant).read()
    except TilewrightError:
        return read_tokens(text, file, tolerant=tolerant)


def read_tokens(text: str, file: str = "<ptx>", *, tolerant: bool = False) -> Module:
    """The same, token by token: slower, and what is refused is refused at its token."""
    return _ModuleReader(Cursor(text, file), tolerant).read()


class _ModuleReader:
    def __init__(self, cursor: Cursor, tolerant: bool) -> None:
        self.cursor = cursor
        self.tolerant = tolerant
        self.version = (0, 0)
        self.target: tuple[str, ...] = ()
        self.address_size = 32
        self.symbols: dict[str, Symbol] = {}
        self.defined: set[str] = set()
        self.variable_names: set[str] = set()
        self.function_names: set[str] = set()
        self.variables: list[Variable] = []
        self.kernels: list[Kernel] = []
        self.functions: list[Function] = []
        self.aliases: list[Alias] = []
        self.files: dict[int, str] = {}
        self.unread: list[Unread] = []
        self.debug_strings = DebugStrings()

    def read(self) -> Module:
        cursor = self.cursor
        self._head()
        while cursor.kind != END:
            if cursor.kind == "@" and cursor.texts[cursor.index + 1 : cursor.index + 3] == ["@", "DWARF"]:
                self._dwarf_line()
                continue
            if cursor.kind != "directive":
                cursor.refuse("a directive such as .visible or .entry")
            self._top_level()
        self._check_references()
        return Module(
            self.version,
            self.target,
            self.address_size,
            tuple(self.variables),
            tuple(self.kernels),
            self.files,
            tuple(self.functions),
            tuple(self.aliases),
            tuple(self.unread),
            self.debug_strings.names(self.kernels, self.functions),
        )

    def _head(self) -> None:
        cursor = self.cursor
        if not cursor.at(".version"):
            cursor.refuse("`.version` at the start of the module", "give PTX, as compilers write it")
        cursor.take()
        index = cursor.index
        major, dot, minor = cursor.expect("float", "a version such as 8.0").partition(".")
        if not (dot and major.isdigit() and minor.isdigit() and len(major + minor) < 6):
            cursor.fail(f"{cursor.texts[index]} is not a PTX version", "write it as 8.0", index)
        self.version = (int(major), int(minor))
        if not cursor.at(".target"):
            cursor.refuse("`.target` after `.version`")
        cursor.take()
        index = cursor.index
        names = [cursor.expect("word", "a target such as sm_90a")]
        while cursor.accept(","):
            names.append(cursor.expect("word", "a target"))
        if not names[0].startswith("sm_"):
            cursor.fail(f"{names[0]} is not an architecture", "name one such as sm_90a first", index)
        # `debug` says that DWARF sections follow; they are dropped, and so is it.
        self.target = tuple(name for name in names if name != "debug")
        if cursor.at(".address_size"):
            cursor.take()
            index = cursor.index
            self.address_size = read_integer(cursor)
            if self.address_size not in (32, 64):
                cursor.fail(f"an address of {self.address_size} bits", "write .address_size 64", index)

    def _top_level(self) -> None:
        cursor = self.cursor
        index, span, word = cursor.index, cursor.span(), cursor.take()
        linkage = ""
        if word in _LINKAGE:
            linkage = word[1:]
            if cursor.kind != "directive":
                cursor.refuse("`.entry`, `.func` or a state space")
            index, word = cursor.index, cursor.take()
        if word == ".entry":
            self._kernel(linkage, span)
        elif word == ".func":
            self._function(linkage, span)
        elif (space := space_of(word)) is not None and space not in ("param", "local"):
            found = read_variables(cursor, space, linkage, self._declare)
            self.variables += found
        elif linkage and not self.tolerant:
            cursor.fail(f".{linkage} cannot stand before {word}", "it takes .entry, .func or a state space", index)
        elif word == ".file":
            self._file()
        elif word == ".section":
            self._section()
        elif word == ".pragma":
            read_pragma(cursor)
        elif word == ".alias":
            self._alias(span)
        elif self.tolerant:
            self.unread.append(cursor.pass_over(index, _TOP_LEVEL))
        else:
            cursor.fail(f"{word} is not a directive that Tilewright knows here", "see PTX ISA, Directives", index)

    def _declare(self, name: str, span: Span) -> str:
        if name in self.symbols:
            self.cursor.fail(f"{name} is declared twice in the module", "rename one of the two", self.cursor.index - 1)
        self.symbols[name] = Symbol(name)
        self.variable_names.add(name)
        return name

    # Functions

    def _name(self, what: str) -> str:
        """The name of a kernel or function; a declaration may be followed by its definition, once."""
        cursor = self.cursor
        index = cursor.index
        name = cursor.expect("word", f"a {what}'s name")
        if "." in name or name == "_":
            cursor.fail(f"{name} cannot be a {what}'s name", "a name has no dots", index)
        if name in self.defined or name in self.variable_names:
            cursor.fail(f"{name} is declared twice in the module", "rename one of the two", index)
        self.symbols[name] = Symbol(name)
        return name

    def _kernel(self, linkage: str, span: Span) -> None:
        cursor = self.cursor
        name = self._name("kernel")
        parameters = read_parameters(cursor, registers=False) if cursor.kind == "(" else ()
        directives = self._tuning()
        if cursor.kind == ";":
            # A declaration says nothing that the definition does not say again.
            if linkage != "extern" and not self.tolerant:
                cursor.fail(f"kernel {name} has no body", "Tilewright reads whole kernels: remove the declaration")
            cursor.take()
            return
        self.defined.add(name)
        body = self._body(parameters)
        self.kernels.append(
            Kernel(
                name,
                parameters,
                directives,
                body.registers,
                body.variables,
                body.items,
                span,
                body.locations,
                body.branch_tables,
                linkage,
                body.prototypes,
                body.call_targets,
            )
        )

    def _function(self, linkage: str, span: Span) -> None:
        cursor = self.cursor
        if cursor.at(".attribute"):
            # An address that several programs share: nothing that the function does.
            cursor.take()
            read_attributes(cursor)
        results = read_parameters(cursor) if cursor.kind == "(" else ()
        name = self._name("function")
        self.function_names.add(name)
        parameters = read_parameters(cursor) if cursor.kind == "(" else ()
        directives = self._tuning()
        if cursor.accept(";"):
            self.functions.append(Function(name, results, parameters, directives, (), (), None, span, linkage=linkage))
            return
        self.defined.add(name)
        body = self._body((*results, *parameters))
        self.functions.append(
            Function(
                name,
                results,
                parameters,
                directives,
                body.registers,
                body.variables,
                body.items,
                span,
                body.locations,
                body.branch_tables,
                linkage,
                body.prototypes,
                body.call_targets,
            )
        )

    def _tuning(self) -> dict[str, tuple[int, ...]]:
        return read_tuning(self.cursor, self.unread if self.tolerant else None)

    def _body(self, parameters: tuple[Parameter, ...]) -> Body:
        dialect = Dialect(self.version, self.target, self.tolerant)
        body = read_body(self.cursor, self.symbols, self._declared(parameters), dialect)
        self.unread += body.unread
        return body

    def _declared(self, parameters: tuple[Parameter, ...]) -> dict[str, Symbol | Register]:
        found: dict[str, Symbol | Register] = {}
        for parameter in parameters:
            name = parameter.name
            if name in found and name != "_":
                raise TilewrightError(
                    f"parameter {name} is declared twice", span=parameter.span, remedy="rename one of the two"
                )
            found[name] = Register(name) if parameter.space == "reg" else Symbol(name)
        return found

    def _alias(self, span: Span) -> None:
        """`.alias name, aliasee;`: both are functions that have been declared."""
        cursor = self.cursor
        index = cursor.index
        name = cursor.expect("word", "a function's name")
        cursor.expect(",")
        aliasee = cursor.expect("word", "the function that it stands for")
        cursor.expect(";")
        for word, place in ((name, index), (aliasee, index + 2)):
            if word not in self.function_names:
                cursor.fail(f"{word} is not a function", "declare it with .func before its alias", place)
        self.aliases.append(Alias(name, aliasee, span))

    def _check_references(self) -> None:
        """Every address in an initial value is a variable's, a function's or a kernel's."""
        for variable in self.variables:
            for relocation in variable.relocations:
                if relocation.symbol not in self.symbols:
                    raise TilewrightError(
                        f"{relocation.symbol} is not declared", span=variable.span, remedy="declare it in the module"
                    )

    # Debug data

    def _file(self) -> None:
        """`.file 1 "name"`, with or without a timestamp and a size."""
        cursor = self.cursor
        number = read_integer(cursor)
        self.files[number] = cursor.expect("string", "a file's name")[1:-1]
        while cursor.accept(","):
            read_integer(cursor)

    def _dwarf_line(self) -> None:
        """`@@DWARF .byte 1, 2`: debug data of old compilers, one line each."""
        cursor = self.cursor
        cursor.take()
        while not cursor.starts_line(cursor.index) and cursor.kind != END:
            cursor.take()

    def _section(self) -> None:
        """`.section .debug_str { ... }`: bytes, numbers and labels, which are dropped, but for the strings' names."""
        cursor = self.cursor
        names = cursor.text == ".debug_str"
        if not cursor.accept("directive"):
            cursor.refuse("a section's name")
        cursor.expect("{")
        begin = cursor.index
        while cursor.kind != "}":
            if cursor.kind not in ("directive", "word", "integer", "float", "-", "+", ",", ":", "string"):
                cursor.refuse("debug data, or `}` at the section's end")
            cursor.take()
        if names:
            self.debug_strings.take(cursor.kinds[begin : cursor.index], cursor.texts[begin : cursor.index])
        cursor.take()
