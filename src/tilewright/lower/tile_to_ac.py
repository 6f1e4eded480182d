"""How a tile program with its decisions becomes asynchronous-contract kernels.

A program with a dot becomes a producer role, which fills a ring of shared-memory slots by bulk tensor copies, and a
consumer role, which multiplies them by wgmma and stores the result; an operand that no tensor map describes is first
materialized in a workspace by an element-by-element kernel of its own. A program without dot is one such kernel.

Software pipelining: a consumer releases a slot one iteration late, when the wgmma group that read it is known to be done
while the next one runs. The first iteration is peeled, since it has nothing to release and overwrites the accumulator.

Everything chosen here was chosen by `synth` and stands in the program's `decisions` attribute; what the result means is
proved again by `contract`, which does not read this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder, InsertPoint
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntAttr, ModuleOp, StringAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.base.plan import Buffer
from tilewright.ir import ac, tile
from tilewright.ir.decisions import (
    Decisions,
    ElementwiseDecisions,
    MapDecision,
    OperandDecision,
    PipelineDecisions,
    StoreDecision,
    decisions_of,
)
from tilewright.ir.tier import ExecutionAttr, MemoryType, int_array
from tilewright.lower.expression import Accumulated, Expression, element_body, fragment_body, loads_in

INDEX = ac.IndexType()
SCALAR = ac.ScalarType()


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """One ac kernel in a module of its own."""

    name: str
    module: ModuleOp


@dataclass(frozen=True, slots=True)
class LoweredProgram:
    """Kernels in launch order, and the arrays they use: the program's parameters, then workspaces."""

    kernels: tuple[LoweredKernel, ...]
    buffers: tuple[Buffer, ...]


def lower_program(program: tile.ProgramOp) -> LoweredProgram:
    """Apply the decisions on `program`.

    Raises ValueError if it carries none.
    """
    attribute = program.attributes.get("decisions")
    if attribute is None:
        raise ValueError(f"program {program.sym_name.data} carries no decisions")
    decisions: Decisions = decisions_of(attribute)
    match decisions:
        case ElementwiseDecisions():
            module = _elementwise_kernel(program, decisions)
            return LoweredProgram((LoweredKernel(program.sym_name.data, module),), _parameters(program))
        case PipelineDecisions():
            return _pipeline_program(program, decisions)


# ---------------------------------------------------------------- the program's facts


def _parameters(program: tile.ProgramOp) -> tuple[Buffer, ...]:
    stored = {id(store.tensor) for store in stores_of(program)}
    buffers: list[Buffer] = []
    for name, argument in zip(program.parameters, program.body.block.args, strict=True):
        tensor = argument.type
        assert isinstance(tensor, tile.TensorType)
        role = "output" if id(argument) in stored else "input"
        buffers.append(Buffer(name.data, tensor.element_kind, tensor.extents, tensor.stride_elements, role))
    return tuple(buffers)


def stores_of(program: tile.ProgramOp) -> list[tile.StoreOp]:
    return [op for op in program.body.block.ops if isinstance(op, tile.StoreOp)]


def grid_of(program: tile.ProgramOp) -> tile.GridOp:
    (grid,) = [op for op in program.body.block.ops if isinstance(op, tile.GridOp)]
    return grid


def parameter_name(program: tile.ProgramOp, tensor: SSAValue) -> str:
    for name, argument in zip(program.parameters, program.body.block.args, strict=True):
        if argument is tensor:
            return name.data
    raise KeyError("not a parameter")


# ---------------------------------------------------------------- construction


@dataclass(slots=True)
class Build:
    """A kernel under construction: where ops go now."""

    builder: Builder

    def add(self, op: Operation) -> Operation:
        self.builder.insert(op)
        return op

    def value(self, op: Operation) -> SSAValue:
        self.builder.insert(op)
        return op.results[0]

    def inside(self, block: Block) -> Build:
        return Build(Builder(InsertPoint.at_end(block)))


