"""Which integers make sense as a program's inputs: where groups end, rows of tables, lengths?

A program has a meaning for any integers. For most of those that one would draw at random, it is that nothing is read:
every key is masked, every row lies outside. So whoever draws inputs asks here what a tensor of integers stands for.

Theory: a tensor that limits groups, and one that says where an element lies along a dimension, name the extent
themselves. Of others, what is loaded is followed through the operations made of it; where that is compared with
positions along an axis, it stands for a place on it, up to its end.

Not handled: what several integers must be to one another; integers compared with one another alone (numbers of
documents), of which any will do. Checked by:
tests/driver/run/test_random_integers.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.ir.function import Function
from tilewright.ir.tile.axes import derived_extent
from tilewright.ir.tile.elementwise import BinaryOp
from tilewright.ir.tile.facts import gathers, grouping, parameter_name
from tilewright.ir.tile.gather import Table
from tilewright.ir.tile.operations import LoadOp, PositionOp, ProgramOp
from tilewright.ir.tile.types import IndexType, TensorType

_COMPARISONS = frozenset({Function.LT, Function.LE, Function.EQ})


@dataclass(frozen=True, slots=True)
class Places:
    """Any numbers from 0 to `most`, which is one of them."""

    most: int


@dataclass(frozen=True, slots=True)
class Ends:
    """Numbers from 0 that do not decrease; the last is `most`."""

    most: int


IndexInput = Places | Ends


def index_inputs(program: ProgramOp) -> dict[str, IndexInput]:
    """By parameter, what each tensor of integers that stands for places holds. Of extents that only a launch knows,
    the program's own stand for them."""
    found: dict[str, IndexInput] = {}
    for name, most in (*_compared(program), *_tables(program)):
        earlier = found.get(name, Places(0))
        found[name] = Places(max(earlier.most, most))
    groups = grouping(program)
    if groups is not None:
        most = program.extents[groups.ragged]
        found[groups.bounds] = Places(most) if groups.kind == "within" else Ends(most)
    return found


def _tables(program: ProgramOp) -> Iterator[tuple[str, int]]:
    """(parameter, last place) of each dimension that a table indexes."""
    for gather in gathers(program):
        for dimension in gather.dimensions:
            match dimension.where:
                case Table(tensor):
                    yield parameter_name(program, tensor), dimension.extent - 1
                case _:
                    pass


@dataclass(frozen=True, slots=True)
class _Made:
    """What a value is made of: parameters of integers, and axes whose positions it counts."""

    parameters: frozenset[str] = frozenset()
    axes: frozenset[str] = frozenset()


def _compared(program: ProgramOp) -> Iterator[tuple[str, int]]:
    """(parameter, extent) of each axis whose positions are compared with what a tensor of integers holds."""
    made: dict[SSAValue, _Made] = {}
    for op in program.walk():
        parts = [made.get(operand, _Made()) for operand in op.operands]
        whole = _Made(
            frozenset(name for part in parts for name in part.parameters),
            frozenset(axis for part in parts for axis in part.axes),
        )
        match op:
            case LoadOp(tensor=tensor) if isinstance(tensor.type, TensorType) and not tensor.type.element_kind.is_float:
                whole = _Made(parameters=frozenset({parameter_name(program, tensor)}))
            case PositionOp(index=index) if isinstance(index.type, IndexType):
                whole = _Made(axes=frozenset({index.type.axis.data}))
            case BinaryOp() if op.function.data in _COMPARISONS:
                for one, other in (parts, parts[::-1]):
                    for name in one.parameters:
                        yield from ((name, derived_extent(axis, program.extents)) for axis in other.axes)
                whole = _Made()
            case _:
                pass
        for result in op.results:
            made[result] = whole
