"""What every op's lowering shares: the text, where values are kept, the kernel's fixed registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Block, Operation, SSAValue

from tilewright.base.size import Size
from tilewright.ir.ac import operations as ac
from tilewright.lower.distribution.group_walk import GroupWalk
from tilewright.lower.distribution.stream_walk import TurnItems
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.places import (
    AccumulatorPlace,
    GlobalPlace,
    IndexPlace,
    Place,
    Places,
    ScalesBase,
    ScalesPlace,
    SlotPlace,
)
from tilewright.lower.ptx.run_time import NONE_PASSED, PassedSizes
from tilewright.targets import Target

WARP_ROWS = 16
"""Of a unit's fragment, that a warp has of each 64 (PTX ISA, wgmma: Register Fragments)."""


@dataclass(frozen=True, slots=True)
class TensorRegisters:
    """Of a role that has to do with tensor memory. base: address of the CTA's columns; part: of the unit's columns, or
    of the first slot's; own: the same in the lanes of the thread's warp; slots: of the first slot's in the lanes of the
    unit's rows; of a unit that issues and waits by itself besides barrier: address of its barrier; parity: for which it
    is waited next; issues: predicate of its first warp."""

    base: str
    part: str
    own: str = ""
    slots: str = ""
    barrier: str = ""
    parity: str = ""
    issues: str = ""


@dataclass(frozen=True, slots=True)
class WaitingColumns:
    """Numbers of a tile's columns on their way to a warp's part of shared memory: an address, and how far behind it
    they go; this thread's lane, how many columns, and the registers that this lane loads."""

    own: str
    offset: int
    lane: str
    columns: int
    numbers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeftTile:
    """A tile whose body a unit without rows leaves: labels of what it does instead, and of where it goes on behind."""

    op: ac.UnitPassOp
    begin: str
    following: str


Emitter = Callable[["Lowering", Any], None]
"""Emits one operation of some class."""
Emitters = Mapping[type[Operation], Emitter]


@dataclass(slots=True)
class Lowering:
    """What every op's lowering shares: the text, where values are, and the kernel's fixed registers."""

    text: Text
    places: Places
    symbols: dict[str, Size]
    """Numbers, but of those that only the launch knows."""
    cluster_size: int
    launch_registers: int
    facts: Target
    passed: PassedSizes = NONE_PASSED
    emitters: Emitters = field(default_factory=dict[type[Operation], Emitter])
    trips: dict[str, str] = field(default_factory=dict[str, str])
    """Of loops over a symbol that this tile has a part of: the register that says how many."""
    has_rows: str = ""
    """Of a role whose units may have none in a tile: the predicate that says whether this one has."""
    left_tiles: dict[Block, LeftTile] = field(default_factory=dict[Block, LeftTile])
    """Of bodies of loops over tiles that a unit may leave."""
    shared_base: str = ""
    thread: str = ""
    warpgroup_thread: str = ""
    warpgroup: str = ""
    tensor: TensorRegisters | None = None
    is_first_thread: str = ""
    warp_rows: int = WARP_ROWS
    """How many rows after those of a warp the next one's begin, in the role that is lowered."""
    leads: bool = False
    """Whether that role is of the first CTA of a pair alone."""
    items: dict[Operation, TurnItems] = field(default_factory=dict[Operation, "TurnItems"])
    """Of roles whose units take parts and whole tiles in turn."""
    granted: dict[Operation, tuple[str, str]] = field(default_factory=dict[Operation, "tuple[str, str]"])
    """Of loops over tiles that the hardware hands out: the next tile, and whether there is one."""
    walks: dict[Block, GroupWalk] = field(default_factory=dict[Block, GroupWalk])
    spare: list[AccumulatorPlace | ScalesPlace] = field(default_factory=list["AccumulatorPlace | ScalesPlace"])
    """Registers of partial products and scales that were promoted, for those that come."""
    scales_bases: dict[object, tuple[Block, ScalesBase]] = field(
        default_factory=dict["object", "tuple[Block, ScalesBase]"]
    )
    """By what is loaded, and in which block that was computed."""
    read_registers: dict[SSAValue, Sequence[str]] = field(default_factory=dict[SSAValue, "Sequence[str]"])
    """A's registers that products in flight read, by what the products call their reading."""
    loaded_ahead: dict[Operation, str] = field(default_factory=dict[Operation, str])
    """Of loads of indices that an iteration has from the one before: the register."""
    waiting: dict[SSAValue, WaitingColumns] = field(default_factory=dict[SSAValue, WaitingColumns])
    """Of fragments that nobody has used yet."""
    operand_registers: dict[tuple[int, int], list[str]] = field(default_factory=dict[tuple[int, int], "list[str]"])
    """A's registers of the products that take it from there, by how many there are."""

    def emit_block(self, block: Block) -> None:
        """Every operation of a region, in order."""
        for op in block.ops:
            emitter = self.emitters.get(type(op))
            if emitter is None:
                raise AssertionError(f"no lowering for {op.name}")
            emitter(self, op)

    def place(self, value: SSAValue) -> Place:
        return self.places[value]

    def index(self, value: SSAValue) -> str:
        place = self.places[value]
        assert isinstance(place, IndexPlace)
        return place.register

    def array(self, value: SSAValue) -> GlobalPlace:
        """An array, or a part of one, with the strides that the launch passes in registers."""
        place = self.places[value]
        assert isinstance(place, GlobalPlace)
        return replace(place, apart=tuple(self.passed.strides(self.text, place.apart)))

    def fresh_accumulator(self, m: int, n: int) -> AccumulatorPlace:
        """Registers for an accumulator that a wgmma overwrites: spare ones of the same shape, if there are any."""
        for place in self.spare:
            if isinstance(place, AccumulatorPlace) and (64 * len(place.blocks), place.n) == (m, n):
                self.spare.remove(place)
                return place
        blocks = tuple(tuple(self.text.register("f32") for _ in range(n // 2)) for _ in range(m // 64))
        return AccumulatorPlace(blocks, n)

    def fresh_scales(self, keys: Sequence[tuple[int, int]], *, by_row: bool, run: int) -> ScalesPlace:
        """Registers for scales at these places: spare ones of the same places, if there are any."""
        for place in self.spare:
            if isinstance(place, ScalesPlace) and (place.by_row, place.run, list(place.values)) == (by_row, run, keys):
                self.spare.remove(place)
                return place
        return ScalesPlace({key: self.text.register("f32") for key in keys}, by_row, run)


def placed(emit: Callable[[Lowering, Any], Place]) -> Emitter:
    """Emits an operation whose only result is at the place that `emit` gives."""

    def emitter(lowering: Lowering, op: Operation) -> None:
        lowering.places[op.results[0]] = emit(lowering, op)

    return emitter


def emitted(opcode: str) -> Emitter:
    """Emits one instruction without operands."""
    return lambda lowering, op: lowering.text.emit(opcode)


def nothing(lowering: Lowering, op: Operation) -> None:
    """Of an operation for the proof alone, or read where its block is lowered."""


def integers(attribute: ArrayAttr[IntAttr]) -> tuple[int, ...]:
    """The numbers of an array attribute."""
    return tuple(item.data for item in attribute)


def slot_of(lowering: Lowering, value: SSAValue) -> SlotPlace:
    """The slot that a phase, transaction or reading token stands for."""
    place = lowering.place(value)
    assert isinstance(place, SlotPlace)
    return place
