"""What do the operands of asynchronous copies name? Shared places, barriers, tensors, destinations, lane by lane.

A shared address is 32 bits, or generic within the window. A tensor map is found by its generic address: among the
parameters, or in constant or global memory, where a kernel may have written it. With `.cta_group::2` the barrier may
lie in either CTA of a pair, and each destination's signal goes to the CTA of its own pair that has the barrier's parity
(PTX ISA 9.7.9.27.1.2). Checked by: tests/machine/copy/test_copies.py, test_bulk_forms.py.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilewright.base.plan import TensorMap
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Instruction, Operand, TensorAddress
from tilewright.machine.barrier import signals
from tilewright.machine.copy.copies import Destination
from tilewright.machine.copy.tensor_map_bytes import (
    MapFields,
    alignment_bytes,
    decode,
    encode_unknown,
    size_bytes,
    tensor_map_of,
)
from tilewright.machine.core.decoder import WORD32, Decoder, unsupported
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.memory import CONST_WINDOW, OFFSET_MASK, RANK_SHIFT, SHARED_WINDOW, Region
from tilewright.machine.core.state import Cta, Warp

_MAPS_KEPT = 64
BULK_BYTES = 16
"""Granularity of a bulk copy's size and addresses (PTX ISA 9.7.9.25.4.1)."""


def shared_place(warp: Warp, address: int, instruction: Instruction, *, own: bool) -> tuple[Cta, int]:
    """The CTA and offset of a shared address. own: it must be the executing CTA's. Raises MachineFault."""
    if address >= SHARED_WINDOW:
        address -= SHARED_WINDOW
    rank, offset = address >> RANK_SHIFT, address & OFFSET_MASK
    cluster = warp.cta.cluster
    if own and rank == 0:
        rank = warp.cta.rank
    if not 0 <= rank < len(cluster.ctas) or (own and rank != warp.cta.rank):
        raise MachineFault(
            "MF001", "foreign-shared-memory", f"shared address {address:#x} is not the CTA's own", instruction.span
        )
    return cluster.ctas[rank], offset


def global_place(warp: Warp, address: int, size: int, instruction: Instruction) -> tuple[Region, int]:
    """The region and offset of `size` bytes of global memory. Raises MachineFault where they are not in one buffer."""
    where = warp.cta.cluster.memory.find(address)
    offset = address - where.base if where is not None else 0
    if where is None or offset + size > where.size_bytes:
        raise MachineFault(
            "MF001", "out-of-bounds", f"{size} bytes at {address:#x} are outside "
            f"{'every buffer' if where is None else where.name}", instruction.span,
        )  # fmt: skip
    return where, offset


class At:
    """An address operand, read lane by lane."""

    def __init__(self, decoder: Decoder, instruction: Instruction, operand: Operand) -> None:
        self.slot, self.offset = decoder.address(instruction, operand)

    def read(self, warp: Warp, lane: int) -> int:
        return warp.r[self.slot].item(lane) + self.offset


def barrier_place(
    warp: Warp, address: int, to: int, destination: Cta, pair: bool, instruction: Instruction
) -> tuple[Cta, int]:
    """The CTA and offset of a copy's mbarrier. to: the destination's address; pair: the barrier may lie in either CTA
    of the destination's pair.

    An address without rank bits is CTA 0's, unless the destination, too, is named without them and is the own CTA.
    Raises MachineFault TX202 where the barrier is elsewhere.
    """
    narrow = not (address | to) & 0xFFFF_FFFF & ~OFFSET_MASK
    if narrow and destination is warp.cta and not pair:
        address |= warp.rank_base
    cta, offset = signals.owner(warp.cta, address, instruction.span, cluster=True)
    if cta.rank != destination.rank and not (pair and cta.rank ^ 1 == destination.rank):
        raise MachineFault(
            "TX202", "barrier-elsewhere",
            f"the copy writes CTA rank {destination.rank}, its mbarrier is in CTA rank {cta.rank}", instruction.span,
            "PTX ISA, cp.async.bulk: the mbarrier is in the same CTA as the destination",
        )  # fmt: skip
    return cta, offset