def _affine(build: Build, terms: Sequence[tuple[SSAValue, int]], constant: int) -> SSAValue:
    properties = {"coefficients": int_array([c for _, c in terms]), "constant": IntAttr(constant)}
    return build.value(
        ac.AffineOp.create(operands=[v for v, _ in terms], properties=properties, result_types=[INDEX])
    )


def _global(build: Build, buffer: Buffer) -> SSAValue:
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(buffer.name),
        "buffer": StringAttr(buffer.name),
        "shape": int_array(buffer.shape),
        "strides": int_array(buffer.strides),
    }
    result = ac.GlobalType(StringAttr(buffer.element.value), IntAttr(len(buffer.shape)))
    return build.value(ac.GlobalOp.create(properties=properties, result_types=[result]))


def _tensor_map(build: Build, name: str, buffer: str, decision: MapDecision) -> SSAValue:
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(f"{name}_map"),
        "buffer": StringAttr(buffer),
        "element": StringAttr(decision.element),
        "dims": int_array(decision.dims),
        "strides_bytes": int_array(decision.strides_bytes),
        "box": int_array(decision.box),
        "l2_promotion": StringAttr(decision.l2_promotion),
    }
    align = {"128B": 1024, "64B": 512, "32B": 256}.get(decision.swizzle, 128)
    result = ac.DescriptorType(
        IntAttr(len(decision.dims)), StringAttr(decision.swizzle), StringAttr("none"), IntAttr(align)
    )
    return build.value(ac.TensorMapOp.create(properties=properties, result_types=[result]))


def _kernel(
    name: str,
    symbols: dict[str, tuple[int, int]],
    grid: tuple[int, int, int],
    cluster: tuple[int, int, int],
    threads: int,
    smem_bytes: int,
    registers: int,
) -> tuple[ModuleOp, Build]:
    """symbols: value and minimum by name."""
    block = Block()
    kernel = ac.KernelOp.create(
        properties={
            "sym_name": StringAttr(name),
            "symbols": DictionaryAttr({key: IntAttr(value) for key, (value, _) in symbols.items()}),
            "minima": DictionaryAttr({key: IntAttr(least) for key, (_, least) in symbols.items()}),
            "grid": int_array(grid),
            "cluster": int_array(cluster),
            "block": int_array((threads, 1, 1)),
            "dynamic_smem_bytes": IntAttr(smem_bytes),
            "launch_registers": IntAttr(registers),
        },
        regions=[Region(block)],
    )
    return ModuleOp([kernel]), Build(Builder(InsertPoint.at_end(block)))


def _role(build: Build, name: str, unit: str, count: int, first: int, registers: int) -> tuple[Build, SSAValue]:
    block = Block(arg_types=[INDEX])
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(name),
        "execution": ExecutionAttr(StringAttr(unit), IntAttr(count), IntAttr(first)),
        "registers": IntAttr(registers),
    }
    build.add(ac.RoleOp.create(properties=properties, regions=[Region(block)]))
    return build.inside(block), block.args[0]


# ---------------------------------------------------------------- element-by-element kernels


def _elementwise_kernel(program: tile.ProgramOp, decisions: ElementwiseDecisions) -> ModuleOp:
    grid = grid_of(program)
    extents = tuple(program.extents[axis] for axis in grid.axis_names)
    module, build = _kernel(
        program.sym_name.data, {}, (decisions.ctas, 1, 1), (1, 1, 1), decisions.threads, 0, 0
    )
    globals_ = {buffer.name: _global(build, buffer) for buffer in _parameters(program)}
    body, role = _points(build, decisions.threads, extents)
    places = dict(zip(grid.axis_names, body.args, strict=True))
    inner = role.inside(body)
    for store in stores_of(program):
        value = element_body(inner, Expression(store.value), places, _sources(program, globals_))
        tensor = store.tensor.type
        assert isinstance(tensor, tile.TensorType)
        indices = [places[axis] for axis in tensor.axis_names]
        destination = globals_[parameter_name(program, store.tensor)]
        inner.add(ac.ElementStoreOp.create(operands=[value, destination, *indices]))
    return module


