"""How are attributes of numbers and words written? As one would say them: `4`, `bf16`, `[64, 1]`, `{K = 64}`.

Integers are plain, words stand without quotes where they are identifiers, lists are in brackets, dictionaries in
braces. An attribute of another kind stands as MLIR writes it, in angle brackets unless it begins with `#`, so that
whatever is written reads again as the same attribute. Parameters of types are such values; numbers among them carry
their names: `!tier.mem<SMEM, bf16, slots = 4, slot_bytes = 8192, "128B">`. Who writes a type may leave these out.

Not handled: integers of a given width (they are written in angle brackets). Checked by: tests/ir/ac/test_format.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRLexer

_WHOLE = 40
"""Lists of up to so many characters stand in one line."""


def value_text(attribute: Attribute) -> str:
    """An attribute as text that `parse_value` reads."""
    return " ".join(value_pieces(attribute))


def value_pieces(attribute: Attribute) -> list[str]:
    """The same text, cut where a line may end in place of a space."""
    match attribute:
        case IntAttr():
            return [f"{attribute.data:d}"]
        case StringAttr():
            return [word_text(attribute.data)]
        case ArrayAttr():
            pieces = _enclosed("[", [value_pieces(each) for each in attribute], "]")
            whole = " ".join(pieces)
            return [whole] if len(whole) <= _WHOLE else pieces
        case DictionaryAttr():
            return _enclosed("{", [entry_pieces(name, each) for name, each in attribute.data.items()], "}")
        case _:
            text = str(attribute)
            return [text if text.startswith("#") else f"<{text}>"]


def entry_pieces(name: str, attribute: Attribute) -> list[str]:
    """`name = value`, cut likewise."""
    first, *more = value_pieces(attribute)
    return [f"{word_text(name)} = {first}", *more]


def _enclosed(begin: str, items: list[list[str]], end: str) -> list[str]:
    pieces = list(listed(items))
    if not pieces:
        return [begin + end]
    pieces[0] = begin + pieces[0]
    pieces[-1] += end
    return pieces


def listed(items: Sequence[list[str]]) -> Iterable[str]:
    """The pieces of all items, with commas between these."""
    for number, item in enumerate(items):
        *before, last = item
        yield from before
        yield f"{last}," if number < len(items) - 1 else last


def word_text(word: str) -> str:
    """A word as it is where it is an identifier, else in quotes."""
    if MLIRLexer.bare_identifier_regex.fullmatch(word) is not None:
        return word
    if word.isascii() and word.isprintable() and '"' not in word and "\\" not in word:
        return f'"{word}"'
    return str(StringAttr(word))


def parse_value(parser: AttrParser) -> Attribute:
    """What `value_text` writes."""
    if (number := parser.parse_optional_integer(allow_boolean=False)) is not None:
        return IntAttr(number)
    if (word := parser.parse_optional_identifier_or_str_literal()) is not None:
        return StringAttr(word)
    if (encoded := parser.parse_optional_bytes_literal()) is not None:
        # A literal with escaped bytes; a word with other letters than ASCII's is written so.
        try:
            return StringAttr(encoded.decode("utf-8"))
        except UnicodeDecodeError:
            parser.raise_error("a word's bytes are not UTF-8")
    items = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_value(parser))
    if items is not None:
        return ArrayAttr(items)
    entries = parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, lambda: _parse_entry(parser))
    if entries is not None:
        if len(dict(entries)) < len(entries):
            parser.raise_error("a dictionary has a name twice")
        return DictionaryAttr(dict(entries))
    if parser.parse_optional_punctuation("<") is not None:
        attribute = parser.parse_attribute()
        parser.parse_punctuation(">")
        return attribute
    attribute = parser.parse_optional_attribute()
    if attribute is None:
        parser.raise_error("expected a number, a word, a list in [] or a dictionary in {}")
    return attribute


def _parse_entry(parser: AttrParser) -> tuple[str, Attribute]:
    name = parser.parse_identifier_or_str_literal()
    parser.parse_punctuation("=")
    return name, parse_value(parser)


class PlainParameters(ParametrizedAttribute):
    """An attribute or type whose parameters are plain values; numbers carry their names."""

    def print_parameters(self, printer: Printer) -> None:
        named = zip(_parameter_names(type(self)), self.parameters, strict=True)
        texts = [f"{name} = {each.data:d}" if type(each) is IntAttr else value_text(each) for name, each in named]
        if texts:
            printer.print_string(f"<{', '.join(texts)}>")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        names = _parameter_names(cls)
        if not names:
            return ()
        return tuple(_parse_parameters(parser, cls.name, names))


def _parameter_names(kind: type[ParametrizedAttribute]) -> tuple[str, ...]:
    return tuple(name for name, _ in kind.get_irdl_definition().parameters)


def _parse_parameters(parser: AttrParser, kind: str, names: Sequence[str]) -> Iterable[Attribute]:
    parser.parse_punctuation("<", f" after {kind}, which has {', '.join(names)}")
    for number, name in enumerate(names):
        if number:
            parser.parse_punctuation(",", f" before {name} of {kind}, which has {', '.join(names)}")
        value = parse_value(parser)
        if isinstance(value, StringAttr) and parser.parse_optional_punctuation("=") is not None:
            if value.data != name:
                parser.raise_error(f"{kind} has {', '.join(names)} in this order; expected {name}, not {value.data}")
            value = parse_value(parser)
        yield value
    parser.parse_punctuation(">", f" after {names[-1]} of {kind}")
