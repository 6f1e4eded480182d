"""How are the declarations of an `ac` kernel read, and what about them makes no sense?

One pass over the kernel's body makes the plain values of `program`. What does not make sense is reported or doubted;
unknown operations are doubts, so they end in the verdict unknown. The order of set-up is judged by `ring_setup`, bodies
of roles are read by `walk`.

Not handled: rings initialised inside roles, work between roles. Checked by:
tests/contract/typestate/test_typestate*.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import cast, get_args

from xdsl.dialects.builtin import DictionaryAttr, IntAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.base.element import Element, parse_element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import L2Promotion, Swizzle, TensorMap
from tilewright.base.size import Chosen, Computed, Extent, Range, Size, axes_of, bounds, computed, divisor
from tilewright.contract.judge.events.prefetches import check_prefetch
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.launch_extents import check_extents
from tilewright.contract.typestate.program import (
    SWIZZLE_SPAN_BYTES,
    Buffer,
    Declared,
    Kernel,
    Map,
    Operations,
    Ring,
    Role,
    TensorMemory,
    integers,
    reaches_peers,
    type_of,
)
from tilewright.contract.typestate.ring_setup import check_ring_setup
from tilewright.contract.typestate.run_time_sizes import check_counts, least_each, most_each, ranges_at
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.tensor_memory import TensorMemoryOp, TensorMemoryType, TensorSetUp
from tilewright.ir.sizes import sizes_of
from tilewright.ir.tier import UNITS, MemoryType
from tilewright.legal.symbolic.symbolic import prove
from tilewright.legal.symbolic.symbolic_map import Dim, SymbolicMap
from tilewright.legal.tensor_map.tensormap import violations
from tilewright.targets import Target


def read_kernel(op: ac.KernelOp, facts: Target, findings: Findings) -> Kernel:
    """The declarations of `op`, for a target with these facts; what does not make sense is reported or doubted."""
    body = _Body(facts, findings)
    for inner in op.body.block.ops:
        body.read(inner)
    if body.releases and not body.waits_for_grids:
        # Whoever waits for a grid that has waited, before or behind this, has waited for those before it, too.
        findings.doubt("lets the next grid begin, and not all threads wait for those before", body.releases[0])
    cluster_ctas, operations = prod(integers(op.cluster)), Operations.inside(op)
    check_extents(op, operations, facts, findings)
    reaches = cluster_ctas > 1 and reaches_peers(operations)
    check_ring_setup(op, body.sequence, body.rings, body.declared, findings, reaches=reaches, freed=bool(body.memories))
    symbols, minima = _counts(op.symbols, op, findings), _counts(op.minima, op, findings)
    for name, value in symbols.items():
        if value < minima.get(name, 0):
            findings.report("LV009", op, f"{name} is {value}, less than its minimum {minima[name]}")
    check_counts(op, symbols, minima, findings)
    last = body.sequence[-1] if body.sequence else None
    return Kernel(
        name=op.sym_name.data,
        symbols=symbols,
        minima=minima,
        cluster_ctas=cluster_ctas,
        block_threads=prod(integers(op.block)),
        dynamic_smem_bytes=op.dynamic_smem_bytes.data,
        launch_registers=op.launch_registers.data,
        rings=body.rings,
        buffers=body.buffers,
        maps=body.maps,
        tensor_memory=body.memories[0] if body.memories else None,
        roles=tuple(body.roles),
        declared=body.declared,
        exit_sync=last if body.roles and isinstance(last, ac.ClusterSyncOp) else None,
        op=op,
        operations=operations,
        facts=facts,
    )


@dataclass(slots=True)
class _Body:
    """What has been read of a kernel's body. sequence: its synchronization and its roles, in order."""

    facts: Target
    findings: Findings
    rings: dict[str, Ring] = field(default_factory=dict[str, Ring])
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    maps: dict[str, Map] = field(default_factory=dict[str, Map])
    memories: list[TensorMemory] = field(default_factory=list[TensorMemory])
    roles: list[Role] = field(default_factory=list[Role])
    declared: dict[SSAValue, Declared] = field(default_factory=dict[SSAValue, Declared])
    names: set[str] = field(default_factory=set[str])
    sequence: list[Operation] = field(default_factory=list[Operation])
    waits_for_grids: bool = False
    releases: list[ac.GridReleaseOp] = field(default_factory=list[ac.GridReleaseOp])

    def read(self, op: Operation) -> None:
        match op:
            case ac.RingOp() | ac.BufferOp() | ac.TensorMapOp() | ac.GlobalOp() | ac.RoleOp() | TensorMemoryOp():
                if op.sym_name.data in self.names:
                    self.findings.doubt(f"the name {op.sym_name.data!r} is declared twice", op)
                    return
                self.names.add(op.sym_name.data)
                self._declare(op)
            case ac.BarrierInitOp() | ac.FenceBarrierInitOp() | ac.CtaSyncOp() | ac.ClusterSyncOp():
                self.sequence.append(op)
            case _ if isinstance(op, TensorSetUp):
                pass  # `check_tensor_memory`
            case ac.GridWaitOp():
                self.waits_for_grids = True
                if self.roles:
                    self.findings.doubt("waits for the grids before after roles have begun", op)
            case ac.PrefetchOp():
                asked = self.declared.get(op.descriptor)
                boxes = (len(asked.box), asked.element_bytes) if isinstance(asked, Map) else None
                check_prefetch(op, boxes, self.facts, self.findings)
            case ac.GridReleaseOp():
                self.releases.append(op)
            case _:
                self.findings.doubt("is not understood in a kernel's body", op)

    def _declare(self, op: ac.RingOp | ac.BufferOp | ac.TensorMapOp | ac.GlobalOp | ac.RoleOp | TensorMemoryOp) -> None:
        findings = self.findings
        match op:
            case ac.RingOp():
                ring = _ring(op, findings)
                self.rings[ring.name] = self.declared[op.result] = ring
            case ac.BufferOp():
                buffer = _buffer(op, findings)
                if buffer is not None:
                    self.buffers[buffer.name] = self.declared[op.result] = buffer
            case TensorMemoryOp():
                memory = _tensor_memory(op, self.rings, findings)
                if memory is not None:
                    self.memories.append(memory)
                    self.declared[op.result] = memory
            case ac.TensorMapOp():
                tensor_map = _map(op, self.facts, findings)
                if tensor_map is not None:
                    self.maps[tensor_map.name] = self.declared[op.result] = tensor_map
            case ac.GlobalOp():
                _check_global(op, findings)
                self.declared[op.result] = op
            case ac.RoleOp():
                self.roles.append(_role(op, self.facts))
                self.sequence.append(op)


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


