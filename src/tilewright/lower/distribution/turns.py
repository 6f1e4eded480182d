"""How two consumers alternate whole tiles: the loop over every second tile, the barriers of turns, cursors that pass
over the other's slots.

While one warpgroup's accumulators leave, the other's product runs, on slots of the same ring. A unit may wait for a
slot only when every earlier phase of that slot has ended, or the parity that it waits for could be one of two phases
before; so it begins when the other has waited for all slots of the tile before. A unit's barrier of turns counts one
arrival a phase: unit 0's first wait passes at once, as of the phase before the first; unit 1's is for unit 0's first
tile.

Each CTA of a cluster has barriers of turns of its own. Not handled: more units than two. Sources: PTX ISA,
mbarrier.try_wait (parity of the phase before), mbarrier.arrive. Checked by: tests/lower/distribution/test_turns.py, and
`contract`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.base.size import Size
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import TurnStreamPartOp
from tilewright.ir.sizes import size_array, size_attr
from tilewright.lower.build import INDEX, Build
from tilewright.lower.distribution.stream_walk import TurnItems
from tilewright.lower.ptx.copies.rings import ring_stages
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import CursorPlace, RingPlace
from tilewright.lower.ptx.run_time import CLUSTERS

LEAST_SLOTS = 2
"""Of a tile: by the end of the first product, for which the second is waited for, every warp has taken its turn."""
TURNS = StringAttr("turns")
_BARRIER_BYTES = 8


def declare_turns(build: Build, address: int) -> SSAValue:
    """The barriers of turns. address: in dynamic shared memory, in bytes."""
    properties: dict[str, Attribute] = {
        "sym_name": TURNS,
        "stages": IntAttr(1),
        "full_arrivals": IntAttr(1),
        "empty_arrivals": IntAttr(1),
        "address": IntAttr(address),
    }
    return build.value(ac.RingOp.create(properties=properties, result_types=[ac.RingType(TURNS, IntAttr(1))]))


def turn_tiles_loop(
    build: Build,
    turns: SSAValue,
    counts: tuple[Size, Size],
    matrices: Sequence[Size],
    order: Mapping[str, Attribute],
    carried: Sequence[SSAValue],
) -> tuple[Build, Block, ac.TurnTilesOp]:
    """The loop of a role whose units take tiles alternately; its body. counts: tiles along rows and columns; matrices:
    places along each axis of a batch; order: the properties of `ac.tiles` that say in which order."""
    indices = ac.TILE_INDICES + len(matrices)
    block = Block(arg_types=[*([INDEX] * indices), *(value.type for value in carried)])
    batch: dict[str, Attribute] = {"batch": size_array(matrices)} if matrices else {}
    op = ac.TurnTilesOp.create(
        operands=[turns, *carried],
        result_types=[value.type for value in carried],
        properties={
            "symbol": StringAttr("tiles"),
            "tiles_m": size_attr(counts[0]),
            "tiles_n": size_attr(counts[1]),
            **order,
            "skipped": StringAttr("K"),
            **batch,
        },
        regions=[Region(block)],
    )
    build.add(op)
    return build.inside(block), block, op


def pass_turn(build: Build, turns: SSAValue | None, unit: SSAValue) -> None:
    """Where consumers take turns: every slot of the tile has been waited for."""
    if turns is not None:
        build.add(ac.TurnPassOp.create(operands=[turns, unit]))


def skip_quantities(slots: int, stages: int) -> tuple[int, int]:
    """Immediates that depend on the number of slots which a tile takes: stages and rounds by which a cursor moves."""
    return slots % stages, slots // stages % 2


@dataclass(frozen=True, slots=True)
class TurnWalk:
    """Registers. tile: number of the unit's tile; step: between its tiles; barrier: address of its barrier of turns;
    parity: that it waits for next; ahead: tiles of the CTA's before its first, 0 or 1."""

    tile: str
    step: str
    barrier: str
    parity: str
    ahead: str


