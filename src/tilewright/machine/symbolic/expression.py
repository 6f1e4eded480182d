"""What is a register's value as a function of what the launch chooses?

An expression is a node of a graph without cycles. Its leaves are bytes of inputs (`Input`: a number among the
parameters, the size of the grid, a word of memory that the kernel only reads) and constants; every other node is one
instruction of the kernel, applied by the machine's own decoded step. So there is one meaning of `mul.hi`, not two: to
evaluate an expression for a thousand launches, the step runs on vectors of a thousand lanes instead of 32.

A node is uniform where all its sources are: then one value stands for all lanes. Others are evaluated for 32 lanes of
every launch. Equal nodes are the same object within a table, so that work is shared between iterations and runs.

A value that depends on inputs in a way that is not followed (through a lane-varying shuffle, through memory by parts,
through the bits of an address) is `opaque`: it has sources, and cannot be evaluated.

Of a pointer only that it is null or not is an input: where its buffer lies is not known. An expression knows which
pointers it is made of (`addresses`), and what looks at more than a launch decides is opaque.

Source: concolic execution (Godefroid, Klarlund and Sen, "DART: Directed Automated Random Testing", PLDI 2005).
Checked by: tests/machine/symbolic/test_expression.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.base.value import value
from tilewright.frontends.ptx.ast import Immediate, Instruction, Negated, Operand, Register, Vector
from tilewright.machine.core.lanes import FULL, WARP_SIZE, Registers, selector
from tilewright.machine.core.step import FullFunction
from tilewright.machine.symbolic.addresses import Bases, LowBits, bases_of_result, joined

Array = npt.NDArray[Any]


@value
class Input:
    """Something that a launch chooses. kind: "number" and "pointer" stand in the parameter block at byte `place`;
    "grid" and "cluster" are the number of clusters along axis `place` and the index of the one that runs; "memory" is
    a word at address `place` that nobody writes; "ticket" is the result of the atomic operation number `place`;
    "work" is the index in the grid, along axis `place % 4`, of a CTA whose work is taken over at request number
    `place / 4`: any; "taken" is the number of clusters whose work one takes over: so many requests are granted, and the
    next one is not; "trips" is how often loop number `place` iterated, where an expression stands for those after any
    number of iterations, and no launch chooses it; "offset" is by how many bytes what the pointer at byte `place` leads
    to lies past a multiple of `addresses.ALIGNMENT_BYTES`, 0 where it is null.
    A pointer's value is 1 where it leads to its buffer and 0 where it is null."""

    kind: Literal["number", "pointer", "offset", "grid", "cluster", "memory", "ticket", "work", "taken", "trips"]
    place: int
    size_bytes: int


TAKEN = Input("taken", 0, 4)


@value
class Leaf:
    """Bytes `offset_bytes` and following of an input, as a register of type `dtype`; scale, addend: the register
    holds `value * scale + addend` (the index of a CTA in the grid from that of its cluster). loaded_bytes: of a load
    that is narrower than its register, which is filled by the sign (signed) or by zeros; else 0. origin: of a word of
    memory that is another one in other launches, or at another time, which expression of its place and which time
    (`Table.origin`); else 0."""

    input: Input
    offset_bytes: int
    dtype: np.dtype[Any]
    scale: int = 1
    addend: int = 0
    loaded_bytes: int = 0
    signed: bool = False
    origin: int = 0


@value
class Pointer:
    """`base` where the input is not 0, else null."""

    input: Input
    base: int


@dataclass(frozen=True, slots=True, eq=False)
class Applied:
    """An instruction's result. full: its decoded step, without guard; reads, names: the slots and names of what it
    reads, which the sources give; target, target_name: of the result; width_bits: of the register that holds it."""

    instruction: Instruction
    full: FullFunction
    reads: tuple[int, ...]
    names: tuple[str, ...]
    target: int
    target_name: str
    width_bits: int


@value
class Chosen:
    """The second source in lanes where the first, a predicate, holds; else the third."""


