"""Does an operand that is another expression in each iteration come to what was seen, in whatever iteration?

The slot of a ring that goes on from tile to tile is `(c + i) % 3`, where i counts the steps of a tile and c is what
all tiles before added up: 0, n, n + n, ... of an input n. No run has all of these. So the expressions that were seen
are laid upon each other. Where they differ, a number stands for all: c for any multiple of n, i for any count. A solver
is asked whether the operand may be another one for any such numbers, and any launch.

That later iterations have no other expressions is seen in the text. In the loops around, nothing writes c but
`c = c + n` and its beginning, nothing n, nothing i but steps by a constant and its beginning, and everything on the way
from these to the operand is written by one instruction. So whatever is decided, and however often the loops iterate,
the expression has this form. Sums are taken not to reach 2^30, which is assumed in words.

Not handled: registers that are copied from one to another, steps downwards, operands that differ by lane.
Source: induction variables and their closed forms, as in any compiler text. Checked by:
tests/driver/explore/test_in_any_iteration.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

import numpy as np

from tilewright.base.span import Span
from tilewright.driver.explore.behind_loops import same_operation, width_of_sum
from tilewright.driver.explore.exploration import Exploration
from tilewright.driver.explore.path_search import Dimension
from tilewright.driver.explore.reachable import Impossible, Reached, Undecided, reach
from tilewright.frontends.ptx.ast import (
    Address,
    Immediate,
    Instruction,
    Operand,
    PairOfPredicates,
    Register,
    TensorAddress,
    Vector,
)
from tilewright.machine.core.step import Registers
from tilewright.machine.protocol.slice_flow import Flow
from tilewright.machine.symbolic.expression import Applied, Input, Leaf, Node, Source, Table
from tilewright.machine.symbolic.tracker import Condition

_BITS = 30
"""Sums below 2^30 of two such numbers do not overflow, signed or not."""
_BYTES = 4
_SUMS_STAY_SMALL = (
    f"what loops add up stays below 2^{_BITS} (beyond, a sum overflows, and what it steers was not tried)"
)


def in_any_iteration(
    exploration: Exploration, some: Sequence[Condition], before: Sequence[Condition], excluded: Sequence[bytes]
) -> Reached | Impossible | Undecided:
    """Whether a launch gives an operand in a loop another value than `excluded`, in any iteration. some: the operand as
    it was seen, in the order of the iterations; before: what all of them have decided on the way."""
    written = WrittenAround(exploration.ways.flow, some[0].position)
    family = Family(exploration.table, written)
    nodes = [*{each.node.number: each.node for each in some}.values()]
    followed = _is_read(written, nodes[-1]) and not written.flow.irreducible
    node = family.of(nodes) if followed else None
    if node is None or not family.holes:
        return Undecided()
    barred = tuple(exploration.barred)
    largest = (1 << _BITS) - 1
    dimensions = {**exploration.dimensions, **{each: Dimension(each, "", largest, 0) for each in family.holes}}
    for each in family.steps:
        # What is added is not negative, nor large: else the sums are other numbers than those asked about.
        high = _high_bits(exploration.table, each, written.flow.instructions[written.position].span)
        zero = np.zeros(1, np.uint32)
        asked = replace(some[0], node=high, outcome=zero)
        if not isinstance(reach(exploration.table, dimensions, asked, before, (zero.tobytes(),), barred), Impossible):
            return Undecided()
    condition = replace(some[0], node=node)
    found = reach(exploration.table, dimensions, condition, before, excluded, barred)
    if isinstance(found, Reached):
        values = {given: value for given, value in found.values.items() if given not in family.holes}
        return Reached(values) if exploration.is_new(values) else Undecided()
    if isinstance(found, Impossible):
        exploration.assumed[_SUMS_STAY_SMALL] = None
    return found


@dataclass(slots=True, eq=False)
class WrittenAround:
    """Which instructions write which registers, in the loops around an instruction."""

    flow: Flow
    position: int
    _by_name: dict[str, list[Instruction]] | None = None

    def by(self, name: str) -> list[Instruction]:
        if self._by_name is None:
            flow = self.flow
            around = [loop.blocks for loop in flow.loops if flow.block_of[self.position] in loop.blocks]
            self._by_name = {}
            for at in flow.positions(frozenset[int]().union(*around)):
                item = flow.instructions[at]
                first = item.operands[0] if item.operands else None
                for target in () if first is None or isinstance(first, (Address, TensorAddress)) else _names(first):
                    self._by_name.setdefault(target, []).append(item)
        return self._by_name.get(name, [])


@dataclass(slots=True, eq=False)
class Family:
    """Expressions that differ in what loops have added up, as one with inputs in the place of these.

    holes: these inputs; steps: the expressions that are added."""

    table: Table
    written: WrittenAround
    holes: list[Input] = field(default_factory=list[Input])
    steps: list[Node] = field(default_factory=list[Node])
    _known: dict[tuple[object, ...], Source | None] = field(default_factory=dict[tuple[object, ...], "Source | None"])

    def of(self, nodes: Sequence[Node]) -> Node | None:
        """One expression for all of some; None where they follow no such rule."""
        if any(not each.uniform or each.opaque for each in nodes):
            return None
        found = self._one(nodes, "")
        return found if isinstance(found, Node) else None

    def _one(self, some: Sequence[Source], register: str) -> Source | None:
        """register: which holds it."""
        keys = [*map(_key, some)]
        key = register, *keys
        if key not in self._known:
            self._known[key] = self._stands_for(some, register, same=all(each == keys[0] for each in keys))
        return self._known[key]

    def _stands_for(self, some: Sequence[Source], register: str, *, same: bool) -> Source | None:
        if same:
            return some[0] if len(self.written.by(register)) < 2 else None
        nodes = [each for each in some if isinstance(each, Node)]
        if not nodes:
            return self._count([each for each in some if not isinstance(each, Node)], register)
        applied = nodes[0].operation
        if not isinstance(applied, Applied) or (register and applied.target_name != register):
            return None  # a copy, which something else may write
        added = self._added_up(some, nodes)
        if added is not None or len(nodes) < len(some) or any(not same_operation(nodes[0], each) for each in nodes):
            return added
        if len(self.written.by(applied.target_name)) != 1:
            return None
        sources = [
            self._one(each, name) for name, *each in zip(applied.names, *(node.sources for node in nodes), strict=True)
        ]
        given = [each for each in sources if each is not None]
        return self.table.again(nodes[0], tuple(given)) if len(given) == len(sources) else None

    def _added_up(self, some: Sequence[Source], nodes: Sequence[Node]) -> Node | None:
        """Of sums that a loop adds the same to again and again: any of them."""
        last = max(nodes, key=lambda each: each.number)
        if width_of_sum(last) != 8 * _BYTES or not isinstance(last.operation, Applied):
            return None
        names = last.operation.names
        for name, step in zip(names, last.sources, strict=True):
            if not isinstance(step, Node):
                continue
            parts = [_without(each, step, last) for each in some]
            bases = {_key(base) for base, _ in parts}
            base, total = parts[0][0], last.operation.target_name
            if len(bases) != 1 or isinstance(base, Node) or base.size != 1 or int(base[0]) >> _BITS:
                continue
            if self.written.by(name) or not keeps(self.written, total, int(base[0]), step_register=name):
                continue
            self.steps.append(step)
            return self._hole(base.dtype, 1, 0)
        return None

    def _count(self, values: Sequence[Any], register: str) -> Node | None:
        """Of numbers that loops count in equal steps: any of them, as one count for all that differ."""
        kind = values[0].dtype
        if kind != np.dtype(np.uint32) or any(each.size != 1 or each.dtype != kind for each in values):
            return None
        numbers = [int(each[0]) for each in values]
        by = gcd(*(each - numbers[0] for each in numbers))
        begin = numbers[0] % by
        if not keeps(self.written, register, begin, by=by):
            return None
        return self._hole(kind, by, begin)

    def _hole(self, kind: np.dtype[Any], scale: int, addend: int) -> Node:
        given = Input("trips", -1 - len(self.holes), _BYTES)
        self.holes.append(given)
        return self.table.leaf(Leaf(given, 0, kind, scale, addend))


def keeps(written: WrittenAround, register: str, begin: int, *, by: int = 0, step_register: str = "") -> bool:
    """Whether in the loops around nothing writes a register but steps, by multiples of a number or by another
    register, and what sets it to its beginning, or to a number that as many steps lead to."""
    for item in written.by(register):
        match item.row, item.operands:
            case "mov", (_, Immediate(int() as value)) if value == begin:
                continue
            case "mov", (_, Immediate(int() as value)) if by:
                if (value - begin) % by or not 0 <= value < 1 << _BITS:
                    return False
            case "add", (_, Register(one), Immediate(int() as value)) if one == register and by:
                if value <= 0 or value % by or not _is_plain_sum(item):
                    return False
            case "add", (_, Register(one), Register(other)) if {one, other} == {register, step_register}:
                if not _is_plain_sum(item):
                    return False
            case _:
                return False
    return bool(written.by(register))


def _is_read(written: WrittenAround, node: Node) -> bool:
    """Whether an instruction reads an expression's own register, no copy of it."""
    item = written.flow.instructions[written.position]
    return isinstance(node.operation, Applied) and any(
        node.operation.target_name in _names(each) for each in item.operands
    )


