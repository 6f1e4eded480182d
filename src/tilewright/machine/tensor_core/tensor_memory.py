"""What is a CTA's tensor memory, and who holds which of its columns?

128 lanes of 512 columns of 32 bits; an address holds the lane in its upper and the column in its lower half. Columns
are allocated in blocks of a power of two. With `.cta_group::2` both CTAs of a pair allocate as one, and get the same
columns. The block chosen is the lowest free one, aligned to its size, which the ISA leaves open. Source: PTX ISA,
Tensor Memory; Tensor Memory Allocation.

Not handled: blocks that other CTAs on the same multiprocessor hold. Checked by:
tests/machine/tensor_core/test_tcgen05.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.machine.core.event import TensorBlock
from tilewright.machine.core.fault import Awaited, MachineFault
from tilewright.machine.core.memory import POISON
from tilewright.machine.core.state import Block, Cta, Strand, Warp

LANES = 128
COLUMNS = 512
LEAST_COLUMNS = 32
_SOURCE = "PTX ISA, Tensor Memory Allocation and Management Instructions"


class TensorMemory:
    """One CTA's tensor memory.

    words: its cells [lane, column], made on first use; allocations: columns of each live block by its first column;
    places: where each was allocated;
    group: the one `.cta_group` used so far (0: none yet); request: the alloc.cta_group::2 that waits for the peer;
    granted: the column that the peer's half of an allocation found.
    """

    __slots__ = ("_words", "allocations", "granted", "group", "last_columns", "permit", "places", "request", "waiters")

    def __init__(self) -> None:
        self._words: npt.NDArray[np.uint32] | None = None
        self.allocations: dict[int, int] = {}
        self.places: dict[int, Span] = {}
        self.group = 0
        self.last_columns = COLUMNS
        self.permit = True
        self.request: tuple[Warp, Strand, int] | None = None
        self.granted: int | None = None
        self.waiters: list[tuple[Warp, Strand]] = []

    @property
    def words(self) -> npt.NDArray[np.uint32]:
        if self._words is None:
            self._words = np.full(LANES * COLUMNS * 4, POISON, np.uint8).view(np.uint32).reshape(LANES, COLUMNS)
        return self._words

    def holds(self, begin: int, end: int) -> bool:
        """Are columns [begin, end) all allocated? Neighbouring blocks count as one."""
        while begin < end:
            for column, columns in self.allocations.items():
                if column <= begin < column + columns:
                    begin = column + columns
                    break
            else:
                return False
        return True

    def held(self) -> str:
        """The columns of its live blocks, as text."""
        return ", ".join(f"[{each}, {each + self.allocations[each]})" for each in sorted(self.allocations)) or "none"

    def fits(self, column: int, columns: int) -> bool:
        """Is the block [column, column + columns) free?"""
        return all(column + columns <= begin or begin + count <= column for begin, count in self.allocations.items())


def memory_of(cta: Cta) -> TensorMemory:
    """The tensor memory of a CTA."""
    if cta.tensor_memory is None:
        cta.tensor_memory = TensorMemory()
    return cta.tensor_memory


def group_of(cta: Cta, cta_group: int, opcode: str, span: Span) -> tuple[Cta, ...]:
    """The CTAs that an instruction of `.cta_group` acts on, the one of even rank first. Raises MachineFault."""
    memory = memory_of(cta)
    if memory.group not in (0, cta_group):
        raise MachineFault(
            "TC210", "cta-groups-mixed", f"{opcode} after an instruction of cta_group::{memory.group}", span,
            "PTX ISA, tcgen05: CTA pair",
        )  # fmt: skip
    memory.group = cta_group
    if cta_group == 1:
        return (cta,)
    ctas = cta.cluster.ctas
    if cta.rank ^ 1 >= len(ctas):
        raise MachineFault(
            "TC211", "no-cta-pair",
            f"{opcode} in CTA rank {cta.rank} of a cluster of {len(ctas)}: no CTA has rank {cta.rank ^ 1}", span,
            "PTX ISA, tcgen05: CTA pair",
        )  # fmt: skip
    return ctas[cta.rank & ~1], ctas[cta.rank | 1]


def split(address: int) -> tuple[int, int]:
    """Lane and column of an address in tensor memory."""
    return address >> 16, address & 0xFFFF


def require(cta: Cta, blocks: tuple[TensorBlock, ...], opcode: str, span: Span) -> None:
    """Raise MachineFault where a block of this CTA leaves tensor memory or what is allocated."""
    memory = memory_of(cta)
    for block in blocks:
        if block.lane_begin < 0 or block.lane_end > LANES:
            raise MachineFault(
                "TC207", "tensor-memory-lanes",
                f"{opcode} touches lanes {block.lane_begin} to {block.lane_end - 1} of {LANES}", span,
                "PTX ISA, Tensor Memory Addressing",
            )  # fmt: skip
        if block.cta == cta.linear and not memory.holds(block.column_begin, block.column_end):
            raise MachineFault(
                "TC206", "unallocated-tensor-memory",
                f"{opcode} touches columns [{block.column_begin}, {block.column_end}) of CTA {cta.linear}, which holds "
                f"{memory.held()}", span, _SOURCE,
            )  # fmt: skip


def legal_columns(columns: int, opcode: str, span: Span) -> None:
    """Raise MachineFault for a number of columns that no allocation has."""
    if not LEAST_COLUMNS <= columns <= COLUMNS or columns & (columns - 1):
        raise MachineFault(
            "TC201", "tensor-memory-columns",
            f"{opcode} of {columns} columns: a power of two from {LEAST_COLUMNS} to {COLUMNS} is needed", span, _SOURCE,
        )  # fmt: skip


def allocate(warp: Warp, columns: int, cta_group: int, opcode: str, span: Span) -> int | None:
    """The first column of a new block, or None if the strand must wait (its block is set). Raises MachineFault.

    Asked again when the strand is woken.
    """
    cta, strand = warp.cta, warp.current
    group = group_of(cta, cta_group, opcode, span)
    memory = memory_of(cta)
    if memory.granted is not None and memory.request is not None and memory.request[0] is warp:
        column, memory.granted, memory.request = memory.granted, None, None
        return column
    _may_allocate(memory, columns, opcode, span)
    if cta_group == 2 and not _peer_ready(warp, group, columns, span):
        memory.request = (warp, strand, columns)
        strand.block = Block(
            lambda: f"tcgen05.alloc.cta_group::2 of {columns} columns waits for CTA rank {cta.rank ^ 1} to allocate",
            span,
            Awaited("tensor memory", cta.linear),
        )
        return None
    memories = [memory_of(each) for each in group]
    column = next(
        (at for at in range(0, COLUMNS, columns) if all(each.fits(at, columns) for each in memories)), None
    )  # fmt: skip
    if column is None:
        strand.block = Block(
            lambda: f"tcgen05.alloc waits for {columns} free columns; the CTA holds {memory.held()}",
            span,
        )
        for each in memories:
            each.waiters.append((warp, strand))
        return None
    for each in memories:
        each.allocations[column] = columns
        each.places[column] = span
        each.last_columns = columns
    if cta_group == 2:
        peer = memory_of(cta.cluster.ctas[cta.rank ^ 1])
        assert peer.request is not None, "the peer's request was seen"
        peer.granted = column
        cta.cluster.wake([peer.request[:2]])
    return column


def _may_allocate(memory: TensorMemory, columns: int, opcode: str, span: Span) -> None:
    legal_columns(columns, opcode, span)
    if not memory.permit:
        raise MachineFault(
            "TC203",
            "allocate-after-relinquish",
            f"{opcode} after the CTA gave up its permit to allocate",
            span,
            _SOURCE,
        )
    if columns > memory.last_columns:
        raise MachineFault(
            "TC202", "allocation-grows",
            f"{opcode} of {columns} columns after one of {memory.last_columns}: the number must not increase", span,
            _SOURCE,
        )  # fmt: skip


def _peer_ready(warp: Warp, group: tuple[Cta, ...], columns: int, span: Span) -> bool:
    peer = group[1] if group[0] is warp.cta else group[0]
    request = memory_of(peer).request
    if request is None or memory_of(peer).granted is not None:
        return False
    if request[2] != columns:
        raise MachineFault(
            "TC212", "pair-disagrees",
            f"CTA rank {warp.cta.rank} allocates {columns} columns, its peer {request[2]}",
            span, _SOURCE,
        )  # fmt: skip
    return True


def deallocate(warp: Warp, address: int, columns: int, cta_group: int, opcode: str, span: Span) -> int:
    """Free a block of this CTA and say its first column. Raises MachineFault."""
    cta = warp.cta
    group_of(cta, cta_group, opcode, span)
    memory = memory_of(cta)
    legal_columns(columns, opcode, span)
    lane, column = split(address)
    if lane or memory.allocations.get(column) != columns:
        raise MachineFault(
            "TC204", "deallocate-unallocated",
            f"{opcode} of {columns} columns at {address:#x}; CTA {cta.linear} holds columns {memory.held()}", span,
            _SOURCE,
        )  # fmt: skip
    del memory.allocations[column]
    cta.cluster.wake(memory.waiters)
    return column


def check_exit(cta: Cta, span: Span) -> None:
    """Raise MachineFault where a CTA that has exited still holds columns."""
    memory = cta.tensor_memory
    if memory is not None and memory.allocations:
        raise MachineFault(
            "TC205", "tensor-memory-leak", f"CTA {cta.linear} exits and holds columns {memory.held()}", span, _SOURCE,
            memory.places[min(memory.allocations)],
        )  # fmt: skip


def blocks_of(cta: Cta, lanes: npt.NDArray[Any], column: int, columns: int) -> tuple[TensorBlock, ...]:
    """Columns [column, column + columns) of some lanes (ascending), as rectangles."""
    cuts = np.flatnonzero(np.diff(lanes) != 1) + 1
    return tuple(
        TensorBlock(cta.linear, int(run[0]), int(run[-1]) + 1, column, column + columns)
        for run in np.split(lanes, cuts)
    )
