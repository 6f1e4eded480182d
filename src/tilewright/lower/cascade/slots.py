"""The rings of a kernel that walks an axis by tiles: one for each load that goes through shared memory.

Checked by: tests/lower/cascade.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, StringAttr, i32
from xdsl.ir import Attribute, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import COPYING_THREADS, AsyncCopyArriveOp
from tilewright.ir.cascade import SPAN_BYTES, CascadeDecisions, SlotDecision
from tilewright.ir.cascade_facts import cascade_axes, map_dimensions
from tilewright.ir.issued_products import loads_issued
from tilewright.ir.tier import MemoryType, int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loads
from tilewright.lower.build import Build, tensor_map
from tilewright.lower.cascade.copied_slots import copied_array, copy_boxes, visible
from tilewright.lower.program import map_dims, map_strides

_BARRIER_BYTES = 8
_STEP_BYTES = 32
"""Of the contracted axis, what one wgmma or tcgen05.mma takes: 16 elements of 16 bits (PTX ISA: Matrix shape)."""


@dataclass(frozen=True, slots=True)
class Ring:
    """A load's ring, the buffer that it guards, and the map or the array that fills it. One that is joined has the ring
    of the load before it, whose cursor serves both. peers: CTAs that fill the ring's slots, to each of which they are
    released. leader: whether the first CTA of a pair waits for what both CTAs fill. dimensions: of the array, that a
    box's coordinates run along, where threads copy it. by_threads: whether they copy a part of the ring's slots;
    warpgroup: whether a warpgroup fills slots, and not one thread."""

    decision: SlotDecision
    name: StringAttr
    ring: SSAValue
    buffer: SSAValue
    source: SSAValue
    peers: int
    leader: bool = False
    dimensions: tuple[int, ...] = ()
    by_threads: bool = False
    warpgroup: bool = False

    def start(self, build: Build, side: str) -> SSAValue:
        properties = {"side": StringAttr(side)}
        return build.value(
            ac.CursorStartOp.create(
                operands=[self.ring], properties=properties, result_types=[ac.CursorType(self.name)]
            )
        )

    def wait(self, build: Build, cursor: SSAValue, side: str, *, issuer: bool = False) -> SSAValue:
        phase = wait_for(build, self.ring, self.name, cursor, side, issuer=issuer)
        return visible(build, phase) if self.by_threads and side == "full" else phase

    def advance(self, build: Build, cursor: SSAValue) -> SSAValue:
        return build.value(ac.AdvanceOp.create(operands=[cursor], result_types=[ac.CursorType(self.name)]))


def wait_for(
    build: Build, ring: SSAValue, name: StringAttr, cursor: SSAValue, side: str, *, issuer: bool = False
) -> SSAValue:
    """The slot of a ring at a cursor. issuer: only the unit's first warp waits."""
    alone: dict[str, Attribute] = {"issuer": IntAttr(1)} if issuer else {}
    return build.value(
        ac.BarrierWaitOp.create(
            operands=[ring, cursor],
            properties={"side": StringAttr(side), "invert_parity": IntAttr(int(side == "empty")), **alone},
            result_types=[ac.PhaseType(name, StringAttr(side))],
        )
    )


def rooms_address(d: CascadeDecisions) -> int:
    """Of what consumers make of slots, in bytes of shared memory: behind the slots."""
    return sum(each.slots * each.slot_bytes for each in d.slots)


def rows_address(d: CascadeDecisions) -> int:
    """Of the room for stores along rows: behind what consumers make."""
    return rooms_address(d) + d.consumers * sum(each.room_bytes for each in d.slots)


def columns_address(d: CascadeDecisions) -> int:
    """Of the room for numbers of columns: behind that for rows."""
    return rows_address(d) + d.rows_bytes * d.consumers


def staging_address(d: CascadeDecisions) -> int:
    """Of the slots in which results wait to leave in boxes."""
    return columns_address(d) + d.columns_bytes * d.consumers


def partials_address(d: CascadeDecisions) -> int:
    """Of what CTAs that share a tile get of its sum from each other."""
    return staging_address(d) + d.staging_slots * d.staging_slot_bytes * d.consumers


def spilled_address(d: CascadeDecisions) -> int:
    """Of the words in which registers may wait."""
    return partials_address(d) + d.split_sum.partial_bytes


def barriers_address(d: CascadeDecisions) -> int:
    """Of the first ring's barriers."""
    return spilled_address(d) + d.spill_bytes


def behind_barriers(d: CascadeDecisions) -> int:
    """The address behind the barriers of all rings."""
    return barriers_address(d) + sum(2 * _BARRIER_BYTES * each.slots for each in d.slots if not each.joined)