def destinations(
    warp: Warp, own: Cta, mask: int | None, told: tuple[Cta, int], pair: bool, instruction: Instruction
) -> list[Destination]:
    """Who is written and who is told. mask: of `.multicast::cluster`, by rank; told: the barrier's CTA and offset."""
    barrier_cta, barrier = told
    ctas = warp.cta.cluster.ctas
    if mask is None:
        return [Destination(own, barrier_cta, barrier)]
    if not mask or mask >> len(ctas):
        raise MachineFault(
            "CL202", "multicast-mask", f"multicast mask {mask:#x} in a cluster of {len(ctas)} CTAs", instruction.span,
            "PTX ISA, cp.async.bulk: ctaMask",
        )  # fmt: skip
    chosen = [cta for cta in ctas if mask >> cta.rank & 1]
    if not pair:
        return [Destination(cta, cta, barrier) for cta in chosen]
    parity = barrier_cta.rank & 1
    return [Destination(cta, ctas[cta.rank & ~1 | parity], barrier) for cta in chosen]


@dataclass(slots=True, eq=False)
class TensorPlace:
    """A tensor operand's value in one lane. tensor_map, buffer: None where the map is unknown; in_memory: the map's
    address, if it lies in global memory. Never changed: see `event.value`."""

    fields: MapFields
    tensor_map: TensorMap | None
    buffer: Region | None
    coordinates: tuple[int, ...]
    in_memory: int | None


class Tensor:
    """A `[tensorMap, {c0, c1}]` operand. coordinates: how many the instruction takes; rank: the map's."""

    def __init__(
        self, decoder: Decoder, instruction: Instruction, operand: Operand, rank: int, coordinates: int
    ) -> None:
        if not isinstance(operand, TensorAddress) or len(operand.coordinates) != coordinates:
            raise unsupported(instruction, f"it needs a tensor map and {coordinates} coordinates")
        self.rank = rank
        self.instruction = instruction
        self.address = At(decoder, instruction, operand.base)
        self.coordinates = tuple(decoder.source(instruction, each, WORD32) for each in operand.coordinates)
        self._known: dict[bytes | None, tuple[MapFields, TensorMap, Region]] = {}
        self._found: dict[int, npt.NDArray[np.uint8]] = {}

    def read(self, warp: Warp, lane: int) -> TensorPlace:
        """Raises MachineFault where no map of the right rank stands at the address."""
        address = self.address.read(warp, lane)
        content = self._content(warp, address)
        r = warp.r
        at = tuple([r[slot].view(np.int32).item(lane) for slot in self.coordinates])
        in_memory = address if address < CONST_WINDOW else None
        known = self._known.get(content)
        if known is not None:  # the same bytes mean the same map, of the same buffer: a launch places them once
            return TensorPlace(*known, at, in_memory)
        fields = _decoded(content, address, self.instruction)
        if fields.unknown:
            return TensorPlace(fields, None, None, at, in_memory)
        if fields.rank != self.rank:
            raise MachineFault(
                "TM202", "tensor-map-rank",
                f"{self.instruction.opcode} takes a tensor map of rank {self.rank}, this one has rank {fields.rank}",
                self.instruction.span,
            )  # fmt: skip
        buffer = warp.cta.cluster.memory.find(fields.address)
        if buffer is None or fields.address >= buffer.base + buffer.size_bytes:
            raise MachineFault(
                "TM203", "tensor-map-address",
                f"the tensor map's global address {fields.address:#x} belongs to no buffer", self.instruction.span,
            )  # fmt: skip
        try:
            tensor_map = tensor_map_of(fields, buffer.base)
        except EngineFault as fault:
            raise MachineFault(fault.code, fault.name, fault.message, self.instruction.span) from fault
        if len(self._known) < _MAPS_KEPT:
            self._known[content] = fields, tensor_map, buffer
        return TensorPlace(fields, tensor_map, buffer, at, in_memory)

    def _content(self, warp: Warp, address: int) -> bytes | None:
        """What stands at the map's address: read each time, since it may have been written, but found once."""
        memory = warp.cta.cluster.memory
        found = None if memory.virtual_maps else self._found.get(address)
        if found is None:
            content = _map_at(warp, address, self.instruction)
            where = memory.find(address)
            kept = where is not None and not where.virtual and not memory.is_left_to_host(address)
            if content is not None and where is not None and kept and len(self._found) < _MAPS_KEPT:
                self._found[address] = where.data[address - where.base :][: len(content)]
            return content
        return found.tobytes()


