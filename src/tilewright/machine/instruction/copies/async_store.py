"""Asynchronous stores that carry their values: `st.async`, `red.async`; `st.bulk`; cancelling cluster launches.

`st.async` and `red.async` write another CTA's (or the own) shared memory and complete transactions on an mbarrier
there, as a copy of their few bytes would. What lanes of one `st.async` write to different places of one CTA, and tell
one barrier of, is one copy: its bytes arrive together. Nothing can be told from their arriving apart but by who reads
them without waiting for the phase, which is a race either way, and by a phase that expects less than all of them,
which then overflows. `st.bulk` fills shared memory with zeros, in program order. A
`clusterlaunchcontrol.try_cancel` is answered with a cluster that has not begun, or with "nothing to cancel", which the
ISA always permits (16 bytes of zeros): whoever starts the grid's clusters decides.

Source: PTX ISA 9.7.9.13 (st.async), 9.7.9.14 (st.bulk), 9.7.13.14 (red.async), 9.7.13.16 (clusterlaunchcontrol).
Not handled: `st.async` and `red.async` with `.mmio` to global memory. Checked by:
tests/machine/copy/test_bulk_forms.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.copy import copies
from tilewright.machine.copy.copies import Combine, Destination
from tilewright.machine.core.decoder import (
    PREDICATE,
    WORD32,
    WORD64,
    Decoder,
    Modifiers,
    TypeName,
    expect_operands,
    unsupported,
)
from tilewright.machine.core.event import Access, Ranges
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import WARP_SIZE, Lanes, indices, to_bits
from tilewright.machine.core.memory import OFFSET_MASK, RANK_SHIFT
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, Plain, compute, compute_many
from tilewright.machine.instruction.copies.bulk_operands import At, barrier_place, require_cluster, shared_place
from tilewright.machine.numbers.reduction import OPERATIONS, reduction

WORD128 = TypeName("b128", 128)
RESPONSE_BYTES = 16
_SENT_KEPT = 1024


@dataclass(frozen=True, slots=True, eq=False)
class _Copied:
    """The stores of one copy: where each writes, ascending, the lane of each, and all their bytes. issuer: the lane
    whose copy it is."""

    offsets: tuple[int, ...]
    lanes: tuple[int, ...]
    ranges: Ranges

    @property
    def issuer(self) -> int:
        return self.lanes[0]


_Sent = tuple[tuple[int, int, int], tuple[_Copied, ...]]
"""The CTA that is written, that of the barrier that is told, and its offset; and the copies."""


def _send(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    """`st.async` and `red.async`."""
    modifiers.take("weak", "relaxed")
    modifiers.take("cta", "cluster", "gpu", "sys")
    if modifiers.take("shared::cluster") is None and modifiers.take("global") is not None:
        raise unsupported(instruction, "only stores to shared memory")
    if not modifiers.flag("mbarrier::complete_tx::bytes"):
        raise unsupported(instruction, "it names no completion mechanism")
    operation = modifiers.take(*OPERATIONS)
    count = {None: 1, "v2": 2, "v4": 4}[modifiers.take("v2", "v4")]
    element = modifiers.take_type()
    combine: Combine | None = None
    if operation is not None:
        combine = reduction(operation, element.name)
        if combine is None:
            raise unsupported(instruction, f"reduction {operation} of .{element.name}")
    target, value, barrier_operand = expect_operands(instruction, 3)
    sources = tuple(decoder.source(instruction, item, element, wider=True) for item in decoder.vector(value))
    if len(sources) != count:
        raise unsupported(instruction, f"{len(sources)} registers for {count} elements")
    to, barrier = At(decoder, instruction, target), At(decoder, instruction, barrier_operand)
    size = element.bytes * count
    moved = decoder.move(sources, to.slot, loads=False) if combine is None else None
    known: dict[tuple[bytes, bytes, int, int], _Sent] = {}

    def sent_together(warp: Warp, mask: int) -> _Sent | None:
        """What is sent where all lanes write one CTA and tell one barrier, rightly placed. None: lane by lane, then."""
        addresses, barriers = warp.r[to.slot], warp.r[barrier.slot]
        key = addresses.tobytes(), barriers.tobytes(), mask, warp.cta.rank
        sent = known.get(key)
        if sent is None:
            sent = place_together(warp, mask, addresses, barriers)
            if sent is not None:
                if len(known) >= _SENT_KEPT:
                    known.clear()
                known[key] = sent
        return sent

    def place_together(warp: Warp, mask: int, everywhere: Lanes, every_barrier: Lanes) -> _Sent | None:
        lanes = indices(mask)
        addresses = everywhere[lanes].astype(np.int64) + to.offset
        barriers = every_barrier[lanes]
        first, told_at = int(addresses[0]), int(barriers[0])
        if (barriers != told_at).any() or ((addresses ^ first) >> RANK_SHIFT).any() or (addresses % size).any():
            return None
        cta, _ = shared_place(warp, first, instruction, own=False)
        told, at = barrier_place(warp, told_at + barrier.offset, first, cta, False, instruction)
        offsets = (addresses & OFFSET_MASK).tolist()
        return (cta.rank, told.rank, at), _copied(list(zip(offsets, lanes.tolist(), strict=True)), size, combine)

    def act(warp: Warp, mask: int) -> None:
        require_cluster(warp, instruction)
        sent: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        together = sent_together(warp, mask)
        for lane in indices(mask).tolist() if together is None else ():
            address = to.read(warp, lane)
            cta, offset = shared_place(warp, address, instruction, own=False)
            if offset % size:
                raise MachineFault(
                    "MF002", "misaligned-address",
                    f"address {address:#x} is not a multiple of the access size, {size} bytes", instruction.span,
                )  # fmt: skip
            told, at = barrier_place(warp, barrier.read(warp, lane), address, cta, False, instruction)
            sent.setdefault((cta.rank, told.rank, at), []).append((offset, lane))
        ctas = warp.cta.cluster.ctas
        values: npt.NDArray[np.uint8] | None = None
        if moved is None or moved.keeps:
            values = np.stack([warp.r[source] for source in sources], axis=1).astype(element.raw).view(np.uint8)
        else:
            moved.require_written(warp.r)
        each = [together] if together is not None else []
        each += [(key, _copied(stores, size, combine)) for key, stores in sent.items()]
        for (cta_rank, told_rank, at), copied_together in each:
            destination = Destination(ctas[cta_rank], ctas[told_rank], at)
            for copied in copied_together:
                issued = copies.issue(warp, copied.issuer, instruction.span)
                if values is None:
                    copies.load_no_values(issued, size * len(copied.lanes), destination, copied.ranges)
                else:
                    sent_values = values[list(copied.lanes)]
                    copies.load_values(issued, sent_values, destination, copied.offsets, copied.ranges, combine)

    return Control(act)


def _copied(stores: list[tuple[int, int]], size: int, combine: Combine | None) -> tuple[_Copied, ...]:
    """Each copy of stores of `size` bytes, given by where they write and their lanes: one of them all, by place, unless
    they combine or two of them have one place."""
    apart = combine is None and len({offset for offset, _ in stores}) == len(stores)
    found: list[_Copied] = []
    for group in (sorted(stores),) if apart else [(store,) for store in stores]:
        offsets, lanes = zip(*group, strict=True)
        found.append(_Copied(offsets, lanes, copies.rows_at(offsets, size)))
    return tuple(found)


def _fill(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    """`st.bulk`: zeros."""
    modifiers.flag("weak")
    modifiers.take("shared::cta")
    target, size_operand, value = expect_operands(instruction, 3)
    to = At(decoder, instruction, target)
    size_slot = decoder.source(instruction, size_operand, WORD64)
    if decoder.static_value(decoder.source(instruction, value, WORD64)) != 0:
        raise unsupported(instruction, "it fills with 0 only")

    def act(warp: Warp, mask: int) -> None:
        cta = warp.cta
        for lane in indices(mask).tolist():
            _, offset = shared_place(warp, to.read(warp, lane), instruction, own=True)
            size = int(warp.r[size_slot][lane])
            if offset % 8 or size % 8:
                raise MachineFault(
                    "MF002", "misaligned-address", f"st.bulk of {size} bytes at {offset:#x}: multiples of 8",
                    instruction.span,
                )  # fmt: skip
            if offset + size > cta.shared.size_bytes:
                raise MachineFault("MF001", "out-of-bounds", "st.bulk leaves shared memory", instruction.span)
            cta.shared.data[offset : offset + size] = 0
            if cta.cluster.observe is not None and size:
                ranges = ((offset, offset + size),)
                cta.cluster.observe(
                    Access(
                        warp.actor, "shared", cta.linear, ranges, True, "generic", instruction.span,
                        lanes=to_bits(1 << (8 * lane)),
                    )
                )  # fmt: skip

    return Control(act)


def request_of(words: Lanes) -> int:
    """The number of the request, from 1, that a response answers: its words are the first CTA's index of the cluster
    whose work is taken over and this number, or this number and zeros where there is none."""
    return int(words[3] or words[0])


def _try_cancel(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("async")
    modifiers.take("shared::cta")
    modifiers.flag("b128")
    everyone = modifiers.flag("multicast::cluster::all")
    if not modifiers.flag("mbarrier::complete_tx::bytes"):
        raise unsupported(instruction, "it names no completion mechanism")
    target, barrier_operand = expect_operands(instruction, 2)
    to, barrier = At(decoder, instruction, target), At(decoder, instruction, barrier_operand)

    def act(warp: Warp, mask: int) -> None:
        for lane in indices(mask).tolist():
            address = to.read(warp, lane)
            own, offset = shared_place(warp, address, instruction, own=True)
            if offset % RESPONSE_BYTES:
                raise MachineFault(
                    "AL201", "copy-alignment",
                    f"address {address:#x} of the response is not {RESPONSE_BYTES}-byte aligned", instruction.span,
                )  # fmt: skip
            _, at = barrier_place(warp, barrier.read(warp, lane), address, own, False, instruction)
            cluster = warp.cta.cluster
            if any(cluster.waited.get((cta, place), -1) >= phase for cta, place, phase in cluster.refused):
                cluster.undefined[instruction.span] = "work is asked for once it was seen that there is none left"
            cluster.requests += 1
            taken = cluster.work_to_take.pop(0) if cluster.work_to_take else cluster.more_work()
            answer = (cluster.requests, 0, 0, 0) if taken is None else (*taken, cluster.requests)
            for cta in cluster.ctas if everyone else (own,):
                if not answer[-1] and at in cta.barriers:
                    cluster.refused.append((cta.linear, at, cta.barriers[at].phase))
                issued = copies.issue(warp, lane, instruction.span)
                response = np.array(answer, np.uint32).view(np.uint8)
                ranges = ((offset, offset + RESPONSE_BYTES),)
                copies.load_values(
                    issued, response[None, :], Destination(cta, cta, at), (offset,), ranges, stored=False
                )

    return Control(act)


def _query_cancel(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    """The response's layout is the machine's own (`request_of`)."""
    what = modifiers.take(
        "is_canceled", "get_first_ctaid", "get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"
    )
    for word in ("pred", "v4", "b32", "b128"):
        modifiers.flag(word)
    target, response = expect_operands(instruction, 2)
    source = decoder.source(instruction, response, WORD128)
    if what == "is_canceled":
        to = decoder.destination(instruction, target, PREDICATE)
        return compute(lambda q: _words(q)[:, 3] != 0, to, (source,))
    if what == "get_first_ctaid":
        targets = tuple(decoder.destination(instruction, item, WORD32) for item in decoder.vector(target))
        return compute_many(_columns, targets, (source,))
    axis = "xyz".index(str(what)[-1])
    to = decoder.destination(instruction, target, WORD32)
    return compute(lambda q: _words(q)[:, axis].copy(), to, (source,))


def _columns(values: Any) -> tuple[Lanes, ...]:
    return tuple(np.ascontiguousarray(_words(values).T))


def _words(values: Any) -> Lanes:
    return np.ascontiguousarray(values).view(np.uint32).reshape(WARP_SIZE, 4)


HANDLERS = {
    "st.async": _send,
    "red.async": _send,
    "st.bulk": _fill,
    "clusterlaunchcontrol.try_cancel": _try_cancel,
    "clusterlaunchcontrol.query_cancel": _query_cancel,
}
