"""How the CTAs that share a tile add up what each has of it: through each other's shared memory, in a fixed order.

Each thread writes the values of every part of the columns into the CTA that the part belongs to, sixteen bytes at a
time and neighbouring threads side by side, so that neither writes nor reads meet in a bank; the slot has room for one
contribution from each CTA. The writes are st.async: each tells the mbarrier beside its destination of its bytes, so
that nobody meets or arrives for them; each unit of the CTA that they come to has announced its share of them. Sums are
taken in the order of ranks, so that they are the same in every run. When they are read, the unit's threads meet, and
thread p tells CTA p that its slot is free. Of two CTAs each keeps its own part in registers.

The edges, by the ISA's memory model, from a value written by thread t of CTA c to its reader t' of CTA d:
- The write of an st.async comes before its complete_tx, which has the semantics of a release at cluster scope; the wait
  of t' is an acquire at cluster scope. A phase ends when every unit of d has announced its bytes and all have come, so
  that it ends with all writes of the round. Bytes that come before they are announced are counted in the same phase:
  the announcements are its arrivals.
- Back: loads of d come before a proxy fence (the ISA does not say in which proxy an st.async writes; the checker takes
  it for the async one, which asks for more), its bar.sync and its arrivals at the barriers "empty". These release at
  cluster scope, which is cumulative, and each CTA waits for those of all before it writes again, so that no byte comes
  to a phase before its own. The slots are used for nothing else, so that the first round waits for nobody; the parity
  goes on by one with each tile. Peers have begun (the cluster's barrier after the inits) and have not ended (the one at
  the end).
Every one of these is judged again on the text, where scopes count (`contract.judge.order.out_of_scope_order`). The
exchange takes seven tenths of the time of one by plain stores and an arrival for all of a CTA's, in which
compute-sanitizer's racecheck, besides, sees hazards (`bench.probes.racecheck`).

Source: PTX ISA, mapa, st.async, mbarrier.arrive, memory consistency model (causality order). Checked by:
tests/lower/distribution/test_split_product.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.split import SplitPartOp, contributions
from tilewright.lower.ptx.emit import Text, float_literal
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import AccumulatorPlace, BufferPlace, CursorPlace, IndexPlace, RingPlace

_PAIR = 2
_QUAD = 4
"""Values that one access moves: 16 bytes."""
_QUAD_BYTES = 16 * 128
"""Of one quad of every thread of a warpgroup."""


def lower_cluster_reduce(lowering: Lowering, op: ac.ClusterReduceOp) -> None:
    text = lowering.text
    ring, cursor = lowering.place(op.ring), lowering.place(op.cursor)
    accumulator, buffer = lowering.place(op.accumulator), lowering.place(op.buffer)
    assert isinstance(ring, RingPlace) and isinstance(cursor, CursorPlace)
    assert isinstance(accumulator, AccumulatorPlace) and isinstance(buffer, BufferPlace)
    ctas = lowering.cluster_size
    assert isinstance(op.sum.type, ac.AccumulatorType)
    columns = op.sum.type.n.data
    count = accumulator.n // columns
    quads = len(accumulator.blocks) * columns // 2 // _QUAD
    unit = lowering.index(op.unit)
    units = buffer.slot_bytes // (contributions(ctas, count) * quads * _QUAD_BYTES)
    full = text.into("b32", "add.u32", lowering.shared_base, ring.address)
    empty = text.into("b32", "add.u32", full, 8)

    _wait(text, empty, text.into("b32", "xor.b32", cursor.parity, 1))
    lane = text.into("b32", "shl.b32", lowering.warpgroup_thread, 4)
    own = text.into("b32", "mad.lo.u32", unit, quads * _QUAD_BYTES, lane)
    own = text.into("b32", "add.u32", own, lowering.shared_base)
    own = text.into("b32", "add.u32", own, buffer.address)
    rank = text.into("b32", "mov.u32", "%cluster_ctarank")
    source_bytes = units * quads * _QUAD_BYTES
    parts = [_quads(accumulator, cta * columns // 2, columns // 2) for cta in range(count)]
    # Where there are fewer parts than CTAs, nobody writes anything for those past the first.
    guard = text.into("pred", "setp.lt.u32", rank, count) if count < ctas else ""
    _announce(lowering, full, contributions(ctas, count) * quads * _QUAD_BYTES, guard)
    if (ctas, count) == (_PAIR, _PAIR):
        # A sum of two is the same in either order, so each keeps its own part and gives the other's away.
        first = text.into("pred", "setp.eq.u32", rank, 0)
        given, kept = _chosen(text, parts[1], parts[0], first), _chosen(text, parts[0], parts[1], first)
        _send(text, own, full, text.into("b32", "xor.b32", rank, 1), given)
        _wait(text, full, cursor.parity)
        sums = [_added(text, _loaded(text, own, number * _QUAD_BYTES), quad) for number, quad in enumerate(kept)]
    else:
        mine = text.into("b32", "mad.lo.u32", rank, source_bytes, own)
        for cta, part in enumerate(parts):
            _send(text, mine, full, cta, part)
        _wait(text, full, cursor.parity)
        sums = [_sum(text, own, number * _QUAD_BYTES, source_bytes, ctas, guard) for number in range(quads)]
    _meet_and_tell(lowering, op, unit, empty)
    flat = [value for quad in sums for value in quad]
    width = columns // 2
    blocks = tuple(tuple(flat[begin : begin + width]) for begin in range(0, len(flat), width))
    lowering.places[op.sum] = AccumulatorPlace(blocks, columns)
    parity = text.into("b32", "xor.b32", cursor.parity, 1)
    lowering.places[op.following] = CursorPlace(cursor.stage, parity)


def lower_split_part(lowering: Lowering, op: SplitPartOp) -> None:
    """A CTA's place along z modulo the parts, and divided by them."""
    text, parts = lowering.text, op.parts.data
    rank = text.into("b32", "mov.u32", "%cluster_ctaid.z")
    lowering.places[op.part] = IndexPlace(text.into("b32", "rem.u32", rank, parts))
    lowering.places[op.spare] = IndexPlace(text.into("b32", "div.u32", rank, parts))