@value
class Merged:
    """The first source in the lanes of `mask`, the second elsewhere."""

    mask: int


@dataclass(frozen=True, slots=True)
class Not:
    """A predicate, negated."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A function of the sources that is not followed. why: in words."""

    why: str


Operation = Leaf | Pointer | Applied | Chosen | Merged | Not | Opaque


@dataclass(slots=True, eq=False)
class Node:
    """An expression. number: its place in the table, larger than that of each source; uniform: the same in all lanes;
    opaque: it can't be evaluated; bases: the pointers that it is an address from, None if it is none."""

    number: int
    operation: Operation
    sources: tuple[Source, ...]
    uniform: bool
    opaque: bool
    bases: Bases | None = None


_WORD = np.dtype(np.uint32)
Source = Node | Array
"""A constant is a vector of one element where all lanes agree, else of 32."""


class CannotEvaluate(Exception):
    """An opaque node, or a step that works on 32 lanes alone."""


@dataclass(slots=True, eq=False)
class Table:
    """The nodes of one exploration, each once. bases: where pointers led that were not null."""

    nodes: list[Node] = field(default_factory=list[Node])
    bases: dict[Input, int] = field(default_factory=dict[Input, int])
    _known: dict[tuple[object, ...], Node] = field(default_factory=dict[tuple[object, ...], Node])
    _low: dict[int, Node] = field(default_factory=dict[int, Node])
    _origins: dict[tuple[object, ...], int] = field(default_factory=dict[tuple[object, ...], int])

    def origin(self, *key: object) -> int:
        """The number, from 1, of a way to find a word of memory: loads with the same one read the same word."""
        return self._origins.setdefault(key, len(self._origins) + 1)

    def leaf(self, operation: Leaf | Pointer) -> Node:
        bases = Bases(frozenset((operation.input,)), True, True) if isinstance(operation, Pointer) else None
        return self._node((operation,), operation, (), bases=bases)

    def applied(self, shape: tuple[object, ...], operation: Applied, sources: tuple[Source, ...]) -> Node:
        """An instruction's result. shape: what else than the sources decides about it: the instruction but for its
        registers, and which of its results this is."""
        held = [each.bases if isinstance(each, Node) else None for each in sources]
        if not any(held):
            return self._node((shape, *map(_key, sources)), operation, sources)
        found = bases_of_result(operation.instruction, operation.names, sources, held)
        if isinstance(found, LowBits):
            return self._node((shape, *map(_key, low := tuple(map(self.low_bits, sources)))), operation, low)
        if isinstance(found, str):
            return self.opaque(found, tuple(each for each in sources if isinstance(each, Node)))
        # A part of an address is what where its buffer lies makes it, but for what is masked later.
        part = found is not None and found.bits is not None
        return self._node((shape, *map(_key, sources)), operation, sources, bases=found, opaque=part)

    def low_bits(self, source: Source) -> Source:
        """What agrees in its low bits with an address, or a part of one: made of the pointer's offset alone."""
        if not isinstance(source, Node):
            return source
        for node in needed((source,), self._low):
            low = node
            if isinstance(node.operation, Pointer):
                low = self.leaf(Leaf(offset_of(node.operation.input), 0, np.dtype(np.uint64)))
            elif node.bases is not None:
                sources = tuple(self._low[each.number] if isinstance(each, Node) else each for each in node.sources)
                low = self._node(("low bits", node.number), node.operation, sources, uniform=node.uniform)
            self._low[node.number] = low
        return self._low[source.number]

    def chosen(self, predicate: Node, holds: Source, otherwise: Source) -> Source:
        """`holds` where the predicate does."""
        if _key(holds) == _key(otherwise):
            return holds
        sources: tuple[Source, ...] = (predicate, holds, otherwise)
        return self._node(("chosen", *map(_key, sources)), Chosen(), sources)

    def merged(self, mask: int, inside: Source, outside: Source) -> Node:
        sources: tuple[Source, ...] = (inside, outside)
        return self._node(("merged", mask, *map(_key, sources)), Merged(mask), sources, uniform=False)

    def again(self, node: Node, sources: tuple[Source, ...]) -> Node:
        """What a node is, of other sources."""
        key = ("again", node.number, *map(_key, sources))
        return self._node(key, node.operation, sources, uniform=node.uniform, bases=node.bases)

    def granted(self, request: int, span: Span) -> Node:
        """Whether a request for other clusters' work, by its number from 1, is granted."""
        names, numbers = ("%request", "%taken"), (np.array([request], np.uint32), self.leaf(Leaf(TAKEN, 0, _WORD)))
        operands = tuple(Register(each) for each in ("%granted", *names))
        item = Instruction("setp.le.u32", "setp", ("le", "u32"), operands, None, span)
        return self.applied(("granted",), Applied(item, _at_most, (0, 1), names, 2, "%granted", 1), numbers)

    def negated(self, node: Node) -> Node:
        if isinstance(node.operation, Not) and isinstance(node.sources[0], Node):
            return node.sources[0]
        return self._node(("not", node.number), Not(), (node,))

    def opaque(self, why: str, sources: tuple[Source, ...]) -> Node:
        return self._node(("opaque", why, *map(_key, sources)), Opaque(why), sources)

    def _node(
        self, key: tuple[object, ...], operation: Operation, sources: tuple[Source, ...], *, uniform: bool = True,
        bases: Bases | None = None, opaque: bool = False,
    ) -> Node:  # fmt: skip
        found = self._known.get(key)
        if found is None:
            if isinstance(operation, (Chosen, Merged)):
                values = sources[1:] if isinstance(operation, Chosen) else sources
                bases = joined([each.bases if isinstance(each, Node) else None for each in values])
            even = uniform and all(each.uniform if isinstance(each, Node) else each.size == 1 for each in sources)
            inner = any(isinstance(each, Node) and each.opaque for each in sources)
            opaque = opaque or inner or isinstance(operation, Opaque)
            found = Node(len(self.nodes), operation, sources, even, opaque, bases)
            self.nodes.append(found)
            self._known[key] = found
        return found


