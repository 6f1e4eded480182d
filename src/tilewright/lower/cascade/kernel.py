"""How a decided program of products and folds over a streamed axis becomes a producer role and consumer warpgroups.

One thread fills the rings in the order in which a tile's walk needs them; the consumers (`consumer`) hold values in
registers. Nothing is asked about what the program computes: rings, products, folds and stores are the program's own.

Checked by: tests/lower/cascade.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.base.plan import Buffer
from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade import WARP_ROWS, CascadeDecisions, slices_symbol
from tilewright.ir.cascade_facts import cascade_axes, first_alike, loads_of_walk, products_of
from tilewright.ir.tier import MemoryType
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers, loads, loops, parameter_name
from tilewright.lower.build import Build, counted_loop, global_array, new_kernel, new_role
from tilewright.lower.cascade.consumer import Consumer
from tilewright.lower.cascade.place import (
    KnownPlaces,
    Place,
    open_tiles,
    rows_first,
    slot_coordinates,
    tile_counts,
    tiles_walked,
)
from tilewright.lower.cascade.slot_sums import Sums, add_issuer, declare_sums
from tilewright.lower.cascade.slots import Ring, declare_rings, fill, rows_address
from tilewright.lower.cascade.tensor_product import declare_memory, set_up, take_down

_WARPGROUP = 128


def cascade_kernel(program: tile.ProgramOp, d: CascadeDecisions) -> ModuleOp:
    """The kernel of a program that walks an axis by tiles."""
    tiles_m, tiles_n, matrices = tile_counts(program, d)
    walked = d.walked[0].longest if d.walked else tiles_walked(program, d)
    most = -(-tiles_m * tiles_n * matrices // d.ctas)
    symbols = {"K": (walked, 1), "tiles": (most, 0)}
    symbols |= {slices_symbol(axis): (-(-program.extents[axis] // d.slice_depth), 1) for axis in d.sliced}
    module, build = new_kernel(
        program.sym_name.data, symbols, (d.ctas, 1, 1), (1, 1, 1),
        _first_consumer(d) + _WARPGROUP * d.consumers, d.smem_bytes, d.launch_registers,
    )  # fmt: skip
    rings = declare_rings(build, program, d)
    arrays = _declare_arrays(build, program, d, rings)
    rows = _declare_rows(build, d)
    sums = declare_sums(build, d) if d.sum_slots else None
    memory = declare_memory(build, d) if d.tensor_columns and sums is None else None
    allocated = memory if sums is None else sums.memory
    for ring in (*(each.ring for each in rings.values()), *([] if sums is None else [sums.ring])):
        build.add(ac.BarrierInitOp.create(operands=[ring]))
    if allocated is not None:
        set_up(build, d, allocated)
    build.add(ac.FenceBarrierInitOp.create())
    build.add(ac.CtaSyncOp.create())
    _add_producer(build, program, d, rings, arrays)
    if sums is not None:
        add_issuer(build, program, d, rings, sums, _WARPGROUP)
    _add_consumer(build, program, d, rings, arrays, rows, memory, sums)
    if allocated is not None:
        take_down(build, allocated)
    return module


def _first_consumer(d: CascadeDecisions) -> int:
    """The first thread of the consumers: behind the warpgroups of those that fill and issue."""
    return _WARPGROUP * (2 if d.sum_slots else 1)


def _declare_rows(build: Build, d: CascadeDecisions) -> SSAValue:
    """Room for stores along rows."""
    kind = MemoryType(
        StringAttr("SMEM"), StringAttr(Element.U8.value), IntAttr(1), IntAttr(d.rows_bytes), StringAttr("none")
    )
    properties = {
        "sym_name": StringAttr("rows"),
        "address": IntAttr(rows_address(d)),
        "instances": IntAttr(d.consumers),
    }
    return build.value(ac.BufferOp.create(properties=properties, result_types=[kind]))


def _declare_arrays(
    build: Build, program: tile.ProgramOp, d: CascadeDecisions, rings: dict[tile.LoadOp, Ring]
) -> dict[str, SSAValue]:
    """The arrays that threads reach by themselves: results, what is loaded and not brought, and tables that say where
    what is brought lies."""
    read = [load for load in loads(program) if first_alike(program, load) not in rings]
    plain = {parameter_name(program, load.tensor) for load in read}
    plain |= {each.table for slot in d.slots for each in slot.lookups}
    arrays: dict[str, SSAValue] = {}
    for buffer, argument in zip(buffers(program), program.body.block.args, strict=True):
        if buffer.role == "output":
            buffer = _turned(buffer, tile.tensor_type(argument).axis_names, d)
        if buffer.role == "output" or buffer.name in plain:
            arrays[buffer.name] = global_array(build, buffer)
    return arrays


def _turned(buffer: Buffer, axes: Sequence[str], d: CascadeDecisions) -> Buffer:
    """A result's array with its dimensions in the order of `rows_first`."""
    order = [axes.index(axis) for axis in rows_first(axes, d)]
    return replace(
        buffer, shape=tuple(buffer.shape[at] for at in order), strides=tuple(buffer.strides[at] for at in order)
    )


