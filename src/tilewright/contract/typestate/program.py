"""What does an `ac` kernel declare: rings, buffers, tensor maps, roles, and in which order is it set up?

Reads one `ac.kernel` into plain values and checks the order of set-up: every ring's barriers initialised once, fenced,
synchronized before the first role; a cluster synchronized again after the last. Unknown operations are doubts, so they
end in the verdict unknown. Bodies of roles are read by `interpret`.

Not handled: rings initialised inside roles, work between roles. Checked by:
tests/contract/typestate/test_typestate*.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeVar, cast, get_args

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.base.element import Element, parse_element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import L2Promotion, Swizzle, TensorMap
from tilewright.base.size import Chosen, Computed, Extent, Range, Size, axes_of, bounds
from tilewright.contract.judge.events.prefetches import check_prefetch
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.polynomial import Polynomial, variable
from tilewright.contract.typestate.run_time_sizes import check_counts, is_multiple, least_each, most_each, ranges_at
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.tensor_memory import TensorMemoryOp, TensorMemoryType, TensorSetUp
from tilewright.ir.sizes import size_of, sizes_of
from tilewright.ir.tier import UNITS, MemoryType
from tilewright.ir.tile.order import fits_order
from tilewright.legal.symbolic.symbolic import prove
from tilewright.legal.symbolic.symbolic_map import Dim, SymbolicMap
from tilewright.legal.tensor_map.tensormap import violations
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
    declared: Mapping[SSAValue, Ring | Buffer | TensorMemory | Map | ac.GlobalOp]
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


def _check_extents(op: ac.KernelOp, operations: Operations, facts: Target, findings: Findings) -> None:
    extents, ranges = [least_each(op.grid, op), integers(op.cluster), integers(op.block)], ranges_at(op)
    if any(len(extent) != 3 or min(extent) < 1 for extent in extents):
        findings.doubt("grid, cluster and block are not three positive integers each", op)
    elif not all(
        is_multiple(grid, cluster, ranges) for grid, cluster in zip(sizes_of(op.grid), extents[1], strict=True)
    ):
        findings.doubt(f"a grid of {extents[0]} is no multiple of the cluster {extents[1]}", op)
    elif sizes_of(op.grid)[1:] != extents[1][1:] or extents[2][1:] != (1, 1):
        # Tiles are dealt out to clusters along x and to a cluster's CTAs in x and y, roles to threads along x: others
        # would share them. CTAs along z share a tile, and `store_places` asks that their stores differ.
        findings.doubt("clusters, or threads, beside one another in y or z", op)
    elif prod(extents[1]) > facts.limit("cluster.ctas_max"):
        findings.doubt(f"a cluster of {prod(extents[1])} CTAs", op)
    elif (threads := prod(extents[2])) > facts.limit("cta.threads_max") or threads % 32:
        findings.doubt(f"a CTA of {threads} threads", op)
    _check_tile_orders(op, operations, findings)


def _check_tile_orders(op: ac.KernelOp, operations: Operations, findings: Findings) -> None:
    """All roles must go through the tiles in one order, or they would disagree about which tile a slot belongs to."""
    orders: dict[str, tuple[tuple[Size, ...], tuple[Size, ...], str]] = {}
    ranges, alone = operations.of(ac.RangeOp), prod(integers(op.cluster)) == 1
    for tiles in operations.of(ac.TilesOp, ac.TurnTilesOp):
        order = (size_of(tiles.tiles_m), size_of(tiles.tiles_n), tiles.raster_group.data, tiles.matrices)
        sides = [bounds(size, ranges_at(tiles)) for size in (*order[:2], *tiles.batches)]
        most = prod(side[1] for side in sides)
        if min(tiles.raster_group.data, *(side[0] for side in sides)) < 1:
            findings.doubt(
                f"an order of {order[0]} x {order[1]} tiles in groups of {order[2]} in {order[3]} matrices", tiles
            )
        elif most > _MOST_TILES:
            findings.doubt(f"{most} tiles, more than are counted in 32 bits", tiles)
        together = tiles.matrices_together if isinstance(tiles, ac.TilesOp) else None
        if together is not None:
            # Of tiles that only the launch counts, all groups of a number of matrices are whole.
            known = all(isinstance(size, int) for size in (*order[:2], *tiles.batches))
            least, largest = bounds(together, ranges_at(tiles))
            fewest = prod(side[0] for side in sides[2:])
            fits = not isinstance(together, int) or (
                together <= fewest and (known or is_multiple(tiles.matrices, together, ranges_at(tiles)))
            )
            if least < 1 or not (fits and ranges and alone) or tiles.first:
                findings.doubt(f"tiles of {together} of {tiles.matrices} matrices together", tiles)
            elif max(most, largest * prod(side[1] for side in sides[:2])) + 2 * prod(most_each(op.grid, op)) > 1 << 32:
                findings.doubt("tiles together on so many CTAs that a number passes what 32 bits hold", tiles)
        named = "grouped" if tiles.order is None else tiles.order.data
        if not fits_order(tiles.raster_group.data, named):
            findings.doubt(f"tiles in groups of {order[2]} in the order {named!r}", tiles)
        found = ((*order, together or 0), tiles.batches, named)
        if orders.setdefault(tiles.symbol.data, found) != found:
            findings.doubt("goes through the tiles in another order than another role", tiles)


_MOST_TILES = (1 << 31) - 1
"""A CTA's next tile is found by an addition of 32 bits, without sign, and a grid may be as large again."""


