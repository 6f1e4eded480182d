"""Are a module's operations of the dialect's shape: operands, results and properties as their definitions say?

What definitions ask of most operations is of which classes these are, and how many: where one of such a shape has been
found well-formed, so is every other (`_shape`). Operations whose definition asks more are verified one by one: those
with regions, traits, segments or a check of their own, and the last of a block, of which its place is asked.

Checked by: tests/contract/typestate/test_typestate_structure.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from inspect import getclosurevars
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ArrayOfConstraint, DenseArrayBase, ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    BaseAttr,
    IRDLOperation,
    OpDef,
    OptionalDef,
    RangeConstraint,
    RangeLengthConstraint,
    RangeOf,
)
from xdsl.utils.exceptions import VerifyException

from tilewright.contract.typestate.finding import Findings

Shape = tuple[object, ...]
_KNOWN_MOST = 4096
_KNOWN: set[Shape] = set()
"""Shapes of operations that were found well-formed."""


def is_well_formed(module: ModuleOp, findings: Findings) -> bool:
    """Doubt operations whose operands or properties are not of the dialect's shape; False where one lacks what is asked
    of it by name."""
    complete = True
    for op in module.walk():
        for name in op.attributes:
            if name != "place":
                findings.doubt(f"carries the attribute {name!r}, which is not understood", op)
        _verify(op, findings)
        if isinstance(op, IRDLOperation) and op.name.startswith("ac."):
            needed = _needed(type(op))
            complete = complete and needed.properties <= op.properties.keys()
            complete = complete and len(op.regions) == needed.regions and _segments_fit(op)
            complete = complete and all(len(region.blocks) == 1 for region in op.regions)
    return complete


def _verify(op: Operation, findings: Findings) -> None:
    shape = _shape(op)
    if shape in _KNOWN:
        return
    try:
        op.verify(verify_nested_ops=False)
    except VerifyException as problem:
        findings.doubt(f"is malformed: {str(problem).strip().splitlines()[-1]}", op)
        return
    if shape is not None and len(_KNOWN) < _KNOWN_MOST:
        _KNOWN.add(shape)


@dataclass(frozen=True, slots=True)
class _Needed:
    """What every operation of a class has."""

    properties: frozenset[str]
    regions: int


def _segments_fit(op: IRDLOperation) -> bool:
    """Does an operation have the operands and results that it says it has? Else none can be asked for by its name."""
    for name, values in ((AttrSizedOperandSegments, op.operands), (AttrSizedResultSegments, op.results)):
        sizes = op.properties.get(name.attribute_name)
        if isinstance(sizes, DenseArrayBase) and sum(sizes.get_values()) != len(values):
            return False
    return True


@cache
def _needed(kind: type[IRDLOperation]) -> _Needed:
    definition = kind.get_irdl_definition()
    properties = {name for name, each in definition.properties.items() if not isinstance(each, OptionalDef)}
    return _Needed(frozenset(properties), len(definition.regions))


def _shape(op: Operation) -> Shape | None:
    """All that the verifier asks of an operation; None where it may ask more."""
    if not _is_by_shape(type(op)) or op.next_op is None or op.parent is None or op.successors or op.regions:
        return None
    operands: list[object] = []
    for value in op.operands:
        kind = type(value)
        if kind is not OpResult and kind is not BlockArgument:
            return None  # such as one that was erased
        operands += (kind, type(value.type))
    properties = [(name, type(each), _inner(each)) for name, each in op.properties.items()]
    return type(op), tuple(operands), tuple([type(result.type) for result in op.results]), tuple(properties)


def _inner(attribute: Attribute) -> tuple[type[Attribute], ...]:
    """Classes of an array's elements."""
    if not isinstance(attribute, ArrayAttr):
        return ()
    return tuple(type(each) for each in cast("ArrayAttr[Attribute]", attribute).data)


@cache
def _is_by_shape(kind: type[Operation]) -> bool:
    """Whether the definition of a class asks for classes and numbers alone."""
    if not issubclass(kind, IRDLOperation):
        return False
    definition = kind.get_irdl_definition()
    # The class's own check, which the decorator wraps: the base's does nothing.
    own = getclosurevars(kind.verify_).nonlocals.get("custom_verify")
    more = definition.regions or definition.successors or definition.attributes or definition.options
    if own is not Operation.verify_ or more or tuple(definition.traits):
        return False
    return all(map(_asks_for_classes, _constraints(definition)))


def _constraints(definition: OpDef) -> Iterable[object]:
    yield from (each.constr for _, each in definition.operands)
    yield from (each.constr for _, each in definition.results)
    yield from (each.constr for each in definition.properties.values())


def _asks_for_classes(constraint: object) -> bool:
    match constraint:
        case AnyAttr() | BaseAttr():
            return True
        case RangeOf():
            return _asks_for_classes(constraint.constr)
        case RangeLengthConstraint():
            return _asks_for_classes(constraint.constraint)
        case ArrayOfConstraint():
            inner: RangeConstraint = constraint.elem_range_constraint
            return _asks_for_classes(inner)
        case _:
            return False
