"""Which sums stay in tensor memory, how many of its columns does a tile take, and what stands where in them?

Where walks only sum, a role of its own issues, and the columns are slots for a tile's sums: two where they fit, so that
one is read while the other is filled.

Elsewhere each consumer issues its own products, and has an equal part of the columns. Of a product over the walked axis
whose sum is only carried on there are two placements. *In registers*: an iteration's product has columns until threads
have read it, and the sum takes registers through the walk; threads read and add all its columns in every iteration. *In
tensor memory*: the tensor core adds, the sum has its columns through the walk, and is read once behind it; where a
product of slots that is waited for comes next, nobody waits for this one, whose computed operand then has its columns
through the walk, too. Every other product is waited for and read as soon as it is done. A left operand that threads
computed has columns while it is multiplied. So each value has columns for a span of time, and what does not live
together shares them: `solve.tier_choice` finds the placement in which threads read and wait least, and packs it within
a consumer's part and registers; the proof of the program sees what is still needed when something is written
(`contract.typestate.steps.tensor_memory`).

A CTA allocates a power of two (PTX ISA, tcgen05.alloc). Checked by: tests/synth/cascade/sums/test_tensor_columns.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.base.plural import counted
from tilewright.ir.cascade import SumPlace
from tilewright.ir.cascade_facts import (
    CascadeAxes,
    Product,
    all_slot_sums,
    carried_sum,
    is_of_slots,
    products_of,
    shared_sums,
)
from tilewright.ir.cascade_facts import slot_sums as sums_of_walk
from tilewright.ir.scaled_terms import scales_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loads, loops
from tilewright.ir.tile.gather import GatherOp
from tilewright.solve.interval_packing import Block, overlap
from tilewright.solve.tier_choice import Option, chosen_tiers
from tilewright.synth.cascade.sums.tensor_factors import tensor_factors
from tilewright.targets import Target

_CELL_BYTES = 4
"""Of a row, in a column of tensor memory."""
SUM_SLOTS = 2
"""Of a tile's sums: one is read while the other is filled."""
_COLUMN_STEP = 8
"""At whose multiples sums and operands begin."""


@dataclass(frozen=True, slots=True)
class TensorPlacement:
    """allocated: columns of a CTA, 0 where accumulators are registers; sum_slots: for a tile's sums, of a role that
    issues all, or of slot_columns each for what it issues of an iteration, beside the consumers' parts, else 0; places:
    where consumers issue, of each product's sum, in a consumer's part; used: columns of that part; factor_columns: the
    last of the CTA's, for factors of blocks."""

    allocated: int
    sum_slots: int = 0
    places: tuple[SumPlace, ...] = ()
    used: int = 0
    slot_columns: int = 0
    factor_columns: int = 0

    @property
    def staying(self) -> frozenset[int]:
        """The products, by number, whose sums stay."""
        return frozenset(number for number, each in enumerate(self.places) if each.stays)

    def words(self, streamed: str) -> tuple[str, ...]:
        """Of products that consumers issue, as a reason of a decision."""
        if not self.places:
            return ()
        stay, count = len(self.staying), len(self.places)
        words = f"{self.used} columns of tensor memory a consumer"
        if not stay:
            return (f"{words}: each of {counted(count, 'product')} is read as it is done",)
        adding = f"{stay} {'adds' if stay == 1 else 'add'}"
        return (f"{words}: of {counted(count, 'product')} {adding} there while {streamed} is walked",)


def slot_sums(program: tile.ProgramOp, target: Target) -> tuple[Product, ...]:
    """The products of a program all of whose walks do nothing but sum products of two slots: where sums are registers,
    only of those of one operand, and of arrays as they lie; elsewhere, those that nothing scales but factors of blocks
    that the tensor core takes."""
    if target.supports("tensor_memory"):
        found = all_slot_sums(program)
        return () if any(scales_of(each.op) and tensor_factors(each, target) is None for each in found) else found
    gathered = any(isinstance(load.tensor.owner, GatherOp) for load in loads(program))
    return () if gathered else shared_sums(program)


def summed_columns(program: tile.ProgramOp, axes: CascadeAxes, wide: Mapping[str, int]) -> int:
    """Of the sums of a walk's tile, of that walk which has most. wide: columns of a tile, by axis."""
    return max(
        sum(wide[axes.column_of(axes.kept(each.op.result))] for each in sums_of_walk(program, loop))
        for loop in loops(program)
    )


def staying_sums(program: tile.ProgramOp, axes: CascadeAxes, target: Target) -> frozenset[int]:
    """The products, by their numbers, whose sums may stay in tensor memory while an axis is walked. Not where a walk
    stores on its way, since the proof that nothing is stored twice does not follow its first iteration by itself."""
    if not target.supports("tensor_memory") or slot_sums(program, target):
        return frozenset()
    storing = {op.parent_op() for op in program.walk() if isinstance(op, tile.StoreOp)}
    return frozenset(
        number
        for number, each in enumerate(products_of(program))
        if each.op.parent_op() not in storing and carried_sum(each, axes) is not None
    )


