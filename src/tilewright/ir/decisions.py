"""What the synthesiser decided about a program, as values and as an IR attribute.

`synth` writes them on the `tile.program` op (attribute `decisions`), `lower` reads them there and applies them; a
person reads them in the report. Every field is an integer, a string, a tuple, or one of these classes, so that the
conversion to attributes and back is one short function. Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, StringAttr
from xdsl.ir import Attribute

from tilewright.ir.ac.split import sum_parts
from tilewright.ir.cascade import CascadeDecisions, Line, Lookup, SlotDecision, SumPlace, WalkRange
from tilewright.ir.copy_decisions import AsyncPlan, MapDecision, StoreDecision, spill_bytes
from tilewright.ir.exchange import ExchangePlan
from tilewright.ir.group_rows import GroupDecision
from tilewright.ir.rows import RowDecision
from tilewright.ir.split_sum import SplitSum, TeamSum
from tilewright.ir.tile_stream import TileStream
from tilewright.ir.transpose import TRANSPOSE_CLASSES, TransposeDecision

ROWS_BYTES = 8192
"""Shared memory of a warpgroup whose warps store along rows: 16 rows of 128 bytes for each of four warps."""
DEFERRED_ARRIVALS = "deferred arrivals"
"""How copies by threads complete: each thread's arrival on the slot's full barrier waits for its own copies."""
RUN_BYTES = 16
"""What one thread copies at once into a workspace: a vector access of 128 bits. Rows there are multiples of it."""


@dataclass(frozen=True, slots=True)
class OperandDecision:
    """One side of the dot, as the tensor core will read it.

    side: "left" or "right" in the program. buffer: the parameter it is copied from, or the workspace it is first
    materialized in. major: "K" if the contracted axis is contiguous, else "MN". outer_shift: elements added to its
    outer coordinate. piece_bytes: 0 if the copy engine brings it, by the map; else threads copy it in pieces of so many
    bytes (`ir.ac.async_copy`), and the map only says where it lies and which boxes are copied. read_once: 1 if no byte
    is expected to be read a second time, so that the L2 cache need not keep any.
    """

    side: str
    buffer: str
    materialized: int
    major: str
    map: MapDecision
    outer_shift: int
    piece_bytes: int = 0
    read_once: int = 0

    @property
    def outer_box(self) -> int:
        """Elements of the outer axis that a box brings."""
        return self.map.box[1 if self.major == "K" else 0]

    def loaded_extent(self, extent: int) -> int:
        """Elements of the outer axis that boxes bring where `extent` are needed: MN-major boxes are one span wide."""
        return extent if self.major == "K" else -(-extent // self.map.box[0]) * self.map.box[0]


@dataclass(frozen=True, slots=True)
class PipelineDecisions:
    """A warp-specialized pipeline for a program whose dots share a loop.

    rows, columns, contracted: the program's axes in the accumulator's orientation; swapped: 1 if the accumulator holds
    the transposed product. async_plans: those of a, of b,
    then of every store by the copy engine, in the order of `stores`. rows_bytes: of each consumer, for plain stores
    along rows; 0 where there are none. programmatic: 1 if the kernel is launched while the one before it still runs,
    sets itself up, waits for it, and lets the next one do the same. filler_waits: 1 if the thread that fills slots
    alone does both, at each of its tiles, and the others know of it by their first slot. releases_first: 1 if a tile's
    epilogue may not be begun before its last slots are released, for a next tile. loads_ahead: parameters whose vectors
    the epilogue needs and that are loaded while the first products of a tile run. paired_loads: matrices that it reads
    two columns at a time. fill_kept: 1 if what is copied first fits the L2 cache, which is asked to keep it.
    batch: the axis of a batch of products, if any, whose tiles come matrix after matrix; maps of arrays that
    have it have it as their third dimension. schedule: of the loop over the contracted axis,
    with its task graph, as JSON; see `synth.schedule.loop_schedule`. turns: 1 if each of two consumers computes whole
    tiles, every second one, instead of a part of every tile. partials: of a product that is promoted slot
    by slot, slots of a turn, each with an accumulator of its own.
    release_distance:
    products that a consumer issues after a slot's own before it waits for that one and releases the slot; 0 if it waits
    for each.
    """

    rows: str
    columns: str
    contracted: str
    swapped: int
    tile_m: int
    tile_n: int
    tile_k: int
    a: OperandDecision
    b: OperandDecision
    stores: tuple[StoreDecision, ...]
    async_plans: tuple[AsyncPlan, ...]
    stages: int
    consumers: int
    staging_slots: int
    staging_slot_bytes: int
    rows_bytes: int
    producer_registers: int
    consumer_registers: int
    launch_registers: int
    cluster_m: int
    cluster_n: int
    raster_group: int
    ctas: int
    smem_bytes: int
    fill_ctas: int
    fill_threads: int
    reasons: tuple[str, ...]
    programmatic: int = 0
    filler_waits: int = 0
    releases_first: int = 1
    loads_ahead: tuple[str, ...] = ()
    batch: tuple[str, ...] = ()
    paired_loads: tuple[str, ...] = ()
    fill_kept: int = 0
    schedule: str = ""
    turns: int = 0
    partials: int = 1
    release_distance: int = 1

    @property
    def unit_rows(self) -> int:
        """Rows of a tile that one consumer computes: all, if consumers take tiles in turn."""
        return self.tile_m if self.turns else self.tile_m // self.consumers

    split: int = 1
    prefetch: int = 0
    prefetch_columns: int = 0
    turned_fill: tuple[TransposeDecision, ...] = ()
    """One, if the operand that is first copied is turned on the way."""
    promoted: int = 0
    """1 if each slot's product is promoted to a total, scaled or as it is."""
    spill_slots: int = 0
    """Registers of each of the consumers' threads that may wait in shared memory; see `lower.ptx.spill_slots`."""
    tile_order: str = "grouped"
    """Of `ir.tile.order`."""
    streamed: int = 0
    """Tiles, the first ones, that are cut along the contracted axis, so that other CTAs help; see `ir.ac.stream`."""
    head_slices: int = 0
    """Slices of a streamed tile that its helper takes."""
    teams: int = 1
    """Clusters that share the contracted axis of a tile, and add up through memory; see `ir.ac.team`."""
    step_m: int = 0
    """Rows from one tile to the next, of which it stores as many, where what tiles load overlaps; 0 for tile_m. Each of
    the tile's units has an equal part of them."""
    step_n: int = 0
    """The same of columns, of which each CTA that stores some of the tile's has an equal part."""
    ordered: int = 0
    """1 if consumers issue the products of a slot one after the other; see `ir.ac.issue_order`."""

    @property
    def row_step(self) -> int:
        """Rows from one tile to the next, and of a tile those that it stores."""
        return self.step_m or self.tile_m

    @property
    def column_step(self) -> int:
        """Columns from one tile to the next, and of a tile those that it stores."""
        return self.step_n or self.tile_n

    @property
    def unit_step(self) -> int:
        """Rows from one unit's of a tile to the next one's."""
        return self.row_step // self.tile_units

    @property
    def part_step(self) -> int:
        """Columns from one part of a tile to the next."""
        return self.column_step // self.sum_parts

    @property
    def box_steps(self) -> tuple[int, int]:
        """Elements of the outer axis from one box of A to the next, and of B: where units or parts overlap, a box is
        what one of them has."""
        return (
            self.unit_step if self.step_m and self.tile_units > 1 else self.a.outer_box,
            self.part_step if self.step_n and self.sum_parts > 1 else self.b.outer_box,
        )

    @property
    def helpers(self) -> int:
        """CTAs that own no streamed tile, where there are any of those."""
        return self.ctas - self.streamed if self.streamed else 0

    @property
    def stream(self) -> TileStream | None:
        """Which tiles are cut, if any are."""
        return TileStream(self.streamed, self.helpers, self.head_slices) if self.streamed else None

    @property
    def tile_units(self) -> int:
        """Consumers that have rows of one tile."""
        return 1 if self.turns else self.consumers

    @property
    def part_n(self) -> int:
        """Columns of a tile that one CTA stores."""
        return self.tile_n // self.sum_parts

    @property
    def shares(self) -> int:
        """CTAs that have slices of a tile."""
        return self.split * self.teams

    @property
    def sum_parts(self) -> int:
        """Parts of a tile's columns, each stored by one of the CTAs that share the tile."""
        return sum_parts(self.tile_n, self.split)

    @property
    def cluster_ctas(self) -> int:
        return self.cluster_m * self.cluster_n * self.split

    @property
    def split_sum(self) -> SplitSum:
        """How CTAs of a cluster take the sum of a tile."""
        return SplitSum(self.split, self.consumers, self.tile_m, self.tile_n, self.part_step)

    @property
    def team_sum(self) -> TeamSum:
        """How clusters take it."""
        return TeamSum(self.teams, self.split, self.consumers, self.unit_rows, self.part_n)

    @property
    def partial_bytes(self) -> int:
        """Shared memory for what a CTA gets of those it shares tiles with."""
        return self.split_sum.partial_bytes

    @property
    def spill_bytes(self) -> int:
        """Shared memory of the slots of all consumers' threads."""
        return spill_bytes(self.consumers, self.spill_slots)

    @property
    def announced_bytes(self) -> int:
        """Bytes that the copy engine brings into one slot, and that its full barrier is told to expect."""
        plans = [plan for plan in self.async_plans if plan.direction == "load"]
        return sum(plan.stage_bytes for plan in plans if plan.mechanism != DEFERRED_ARRIVALS)

    @property
    def copies_by_threads(self) -> bool:
        """Whether a warpgroup's threads copy an operand into the slots, of which no tensor map describes the array."""
        return any(operand.piece_bytes for operand in (self.a, self.b))

    def plan_of(self, store: StoreDecision) -> AsyncPlan:
        """The plan of a store by the copy engine. Raises KeyError for another store."""
        for plan in self.async_plans:
            if plan.direction == "store" and plan.buffer == store.parameter:
                return plan
        raise KeyError(store.parameter)


