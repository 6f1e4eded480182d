"""What does one role, seen from outside, do to the rings, to shared memory and to the cluster?

`walk` fills a summary while it walks a role; `rings` compares the summaries of all roles. Only facts seen at a
general iteration are recorded, so that each holds for every trip count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilewright.contract.typestate.footprint import Ranges
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import Ring, Role
from tilewright.contract.typestate.token import Index
from tilewright.ir import ac


@dataclass(slots=True)
class FillSite:
    """One place that fills slots: bytes announced, the ranges its copies write in each buffer's slot, those of them
    that threads write through the generic proxy, and the arrivals that it makes on the full barrier."""

    op: ac.ArriveExpectOp
    ring: str
    bytes: int
    ranges: dict[str, Ranges] = field(default_factory=dict[str, Ranges])
    by_threads: dict[str, Ranges] = field(default_factory=dict[str, Ranges])
    arrivals: int = 1


@dataclass(frozen=True, slots=True)
class ReadSite:
    """One place that reads slots: the ranges that all of the role's units read in a buffer's slot. unfenced: through
    the async proxy, with no proxy fence after the wait for the slot."""

    op: Operation
    ring: str
    buffer: str
    ranges: Ranges
    unfenced: bool = False


@dataclass(frozen=True, slots=True)
class StorePlace:
    """One place that stores a box of elements to global memory: its first coordinates and its extents, outermost
    first. loops: atoms of the loops around it. strides_bytes: how far apart the elements of each dimension lie.
    row_end: the row before which it stops, where it stops before the box's end. section: places of different ones
    store to different tiles."""

    op: Operation
    buffer: str
    origin: tuple[Index, ...]
    extents: tuple[int, ...]
    loops: tuple[str, ...]
    strides_bytes: tuple[int, ...] = ()
    row_end: Index | None = None
    section: str = ""


@dataclass(frozen=True, slots=True)
class GroupLoop:
    """Names of the indices of a loop over groups of rows, the rows of its tiles, and the most that an end can be."""

    row: str
    column: str
    group: str
    end: str
    tile_rows: int
    most_rows: int


@dataclass(slots=True)
class RoleSummary:
    """totals: events in the role's life, per unit, by the names that `UnitState.counts` uses. holds: for each ring and
    side, how many later slots have been waited for when one is signalled, at most (None: not a constant). staging,
    rows: buffers behind bulk stores and behind plain stores along rows. group_loops: by the name of the rows' index.
    tile_loops: names of the indices of each loop over tiles or parts of them.
    turns: where the role's units take tiles in turn, the barriers of turns and how many tiles; all of this is then of
    one unit that takes them all."""

    role: Role
    totals: dict[str, Polynomial] = field(default_factory=dict[str, Polynomial])
    holds: dict[tuple[str, str], int | None] = field(default_factory=dict[tuple[str, str], "int | None"])
    fills: dict[str, FillSite] = field(default_factory=dict[str, FillSite])
    reads: list[ReadSite] = field(default_factory=list[ReadSite])
    waits: dict[tuple[str, str], Operation] = field(default_factory=dict[tuple[str, str], Operation])
    releases: dict[str, dict[Operation, int]] = field(default_factory=dict[str, "dict[Operation, int]"])
    multicasts: list[tuple[ac.CopyIssueOp, str]] = field(default_factory=list[tuple[ac.CopyIssueOp, str]])
    stores: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    places: list[StorePlace] = field(default_factory=list[StorePlace])
    staging: dict[str, Operation] = field(default_factory=dict[str, Operation])
    rows: dict[str, Operation] = field(default_factory=dict[str, Operation])
    named_barriers: dict[int, dict[int, Operation]] = field(default_factory=dict[int, "dict[int, Operation]"])
    reads_global: dict[str, Operation] = field(default_factory=dict[str, Operation])
    writes_global: dict[str, Operation] = field(default_factory=dict[str, Operation])
    reductions: dict[str, ac.ClusterReduceOp] = field(default_factory=dict[str, ac.ClusterReduceOp])
    group_loops: dict[str, GroupLoop] = field(default_factory=dict[str, GroupLoop])
    turns: tuple[Ring, Polynomial] | None = None
    tile_loops: dict[Operation, tuple[str, ...]] = field(default_factory=dict[Operation, "tuple[str, ...]"])

    @property
    def takes_turns(self) -> bool:
        return self.turns is not None

    def total(self, event: str) -> Polynomial:
        return self.totals.get(event, Polynomial())
