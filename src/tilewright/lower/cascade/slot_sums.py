"""Walks that only sum, of kernels whose sums stay in tensor memory: one role issues, the consumers read.

The role of one thread waits for a slot of tensor memory that is free, and for each tile of a walk for the slots of its
operands. It issues their products for all consumers' rows and goes on at once: the tensor core releases the operands'
slots as it has read them, and hands the sums over when the last product of the walk is done. So products of the next
tile run while the consumers, who have the sums in registers by then, compute on and store.

In a pair of CTAs the first one has the role that issues: a product has the rows of both, each CTA brings its rows and
half of the columns, and its consumers read its own sums. The tensor core arrives in both.

Checked by: tests/contract/typestate/steps/test_tensor_slots.py and tests/end_to_end/test_blackwell.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.tensor_memory import (
    TensorFactorsOp,
    TensorFactorsType,
    TensorFenceOp,
    TensorFillingType,
    TensorFillOp,
    TensorHandOverOp,
    TensorMemoryOp,
    TensorMemoryType,
    TensorReadOp,
)
from tilewright.ir.block_factors import block_factors
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import CascadeAxes, Product, cascade_axes, first_alike, slot_sums
from tilewright.ir.issued_products import operands_of
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loops
from tilewright.lower.build import Build, counted_loop, new_role
from tilewright.lower.cascade.place import open_tiles
from tilewright.lower.cascade.slots import (
    Ring,
    b_properties,
    behind_barriers,
    marked,
    matrix_layout,
    release,
    step_elements,
    wait_for,
)
from tilewright.lower.cascade.tensor_product import FIRST_BARRIER, release_read

_RING = "sums_ring"


@dataclass(frozen=True, slots=True)
class Sums:
    """The ring of a tile's sums, and the memory whose columns are its slots."""

    ring: SSAValue
    memory: SSAValue

    def start(self, build: Build, side: str) -> SSAValue:
        op = ac.CursorStartOp.create(
            operands=[self.ring],
            properties={"side": StringAttr(side)},
            result_types=[ac.CursorType(StringAttr(_RING))],
        )
        return build.value(op)

    def take(self, build: Build, cursor: SSAValue, side: str) -> tuple[SSAValue, SSAValue]:
        """(the next slot, the cursor behind it)."""
        name = StringAttr(_RING)
        phase = wait_for(build, self.ring, name, cursor, side)
        return phase, build.value(ac.AdvanceOp.create(operands=[cursor], result_types=[ac.CursorType(name)]))


def declare_sums(build: Build, d: CascadeDecisions) -> Sums:
    address = behind_barriers(d)
    ring_type = ac.RingType(StringAttr(_RING), IntAttr(d.sum_slots))
    ring = build.value(
        ac.RingOp.create(
            properties={
                "sym_name": StringAttr(_RING),
                "stages": IntAttr(d.sum_slots),
                "full_arrivals": IntAttr(1),
                "empty_arrivals": IntAttr(d.consumers * (2 if d.pair else 1)),
                "address": IntAttr(address),
            },
            result_types=[ring_type],
        )
    )
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr("tensor_memory"),
        "address": IntAttr(address + 16 * d.sum_slots),
        "ring": StringAttr(_RING),
        **({"ring_columns": IntAttr(d.sum_slots * d.issued_columns)} if d.issued else {}),
        **marked("pair", bool(d.pair)),
        **marked("asserts", bool(d.asserts)),
        **({"factor_columns": IntAttr(d.factor_columns)} if d.factor_columns else {}),
    }
    kind = TensorMemoryType(IntAttr(d.tensor_columns), IntAttr(d.consumers))
    return Sums(ring, build.value(TensorMemoryOp.create(properties=properties, result_types=[kind])))


def columns_of_sums(
    d: CascadeDecisions, axes: CascadeAxes, products: Sequence[Product]
) -> Mapping[SSAValue, tuple[int, int]]:
    """Where in a slot each product's sum begins, and how many columns it has."""
    begin, found = 0, dict[SSAValue, tuple[int, int]]()
    for each in products:
        columns = d.columns_along(axes.column_of(axes.kept(each.op.result)))
        found[each.op.result] = begin, columns
        begin += columns
    return found