@dataclass(frozen=True, slots=True)
class ElementwiseDecisions:
    """A program without dot: `ctas` CTAs of `threads` threads share the points of the grid. transpose: one, if loads
    run along another axis than stores, so that warps turn tiles. rows: one, if points are folded along an axis. order:
    in which the nodes of `ir.expression_nodes` are emitted for a point, empty for all loads first. programmatic: 1 if
    the kernel is launched while the one before it still runs, waits for it, and then lets the next one begin. run:
    neighbouring points that a thread takes together, of rows that are filled to whole runs; kept: 1 if the launch after
    it reads what it stores in runs, and the L2 cache is to keep that."""

    ctas: int
    threads: int
    reasons: tuple[str, ...]
    transpose: tuple[TransposeDecision, ...] = ()
    order: tuple[int, ...] = ()
    rows: tuple[RowDecision, ...] = ()
    programmatic: int = 0
    run: int = 1
    kept: int = 0


Decisions = PipelineDecisions | ElementwiseDecisions | CascadeDecisions

_CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        MapDecision,
        OperandDecision,
        StoreDecision,
        AsyncPlan,
        GroupDecision,
        PipelineDecisions,
        ElementwiseDecisions,
        CascadeDecisions,
        WalkRange,
        SumPlace,
        Line,
        SlotDecision,
        Lookup,
        TileStream,
        RowDecision,
        *TRANSPOSE_CLASSES,
    )
}


