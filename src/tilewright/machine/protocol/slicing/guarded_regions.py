"""Which branches of a kernel only choose what registers hold? Such a branch is written as guards.

A branch between a few instructions that compute, and nothing, decides what registers hold where its ways meet. A run
takes one way, and what the other would have left is not seen: a register that each way sets to a constant holds no
expression of an input, though inputs decide about it. Under guards the same instructions make a choice between both
(`machine.symbolic`), and what comes after is decided by one expression, whatever number of such branches led to it.

Ways that are written so: one, or two that meet, of instructions that compute, that load parameters, that access global
memory or that the slice drops. A branch in a way is written as guards first. Of a branch that no input decides nothing
is changed, nor of one that chooses nothing which steers the protocol. A register that only one way writes must have
been written before, or be read on that way alone: else what is undefined would count as zero.

Source: if-conversion (Allen, Kennedy, Porterfield and Warren, "Conversion of Control Dependence to Data Dependence",
POPL 1983).
Not handled: ways with a loop, with a store to shared or local memory, with loads that the slice looks at, with
instructions of the protocol. `driver.explore.gaps.joint_decisions` counts these together.
Checked by: tests/machine/protocol/slicing/test_guarded_regions.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import (
    Guard,
    Instruction,
    Kernel,
    Label,
    Register,
    RegisterDeclaration,
    Symbol,
)
from tilewright.machine.protocol.lanes_together import apart
from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.protocol.slicing.steering import Steering
from tilewright.machine.symbolic.reached import reached_by_inputs

_MOST = 400
"""Instructions of a way."""
_WHOLE = {"32": "b32", "64": "b64"}
_PREFIX = "%guard$"
_MADE, _LOADED = -1, -2
"""Positions of instructions that the text lacks; of loads of parameters into registers that nobody else has."""


@dataclass(slots=True, eq=False)
class _Piece:
    """Instructions that run in one piece, each with its position in the text as it was, and the labels before them."""

    labels: list[Label]
    items: list[tuple[Instruction, int]] = field(default_factory=list[tuple[Instruction, int]])


@dataclass(frozen=True, slots=True)
class _Way:
    """What one side of a branch runs, by piece, and where it leads: the number of a piece."""

    pieces: tuple[int, ...]
    end: int


def with_guards(kernel: Kernel, sliced: Slice, steers: Steering) -> Kernel:
    """The kernel with guards in the place of branches that only choose what registers hold; the kernel itself if it has
    none. sliced: its slice."""
    rewriting = _Rewriting(kernel, sliced, steers)
    if not rewriting.wanted:
        return kernel
    while rewriting.once():
        pass
    return rewriting.result() if rewriting.changed else kernel


class _Rewriting:
    """A kernel on the way. pieces: in the order of the text, None where one has gone into another; wanted: branches
    that inputs decide and that choose something; inside: positions on their ways."""

    def __init__(self, kernel: Kernel, sliced: Slice, steers: Steering) -> None:
        self.kernel = kernel
        self.sliced = sliced
        self.steers = steers
        self.wanted, self.inside = _wanted(sliced, steers)
        self.changed = False
        self.names: list[str] = []
        self.fresh: list[RegisterDeclaration] = []
        if not self.wanted:
            return
        self.unwritten = _unwritten(sliced)
        self.readers: dict[str, list[int]] = {}
        for position in sliced.executed:
            for name in sliced.text.facts[position].reads:
                self.readers.setdefault(name, []).append(position)
        self.pieces: list[_Piece | None] = [*_pieces(kernel)]
        self.place = {label.name: number for number, piece in enumerate(self.pieces) if piece for label in piece.labels}
        self.tables = [
            self.place[each] for table in kernel.branch_tables for each in table.labels if each in self.place
        ]

    # Where control goes

    def _next(self, number: int) -> int:
        """The piece that follows in the text; beyond the last one for the end."""
        number += 1
        while number < len(self.pieces) and self.pieces[number] is None:
            number += 1
        return number

    def _successors(self, number: int) -> tuple[int, ...]:
        piece = self.pieces[number]
        last = piece.items[-1][0] if piece is not None and piece.items else None
        falls = self._next(number)
        if last is None or last.row not in ("bra", "brx.idx", "exit", "ret", "trap"):
            return (falls,)
        through = (falls,) if last.guard is not None else ()
        match last.row, last.operands:
            case "bra", (Symbol(name),):
                return (self.place.get(name, len(self.pieces)), *through)
            case "brx.idx", _:
                return (*self.tables, *through)
            case _:
                return through

    def once(self) -> bool:
        """Write some branches as guards. False if there was none."""
        enters = Counter({0: 1})
        enters.update(self.tables)
        for number, piece in enumerate(self.pieces):
            if piece is not None:
                enters.update(set(self._successors(number)))
        touched: set[int] = set()
        for number, piece in enumerate(self.pieces):
            if piece is None or number in touched or not piece.items:
                continue
            branch, position = piece.items[-1]
            if branch.row != "bra" or branch.guard is None or position not in self.inside:
                continue
            target, falls = self._successors(number)
            found = self._ways(target, falls, enters)
            if found is None or found[2] >= len(self.pieces):
                continue
            taken, passed, end = found
            if touched.isdisjoint((*taken, *passed)) and self._may_choose(position, taken, passed):
                self._write(number, taken, passed, end)
                touched |= {number, *taken, *passed}
        self.changed = self.changed or bool(touched)
        return bool(touched)

    def _ways(
        self, target: int, falls: int, enters: Counter[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
        """The pieces of the way that a branch takes, those of the other one, and where both meet."""
        if target == falls:
            return None
        taken, passed = self._way(target, enters), self._way(falls, enters)
        if passed is not None and passed.end == target:
            return (), passed.pieces, target
        if taken is not None and taken.end == falls:
            return taken.pieces, (), falls
        if taken is not None and passed is not None and taken.end == passed.end:
            return taken.pieces, passed.pieces, taken.end
        return None

    def _way(self, number: int, enters: Counter[int]) -> _Way | None:
        """Pieces that run one after another, entered at the first alone; None if something on it must stay a branch."""
        found: list[int] = []
        while number < len(self.pieces) and enters[number] == 1 and number not in found:
            piece = self.pieces[number]
            assert piece is not None, "nothing leads to a piece that is gone"
            following = self._successors(number)
            if len(following) != 1 or not all(self._computes(*each) for each in piece.items):
                break
            found.append(number)
            number = following[0]
        return _Way(tuple(found), number) if found else None

    def _computes(self, item: Instruction, position: int) -> bool:
        """Whether an instruction may stand under a guard."""
        if position < 0:
            return True
        if item.row == "bra":
            return item.guard is None
        facts = self.sliced.text.facts[position]
        if facts.kind in ("control", "protocol", "unknown", "matrix", "collective") or position in self.sliced.touched:
            return False
        if position not in self.sliced.executed:
            return not facts.kept
        if facts.kind == "compute":
            return item.row != "activemask"
        if facts.writes.isdisjoint(self.sliced.registers):
            return facts.space == "global"
        return facts.kind == "load" and facts.space == "param" and _moved_as(item) is not None

    def _may_choose(self, position: int, taken: Sequence[int], passed: Sequence[int]) -> bool:
        """Whether nothing undefined would count as zero, and the ways are short."""
        on = [[each for number in way for each in self._items(number)] for way in (taken, passed)]
        if any(len(way) > _MOST for way in on):
            return False
        within = {at for way in on for _, at in way}
        facts = self.sliced.text.facts
        certain = [
            {name for item, at in way if at >= 0 and item.guard is None for name in facts[at].writes} for way in on
        ]
        for name in {name for at in within if at >= 0 and at in self.sliced.executed for name in facts[at].writes}:
            if name in certain[0] and name in certain[1]:
                continue
            outside = any(at not in within for at in self.readers.get(name, ()))
            if outside and name in self.unwritten[self.sliced.text.flow.block_of[position]]:
                return False
        return True

    def _items(self, number: int) -> list[tuple[Instruction, int]]:
        piece = self.pieces[number]
        return piece.items if piece is not None else []

    # Writing

    def _write(self, number: int, taken: Sequence[int], passed: Sequence[int], end: int) -> None:
        """Put both ways under guards, in the place of the branch."""
        piece = self.pieces[number]
        assert piece is not None, "a piece with a branch"
        branch, _ = piece.items.pop()
        assert branch.guard is not None, "a branch with two ways"
        guard = branch.guard
        written = {
            name
            for way in (taken, passed)
            for each in way
            for item, at in self._items(each)
            for name in self._written(item, at)
        }
        if guard.register.name in written:
            kept = self._predicate(branch.span)
            piece.items.append((_made("mov", ("pred",), (kept, guard.register), branch.span), _MADE))
            guard = Guard(kept, guard.negated)
        for way, sense in ((taken, guard), (passed, Guard(guard.register, not guard.negated))):
            for each in way:
                for item, at in self._items(each):
                    if item.row != "bra":
                        piece.items += self._under(item, at, sense)
                self.pieces[each] = None
        if self._next(number) != end:
            name = self._label(end)
            piece.items.append((_made("bra", (), (Symbol(name),), branch.span), _MADE))

    def _written(self, item: Instruction, position: int) -> frozenset[str]:
        if position >= 0:
            return self.sliced.text.facts[position].writes
        first = item.operands[0] if item.operands else None
        return frozenset((first.name,)) if isinstance(first, Register) else frozenset()

    def _under(self, item: Instruction, position: int, guard: Guard) -> list[tuple[Instruction, int]]:
        """An instruction under one more guard. What loads a parameter does so anyway, and is moved under the guard."""
        if position == _LOADED:
            return [(item, position)]
        before: list[tuple[Instruction, int]] = []
        if item.guard is not None:
            both = self._predicate(item.span)
            sides: list[Register] = []
            for each in (item.guard, guard):
                side = each.register
                if each.negated:
                    side = self._predicate(item.span)
                    before.append((_made("not", ("pred",), (side, each.register), item.span), _MADE))
                sides.append(side)
            before.append((_made("and", ("pred",), (both, *sides), item.span), _MADE))
            guard = Guard(both, False)
        if position in self.sliced.executed and self.sliced.text.facts[position].space == "param":
            type_name, target = _moved_as(item), item.operands[0]
            assert type_name is not None and isinstance(target, Register), "see `_computes`"
            loaded = self._register(type_name, item.span)
            before.append((replace(item, operands=(loaded, *item.operands[1:]), guard=None), _LOADED))
            item, position = _made("mov", (type_name,), (target, loaded), item.span), _MADE
        return [*before, (replace(item, guard=guard), position)]

    def _label(self, number: int) -> str:
        """A label of a piece."""
        piece = self.pieces[number]
        assert piece is not None, "nothing leads to a piece that is gone"
        if not piece.labels:
            label = Label(f"{_PREFIX}{number}", self.kernel.span)
            piece.labels.append(label)
            self.place[label.name] = number
        return piece.labels[0].name

    def _predicate(self, span: Span) -> Register:
        return self._register("pred", span)

    def _register(self, type_name: str, span: Span) -> Register:
        name = f"{_PREFIX}{len(self.fresh)}"
        self.fresh.append(RegisterDeclaration(type_name, (name,), span))
        return Register(name)

    def result(self) -> Kernel:
        body: list[Instruction | Label] = []
        for piece in self.pieces:
            if piece is not None:
                body += piece.labels
                body += [item for item, _ in piece.items]
        return replace(self.kernel, registers=(*self.kernel.registers, *self.fresh), body=tuple(body), locations=())


def _made(row: str, modifiers: tuple[str, ...], operands: tuple[Register | Symbol, ...], span: Span) -> Instruction:
    return Instruction(".".join((row, *modifiers)), row, modifiers, operands, None, span)


def _moved_as(item: Instruction) -> str | None:
    """The type in which what an instruction loads whole into one register is moved."""
    if item.row != "ld" or not item.operands or type(item.operands[0]) is not Register:
        return None
    last = item.modifiers[-1] if item.modifiers else ""
    return _WHOLE.get(last[1:]) if last[:1] in ("b", "u", "s") else None


def _pieces(kernel: Kernel) -> list[_Piece]:
    """The kernel's body, cut before labels and behind branches."""
    found = [_Piece([])]
    position = 0
    for item in kernel.body:
        if isinstance(item, Label):
            if found[-1].items:
                found.append(_Piece([]))
            found[-1].labels.append(item)
            continue
        found[-1].items.append((item, position))
        position += 1
        if item.row in ("bra", "brx.idx", "exit", "ret", "trap"):
            found.append(_Piece([]))
    return [*found, _Piece([])]


