"""What does a consumer compute element by element of the values in its registers: maps, folds, products' operands?

A map takes the fragments that an expression needs, and computes the rest of the expression at each place. What several
users need is computed once, and kept; everything else is computed inside the map of its user. Elements past the
streamed axis's end are absent: a fold takes its identity for them, a product 0.

Checked by: tests/lower/cascade.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, StringAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.base.element import Element
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentFoldOp, FragmentMapOp
from tilewright.ir.cascade_facts import corrected_sum, may_end_within
from tilewright.ir.function import Function
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.repeats import bare, users
from tilewright.ir.tile.types import value_type
from tilewright.ir.tile.walked_block import WalkedBlockOp
from tilewright.lower.build import INDEX
from tilewright.lower.cascade.point_values import (
    emit_exponentials,
    end_of_axis,
    follows_of_places,
    numbered_axis,
    position_at,
    value_inside,
)
from tilewright.lower.expression import point_value, scalar_function

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer

_SCALAR = ac.ScalarType()
_IDENTITIES = {Function.ADD: 0.0, Function.MAX: -math.inf, Function.MIN: math.inf}


def folded(consumer: Consumer, op: ReduceOp) -> SSAValue:
    function = op.function.data
    operand = bare(op.operand)
    first = _bounding(consumer, op)
    if _is_partial(consumer) and (first is None or first is op):
        if not _is_at_hand(consumer, operand) and _is_shared(consumer, operand) and _is_loaded_for(consumer, operand):
            consumer.fragment(operand)
        (held,) = mapped(consumer, [(operand, Element.F32, _IDENTITIES[function])])
        if first is op:
            consumer.values[operand] = held
    else:
        held = consumer.kept(operand)
    kind = held.type
    assert isinstance(kind, ac.FragmentType)
    folded = ac.FragmentType(kind.m, kind.n, StringAttr("m"), kind.element)
    properties: dict[str, Attribute] = {"function": StringAttr(function.value)}
    properties |= {"late": IntAttr(1)} if consumer.d.late_sums and function is Function.ADD else {}
    return consumer.build.value(FragmentFoldOp.create(operands=[held], properties=properties, result_types=[folded]))


def left_operand(consumer: Consumer, op: ContractOp, element: Element) -> SSAValue:
    """A product's left operand, packed in registers; 0 past the streamed axis's end."""
    value = consumer.products[op].held
    value = bare(value)
    if isinstance(value.owner, tile.CastOp) and value_type(value).element_kind is element:
        value = bare(value.owner.operand)  # the packing rounds
    if not _is_at_hand(consumer, value) and _is_shared(consumer, value):
        consumer.fragment(value)  # rounded for this product, and computed once
    bounded = _is_partial(consumer) and _bounding(consumer, op) is None
    (found,) = mapped(consumer, [(value, element, 0.0 if bounded else None)], operand=True)
    return found


def mapped(
    consumer: Consumer,
    wanted: Sequence[tuple[SSAValue, Element, float | None]],
    over: frozenset[str] | None = None,
    *,
    operand: bool = False,
    deferred: bool = False,
) -> list[SSAValue]:
    """Values over the same axes, each rounded to an element; where a number is given, that stands in for elements
    past the streamed axis's end. over: the axes, where these values are to be repeated along more than theirs.
    operand: whether a product takes them for A; deferred: whether they are computed where they are stored."""
    kept = consumer.axes.kept(wanted[0][0]) if over is None else over
    inputs: dict[SSAValue, SSAValue] = {}
    positions: dict[tile.PositionOp, None] = {}
    for value, _, _ in wanted:
        _gather(consumer, value, inputs, positions, top=value)
    if operand or any(element.bytes == 2 for _, element, _ in wanted):
        consumer.settle_computed()
    columns = next((axis for axis in (consumer.axes.streamed, *consumer.axes.columns) if axis in kept), "")
    bounded = any(bound is not None for _, _, bound in wanted)
    places: list[SSAValue] = []
    if positions or bounded:
        places = [consumer.first_row(), consumer.first(columns) if columns else consumer.zero()]
    batch = [axis for axis in consumer.axes.batch if axis in map(numbered_axis, positions)]
    places += [consumer.place.indices[axis] for axis in batch]
    body = Block(arg_types=[*([_SCALAR] * len(inputs)), *(INDEX for _ in places)])
    inner = consumer.build.inside(body)
    leaves: dict[SSAValue, SSAValue] = dict(zip(inputs, body.args, strict=False))
    at = dict(zip((consumer.axes.row, columns, *batch), body.args[len(inputs) :], strict=False))
    for each in positions:
        leaves[each.result] = position_at(inner, each, at)
    for value, _, _ in wanted:
        emit_exponentials(inner, value, leaves, lambda each: consumer.axes.kept(each) <= {consumer.axes.row})
    results: list[SSAValue] = []
    inside: SSAValue | None = None
    for value, _, bound in wanted:
        if bound is None:
            results.append(point_value(inner, value, leaves))
            continue
        if inside is None:
            number = inner.value(ac.IndexNumberOp.create(operands=[at[columns]], result_types=[_SCALAR]))
            extent = end_of_axis(inner, consumer.program.sizes[consumer.axes.streamed])
            inside = scalar_function(inner, Function.LT.value, number, extent)
        results.append(value_inside(inner, value, leaves, inside, bound))
    inner.add(ac.YieldOp.create(operands=results))
    segments = {"operandSegmentSizes": DenseArrayBase.from_list(i32, [len(inputs), len(places)])}
    reach = [consumer.program.extents[axis] for axis in (consumer.axes.row, columns)] if positions and columns else []
    op = FragmentMapOp.create(
        operands=[*inputs.values(), *places],
        properties=segments
        | ({"reach": int_array(reach)} if reach else {})
        | ({"deferred": IntAttr(1)} if deferred else {})
        | ({"skips_ones": IntAttr(1)} if consumer.d.skips_ones and _is_corrected(consumer, wanted[0][0]) else {}),
        result_types=[consumer.kind(kept, element, operand=operand) for _, element, _ in wanted],
        regions=[Region(body)],
    )
    consumer.build.add(op)
    return list(op.results)


def _gather(
    consumer: Consumer,
    value: SSAValue,
    inputs: dict[SSAValue, SSAValue],
    positions: dict[tile.PositionOp, None],
    top: SSAValue,
) -> None:
    """The fragments and positions that an expression is computed from."""
    met: set[SSAValue] = set()
    open_ = [value]
    while open_:
        each = bare(open_.pop())
        if each in met or each in inputs:
            continue
        met.add(each)
        owner = each.owner
        if isinstance(owner, tile.PositionOp):
            positions[owner] = None
        elif isinstance(owner, tile.ConstantOp) or (isinstance(owner, tile.FullOp) and each not in consumer.values):
            pass
        elif _is_at_hand(consumer, each) or (each is not top and _is_shared(consumer, each)):
            inputs[each] = consumer.fragment(each)
        else:
            assert isinstance(owner, Operation)
            open_ += reversed(owner.operands)


def _is_at_hand(consumer: Consumer, value: SSAValue) -> bool:
    """Whether a value is no expression of others."""
    made = isinstance(value.owner, tile.LoadOp | ReduceOp | ContractOp | WalkedBlockOp)
    return made or value in consumer.values or value in consumer.running or value in consumer.postponed


def _is_loaded_for(consumer: Consumer, value: SSAValue) -> bool:
    """Whether an expression loads its elements, each time that it is computed."""
    inputs: dict[SSAValue, SSAValue] = {}
    _gather(consumer, value, inputs, {}, top=value)
    return any(
        isinstance(held.owner, ac.FragmentLoadOp) and len(consumer.axes.kept(each)) > 1 for each, held in inputs.items()
    )


def _is_shared(consumer: Consumer, value: SSAValue) -> bool:
    """Whether a value is computed once for several users. What follows of places alone, as a mask does, is not: a
    selection by it is passed over where it holds in the whole tile, and as numbers it would take registers. Nor is
    what is made of sums alone: their registers are free once each result's number is computed."""
    several = consumer.axes.row in consumer.axes.kept(value) and len(users(value)) > 1
    return several and not consumer.summed and not follows_of_places(value)


def _is_partial(consumer: Consumer) -> bool:
    """Whether the last tile along the streamed axis reaches past its end."""
    return may_end_within(consumer.program, consumer.axes.streamed, consumer.d.tile_streamed)


def _bounding(consumer: Consumer, op: Operation) -> ReduceOp | None:
    """The fold that bounds its operand for all that a walk computes of it; None where each bounds its own."""
    listed = [each for each in consumer.program.walk() if isinstance(each, ReduceOp)] if consumer.d.bounded_once else []
    first = (listed[number] for number in consumer.d.bounded_once)
    return next((each for each in first if each.parent_op() is op.parent_op()), None)


def _is_corrected(consumer: Consumer, value: SSAValue) -> bool:
    """Whether a value is a sum times a number of each row, to which a product is added."""
    return any(corrected_sum(each.op, consumer.axes) is bare(value) for each in consumer.products.values())
