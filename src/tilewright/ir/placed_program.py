"""Which place of the machine holds which slice of each value of a program? An abstract interpretation.

Given the hierarchy by which a cluster's tile is dealt to its places (`CascadeDecisions.deal`, `RowDecision.deal`), each
operation takes its operands' placements to its result's (`ir.placement` has the lattice). A load gives each place the
slice that its work takes; what is computed element by element lies where all operands do, by their join; a fold along a
dealt axis leaves contributions. A walk whose tiles are dealt out is followed until nothing changes: what it carries and
only adds to (or takes the maximum of) is a contribution of each place behind it, what it carries otherwise is unknown.
Where anything else is done with contributions they are exchanged before: each such conversion is listed, innermost
level first, and `lower` emits what is listed.

Not handled: operations it does not know, whose results are unknown; the axes of a batch, along which no cluster is
dealt out; tiles of which other CTAs walk a part (stream-K), since which ones do differs from tile to tile. Checked by:
tests/lower/cascade/test_placed_program.py, against enumeration of what each CTA's work touches, and against the copies
that the emitted text issues.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from xdsl.ir import Operation, SSAValue

from tilewright.ir.function import REDUCERS
from tilewright.ir.placement import (
    SPACE_OF,
    Along,
    Digit,
    Held,
    Partial,
    Placement,
    Space,
    State,
    everywhere,
    exchanged,
    folded,
    is_partial,
    joined,
    joined_state,
    placed,
    unknown,
)
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.types import value_type
from tilewright.ir.tile.walked_block import WalkedBlockOp
from tilewright.layout.linear.hierarchy import Hierarchy

_ANY_NUMBER_OF_TIMES = (0.0, math.inf, -math.inf)
"""Numbers of which a sum, and any fold, may have several for one."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Contributions of places of a level that are folded; before, after: the value's placements."""

    level: str
    before: Placement
    after: Placement

    @property
    def space(self) -> Space:
        """Through which they meet."""
        return SPACE_OF[self.level]


@dataclass(frozen=True, slots=True)
class PlacedProgram:
    """of: each value's placement, as it is stored or computed with; exchanges: of a value, in order."""

    of: Mapping[SSAValue, Placement]
    exchanges: Mapping[SSAValue, tuple[Exchange, ...]]


def placements(
    program: tile.ProgramOp, deal: Hierarchy, brought: Collection[tile.LoadOp], after: Mapping[str, State]
) -> PlacedProgram:
    """brought: loads that go through shared memory; after: by level, what each place holds of a value whose
    contributions its level has folded, if not all of it."""
    found = _Interpretation(deal, brought, after)
    for op in program.body.block.ops:
        found.visit(op, None)
    return PlacedProgram(found.of, {value: tuple(listed) for value, listed in found.exchanges.items()})


