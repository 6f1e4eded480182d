"""A sum in two levels: products of slots apart, each added by the threads to a total in float32.

The tensor core writes each product to an accumulator of its own (`ir.ac.promotion`). What a product is scaled by before
it is added, if anything, is the caller's.
Checked by: tests/lower/test_block_scales.py, tests/end_to_end/test_walked_bytes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, Region, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.promotion import PromotedReadOp, PromotedStartOp, PromotedType, PromoteOp
from tilewright.lower.build import Build
from tilewright.lower.expression import constant

Scale = Callable[[Build, Sequence[SSAValue]], SSAValue]
"""Of one place, from the numbers that were loaded for it."""


def start_total(build: Build, rows: int, columns: int) -> SSAValue:
    """A warpgroup's total of zeros."""
    return build.value(PromotedStartOp.create(result_types=[PromotedType(IntAttr(rows), IntAttr(columns))]))


def _one(build: Build, _: Sequence[SSAValue]) -> SSAValue:
    return constant(build, 1.0)


def add_product(
    build: Build, total: SSAValue, partial: SSAValue, loaded: Sequence[SSAValue] = (), scale: Scale = _one
) -> SSAValue:
    """The total with one slot's settled product added. loaded: numbers at the accumulator's places."""
    body = Block(arg_types=[ac.ScalarType()] * len(loaded))
    inner = build.inside(body)
    inner.add(ac.YieldOp.create(operands=[scale(inner, body.args)]))
    op = PromoteOp.create(operands=[total, partial, *loaded], result_types=[total.type], regions=[Region(body)])
    return build.value(op)


def read_total(build: Build, rows: int, columns: int, total: SSAValue) -> SSAValue:
    """The total as a settled accumulator."""
    kind = ac.AccumulatorType(IntAttr(rows), IntAttr(columns))
    return build.value(PromotedReadOp.create(operands=[total], result_types=[kind]))