# ---------------------------------------------------------------- who issues


def add_issuer(
    build: Build,
    program: tile.ProgramOp,
    d: CascadeDecisions,
    rings: Mapping[tile.LoadOp, Ring],
    sums: Sums,
    first: int,
    limits: SSAValue | None,
) -> None:
    """The role that multiplies. first: its first thread; limits: the array that says where groups of rows end."""
    role, _ = new_role(build, "issuer", "thread1", 1, first, d.producer_registers, leader=bool(d.pair))
    listed, axes = list(rings), cascade_axes(program)
    starts = [*(rings[load].start(role, "full") for load in listed), sums.start(role, "empty")]
    inside, _, carried = open_tiles(role, program, d, starts, limits=limits)
    cursors, own = dict(zip(listed, carried, strict=False)), carried[-1]
    for loop in loops(program):
        products = slot_sums(program, loop)
        into, own = sums.take(inside, own, "empty")
        issuer = Issuer(program, d, rings, sums, products, columns_of_sums(d, axes, products))
        needed = issuer.loads
        # The first products of a walk by themselves: they overwrite.
        filling, moved = issuer.issue(inside, {load: cursors[load] for load in needed}, into, 0)
        inner, block, op = counted_loop(inside, 1, [*(moved[load] for load in needed), filling])
        *entering, filling = block.args[1:]
        filling, moved = issuer.issue(inner, dict(zip(needed, entering, strict=True)), filling, 1)
        inner.add(ac.YieldOp.create(operands=[*(moved[load] for load in needed), filling]))
        *left, filling = op.outputs
        cursors |= dict(zip(needed, left, strict=True))
        inside.add(TensorHandOverOp.create(operands=[filling], properties=marked("pair", bool(d.pair))))
    inside.add(ac.YieldOp.create(operands=[*(cursors[load] for load in listed), own]))