def _is_plain_sum(item: Instruction) -> bool:
    return item.modifiers in (("s32",), ("u32",))


def _without(source: Source, step: Node, like: Node) -> tuple[Source, int]:
    """A sum without what the instruction of another one added to it, and how often it did."""
    count = 0
    while isinstance(source, Node) and same_operation(source, like) and step in source.sources:
        one, other = source.sources
        source, count = (one if other is step else other), count + 1
    return source, count


def _high_bits(table: Table, node: Node, span: Span) -> Node:
    """What a number of 32 bits has above those that a sum may have."""
    item = Instruction("shr.u32", "shr", ("u32",), (Register("%high"), Register("%one"), Immediate(_BITS)), None, span)
    return table.applied(("high",), Applied(item, _shift, (0,), ("%one",), 1, "%high", 32), (node,))


def _shift(registers: Registers) -> None:
    registers[1] = registers[0] >> np.uint32(_BITS)


def _key(source: Source) -> object:
    return source.number if isinstance(source, Node) else (source.dtype.str, source.tobytes())


def _names(operand: Operand) -> tuple[str, ...]:
    match operand:
        case Register(name) | Address(Register(name)):
            return (name,)
        case TensorAddress(base, coordinates):
            return tuple(name for each in (base, *coordinates) for name in _names(each))
        case PairOfPredicates(first, second):
            return (first.name, second.name)
        case Vector(items):
            return tuple(name for each in items for name in _names(each))
        case _:
            return ()
