"""What does the table of PTX instructions hold? Rows, forms and groups, read from `data/ptx*.toml`.

A row's forms are sequences of groups of modifiers, with the kinds of operands that they take. A row is read when it is
first asked for, because a module uses a tenth of the table. Source: PTX ISA 9.1, chapter Instruction Set; the
syntax of the data files is described in `data/ptx.toml`. `ptx` checks instructions against these rows.
Checked by: tests/targets/test_ptx_table.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, cast, get_args

from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.targets.sections import Sections, table_text

Effect = Literal["plain", "async_start", "async_wait", "fence", "barrier", "control"]

# What the text of an operand looks like. `symbol_offset` is `name+4` without brackets.
Shape = Literal[
    "register",
    "sink",
    "integer",
    "float",
    "symbol",
    "symbol_offset",
    "negated",
    "pair",
    "address",
    "tensor",
    "vector",
    "arguments",
    "part",
]

# What each kind of operand place accepts; `data/ptx.toml` says what the kinds are.
ACCEPTS: dict[str, frozenset[Shape]] = {
    "destination": frozenset({"register", "sink"}),
    "register": frozenset({"register"}),
    "source": frozenset({"register", "integer", "float"}),
    "symbolic": frozenset({"register", "integer", "float", "symbol", "symbol_offset"}),
    "immediate": frozenset({"integer"}),
    "predicate": frozenset({"register", "integer"}),
    "negatable": frozenset({"register", "integer", "negated"}),
    "sink": frozenset({"sink"}),
    "pair": frozenset({"pair"}),
    "address": frozenset({"address"}),
    "tensor": frozenset({"tensor"}),
    "texture": frozenset({"tensor"}),
    "vector": frozenset({"vector"}),
    "registers": frozenset({"vector"}),
    "loaded": frozenset({"register", "sink", "vector"}),
    "stored": frozenset({"register", "integer", "float", "vector"}),
    "label": frozenset({"symbol"}),
    "arguments": frozenset({"arguments"}),
    "part": frozenset({"register", "integer", "part"}),
}
_CHAPTERS = (
    "arithmetic",
    "movement",
    "synchronization",
    "copy",
    "matrix",
    "tensor_memory",
    "control",
    "texture",
    "video",
)
_ROW = "instructions."


class OperandShape(NamedTuple):
    """How one operand is written. length: items of a vector, coordinates of a tensor address, else 0."""

    kind: Shape
    length: int = 0


@dataclass(frozen=True, slots=True)
class ModifierGroup:
    """One place in a form: any of `alternatives`, or nothing if it is not required."""

    alternatives: frozenset[str]
    required: bool


@dataclass(frozen=True, slots=True)
class OperandGroup:
    """One operand's place: its kinds. present_with: the modifiers that it comes with, empty if it needs none."""

    kinds: tuple[str, ...]
    required: bool
    present_with: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return "|".join(self.kinds) + ("" if self.required else "?")


@dataclass(frozen=True, slots=True)
class Form:
    """One spelling of an instruction. ptx: least PTX ISA version; targets: names that have it, empty for all."""

    modifiers: tuple[ModifierGroup, ...]
    operands: tuple[OperandGroup, ...]
    ptx: tuple[int, int]
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstructionRow:
    """One instruction. key: its mnemonic; source: document and section; example: one instance, as PTX text."""

    key: str
    forms: tuple[Form, ...]
    effect: Effect
    source: str
    example: str


