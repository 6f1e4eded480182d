"""What does the judge remember of tensor memory? Operations, and who touched which cells last.

A cell is one lane of one column. In the history, lanes are the fast dimension: cell (lane, column) has the address
128 * column + lane, so that an operation on all lanes of some columns is one range. Nothing here knows a rule.
Checked by: tests/contract/judge/test_tensor_memory.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import field
from functools import lru_cache
from typing import Literal

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.history.byte_ranges import joined
from tilewright.contract.history.shadow_memory import Completion, ShadowMemory
from tilewright.machine.core.event import Ranges, TensorBlock, TensorMemoryActor, WarpActor

LANES = 128
Kind = Literal["mma", "cp", "shift", "ld", "st"]


@dataclass(slots=True)
class TensorOperation:
    """One tcgen05 operation.

    thread: whose operations of this sort run in order (a warp's loads, its stores, or one thread's mma, cp and shift);
    done: when it is known to be complete; signalled: when that was ordered before other threads' operations as well
    (tcgen05.fence::before_thread_sync, which a commit implies). epoch: of its issue; unread: registers of a load that
    no instruction has read; consumed_epoch: when the last of them was read.
    """

    actor: TensorMemoryActor
    kind: Kind
    issuer: WarpActor
    issuer_track: int
    epoch: int
    thread: Hashable
    done: Completion
    signalled: Completion
    writes: tuple[TensorBlock, ...]
    span: Span
    unread: set[str] = field(default_factory=set[str])
    consumed_epoch: int = 0


@dataclass(slots=True)
class TensorState:
    """Tensor memory of a cluster's CTAs. threads: operations issued so far by each thread; operations: numbers of those
    not forgotten; groups: the cta_group values in use, and where; committed: operations of each thread that a commit
    covers; commits: how many each thread has made; pairs: by first column, the warps' tracks and epochs at which a pair
    of CTAs allocated columns together; address_spans: places of tcgen05.alloc, each of which writes an address to
    shared memory; signals: tracks of loads and stores that a tcgen05.fence::before_thread_sync ordered before
    synchronization."""

    memories: dict[int, ShadowMemory] = field(default_factory=dict[int, ShadowMemory])
    threads: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    committed: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    commits: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    operations: dict[int, TensorOperation] = field(default_factory=dict[int, TensorOperation])
    groups: dict[int, Span] = field(default_factory=dict[int, Span])
    pairs: dict[int, list[tuple[int, int]]] = field(default_factory=dict[int, "list[tuple[int, int]]"])
    address_spans: set[Span] = field(default_factory=set[Span])
    signals: set[int] = field(default_factory=set[int])

    def memory(self, cta: int) -> ShadowMemory:
        found = self.memories.get(cta)
        if found is None:
            found = self.memories[cta] = ShadowMemory()
        return found


def cells_by_cta(blocks: Iterable[TensorBlock]) -> list[tuple[int, Ranges]]:
    """Addresses of the cells of some blocks, by CTA."""
    found: dict[int, list[tuple[int, int]]] = {}
    for block in blocks:
        cells = _cells(block.lane_begin, block.lane_end, block.column_begin, block.column_end)
        found.setdefault(block.cta, []).extend(cells)
    return [(cta, joined(ranges) if len(ranges) > 1 else tuple(ranges)) for cta, ranges in found.items()]


@lru_cache(maxsize=4096)
def _cells(lane_begin: int, lane_end: int, column_begin: int, column_end: int) -> Ranges:
    if lane_end - lane_begin == LANES:
        return ((LANES * column_begin, LANES * column_end),)
    return tuple((LANES * column + lane_begin, LANES * column + lane_end) for column in range(column_begin, column_end))