@dataclass(slots=True)
class _Interpretation:
    deal: Hierarchy
    brought: Collection[tile.LoadOp]
    after: Mapping[str, State]
    of: dict[SSAValue, Placement] = field(default_factory=dict[SSAValue, Placement])
    exchanges: dict[SSAValue, list[Exchange]] = field(default_factory=dict[SSAValue, list[Exchange]])

    def visit(self, op: Operation, loop: tile.LoopOp | None) -> None:
        """loop: that the operation stands in."""
        match op:
            case tile.LoadOp():
                axes = {base_axis(axis) for axis in value_type(op.result).axis_names}
                space: Space = "shared::cta" if op in self.brought else "register"
                self.of[op.result] = placed(self.deal, axes, space)
            case tile.FullOp() | tile.ConstantOp():
                often = op.value.value.data in _ANY_NUMBER_OF_TIMES
                self.of[op.result] = everywhere(self.deal) if often else placed(self.deal, ())
            case tile.PositionOp():
                self.of[op.result] = placed(self.deal, ())
            case tile.BinaryOp() if loop is not None and (sides := self.carried_side(op, loop)) is not None:
                self.of[op.result] = self.accumulated(*sides, op.function.data.value, loop.axis.data)
            case tile.UnaryOp() | tile.BinaryOp() | tile.SelectOp() | tile.CastOp() | ContractOp():
                self.of[op.results[0]] = self.met(op, loop)
                if isinstance(op, ContractOp) and loop is None:
                    self.of[op.result] = folded(self.of[op.result], op.axis.data, "add")
            case ReduceOp() | ArgReduceOp():
                own = self.met(op, loop)
                # A walk's tiles are folded by whoever has them; what is made of all of them the walk carries.
                self.of[op.result] = own if loop is not None else folded(own, op.axis.data, op.function.data.value)
            case tile.BroadcastOp() | tile.TransposeOp() | WalkedBlockOp():
                self.of[op.result] = self.whole(op.operand, loop)
            case tile.LoopOp():
                self.walk(op)
            case tile.StoreOp():
                stored = self.whole(op.value, loop)
                assert all(each.state is not Held.MIXED for each in stored.digits), "nobody knows who has a result"
            case _:
                self.of |= dict.fromkeys(op.results, unknown(self.deal))

    def met(self, op: Operation, loop: tile.LoopOp | None) -> Placement:
        """Where all operands lie, in registers."""
        found = everywhere(self.deal)
        for operand in op.operands:
            found = joined(found, replace(self.whole(operand, loop), space="register"))
        return found

    def whole(self, value: SSAValue, loop: tile.LoopOp | None) -> Placement:
        """The placement of a value of which no place has a contribution any more. Within a walk nobody exchanges."""
        for level in dict.fromkeys(each.level for each in self.of[value].digits if is_partial(each.state)):
            before = self.of[value]
            after = Held.MIXED if loop is not None else self.after.get(level, Held.SAME)
            self.of[value] = exchanged(before, level, after)
            if loop is None:
                self.exchanges.setdefault(value, []).append(Exchange(level, before, self.of[value]))
        return self.of[value]

    def walk(self, op: tile.LoopOp) -> None:
        """Until what is carried stays as it is: each state can grow three times."""
        end, carried = op.body.block.last_op, [self.whole(value, None) for value in op.carried]
        assert isinstance(end, tile.YieldOp), "a walk ends by what it carries on"
        while True:
            self.of |= dict(zip(op.body.block.args[1:], carried, strict=True))
            for inner in op.body.block.ops:
                if inner is not end:
                    self.visit(inner, op)
            following = [joined(old, self.of[new]) for old, new in zip(carried, end.values, strict=True)]
            if following == carried:
                break
            carried = following
        dealt_out = placed(self.deal, (op.axis.data,))
        for output, left in zip(op.outputs, carried, strict=True):
            pairs = zip(left.digits, dealt_out.digits, strict=True)
            self.of[output] = replace(left, digits=tuple(_behind(digit, tiles) for digit, tiles in pairs))

    def carried_side(self, op: tile.BinaryOp, loop: tile.LoopOp) -> tuple[SSAValue, SSAValue] | None:
        """What a walk carries, or has added to it so far, and the term that a fold of both takes besides; None of any
        other operation."""

        def is_carried(value: SSAValue) -> bool:
            return value in loop.body.block.args or any(is_partial(each.state) for each in self.of[value].digits)

        left, right = is_carried(op.left), is_carried(op.right)
        if op.function.data not in REDUCERS or left == right:
            return None
        return (op.left, op.right) if left else (op.right, op.left)

    def accumulated(self, carried: SSAValue, term: SSAValue, function: str, axis: str) -> Placement:
        """Of what a walk carries and a tile's term, folded."""

        def of_digit(own: Digit, other: Digit, tiles: Digit) -> Digit:
            if not isinstance(tiles.state, Along):
                return replace(own, state=joined_state(own.state, other.state))
            fits = own.state in (Held.EVERYWHERE, Partial(function)) and other.state is not Held.MIXED
            return replace(own, state=Partial(function) if fits else Held.MIXED)

        left, right, dealt_out = self.of[carried], self.of[term], placed(self.deal, (axis,))
        digits = map(of_digit, left.digits, right.digits, dealt_out.digits)
        return replace(left, digits=tuple(digits))


def _behind(digit: Digit, tiles: Digit) -> Digit:
    """Of what a walk gives. tiles: how its tiles are dealt out to the same places."""
    known = not isinstance(tiles.state, Along) or is_partial(digit.state) or digit.state is Held.EVERYWHERE
    return digit if known else replace(digit, state=Held.MIXED)