def declare_rings(build: Build, program: tile.ProgramOp, d: CascadeDecisions) -> dict[tile.LoadOp, Ring]:
    """Maps or arrays, rings and buffers, in the order of the decisions, by the load that each is for."""
    listed, arrays = loads(program), dict[str, SSAValue]()
    names = _names(d.slots)
    sources = [_declare_source(build, program, name, each, arrays) for name, each in zip(names, d.slots, strict=True)]
    barrier, address, peers = barriers_address(d), 0, 1
    rings: dict[tile.LoadOp, Ring] = {}
    for name, each, (source, dimensions) in zip(names, d.slots, sources, strict=True):
        before = next(reversed(rings.values()), None)
        if each.joined and before is not None:
            ring_name, ring, by_threads = before.name, before.ring, before.by_threads
        else:
            ring_name, units = StringAttr(f"{name}_ring"), arrivals_of_readers(program, d, listed[each.load])
            filled = together(d.slots, each)
            peers, by_threads = max(one.peers for one in filled), any(one.piece_bytes for one in filled)
            arrivals = (2 if d.pair else 1) + COPYING_THREADS * int(by_threads)
            ring = _declare_ring(build, ring_name, each.slots, (arrivals, units * peers), barrier)
            barrier += 2 * _BARRIER_BYTES * each.slots
        how = (peers, bool(d.pair), dimensions, by_threads, d.copies_by_threads)
        if each.which and before is not None:
            rings[listed[each.load]] = Ring(each, ring_name, ring, before.buffer, source, *how)
            continue
        kind = MemoryType(
            StringAttr("SMEM"), StringAttr(each.element), IntAttr(each.slots), IntAttr(each.among * each.slot_bytes),
            StringAttr(each.swizzle),
        )  # fmt: skip
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(f"{name}_slots"),
            "address": IntAttr(address),
            "instances": IntAttr(1),
            "ring": ring_name,
        }
        buffer = build.value(ac.BufferOp.create(properties=properties, result_types=[kind]))
        rings[listed[each.load]] = Ring(each, ring_name, ring, buffer, source, *how)
        address += each.slots * each.among * each.slot_bytes
    return rings


def arrivals_of_readers(program: tile.ProgramOp, d: CascadeDecisions, load: tile.LoadOp) -> int:
    """That a slot's release takes, in one CTA: of each consumer that reads it, and of the role that issues."""
    if d.sums_alone:
        return 1
    issued, others = loads_issued(program, d)
    return (load in issued) + (d.tile_units if load in others or load not in issued else 0)


def together(slots: Sequence[SlotDecision], first: SlotDecision) -> list[SlotDecision]:
    """A slot and those that are filled, waited for and released with it."""
    behind = slots[slots.index(first) + 1 :]
    return [first, *takewhile(lambda each: each.joined, behind)]


def leaders(rings: Mapping[tile.LoadOp, Ring]) -> list[tile.LoadOp]:
    """The loads that have rings of their own, in order: each has a cursor."""
    return [load for load, ring in rings.items() if not ring.decision.joined]


def _declare_source(
    build: Build, program: tile.ProgramOp, name: str, slot: SlotDecision, arrays: dict[str, SSAValue]
) -> tuple[SSAValue, tuple[int, ...]]:
    """The map that brings a slot, or the array that threads copy it from, with its dimensions. arrays: those that are
    declared so far, by name."""
    if slot.piece_bytes:
        return copied_array(build, program, slot, arrays)
    found = map_dimensions(loads(program)[slot.load], cascade_axes(program))
    assert found is not None, "what is brought by boxes has a map"
    axes = found.own_axes
    dims, strides = map_dims(program, slot.map, axes), map_strides(program, slot.map, slot.buffer, axes)
    return tensor_map(build, name, slot.buffer, slot.map, dims, strides), ()


def _declare_ring(build: Build, name: StringAttr, slots: int, arrivals: tuple[int, int], address: int) -> SSAValue:
    """arrivals: that full and empty barriers count."""
    properties: dict[str, Attribute] = {
        "sym_name": name,
        "stages": IntAttr(slots),
        "full_arrivals": IntAttr(arrivals[0]),
        "empty_arrivals": IntAttr(arrivals[1]),
        "address": IntAttr(address),
    }
    return build.value(ac.RingOp.create(properties=properties, result_types=[ac.RingType(name, IntAttr(slots))]))


def _names(slots: Sequence[SlotDecision]) -> list[str]:
    """The parameters' names, a second load of one numbered."""
    taken: dict[str, int] = {}
    found: list[str] = []
    for each in slots:
        again = taken.get(each.buffer, 0)
        taken[each.buffer] = again + 1
        found.append(f"{each.buffer}_{again}" if again else each.buffer)
    return found