def turned_arrays(decisions: Decisions) -> frozenset[str]:
    """The arrays that leave in boxes along the accumulator's rows."""
    stores = () if isinstance(decisions, ElementwiseDecisions) else decisions.stores
    return frozenset(each.parameter for each in stores if each.turned)


def to_attribute(value: Any) -> Attribute:
    """Decisions as an attribute: dictionaries keyed by field, with the class's name under `class`."""
    if isinstance(value, int):
        return IntAttr(value)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, tuple):
        return ArrayAttr([to_attribute(item) for item in cast("tuple[Any, ...]", value)])
    if is_dataclass(value) and type(value).__name__ in _CLASSES:
        entries: dict[str, Attribute] = {"class": StringAttr(type(value).__name__)}
        for item in fields(value):
            entries[item.name] = to_attribute(getattr(value, item.name))
        return DictionaryAttr(entries)
    raise TypeError(f"a decision cannot hold {value!r}")


# Each box of a tile is staged by one of a few plans.
@lru_cache(maxsize=64)
def exchange_attribute(plan: ExchangePlan) -> Attribute:
    """`to_attribute` of a plan; nothing in an attribute changes, so one does for all operations that follow it."""
    return to_attribute(plan)


def _from_attribute(attribute: Attribute) -> Any:
    match attribute:
        case IntAttr():
            return attribute.data
        case StringAttr():
            return attribute.data
        case ArrayAttr():
            return tuple(_from_attribute(item) for item in attribute)
        case DictionaryAttr():
            entries: Mapping[str, Attribute] = attribute.data
            values = {name: _from_attribute(entry) for name, entry in entries.items()}
            return _CLASSES[values.pop("class")](**values)
        case _:
            raise TypeError(f"{attribute} is no decision")


class _Same:
    """An attribute that is equal to itself alone: nothing in an attribute changes, and to compare all of it takes as
    long as to read it."""

    __slots__ = ("attribute",)

    def __init__(self, attribute: Attribute) -> None:
        self.attribute = attribute

    def __hash__(self) -> int:
        return id(self.attribute)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.attribute is self.attribute


# A compilation asks for the same few plans and decisions again and again.
@lru_cache(maxsize=64)
def _read(same: _Same) -> Any:
    return _from_attribute(same.attribute)


def decisions_of(attribute: Attribute) -> Decisions:
    """The decisions an attribute holds. Raises TypeError or KeyError if it holds none."""
    value = _read(_Same(attribute))
    if not isinstance(value, Decisions):
        raise TypeError(f"{attribute} holds no decisions")
    return value


def exchange_of(attribute: Attribute) -> ExchangePlan:
    """The plan that an attribute holds. Raises TypeError or KeyError if it holds none."""
    value = _read(_Same(attribute))
    if not isinstance(value, ExchangePlan):
        raise TypeError(f"{attribute} holds no plan of an exchange")
    return value


def transpose_of(attribute: Attribute) -> TransposeDecision:
    """The turning of tiles that an attribute holds. Raises TypeError or KeyError if it holds none."""
    value = _from_attribute(attribute)
    if not isinstance(value, TransposeDecision):
        raise TypeError(f"{attribute} holds no turning of tiles")
    return value


def rows_of(attribute: Attribute) -> RowDecision:
    """The sharing of rows that an attribute holds. Raises TypeError or KeyError if it holds none."""
    value = _from_attribute(attribute)
    if not isinstance(value, RowDecision):
        raise TypeError(f"{attribute} holds no sharing of rows")
    return value


def to_json(value: Any) -> Any:
    """Decisions as plain JSON values."""
    if is_dataclass(value):
        return {item.name: to_json(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple):
        return [to_json(item) for item in cast("tuple[Any, ...]", value)]
    return value