def _map_at(warp: Warp, address: int, instruction: Instruction) -> bytes | None:
    """What stands at a tensor map's generic address, None where nothing can. Raises MachineFault for a crooked one."""
    alignment = alignment_bytes(warp.cta.cluster.target)
    if address % alignment:
        raise MachineFault(
            "TM201", "no-tensor-map",
            f"a tensor map's address is a multiple of {alignment}, not {address:#x}: no tensor map stands there",
            instruction.span,
        )  # fmt: skip
    return map_bytes(warp, address)


def _decoded(content: bytes | None, address: int, instruction: Instruction) -> MapFields:
    """The tensor map that stands at an address. Raises MachineFault where there is none."""
    fields = None if content is None else decode(content)
    if fields is None:
        raise MachineFault("TM201", "no-tensor-map", f"no tensor map stands at {address:#x}", instruction.span)
    return fields


def map_bytes(warp: Warp, address: int) -> bytes | None:
    """The bytes of a map at a generic address outside shared memory; None where they are not in one region."""
    cluster = warp.cta.cluster
    memory, size = cluster.memory, size_bytes(cluster.target)
    kept = memory.virtual_maps.get(address)
    if kept is not None:
        return kept
    where = memory.find(address) if address < SHARED_WINDOW else None
    if where is None or address + size > where.base + where.size_bytes:
        return None
    if where.virtual:
        return encode_unknown(None, address, cluster.target)
    begin = address - where.base
    content = where.data[begin : begin + size].tobytes()
    if memory.is_left_to_host(address) and not any(content):
        return encode_unknown(None, address, cluster.target)
    return content


def require_cluster(warp: Warp, instruction: Instruction) -> None:
    """Raises MachineFault where an engine is to write shared memory from shared memory or registers in a launch that
    names no cluster, which not every GPU runs."""
    cluster = warp.cta.cluster
    named = cluster.launch.cluster != (1, 1, 1) or "reqnctapercluster" in cluster.program.decoder.kernel.directives
    if not named and not cluster.target.supports("shared_engine_without_cluster"):
        raise MachineFault(
            "CL203", "no-cluster",
            f"{instruction.opcode.split('.mbarrier')[0]} is an illegal instruction in a launch without a cluster",
            instruction.span, "measured: python -m bench.probes.cluster_forms",
        )  # fmt: skip


def is_empty(size: int, warp: Warp, instruction: Instruction, *, measured: bool) -> bool:
    """Whether a plain bulk copy does nothing, since it is of 0 bytes. measured: it is of a form of which a probe found
    that. Raises TilewrightError for 0 bytes of any other, of which no document says anything."""
    if size:
        return False
    if measured and warp.cta.cluster.target.supports("empty_bulk_copy"):
        return True
    raise unsupported(instruction, "what it does with 0 bytes in this form is neither documented nor measured")


def check_bulk(size: int, instruction: Instruction, *addresses: int) -> None:
    """Raises MachineFault where a plain bulk copy's size or one of its addresses is no multiple of 16 bytes."""
    if size % BULK_BYTES:
        raise MachineFault(
            "AL203", "bulk-size", f"{size} bytes are no multiple of {BULK_BYTES}", instruction.span,
            "PTX ISA, cp.async.bulk: size",
        )  # fmt: skip
    for address in addresses:
        if address % BULK_BYTES:
            raise MachineFault(
                "AL201", "copy-alignment",
                f"address {address:#x} of a bulk copy is not {BULK_BYTES}-byte aligned", instruction.span,
                "PTX ISA, cp.async.bulk: alignment",
            )  # fmt: skip