def type_of(value: SSAValue) -> Attribute:
    """The declared type, seen as any attribute: an edited program may declare another than its operation demands."""
    return value.type


def _integer(attribute: Attribute) -> int | None:
    match attribute:
        case IntAttr():
            return attribute.data
        case IntegerAttr():
            return attribute.value.data
        case _:
            return None


def _counts(attribute: DictionaryAttr, op: Operation, findings: Findings) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, value in attribute.data.items():
        number = _integer(value)
        if number is None:
            findings.doubt(f"the symbol {name} has no integer value", op)
        else:
            counts[name] = number
    return counts


def read_kernel(op: ac.KernelOp, facts: Target, findings: Findings) -> Kernel:
    """The declarations of `op`, for a target with these facts; what does not make sense is reported or doubted."""
    rings: dict[str, Ring] = {}
    buffers: dict[str, Buffer] = {}
    maps: dict[str, Map] = {}
    declared: dict[SSAValue, Ring | Buffer | TensorMemory | Map | ac.GlobalOp] = {}
    memories: list[TensorMemory] = []
    roles: list[Role] = []
    sequence: list[Operation] = []
    waits_for_grids = False
    releases: list[ac.GridReleaseOp] = []
    names: set[str] = set()
    for inner in op.body.block.ops:
        if isinstance(inner, ac.RingOp | ac.BufferOp | ac.TensorMapOp | ac.GlobalOp | ac.RoleOp | TensorMemoryOp):
            if inner.sym_name.data in names:
                findings.doubt(f"the name {inner.sym_name.data!r} is declared twice", inner)
                continue
            names.add(inner.sym_name.data)
        match inner:
            case ac.RingOp():
                ring = _ring(inner, findings)
                rings[ring.name] = declared[inner.result] = ring
            case ac.BufferOp():
                buffer = _buffer(inner, findings)
                if buffer is not None:
                    buffers[buffer.name] = declared[inner.result] = buffer
            case TensorMemoryOp():
                memory = _tensor_memory(inner, rings, findings)
                if memory is not None:
                    memories.append(memory)
                    declared[inner.result] = memory
            case ac.TensorMapOp():
                tensor_map = _map(inner, facts, findings)
                if tensor_map is not None:
                    maps[tensor_map.name] = declared[inner.result] = tensor_map
            case ac.GlobalOp():
                _check_global(inner, findings)
                declared[inner.result] = inner
            case ac.RoleOp():
                roles.append(_role(inner, facts))
                sequence.append(inner)
            case ac.BarrierInitOp() | ac.FenceBarrierInitOp() | ac.CtaSyncOp() | ac.ClusterSyncOp():
                sequence.append(inner)
            case _ if isinstance(inner, TensorSetUp):
                pass  # `check_tensor_memory`
            case ac.GridWaitOp():
                waits_for_grids = True
                if roles:
                    findings.doubt("waits for the grids before after roles have begun", inner)
            case ac.PrefetchOp():
                asked = declared.get(inner.descriptor)
                boxes = (len(asked.box), asked.element_bytes) if isinstance(asked, Map) else None
                check_prefetch(inner, boxes, facts, findings)
            case ac.GridReleaseOp():
                releases.append(inner)
            case _:
                findings.doubt("is not understood in a kernel's body", inner)
    if releases and not waits_for_grids:
        # Whoever waits for a grid that has waited, before or behind this, has waited for those before it, too.
        findings.doubt("lets the next grid begin, and not all threads wait for those before", releases[0])
    cluster_ctas, operations = prod(integers(op.cluster)), Operations.inside(op)
    _check_extents(op, operations, facts, findings)
    _check_setup(
        sequence, rings, declared, cluster_ctas > 1 and reaches_peers(operations), op, bool(memories), findings
    )
    symbols, minima = _counts(op.symbols, op, findings), _counts(op.minima, op, findings)
    for name, value in symbols.items():
        if value < minima.get(name, 0):
            findings.report("LV009", op, f"{name} is {value}, less than its minimum {minima[name]}")
    check_counts(op, symbols, minima, findings)
    last = sequence[-1] if sequence else None
    return Kernel(
        name=op.sym_name.data,
        symbols=symbols,
        minima=minima,
        cluster_ctas=cluster_ctas,
        block_threads=prod(integers(op.block)),
        dynamic_smem_bytes=op.dynamic_smem_bytes.data,
        launch_registers=op.launch_registers.data,
        rings=rings,
        buffers=buffers,
        maps=maps,
        tensor_memory=memories[0] if memories else None,
        roles=tuple(roles),
        declared=declared,
        exit_sync=last if roles and isinstance(last, ac.ClusterSyncOp) else None,
        op=op,
        operations=operations,
        facts=facts,
    )


