"""How a CTA hands another its partial sum of a tile: through memory, behind a flag.

A slot of partial sums has four values of every thread of the unit side by side, so that the unit's accesses are whole
lines: four consecutive values of a thread are at 16 bytes times the thread, the next four behind those of all threads.
The tile's owner adds the slot to what it has itself: two terms, the same in every run.

The edges, by the ISA's memory model, from a value written by thread t of the helper to its reader t' of the owner:
- t's st.global comes before its bar.sync, which orders it before what the unit's first thread does next: st.release of
  the flag, at the scope of the GPU, which includes both CTAs;
- the first thread of the owner's unit reads that 1 by ld.acquire at the same scope, so the two synchronize; its
  bar.sync orders it before the loads of t'. Causality order is transitive, so the store comes before the load.
- The flag is set back by the thread that has read the 1, of which it alone waits for that flag: the two are ordered by
  the program, and the next 1 comes with the next launch, whose accesses all come after the end of this one (a kernel
  that begins early waits for it: griddepcontrol.wait).
A slot is written once in a launch, so nothing has to tell its writer that it was read.

Source: PTX ISA, ld.acquire, st.release, memory consistency model (causality order). Checked by:
tests/lower/test_stream.py, and by `contract`.
"""

from __future__ import annotations

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import PartialAddOp, PartialStoreOp, StreamPart, TurnStreamPartOp
from tilewright.lower.ptx.copies.global_access import displaced_address
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import AccumulatorPlace, GlobalPlace

_QUAD = 4
"""Values that one access moves: 16 bytes."""
_THREAD_BYTES = 16
_THREADS = 128
_QUAD_BYTES = _THREAD_BYTES * _THREADS
"""Of one quad of every thread of a warpgroup."""
_FLAG_BYTES = 4
_OTHER_REGISTERS = 24
"""Of a thread, for addresses, cursors and whatever else lives beside the accumulator."""
_QUADS_AT_ONCE = (4, 16)
"""Fewest and most."""


def lower_partial_store(lowering: Lowering, op: PartialStoreOp) -> None:
    """Write the slot, meet, set the flag."""
    text = lowering.text
    accumulator = lowering.place(op.accumulator)
    assert isinstance(accumulator, AccumulatorPlace)
    slot = _slot(lowering, op)
    address = _own_address(lowering, op, slot)
    for number, quad in enumerate(_quads(accumulator)):
        registers = "{" + ", ".join(quad) + "}"
        text.emit("st.global.v4.f32", f"[{address}+{number * _QUAD_BYTES}]", registers)
    _meet(lowering, op)
    flag = _flag(lowering, op, slot)
    text.emit("st.release.gpu.global.u32", f"[{flag}]", text.into("b32", "mov.u32", 1), guard=lowering.is_first_thread)


def lower_partial_add(lowering: Lowering, op: PartialAddOp) -> None:
    """Wait for the flag and set it back, meet, load and add."""
    text = lowering.text
    accumulator = lowering.place(op.accumulator)
    assert isinstance(accumulator, AccumulatorPlace)
    slot = _slot(lowering, op)
    flag = _flag(lowering, op, slot)
    poll, met = text.label("poll"), text.label("polled")
    text.emit("bra", met, guard=f"!{lowering.is_first_thread}")
    text.place(poll)
    value = text.into("b32", "ld.acquire.gpu.global.u32", f"[{flag}]")
    text.emit("bra", poll, guard=text.into("pred", "setp.ne.u32", value, 1))
    text.emit("st.relaxed.gpu.global.u32", f"[{flag}]", text.into("b32", "mov.u32", 0))
    text.place(met)
    _meet(lowering, op)
    address = _own_address(lowering, op, slot)
    # A part of a tile that is streamed, which each is: the assembler does not know, and would load ahead whatever it
    # finds registers for, and spill others.
    at_once, beyond = _quads_at_once(op, accumulator), _is_beyond(lowering, op)
    following = ""
    for number, quad in enumerate(_quads(accumulator)):
        if number % at_once == 0:
            if following:
                text.place(following)
            following = text.label("added")
            text.emit("bra", following, guard=beyond)
        loaded = [text.register("f32") for _ in range(_QUAD)]
        text.emit("ld.global.v4.f32", "{" + ", ".join(loaded) + "}", f"[{address}+{number * _QUAD_BYTES}]")
        for total, term in zip(quad, loaded, strict=True):
            text.emit("add.rn.f32", total, total, term)
    text.place(following)
    lowering.places[op.sum] = accumulator


def _is_beyond(lowering: Lowering, op: PartialAddOp) -> str:
    """A predicate that is false: whether the tile is none of the streamed ones."""
    part = op.parent_op()
    assert isinstance(part, StreamPart)
    return lowering.text.into("pred", "setp.ge.u32", lowering.index(op.slot), part.streamed.data)


def _quads_at_once(op: PartialAddOp, accumulator: AccumulatorPlace) -> int:
    """How many loads may be on their way beside the accumulator's registers."""
    role = op.parent_op()
    while not isinstance(role, ac.RoleOp):
        assert role is not None
        role = role.parent_op()
    spare = role.registers.data - sum(map(len, accumulator.blocks)) - _OTHER_REGISTERS
    return max(_QUADS_AT_ONCE[0], min(_QUADS_AT_ONCE[1], spare // _QUAD))


def _quads(accumulator: AccumulatorPlace) -> list[tuple[str, ...]]:
    """The thread's values by fours, block after block: columns are multiples of eight, of which it has two."""
    values = [value for block in accumulator.blocks for value in block]
    return [tuple(values[first : first + _QUAD]) for first in range(0, len(values), _QUAD)]


def _slot(lowering: Lowering, op: PartialStoreOp | PartialAddOp) -> str:
    """Number of the slot of the tile and this unit: units that take work in turn have one in common."""
    tile, part = lowering.index(op.slot), op.parent_op()
    if isinstance(part, TurnStreamPartOp):
        return tile
    assert part is not None
    role = part.parent_op()
    assert isinstance(role, ac.RoleOp)
    return lowering.text.into("b32", "mad.lo.u32", tile, role.execution.count.data, lowering.index(op.unit))


def _flag(lowering: Lowering, op: PartialStoreOp | PartialAddOp, slot: str) -> str:
    flags = lowering.place(op.flags)
    assert isinstance(flags, GlobalPlace)
    return displaced_address(lowering.text, flags.register, slot, _FLAG_BYTES)


def _own_address(lowering: Lowering, op: PartialStoreOp | PartialAddOp, slot: str) -> str:
    """Where this thread's first values are in a slot."""
    partials, accumulator = lowering.place(op.partials), lowering.place(op.accumulator)
    assert isinstance(partials, GlobalPlace) and isinstance(accumulator, AccumulatorPlace)
    slot_bytes = len(_quads(accumulator)) * _QUAD_BYTES
    address = displaced_address(lowering.text, partials.register, slot, slot_bytes)
    return displaced_address(lowering.text, address, lowering.warpgroup_thread, _THREAD_BYTES)


def _meet(lowering: Lowering, op: PartialStoreOp | PartialAddOp) -> None:
    """All of the unit's threads have come here."""
    number = lowering.text.into("b32", "add.u32", lowering.index(op.unit), op.first_barrier.data)
    lowering.text.emit("bar.sync", number, _THREADS)
