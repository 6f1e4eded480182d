"""How is a text of `ac` kernels read? Into modules of one kernel each, with the place of every operation.

xDSL's parser reads the dialect's form (`ir.ac.format`) and MLIR's generic one; every operation is verified against its
definition. A text that is not of the dialect is refused at the first place where that shows. Whether the protocol of
what was read is right is for `contract`.

Not handled: texts with other operations than modules and kernels at the top. Checked by:
tests/frontends/test_ac_reader.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.ir import context
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.text import TARGET_ATTRIBUTE
from tilewright.targets import target as target_named

_REMEDY = "write it as `tilewright compile --emit ac` does; docs/how-to/write-an-ac-kernel.md has an example"


@dataclass(frozen=True, slots=True)
class AcKernel:
    """A kernel, in a module of its own. place: of each of its operations, where it begins in the text."""

    name: str
    module: ModuleOp
    place: Callable[[Operation], Span]


@dataclass(frozen=True, slots=True)
class AcText:
    """target: the architecture that the text names, or ""; kernels: in the text's order."""

    target: str
    kernels: tuple[AcKernel, ...]


def read_ac(text: str, file: str) -> AcText:
    """The kernels of `text`. Raises TilewrightError, with line and column, where it is no text of the dialect."""
    lines = text.split("\n")

    def at(position: int) -> Span:
        position = min(position, len(text))
        line = text.count("\n", 0, position)
        return Span(file, line + 1, position - text.rfind("\n", 0, position), lines[line].rstrip())

    open_string = _open_string(text)
    if open_string is not None:
        raise TilewrightError("a string does not end on its line", span=at(open_string), remedy='close it with "')
    parser = _PlacingParser(context(), text, file)
    try:
        whole = parser.parse_module()
    except ParseError as error:
        message = error.msg.strip().split("\n")[0].rstrip("!.") or "not understood"
        if message == "in block definition":
            message = "expected an operation, or a closing }"
        # The lexer names a character by this word instead of by itself.
        message = message.replace("{first_char}", repr(text[error.span.start : error.span.start + 1]))
        raise TilewrightError(message, span=at(error.span.start), remedy=_REMEDY) from error
    except (VerifyException, ValueError) as error:
        raise TilewrightError(_first_line(error), span=at(parser.pos), remedy=_REMEDY) from error

    def place(op: Operation) -> Span:
        return at(parser.begins.get(op, 0))

    found = tuple(_kernels(whole, place))
    names: set[str] = set()
    for kernel in found:
        symbol = kernel.properties.get("sym_name")
        name = symbol.data if isinstance(symbol, StringAttr) else ""
        if name in names:
            raise TilewrightError(f"a second kernel is called {name}", span=place(kernel), remedy="rename one of them")
        names.add(name)
    for op in whole.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            message = f"{op.name} is malformed: {_first_line(error)}"
            raise TilewrightError(message, span=place(op), remedy=_REMEDY) from error
    kernels: list[AcKernel] = []
    for kernel in found:
        kernel.detach()
        kernels.append(AcKernel(kernel.sym_name.data, ModuleOp([kernel]), place))
    return AcText(_target(whole, place), tuple(kernels))


_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|(?P<open>")')


def _open_string(text: str) -> int | None:
    """Where a string begins that does not end on its line. xDSL's lexer takes exponential time over such a text."""
    for match in _STRING_OR_COMMENT.finditer(text):
        if match["open"]:
            return match.start()
    return None


class _PlacingParser(Parser):
    """A parser that remembers where each operation begins."""

    def __init__(self, ctx: Context, text: str, name: str) -> None:
        super().__init__(ctx, text, name)
        self.begins: dict[Operation, int] = {}

    def parse_operation(self) -> Operation:
        begin = self.pos
        op = super().parse_operation()
        self.begins[op] = begin
        return op


def _kernels(whole: ModuleOp, place: Callable[[Operation], Span]) -> Iterator[ac.KernelOp]:
    for op in whole.ops:
        if isinstance(op, ac.KernelOp):
            yield op
        elif isinstance(op, ModuleOp):
            yield from _kernels(op, place)
        else:
            raise TilewrightError(
                f"{op.name} stands outside a kernel", span=place(op), remedy="put it into the body of an ac.kernel"
            )


def _target(whole: ModuleOp, place: Callable[[Operation], Span]) -> str:
    """What the module names, or the modules in it, which must agree."""
    named: dict[str, None] = {}
    for op in whole.walk():
        if isinstance(op, ModuleOp) and TARGET_ATTRIBUTE in op.attributes:
            target = op.attributes[TARGET_ATTRIBUTE]
            if not isinstance(target, StringAttr):
                raise TilewrightError(
                    f"{TARGET_ATTRIBUTE} is no name", span=place(op), remedy=f'write {TARGET_ATTRIBUTE} = "sm_90a"'
                )
            try:
                target_named(target.data)
            except TilewrightError as error:
                raise TilewrightError(error.message, span=place(op), remedy=error.remedy) from None
            named[target.data] = None
            if len(named) > 1:
                raise TilewrightError(
                    f"modules name the targets {' and '.join(named)}", span=place(op), remedy="give one file for each"
                )
    return next(iter(named), "")


def _first_line(error: Exception) -> str:
    """What a verifier says, without the operation that it prints around it."""
    lines = [line.strip() for line in str(error).strip().split("\n") if line.strip()]
    return (lines[-1] if lines else type(error).__name__).lstrip("^-> ").strip()
