"""Products whose accumulators stand in tensor memory, where each consumer issues and reads its own.

A product whose sum stays in tensor memory goes on with what the iteration before left there, and is read behind the
walk, whose first iteration stands by itself and overwrites. Each other product of a unit begins at 0, is waited for at
once, and is read into registers, where threads add it to what it is added to. Where sums stand, and operands that
threads computed, the decisions say. A slot that no further product of the tile reads is released by the tensor core
itself. Of a product whose sum stays, a later one's wait may be the wait: the tensor core multiplies one thread's
products in order. Walks that only sum are issued by a role of its own (`slot_sums`).

Checked by: tests/end_to_end/test_blackwell.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.tensor_memory import (
    TensorAccumulatorType,
    TensorAllocOp,
    TensorCommitOp,
    TensorDeallocOp,
    TensorFenceOp,
    TensorGoOnOp,
    TensorInflightType,
    TensorInitOp,
    TensorIssueOp,
    TensorIssueStoredOp,
    TensorLoadOp,
    TensorMemoryOp,
    TensorMemoryType,
    TensorOperandType,
    TensorReleaseOp,
    TensorRelinquishOp,
    TensorStoreOp,
    TensorWaitOp,
)
from tilewright.ir.cascade import CascadeDecisions, SumPlace, slices_symbol
from tilewright.ir.cascade_facts import Product, carried_sum, first_alike, is_of_slots
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.repeats import bare
from tilewright.lower.build import Build, counted_loop
from tilewright.lower.cascade.point_maps import left_operand
from tilewright.lower.cascade.remade import operand_phase, operand_ring
from tilewright.lower.cascade.running import Staying
from tilewright.lower.cascade.slots import Ring, b_properties, behind_barriers, marked, matrix_layout, step_elements

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer

FIRST_BARRIER = 1


def declare_memory(build: Build, d: CascadeDecisions) -> SSAValue:
    """The CTA's columns, initialised and allocated before its threads meet."""
    address = behind_barriers(d)
    kind = TensorMemoryType(IntAttr(d.tensor_columns), IntAttr(d.consumers))
    properties: dict[str, Attribute] = {"sym_name": StringAttr("tensor_memory"), "address": IntAttr(address)}
    properties |= marked("asserts", bool(d.asserts))
    return build.value(TensorMemoryOp.create(properties=properties, result_types=[kind]))


def set_up(build: Build, d: CascadeDecisions, memory: SSAValue) -> None:
    own = () if d.sums_alone else (TensorInitOp,)
    for op in (*own, TensorAllocOp, TensorRelinquishOp):
        build.add(op.create(operands=[memory]))


def take_down(build: Build, d: CascadeDecisions, memory: SSAValue) -> None:
    """All roles are done with it, of both CTAs of a pair."""
    build.add(ac.ClusterSyncOp.create() if d.pair else ac.CtaSyncOp.create())
    build.add(TensorDeallocOp.create(operands=[memory]))


class Unit(Protocol):
    """Who multiplies."""

    @property
    def d(self) -> CascadeDecisions: ...
    @property
    def memory(self) -> SSAValue | None: ...
    @property
    def unit(self) -> SSAValue: ...


def fence(build: Build, unit: Unit) -> None:
    properties = {"first_barrier": IntAttr(FIRST_BARRIER)}
    build.add(TensorFenceOp.create(operands=[unit.unit], properties=properties))


