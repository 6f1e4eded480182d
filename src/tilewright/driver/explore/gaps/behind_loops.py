"""Does a decision behind a loop come out the same after every number of iterations?

What a loop has counted is a constant in the expressions behind it, another one after each number of iterations: of a
loop that is unrolled by two, the one that does the rest compares `2 + 5 < n`, `4 + 5 < n`, and so on. Asked one by one,
each of them may come out otherwise, for numbers with which the loop iterates more often. So they are asked about at
once. Where two expressions differ in constants alone, and these grow by the same with each iteration, one with the
number of iterations as an unknown stands for all; and what it decided when it left the loop holds of that unknown.

That the constants go on like this follows from the loop's repetition: its counters gain a fixed amount a period, and
what is computed of them behind it gains by fixed rules (`loop_counters`). Therefore each number of iterations must have
been seen that stands for others, unless no launch leaves the loop then and comes to the decision.

Not handled: constants that depend on two loops, or differ by lane; counters of more than 2^32 iterations.
Source: induction variables, as in any compiler text. Checked by: tests/coverage_attacks/test_unrolled_loops.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.driver.explore.search.exploration import Exploration
from tilewright.driver.explore.search.path_search import Dimension, decided
from tilewright.driver.explore.search.reachable import Impossible, Reached, Undecided, reach
from tilewright.frontends.ptx.ast import Immediate, Instruction, Operand, Register
from tilewright.machine.core.step import Registers
from tilewright.machine.symbolic.expression import Applied, Input, Leaf, Node, Source, Table
from tilewright.machine.symbolic.tracker import Condition

_SEEN_LEAST = 3
"""Numbers of iterations from which a rule is read."""
_BYTES = 4
"""Of the number of iterations."""


@dataclass(frozen=True, slots=True)
class Behind:
    """A decision behind a loop: what was decided when that was left, and what all ways to the decision decide."""

    exit: Condition
    condition: Condition
    needed: tuple[Condition, ...]


def after_any_count(
    exploration: Exploration, some: Sequence[Behind], excluded: Sequence[bytes]
) -> Reached | Impossible | Undecided | None:
    """Whether a launch decides otherwise than `excluded` after any number of iterations; None where no rule says how
    the decisions `some` behind one loop depend on it."""
    by_count = {each.exit.iteration: each for each in some}
    seen = [by_count[count] for count in sorted(by_count)]
    loop = seen[0].exit.loop
    flow = exploration.ways.flow
    inside = flow.block_of[seen[0].condition.position] in flow.loops[loop].blocks
    repeated = None if inside else exploration.repetition(loop)
    counts = [*sorted(by_count)]
    if repeated is None or repeated.reason is not None or len(counts) < _SEEN_LEAST:
        return None
    if any(not _alike(each, by_count[each.exit.iteration]) for each in some):
        return None
    trips = Input("trips", loop, _BYTES)
    rule = _Rule(exploration.table, trips, counts)
    condition, left = rule.of([each.condition for each in seen]), rule.of([each.exit for each in seen])
    if condition is None or left is None:
        return None
    shared = set[tuple[int, bytes]].intersection(*({decided(before) for before in each.needed} for each in some))
    before = [each for each in seen[0].needed if decided(each) in shared]
    asked = _Asked(exploration, trips, before)
    for count in range(repeated.first + repeated.period + 1):
        if count not in by_count:
            # What stands for others must have been seen, if there is a launch that leaves the loop then.
            stays = np.logical_not(left.outcome[:1]).tobytes()
            found = asked.reach(left, (), (stays,), count, count)
            if not isinstance(found, Impossible):
                return found
    return asked.reach(condition, (left,), excluded, 0, (1 << 8 * _BYTES) - 1)


def _alike(one: Behind, other: Behind) -> bool:
    """Whether two decisions after as many iterations are one, to which several ways lead."""
    return one.condition.node is other.condition.node and one.exit.node is other.exit.node


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Questions about launches that decide `before` as it was decided."""

    exploration: Exploration
    trips: Input
    before: Sequence[Condition]

    def reach(
        self, condition: Condition, further: Sequence[Condition], excluded: Sequence[bytes], least: int, most: int
    ) -> Reached | Impossible | Undecided:
        """A launch that decides otherwise than `excluded` after `least` to `most` iterations."""
        exploration, trips = self.exploration, self.trips
        dimensions = {**exploration.dimensions, trips: Dimension(trips, "", most, least, least)}
        barred = tuple(exploration.barred)
        found = reach(exploration.table, dimensions, condition, (*self.before, *further), excluded, barred)
        if isinstance(found, Reached):
            return Reached({given: value for given, value in found.values.items() if given != trips})
        return found


