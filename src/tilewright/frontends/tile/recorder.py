"""How are ops recorded at the author's lines, and which value does a handle stand for?

Each handle remembers the scope it was made in (the program, or one loop's body); using it anywhere that scope is not
open is the author's mistake of carrying a value out of a loop. Equal pure ops in open scopes are recorded once.

Checked by tests/frontends/test_tile_trace.py and test_tile_errors.py.
"""

from __future__ import annotations

import numbers
import reprlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar, cast

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.tile.handles import Accumulator, Expression, Index, Product, Remainder, TensorHandle
from tilewright.frontends.tile.kernel import source_line
from tilewright.ir.tile.gather import GatherOp
from tilewright.ir.tile.operations import BroadcastOp, CastOp, ConstantOp, DotOp, FullOp, GridOp, PositionOp, StoreOp
from tilewright.ir.tile.rules import place_of
from tilewright.ir.tile.types import GroupType, RuleViolation, value_type

_PACKAGE = __name__.rpartition(".")[0]
_Op = TypeVar("_Op", bound=Operation)


@dataclass(frozen=True, slots=True)
class Bound:
    """What a handle stands for, and the number of the scope it was made in."""

    value: SSAValue
    scope: int
    loop_axis: str


class Scope:
    """An open block: the program's body or a loop's. `known` maps what a pure op computes to the op that does."""

    def __init__(self, number: int, block: Block, axis: str = "", place: str = "") -> None:
        self.number = number
        self.block = block
        self.axis = axis
        self.place = place
        self.known: dict[object, Operation] = {}
        self.carried: dict[Accumulator, SSAValue] = {}


class Recorder:
    """The open scopes of a kernel that is traced, and what its handles stand for."""

    def __init__(self, block: Block) -> None:
        self.bound: dict[Index | Expression, Bound] = {}
        self.scopes = [Scope(0, block)]
        self.scope_count = 1

    # ------------------------------------------------------------ places and errors

    def place(self) -> str:
        """ "file:line" of the innermost frame that is not the language's own."""
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while _is_own(str(frame.f_globals.get("__name__", ""))) and frame.f_back is not None:
            frame = frame.f_back
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def refuse(self, message: str, remedy: str, place: str = "") -> NoReturn:
        file, _, line = (place or self.place()).rpartition(":")
        raise TilewrightError(message, span=Span(file, int(line), text=source_line(file, int(line))), remedy=remedy)

    def refuse_violation(self, violation: VerifyException, place: str = "") -> NoReturn:
        remedy = violation.remedy if isinstance(violation, RuleViolation) else ""
        self.refuse(str(violation), remedy, place)

    # ------------------------------------------------------------ recording

    def record(self, op: _Op) -> _Op:
        """Append an op to the innermost scope, or give back the equal one recorded before."""
        try:
            op.verify_()
        except VerifyException as violation:
            self.refuse_violation(violation)
        if isinstance(op, FullOp | DotOp | StoreOp | GridOp):
            self.scopes[-1].block.add_op(op)
            return op
        # What is gathered is no tile, and the same in a loop.
        into = self.scopes[0 if isinstance(op, GatherOp) else -1]
        properties = tuple(sorted((name, str(value)) for name, value in op.properties.items() if name != "place"))
        key = (type(op), tuple(op.operands), properties, tuple(op.result_types))
        for scope in self.scopes:
            known = scope.known.get(key)
            if known is not None:
                op.erase()
                return cast(_Op, known)  # the key holds the op's class
        into.known[key] = op
        into.block.add_op(op)
        return op

    def build(self, make: Callable[..., _Op], *arguments: object) -> _Op:
        """Make an op at the author's line and record it."""
        try:
            op = make(*arguments, self.place())
        except VerifyException as violation:
            self.refuse_violation(violation)
        return self.record(op)

    def bind(self, handle: Index | Expression, value: SSAValue) -> None:
        scope = self.scopes[-1]
        self.bound[handle] = Bound(value, scope.number, scope.axis)

    def resolve(self, handle: Index | Expression) -> SSAValue:
        """The value behind a handle, where it may be used here."""
        bound = self.bound.get(handle)
        if bound is None:
            self.refuse("this tile or index belongs to another kernel", "compute it in the kernel that uses it")
        if all(scope.number != bound.scope for scope in self.scopes):
            if isinstance(handle, Index):
                self.refuse(
                    f"the index over {handle.axis} is used outside its loop", "use it in the body of its own loop"
                )
            self.refuse(
                f"a tile computed inside the loop over {bound.loop_axis} is used after it",
                "accumulate with `acc += tw.dot(x, y)`, acc from tw.zeros, or compute the tile after the loop",
            )
        return bound.value

    def value_of(self, operand: object) -> SSAValue:
        """The tile behind an elementwise operand; a number becomes a constant without axes."""
        match operand:
            case Product():
                self.refuse(
                    "tw.dot covers one tile of its contracted axis and is no finished value",
                    "write `acc += tw.dot(x, y)` in the loop, with acc from tw.zeros, and use acc after it",
                )
            case Accumulator() if len(self.scopes) > 1:
                self.refuse("an accumulator is read inside a loop", "only `acc += tw.dot(x, y)` there; read it after")
            case Expression():
                return self.resolve(operand)
            case TensorHandle():
                self.refuse(
                    f"tensor {operand.name} is used without indices", f"write {operand.name}[...] to load a tile"
                )
            case Index():
                value = self.resolve(operand)
                self.refuse_group(value, f"the index of the group along {operand.axis} is used as a number")
                return self.build(PositionOp, value).result
            case Remainder():
                return self.value_of(operand.index - (operand.index // operand.size) * operand.size)
            case bool():
                self.refuse(f"{operand!r} is used as a number", "write a number")
            case numbers.Real():
                try:
                    return self.build(ConstantOp, float(operand)).result
                except OverflowError:
                    self.refuse("a constant is past all floats", "use a number in float32's range")
            case _ if hasattr(operand, "__array__"):
                self.refuse(f"an array ({type(operand).__name__}) meets a tile", "pass it as a parameter of the kernel")
            case _:
                self.refuse(f"{reprlib.repr(operand)} is neither a tile nor a number", "use tiles and Python numbers")

    def widened(self, value: SSAValue) -> SSAValue:
        if value_type(value).element_kind.is_pair:
            self.refuse(
                "a tile of pairs of numbers of 4 bits in arithmetic", "multiply it by tw.dot, with factors of blocks"
            )
        return value if value_type(value).element_kind is Element.F32 else self.converted(value, Element.F32)

    def converted(self, value: SSAValue, element: Element) -> SSAValue:
        if value_type(value).element_kind is element:
            return value
        return self.build(CastOp, value, element).result

    def broadcast(self, value: SSAValue, axes: tuple[str, ...]) -> SSAValue:
        if value_type(value).axis_names == axes:
            return value
        return self.build(BroadcastOp, value, axes).result

    def refuse_group(self, value: SSAValue, message: str) -> None:
        if isinstance(value.type, GroupType):
            self.refuse(message, "use it as it is: a program computes in one group")


def _is_own(module: str) -> bool:
    """Whether a module is the language's, or the package's own, which looks names up in it."""
    return module.startswith(_PACKAGE) or module == _PACKAGE.partition(".")[0]


def span_of(op: Operation) -> Span | None:
    """The author's line behind an op of the dialect, with its text; None where the op carries no place."""
    file, _, line = place_of(op).rpartition(":")
    return Span(file, int(line), text=source_line(file, int(line))) if line.isdecimal() else None
