"""How is MLIR text read without knowing its dialects?

Printed forms differ from op to op, but all share a frame: results and `=`, the op's name, anything with balanced
brackets, dictionaries in braces, regions in braces, types after a colon, a location. An op ends where a line begins
with something that can't continue it. A brace opens a region if what follows it stands on a line of its own, begins a
block, or names results; else it opens a dictionary. Blocks with branches between them are read in order and counted.

Not handled: ops that print bare words at the beginning of a line (none of the dialects that are followed does).
Checked by: tests/frontends/test_mlir_reader.py (every op of a text is found at its line, damaged texts are refused).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.mlir.ast import Argument, Document, Operation, Region, Token
from tilewright.frontends.mlir.lexer import tokens_of

_OPENING = {"(": ")", "[": "]", "<": ">", "{": "}"}
_CLOSING = frozenset(_OPENING.values())
_BARE_OPERATIONS = frozenset({"return", "module", "func"})
_NESTING_MAX = 200


def read_mlir(text: str, file: str) -> Document:
    """The operations of `text`. Raises TilewrightError, with the line, where it is no MLIR."""
    reader = _Reader(tokens_of(text, file), file)
    operations: list[Operation] = []
    while reader.position < len(reader.tokens):
        token = reader.peek()
        if token.kind in ("attribute", "type") and reader.text_at(1) == "=":
            reader.alias()
        else:
            operations.append(reader.operation())
    return Document(tuple(operations), reader.aliases)


def joined(tokens: tuple[Token, ...] | list[Token]) -> str:
    """The text of tokens, without blanks, but for one between two words."""
    parts: list[str] = []
    before = ""
    for token in tokens:
        if before in ("word", "number") and token.kind in ("word", "number"):
            parts.append(" ")
        parts.append({"value": "%", "block": "^", "symbol": "@"}.get(token.kind, "") + token.text)
        before = token.kind
    return "".join(parts)


class _Reader:
    """Where reading stands in the tokens; aliases as they turn up."""

    def __init__(self, tokens: list[Token], file: str) -> None:
        self.tokens = tokens
        self.file = file
        self.position = 0
        self.depth = 0
        self.aliases: dict[str, str] = {}

    # ------------------------------------------------------------ tokens

    def peek(self, ahead: int = 0) -> Token:
        if self.position + ahead >= len(self.tokens):
            raise self.fault("the text ends in the middle")
        return self.tokens[self.position + ahead]

    def text_at(self, ahead: int) -> str:
        index = self.position + ahead
        return self.tokens[index].text if index < len(self.tokens) else ""

    def take(self) -> Token:
        token = self.peek()
        self.position += 1
        return token

    def expect(self, text: str) -> Token:
        token = self.take()
        if token.text != text:
            raise self.fault(f"{text!r} is expected, not {token.text!r}", token)
        return token

    def fault(self, message: str, token: Token | None = None) -> TilewrightError:
        if token is None and self.tokens:
            token = self.tokens[min(self.position, len(self.tokens) - 1)]
        line = token.line if token is not None else 1
        return TilewrightError(message, span=Span(self.file, line), remedy="give MLIR in its printed form")

    def balanced(self) -> list[Token]:
        """From an opening bracket to the one that closes it, both included."""
        taken = [self.take()]
        open_marks = [_OPENING[taken[0].text]]
        while open_marks:
            token = self.take()
            taken.append(token)
            if token.kind != "mark":
                continue
            if token.text in _OPENING:
                open_marks.append(_OPENING[token.text])
            elif token.text in _CLOSING and token.text != open_marks.pop():
                raise self.fault(f"{token.text!r} closes nothing that is open", token)
        return taken

    # ------------------------------------------------------------ structure

    def alias(self) -> None:
        name = self.take().text
        self.take()
        value: list[Token] = []
        while self.position < len(self.tokens) and not self.peek().first:
            token = self.peek()
            value += self.balanced() if token.kind == "mark" and token.text in _OPENING else [self.take()]
        self.aliases[name] = self.typed(value)

    def typed(self, tokens: list[Token]) -> str:
        """The text of types, with what the names of types stand for."""
        return joined(self.named(tokens))

    def named(self, tokens: Iterable[Token]) -> tuple[Token, ...]:
        """Tokens, with what the names of types stand for."""
        return tuple(
            replace(each, text=self.aliases[each.text]) if each.kind == "type" and each.text in self.aliases else each
            for each in tokens
        )

    def operation(self) -> Operation:
        begin = self.peek()
        results = self.results()
        name = self.take()
        if name.kind not in ("word", "string"):
            raise self.fault(f"{name.text!r} is no operation", name)
        tokens: list[Token] = []
        attributes: dict[str, str] = {}
        regions: list[Region] = []
        location = ""
        header = 0
        while self.position < len(self.tokens):
            token = self.peek()
            if self.ends_operation(token):
                break
            if token.text == "loc" and self.text_at(1) == "(":
                self.take()
                location = joined(self.balanced()[1:-1])
            elif token.text == "{" and token.kind == "mark":
                if self.opens_region():
                    regions.append(self.region(*self.region_head(tokens, header)))
                    header = len(tokens)
                else:
                    attributes |= self.dictionary()
            elif token.text in _OPENING and token.kind == "mark":
                self.bracket(tokens, attributes, regions)
            elif token.text in _CLOSING and token.kind == "mark":
                raise self.fault(f"{token.text!r} closes nothing that is open", token)
            else:
                tokens.append(self.take())
        before, after = _split_types(tokens)
        types, before = self.typed(after), self.named(before)
        plain = name.text.strip('"')
        return Operation(plain, results, before, types, begin.line, attributes, tuple(regions), location)

    def results(self) -> tuple[str, ...]:
        names: list[str] = []
        if self.peek().kind != "value":
            return ()
        while True:
            token = self.take()
            if token.kind != "value":
                raise self.fault(f"{token.text!r} is no result", token)
            if self.peek().text == ":":
                self.take()
                count = self.take()
                if not count.text.isdigit() or int(count.text) > 10_000:
                    raise self.fault(f"{count.text!r} is no number of results", count)
                names += [f"{token.text}#{index}" for index in range(int(count.text))]
            else:
                names.append(token.text)
            if self.take().text == "=":
                return tuple(names)

    def ends_operation(self, token: Token) -> bool:
        if token.kind == "mark" and token.text == "}":
            return True
        if not token.first:
            return False
        match token.kind:
            case "block" | "string":
                return True
            case "value":
                return self.names_results()
            case "attribute" | "type":
                return self.text_at(1) == "="
            case "word":
                return "." in token.text or token.text in _BARE_OPERATIONS
            case _:
                return False

    def names_results(self) -> bool:
        """Do results and `=` stand here? Else a list of operands goes on."""
        ahead = 0
        while self.position + ahead + 1 < len(self.tokens) and self.peek(ahead).kind == "value":
            ahead += 3 if self.text_at(ahead + 1) == ":" else 1
            if self.text_at(ahead) != ",":
                return self.text_at(ahead) == "="
            ahead += 1
        return False

    def opens_region(self) -> bool:
        """Does the brace here open a region?"""
        following = self.peek(1)
        if following.kind in ("value", "block"):
            return True
        if following.text == "}":
            return following.first
        return following.first and not (following.kind in ("word", "string") and self.text_at(2) in ("=", ","))

    def bracket(self, tokens: list[Token], attributes: dict[str, str], regions: list[Region]) -> None:
        """A bracket among an operation's tokens: what is in it is kept, but for regions, dictionaries and places."""
        self.depth += 1
        if self.depth > _NESTING_MAX:
            raise self.fault("brackets are nested too deeply")
        opening = self.take()
        tokens.append(opening)
        close = _OPENING[opening.text]
        while True:
            token = self.peek()
            if token.text == "loc" and self.text_at(1) == "(":
                self.take()
                self.balanced()
            elif token.kind == "mark" and token.text == "{":
                if self.opens_region():
                    regions.append(self.region("", (), ""))
                else:
                    inner = self.dictionary()
                    if opening.text == "<" and len(tokens) == 1:
                        attributes |= inner
            elif token.kind == "mark" and token.text in _OPENING:
                self.bracket(tokens, attributes, regions)
            elif token.kind == "mark" and token.text in _CLOSING:
                if token.text != close:
                    raise self.fault(f"{token.text!r} closes nothing that is open", token)
                tokens.append(self.take())
                self.depth -= 1
                return
            else:
                tokens.append(self.take())

    def dictionary(self) -> dict[str, str]:
        inner = self.balanced()[1:-1]
        entries: list[list[Token]] = [[]]
        depth = 0
        for token in inner:
            if token.kind == "mark":
                depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if token.text == "," and depth == 0:
                entries.append([])
            else:
                entries[-1].append(token)
        found: dict[str, str] = {}
        for entry in entries:
            if entry:
                found[entry[0].text.strip('"')] = joined(entry[2:]) if len(entry) > 1 else ""
        return found

    def region_head(self, tokens: list[Token], begin: int) -> tuple[str, tuple[Argument, ...], str]:
        """The label and arguments that stand before a region, which are taken out of the operation's tokens, and the
        text of what is taken out."""
        for index in range(len(tokens) - 1, begin - 1, -1):
            token = tokens[index]
            if token.kind == "word" and (token.text in ("default", "else", "do") or token.text.startswith("partition")):
                arguments = _arguments(tokens[index + 1 :])
                header = joined(tokens[index + 1 :])
                del tokens[index:]
                return token.text, arguments, header
        return "", (), ""

    def region(self, label: str, arguments: tuple[Argument, ...], header: str) -> Region:
        self.depth += 1
        if self.depth > _NESTING_MAX:
            raise self.fault("regions are nested too deeply")
        self.expect("{")
        operations: list[Operation] = []
        blocks = 1
        while self.peek().text != "}" or self.peek().kind != "mark":
            if self.peek().kind != "block":
                operations.append(self.operation())
                continue
            self.take()
            blocks += bool(operations)
            if self.peek().text == "(":
                inner: list[Token] = []
                self.bracket(inner, {}, [])
                if not operations:
                    arguments = _arguments(inner)
            self.expect(":")
        self.take()
        self.depth -= 1
        return Region(label, arguments, tuple(operations), blocks, header)