Example = tuple[Any, ...]
"""Names a decision by the number of its expression, and by those of what needs to be decided on the way to it."""


def by_loop(
    examples: Mapping[Example, tuple[Condition, tuple[Condition, ...]]],
    exits: Mapping[int, Mapping[int, Condition | None]],
) -> list[dict[Example, Behind]]:
    """Which of a branch's decisions may follow one rule: behind one loop, left on one way. exits: by the number of the
    expression that decided, how the last loop before it was left in all launches."""
    found: dict[tuple[int, int], dict[Example, Behind]] = {}
    for key, (condition, needed) in examples.items():
        lefts = [*exits[condition.node.number].values()]
        if len(lefts) == 1 and lefts[0] is not None:
            place = lefts[0].loop, lefts[0].position
            found.setdefault(place, {})[key] = Behind(lefts[0], condition, needed)
    return [each for each in found.values() if len(each) >= _SEEN_LEAST]


@dataclass(slots=True, eq=False)
class _Rule:
    """Expressions that differ in constants, as one with the number of iterations `trips` as an input; counts: the
    numbers of iterations after which they were seen, ascending."""

    table: Table
    trips: Input
    counts: Sequence[int]

    def of(self, conditions: Sequence[Condition]) -> Condition | None:
        """One condition that stands for those after each number of iterations; None where none does."""
        known: dict[tuple[int, ...], Node | None] = {}
        node = self._node([each.node for each in conditions], known)
        return None if node is None else replace(conditions[0], node=node)

    def _node(self, nodes: Sequence[Node], known: dict[tuple[int, ...], Node | None]) -> Node | None:
        numbers = tuple(each.number for each in nodes)
        if numbers not in known:
            found = self._alike(nodes, known)
            known[numbers] = self._moved(nodes, known) if found is None else found
        return known[numbers]

    def _moved(self, nodes: Sequence[Node], known: dict[tuple[int, ...], Node | None]) -> Node | None:
        """Of sums of one expression with a number, which may have been added bit by bit: it and what was added."""
        parts = [sum_of(each) for each in nodes]
        width = _width(nodes[0])
        if not width or all(not added for _, added in parts) or any(_width(each) != width for each in nodes):
            return None
        base = self._node([each for each, _ in parts], known)
        moving = self._leaf([added for _, added in parts], np.dtype(f"u{width // 8}"))
        if base is None or moving is None:
            return None
        names = ("%one", "%other")
        span = nodes[0].operation.instruction.span if isinstance(nodes[0].operation, Applied) else None
        assert span is not None, "a sum, which has a width"
        operands = tuple(Register(each) for each in ("%sum", *names))
        item = Instruction(f"add.u{width}", "add", (f"u{width}",), operands, None, span)
        return self.table.applied(("sum", width), Applied(item, _add, (0, 1), names, 2, "%sum", width), (base, moving))

    def _alike(self, nodes: Sequence[Node], known: dict[tuple[int, ...], Node | None]) -> Node | None:
        one = nodes[0]
        if all(each is one for each in nodes):
            return one
        if any(not is_same_operation(one, each) for each in nodes):
            return None
        sources: list[Source] = []
        for some in zip(*(each.sources for each in nodes), strict=True):
            found = self._source(some, known)
            if found is None:
                return None
            sources.append(found)
        return self.table.again(one, tuple(sources))

    def _source(self, some: Sequence[Source], known: dict[tuple[int, ...], Node | None]) -> Source | None:
        nodes = [each for each in some if isinstance(each, Node)]
        if len(nodes) == len(some):
            return self._node(nodes, known)
        numbers = [each for each in some if not isinstance(each, Node)]
        if nodes or any(each.dtype != numbers[0].dtype or each.size != numbers[0].size for each in numbers):
            return None
        if all((each == numbers[0]).all() for each in numbers):
            return numbers[0]
        kind = numbers[0].dtype
        if kind.kind != "u" or numbers[0].size != 1:
            return None
        return self._leaf([int(each[0]) for each in numbers], kind)

    def _leaf(self, values: Sequence[int], kind: np.dtype[Any]) -> Node | None:
        """A number that grows by the same with each iteration."""
        bits = 8 * kind.itemsize
        apart = (values[1] - values[0] + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        gain, rest = divmod(apart, self.counts[1] - self.counts[0])
        begin = values[0] - gain * self.counts[0]
        if rest or any(
            (begin + gain * count - value) % (1 << bits) for count, value in zip(self.counts, values, strict=True)
        ):
            return None
        return self.table.leaf(Leaf(self.trips, 0, kind, gain % (1 << bits), begin % (1 << bits)))


def sum_of(node: Node) -> tuple[Node, int]:
    """An expression as another one and a number that is added to it."""
    added = 0
    while isinstance(node.operation, Applied):
        if (moved := _moved(node)) is not None:
            node = moved
            continue
        if not _width(node):
            break
        given = dict(zip(node.operation.names, node.sources, strict=True))
        one, other = (_operand(each, given) for each in node.operation.instruction.operands[1:])
        subtracts = node.operation.instruction.row == "sub"
        if isinstance(one, int) and not subtracts:
            one, other = other, one
        if not isinstance(one, Node) or not isinstance(other, int):
            break
        node, added = one, added - other if subtracts else added + other
    return node, added


def _operand(operand: Operand, given: Mapping[str, Source]) -> Node | int | None:
    match operand:
        case Immediate(int() as value):
            return value
        case Register(name) if name in given:
            source = given[name]
            return source if isinstance(source, Node) else int(source[0]) if source.size == 1 else None
        case _:
            return None


def _width(node: Node) -> int:
    """Bits of a sum or a difference of whole numbers; 0 of what is none."""
    if not isinstance(node.operation, Applied) or node.operation.instruction.row not in ("add", "sub"):
        return 0
    item = node.operation.instruction
    plain = len(item.modifiers) == 1 and item.modifiers[0][:1] in "sub" and item.modifiers[0][1:] in ("32", "64")
    return int(item.modifiers[0][1:]) if plain and len(item.operands) == 3 else 0


def _moved(node: Node) -> Node | None:
    """What a move of one whole register gives."""
    match node.operation, node.sources:
        case Applied(instruction), (Node() as source,) if instruction.row == "mov":
            return source if all(isinstance(each, Register) for each in instruction.operands) else None
        case _:
            return None


def _add(registers: Registers) -> None:
    registers[2] = registers[0] + registers[1]


def is_same_operation(one: Node, other: Node) -> bool:
    """Whether two expressions are the same operation, whatever it is done to."""
    if len(one.sources) != len(other.sources) or one.uniform != other.uniform or one.opaque or other.opaque:
        return False
    first, second = one.operation, other.operation
    if isinstance(first, Applied) and isinstance(second, Applied):
        alike = first.names == second.names and first.target_name == second.target_name
        return alike and first.instruction == second.instruction
    return type(first) is type(second) and not isinstance(first, Leaf) and first == second
