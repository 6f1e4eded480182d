"""What does one role, seen from outside, do to the rings, to shared memory and to the cluster?

`walk` fills a summary while it walks a role; `rings` compares the summaries of all roles. Only facts seen at a
general iteration are recorded, so that each holds for every trip count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilewright.base.size import Size
from tilewright.contract.typestate.places.footprint import Ranges
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import Ring, Role
from tilewright.contract.typestate.token import Index
from tilewright.ir.ac import operations as ac

WAIT = "wait:"
"""What the name of an event begins with that counts waits on a side of a ring."""


@dataclass(slots=True)
class FillSite:
    """One place that fills slots: bytes announced, the ranges its copies write in each buffer's slot (of tensor memory
    columns that products write), those of them that threads write through the generic proxy, and the arrivals that it
    makes on the full barrier. ctas: whose equal sites make a phase of it, each with its own bytes."""

    op: Operation
    ring: str
    bytes: int
    ranges: dict[str, Ranges] = field(default_factory=dict[str, Ranges])
    by_threads: dict[str, Ranges] = field(default_factory=dict[str, Ranges])
    arrivals: int = 1
    ctas: int = 1


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
class Counter:
    """The number of the general iteration of a loop over `symbol`, from 0 on; its first index is `begin`, its last one
    less than `count`."""

    name: str
    symbol: str
    begin: int
    count: Polynomial

    @property
    def trips(self) -> Polynomial:
        return self.count - self.begin


@dataclass(frozen=True, slots=True)
class RingEvent:
    """A wait of a unit, or what it signals to others, at the general iteration of the loops around it.

    kind: "wait", "fill" (whatever a full phase counts: arrivals and copies) or "release". number: how many of its kind
    and side the unit made before; None of what is not counted by itself. waited: how often the unit had waited, by ring
    and side, before it. handed_on: of a signal, rings and sides for which the unit then waits in the next iteration, if
    there is one, before the units behind it in an order of issue come as far (`steps.issue_order`).
    """

    kind: str
    ring: str
    side: str
    op: Operation
    position: Polynomial
    number: Polynomial | None
    waited: Mapping[tuple[str, str], Polynomial]
    counters: tuple[Counter, ...]
    handed_on: tuple[tuple[str, str], ...] = ()


def waited_also(
    waited: Mapping[tuple[str, str], Polynomial], sides: Sequence[tuple[str, str]]
) -> Mapping[tuple[str, str], Polynomial]:
    """How often a unit has waited that also waits once for each of these."""
    found = dict(waited)
    for side in sides:
        found[side] = found.get(side, Polynomial()) + 1
    return found


@dataclass(frozen=True, slots=True)
class LoopEvents:
    """A loop of a role: how often the unit had waited before it, by ring and side; how often it waits in each
    iteration. first, last: the range of its events among the role's."""

    counters: tuple[Counter, ...]
    waited: Mapping[tuple[str, str], Polynomial]
    moved: Mapping[tuple[str, str], Polynomial]
    first: int
    last: int


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
    strides_bytes: tuple[Size, ...] = ()
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
    most_rows: Size


@dataclass(slots=True)
class RoleSummary:
    """totals: events in the role's life, per unit, by the names that `UnitState.counts` uses. events: on rings, in the
    order of the program; loops: those around any. staging, rows: buffers behind bulk stores and behind plain stores
    along rows. group_loops: by the name of the rows' index. tile_loops: names of the indices of each loop over tiles or
    parts of them. trips: how many values the indices of other loops, and begins of ranges, take in this launch, by
    name. quotients: by name, the index that is divided, and by what.
    turns: where the role's units take tiles in turn, the barriers of turns and how many tiles; all of this is then of
    one unit that takes them all."""

    role: Role
    totals: dict[str, Polynomial] = field(default_factory=dict[str, Polynomial])
    events: list[RingEvent] = field(default_factory=list[RingEvent])
    loops: list[LoopEvents] = field(default_factory=list[LoopEvents])
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
    trips: dict[str, int] = field(default_factory=dict[str, int])
    quotients: dict[str, tuple[Index, int]] = field(default_factory=dict[str, "tuple[Index, int]"])

    @property
    def takes_turns(self) -> bool:
        return self.turns is not None

    def total(self, event: str) -> Polynomial:
        return self.totals.get(event, Polynomial())