def offset_of(pointer: Input) -> Input:
    """By how much a pointer lies past an aligned address."""
    return Input("offset", pointer.place, pointer.size_bytes)


def _at_most(registers: Registers) -> None:
    registers[2] = registers[0] <= registers[1]


def where(predicate: Node, holds: bool, source: Source) -> Source:
    """What a source is where a predicate holds, or does not: what it chose by that, or by what follows from it."""
    known: dict[Node, bool] = {}
    waiting = [(predicate, holds)]
    while waiting:
        node, truth = waiting.pop()
        known[node] = truth
        inner = [each for each in node.sources if isinstance(each, Node)]
        if isinstance(node.operation, Not):
            waiting.append((inner[0], not truth))
        elif truth and isinstance(node.operation, Applied) and node.operation.instruction.opcode == "and.pred":
            waiting += [(each, True) for each in inner]
    while isinstance(source, Node) and isinstance(source.operation, Chosen) and source.sources[0] in known:
        assert isinstance(source.sources[0], Node), "a predicate"
        source = source.sources[1 if known[source.sources[0]] else 2]
    return source


def _key(source: Source) -> object:
    return source.number if isinstance(source, Node) else (source.dtype.str, source.tobytes())


def constant(lanes: Array, mask: int) -> Array:
    """A register that depends on no input, as a source: one element where the lanes of `mask` agree."""
    inside = lanes if mask == FULL else lanes[selector(mask)]
    raw = inside.tobytes()  # bits are compared sooner than NumPy compares a few numbers
    return inside[:1] if raw and raw == raw[: inside.itemsize] * inside.size else lanes


# ---------------------------------------------------------------- evaluation

Columns = Mapping[Input, npt.NDArray[np.uint64]]
"""For every input, its value in each launch of a batch."""


