"""What does a piece of MLIR text say, op by op? A tree of values that knows no dialect.

An operation's own syntax is kept as tokens, sorted into what all printed forms share: results, operands before the
types, types, attribute dictionaries, regions. What they mean is the reader's caller's business. Locations (`loc(...)`)
are kept as text. Checked by: tests/frontends/test_mlir_reader.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tilewright.base.value import value


@value
class Token:
    """kind: "value" (`%x`, without the sign), "block", "symbol" (`@x`), "string", "number", "word", "attribute"
    (`#x`), "type" (`!x`) or "mark"; line: 1-based; first: nothing but blanks stands before it on its line."""

    kind: str
    text: str
    line: int
    first: bool


@value
class Argument:
    """A value that a region or a function begins with, and its type's text without blanks."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Region:
    """label: the word that stands before it (`default`, `partition0`, `else`, `do`), or empty; blocks: how many it has,
    where `operations` are those of all of them in order; header: what is written between the label and the brace,
    without blanks."""

    label: str
    arguments: tuple[Argument, ...]
    operations: tuple[Operation, ...]
    blocks: int
    header: str = ""


@value
class Operation:
    """results: names, `x#0` and `x#1` where one name stands for two; tokens: what is written between the name and the
    types, without dictionaries and regions; types: the text after the last colon, without blanks; line: of its
    beginning; location: the text inside `loc(...)`; uses: the values that are named between the operation's name and
    its types, in order."""

    name: str
    results: tuple[str, ...]
    tokens: tuple[Token, ...]
    types: str
    line: int
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    regions: tuple[Region, ...] = ()
    location: str = ""
    uses: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "uses", tuple(token.text for token in self.tokens if token.kind == "value"))


@dataclass(frozen=True, slots=True)
class Document:
    """A text: its top-level operations, and the attributes that it gives names to (`#shared = ...`)."""

    operations: tuple[Operation, ...]
    aliases: Mapping[str, str]

    def walk(self) -> Iterator[Operation]:
        """Every operation, an outer one before those that it holds."""
        for operation in self.operations:
            yield from walk(operation)


def walk(operation: Operation) -> Iterator[Operation]:
    """The operation and all that it holds."""
    yield operation
    for region in operation.regions:
        for inner in region.operations:
            yield from walk(inner)