def _ring(op: ac.RingOp, findings: Findings) -> Ring:
    ring = Ring(
        op.sym_name.data, op.stages.data, op.full_arrivals.data, op.empty_arrivals.data, op.address.data, op
    )  # fmt: skip
    if ring.stages < 1:
        findings.doubt(f"a ring of {ring.stages} stages", op)
    kind = type_of(op.result)
    if not isinstance(kind, ac.RingType) or kind.ring.data != ring.name or kind.stages.data != ring.stages:
        findings.report("LV006", op, f"the result's type {kind} differs from ring {ring.name} of {ring.stages} stages")
    return ring


def _tensor_memory(op: TensorMemoryOp, rings: Mapping[str, Ring], findings: Findings) -> TensorMemory | None:
    kind = type_of(op.result)
    if not isinstance(kind, TensorMemoryType):
        findings.doubt("its result is no tensor memory", op)
        return None
    name = op.ring.data if op.ring is not None else ""
    if name and name not in rings:
        findings.doubt(f"its columns are slots of {name!r}, which is no ring before it", op)
        return None
    columns = kind.columns.data
    slot_columns = op.slot_columns(rings[name].stages) if name else 0
    return TensorMemory(
        op.sym_name.data,
        op.address.data,
        columns,
        kind.units.data,
        op.part_columns if op.units_issue else 0,
        name,
        slot_columns,
        op,
        op.units_issue,
        is_set(op.pair),
        op.first_factor,
    )


def _buffer(op: ac.BufferOp, findings: Findings) -> Buffer | None:
    kind = type_of(op.result)
    if not isinstance(kind, MemoryType):
        findings.doubt("a buffer's result is no tier.mem", op)
        return None
    if kind.tier.data != "SMEM" or kind.swizzle.data not in SWIZZLE_SPAN_BYTES:
        findings.doubt(f"a buffer in {kind.tier.data} with swizzle {kind.swizzle.data!r}", op)
        return None
    return Buffer(
        name=op.sym_name.data,
        address=op.address.data,
        instances=op.instances.data,
        slots=kind.slots.data,
        slot_bytes=kind.slot_bytes.data,
        element=kind.element.data,
        swizzle=kind.swizzle.data,
        ring=op.ring.data if op.ring is not None else "",
        op=op,
    )