@dataclass(frozen=True, slots=True)
class Issuer:
    """Of products of two slots each, side by side in a slot of tensor memory. columns: where in it each sum begins, and
    how many it has."""

    program: tile.ProgramOp
    d: CascadeDecisions
    rings: Mapping[tile.LoadOp, Ring]
    sums: Sums
    products: Sequence[Product]
    columns: Mapping[SSAValue, tuple[int, int]]

    @property
    def loads(self) -> list[tile.LoadOp]:
        """Whose slots it takes, each once."""
        return list(dict.fromkeys(load for each in self.products for load in self._taken(each)))

    def issue(
        self,
        build: Build,
        cursors: Mapping[tile.LoadOp, SSAValue],
        into: SSAValue,
        accumulate: int,
        staying: dict[tile.LoadOp, SSAValue] | None = None,
    ) -> tuple[SSAValue, dict[tile.LoadOp, SSAValue]]:
        """The products of one tile of the walk; (the slot that they fill, cursors behind the operands' slots).
        staying: slots that are not released, as they are before and after."""
        left = [load for each in self.products for load in self._taken(each)]
        staying = {} if staying is None else staying
        held: dict[tile.LoadOp, SSAValue] = dict(staying)
        moved: dict[tile.LoadOp, SSAValue] = {}
        for each in self.products:
            loads = operands_of(self.program, each)
            for load in loads:
                if load not in held:
                    held[load] = self.rings[load].wait(build, cursors[load], "full")
                    moved[load] = self.rings[load].advance(build, cursors[load])
            scaled = self._factors(each)
            for load in scaled:
                if load not in held:
                    held[load] = self._copied(build, load, cursors[load])
                    moved[load] = self.rings[load].advance(build, cursors[load])
            phases = (held[loads[0]], held[loads[1]])
            into, readings = self._fill(build, each, loads, phases, into, accumulate, [held[load] for load in scaled])
            for load, reading in zip((*loads, *scaled), readings, strict=True):
                left.remove(load)
                if load in left or load in staying:
                    held[load] = reading
                else:
                    release_read(build, reading, pair=bool(self.d.pair))
        staying.update({load: held[load] for load in staying})
        return into, moved

    def _fill(
        self,
        build: Build,
        product: Product,
        loads: tuple[tile.LoadOp, tile.LoadOp],
        phases: tuple[SSAValue, SSAValue],
        into: SSAValue,
        accumulate: int,
        factors: Sequence[SSAValue],
    ) -> tuple[SSAValue, Sequence[SSAValue]]:
        a, b = (self.rings[load] for load in loads)
        over = product.op.axis.data
        depth, step = self.d.tile_streamed, step_elements(b.decision)
        if over != self.d.streamed:
            depth = -(-self.program.extents[over] // step) * step
        begin, columns = self.columns[product.op.result]
        major, leading, stride, steps = matrix_layout(a.decision, over, depth)
        op = TensorFillOp.create(
            operands=[self.sums.memory, into, phases[0], a.buffer, phases[1], b.buffer, *factors],
            properties={
                "m": IntAttr(self.d.tile_rows * (2 if self.d.pair else 1)),
                "n": IntAttr(columns),
                "column": IntAttr(begin),
                "accumulate": IntAttr(accumulate),
                **marked("pair", bool(self.d.pair)),
                "steps": IntAttr(len(steps)),
                "element": StringAttr(b.decision.element),
                "a_major": StringAttr(major),
                "a_leading_bytes": IntAttr(leading),
                "a_stride_bytes": IntAttr(stride),
                "a_step_bytes": int_array(steps),
                **b_properties(b.decision, over, depth),
            },
            result_types=[
                TensorFillingType(StringAttr(_RING)), ac.ReadingType(a.name), ac.ReadingType(b.name),
                *(each.type for each in factors),
            ],
        )  # fmt: skip
        build.add(op)
        filling, *readings = op.results
        return filling, readings

    def _factors(self, product: Product) -> tuple[tile.LoadOp, ...]:
        """The loads of a product's factors, of rows and of columns, as the rings know them."""
        found = block_factors(product)
        return () if found is None else tuple(first_alike(self.program, load) for load in found.loads)

    def _taken(self, product: Product) -> tuple[tile.LoadOp, ...]:
        return (*operands_of(self.program, product), *self._factors(product))

    def _copied(self, build: Build, load: tile.LoadOp, cursor: SSAValue) -> SSAValue:
        """A slot's factors, on their way to columns of their own: those behind the factors before them."""
        ring, slots = self.rings[load], [each.decision for each in self.rings.values()]
        before = slots[: slots.index(ring.decision)]
        rows, cells = IntAttr(ring.decision.rows), IntAttr(ring.decision.factor_cells)
        op = TensorFactorsOp.create(
            operands=[self.sums.memory, ring.wait(build, cursor, "full"), ring.buffer],
            properties={
                "column": IntAttr(sum(each.factor_columns for each in before)),
                "rows": rows,
                "cells": cells,
            },
            result_types=[TensorFactorsType(ring.name, rows, cells, StringAttr(ring.decision.element))],
        )
        return build.value(op)


# ---------------------------------------------------------------- who reads


def read_sums(
    build: Build,
    sums: Sums,
    unit: SSAValue,
    cursor: SSAValue,
    columns: Mapping[SSAValue, tuple[int, int]],
    d: CascadeDecisions,
) -> tuple[list[SSAValue], SSAValue]:
    """(the sums of a walk as fragments, the cursor behind their slot), which is free once all threads have them."""
    phase, cursor = sums.take(build, cursor, "full")
    found: list[SSAValue] = []
    for begin, count in columns.values():
        kind = ac.FragmentType(IntAttr(d.unit_rows), IntAttr(count), StringAttr("mn"), StringAttr("f32"))
        op = TensorReadOp.create(
            operands=[sums.memory, phase, unit],
            properties={"column": IntAttr(begin)},
            result_types=[kind, phase.type],
        )
        build.add(op)
        found.append(op.results[0])
        phase = op.results[1]
    build.add(TensorFenceOp.create(operands=[unit], properties={"first_barrier": IntAttr(FIRST_BARRIER)}))
    release(build, phase, leader=bool(d.pair))
    return found, cursor
