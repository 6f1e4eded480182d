"""Operands that a consumer makes anew of what slots bring, in a room of its own.

A room is carried round loops like a slot that stays: made for an iteration's product, and retired when that is done.
The slot that it is made of is released at once, since nothing else reads it.

Checked by: tests/contract/typestate/steps/test_remade.py and tests/end_to_end/test_narrow_attention.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.remade import RoomEndOp, RoomStartOp, SlotRemakeOp
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tier import MemoryType
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.lower.build import Build
from tilewright.lower.cascade.running import Room
from tilewright.lower.cascade.slots import Ring, rooms_address

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer

FIRST_BARRIER = 1


def declare_rooms(build: Build, d: CascadeDecisions, rings: Mapping[tile.LoadOp, Ring]) -> dict[tile.LoadOp, Ring]:
    """The buffers of rooms, by the load that each is made of, as if each were guarded by a ring of its name."""
    address = rooms_address(d)
    found: dict[tile.LoadOp, Ring] = {}
    for load, ring in rings.items():
        made = ring.decision.multiplied
        if not ring.decision.remade:
            continue
        name = StringAttr(f"{ring.name.data.removesuffix('_ring')}_room")
        kind = MemoryType(
            StringAttr("SMEM"), StringAttr(made.element), IntAttr(d.consumers), IntAttr(made.slot_bytes),
            StringAttr(made.swizzle),
        )  # fmt: skip
        properties = {"sym_name": name, "address": IntAttr(address), "instances": IntAttr(1)}
        buffer = build.value(ac.BufferOp.create(properties=properties, result_types=[kind]))
        found[load] = replace(ring, decision=made, name=name, ring=buffer, buffer=buffer)
        address += d.consumers * made.slot_bytes
    return found


def start_rooms(consumer: Consumer) -> None:
    for load, room in consumer.shared.rooms.items():
        kind = ac.PhaseType(room.name, StringAttr("retired"))
        consumer.rooms[load] = consumer.build.value(
            RoomStartOp.create(operands=[room.buffer, consumer.unit], result_types=[kind])
        )


def end_rooms(consumer: Consumer) -> None:
    for phase in consumer.rooms.values():
        consumer.build.add(RoomEndOp.create(operands=[phase]))
    consumer.rooms.clear()


def operand_ring(consumer: Consumer, load: tile.LoadOp) -> Ring:
    """What products take of a load: its slots, or the room in which they are made anew."""
    return consumer.shared.rooms.get(load, consumer.rings[load])


def read_by(consumer: Consumer, load: tile.LoadOp) -> tile.LoadOp | Room:
    """What a product of a load reads, as `Running` names it."""
    return Room(load) if load in consumer.rooms else load


def operand_phase(consumer: Consumer, load: tile.LoadOp) -> SSAValue:
    """The slot, or the room, that a product takes; when a product that reads it is done."""
    if load not in consumer.rooms:
        return consumer.wait(load)
    runs = consumer.running.items()
    reader = next((value for value, item in runs if any(each == Room(load) for each, _ in item.readings)), None)
    if reader is not None:
        consumer.wait_until(reader)
    return _made(consumer, load)


def make_ahead(consumer: Consumer, first: ContractOp) -> None:
    """Make the operands of an iteration's other products while its first one runs."""
    for op, product in consumer.products.items():
        ahead = op.parent is first.parent and product.op.axis.data == consumer.axes.streamed
        if ahead and product.brought in consumer.rooms:
            operand_phase(consumer, product.brought)


def _made(consumer: Consumer, load: tile.LoadOp) -> SSAValue:
    """The room with what is made of this tile's slot of a load."""
    ring, room = consumer.rings[load], consumer.shared.rooms[load]
    if load not in consumer.made:
        phase = consumer.wait(load)
        op = SlotRemakeOp.create(
            operands=[phase, ring.buffer, consumer.rooms[load], room.buffer, consumer.unit],
            properties={
                "kind": StringAttr(ring.decision.remade),
                "rows": IntAttr(ring.decision.rows),
                "chunks": IntAttr(ring.decision.remade_chunks),
                "first_barrier": IntAttr(FIRST_BARRIER),
            },
            result_types=[ac.PhaseType(room.name, StringAttr("full")), phase.type],
        )
        consumer.build.add(op)
        consumer.made.add(load)
        consumer.rooms[load] = op.results[0]
        consumer.left[load] = 1
        consumer.done(load, op.results[1])
    return consumer.rooms[load]