class _Rows(Mapping[str, InstructionRow]):
    """The rows by key, each read when it is first asked for. entries: the chapter that has it."""

    def __init__(self, entries: dict[str, Sections], sets: dict[str, str], targets: dict[str, list[str]]) -> None:
        self._entries = entries
        self._sets = sets
        self._targets = targets
        self._made: dict[str, InstructionRow] = {}
        # By their words: the forms of a row, and rows of a kind, have mostly the same.
        self._modifiers: dict[str, ModifierGroup] = {}
        self._operands: dict[str, OperandGroup] = {}

    def __getitem__(self, key: str) -> InstructionRow:
        row = self._made.get(key)
        if row is None:
            entry = self._entries[key][f"{_ROW}{key}"]
            row = self._made[key] = self._row(key, entry)
        return row

    def _row(self, key: str, entry: dict[str, Any]) -> InstructionRow:
        unknown = entry.keys() - {"effect", "source", "ptx", "targets", "example", "forms"}
        if unknown:
            raise TilewrightError(f"instruction table: row {key} has an unknown field {min(unknown)}")
        if entry["effect"] not in get_args(Effect):
            raise TilewrightError(f"instruction table: row {key} has an unknown effect {entry['effect']!r}")
        forms: list[Form] = []
        for item in cast("list[str | dict[str, Any]]", entry["forms"]):
            fields: dict[str, Any] = {"form": item} if isinstance(item, str) else item
            modifiers, separator, operands = str(fields["form"]).partition(" :")
            if not separator:
                raise TilewrightError(f"instruction table: row {key} has a form without ' :'")
            version = _version(fields.get("ptx", entry.get("ptx", "1.0")))
            named = cast("list[str]", fields.get("targets", entry.get("targets", [])))
            targets = [each for name in named for each in (self._targets[name[1:]] if name[0] == "$" else [name])]
            groups = tuple([self._operand_group(word, key) for word in operands.split()])
            for spelling in _alternatives(modifiers):
                words = tuple([self._modifier_group(word) for word in spelling.split()])
                forms.append(Form(words, groups, version, tuple(targets)))
        return InstructionRow(key, tuple(forms), cast("Effect", entry["effect"]), entry["source"], entry["example"])

    def _modifier_group(self, word: str) -> ModifierGroup:
        found = self._modifiers.get(word)
        if found is None:
            names = word.removesuffix("?").split("|")
            expanded = [each for name in names for each in (self._set(name[1:]) if name[0] == "$" else [name])]
            counted = frozenset([each for name in expanded for each in _count(name)])
            found = self._modifiers[word] = ModifierGroup(counted, not word.endswith("?"))
        return found

    def _set(self, name: str) -> list[str]:
        return self._sets[name].split("|")

    def _operand_group(self, word: str, key: str) -> OperandGroup:
        found = self._operands.get(word)
        if found is None:
            found = self._operands[word] = _operand_group(word, key)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True, slots=True)
class PtxTable:
    """The whole table: rows by key, the names of the special registers, and each family of targets."""

    rows: Mapping[str, InstructionRow]
    special_registers: frozenset[str]
    families: tuple[frozenset[str], ...]


@lru_cache(maxsize=1)
def ptx_table() -> PtxTable:
    """The table, found once in the package's data. Raises TilewrightError if they break its grammar, and so does a row
    that does when it is asked for."""
    data = _sections("ptx")
    entries: dict[str, Sections] = {}
    for chapter in map(_sections, (f"ptx_{name}" for name in _CHAPTERS)):
        for header in chapter:
            key = header.removeprefix(_ROW)
            if key == header:
                raise TilewrightError(f"instruction table: [{header}] is no row")
            if key in entries:
                raise TilewrightError(f"instruction table: row {key} stands in two chapters")
            entries[key] = chapter
    sets, targets = cast("dict[str, str]", data["sets"]), cast("dict[str, list[str]]", data["targets"])
    return PtxTable(
        _Rows(entries, sets, targets),
        frozenset(cast("list[str]", data["special_registers"]["names"])),
        tuple(frozenset(names) for names in cast("list[list[str]]", data["families"]["members"])),
    )


def _sections(name: str) -> Sections:
    return Sections(table_text(name), f"{name}.toml")


def _alternatives(modifiers: str) -> list[str]:
    """`a <b; c d> e` as `a b e` and `a c d e`."""
    if "<" not in modifiers:
        return [modifiers]
    match = re.search(r"<([^<>]*)>", modifiers)
    if match is None:
        return [modifiers]
    head, tail = modifiers[: match.start()], modifiers[match.end() :]
    return [spelling for choice in match[1].split(";") for spelling in _alternatives(head + choice + tail)]


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _count(name: str) -> list[str]:
    """`m64n{8..24:8}k16` as its three names."""
    if "{" not in name:
        return [name]
    match = re.fullmatch(r"(.*)\{(\d+)\.\.(\d+):(\d+)\}(.*)", name)
    if match is None:
        return [name]
    head, first, last, step, tail = match.groups()
    return [f"{head}{number}{tail}" for number in range(int(first), int(last) + 1, int(step))]


def _operand_group(word: str, key: str) -> OperandGroup:
    body, _, condition = word.partition("[")
    kinds = tuple(body.removesuffix("?").split("|"))
    for kind in kinds:
        if kind not in ACCEPTS:
            raise TilewrightError(f"instruction table: row {key} has an unknown operand kind {kind!r}")
    present_with = frozenset(condition.removesuffix("]").split(",")) if condition else frozenset[str]()
    return OperandGroup(kinds, not body.endswith("?"), present_with)