def _sources(program: tile.ProgramOp, globals_: dict[str, SSAValue]) -> dict[SSAValue, SSAValue]:
    """Tensor argument to global array."""
    return {
        argument: globals_[name.data]
        for name, argument in zip(program.parameters, program.body.block.args, strict=True)
        if name.data in globals_
    }


def _points(build: Build, threads: int, extents: tuple[int, ...]) -> tuple[Block, Build]:
    role, _ = _role(build, "threads", "warp32", threads // 32, 0, 0)
    body = Block(arg_types=[INDEX] * len(extents))
    role.add(ac.ElementwiseOp.create(properties={"extents": int_array(extents)}, regions=[Region(body)]))
    return body, role


def _materialize(
    program: tile.ProgramOp, decisions: PipelineDecisions, operand: OperandDecision, value: SSAValue, axes: tuple[str, str]
) -> tuple[LoweredKernel, Buffer]:
    """A kernel that computes a dot operand into a workspace whose rows a tensor map can describe.

    axes: (outer, contracted) names of the operand.
    """
    inner_axis, outer_axis = (axes[1], axes[0]) if operand.major == "K" else (axes[0], axes[1])
    extents = (program.extents[outer_axis], program.extents[inner_axis])
    element = operand.map.tensor_map().element
    pitch = operand.map.strides_bytes[0] // element.bytes
    workspace = Buffer(operand.buffer, element, extents, (pitch, 1), "workspace")
    name = f"{program.sym_name.data}_{operand.buffer}"
    module, build = _kernel(name, {}, (decisions.fill_ctas, 1, 1), (1, 1, 1), decisions.fill_threads, 0, 0)
    wanted = {id(load.tensor) for load in loads_in(value)}
    globals_ = {
        buffer.name: _global(build, buffer)
        for buffer, argument in zip(_parameters(program), program.body.block.args, strict=True)
        if id(argument) in wanted
    }
    destination = _global(build, workspace)
    body, role = _points(build, decisions.fill_threads, extents)
    inner = role.inside(body)
    places = {outer_axis: body.args[0], inner_axis: body.args[1]}
    result = element_body(inner, Expression(value), places, _sources(program, globals_))
    inner.add(ac.ElementStoreOp.create(operands=[result, destination, *body.args]))
    return LoweredKernel(name, module), workspace


# ---------------------------------------------------------------- the pipeline


RING = StringAttr("ab")
CURSOR = ac.CursorType(RING)


@dataclass(frozen=True, slots=True)
class _Memory:
    """Byte offsets in dynamic shared memory: A slots, B slots, staging, barriers."""

    a: int
    b: int
    staging: int
    barriers: int


def _memory(decisions: PipelineDecisions) -> _Memory:
    a_bytes, b_bytes = slot_bytes(decisions)
    b = a_bytes * decisions.stages
    staging = b + b_bytes * decisions.stages
    barriers = staging + decisions.staging_slots * decisions.staging_slot_bytes * decisions.consumers
    return _Memory(0, b, staging, barriers)


def slot_bytes(decisions: PipelineDecisions) -> tuple[int, int]:
    """Bytes of one slot of A and of B."""
    element_bytes = decisions.a.map.tensor_map().element.bytes
    return (
        decisions.tile_m * decisions.tile_k * element_bytes,
        decisions.tile_n * decisions.tile_k * element_bytes,
    )


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """What both roles refer to."""

    decisions: PipelineDecisions
    ring: SSAValue
    a: SSAValue
    b: SSAValue
    a_map: SSAValue
    b_map: SSAValue
    staging: SSAValue | None


def _pipeline_program(program: tile.ProgramOp, decisions: PipelineDecisions) -> LoweredProgram:
    kernels: list[LoweredKernel] = []
    buffers = list(_parameters(program))
    dot = dot_of(program)
    sides = {"left": dot.left, "right": dot.right}
    for operand, outer in ((decisions.a, decisions.rows), (decisions.b, decisions.columns)):
        if operand.materialized:
            kernel, workspace = _materialize(
                program, decisions, operand, sides[operand.side], (outer, decisions.contracted)
            )
            kernels.append(kernel)
            buffers.append(workspace)
    kernels.append(LoweredKernel(program.sym_name.data, _pipeline_kernel(program, decisions)))
    return LoweredProgram(tuple(kernels), tuple(buffers))


def dot_of(program: tile.ProgramOp) -> tile.DotOp:
    (dot,) = [op for op in program.walk() if isinstance(op, tile.DotOp)]
    return dot


def _pipeline_kernel(program: tile.ProgramOp, d: PipelineDecisions) -> ModuleOp:
    tiles_m, tiles_n, k_tiles = tile_counts(program, d)
    clusters_m, clusters_n = -(-tiles_m // d.cluster_m), -(-tiles_n // d.cluster_n)
    cluster_size = d.cluster_m * d.cluster_n
    clusters = d.ctas // cluster_size
    most_tiles = -(-(clusters_m * clusters_n) // clusters)
    grid = (clusters * d.cluster_m, d.cluster_n, 1)
    module, build = _kernel(
        program.sym_name.data,
        {"K": (k_tiles, 1), "tiles": (most_tiles, 0)},
        grid,
        (d.cluster_m, d.cluster_n, 1),
        128 * (1 + d.consumers),
        d.smem_bytes,
        d.launch_registers,
    )
    pipeline, arrays = _declare(build, program, d)
    build.add(ac.BarrierInitOp.create(operands=[pipeline.ring]))
    build.add(ac.FenceBarrierInitOp.create())
    build.add(ac.CtaSyncOp.create() if cluster_size == 1 else ac.ClusterSyncOp.create())
    counts = (clusters_m * d.cluster_m, clusters_n * d.cluster_n)
    _producer(build, d, pipeline, counts)
    _consumer(build, program, d, pipeline, counts, arrays)
    if cluster_size > 1:
        build.add(ac.ClusterSyncOp.create())
    return module


def tile_counts(program: tile.ProgramOp, d: PipelineDecisions) -> tuple[int, int, int]:
    """Tiles along rows, columns and the contracted axis."""
    extents = program.extents
    return (
        -(-extents[d.rows] // d.tile_m),
        -(-extents[d.columns] // d.tile_n),
        -(-extents[d.contracted] // d.tile_k),
    )


def _declare(build: Build, program: tile.ProgramOp, d: PipelineDecisions) -> tuple[_Pipeline, dict[str, SSAValue]]:
    memory = _memory(d)
    a_bytes, b_bytes = slot_bytes(d)
    cluster_size = d.cluster_m * d.cluster_n
    a_map = _tensor_map(build, d.a.buffer, d.a.buffer, d.a.map)
    b_map = _tensor_map(build, f"{d.b.buffer}_right" if d.b.buffer == d.a.buffer else d.b.buffer, d.b.buffer, d.b.map)
    arrays: dict[str, SSAValue] = {}
    for store in d.stores:
        if store.path == "tma":
            arrays[store.parameter] = _tensor_map(build, store.parameter, store.parameter, store.map)
    used = {parameter_name(program, load.tensor) for store in stores_of(program) for load in loads_in(store.value)}
    used |= {store.parameter for store in d.stores if store.path == "direct"}
    for buffer in _parameters(program):
        if buffer.name in used:
            arrays[buffer.name] = _global(build, buffer)
    ring = build.value(
        ac.RingOp.create(
            properties={
                "sym_name": RING,
                "stages": IntAttr(d.stages),
                "full_arrivals": IntAttr(1),
                "empty_arrivals": IntAttr(d.consumers * cluster_size),
                "address": IntAttr(memory.barriers),
            },
            result_types=[ac.RingType(RING, IntAttr(d.stages))],
        )
    )

    def buffer_of(name: str, address: int, instances: int, slots: int, size: int, swizzle: str, ring: bool) -> SSAValue:
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "address": IntAttr(address),
            "instances": IntAttr(instances),
        }
        if ring:
            properties["ring"] = RING
        kind = MemoryType(
            StringAttr("SMEM"), StringAttr(d.a.map.element), IntAttr(slots), IntAttr(size), StringAttr(swizzle)
        )
        return build.value(ac.BufferOp.create(properties=properties, result_types=[kind]))

    a = buffer_of("a_slots", memory.a, 1, d.stages, a_bytes, d.a.map.swizzle, ring=True)
    b = buffer_of("b_slots", memory.b, 1, d.stages, b_bytes, d.b.map.swizzle, ring=True)
    staging = None
    if d.staging_slots:
        swizzle = next(store.map.swizzle for store in d.stores if store.path == "tma")
        staging = buffer_of(
            "staging", memory.staging, d.consumers, d.staging_slots, d.staging_slot_bytes, swizzle, ring=False
        )
    return _Pipeline(d, ring, a, b, a_map, b_map, staging), arrays


def _tiles(
    build: Build, d: PipelineDecisions, counts: tuple[int, int], carried: Sequence[SSAValue]
) -> tuple[Build, Block, ac.TilesOp]:
    block = Block(arg_types=[INDEX, INDEX, *(value.type for value in carried)])
    op = ac.TilesOp.create(
        operands=list(carried),
        result_types=[value.type for value in carried],
        properties={
            "symbol": StringAttr("tiles"),
            "tiles_m": IntAttr(counts[0]),
            "tiles_n": IntAttr(counts[1]),
            "raster_group": IntAttr(d.raster_group),
        },
        regions=[Region(block)],
    )
    build.add(op)
    return build.inside(block), block, op


def _loop(build: Build, begin: int, carried: Sequence[SSAValue]) -> tuple[Build, Block, ac.LoopOp]:
    block = Block(arg_types=[INDEX, *(value.type for value in carried)])
    op = ac.LoopOp.create(
        operands=list(carried),
        result_types=[value.type for value in carried],
        properties={"symbol": StringAttr("K"), "begin": IntAttr(begin)},
        regions=[Region(block)],
    )
    build.add(op)
    return build.inside(block), block, op


def _start(build: Build, ring: SSAValue, side: str) -> SSAValue:
    return build.value(
        ac.CursorStartOp.create(operands=[ring], properties={"side": StringAttr(side)}, result_types=[CURSOR])
    )


def _advance(build: Build, cursor: SSAValue) -> SSAValue:
    return build.value(ac.AdvanceOp.create(operands=[cursor], result_types=[CURSOR]))


def _wait(build: Build, ring: SSAValue, cursor: SSAValue, side: str) -> SSAValue:
    return build.value(
        ac.BarrierWaitOp.create(
            operands=[ring, cursor],
            properties={"side": StringAttr(side), "invert_parity": IntAttr(int(side == "empty"))},
            result_types=[ac.PhaseType(RING, StringAttr(side))],
        )
    )


def _producer(build: Build, d: PipelineDecisions, p: _Pipeline, counts: tuple[int, int]) -> None:
    role, _ = _role(build, "producer", "thread1", 1, 0, d.producer_registers)
    start = _start(role, p.ring, "empty")
    outer, tiles, _ = _tiles(role, d, counts, [start])
    m, n, cursor = tiles.args
    inner, loop, loop_op = _loop(outer, 0, [cursor])
    k, position = loop.args
    phase = _wait(inner, p.ring, position, "empty")
    total = sum(slot_bytes(d))
    tx = inner.value(
        ac.ArriveExpectOp.create(
            operands=[phase],
            properties={"bytes": IntAttr(total)},
            result_types=[ac.TransactionType(RING, IntAttr(total))],
        )
    )
    a_peers = (d.cluster_n, d.cluster_m)  # CTAs along n share A's rows; along m, B's
    left = total
    for operand, descriptor, buffer, tile_index, extent, peers in (
        (d.a, p.a_map, p.a, m, d.tile_m, a_peers[0]),
        (d.b, p.b_map, p.b, n, d.tile_n, a_peers[1]),
    ):
        tx, left = _copies(inner, d, operand, descriptor, buffer, (tile_index, k), extent, peers, tx, left)
    inner.add(ac.TransactionCloseOp.create(operands=[tx]))
    inner.add(ac.YieldOp.create(operands=[_advance(inner, position)]))
    outer.add(ac.YieldOp.create(operands=[loop_op.outputs[0]]))


def _copies(
    build: Build,
    d: PipelineDecisions,
    operand: OperandDecision,
    descriptor: SSAValue,
    buffer: SSAValue,
    indices: tuple[SSAValue, SSAValue],
    extent: int,
    peers: int,
    tx: SSAValue,
    left: int,
) -> tuple[SSAValue, int]:
    """Boxes that fill one operand's slot. With `peers` CTAs sharing it, each loads its part and multicasts it."""
    tile_index, k = indices
    map_ = operand.map.tensor_map()
    k_axis = 0 if operand.major == "K" else 1
    outer_box = map_.box[1 - k_axis]
    boxes = extent // (outer_box * peers)
    for number in range(boxes):
        # The slot is peers x boxes x box; this CTA's rank picks its part.
        offset = number * outer_box
        outer_terms = [(tile_index, extent)]
        outer = _affine(build, outer_terms, offset + operand.outer_shift)
        depth = _affine(build, [(k, d.tile_k)], 0)
        coordinates = [depth, outer] if operand.major == "K" else [outer, depth]
        left -= map_.box_bytes * peers
        tx = build.value(
            ac.CopyIssueOp.create(
                operands=[descriptor, buffer, tx, *coordinates],
                properties={
                    "offset_bytes": IntAttr(number * map_.box_bytes),
                    "rank_offset_bytes": IntAttr(boxes * map_.box_bytes if peers > 1 else 0),
                    "box_bytes": IntAttr(map_.box_bytes),
                    "multicast": IntAttr(peers),
                },
                result_types=[ac.TransactionType(RING, IntAttr(left))],
            )
        )
    return tx, left


def _consumer(
    build: Build,
    program: tile.ProgramOp,
    d: PipelineDecisions,
    p: _Pipeline,
    counts: tuple[int, int],
    arrays: dict[str, SSAValue],
) -> None:
    role, unit = _role(build, "consumer", "warpgroup128", d.consumers, 128, d.consumer_registers)
    start = _start(role, p.ring, "full")
    outer, tiles, _ = _tiles(role, d, counts, [start])
    m, n, cursor = tiles.args
    accumulator, reading = _multiply(outer, d, p, unit, cursor, None)
    following = _advance(outer, cursor)
    inner, loop, loop_op = _loop(outer, 1, [following, accumulator, reading])
    _, position, running, held = loop.args
    updated, newly = _multiply(inner, d, p, unit, position, running)
    retired = inner.value(_wgmma_wait(1, held, None))
    _release(inner, d, retired)
    inner.add(ac.YieldOp.create(operands=[_advance(inner, position), updated, newly]))
    last_cursor, last_accumulator, last_reading = loop_op.outputs
    wait = _wgmma_wait(0, last_reading, last_accumulator)
    outer.add(wait)
    _release(outer, d, wait.results[0])
    _epilogue(outer, program, d, p, unit, (m, n), wait.results[1], arrays)
    outer.add(ac.YieldOp.create(operands=[last_cursor]))
    if d.staging_slots:
        role.add(_bulk_wait(unit, 0, read=False))


def _multiply(
    build: Build, d: PipelineDecisions, p: _Pipeline, unit: SSAValue, cursor: SSAValue, running: SSAValue | None
) -> tuple[SSAValue, SSAValue]:
    """Wait for a slot and issue its wgmma group; (accumulator in flight, slot being read)."""
    phase = _wait(build, p.ring, cursor, "full")
    build.add(ac.WgmmaFenceOp.create())
    rows = d.tile_m // d.consumers
    steps = d.tile_k // 16
    a_leading, a_stride, a_steps = _operand_strides(d.a, d.tile_k)
    b_leading, b_stride, b_steps = _operand_strides(d.b, d.tile_k)
    row_bytes = d.tile_k * d.a.map.tensor_map().element.bytes
    properties: dict[str, Attribute] = {
        "m": IntAttr(rows),
        "n": IntAttr(d.tile_n),
        "steps": IntAttr(steps),
        "element": StringAttr(d.a.map.element),
        "a_major": StringAttr(d.a.major),
        "a_leading_bytes": IntAttr(a_leading),
        "a_stride_bytes": IntAttr(a_stride),
        "a_step_bytes": int_array(a_steps),
        "a_block_bytes": IntAttr(64 * row_bytes),
        "a_instance_bytes": IntAttr(rows * row_bytes),
        "b_major": StringAttr(d.b.major),
        "b_leading_bytes": IntAttr(b_leading),
        "b_stride_bytes": IntAttr(b_stride),
        "b_step_bytes": int_array(b_steps),
    }
    operands = [phase, p.a, p.b, unit, *([running] if running is not None else [])]
    inflight = ac.InflightType(IntAttr(rows), IntAttr(d.tile_n))
    op = ac.WgmmaIssueOp.create(
        operands=operands, properties=properties, result_types=[inflight, ac.ReadingType(RING)]
    )
    build.add(op)
    build.add(ac.WgmmaCommitOp.create())
    return op.results[0], op.results[1]


def _operand_strides(operand: OperandDecision, tile_k: int) -> tuple[int, int, list[int]]:
    """Leading and stride offsets of the matrix descriptor and the advance of each 16-deep step, in bytes.

    128-byte swizzle, 16-bit elements (PTX ISA, wgmma canonical layouts). K-major: rows of 128 bytes, eight of them 1024
    bytes apart; a step moves 32 bytes along the row. MN-major: boxes of 64 elements by `tile_k` rows of 128 bytes, so the
    next 64 elements are a whole box away and a step moves 16 rows.
    """
    if operand.major == "K":
        return 16, 1024, [32 * step for step in range(tile_k // 16)]
    return tile_k * 128, 1024, [2048 * step for step in range(tile_k // 16)]


def _wgmma_wait(pending: int, reading: SSAValue, accumulator: SSAValue | None) -> ac.WgmmaWaitOp:
    results: list[Attribute] = [ac.PhaseType(RING, StringAttr("retired"))]
    operands = [reading]
    if accumulator is not None:
        kind = accumulator.type
        assert isinstance(kind, ac.InflightType)
        results.append(ac.AccumulatorType(kind.m, kind.n))
        operands.append(accumulator)
    present = [1, int(accumulator is not None)]
    return ac.WgmmaWaitOp.create(
        operands=operands,
        properties={
            "pending": IntAttr(pending),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, present),
            "resultSegmentSizes": DenseArrayBase.from_list(i32, present),
        },
        result_types=results,
    )


def _release(build: Build, d: PipelineDecisions, retired: SSAValue) -> None:
    peers = d.cluster_m * d.cluster_n
    build.add(ac.ArriveOp.create(operands=[retired], properties={"peers": IntAttr(peers)}))


def _bulk_wait(unit: SSAValue, pending: int, *, read: bool) -> ac.BulkWaitOp:
    return ac.BulkWaitOp.create(
        operands=[unit], properties={"pending": IntAttr(pending), "read": IntAttr(int(read))}
    )


# ---------------------------------------------------------------- epilogue


def _epilogue(
    build: Build,
    program: tile.ProgramOp,
    d: PipelineDecisions,
    p: _Pipeline,
    unit: SSAValue,
    indices: tuple[SSAValue, SSAValue],
    accumulator: SSAValue,
    arrays: dict[str, SSAValue],
) -> None:
    m, n = indices
    rows = d.tile_m // d.consumers
    row = _affine(build, [(m, d.tile_m), (unit, rows)], 0)
    column = _affine(build, [(n, d.tile_n)], 0)
    total = _Counter(sum(d.tile_n // store.chunk_columns for store in d.stores if store.path == "tma"))
    for store, decision in zip(stores_of(program), d.stores, strict=True):
        fragment = fragment_body(
            build,
            Expression(store.value),
            accumulator,
            Accumulated(d.rows, d.columns, rows, d.tile_n),
            (row, column),
            _sources(program, arrays),
            program,
        )
        if decision.path == "tma":
            _store_chunks(build, d, p, unit, (row, n), fragment, decision, arrays[decision.parameter], total)
        else:
            destination = _oriented(build, program, store, d, arrays)
            build.add(ac.GlobalStoreOp.create(operands=[fragment, destination, row, column]))


@dataclass(slots=True)
class _Counter:
    """Staged chunks so far in one tile, which pick the staging slot."""

    total: int
    done: int = 0


def _oriented(
    build: Build, program: tile.ProgramOp, store: tile.StoreOp, d: PipelineDecisions, arrays: dict[str, SSAValue]
) -> SSAValue:
    """The destination seen as (rows, columns) of the accumulator."""
    name = parameter_name(program, store.tensor)
    tensor = store.tensor.type
    assert isinstance(tensor, tile.TensorType)
    if tensor.axis_names == (d.rows, d.columns):
        return arrays[name]
    view = arrays[name].owner
    assert isinstance(view, ac.GlobalOp)
    view.properties["shape"] = int_array(tensor.extents[::-1])
    view.properties["strides"] = int_array(tensor.stride_elements[::-1])
    return arrays[name]


def _store_chunks(
    build: Build,
    d: PipelineDecisions,
    p: _Pipeline,
    unit: SSAValue,
    origin: tuple[SSAValue, SSAValue],
    fragment: SSAValue,
    decision: StoreDecision,
    descriptor: SSAValue,
    counter: _Counter,
) -> None:
    """Column chunks through the staging slots: wait until the slot's last store was read, write, fence, store."""
    assert p.staging is not None
    row, n = origin
    name = StringAttr("staging")

    def staged(state: str) -> Attribute:
        return ac.StagedType(name, StringAttr(state))

    def synchronize(operand: SSAValue | None) -> ac.NamedBarrierSyncOp:
        op = ac.NamedBarrierSyncOp.create(
            operands=[unit, *([operand] if operand is not None else [])],
            properties={"first_barrier": IntAttr(1), "threads": IntAttr(128)},
            result_types=[staged("ready")] if operand is not None else [],
        )
        build.add(op)
        return op

    box_bytes = decision.map.tensor_map().box_bytes
    for begin in range(0, d.tile_n, decision.chunk_columns):
        slot = counter.done % d.staging_slots
        counter.done += 1
        build.add(_bulk_wait(unit, d.staging_slots - 1, read=True))
        synchronize(None)
        written = build.value(
            ac.StageWriteOp.create(
                operands=[fragment, p.staging, unit],
                properties={
                    "column_begin": IntAttr(begin),
                    "column_end": IntAttr(begin + decision.chunk_columns),
                    "slot": IntAttr(slot),
                },
                result_types=[staged("written")],
            )
        )
        fenced = build.value(ac.FenceProxyOp.create(operands=[written], result_types=[staged("fenced")]))
        ready = synchronize(fenced).results[0]
        column = _affine(build, [(n, d.tile_n)], begin)
        build.add(
            ac.CopyStoreOp.create(
                operands=[descriptor, p.staging, unit, ready, column, row],
                properties={"slot": IntAttr(slot), "box_bytes": IntAttr(box_bytes)},
            )
        )
        build.add(ac.BulkCommitOp.create(operands=[unit]))


def smem_bytes_of(decisions: PipelineDecisions) -> int:
    """Dynamic shared memory that the pipeline's layout takes, in bytes."""
    return _memory(decisions).barriers + 16 * decisions.stages
