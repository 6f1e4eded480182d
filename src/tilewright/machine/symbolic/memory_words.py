"""Which expressions does memory give, and keep: the parameter block, shared and local memory, words of global memory?

A load of the parameter block makes leaves; one of shared memory takes up what was stored. A word of global memory that
a weak load reads is an input, the same as long as nobody may have written it. An atomic operation on global memory
gives a ticket, distinct from all others; a request for other clusters' work, whatever the launch chooses.
Checked by: tests/machine/symbolic/test_tracker.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tilewright.frontends.ptx.ast import Immediate, Register, Vector
from tilewright.machine.core.event import Access, CopyActor
from tilewright.machine.core.lanes import (
    FULL,
    SINK_SLOT,
    UNINITIALISED,
    WARP_SIZE,
    Lanes,
    Registers,
    indices,
)
from tilewright.machine.core.memory import PARAM_WINDOW
from tilewright.machine.core.state import Warp
from tilewright.machine.instruction.copies.async_store import request_of
from tilewright.machine.protocol.constant_words import reads_open_constants
from tilewright.machine.protocol.several_devices import writes_to_several
from tilewright.machine.protocol.slicing.slice_flow import Flow
from tilewright.machine.symbolic.expression import TAKEN, Input, Leaf, Node, Source
from tilewright.machine.symbolic.traced import Traced
from tilewright.machine.symbolic.tracker import Pieces, leaf_of
from tilewright.machine.taint.local import LocalAccess

_SPLIT_MOST = 4
"""Words that the lanes of one load of global memory may read, for each to be an input."""
STRONG = frozenset({"acquire", "relaxed", "volatile", "mmio", "release", "acq_rel"})
"""Modifiers of accesses that other threads may order theirs by."""


def parameters(
    traced: Traced, r: Registers, held: dict[int, Pieces], mask: int, places: npt.NDArray[np.int64] | None = None
) -> dict[int, Source]:
    """The leaves that a load of the parameter block gives. places: its addresses by lane, if they are known."""
    run, address = traced.run_of, traced.address
    if address is None:
        return {}
    if places is None:
        places = address.places(r, mask)
    if places is None:
        return {}
    place = run.node(held, r, address.slot, mask) if address.slot >= 0 else None
    within: list[tuple[int, int]] = []
    for each in np.unique(places).tolist():
        begin = int(each) - (PARAM_WINDOW if each >= PARAM_WINDOW else 0)
        some = sum(1 << (8 * int(lane)) for lane in indices(mask)[places == each])
        within.append((begin, some))
    found: dict[int, Source] = {}
    parameters, element, signed = traced.recording.decoder.parameters, traced.element_bytes(), traced.signed()
    for index, (slot, dtype) in enumerate(traced.targets()):
        result: Source | None = None
        for begin, some in within:
            at = begin + index * element
            value = int.from_bytes(bytes(parameters[at : at + element]), "little", signed=signed)
            node: Source | None = run.of_parameters(at, dtype, value, element, signed=signed)
            if len(within) > 1:
                node = np.array([value]).astype(dtype) if node is None else node
                result = run.table.merged(some, node, node if result is None else result)
            else:
                result = node
        if place is not None:
            sources = (place,) if result is None else (place, result)
            result = run.table.opaque("a parameter at a place that depends on inputs", sources)
        if result is not None and slot is not None:
            found[slot] = result
    return found


def moved(
    traced: Traced, warp: Warp, r: Registers, held: dict[int, Pieces], mask: int, seen: list[Access],
    local: list[LocalAccess], copies: list[CopyActor], places: npt.NDArray[np.int64] | None,
) -> dict[int, Source]:  # fmt: skip
    """What memory keeps or gives of expressions. copies: those of what is stored; places: the addresses of a load, by
    lane."""
    run = traced.run_of
    shared = [access for access in seen if access.space == "shared"]
    if traced.facts.kind in ("store", "atomic"):
        if shared and (traced.facts.kind == "atomic" or traced.instruction.row in ("red", "multimem.red")):
            return _exchanged_with_memory(traced, r, held, mask, shared)
        if shared or local or copies:
            words = _stored_words(traced, r, held, mask)
            element = traced.element_bytes()
            run.stored(shared, words, element)
            run.carry(copies, words, element)
            node = next(filter(None, words), None)
            if node is not None and len(words) > 1:
                node = run.table.opaque("one of several words that are stored at once", (node,))
            run.stored_locally(local, mask, node)
        if traced.facts.kind == "atomic" and run.inputs.data and not shared and traced.writes:
            return _ticket(traced, warp, r, mask)
        return {}
    if shared:
        targets = traced.targets() if traced.instruction.row == "ld" else []
        element = traced.element_bytes()
        found = {
            slot: node
            for index, (slot, dtype) in enumerate(targets)
            if slot is not None
            and (node := run.loaded(shared, element, index, len(targets), fills=dtype.itemsize == element)) is not None
        }
        return {slot: node for slot, node in found.items()}
    if local:
        found: dict[int, Source] = {}
        for slot, dtype in traced.targets():
            if slot is not None and (given := run.loaded_locally(local, mask, r[slot], dtype)) is not None:
                found[slot] = given
        return found
    if places is None:
        return {}
    if run.inputs.data and (
        any(access.space == "global" for access in seen)
        or reads_open_constants(warp.cta.cluster.memory, places, traced.element_bytes() * len(traced.targets()))
    ):
        return _words(traced, warp, r, held, mask, places)
    if not seen and traced.facts.space == "generic":
        return parameters(traced, r, held, mask, places)
    if traced.facts.space == "const" and traced.address is not None and traced.address.slot >= 0:
        place = run.node(held, r, traced.address.slot, mask)
        if place is not None:
            return dict.fromkeys(
                traced.writes, run.table.opaque("a constant at a place that depends on inputs", (place,))
            )
    return {}


def _stored_words(traced: Traced, r: Registers, held: dict[int, Pieces], mask: int) -> list[Node | None]:
    """The expressions of what a store stores, word by word; one of all, where a place holds parts of several."""
    run, element = traced.run_of, traced.element_bytes()
    if traced.instruction.row not in ("st", "st.async"):
        nodes = [node for slot in traced.data if (node := run.node(held, r, slot, mask)) is not None]
        return [run.table.opaque("part of a matrix that is stored", tuple(nodes))] if nodes else [None]
    slots, words = traced.recording.slots, list[Node | None]()
    for item in traced.recording.decoder.vector(traced.instruction.operands[1]):
        slot = slots.get(item.name, SINK_SLOT) if isinstance(item, Register) else SINK_SLOT
        node = run.node(held, r, slot, mask) if slot in held else None
        if node is not None and r[slot].dtype.itemsize != element:
            node = run.table.opaque("part of a word that is stored", (node,))
        words.append(node)
    return words


def _exchanged_with_memory(
    traced: Traced, r: Registers, held: dict[int, Pieces], mask: int, shared: list[Access]
) -> dict[int, Source]:
    """An atomic operation on shared memory: what it leaves and gives depends on all that it meets."""
    run = traced.run_of
    old = [run.loaded([replace(access, write=False)], 1, 0, 0, fills=False) for access in shared]
    nodes = (*traced.read(r, held, mask), *(each for each in old if each is not None))
    if not nodes:
        return {}
    node = run.table.opaque(f"what {traced.instruction.opcode} gives", tuple(dict.fromkeys(nodes)))
    run.stored(shared, (node,), traced.element_bytes())
    return dict.fromkeys(traced.writes, node)


def _words(
    traced: Traced, warp: Warp, r: Registers, held: dict[int, Pieces], mask: int, places: npt.NDArray[np.int64]
) -> dict[int, Source]:
    """Words of global or constant memory that a weak load reads, as inputs."""
    run = traced.run_of
    if traced.instruction.row != "ld" or not STRONG.isdisjoint(traced.instruction.modifiers):
        return {}
    if _writes_to_several(traced.recording.sliced.text.flow):
        return {}
    lanes = indices(mask)
    found: dict[int, Source] = {}
    element = traced.element_bytes()
    distinct = np.unique(places)
    if distinct.size > _SPLIT_MOST or element > 8:
        return {}
    fresh: list[int] = []
    address = traced.address
    where = run.node(held, r, address.slot, mask) if address is not None and address.slot >= 0 else None
    for index, (slot, dtype) in enumerate(traced.targets()):
        if slot is None or slot not in traced.writes or dtype.kind not in "ub":
            continue
        values = np.array(r[slot], copy=True)
        node: Source | None = None
        for place in distinct.tolist():
            word = Input("memory", place + index * element, element)
            time = run.read(word, _held_by(warp, word))
            origin = 0
            if where is not None and address is not None:
                apart = place if distinct.size > 1 else 0
                origin = run.table.origin(where.number, address.offset, index * element, element, apart, time)
            elif time:
                origin = run.table.origin(word, time)
            leaf = run.table.leaf(leaf_of(word, 0, dtype, element, signed=traced.signed(), origin=origin))
            mine = lanes[places == place]
            given = run.inputs.memory.get(word, 0)
            raw = (given & ((1 << (8 * element)) - 1)).to_bytes(element, "little")
            extended = int.from_bytes(raw, "little", signed=traced.signed())
            values[mine] = np.array([extended]).astype(dtype)[0] if dtype.kind != "b" else bool(extended)
            within = int(sum(1 << (8 * int(lane)) for lane in mine))
            node = leaf if node is None else run.table.merged(within, leaf, node)
        if node is not None:
            r[slot] = values
            found[slot] = node
            fresh.append(slot)
    traced.recording.forget_taint(warp, fresh)
    return found


@lru_cache(maxsize=4)
def _writes_to_several(flow: Flow) -> bool:
    return any(map(writes_to_several, flow.instructions))


def _ticket(traced: Traced, warp: Warp, r: Registers, mask: int) -> dict[int, Source]:
    """The result of an atomic operation on global memory: distinct from one to the next, else anything."""
    run = traced.run_of
    if mask.bit_count() != 1 or len(traced.writes) != 1:
        return {}
    slot = traced.writes[0]
    dtype = r[slot].dtype
    if dtype.kind != "u":
        return {}
    ticket = Input("ticket", run.tickets, dtype.itemsize)
    value = run.inputs.memory.get(ticket, run.tickets)
    run.tickets += 1
    run.issued[ticket] = traced.position, _counts_up(traced)
    run.words_read[ticket] = None
    values = np.array(r[slot], copy=True)
    values[indices(mask)] = value
    r[slot] = values
    traced.recording.forget_taint(warp, [slot])
    return {slot: run.table.leaf(Leaf(ticket, 0, dtype))}


def _answer(traced: Traced, r: Registers, mask: int) -> Lanes | None:
    """The words of an answer to a request for other clusters' work; None where nobody knows them."""
    slots = traced.recording.slots
    response = traced.instruction.operands[1]
    row = r[slots[response.name]] if isinstance(response, Register) and response.name in slots else UNINITIALISED
    if row is UNINITIALISED:
        return None
    words = np.ascontiguousarray(row).view(np.uint32).reshape(WARP_SIZE, 4)[indices(mask)]
    return None if (words != words[0]).any() else words[0]