def _add_producer(
    build: Build,
    program: tile.ProgramOp,
    d: CascadeDecisions,
    rings: dict[tile.LoadOp, Ring],
    arrays: dict[str, SSAValue],
) -> None:
    role, _ = new_role(build, "producer", "thread1", 1, 0, d.producer_registers)
    listed = list(rings)
    starts = [rings[load].start(role, "empty") for load in listed]
    outer, place, carried = open_tiles(role, program, d, starts)
    cursors = dict(zip(listed, carried, strict=True))

    def bring(at: Build, together: Sequence[tile.LoadOp], where: Place) -> None:
        """Fill a slot of each. Tables are asked for all of them before a slot is waited for, so that both take their
        time at once."""
        known: KnownPlaces = {}
        found = [slot_coordinates(at, rings[load].decision, arrays, where, d, known) for load in together]
        for load, coordinates in zip(together, found, strict=True):
            fill(at, rings[load], cursors[load], coordinates)
            cursors[load] = rings[load].advance(at, cursors[load])

    def bring_in_turn(at: Build, symbol: str, axis: str, passing: list[tile.LoadOp], where: Place) -> None:
        """Fill slots for each tile along an axis; what has slices of another is brought slice by slice."""
        inner, block, op = counted_loop(at, 0, [cursors[load] for load in passing], symbol=symbol)
        index, *arguments = block.args
        cursors.update(zip(passing, arguments, strict=True))
        here = where.walking(inner, d, index) if axis == d.streamed else where.along(axis, index)
        left = list(passing)
        while left:
            sliced = rings[left[0]].decision.sliced
            own = sliced in ("", axis)
            together = [load for load in left if rings[load].decision.sliced == sliced]
            if own:
                # In order: what comes behind a load that has slices waits for it.
                together = list(takewhile(lambda load: rings[load].decision.sliced in ("", axis), left))
                bring(inner, together, here)
            else:
                bring_in_turn(inner, slices_symbol(sliced), sliced, together, here)
            left = [load for load in left if load not in together]
        inner.add(ac.YieldOp.create(operands=[cursors[load] for load in passing]))
        cursors.update(zip(passing, op.outputs, strict=True))

    for load in listed:
        if rings[load].decision.resident:
            bring(outer, [load], place)
    products = products_of(program)
    for loop in loops(program):
        needed = loads_of_walk(loop, products, listed)
        passing = [load for load in listed if load in needed and not rings[load].decision.resident]
        bring_in_turn(outer, "K", d.streamed, passing, place)
    outer.add(ac.YieldOp.create(operands=[cursors[load] for load in listed]))


def _add_consumer(
    build: Build,
    program: tile.ProgramOp,
    d: CascadeDecisions,
    rings: dict[tile.LoadOp, Ring],
    arrays: dict[str, SSAValue],
    rows: SSAValue,
    memory: SSAValue | None,
    sums: Sums | None,
) -> None:
    apart = None if d.warp_rows == WARP_ROWS else d.warp_rows
    role, unit = new_role(
        build, "consumer", "warpgroup128", d.consumers, _first_consumer(d), d.consumer_registers, apart
    )  # fmt: skip
    listed = list(rings) if sums is None else []
    starts = [rings[load].start(role, "full") for load in listed] if sums is None else [sums.start(role, "full")]
    outer, place, carried = open_tiles(role, program, d, starts)
    cursors = dict(zip(listed, carried, strict=False))
    reads = None if sums is None else (sums, carried[0])
    consumer = Consumer(
        outer, program, d, cascade_axes(program), rings, arrays, rows, unit, place, cursors, memory, reads
    )  # fmt: skip
    consumer.run()
    left = [consumer.cursors[load] for load in listed] if consumer.sums is None else [consumer.sums[1]]
    outer.add(ac.YieldOp.create(operands=left))