def start_turns(lowering: Lowering, op: ac.TurnLoop, clusters: Size) -> TurnWalk:
    """Before the loop: unit u begins with the cluster's tile number u, or turns go on where parts of streamed tiles
    came before. clusters: in the grid."""
    text, role = lowering.text, op.parent_op()
    assert isinstance(role, ac.RoleOp)
    ring = lowering.place(op.turns)
    assert isinstance(ring, RingPlace)
    unit = lowering.index(role.body.block.args[0])
    before = lowering.items.get(role)
    ahead = unit
    if before is not None:
        ahead = text.into("b32", "and.b32", text.into("b32", "xor.b32", unit, before.items), 1)
    each = lowering.passed.register(text, CLUSTERS, clusters)
    first = text.into("b32", "mov.u32", "%clusterid.x" if lowering.cluster_size > 1 else "%ctaid.x")
    if isinstance(op, ac.TurnTilesOp) and op.first:
        first = text.into("b32", "add.u32", first, text.into("b32", "mov.u32", op.first))
    tile = text.into("b32", "mad.lo.u32", ahead, each, first)
    step = text.into("b32", "add.u32", each, each)
    if before is not None:
        return TurnWalk(tile, step, before.barrier, before.parity, ahead)
    return TurnWalk(tile, step, _barrier(lowering, ring, unit), text.into("b32", "xor.b32", unit, 1), ahead)


def turn_items(lowering: Lowering, op: TurnStreamPartOp) -> TurnItems:
    """What a role keeps of the items that its units take in turn: set up at the first loop over parts of tiles."""
    role = op.parent_op()
    assert isinstance(role, ac.RoleOp)
    found = lowering.items.get(role)
    if found is None:
        text, ring = lowering.text, lowering.place(op.turns)
        assert isinstance(ring, RingPlace)
        unit = lowering.index(role.body.block.args[0])
        barrier, items = _barrier(lowering, ring, unit), text.into("b32", "mov.u32", 0)
        found = TurnItems(items, barrier, text.into("b32", "xor.b32", unit, 1), unit)
        lowering.items[role] = found
    return found


def _barrier(lowering: Lowering, ring: RingPlace, unit: str) -> str:
    offset = lowering.text.into("b32", "mad.lo.u32", unit, _BARRIER_BYTES, lowering.shared_base)
    return lowering.text.into("b32", "add.u32", offset, ring.address)


def wait_for_turn(lowering: Lowering, walk: TurnWalk | TurnItems) -> None:
    """At the head of a tile."""
    text = lowering.text
    retry, done = text.label("turn"), text.label("turn_come")
    text.place(retry)
    passed = text.register("pred")
    text.emit("mbarrier.try_wait.parity.shared::cta.b64", passed, f"[{walk.barrier}]", walk.parity)
    text.emit("bra", done, guard=passed)
    text.emit("bra", retry)
    text.place(done)
    text.emit("xor.b32", walk.parity, walk.parity, 1)


def skip_slots(lowering: Lowering, value: SSAValue, slots: int, times: str = "") -> None:
    """Move a cursor in place over the slots of another's tile. times: register, 0 or 1, by which to multiply; or
    once."""
    text, cursor = lowering.text, lowering.place(value)
    assert isinstance(cursor, CursorPlace)
    stages = ring_stages(value)
    further, rounds = (text.into("b32", "mov.u32", number) for number in skip_quantities(slots, stages))
    if times:
        further = text.into("b32", "mul.lo.u32", further, times)
        rounds = text.into("b32", "mul.lo.u32", rounds, times)
    stage = text.into("b32", "add.u32", cursor.stage, further)
    wraps = text.into("pred", "setp.ge.u32", stage, stages)
    text.emit("selp.b32", cursor.stage, text.into("b32", "sub.u32", stage, stages), stage, wraps)
    text.emit("xor.b32", cursor.parity, cursor.parity, text.into("b32", "selp.b32", 1, 0, wraps))
    text.emit("xor.b32", cursor.parity, cursor.parity, rounds)


def lower_turn_pass(lowering: Lowering, op: ac.TurnPassOp) -> None:
    """One thread of the unit arrives on the other's barrier of turns."""
    text = lowering.text
    ring = lowering.place(op.turns)
    assert isinstance(ring, RingPlace)
    other = text.into("b32", "xor.b32", lowering.index(op.unit), 1)
    address = _barrier(lowering, ring, other)
    text.emit("mbarrier.arrive.release.cta.shared::cta.b64", "_", f"[{address}]", guard=lowering.is_first_thread)
