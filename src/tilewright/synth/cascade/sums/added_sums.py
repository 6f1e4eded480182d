"""Which products of a walk does no accumulator of the tensor core sum as a whole, but threads, in float32?

Where the tensor core keeps too few bits of sums of 8-bit products (`synth.tile.accumulation`), it sums a slice: what a
row of shared memory holds of the contracted axis. Of products over the walked axis that is a tile of the walk at most,
and threads add it to what the walk carries; of products over another axis it is a part of what stands in the slots, and
threads add up the parts. With `Wanted(accumulation="fast")` the tensor core sums all.

Checked by: tests/synth/cascade/sums/test_added_sums.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tilewright.ir.cascade import SPAN_BYTES
from tilewright.ir.cascade_facts import CascadeAxes, Product, products_of
from tilewright.ir.tile import operations as tile
from tilewright.synth.cascade.sums.tensor_columns import slot_sums
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_SUM_BITS = 24
"""Of a sum, as float32 has them."""


def added_products(program: tile.ProgramOp, axes: CascadeAxes, target: Target, wanted: Wanted) -> tuple[int, ...]:
    """The products, by their numbers in the program, whose slices threads add up. A walk that only sums has two levels
    of its own."""
    if target.limit("product.f8_sum_bits") >= _SUM_BITS or wanted.accumulation == "fast" or slot_sums(program, target):
        return ()
    return tuple(
        number
        for number, each in enumerate(products_of(program))
        if each.element_bytes == 1 and (each.op.axis.data == axes.streamed or slices_of(program, each) > 1)
    )


def slices_of(program: tile.ProgramOp, product: Product) -> int:
    """Slices of a product over an axis that is not walked."""
    return -(-program.extents[product.op.axis.data] * product.element_bytes // SPAN_BYTES)


def registers_of_values(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    added: Collection[int],
    wide: Mapping[str, int],
    narrow: int,
    packed: int,
) -> int:
    """Of a thread, for one tile of values: scores in float32 and as the next product's operand, or that operand and the
    sums that threads are to add. wide, narrow: registers of a tile over the columns, and over the walked axis; packed:
    of operands."""
    products = products_of(program)
    scores = [number for number, each in enumerate(products) if each.op.axis.data != axes.streamed]
    in_parts = any(number in added for number in scores)
    sums = [wide[axes.column_of(axes.kept(products[each].op.result))] for each in added if each not in scores]
    return packed + max(narrow * (max(len(scores), 1) + in_parts), sum(sums))