def tensor_placement(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    wide: Mapping[str, int],
    consumers: int,
    streamed: int,
    registers: int,
    target: Target,
    issued: Sequence[int] = (),
    factors: int = 0,
) -> TensorPlacement | None:
    """None where nothing fits. wide: columns of a tile, by axis; streamed: along the streamed one; registers: a thread
    has so many for sums that do not stay in tensor memory, beside what it needs anyway; issued: products, by number, of
    walks that do more than sum, which a role of its own issues into slots; factors: columns that factors of blocks take
    beside the slots of sums."""
    if not target.supports("tensor_memory"):
        return TensorPlacement(0)
    step, most = target.limit("tensor_memory.allocation_columns_min"), target.limit("tensor_memory.columns")
    if slot_sums(program, target):
        columns = summed_columns(program, axes, wide)
        # Slots are equal parts of what factors leave, and begin at multiples of a step.
        factors = -(-factors // (SUM_SLOTS * _COLUMN_STEP)) * SUM_SLOTS * _COLUMN_STEP
        slots = SUM_SLOTS if SUM_SLOTS * columns + factors <= most else 1
        allocated = _power_of_two(max(slots * columns + factors, step))
        return TensorPlacement(allocated, slots, factor_columns=factors) if allocated <= most else None
    slot_columns = len(issued) * _whole(streamed)
    part = (most - SUM_SLOTS * slot_columns) // consumers // step * step
    products, staying = products_of(program), staying_sums(program, axes, target)
    values = [
        [Option(streamed)]
        if number in issued
        else product_options(program, axes, products, number, wide, streamed, issued, stays=number in staying)
        for number in range(len(products))
    ]
    found = chosen_tiers(values, registers, part)
    if found is None:
        return None
    taken = [each[option] for each, option in zip(values, found.options, strict=True)]
    blocks = [block for each in taken for block in each.blocks]
    assert overlap(blocks, [at for each in found.offsets for at in each]) is None, (
        "columns of values that live together"
    )
    places = tuple(
        SumPlace(at[0], at[1] if len(at) > 1 else 0, int(number in staying and each.load == 0), int(each.cost > 0))
        if at
        else SumPlace(0)
        for number, (at, each) in enumerate(zip(found.offsets, taken, strict=True))
    )
    ring_columns = SUM_SLOTS * slot_columns
    allocated = _power_of_two(ring_columns + consumers * -(-found.cells // step) * step)
    return TensorPlacement(allocated, SUM_SLOTS if issued else 0, places, found.cells, slot_columns)


def product_options(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    products: Sequence[Product],
    number: int,
    wide: Mapping[str, int],
    streamed: int,
    issued: Sequence[int],
    *,
    stays: bool,
) -> list[Option]:
    """The placements of a product's sum that its consumers issue. It is multiplied at moment 2 * number + 1, behind a
    computed operand's being written. What a placement costs is columns that threads read in an iteration, and its wait
    as much as one. issued: products that another role issues, whose waits are none for this one."""
    product = products[number]
    walks = product.op.axis.data == axes.streamed
    columns = _whole(wide[axes.column_of(axes.kept(product.op.result))] if walks else streamed)
    begin, end = 2 * number, 2 * number + 2
    stored = walks and not is_of_slots(program, product)
    cells = _whole(streamed * product.element_bytes // _CELL_BYTES)
    operand = (Block(cells, begin, end),) if stored else ()
    if not stays:
        return [Option(columns + 1, 0, (Block(columns, begin + 1, end), *operand))]
    walk = [at for at, each in enumerate(products) if each.op.parent_op() is product.op.parent_op()]
    first, last = 2 * walk[0], 2 * walk[-1] + 2
    found = [
        Option(columns + 1, columns // 2, (Block(columns, begin + 1, end), *operand)),
        Option(1, 0, (Block(columns, first, last), *operand)),
    ]
    if not issued and _is_waited_for_next(program, axes, products, number):
        through = (Block(cells, first, last),) if stored else ()
        found.append(Option(0, 0, (Block(columns, first, last), *through)))
    return found


def _is_waited_for_next(program: tile.ProgramOp, axes: CascadeAxes, products: Sequence[Product], number: int) -> bool:
    """Whether the next product, or the next iteration's first, is one of slots whose sum does not stay, and no slot
    that this one reads is needed by a later one."""
    inside = [each for each in products if each.op.parent is products[number].op.parent]
    # In the order of `lower.cascade.consumer`.
    inside.sort(key=lambda each: each.op.axis.data == axes.streamed)
    place = inside.index(products[number])
    following = inside[(place + 1) % len(inside)]
    later = {load for each in inside[place + 1 :] for load in (each.brought, each.held.owner)}
    passed_on = products[number].brought in later or products[number].held.owner in later
    waited = is_of_slots(program, following) and carried_sum(following, axes) is None
    return waited and not passed_on


def _whole(columns: int) -> int:
    return -(-columns // _COLUMN_STEP) * _COLUMN_STEP


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
