"""How the part of an array at an index becomes an array of its own: its address moves, and a dimension goes.

Checked by: tests/lower/test_batch.py.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.lower.build import Build
from tilewright.lower.ptx.copies.global_access import ELEMENT_BYTES, element_address
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import GlobalPlace


def part_at(build: Build, array: SSAValue, dimension: int, index: SSAValue) -> SSAValue:
    """The part of an array at `index` along a dimension, 0 the outermost."""
    kind = array.type
    assert isinstance(kind, ac.GlobalType)
    return build.value(
        ac.GlobalPartOp.create(
            operands=[array, index],
            properties={"dimension": IntAttr(dimension)},
            result_types=[ac.GlobalType(kind.element, IntAttr(kind.rank.data - 1))],
        )
    )


def lower_part(lowering: Lowering, op: ac.GlobalPartOp) -> GlobalPlace:
    """The array without the dimension, from the address of its first element on."""
    source, dimension = lowering.place(op.source), op.dimension.data
    assert isinstance(source, GlobalPlace)
    (stride,) = lowering.passed.strides(lowering.text, [source.apart[dimension]])
    width = ELEMENT_BYTES[source.element]
    first = element_address(lowering.text, source.register, lowering.index(op.index), stride, width)
    return replace(
        source,
        register=first,
        shape=source.shape[:dimension] + source.shape[dimension + 1 :],
        apart=source.apart[:dimension] + source.apart[dimension + 1 :],
    )