def _tensor_memory(op: TensorMemoryOp, rings: dict[str, Ring], findings: Findings) -> TensorMemory | None:
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
    return Map(
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


def _of_named(size: Size, ranges: Mapping[str, Range], named: dict[Size, Dim]) -> Size:
    """A size as sums and products of named ones, which are put into `named`: extents, and whatever else is computed of
    these, such as a number of blocks, of which the bounds and a divisor are known."""
    match size:
        case int():
            return size
        case Computed("*" | "+" as function, left, right):
            return computed(function, _of_named(left, ranges, named), _of_named(right, ranges, named))
        case Extent(axis):
            values = ranges[axis]
            dim = Dim(axis, values.least_launched, values.most, values.multiple_of)
        case Computed() | Chosen():
            name = f"{min(axes_of(size))}_{len(named)}"
            while name in ranges or name in {each.name for each in named.values()}:
                name += "_"
            dim = Dim(name, *bounds(size, ranges), divisor(size, ranges))
    return Extent(named.setdefault(size, dim).name)


def _check_legal_at_all(op: ac.TensorMapOp, largest: TensorMap, facts: Target, findings: Findings) -> None:
    """The same rules, at every extent of the run-time axes among the map's. largest: the map of the largest ones."""
    ranges = ranges_at(op)
    named: dict[Size, Dim] = {}
    for size in sizes_of(op.dims):
        match size:
            case int() | Extent() | Computed("ceil_div", Extent(), int()):
                pass
            case _:
                findings.doubt(f"a tensor map of an extent {size}, which is computed of an axis's", op)
                return
    parts = ((_of_named(size, ranges, named) for size in sizes_of(each)) for each in (op.dims, op.strides_bytes))
    dims, strides = (tuple(size if isinstance(size, int) else str(size) for size in part) for part in parts)
    described = SymbolicMap(
        largest.element.value, dims, strides, largest.box, swizzle=largest.swizzle, sizes=tuple(named.values())
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