def _map(op: ac.TensorMapOp, facts: Target, findings: Findings) -> Map | None:
    kind = type_of(op.result)
    element = parse_element(op.element.data)
    box, dims = integers(op.box), most_each(op.dims, op)
    if not isinstance(kind, ac.DescriptorType) or element is None or not box or min(box) < 1:
        findings.doubt("a tensor map without a known element, box or descriptor type", op)
        return None
    if kind.swizzle.data not in SWIZZLE_SPAN_BYTES or kind.interleave.data != "none":
        findings.doubt(f"a tensor map with swizzle {kind.swizzle.data!r}, interleave {kind.interleave.data!r}", op)
        return None
    if not len(box) == len(dims) == kind.rank.data == len(op.strides_bytes) + 1:
        findings.report(
            "TX008",
            op,
            f"rank {kind.rank.data}, but {len(dims)} extents, {len(op.strides_bytes)} strides and {len(box)} box "
            "extents",
        )
        return None
    if op.l2_promotion.data not in get_args(L2Promotion):
        findings.doubt(f"unknown L2 promotion {op.l2_promotion.data!r}", op)
    _check_legal(op, element, kind.swizzle.data, facts, findings)
    tensor_map = Map(
        name=op.sym_name.data,
        buffer=op.buffer.data,
        box=box,
        element=element.value,
        element_bytes=element.bytes,
        swizzle=kind.swizzle.data,
        interleave=kind.interleave.data,
        dims=dims,
        strides_bytes=most_each(op.strides_bytes, op),
        op=op,
    )
    return tensor_map


def _check_legal(op: ac.TensorMapOp, element: Element, swizzle: str, facts: Target, findings: Findings) -> None:
    """The encoder's own rules, by `legal`: what it would refuse at launch must not be called proven."""
    try:
        described = TensorMap(
            element=element,
            dims=most_each(op.dims, op),
            strides_bytes=most_each(op.strides_bytes, op),
            box=integers(op.box),
            swizzle=cast("Swizzle", swizzle),
        )
        broken = violations(described, facts)
        for violation in broken:
            findings.illegal(violation, op)
        if not broken and any(not isinstance(size, int) for size in (*sizes_of(op.dims), *sizes_of(op.strides_bytes))):
            _check_legal_at_all(op, described, facts, findings)
    except TilewrightError as problem:
        findings.doubt(problem.message, op)


def _launched(values: Range) -> tuple[int, int, int]:
    return values.least_launched, values.most, values.multiple_of


def _check_legal_at_all(op: ac.TensorMapOp, largest: TensorMap, facts: Target, findings: Findings) -> None:
    """The same rules, at every extent of the run-time axes among the map's. largest: the map of the largest ones."""
    ranges = ranges_at(op)
    dims: list[int | Dim] = []
    for size in sizes_of(op.dims):
        match size:
            case int():
                dims.append(size)
            case Extent(axis):
                dims.append(Dim(axis, *_launched(ranges[axis])))
            case Computed() | Chosen():
                findings.doubt(f"a tensor map of an extent {size}, which is computed of an axis's", op)
                return
    strides = tuple(size if isinstance(size, int) else str(size) for size in sizes_of(op.strides_bytes))
    named = {axis for size in sizes_of(op.strides_bytes) for axis in axes_of(size)}
    sizes = tuple(Dim(axis, *_launched(ranges[axis])) for axis in sorted(named))
    described = SymbolicMap(
        largest.element.value, tuple(dims), strides, largest.box, swizzle=largest.swizzle, sizes=sizes
    )
    answer = prove(described, facts)
    if answer.answer != "legal":
        rules = ", ".join(each.message for each in (*answer.violated, *answer.undecided))
        findings.doubt(f"a tensor map that is not legal at every extent: {rules}", op)


def _check_global(op: ac.GlobalOp, findings: Findings) -> None:
    kind, shape = type_of(op.result), least_each(op.shape, op)
    if not isinstance(kind, ac.GlobalType) or parse_element(kind.element.data) is None:
        findings.doubt("a global array without a known element", op)
    elif not len(shape) == len(op.strides) == kind.rank.data or min(shape, default=1) < 1:
        findings.doubt(f"a global array of rank {kind.rank.data}, shape {shape} and {len(op.strides)} strides", op)


