"""A warp-specialized matrix product as an `ac` program, built by hand: the verifier's tests share no code with `lower`.

C[m, n] = A[m, k] B[n, k]^T in bf16, tiles of 64 * `blocks` rows per consumer warpgroup, 128 columns, 64 deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntAttr, ModuleOp, StringAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser

from tilewright.ir import context
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentMapOp
from tilewright.ir.tier import ExecutionAttr, MemoryType, int_array

TILE_N, TILE_K = 128, 64
INDEX = ac.IndexType()
RING = StringAttr("ab")
CURSOR = ac.CursorType(RING)


@dataclass(frozen=True)
class Shape:
    """stages of the ring; consumer warpgroups; 64-row blocks of each; how C is stored; staging slots; cluster CTAs
    along m, which share B by multicast; producers: 2 where one fills A and another B."""

    stages: int = 4
    consumers: int = 2
    blocks: int = 1
    store: Literal["bulk", "plain"] = "bulk"
    staging: int = 2
    cluster: int = 1
    producers: Literal[1, 2] = 1

    @property
    def rows(self) -> int:
        return 64 * self.blocks

    @property
    def tile_m(self) -> int:
        return self.rows * self.consumers

    @property
    def a_bytes(self) -> int:
        return self.tile_m * TILE_K * 2

    @property
    def b_bytes(self) -> int:
        return TILE_N * TILE_K * 2

    @property
    def staging_bytes(self) -> int:
        return self.rows * 64 * 2

    @property
    def staging_address(self) -> int:
        return self.stages * (self.a_bytes + self.b_bytes)

    @property
    def barrier_address(self) -> int:
        slots = self.staging * self.consumers if self.store == "bulk" else 0
        return self.staging_address + slots * self.staging_bytes

    @property
    def smem_bytes(self) -> int:
        return self.barrier_address + 16 * self.stages


def _add(block: Block, op: Operation) -> Operation:
    block.add_op(op)
    return op


def _value(block: Block, op: Operation) -> SSAValue:
    return _add(block, op).results[0]


def _ints(**numbers: int) -> dict[str, Attribute]:
    return {name: IntAttr(number) for name, number in numbers.items()}


def _affine(block: Block, terms: Sequence[tuple[SSAValue, int]], constant: int = 0) -> SSAValue:
    properties = {"coefficients": int_array([c for _, c in terms]), "constant": IntAttr(constant)}
    return _value(
        block, ac.AffineOp.create(operands=[v for v, _ in terms], properties=properties, result_types=[INDEX])
    )


def _map(block: Block, name: str, buffer: str, box: tuple[int, int]) -> SSAValue:
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(name),
        "buffer": StringAttr(buffer),
        "element": StringAttr("bf16"),
        "dims": int_array([4096, 4096]),
        "strides_bytes": int_array([8192]),
        "box": int_array(box),
        "l2_promotion": StringAttr("none"),
    }
    kind = ac.DescriptorType(IntAttr(2), StringAttr("128B"), StringAttr("none"), IntAttr(1024))
    return _value(block, ac.TensorMapOp.create(properties=properties, result_types=[kind]))


def _buffer(block: Block, name: str, address: int, instances: int, slots: int, size: int, *, ring: bool) -> SSAValue:
    properties: dict[str, Attribute] = {"sym_name": StringAttr(name), **_ints(address=address, instances=instances)}
    if ring:
        properties["ring"] = RING
    kind = MemoryType(StringAttr("SMEM"), StringAttr("bf16"), IntAttr(slots), IntAttr(size), StringAttr("128B"))
    return _value(block, ac.BufferOp.create(properties=properties, result_types=[kind]))


@dataclass
class _Shared:
    ring: SSAValue
    a: SSAValue
    b: SSAValue
    a_map: SSAValue
    b_map: SSAValue
    c: SSAValue
    staging: SSAValue | None


DEFAULT = Shape()


def gemm(shape: Shape = DEFAULT) -> ModuleOp:
    """The program of the given shape."""
    body = Block()
    kernel = ac.KernelOp.create(
        properties={
            "sym_name": StringAttr("gemm"),
            "symbols": DictionaryAttr({"K": IntAttr(64), "tiles": IntAttr(8)}),
            "minima": DictionaryAttr({"K": IntAttr(1), "tiles": IntAttr(0)}),
            "grid": int_array([128, 1, 1]),
            "cluster": int_array([shape.cluster, 1, 1]),
            "block": int_array([128 * (shape.producers + shape.consumers), 1, 1]),
            **_ints(
                dynamic_smem_bytes=shape.smem_bytes,
                launch_registers=128 if shape.producers + shape.consumers > 3 else 168,
            ),
        },
        regions=[Region(body)],
    )
    module = ModuleOp([kernel])
    ring = _value(
        body,
        ac.RingOp.create(
            properties={
                "sym_name": RING,
                **_ints(
                    stages=shape.stages,
                    full_arrivals=shape.producers,
                    empty_arrivals=shape.consumers * shape.cluster,
                    address=shape.barrier_address,
                ),
            },
            result_types=[ac.RingType(RING, IntAttr(shape.stages))],
        ),
    )
    a = _buffer(body, "a", 0, 1, shape.stages, shape.a_bytes, ring=True)
    b = _buffer(body, "b", shape.stages * shape.a_bytes, 1, shape.stages, shape.b_bytes, ring=True)
    a_map = _map(body, "a_map", "A", (TILE_K, shape.tile_m))
    b_map = _map(body, "b_map", "B", (TILE_K, TILE_N // shape.cluster))
    staging = None
    if shape.store == "bulk":
        staging = _buffer(
            body, "staging", shape.staging_address, shape.consumers, shape.staging, shape.staging_bytes, ring=False
        )
        c = _map(body, "c_map", "C", (64, shape.rows))
    else:
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr("c"),
            "buffer": StringAttr("C"),
            "shape": int_array([4096, 4096]),
            "strides": int_array([4096, 1]),
        }
        kind = ac.GlobalType(StringAttr("bf16"), IntAttr(2))
        c = _value(body, ac.GlobalOp.create(properties=properties, result_types=[kind]))
    shared = _Shared(ring, a, b, a_map, b_map, c, staging)
    _add(body, ac.BarrierInitOp.create(operands=[ring]))
    _add(body, ac.FenceBarrierInitOp.create())
    _add(body, ac.CtaSyncOp.create() if shape.cluster == 1 else ac.ClusterSyncOp.create())
    if shape.producers == 1:
        _producer(body, shape, shared, "producer", 0, "ab")
    else:
        _producer(body, shape, shared, "producer_a", 0, "a")
        _producer(body, shape, shared, "producer_b", 128, "b")
    _consumer(body, shape, shared)
    if shape.cluster > 1:
        _add(body, ac.ClusterSyncOp.create())
    return module


def _role(body: Block, name: str, unit: str, count: int, first: int, registers: int) -> Block:
    block = Block(arg_types=[INDEX])
    execution = ExecutionAttr(StringAttr(unit), IntAttr(count), IntAttr(first))
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(name),
        "execution": execution,
        "registers": IntAttr(registers),
    }
    _add(body, ac.RoleOp.create(properties=properties, regions=[Region(block)]))
    return block


def _tiles(block: Block, cursor: SSAValue) -> tuple[Block, ac.TilesOp]:
    inner = Block(arg_types=[INDEX, INDEX, CURSOR])
    op = ac.TilesOp.create(
        operands=[cursor],
        result_types=[CURSOR],
        properties={"symbol": StringAttr("tiles"), **_ints(tiles_m=32, tiles_n=32, raster_group=8)},
        regions=[Region(inner)],
    )
    _add(block, op)
    return inner, op


def _loop(block: Block, begin: int, carried: Sequence[SSAValue]) -> tuple[Block, ac.LoopOp]:
    types = [value.type for value in carried]
    inner = Block(arg_types=[INDEX, *types])
    properties: dict[str, Attribute] = {"symbol": StringAttr("K"), "begin": IntAttr(begin)}
    op = ac.LoopOp.create(operands=carried, result_types=types, properties=properties, regions=[Region(inner)])
    _add(block, op)
    return inner, op


def _start(block: Block, ring: SSAValue, side: str) -> SSAValue:
    properties = {"side": StringAttr(side)}
    return _value(block, ac.CursorStartOp.create(operands=[ring], properties=properties, result_types=[CURSOR]))


def _advance(block: Block, cursor: SSAValue) -> SSAValue:
    return _value(block, ac.AdvanceOp.create(operands=[cursor], result_types=[CURSOR]))


def _wait(block: Block, ring: SSAValue, cursor: SSAValue, side: str) -> SSAValue:
    properties: dict[str, Attribute] = {"side": StringAttr(side), **_ints(invert_parity=int(side == "empty"))}
    kind = ac.PhaseType(RING, StringAttr(side))
    return _value(block, ac.BarrierWaitOp.create(operands=[ring, cursor], properties=properties, result_types=[kind]))


def _tx(size: int) -> ac.TransactionType:
    return ac.TransactionType(RING, IntAttr(size))


def _producer(body: Block, shape: Shape, shared: _Shared, name: str, first_thread: int, operands: str) -> None:
    """operands: letters of those that it copies."""
    role = _role(body, name, "thread1", 1, first_thread, 40)
    tiles, _ = _tiles(role, _start(role, shared.ring, "empty"))
    m, n, cursor = tiles.args
    loop, loop_op = _loop(tiles, 0, [cursor])
    k, position = loop.args
    phase = _wait(loop, shared.ring, position, "empty")
    total = sum({"a": shape.a_bytes, "b": shape.b_bytes}[operand] for operand in operands)
    tx = _value(
        loop, ac.ArriveExpectOp.create(operands=[phase], properties=_ints(bytes=total), result_types=[_tx(total)])
    )
    depth = _affine(loop, [(k, TILE_K)])
    copies = (
        (shared.a_map, shared.a, shape.a_bytes, 1, _affine(loop, [(m, shape.tile_m)])),
        (shared.b_map, shared.b, shape.b_bytes // shape.cluster, shape.cluster, _affine(loop, [(n, TILE_N)])),
    )
    for letter, (descriptor, buffer, box_bytes, multicast, outer) in zip("ab", copies, strict=True):
        if letter not in operands:
            continue
        total -= box_bytes * multicast
        properties = _ints(
            offset_bytes=0,
            rank_offset_bytes=box_bytes if multicast > 1 else 0,
            box_bytes=box_bytes,
            multicast=multicast,
        )
        values = [descriptor, buffer, tx, depth, outer]
        tx = _value(loop, ac.CopyIssueOp.create(operands=values, properties=properties, result_types=[_tx(total)]))
    _add(loop, ac.TransactionCloseOp.create(operands=[tx]))
    _add(loop, ac.YieldOp.create(operands=[_advance(loop, position)]))
    _add(tiles, ac.YieldOp.create(operands=[loop_op.outputs[0]]))


def _multiply(
    block: Block, shape: Shape, shared: _Shared, unit: SSAValue, cursor: SSAValue, running: SSAValue | None
) -> tuple[SSAValue, SSAValue]:
    phase = _wait(block, shared.ring, cursor, "full")
    _add(block, ac.WgmmaFenceOp.create())
    steps = int_array([32 * step for step in range(TILE_K // 16)])
    properties: dict[str, Attribute] = {
        **_ints(m=shape.rows, n=TILE_N, steps=TILE_K // 16),
        **_ints(a_leading_bytes=16, a_stride_bytes=1024, a_block_bytes=8192, a_instance_bytes=shape.rows * 128),
        **_ints(b_leading_bytes=16, b_stride_bytes=1024),
        "element": StringAttr("bf16"),
        "a_major": StringAttr("K"),
        "b_major": StringAttr("K"),
        "a_step_bytes": steps,
        "b_step_bytes": steps,
    }
    operands = [phase, shared.a, shared.b, unit, running, None]
    results = [ac.InflightType(IntAttr(shape.rows), IntAttr(TILE_N)), ac.ReadingType(RING), None]
    op = _add(block, ac.WgmmaIssueOp.build(operands=operands, properties=properties, result_types=results))
    _add(block, ac.WgmmaCommitOp.create())
    return op.results[0], op.results[1]


def _wgmma_wait(block: Block, pending: int, reading: SSAValue, running: SSAValue | None = None) -> Operation:
    present = DenseArrayBase.from_list(i32, [1, int(running is not None)])
    results: list[Attribute] = [ac.PhaseType(RING, StringAttr("retired"))]
    if running is not None:
        kind = running.type
        assert isinstance(kind, ac.InflightType)
        results.append(ac.AccumulatorType(kind.m, kind.n))
    properties: dict[str, Attribute] = {
        **_ints(pending=pending),
        "operandSegmentSizes": present,
        "resultSegmentSizes": present,
    }
    operands = [reading, *([running] if running is not None else [])]
    return _add(block, ac.WgmmaWaitOp.create(operands=operands, properties=properties, result_types=results))


def _consumer(body: Block, shape: Shape, shared: _Shared) -> None:
    registers = {2: 232, 3: 232 if shape.producers == 1 else 208, 4: 152}[shape.producers + shape.consumers]
    role = _role(body, "consumer", "warpgroup128", shape.consumers, 128 * shape.producers, registers)
    unit = role.args[0]
    tiles, _ = _tiles(role, _start(role, shared.ring, "full"))
    m, n, cursor = tiles.args
    running, reading = _multiply(tiles, shape, shared, unit, cursor, None)
    loop, loop_op = _loop(tiles, 1, [_advance(tiles, cursor), running, reading])
    _, position, loop_running, held = loop.args
    updated, newly = _multiply(loop, shape, shared, unit, position, loop_running)
    retired = _wgmma_wait(loop, 1, held).results[0]
    _add(loop, ac.ArriveOp.create(operands=[retired], properties=_ints(peers=shape.cluster)))
    _add(loop, ac.YieldOp.create(operands=[_advance(loop, position), updated, newly]))
    last_cursor, last_running, last_reading = loop_op.outputs
    drained = _wgmma_wait(tiles, 0, last_reading, last_running)
    _add(tiles, ac.ArriveOp.create(operands=[drained.results[0]], properties=_ints(peers=shape.cluster)))
    _epilogue(tiles, shape, shared, unit, (m, n), drained.results[1])
    _add(tiles, ac.YieldOp.create(operands=[last_cursor]))
    if shape.store == "bulk":
        _add(role, ac.BulkWaitOp.create(operands=[unit], properties=_ints(pending=0, read=0)))


def _epilogue(
    block: Block, shape: Shape, shared: _Shared, unit: SSAValue, tile: tuple[SSAValue, SSAValue], settled: SSAValue
) -> None:
    region = Block(arg_types=[ac.ScalarType()])
    element = StringAttr("bf16")
    rounded = _value(
        region,
        ac.RoundOp.create(operands=[region.args[0]], properties={"element": element}, result_types=[ac.ScalarType()]),
    )
    _add(region, ac.YieldOp.create(operands=[rounded]))
    fragment_type = ac.FragmentType(IntAttr(shape.rows), IntAttr(TILE_N), StringAttr("mn"), element)
    fragment = _value(
        block,
        FragmentMapOp.create(
            operands=[settled],
            properties={"deferred": IntAttr(1), "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 0])},
            result_types=[fragment_type],
            regions=[Region(region)],
        ),
    )
    row = _affine(block, [(tile[0], shape.tile_m), (unit, shape.rows)])
    if shape.store == "plain":
        column = _affine(block, [(tile[1], TILE_N)])
        _add(block, ac.GlobalStoreOp.create(operands=[fragment, shared.c, row, column]))
        return
    assert shared.staging is not None
    barrier = _ints(first_barrier=1, threads=128)

    def staged(state: str) -> ac.StagedType:
        return ac.StagedType(StringAttr("staging"), StringAttr(state))

    for number in range(TILE_N // 64):
        slot = number % shape.staging
        _add(block, ac.BulkWaitOp.create(operands=[unit], properties=_ints(pending=shape.staging - 1, read=1)))
        _add(block, ac.NamedBarrierSyncOp.create(operands=[unit], properties=dict(barrier)))
        written = _value(
            block,
            ac.StageWriteOp.create(
                operands=[fragment, shared.staging, unit],
                properties=_ints(column_begin=64 * number, column_end=64 * number + 64, slot=slot),
                result_types=[staged("written")],
            ),
        )
        fenced = _value(block, ac.FenceProxyOp.create(operands=[written], result_types=[staged("fenced")]))
        ready = _value(
            block,
            ac.NamedBarrierSyncOp.create(
                operands=[unit, fenced], properties=dict(barrier), result_types=[staged("ready")]
            ),
        )
        column = _affine(block, [(tile[1], TILE_N)], 64 * number)
        _add(
            block,
            ac.CopyStoreOp.create(
                operands=[shared.c, shared.staging, unit, ready, column, row],
                properties=_ints(slot=slot, box_bytes=shape.staging_bytes),
            ),
        )
        _add(block, ac.BulkCommitOp.create(operands=[unit]))


def reparsed(module: ModuleOp) -> ModuleOp:
    """The module printed and parsed again."""
    return Parser(context(), str(module)).parse_module()