def issue(
    build: Build,
    unit: Unit,
    rings: tuple[Ring, Ring],
    phases: Sequence[SSAValue],
    over: str,
    shape: tuple[int, int],
    column: int,
    accumulator: SSAValue | None = None,
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Multiply two slots, that of the rows first; (accumulator, what is read of the first and of the second). over: the
    contracted axis; shape: columns, and elements of that axis; column: at which the accumulator begins."""
    (a, b), (columns, depth), m = rings, shape, unit.d.unit_rows
    major, leading, stride, steps = matrix_layout(a.decision, over, depth)
    apart = 64 * 128 if major == "K" else a.decision.box_bytes
    kinds = _inflight(m, columns, column)
    op = TensorIssueOp.build(
        operands=[_memory(unit), phases[0], a.buffer, phases[1], b.buffer, unit.unit, accumulator],
        properties={
            **_shape(m, columns, column, b.decision.element),
            "steps": IntAttr(len(steps)),
            "a_major": StringAttr(major),
            "a_leading_bytes": IntAttr(leading),
            "a_stride_bytes": IntAttr(stride),
            "a_step_bytes": int_array(steps),
            "a_instance_bytes": IntAttr(apart),
            **b_properties(b.decision, over, depth),
        },
        result_types=[kinds, ac.ReadingType(a.name), ac.ReadingType(b.name)],
    )
    build.add(op)
    inflight, a_reading, reading = op.results
    return inflight, a_reading, reading


def issue_fragment(
    build: Build,
    unit: Unit,
    held: SSAValue,
    ring: Ring,
    phase: SSAValue,
    over: str,
    shape: tuple[int, int],
    place: SumPlace,
    accumulator: SSAValue | None,
) -> tuple[SSAValue, SSAValue]:
    """Multiply a fragment, by way of tensor memory, with a slot."""
    (columns, depth), m, element = shape, unit.d.unit_rows, ring.decision.element
    column = IntAttr(place.operand_column)
    stored = build.value(
        TensorStoreOp.create(
            operands=[_memory(unit), held, unit.unit],
            properties={"column": column},
            result_types=[TensorOperandType(IntAttr(m), IntAttr(depth), column, StringAttr(element))],
        )
    )
    fence(build, unit)
    op = TensorIssueStoredOp.build(
        operands=[_memory(unit), stored, phase, ring.buffer, unit.unit, accumulator],
        properties={
            **_shape(m, columns, place.column, element),
            "steps": IntAttr(depth // step_elements(ring.decision)),
            **b_properties(ring.decision, over, depth),
        },
        result_types=[_inflight(m, columns, place.column), ac.ReadingType(ring.name)],
    )
    build.add(op)
    inflight, reading = op.results
    return inflight, reading


def release_read(build: Build, reading: SSAValue, *, pair: bool = False) -> None:
    build.add(TensorReleaseOp.create(operands=[reading], properties=marked("pair", pair)))


def waited(
    build: Build, unit: Unit, inflight: SSAValue, readings: Sequence[SSAValue]
) -> tuple[SSAValue, list[SSAValue]]:
    """Wait for all products; the accumulator, and the slots that are still held."""
    build.add(TensorCommitOp.create(operands=[_memory(unit), unit.unit]))
    kind = inflight.type
    assert isinstance(kind, TensorInflightType)
    retired: list[Attribute] = []
    for reading in readings:
        assert isinstance(reading.type, ac.ReadingType)
        retired.append(ac.PhaseType(reading.type.ring, StringAttr("retired")))
    wait = TensorWaitOp.create(
        operands=[_memory(unit), unit.unit, inflight, *readings],
        result_types=[TensorAccumulatorType(kind.m, kind.n, kind.column), *retired],
    )
    build.add(wait)
    return wait.results[0], list(wait.results[1:])


def in_registers(build: Build, unit: Unit, settled: SSAValue) -> SSAValue:
    """An accumulator as a fragment."""
    kind = settled.type
    assert isinstance(kind, TensorAccumulatorType)
    load = TensorLoadOp.create(
        operands=[_memory(unit), settled, unit.unit],
        result_types=[ac.FragmentType(kind.m, kind.n, StringAttr("mn"), StringAttr("f32"))],
    )
    return build.value(load)


# ---------------------------------------------------------------- sums that stay


def staying_sums(consumer: Consumer, loop: tile.LoopOp) -> dict[int, Staying]:
    """Of the values that a walk carries, by number, those that stay in tensor memory."""
    found: dict[int, Staying] = {}
    for product, place in zip(consumer.products.values(), consumer.d.places, strict=False):
        if place.stays and product.op.parent_op() is loop:
            number = carried_sum(product, consumer.axes)
            assert number is not None, "such a sum is only carried on"
            found[number] = Staying(product.op)
    return found


def sum_behind(consumer: Consumer, item: Staying) -> SSAValue:
    """What a walk has left in tensor memory, as a fragment."""
    settled = item.accumulator
    assert settled is not None, "a walk has a first iteration"
    if isinstance(settled.type, TensorInflightType):
        fence(consumer.build, consumer)
        settled, _ = waited(consumer.build, consumer, settled, [])
    return in_registers(consumer.build, consumer, settled)


def _entering(consumer: Consumer, product: Product) -> SSAValue | None:
    """The accumulator that a product goes on with; None where it overwrites."""
    other = consumer.start_of(product.op)[0]
    item = consumer.staying.get(bare(other)) if other is not None else None
    if item is None or item.accumulator is None or isinstance(item.accumulator.type, TensorInflightType):
        return None if item is None else item.accumulator
    kind = item.accumulator.type
    assert isinstance(kind, TensorAccumulatorType)
    op = TensorGoOnOp.create(
        operands=[item.accumulator], result_types=[TensorInflightType(kind.m, kind.n, kind.column)]
    )
    return consumer.build.value(op)


def place_of(consumer: Consumer, product: Product) -> SumPlace:
    return consumer.d.places[list(consumer.products).index(product.op)]


# ---------------------------------------------------------------- products of the program


def product_in_tensor_memory(consumer: Consumer, product: Product) -> None:
    """The product by itself, in registers: what it is added to, threads add; or added to a sum that stays."""
    place = place_of(consumer, product)
    entering = _entering(consumer, product) if place.stays else None
    over, left, brought = product.op.axis.data, product.held.owner, product.brought
    ring = operand_ring(consumer, brought)
    columns = consumer.columns_of(ring, over)
    in_slots = is_of_slots(consumer.program, product)
    if not in_slots:
        held = left_operand(consumer, product.op, product.element)
        phase, shape = operand_phase(consumer, brought), (columns, consumer.d.tile_streamed)
        inflight, reading = issue_fragment(consumer.build, consumer, held, ring, phase, over, shape, place, entering)
        _finish(consumer, product, inflight, {brought: reading})
        return
    assert isinstance(left, tile.LoadOp)
    left = first_alike(consumer.program, left)
    rings, loads = (consumer.rings[left], ring), (left, brought)
    shape = (columns, consumer.depth_of(over, ring))
    if not ring.decision.sliced:
        made = {each: operand_phase(consumer, each) for each in loads if each in consumer.rooms}
        fence(consumer.build, consumer)
        phases = [made[each] if each in made else consumer.wait(each) for each in loads]
        inflight, *readings = issue(consumer.build, consumer, rings, phases, over, shape, place.column, entering)
        _finish(consumer, product, inflight, dict(zip(loads, readings, strict=True)))
        return
    sum_of_slots(consumer, product, loads, slices_symbol(over), shape[1])


def reads_of_held(consumer: Consumer, loop: tile.LoopOp) -> dict[tile.LoadOp, int]:
    """How often an iteration's products take each load of rows along the streamed axis out of its slot."""
    taken: list[tile.LoadOp] = []
    for product in consumer.products.values():
        held = product.held.owner
        if product.op.parent_op() is not loop or not isinstance(held, tile.LoadOp):
            continue
        if product.op.axis.data == loop.axis.data and is_of_slots(consumer.program, product):
            taken.append(first_alike(consumer.program, held))
    others = [each.brought for each in consumer.products.values() if each.op.parent_op() is loop]
    return {load: (taken + others).count(load) for load in taken}


def sum_of_slots(
    consumer: Consumer, product: Product, loads: tuple[tile.LoadOp, tile.LoadOp], symbol: str, depth: int
) -> None:
    """The sum of the products of slots that come one after the other; the tensor core releases each."""
    over, rings = product.op.axis.data, (consumer.rings[loads[0]], consumer.rings[loads[1]])
    shape, column = (consumer.columns_of(rings[1], over), depth), place_of(consumer, product).column
    fence(consumer.build, consumer)
    inflight, *readings = issue(consumer.build, consumer, rings, _next_slots(consumer, loads), over, shape, column)
    for reading in readings:
        release_read(consumer.build, reading)
    carried = [*(consumer.cursors[load] for load in loads), inflight]
    inner, block, loop = counted_loop(consumer.build, 1, carried, symbol=symbol)
    *cursors, running = block.args[1:]
    body = replace(consumer, build=inner, cursors=consumer.cursors | dict(zip(loads, cursors, strict=True)))
    running, *readings = issue(inner, consumer, rings, _next_slots(body, loads), over, shape, column, running)
    for reading in readings:
        release_read(inner, reading)
    inner.add(ac.YieldOp.create(operands=[*(body.cursors[load] for load in loads), running]))
    *cursors, inflight = loop.outputs
    consumer.cursors |= dict(zip(loads, cursors, strict=True))
    _finish(consumer, product, inflight, {})


def _next_slots(consumer: Consumer, loads: Sequence[tile.LoadOp]) -> list[SSAValue]:
    """The next slots of loads, full; one for those that are joined."""
    led = [load for load in loads if load in consumer.cursors]
    found = [consumer.wait(load) for load in led]
    for load in led:
        del consumer.held[load]
    return found


def _finish(consumer: Consumer, product: Product, inflight: SSAValue, readings: dict[tile.LoadOp, SSAValue]) -> None:
    """A product's sums in registers, or where they stay. Slots that nothing reads any more are released as the product
    ends."""
    staying: dict[tile.LoadOp, SSAValue] = {}
    for load, reading in readings.items():
        if load in consumer.rooms:
            staying[load] = reading
            continue
        consumer.left[load] -= 1
        if consumer.left[load] == 0 and not consumer.rings[load].decision.resident:
            release_read(consumer.build, reading)
            del consumer.held[load]
        else:
            staying[load] = reading
    place = place_of(consumer, product)
    if place.stays and not place.waits and not staying:
        consumer.staying[consumer.start_of(product.op)[1]] = Staying(product.op, inflight)
        return
    settled, phases = waited(consumer.build, consumer, inflight, list(staying.values()))
    for load, phase in zip(staying, phases, strict=True):
        (consumer.rooms if load in consumer.rooms else consumer.held)[load] = phase
    if place.stays:
        consumer.staying[consumer.start_of(product.op)[1]] = Staying(product.op, settled)
    else:
        consumer.values[product.op.result] = in_registers(consumer.build, consumer, settled)


def _memory(unit: Unit) -> SSAValue:
    assert unit.memory is not None, "decisions name columns of tensor memory"
    return unit.memory


def _shape(m: int, columns: int, column: int, element: str) -> Mapping[str, Attribute]:
    return {"m": IntAttr(m), "n": IntAttr(columns), "column": IntAttr(column), "element": StringAttr(element)}


def _inflight(m: int, columns: int, column: int) -> TensorInflightType:
    return TensorInflightType(IntAttr(m), IntAttr(columns), IntAttr(column))
