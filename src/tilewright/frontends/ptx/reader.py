"""What does a PTX text say? `read` makes a `Module` of it, or refuses it at the first thing that it does not know.

Nothing is skipped in silence: an unknown directive, instruction or modifier, a wrong number or kind of operands, an
undeclared or twice declared name, a file that ends too early are all errors with a place and a remedy. Dropped, because
they carry no meaning: comments, `.pragma`, DWARF `.section`s, what `.ptr` says of a parameter. Source: PTX ISA 8.8,
Directives. Not handled, and refused: `.alias`, `.attribute`, textures, `.func` parameters in registers. `writer` prints
a module again; tests check that what it prints reads as the same module, and ptxas assembles the samples.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Function, Kernel, Module, Parameter, Symbol, Variable
from tilewright.frontends.ptx.body import read_body, read_pragma
from tilewright.frontends.ptx.constant import read_integer
from tilewright.frontends.ptx.declaration import read_parameters, read_variables, space_of
from tilewright.frontends.ptx.lexer import END, Cursor

_LINKAGE = (".visible", ".extern", ".weak", ".common")
_TUNING = {
    ".reqntid": 3,
    ".maxntid": 3,
    ".minnctapersm": 1,
    ".maxnctapersm": 1,
    ".maxnreg": 1,
    ".reqnctapercluster": 3,
    ".explicitcluster": 0,
    ".maxclusterrank": 1,
    ".noreturn": 0,
}


def read(text: str, file: str = "<ptx>") -> Module:
    """The module that `text` spells. file: its name, for spans.

    Raises TilewrightError, with the place and a remedy, for anything that is not PTX or that Tilewright does not know.
    """
    return _ModuleReader(Cursor(text, file)).read()


class _ModuleReader:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.version = (0, 0)
        self.target: tuple[str, ...] = ()
        self.address_size = 32
        self.symbols: dict[str, Symbol] = {}
        self.defined: set[str] = set()
        self.variables: list[Variable] = []
        self.kernels: list[Kernel] = []
        self.functions: list[Function] = []
        self.files: dict[int, str] = {}

    def read(self) -> Module:
        cursor = self.cursor
        self._head()
        while cursor.kind != END:
            if cursor.kind != "directive":
                cursor.refuse("a directive such as .visible or .entry")
            self._top_level()
        return Module(
            self.version,
            self.target,
            self.address_size,
            tuple(self.variables),
            tuple(self.kernels),
            self.files,
            tuple(self.functions),
        )

    def _head(self) -> None:
        cursor = self.cursor
        if not cursor.at(".version"):
            cursor.refuse("`.version` at the start of the module")
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
        elif linkage:
            cursor.fail(f".{linkage} cannot stand before {word}", "it takes .entry, .func or a state space", index)
        elif word == ".file":
            self._file()
        elif word == ".section":
            self._section()
        elif word == ".pragma":
            read_pragma(cursor)
        else:
            cursor.fail(f"{word} is not a directive that Tilewright knows here", "see PTX ISA, Directives", index)

    def _declare(self, name: str, span: Span) -> str:
        if name in self.symbols:
            self.cursor.fail(f"{name} is declared twice in the module", "rename one of the two", self.cursor.index - 1)
        self.symbols[name] = Symbol(name)
        return name

    # Functions

    def _name(self, what: str) -> str:
        """The name of a kernel or function; a declaration may be followed by its definition, once."""
        cursor = self.cursor
        index = cursor.index
        name = cursor.expect("word", f"a {what}'s name")
        if "." in name or name == "_":
            cursor.fail(f"{name} cannot be a {what}'s name", "a name has no dots", index)
        if name in self.defined or any(variable.name == name for variable in self.variables):
            cursor.fail(f"{name} is declared twice in the module", "rename one of the two", index)
        self.symbols[name] = Symbol(name)
        return name

    def _tuning(self) -> dict[str, tuple[int, ...]]:
        """Performance directives between a function's head and its body."""
        cursor = self.cursor
        found: dict[str, tuple[int, ...]] = {}
        while cursor.kind == "directive":
            index, word = cursor.index, cursor.take()
            if word == ".pragma":
                read_pragma(cursor)
                continue
            if word not in _TUNING:
                cursor.fail(f"{word} is not a directive that Tilewright knows here", "see PTX ISA, Directives", index)
            if word[1:] in found:
                cursor.fail(f"{word} is given twice", "remove one", index)
            values: list[int] = []
            if _TUNING[word]:
                values.append(read_integer(cursor))
                while len(values) < _TUNING[word] and cursor.accept(","):
                    values.append(read_integer(cursor))
                if min(values) < 0:
                    cursor.fail(f"{word} {min(values)} is negative", "give a positive number", index)
            found[word[1:]] = tuple(values)
        return found

    def _kernel(self, linkage: str, span: Span) -> None:
        cursor = self.cursor
        name = self._name("kernel")
        parameters = read_parameters(cursor) if cursor.kind == "(" else ()
        directives = self._tuning()
        if cursor.kind == ";":
            cursor.fail(f"kernel {name} has no body", "Tilewright reads whole kernels: remove the declaration")
        self.defined.add(name)
        body = read_body(cursor, self._outer(parameters), self.version, self.target)
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
            )
        )

    def _function(self, linkage: str, span: Span) -> None:
        cursor = self.cursor
        results = read_parameters(cursor) if cursor.kind == "(" else ()
        name = self._name("function")
        parameters = read_parameters(cursor) if cursor.kind == "(" else ()
        directives = self._tuning()
        if cursor.accept(";"):
            self.functions.append(Function(name, results, parameters, directives, (), (), None, span, linkage=linkage))
            return
        self.defined.add(name)
        body = read_body(cursor, self._outer((*results, *parameters)), self.version, self.target)
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
            )
        )

    def _outer(self, parameters: tuple[Parameter, ...]) -> dict[str, Symbol]:
        outer = dict(self.symbols)
        names = [parameter.name for parameter in parameters]
        for index, name in enumerate(names):
            if name in names[:index] and name != "_":
                raise TilewrightError(
                    f"parameter {name} is declared twice", span=parameters[index].span, remedy="rename one of the two"
                )
            outer[name] = Symbol(name)
        return outer

    # Debug data

    def _file(self) -> None:
        """`.file 1 "name"`, with or without a timestamp and a size."""
        cursor = self.cursor
        number = read_integer(cursor)
        self.files[number] = cursor.expect("string", "a file's name")[1:-1]
        while cursor.accept(","):
            read_integer(cursor)

    def _section(self) -> None:
        """`.section .debug_str { ... }`: bytes, numbers and labels, which are dropped."""
        cursor = self.cursor
        if not cursor.accept("directive"):
            cursor.refuse("a section's name")
        cursor.expect("{")
        while not cursor.accept("}"):
            if cursor.kind not in ("directive", "word", "integer", "float", "-", "+", ",", ":", "string"):
                cursor.refuse("debug data, or `}` at the section's end")
            cursor.take()