def _wanted(sliced: Slice, steers: Steering) -> tuple[frozenset[int], frozenset[int]]:
    """Branches that inputs may decide and that choose what steers the protocol, and the positions on their ways."""
    flow, facts = sliced.text.flow, sliced.text.facts
    followed = reached_by_inputs(sliced, True, grid=True, data=True)
    one_way = apart(sliced.text)
    found: set[int] = set()
    inside: set[int] = set()
    for position in sliced.executed:
        item = flow.instructions[position]
        if item.row != "bra" or item.guard is None or item.guard.register.name not in followed or position in one_way:
            continue
        within = frozenset(flow.positions(flow.region(position)))
        if len(within) > 2 * _MOST or position in within:
            continue
        written = frozenset[str]().union(*(facts[each].writes for each in within & sliced.executed))
        if written & steers.registers:
            found.add(position)
            inside |= {position, *within}
    return frozenset(found), frozenset(inside)


def _unwritten(sliced: Slice) -> list[frozenset[str]]:
    """Registers of the slice that may not have been written where each block ends."""
    text, flow = sliced.text, sliced.text.flow
    names = sorted(sliced.registers & text.declared)
    bits = {name: 1 << index for index, name in enumerate(names)}
    written = [0] * len(flow.blocks)
    for position in sliced.executed:
        for name in text.facts[position].writes:
            written[flow.block_of[position]] |= bits.get(name, 0)
    unwritten = flow.unwritten(written, (1 << len(names)) - 1)
    leaving = [before & ~own for before, own in zip(unwritten, written, strict=True)]
    return [frozenset(name for name in names if bits[name] & each) for each in leaving]