def matrix_layout(slot: SlotDecision, contracted: str, depth: int) -> tuple[str, int, int, list[int]]:
    """Major, leading and stride offsets of a matrix descriptor of a slot, and the advance to each of the product's
    steps over `depth` elements of the contracted axis, in bytes.

    128-byte swizzle (PTX ISA, wgmma and tcgen05 canonical layouts). K-major: rows of 128 bytes, eight of them 1024
    bytes apart; a step moves 32 bytes along the row, and at its end to the next box. MN-major: the next 128 bytes are a
    box away, and a step moves as many rows as it has elements.
    """
    rows = step_elements(slot)
    steps = range(depth // rows)
    if slot.inner == contracted:
        spans = [divmod(_STEP_BYTES * step, SPAN_BYTES) for step in steps]
        return "K", 16, 1024, [span * slot.lines_bytes + within for span, within in spans]
    return "MN", slot.span_bytes, 1024, [SPAN_BYTES * rows * step for step in steps]


def step_elements(slot: SlotDecision) -> int:
    """Of the contracted axis, what one wgmma or tcgen05.mma takes of a slot."""
    return _STEP_BYTES // slot.element_bytes


def wgmma_wait(
    build: Build, reading: SSAValue | None, accumulator: SSAValue | None, pending: int = 0
) -> tuple[SSAValue, ...]:
    """Wait for all products but the newest `pending`; the slot, and the accumulator, of these what is given."""
    results: list[Attribute] = []
    if reading is not None:
        kind = reading.type
        assert isinstance(kind, ac.ReadingType)
        results.append(ac.PhaseType(kind.ring, StringAttr("retired")))
    if accumulator is not None:
        shape = accumulator.type
        assert isinstance(shape, ac.InflightType)
        results.append(ac.AccumulatorType(shape.m, shape.n))
    present = DenseArrayBase.from_list(i32, [int(reading is not None), int(accumulator is not None)])
    op = ac.WgmmaWaitOp.create(
        operands=[each for each in (reading, accumulator) if each is not None],
        properties={"pending": IntAttr(pending), "operandSegmentSizes": present, "resultSegmentSizes": present},
        result_types=results,
    )
    build.add(op)
    return tuple(op.results)


def release(build: Build, phase: SSAValue, *, first: bool = False, peers: int = 1, leader: bool = False) -> None:
    """first: whether what follows may not be moved before it. peers, leader: as a ring has them."""
    properties = {"peers": IntAttr(peers)} | ({"first": IntAttr(1)} if first else {}) | marked("leader", leader)
    build.add(ac.ArriveOp.create(operands=[phase], properties=properties))


def marked(name: str, holds: bool) -> dict[str, Attribute]:
    """A property that is left out where it does not hold."""
    return {name: IntAttr(1)} if holds else {}


def fill(build: Build, cursor: SSAValue, filled: Sequence[tuple[Ring, Mapping[int, Sequence[SSAValue]]]]) -> None:
    """Wait for a slot, announce its bytes and copy its boxes. filled: a load's ring, and those that are joined to it,
    each with the coordinates of its boxes, by where in the slot they are: of the first CTA's part, where several bring
    equal ones."""
    first, _ = filled[0]
    phase = first.wait(build, cursor, "empty")
    by_maps = [each for each in filled if not each[0].decision.piece_bytes]
    left = sum(ring.decision.slot_bytes for ring, _ in by_maps)
    elected = marked("elected", first.warpgroup)
    tx = build.value(
        ac.ArriveExpectOp.create(
            operands=[phase], properties={"bytes": IntAttr(left), **marked("leader", first.leader), **elected},
            result_types=[ac.TransactionType(first.name, IntAttr(left))],
        )
    )  # fmt: skip
    # Threads' copies first: what is asked of the copy engine before them holds back a warp of theirs.
    for ring, coordinates in filled:
        if ring.decision.piece_bytes:
            tx = copy_boxes(build, ring, coordinates, tx)
    for ring, coordinates in by_maps:
        slot = ring.decision
        shared = marked("evict_first", bool(slot.read_once)) | marked("leader", ring.leader) | elected
        if slot.halved:
            shared |= {"rank_dimension": IntAttr(slot.halved_dimension), "rank_elements": IntAttr(slot.halved)}
        if slot.peers > 1:
            shared |= {"rank_dimension": IntAttr(1), "rank_elements": IntAttr(slot.rows // slot.peers)}
        for offset, place in coordinates.items():
            left -= slot.box_bytes * slot.peers
            tx = build.value(
                ac.CopyIssueOp.create(
                    operands=[ring.source, ring.buffer, tx, *place],
                    properties={
                        "offset_bytes": IntAttr(offset),
                        "rank_offset_bytes": IntAttr(slot.span_bytes // slot.peers if slot.peers > 1 else 0),
                        "box_bytes": IntAttr(slot.box_bytes),
                        "multicast": IntAttr(slot.peers),
                        **shared,
                    },
                    result_types=[ac.TransactionType(ring.name, IntAttr(left))],
                )
            )
    closing = AsyncCopyArriveOp if first.by_threads else ac.TransactionCloseOp
    build.add(closing.create(operands=[tx]))


def b_properties(slot: SlotDecision, contracted: str, depth: int) -> dict[str, Attribute]:
    """Of a product: how its right operand lies in a slot."""
    major, leading, stride, steps = matrix_layout(slot, contracted, depth)
    return {
        "b_major": StringAttr(major),
        "b_leading_bytes": IntAttr(leading),
        "b_stride_bytes": IntAttr(stride),
        "b_step_bytes": int_array(steps),
    }