def _role(op: ac.RoleOp, facts: Target) -> Role:
    execution = op.execution
    unit, count = execution.unit.data, execution.count.data
    threads = 128 if unit == "thread1" else UNITS[unit] * count
    first, inside = execution.first_thread.data, Operations.inside(op)
    warp_rows = facts.limit("product.warp_rows") if op.warp_rows is None else op.warp_rows.data
    return Role(
        op.sym_name.data, unit, count, first, threads, op.registers.data, op, inside, warp_rows, is_set(op.leader)
    )


def _check_setup(
    sequence: Iterable[Operation],
    rings: Mapping[str, Ring],
    declared: Mapping[SSAValue, object],
    reaches: bool,
    kernel: Operation,
    freed: bool,
    findings: Findings,
) -> None:
    """freed: whether the CTA has something to take down once its roles have ended."""
    initialised: dict[str, Operation] = {}
    fenced: set[str] = set()
    ordered: set[str] = set()
    ordered_fenced: set[str] = set()
    ordered_in_cluster: set[str] = set()
    first_role: Operation | None = None
    for op in sequence:
        match op:
            case ac.BarrierInitOp():
                ring = declared.get(op.ring)
                if not isinstance(ring, Ring):
                    findings.doubt("initialises something that is no declared ring", op)
                elif ring.name in initialised:
                    findings.report(
                        "MB002", op, f"ring {ring.name} is initialised twice", against=initialised[ring.name]
                    )
                else:
                    initialised[ring.name] = op
                if first_role is not None:
                    findings.report("MB004", op, "a ring is initialised after roles have begun", against=first_role)
            case ac.FenceBarrierInitOp():
                fenced |= initialised.keys()
            case ac.CtaSyncOp() | ac.ClusterSyncOp():
                ordered |= initialised.keys()
                ordered_fenced |= fenced
                if isinstance(op, ac.ClusterSyncOp):
                    ordered_in_cluster |= fenced
                if first_role is not None and isinstance(op, ac.CtaSyncOp) and not freed:
                    findings.doubt("a synchronization of the CTA after its roles", op)
            case _:
                if first_role is None:
                    first_role = op
                    sets = (fenced, ordered, ordered_fenced, ordered_in_cluster)
                    _check_initialised(op, rings, initialised, sets, reaches, findings)
    if rings and first_role is None:
        findings.doubt("a kernel with rings and no roles", kernel)


def _check_initialised(
    role: Operation,
    rings: Mapping[str, Ring],
    initialised: Mapping[str, Operation],
    sets: tuple[set[str], set[str], set[str], set[str]],
    reaches: bool,
    findings: Findings,
) -> None:
    """When the first role begins, every ring must be ready for every thread that may touch it.

    sets: rings whose initialisation is fenced; synchronized; fenced and then synchronized; the same, in the cluster.
    """
    fenced, ordered, ordered_fenced, ordered_in_cluster = sets
    for name, ring in rings.items():
        if name not in initialised:
            findings.report("MB001", ring.op, f"ring {name} is never initialised", against=role)
            continue
        init = initialised[name]
        if name not in fenced:
            findings.report("MB003", init, f"no ac.fence.mbarrier_init follows the init of ring {name}", against=role)
        if name not in ordered:
            steps = (
                f"thread 0 is delayed before it initialises ring {name}",
                "a role's thread waits on a barrier that holds no valid object",
            )
            findings.report(
                "MB004", init, f"roles may begin before ring {name} is initialised", against=role, steps=steps
            )
        elif name in fenced and name not in ordered_fenced:
            findings.report("MB003", init, f"nothing is synchronized after the fence of ring {name}", against=role)
        elif reaches and name in fenced and name not in ordered_in_cluster:
            steps = (
                "CTA 1 of the cluster has not started",
                f"CTA 0 passes its own synchronization and reaches ring {name} of CTA 1",
            )
            findings.report(
                "CL004", init, f"peers may reach ring {name} before it is initialised", against=role, steps=steps
            )