class Evaluation:
    """The values of nodes in a batch of launches. Nodes are worked out when asked for, each once."""

    def __init__(self, table: Table, columns: Columns, count: int) -> None:
        self.table = table
        self.columns = columns
        self.count = count
        self._known: dict[int, Array | None] = {}

    @np.errstate(all="ignore")
    def of(self, node: Node) -> Array:
        """One value a launch if the node is uniform, else 32, launch after launch. Raises CannotEvaluate."""
        if node.number not in self._known:
            for each in needed((node,), self._known):
                try:
                    self._known[each.number] = self._value(each)
                except CannotEvaluate:
                    self._known[each.number] = None
        found = self._known[node.number]
        if found is None:
            raise CannotEvaluate
        return found

    def lanes(self, node: Node) -> Array:
        """32 values a launch, whether the node is uniform or not: one row each."""
        values = self.of(node)
        if node.uniform:
            return np.repeat(values, WARP_SIZE).reshape(self.count, WARP_SIZE)
        return values.reshape(self.count, WARP_SIZE)

    def _source(self, source: Source, *, uniform: bool) -> Array:
        if isinstance(source, Node):
            values = self._known[source.number]
            if values is None:
                raise CannotEvaluate
            return np.repeat(values, WARP_SIZE) if source.uniform and not uniform else values
        if source.size == 1:
            return np.repeat(source, self.count if uniform else self.count * WARP_SIZE)
        return np.tile(source, self.count)

    def _value(self, node: Node) -> Array:
        operation = node.operation
        match operation:
            case Leaf():
                return self._leaf(operation)
            case Pointer(given, base):
                return np.where(self._column(given) != 0, np.uint64(base), np.uint64(0))
            case Opaque():
                raise CannotEvaluate
            case _:
                values = [self._source(each, uniform=node.uniform) for each in node.sources]
        match operation:
            case Not():
                return ~values[0]
            case Chosen():
                return np.where(values[0], values[1], values[2].astype(values[1].dtype))
            case Merged(mask):
                return np.where(np.tile(selector(mask), self.count), values[0], values[1].astype(values[0].dtype))
            case Applied(_, full, reads, _, target, _):
                registers: dict[int, Any] = dict(zip(reads, values, strict=True))
                try:
                    full(registers)  # type: ignore[arg-type]
                    found: Array = registers[target]
                except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
                    raise CannotEvaluate from error
                if found.shape != (len(values[0]) if values else self.count,):
                    raise CannotEvaluate
                return found

    def _column(self, given: Input) -> npt.NDArray[np.uint64]:
        found = self.columns.get(given)
        return np.zeros(self.count, np.uint64) if found is None else found

    def _leaf(self, leaf: Leaf) -> Array:
        values = self._column(leaf.input) >> np.uint64(8 * leaf.offset_bytes)
        if leaf.loaded_bytes:
            above = np.uint64(64 - 8 * leaf.loaded_bytes)
            values <<= above
            signed = (values.view(np.int64) >> above.astype(np.int64)).view(np.uint64)
            values = signed if leaf.signed else values >> above
        values = values * np.uint64(leaf.scale) + np.uint64(leaf.addend)
        return values != 0 if leaf.dtype == np.bool_ else values.astype(leaf.dtype)


def needed(nodes: Iterable[Node], known: Mapping[int, object]) -> list[Node]:
    """The nodes that `nodes` are computed from, and themselves, without those that are known, sources first."""
    found: dict[int, Node] = {}
    waiting = [node for node in nodes if node.number not in known]
    while waiting:
        node = waiting.pop()
        if node.number in found:
            continue
        found[node.number] = node
        waiting += [
            each
            for each in node.sources
            if isinstance(each, Node) and each.number not in known and each.number not in found
        ]
    return [found[number] for number in sorted(found)]