def _quads(accumulator: AccumulatorPlace, begin: int, count: int) -> list[tuple[str, ...]]:
    """The values of one part of the columns, by fours: block after block."""
    return [
        block[first : first + _QUAD] for block in accumulator.blocks for first in range(begin, begin + count, _QUAD)
    ]


def _chosen(text: Text, yes: list[tuple[str, ...]], no: list[tuple[str, ...]], which: str) -> list[tuple[str, ...]]:
    """One of two parts, by a predicate."""
    return [
        tuple(text.into("f32", "selp.f32", *pair, which) for pair in zip(left, right, strict=True))
        for left, right in zip(yes, no, strict=True)
    ]


def _announce(lowering: Lowering, full: str, unit_bytes: int, guard: str) -> None:
    """One thread of each unit expects what comes for its unit. guard: predicate without which nothing comes."""
    text = lowering.text
    expected = text.into("b32", "selp.b32", unit_bytes, 0, guard) if guard else unit_bytes
    opcode = "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64"
    text.emit(opcode, "_", f"[{full}]", expected, guard=lowering.is_first_thread)


def _send(text: Text, to: str, barrier: str, rank: str | int, part: list[tuple[str, ...]]) -> None:
    """Write a part to an address of a CTA, each quad with its bytes told to that CTA's barrier."""
    address = text.into("b32", "mapa.shared::cluster.u32", to, rank)
    told = text.into("b32", "mapa.shared::cluster.u32", barrier, rank)
    for number, quad in enumerate(part):
        registers = "{" + ", ".join(quad) + "}"
        opcode = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
        text.emit(opcode, f"[{address}+{number * _QUAD_BYTES}]", registers, f"[{told}]")


def _loaded(text: Text, address: str, offset: int, guard: str = "") -> list[str]:
    """guard: predicate without which the numbers are zeros."""
    loaded = [text.into("f32", "mov.f32", float_literal(0.0)) if guard else text.register("f32") for _ in range(_QUAD)]
    text.emit("ld.shared.v4.f32", "{" + ", ".join(loaded) + "}", f"[{address}+{offset}]", guard=guard)
    return loaded


def _added(text: Text, left: Sequence[str], right: Sequence[str]) -> list[str]:
    return [text.into("f32", "add.rn.f32", *pair) for pair in zip(left, right, strict=True)]


def _sum(text: Text, address: str, offset: int, source_bytes: int, ctas: int, guard: str) -> list[str]:
    """Four sums over all CTAs, in the order of their ranks; of zeros where the guard does not hold."""
    totals = _loaded(text, address, offset, guard)
    for cta in range(1, ctas):
        totals = _added(text, totals, _loaded(text, address, offset + cta * source_bytes, guard))
    return totals


def _meet_and_tell(lowering: Lowering, op: ac.ClusterReduceOp, unit: str, barrier: str) -> None:
    """All of the unit's threads have read; then thread p arrives on CTA p's barrier."""
    text = lowering.text
    text.emit("fence.proxy.async.shared::cta")
    number = text.into("b32", "add.u32", unit, op.first_barrier.data)
    text.emit("bar.sync", number, 128)
    tells = text.into("pred", "setp.lt.u32", lowering.warpgroup_thread, lowering.cluster_size)
    remote = text.into("b32", "mapa.shared::cluster.u32", barrier, lowering.warpgroup_thread)
    text.emit("mbarrier.arrive.release.cluster.shared::cluster.b64", "_", f"[{remote}]", guard=tells)


def _wait(text: Text, address: str, parity: str) -> None:
    retry, done = text.label("wait"), text.label("wait_done")
    text.place(retry)
    passed = text.register("pred")
    text.emit("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", passed, f"[{address}]", parity)
    text.emit("bra", done, guard=passed)
    text.emit("bra", retry)
    text.place(done)