def granted(traced: Traced, r: Registers, mask: int) -> dict[int, Source]:
    """Whether a request was granted: where the launch chooses how many are."""
    run, words = traced.run_of, _answer(traced, r, mask)
    if words is None or TAKEN not in run.inputs.memory:
        return {}
    return dict.fromkeys(traced.writes, run.table.granted(request_of(words), traced.instruction.span))


def taken_work(traced: Traced, warp: Warp, r: Registers, mask: int) -> dict[int, Source]:
    """The index of a cluster whose work is taken over: any in the grid. Undefined where none is. mask: the lanes
    that ask, none where a guard keeps them from it."""
    run, slots = traced.run_of, traced.recording.slots
    words = _answer(traced, r, mask or FULL)
    if words is None or (mask and not words[3]):
        return {}
    target = traced.instruction.operands[0]
    axis = next(("xyz".index(each[-1]) for each in traced.instruction.modifiers if "::" in each), None)
    items = target.items[:3] if isinstance(target, Vector) else (target,)
    found: dict[int, Source] = {}
    for index, item in enumerate(items):
        slot = slots.get(item.name, SINK_SLOT) if isinstance(item, Register) else SINK_SLOT
        if slot == SINK_SLOT:
            continue
        place = index if axis is None else axis
        work = Input("work", 4 * request_of(words) + place, 4)
        run.words_read[work] = None
        found[slot] = run.table.leaf(Leaf(work, 0, traced.recording.decoder.type_of(slot).raw))
        if mask:
            values = np.array(r[slot], copy=True)
            values[indices(mask)] = run.inputs.memory.get(work, 0)
            r[slot] = values
    if mask:
        traced.recording.forget_taint(warp, list(found))
    return found


def _counts_up(traced: Traced) -> bool:
    """Does an atomic operation add a number above zero, which the text gives?"""
    added = traced.instruction.operands[-1]
    return "add" in traced.instruction.modifiers and isinstance(added, Immediate) and added.value > 0


def _held_by(warp: Warp, word: Input) -> tuple[str, int] | None:
    """The buffer that a word of global memory is in, and where."""
    region = warp.cta.cluster.memory.find(word.place)
    if region is None or region.space != "global" or word.place >= region.base + region.size_bytes:
        return None
    return region.name, word.place - region.base