def frontier(node: Node) -> tuple[Node, ...]:
    """The largest uniform expressions that a node is computed from."""
    found: dict[Node, None] = {}
    waiting = [node]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each.number in seen:
            continue
        seen.add(each.number)
        if each.uniform:
            found[each] = None
        else:
            waiting += [source for source in each.sources if isinstance(source, Node)]
    return tuple(sorted(found, key=lambda each: each.number))


def inputs_of(nodes: Iterable[Node]) -> tuple[Input, ...]:
    """The inputs that nodes depend on, in the order of their nodes."""
    found = dict.fromkeys(
        each.operation.input for each in needed(nodes, {}) if isinstance(each.operation, (Leaf, Pointer))
    )
    return tuple(found)


def constants_of(nodes: Iterable[Node]) -> tuple[int, ...]:
    """The numbers that stand in expressions beside the inputs, ascending; one lane's of those that differ by lane."""
    found = {
        int(each[0])
        for node in needed(nodes, {})
        for each in node.sources
        if not isinstance(each, Node) and each.dtype.kind in "ui"
    }
    return tuple(sorted(found))


Namer = Callable[[Input], str]

_INFIX = {
    "add": "+", "sub": "-", "shl": "<<", "shr": ">>", "and": "&", "or": "|", "xor": "^", "div": "/", "rem": "%",
}  # fmt: skip
_COMPARED = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip
_SILENT = frozenset({"mov", "cvt", "cvta"})
_DEPTH = 7


def rendered(source: Source, name: Namer, depth: int = _DEPTH) -> str:
    """An expression in words of C, cut where it is deep."""
    if not isinstance(source, Node):
        return _number(source)
    if depth == 0:
        return "..."
    parts = [rendered(each, name, depth - 1) for each in source.sources]
    if isinstance(source.operation, Applied):
        return _applied(source.operation, dict(zip(source.operation.names, parts, strict=True)))
    match source.operation:
        case Leaf(given, offset):
            return name(given) if not offset else f"({name(given)} >> {8 * offset})"
        case Pointer(given):
            return name(given)
        case Not():
            return f"!{parts[0]}"
        case Chosen():
            return f"({parts[0]} ? {parts[1]} : {parts[2]})"
        case Merged() | Opaque():
            return f"f({', '.join(dict.fromkeys(part for part in parts if part))})"


def _number(values: Array) -> str:
    if values.size > 1:
        return "lane"
    if values.dtype == np.bool_:
        return str(bool(values[0])).lower()
    if values.dtype.kind not in "ui":
        return "..."
    value = int(values[0])
    bits = 8 * values.dtype.itemsize
    return str(value - (1 << bits) if bits >= 32 and value >> (bits - 1) else value)


def _applied(applied: Applied, given: Mapping[str, str]) -> str:
    instruction = applied.instruction
    row, modifiers = instruction.row, instruction.modifiers
    match parts := [_operand(each, given) for each in instruction.operands[1:]]:
        case [only] if row in _SILENT:
            return only
        case [one, other] if row in _INFIX:
            return f"({one} {_INFIX[row]} {other})"
        case [one, other] if row == "mul":
            return f"({one} * {other})" if "hi" not in modifiers else f"mulhi({one}, {other})"
        case [one, other, third] if row == "mad" and "hi" not in modifiers:
            return f"({one} * {other} + {third})"
        case [one, other, *rest] if row == "setp":
            sign = next((_COMPARED[each] for each in modifiers if each in _COMPARED), "?")
            joined = f"{one} {sign} {other}"
            return f"({joined} {'|' if 'or' in modifiers else '&'} {rest[0]})" if rest else f"({joined})"
        case [one, other, third] if row == "selp":
            return f"({third} ? {one} : {other})"
        case _:
            return f"{row}({', '.join(parts)})"


def _operand(operand: Operand, given: Mapping[str, str]) -> str:
    match operand:
        case Register(name):
            return given.get(name, name)
        case Immediate(value):
            return str(value)
        case Negated(register):
            return f"!{_operand(register, given)}"
        case Vector(items):
            return ", ".join(_operand(each, given) for each in items)
        case _:
            return "..."
