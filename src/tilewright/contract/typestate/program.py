"""What does an `ac` kernel declare: rings, buffers, tensor memory, tensor maps and roles, as plain values?

`read_program` makes them of the kernel's operations. Checked by: tests/contract/typestate/test_typestate*.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.contract.typestate.polynomial import Polynomial, variable
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.tensor_memory import TensorMemoryOp
from tilewright.targets import Target

SWIZZLE_SPAN_BYTES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
"""Width of a swizzled row (PTX ISA 5.5.7). The pattern repeats every 8 spans' worth of 128-byte lines."""

SWIZZLE_PERIOD_BYTES = {"none": 128, "32B": 256, "64B": 512, "128B": 1024}
"""Alignment that a tensor copy's box needs in shared memory, so that its pattern begins at phase 0."""


@dataclass(frozen=True, slots=True)
class Ring:
    name: str
    stages: int
    full_arrivals: int
    empty_arrivals: int
    address: int
    op: ac.RingOp

    @property
    def bytes(self) -> int:
        """16 bytes per stage: one full and one empty barrier."""
        return 16 * self.stages


@dataclass(frozen=True, slots=True)
class Buffer:
    """`instances` times `slots` slots of `slot_bytes` bytes from `address`. ring: name of the guarding ring, or ""."""

    name: str
    address: int
    instances: int
    slots: int
    slot_bytes: int
    element: str
    swizzle: str
    ring: str
    op: ac.BufferOp

    @property
    def bytes(self) -> int:
        return self.instances * self.slots * self.slot_bytes


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """A CTA's block of tensor memory: columns, of which each unit has an equal part, or each slot of a ring; at
    `address` of shared memory the units' barriers, if there is no ring, then the word that the allocation writes. pair:
    whether the two CTAs of a pair have such blocks together; first_factor: the column at which factors'
    begin."""

    name: str
    address: int
    columns: int
    units: int
    part_columns: int
    ring: str
    slot_columns: int
    op: TensorMemoryOp
    units_issue: bool
    pair: bool = False
    first_factor: int = 0

    @property
    def bytes(self) -> int:
        return 8 * (len(self.barrier_addresses) + 1)

    @property
    def barrier_addresses(self) -> tuple[int, ...]:
        return tuple(self.address + 8 * unit for unit in range(self.units)) if self.units_issue else ()


@dataclass(frozen=True, slots=True)
class Map:
    """A tensor map. box: elements, innermost first; `box_bytes` is what one copy completes; `footprint_rows` rows of
    `row_bytes` bytes, `pitch_bytes` apart, are what it touches in shared memory. dims: extents of the tensor in
    elements, innermost first, of run-time axes the largest; strides_bytes: of all dimensions but the innermost."""

    name: str
    buffer: str
    box: tuple[int, ...]
    element: str
    element_bytes: int
    swizzle: str
    interleave: str
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    op: ac.TensorMapOp

    @property
    def box_bytes(self) -> int:
        return prod(self.box) * self.element_bytes

    @property
    def row_bytes(self) -> int:
        return self.box[0] * self.element_bytes

    @property
    def pitch_bytes(self) -> int:
        return max(self.row_bytes, SWIZZLE_SPAN_BYTES[self.swizzle])

    @property
    def footprint_rows(self) -> int:
        return prod(self.box[1:])


_Kind = TypeVar("_Kind", bound=Operation)


@dataclass(frozen=True, slots=True)
class Operations:
    """All operations in one, itself the first, in printed order, and by class. Many rules ask, for each of many
    operations; a walk for each would take most of a proof's time."""

    all: tuple[Operation, ...]
    by_class: Mapping[type[Operation], tuple[Operation, ...]]

    @classmethod
    def inside(cls, op: Operation) -> Operations:
        found: dict[type[Operation], list[Operation]] = {}
        every = tuple(op.walk())
        for inner in every:
            found.setdefault(type(inner), []).append(inner)
        return cls(every, {kind: tuple(each) for kind, each in found.items()})

    def of(self, *kinds: type[_Kind]) -> tuple[_Kind, ...]:
        """Those of these classes, in order."""
        present = [kind for kind in kinds if kind in self.by_class]
        if len(present) <= 1:
            return cast("tuple[_Kind, ...]", self.by_class[present[0]] if present else ())
        return cast("tuple[_Kind, ...]", tuple(op for op in self.all if type(op) in present))


@dataclass(frozen=True, slots=True)
class Role:
    """threads: what the role occupies; an elected thread occupies its whole warpgroup. warp_rows: how many rows after
    those of a warp the next one's begin. leader: whether only the first CTA of a pair has it."""

    name: str
    unit: str
    count: int
    first_thread: int
    threads: int
    registers: int
    op: ac.RoleOp
    operations: Operations
    warp_rows: int
    leader: bool = False


Declared = Ring | Buffer | TensorMemory | Map | ac.GlobalOp
"""What a value outside of roles stands for."""


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    symbols: Mapping[str, int]
    minima: Mapping[str, int]
    cluster_ctas: int
    block_threads: int
    dynamic_smem_bytes: int
    launch_registers: int
    rings: Mapping[str, Ring]
    buffers: Mapping[str, Buffer]
    maps: Mapping[str, Map]
    tensor_memory: TensorMemory | None
    roles: tuple[Role, ...]
    declared: Mapping[SSAValue, Declared]
    exit_sync: Operation | None
    op: ac.KernelOp
    operations: Operations
    facts: Target
    """Of the architecture that it is to run on."""

    def count_of(self, symbol: str) -> Polynomial:
        """How often a loop over a symbol that begins at 0 runs: of iterations that units have apart, each of its own
        and those that are left (`tile_ranges`)."""
        for op in self.operations.of(ac.UnitRangeOp):
            if op.symbol.data == symbol:
                return variable(op.own.data) + variable(op.rest.data)
        return variable(symbol)


def integers(attribute: ArrayAttr[IntAttr]) -> tuple[int, ...]:
    return tuple(item.data for item in attribute.data)


def reaches_peers(operations: Operations) -> bool:
    """Whether any operation writes to, or arrives on, another CTA of the cluster."""
    return (
        any(op.multicast.data > 1 for op in operations.of(ac.CopyIssueOp))
        or any(op.peers.data > 1 for op in operations.of(ac.ArriveOp))
        or bool(operations.of(ac.ClusterReduceOp))
        or any(is_set(op.pair) for op in operations.of(TensorMemoryOp))
    )


def type_of(value: SSAValue) -> Attribute:
    """The declared type, seen as any attribute: an edited program may declare another than its operation demands."""
    return value.type