@dataclass(slots=True)
class _Depth:
    """How deep in brackets a scan of tokens stands."""

    value: int = 0

    def see(self, token: Token) -> int:
        if token.kind == "mark":
            self.value += (token.text in _OPENING) - (token.text in _CLOSING)
        return self.value


def _split_types(tokens: list[Token]) -> tuple[tuple[Token, ...], list[Token]]:
    """What stands before the last colon outside of brackets, and after it."""
    depth = _Depth()
    last = len(tokens)
    for index, token in enumerate(tokens):
        if depth.see(token) == 0 and token.text == ":" and token.kind == "mark":
            last = index
    return tuple(tokens[:last]), tokens[last + 1 :]


def _arguments(tokens: list[Token]) -> tuple[Argument, ...]:
    """`(%a: type, %b: type)` as arguments; what follows the bracket is left out."""
    return arguments_of(tuple(tokens))


def arguments_of(tokens: tuple[Token, ...]) -> tuple[Argument, ...]:
    """The values with their types in the first bracket of `tokens`: a function's, a region's or a block's."""
    found: list[Argument] = []
    depth = _Depth()
    name, begin = "", 0
    for index, token in enumerate(tokens):
        level = depth.see(token)
        if level == 1 and token.kind == "value" and not name:
            name, begin = token.text, index + 2
        elif name and ((level == 1 and token.text == ",") or level == 0):
            found.append(Argument(name, joined(tokens[begin:index])))
            name = ""
        if level == 0 and found:
            break
    return tuple(found)
