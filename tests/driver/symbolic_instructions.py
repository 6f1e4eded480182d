"""Instructions as expressions over their registers, for tests of terms: the machine's value beside the term's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.solve.evaluated_terms import value_of

from tilewright.driver.explore.search.path_search import Dimension
from tilewright.driver.explore.terms.symbolic_terms import NoTerm, Terms
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.decoder import Decoder, Places
from tilewright.machine.core.model import model_of
from tilewright.machine.core.program import decode_one
from tilewright.machine.core.shared_layout import Frame
from tilewright.machine.core.step import Plain
from tilewright.machine.symbolic.expression import Applied, Evaluation, Input, Leaf, Node, Source, Table

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<16>; .reg .b64 %d<16>;
"""
WIDTHS = {"p": 1, "h": 16, "r": 32, "d": 64}
_DTYPES = {"p": np.bool_, "h": np.uint16, "r": np.uint32, "d": np.uint64}
_NAME = re.compile(r"%[phrd]\d+")


class _Noting(dict[int, Any]):
    def __init__(self, values: Mapping[int, Any]) -> None:
        super().__init__(values)
        self.reads: dict[int, None] = {}
        self.writes: dict[int, None] = {}

    def __getitem__(self, slot: int) -> Any:
        self.reads[slot] = None
        return super().__getitem__(slot)

    def __setitem__(self, slot: int, value: Any) -> None:
        self.writes[slot] = None
        super().__setitem__(slot, value)


@dataclass(frozen=True, slots=True)
class Expressions:
    """What a text leaves in its registers, as expressions over those that it reads first. inputs: these, by name."""

    table: Table
    registers: Mapping[str, Node]
    inputs: Mapping[str, Input]


def expressions(text: str) -> Expressions:
    """Run instructions one after another on expressions. Registers that nothing has written are inputs."""
    (kernel,) = read(f"{_HEAD}{text}\nret;\n}}\n", "k.ptx").kernels
    module = read(f"{_HEAD}ret;\n}}\n", "k.ptx")
    decoder = Decoder(kernel, Places({}, {}, Frame({}, 0), np.zeros(0, np.uint8)), model_of(module), None, True)
    table = Table()
    held: dict[str, Node] = {}
    inputs: dict[str, Input] = {}
    for instruction in kernel.body:
        if not isinstance(instruction, Instruction) or instruction.row == "ret":
            continue
        body = decode_one(decoder, instruction).body
        assert isinstance(body, Plain)
        file = {slot: np.ones(32, _DTYPES[name[1]]) for name, slot in decoder.slots.items() if _NAME.fullmatch(name)}
        constants = dict(decoder.static)
        hidden = {slot: np.zeros(32, decoder.type_of(slot).raw) for slot in range(2, len(decoder.names))}
        noting = _Noting({**hidden, **file, **constants, 1: np.zeros(32, np.uint32)})
        body.full(noting)  # type: ignore[arg-type]
        reads = tuple(noting.reads)
        sources: list[Source] = []
        for slot in reads:
            name = decoder.names[slot]
            if slot in constants:
                sources.append(np.ascontiguousarray(constants[slot][:1]))
                continue
            if name not in held:
                dtype = decoder.type_of(slot).raw
                inputs[name] = Input("number", 8 * len(inputs), dtype.itemsize)
                held[name] = table.leaf(Leaf(inputs[name], 0, dtype))
            sources.append(held[name])
        names = tuple(decoder.names[slot] for slot in reads)
        made = {
            decoder.names[slot]: table.applied(
                (instruction.opcode, len(table.nodes)),
                Applied(
                    instruction, body.full, reads, names, slot, decoder.names[slot], decoder.type_of(slot).width_bits
                ),
                tuple(sources),
            )
            for slot in noting.writes
            if slot > 1
        }
        held.update(made)
    return Expressions(table, held, inputs)


EDGES = (0, 1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 255, 256)


def operands(width: int, random: np.random.Generator, count: int) -> list[int]:
    """Boundaries of a width, small numbers, and random ones of all magnitudes."""
    if width == 1:
        return [0, 1]
    most = (1 << width) - 1
    found = {each & most for each in EDGES}
    found |= {each & most for edge in (1 << (width - 1), 1 << (width // 2), 0) for each in range(edge - 3, edge + 4)}
    for _ in range(count):
        value = int.from_bytes(random.bytes(8), "little") & most
        found.add(value >> int(random.integers(0, width)))
        found.add(-(value >> int(random.integers(1, width))) & most)
    return sorted(found)


def rows_of(names: Sequence[str], random: np.random.Generator, most: int) -> list[tuple[int, ...]]:
    """Values of several registers: boundaries with boundaries, and a sample of the others."""
    each = [operands(WIDTHS[name[1]], random, 12) for name in names]
    total = int(np.prod([len(values) for values in each]))
    if total <= most:
        grids = np.meshgrid(*(np.arange(len(values)) for values in each), indexing="ij")
        picks = np.stack([grid.ravel() for grid in grids], axis=1) if names else np.zeros((1, 0), int)
    else:
        picks = np.stack([random.integers(0, len(values), most) for values in each], axis=1)
    return [tuple(values[pick] for values, pick in zip(each, row, strict=True)) for row in picks.tolist()]


def machine_values(of: Expressions, target: str, rows: Sequence[tuple[int, ...]]) -> list[int]:
    columns = {
        given: np.array([row[place] for row in rows], np.uint64) for place, given in enumerate(of.inputs.values())
    }
    return [int(each) for each in Evaluation(of.table, columns, len(rows)).of(of.registers[target])]


def terms_of(of: Expressions) -> Terms:
    dimensions = {given: Dimension(given, name, (1 << (8 * given.size_bytes)) - 1) for name, given in of.inputs.items()}
    return Terms(dimensions)


def disagreement(text: str, target: str, *, most: int = 1500, seed: int = 5) -> str | None:
    """A value for which the term of a register differs from what the machine gives; None if there is none. Raises
    NoTerm where the register has no term of its own."""
    of = expressions(text)
    terms = terms_of(of)
    term = terms.of(of.registers[target])
    if len(terms.variables) != len(of.inputs):
        raise NoTerm
    if term.width != WIDTHS[target[1]]:
        return f"{text}: {target} has {term.width} bits"
    rows = rows_of(list(of.inputs), np.random.default_rng(seed), most)
    for row, expected in zip(rows, machine_values(of, target, rows), strict=True):
        found = value_of(term, dict(enumerate(row)))
        if found != expected:
            return f"{text}: {target} of {dict(zip(of.inputs, map(hex, row), strict=True))}: {found:#x} {expected:#x}"
    return None
