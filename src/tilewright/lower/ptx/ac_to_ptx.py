"""How an `ac` kernel becomes PTX text: one op at a time, with no decision left to take.

Roles become branches on the warpgroup's number; rings become mbarrier arrays in dynamic shared memory; cursors two
registers (stage, parity); loops carry values in registers moved at the back edge. Sources: PTX ISA, sections on
mbarrier, cp.async.bulk.tensor, wgmma, setmaxnreg. The result is checked by others: the reader parses it afresh,
`machine` runs it, `contract` judges what it did.

The sequence of instructions depends on the decisions alone: extents and trip counts appear only as immediates, so that
what is seen of a small instance holds for a large one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Block, Operation

from tilewright.base.size import Size, computed, number_of, product
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import AsyncCopyArriveOp, AsyncCopyFenceOp, AsyncCopyIssueOp, AsyncCopyWaitOp
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.fragment import OPERATIONS as FRAGMENT_OPERATIONS
from tilewright.ir.ac.handed import OPERATIONS as HANDED_OPERATIONS
from tilewright.ir.ac.issue_order import IssueOrderEndOp, IssueOrderStartOp, IssuePassOp, IssueTakeOp
from tilewright.ir.ac.promotion import PromotedReadOp, PromotedStartOp, PromoteOp, ScalesLoadOp
from tilewright.ir.ac.register_operand import ComputedIssueOp, OperandReadOp, VectorLoadOp
from tilewright.ir.ac.remade import OPERATIONS as REMADE_OPERATIONS
from tilewright.ir.ac.split import SplitPartOp
from tilewright.ir.ac.stream import (
    STREAM_INDICES,
    PartialAddOp,
    PartialStoreOp,
    StreamPart,
    StreamPartOp,
    TurnStreamPartOp,
)
from tilewright.ir.ac.team import TeamAfterOp, TeamSumOp
from tilewright.ir.ac.tensor_memory import (
    SLOT_OPERATIONS,
    UNIT_OPERATIONS,
    TensorMemoryOp,
    TensorSetUp,
)
from tilewright.ir.decisions import rows_of, transpose_of
from tilewright.ir.sizes import sizes_of
from tilewright.ir.tier import UNITS, MemoryType
from tilewright.lower.distribution.group_tiles import close_tile, find_next, open_tile, start_walk
from tilewright.lower.distribution.issue_order import lower_issue_order
from tilewright.lower.distribution.raster import of_matrices_together, order_of, quotient_and_rest, raster
from tilewright.lower.distribution.split_reduction import lower_cluster_reduce, lower_split_part
from tilewright.lower.distribution.stream_partials import lower_partial_add, lower_partial_store
from tilewright.lower.distribution.stream_parts import close_parts, open_parts
from tilewright.lower.distribution.team_sum import lower_team_after, lower_team_sum
from tilewright.lower.distribution.tile_range import lower_range, lower_unit_pass, lower_unit_range, pass_tile
from tilewright.lower.distribution.turns import lower_turn_pass, skip_slots, start_turns, wait_for_turn
from tilewright.lower.fragment.group_rows import lower_rows_store
from tilewright.lower.fragment.promotion import lower_promotion
from tilewright.lower.fragment.register_operand import keep_read_registers, lower_register_operand
from tilewright.lower.fragment.registers import add_parts, lower_fragment
from tilewright.lower.points.array_part import lower_part
from tilewright.lower.points.elementwise import lower_elementwise
from tilewright.lower.points.rows import lower_rows
from tilewright.lower.points.runs import lower_runs
from tilewright.lower.points.transpose import lower_transpose
from tilewright.lower.ptx.carried import carry_back, carry_in, carry_out, move, yielded_places
from tilewright.lower.ptx.cluster_sync import lower_sync
from tilewright.lower.ptx.copies.async_copy import lower_async_copy
from tilewright.lower.ptx.copies.fragment_memory import (
    lower_bulk_commit,
    lower_bulk_wait,
    lower_fence_proxy,
    lower_fragment_load,
    lower_slot_write,
    lower_store,
)
from tilewright.lower.ptx.copies.prefetch import lower_box_prefetch, lower_prefetch
from tilewright.lower.ptx.copies.remade import lower_remade
from tilewright.lower.ptx.copies.rings import (
    keep_releases_first,
    lower_advance,
    lower_arrive,
    lower_arrive_expect,
    lower_copy_issue,
    lower_copy_store,
    lower_drain,
    meet,
)
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.handed import lower_handed
from tilewright.lower.ptx.indices import first_ahead, lower_affine, lower_index_divide, lower_index_load, next_ahead
from tilewright.lower.ptx.lowering import WARP_ROWS, Lowering, integers
from tilewright.lower.ptx.module_head import head_of_kernels
from tilewright.lower.ptx.places import (
    BufferPlace,
    CursorPlace,
    GlobalPlace,
    IndexPlace,
    NoPlace,
    ParameterPlace,
    Place,
    RingPlace,
)
from tilewright.lower.ptx.products.tensor_core import lower_wgmma_issue
from tilewright.lower.ptx.products.tensor_memory import (
    declare_memory,
    enter_role,
    lower_set_up,
    lower_tensor,
)
from tilewright.lower.ptx.products.tensor_slots import lower_barrier_wait, lower_slots
from tilewright.lower.ptx.run_time import (
    CLUSTERS,
    OF_MATRIX,
    TILES,
    TWICE_CLUSTERS,
    PassedSizes,
    clusters_launched,
    count_name,
    counts_of,
    extent_name,
    tiles_in_all,
    tiles_of_clusters,
)
from tilewright.lower.ptx.spill_slots import spill_slots_of, with_spill_slots
from tilewright.targets import target as target_named

_Op = TypeVar("_Op", bound=Operation)


def the_kernel(module: ModuleOp) -> ac.KernelOp:
    """The single kernel of a module."""
    (kernel,) = [op for op in module.ops if isinstance(op, ac.KernelOp)]
    return kernel


def lower_to_ptx(modules: Sequence[ModuleOp], target: str) -> str:
    """One PTX module for `target` (such as `sm_90a`) with the kernel of each of `modules` as an entry."""
    kernels = [the_kernel(module) for module in modules]
    return "\n".join([*head_of_kernels(target, kernels), *(_entry_text(kernel, target) for kernel in kernels)])


def _entry_text(kernel: ac.KernelOp, target: str) -> str:
    text = Text()
    symbols: dict[str, Size] = {name: cast("IntAttr", count).data for name, count in kernel.symbols.data.items()}
    symbols |= counts_of(kernel)
    cluster = integers(kernel.cluster)
    size = cluster[0] * cluster[1] * cluster[2]
    registers, facts = kernel.launch_registers.data, target_named(target)
    lowering = Lowering(text, {}, symbols, size, registers, facts, PassedSizes.of(kernel))
    waits = any(isinstance(op, ac.GridWaitOp) for op in kernel.walk())
    parameters = _lower_declarations(lowering, kernel.body.block, waits=waits) + lowering.passed.declarations()
    _lower_fixed_registers(lowering, kernel)
    for op in kernel.body.block.ops:
        _lower_top_level(lowering, op)
    text.emit("ret")
    slots = spill_slots_of(kernel)
    if slots is not None:
        whole = "\n".join([*head_of_kernels(target, [kernel]), _written(kernel, parameters, text)])
        with_spill_slots(text, whole, slots, lowering.shared_base)
    return _written(kernel, parameters, text)


def _written(kernel: ac.KernelOp, parameters: Sequence[str], text: Text) -> str:
    block, cluster = integers(kernel.block), integers(kernel.cluster)
    head = [f".visible .entry {kernel.sym_name.data}(", ",\n".join(parameters), ")"]
    head.append(f".reqntid {block[0]}, {block[1]}, {block[2]}")
    if cluster != (1, 1, 1):
        head += [".explicitcluster", f".reqnctapercluster {cluster[0]}, {cluster[1]}, {cluster[2]}"]
    if kernel.launch_registers.data:
        head.append(f".maxnreg {kernel.launch_registers.data}")
    return "\n".join([*head, "{", *text.declarations(), "", *text.lines, "}", ""])


# ---------------------------------------------------------------- declarations


def _lower_declarations(lowering: Lowering, block: Block, *, waits: bool) -> list[str]:
    """waits: whether the kernel may begin before the grid before it has ended."""
    parameters: list[str] = []
    text = lowering.text
    # What an earlier grid may still write while this one runs must not be read through the read-only cache.
    load = "ld.global" if waits else "ld.global.nc"
    for op in block.ops:
        match op:
            case ac.RingOp():
                lowering.places[op.result] = RingPlace(
                    op.stages.data, op.address.data, op.full_arrivals.data, op.empty_arrivals.data
                )
            case ac.BufferOp():
                memory = op.result.type
                assert isinstance(memory, MemoryType)
                lowering.places[op.result] = BufferPlace(
                    op.address.data,
                    memory.slots.data,
                    memory.slot_bytes.data,
                    op.instances.data,
                    memory.swizzle.data,
                    memory.element.data,
                )
            case TensorMemoryOp():
                lowering.places[op.result] = declare_memory(op)
            case ac.TensorMapOp():
                name = f"{op.sym_name.data}_param"
                parameters.append(f"\t.param .align 64 .b8 {name}[128]")
                # The copy engine reads the map through a generic address of the parameter itself, without a copy.
                address = text.into("b64", "mov.b64", name)
                lowering.places[op.result] = ParameterPlace(text.into("b64", "cvta.param.u64", address))
            case ac.GlobalOp():
                name = f"{op.sym_name.data}_param"
                parameters.append(f"\t.param .u64 {name}")
                pointer = text.into("b64", "ld.param.u64", f"[{name}]")
                element = op.result.type
                assert isinstance(element, ac.GlobalType)
                lowering.places[op.result] = GlobalPlace(
                    text.into("b64", "cvta.to.global.u64", pointer),
                    element.element.data,
                    tuple(lowering.passed.operand(text, extent_name(size), size) for size in sizes_of(op.shape)),
                    sizes_of(op.strides),
                    load,
                )
            case _:
                pass
    return parameters


def _lower_fixed_registers(lowering: Lowering, kernel: ac.KernelOp) -> None:
    text = lowering.text
    lowering.thread = text.into("b32", "mov.u32", "%tid.x")
    if not kernel.dynamic_smem_bytes.data:
        return
    lowering.shared_base = text.into("b32", "mov.u32", "dynamic_smem")
    lowering.warpgroup_thread = text.into("b32", "and.b32", lowering.thread, 127)
    lowering.is_first_thread = text.into("pred", "setp.eq.u32", lowering.warpgroup_thread, 0)
    # Broadcast from lane 0, so that the assembler knows the role's branch to be uniform in each warp.
    group = text.into("b32", "shr.u32", lowering.thread, 7)
    lowering.warpgroup = text.into("b32", "shfl.sync.idx.b32", group, 0, 31, -1)


# ---------------------------------------------------------------- structure


def _lower_top_level(lowering: Lowering, op: Operation) -> None:
    text = lowering.text
    match op:
        case ac.RingOp() | ac.BufferOp() | ac.TensorMapOp() | ac.GlobalOp() | TensorMemoryOp():
            if isinstance(op, ac.TensorMapOp):
                place = lowering.place(op.result)
                assert isinstance(place, ParameterPlace)
                is_thread_zero = text.into("pred", "setp.eq.u32", lowering.thread, 0)
                text.emit("prefetch.tensormap", f"[{place.register}]", guard=is_thread_zero)
        case ac.BarrierInitOp():
            ring = lowering.place(op.ring)
            assert isinstance(ring, RingPlace)
            # One branch round them all: the assembler makes a branch of every guarded one.
            others, done = text.into("pred", "setp.ne.u32", lowering.thread, 0), text.label("initialised")
            text.emit("bra", done, guard=others)
            for stage in range(ring.stages):
                for offset, count in ((stage, ring.full_arrivals), (ring.stages + stage, ring.empty_arrivals)):
                    address = f"[{lowering.shared_base}+{ring.address + 8 * offset}]"
                    text.emit("mbarrier.init.shared::cta.b64", address, count)
            text.place(done)
        case ac.FenceBarrierInitOp():
            text.emit("fence.mbarrier_init.release.cluster")
        case ac.CtaSyncOp() | ac.ClusterSyncOp():
            lower_sync(lowering, op)
        case _ if isinstance(op, TensorSetUp):
            lower_set_up(lowering, op)
        case ac.PrefetchOp():
            lower_prefetch(lowering, op, ac.kernel_of(op))
        case ac.GridWaitOp() | ac.GridReleaseOp():
            _lower_grid_order(lowering, op)
        case ac.RoleOp():
            _lower_role(lowering, op)
        case _:
            raise AssertionError(f"{op.name} cannot stand directly in a kernel")


def _lower_grid_order(lowering: Lowering, op: ac.GridWaitOp | ac.GridReleaseOp) -> None:
    lowering.text.emit("griddepcontrol.wait" if isinstance(op, ac.GridWaitOp) else "griddepcontrol.launch_dependents")


def _lower_role(lowering: Lowering, role: ac.RoleOp) -> None:
    text, execution = lowering.text, role.execution
    text.comment(f"role {role.sym_name.data}")
    unit, count, first = execution.unit.data, execution.count.data, execution.first_thread.data
    (argument,) = role.body.block.args
    if unit == "warp32":  # every thread of the CTA; used by kernels without an asynchronous protocol
        lowering.places[argument] = IndexPlace(lowering.thread)
        _lower_block(lowering, role.body.block)
        return
    end = text.label("role_end")
    groups = max(1, UNITS[unit] * count // 128)
    below = text.into("pred", "setp.lt.u32", lowering.warpgroup, first // 128)
    text.emit("bra", end, guard=below)
    above = text.into("pred", "setp.ge.u32", lowering.warpgroup, first // 128 + groups)
    text.emit("bra", end, guard=above)
    if role.registers.data:
        _lower_register_budget(lowering, role.registers.data)
    of_group = lowering.is_first_thread
    if unit == "thread1":
        lowering.is_first_thread = _elected_thread(lowering) if is_set(role.elected) else of_group
        text.emit("bra", end, guard=f"!{lowering.is_first_thread}")
    lowering.leads = is_set(role.leader)
    if lowering.leads:
        rank = text.into("b32", "mov.u32", "%cluster_ctarank")
        text.emit("bra", end, guard=text.into("pred", "setp.ne.u32", rank, 0))
    number = text.into("b32", "sub.u32", lowering.warpgroup, first // 128)
    lowering.places[argument] = IndexPlace(number)
    lowering.warp_rows = WARP_ROWS if role.warp_rows is None else role.warp_rows.data
    enter_role(lowering, role)
    _lower_block(lowering, role.body.block)
    text.place(end)
    lowering.is_first_thread = of_group


def _elected_thread(lowering: Lowering) -> str:
    """The predicate of one thread of a warpgroup, of its first warp, which the assembler knows to be one: behind a
    comparison of thread numbers it makes a loop over lanes of every copy that the thread starts."""
    text, elected = lowering.text, lowering.text.register("pred")
    text.emit("elect.sync", f"_|{elected}", "0xffffffff")
    first_warp = text.into("pred", "setp.lt.u32", lowering.warpgroup_thread, 32)
    return text.into("pred", "and.pred", elected, first_warp)


def _lower_register_budget(lowering: Lowering, registers: int) -> None:
    direction = "inc" if registers > lowering.launch_registers else "dec"
    lowering.text.emit(f"setmaxnreg.{direction}.sync.aligned.u32", registers)


def _lower_block(lowering: Lowering, block: Block) -> None:
    for op in block.ops:
        _lower_op(lowering, op)


def _of_cta(text: Text, number: str, axis: str, ctas: int) -> str:
    """This CTA's tile along an axis, of the cluster's `number`th; ctas: of the cluster along it."""
    if ctas == 1:
        return number
    rank = text.into("b32", "mov.u32", f"%cluster_ctaid.{axis}")
    return text.into("b32", "mad.lo.u32", number, ctas, rank)


def _lower_tiles(lowering: Lowering, op: ac.TilesOp, kernel: ac.KernelOp) -> None:
    """tile = cluster number; while tile < total: (m, n) = raster(tile); body; tile += number of clusters. Where every
    other round goes in the opposite direction, what is added alternates. Where the hardware hands tiles out, the first
    one is the CTA's own, and what the body takes says which is next (`handed`)."""
    text, cluster, passed = lowering.text, integers(kernel.cluster), lowering.passed
    tiles = tiles_of_clusters(op, kernel)
    handed, total, step = is_set(op.handed), "", ""
    if not handed:
        total = passed.operand(text, TILES, tiles_in_all(op, kernel))
        step = passed.register(text, CLUSTERS, clusters_launched(kernel))
    block = op.body.block
    tile = text.register("b32")
    if lowering.cluster_size > 1:
        text.emit("mov.u32", tile, "%clusterid.x")
    else:
        text.emit("mov.u32", tile, "%ctaid.x")
    if op.first:
        text.emit("add.u32", tile, tile, text.into("b32", "mov.u32", op.first))
    both = ""
    if op.together is not None and not handed:
        # From CTA c of C to the mirrored place of the next round, 2 C - 1 - 2 c; from there on, 1 + 2 c.
        both = passed.register(text, TWICE_CLUSTERS, computed("*", clusters_launched(kernel), 2))
        first = text.into("b32", "sub.s32", both, 1)
        step = text.into("b32", "mad.lo.s32", tile, text.into("b32", "mov.s32", -2), first)
    carry_in(lowering, block, op.indices, tuple(op.carried))
    head, end = text.label("tiles"), text.label("tiles_end")
    text.place(head)
    if not handed:
        text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", tile, total))
    of_matrix = tile
    if op.batch is not None or op.together is not None:
        of_matrix = _place_in_batch(lowering, op, tile, product(tiles))
    if op.batch is not None and tiles[1] == 1:
        # Of one column, a number is a row: without so many instructions the first product of a tile begins earlier.
        m, n = of_matrix, text.into("b32", "mov.u32", 0)
    else:
        m, n = raster(text, of_matrix, *tiles, op.raster_group.data, order_of(op), passed)
    lowering.places[block.args[0]] = IndexPlace(_of_cta(text, m, "x", cluster[0]))
    lowering.places[block.args[1]] = IndexPlace(_of_cta(text, n, "y", cluster[1]))
    _lower_block(lowering, block)
    carry_back(lowering, block, op.indices)
    left = lowering.left_tiles.get(block)
    if left is not None:
        text.place(left.following)
    if handed:
        following, more = lowering.granted[op]
        text.emit("mov.u32", tile, following)
        text.emit("bra", head, guard=more)
    else:
        text.emit("add.u32", tile, tile, step)
        if both:
            text.emit("sub.u32", step, both, step)
        text.emit("bra", head)
    if left is not None:
        assert not handed, "units of tiles that are handed out read each answer"
        pass_tile(lowering, left)
    text.place(end)
    carry_out(lowering, op, op.indices)


def _place_in_batch(lowering: Lowering, op: ac.TilesOp | ac.TurnTilesOp, tile: str, tiles: Size) -> str:
    """The tile's number in its matrix, of so many tiles, which are known where matrices are taken together; where the
    matrix stands is the loop's further indices."""
    text = lowering.text
    together = op.matrices_together if isinstance(op, ac.TilesOp) else None
    if together is not None:
        matrix, number = of_matrices_together(text, tile, tiles, together, op.matrices, lowering.passed)
    else:
        matrix, number = quotient_and_rest(text, tile, tiles, lowering.passed, OF_MATRIX)
    for place in range(len(op.batches) - 1, -1, -1):
        index = matrix
        if place:
            extent = lowering.passed.operand(text, extent_name(op.batches[place]), op.batches[place])
            index = text.into("b32", "rem.u32", matrix, extent)
            matrix = text.into("b32", "div.u32", matrix, extent)
        lowering.places[op.body.block.args[ac.TILE_INDICES + place]] = IndexPlace(index)
    return number


def _lower_stream_part(lowering: Lowering, op: StreamPart) -> None:
    """The CTA's heads, or its tail, of streamed tiles."""
    text, block = lowering.text, op.body.block
    carry_in(lowering, block, STREAM_INDICES, tuple(op.carried))
    walk = open_parts(lowering, op, block.args[STREAM_INDICES:])
    m, n = raster(text, walk.tile, op.tiles_m.data, op.tiles_n.data, op.raster_group.data, order_of(op))
    places = (m, n, walk.tile, walk.first_slice)
    lowering.places.update(zip(block.args[:STREAM_INDICES], map(IndexPlace, places), strict=True))
    _lower_block(lowering, block)
    carry_back(lowering, block, STREAM_INDICES)
    close_parts(lowering, op, walk)
    carry_out(lowering, op, STREAM_INDICES)


def _lower_turn_tiles(lowering: Lowering, op: ac.TurnTilesOp, kernel: ac.KernelOp) -> None:
    """This unit's tiles: every second one of the cluster's."""
    text, block, passed = lowering.text, op.body.block, lowering.passed
    tiles = tiles_of_clusters(op, kernel)
    total = passed.operand(text, TILES, tiles_in_all(op, kernel))
    slots = number_of(lowering.symbols[op.skipped.data])
    walk = start_turns(lowering, op, clusters_launched(kernel))
    carry_in(lowering, block, op.indices, tuple(op.carried))
    for argument in block.args[op.indices :]:
        skip_slots(lowering, argument, slots, walk.ahead)
    head, end = text.label("tiles"), text.label("tiles_end")
    text.place(head)
    text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", walk.tile, total))
    number = walk.tile
    if op.batch is not None:
        number = _place_in_batch(lowering, op, walk.tile, product(tiles))
    places = raster(text, number, *tiles, op.raster_group.data, order_of(op), passed)
    for argument, place, axis, ctas in zip(block.args, places, "xy", integers(kernel.cluster), strict=False):
        lowering.places[argument] = IndexPlace(_of_cta(text, place, axis, ctas))
    wait_for_turn(lowering, walk)
    _lower_block(lowering, block)
    carry_back(lowering, block, op.indices)
    for argument in block.args[op.indices :]:
        skip_slots(lowering, argument, slots)
    text.emit("add.u32", walk.tile, walk.tile, walk.step)
    text.emit("bra", head)
    text.place(end)
    carry_out(lowering, op, op.indices)


def _lower_group_tiles(lowering: Lowering, op: ac.GroupLoop, kernel: ac.KernelOp) -> None:
    grid, block = sizes_of(kernel.grid), op.body.block
    ctas, carried = number_of(product(grid)), block.args[ac.GROUP_INDICES :]
    turns = start_turns(lowering, op, ctas) if isinstance(op, ac.TurnGroupTilesOp) else None
    slots = number_of(lowering.symbols[op.skipped.data]) if isinstance(op, ac.TurnGroupTilesOp) else 0
    walk = start_walk(lowering, op, ctas, turns)
    carry_in(lowering, block, ac.GROUP_INDICES, tuple(op.carried))
    if turns is not None:
        for argument in carried:
            skip_slots(lowering, argument, slots, turns.ahead)
    indices = open_tile(lowering, walk)
    lowering.places.update(zip(block.args[: ac.GROUP_INDICES], indices, strict=True))
    if turns is not None:
        wait_for_turn(lowering, turns)
    _lower_block(lowering, block)
    if not any(isinstance(inner, ac.NextGroupTileOp) for inner in block.ops):
        find_next(lowering, walk)
    carry_back(lowering, block, ac.GROUP_INDICES)
    if turns is not None:
        for argument in carried:
            skip_slots(lowering, argument, slots)
    close_tile(lowering, walk)
    carry_out(lowering, op, ac.GROUP_INDICES)


def _lower_loop(lowering: Lowering, op: ac.LoopOp) -> None:
    text, block = lowering.text, op.body.block
    trips, own = lowering.symbols[op.symbol.data], lowering.trips.get(op.symbol.data)
    copies = op.copies.data if op.copies is not None else 1
    left = (number_of(trips) - op.begin.data) % copies if copies > 1 else 0
    assert own is None or copies == 1, "copies of the body of a loop whose trips a register holds"
    index = text.into("b32", "mov.u32", op.begin.data)
    carry_in(lowering, block, 1, tuple(op.carried))
    heads = [lowering.place(argument) for argument in block.args[1:]]
    head, end = text.label("loop"), text.label("loop_end")
    ahead = first_ahead(lowering, block, index) if copies == 1 else {}
    text.place(head)
    last = own or lowering.passed.operand(
        text, count_name(op.symbol.data), trips if copies == 1 else number_of(trips) - left
    )
    text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", index, last))
    following = next_ahead(lowering, block, index, ahead)
    yielded = _lower_copies(lowering, block, index, heads, copies)
    move(text, heads, yielded)
    for load, register in ahead.items():
        text.emit("mov.b32", register, following[load])
    text.emit("add.u32", index, index, copies)
    text.emit("bra", head)
    text.place(end)
    for result, place in zip(op.outputs, _lower_copies(lowering, block, index, heads, left), strict=True):
        lowering.places[result] = place
    add_parts(lowering, op)


def _lower_copies(lowering: Lowering, block: Block, index: str, heads: list[Place], copies: int) -> list[Place]:
    """Copies of a loop's body in a row, from `index` on; where its carried values are then. What one copy yields is the
    next one's, without a move."""
    current = heads
    for copy in range(copies):
        number = lowering.text.into("b32", "add.u32", index, copy) if copy else index
        lowering.places[block.args[0]] = IndexPlace(number)
        lowering.places.update(zip(block.args[1:], current, strict=True))
        _lower_block(lowering, block)
        current = yielded_places(lowering, block)
    return current


# ---------------------------------------------------------------- ops inside roles


def _lower_op(lowering: Lowering, op: Operation) -> None:
    lower = _LOWERED.get(type(op))
    if lower is None:
        raise AssertionError(f"no lowering for {op.name}")
    lower(lowering, op)


def _of_kernel(lower: Callable[[Lowering, _Op, ac.KernelOp], None]) -> Callable[[Lowering, _Op], None]:
    """What lowers an operation that asks its kernel something."""
    return lambda lowering, op: lower(lowering, op, ac.kernel_of(op))


def _placed(lower: Callable[[Lowering, Any], Place]) -> Callable[[Lowering, Any], None]:
    """What lowers an operation whose only result is at the place that `lower` gives."""

    def place(lowering: Lowering, op: Operation) -> None:
        lowering.places[op.results[0]] = lower(lowering, op)

    return place


def _emitted(opcode: str) -> Callable[[Lowering, Operation], None]:
    return lambda lowering, op: lowering.text.emit(opcode)


def _nothing(lowering: Lowering, op: Operation) -> None:
    """For the proof alone, or read where its block is lowered."""


def _lower_cursor_start(lowering: Lowering, op: ac.CursorStartOp) -> Place:
    return CursorPlace(lowering.text.into("b32", "mov.u32", 0), lowering.text.into("b32", "mov.u32", 0))


def _lower_release(lowering: Lowering, op: ac.ArriveOp) -> None:
    lower_arrive(lowering, op)
    keep_releases_first(lowering, op)


def _lower_wgmma_wait(lowering: Lowering, op: ac.WgmmaWaitOp) -> None:
    if not isinstance(before := op.prev_op, ac.WgmmaWaitOp) or before.pending != op.pending:
        lowering.text.emit("wgmma.wait_group.sync.aligned", op.pending.data)
    if op.reading is not None:
        keep_read_registers(lowering, op.reading)
    if op.retired is not None and op.reading is not None:
        lowering.places[op.retired] = lowering.place(op.reading)
    if op.settled is not None and op.accumulator is not None:
        lowering.places[op.settled] = lowering.place(op.accumulator)


def _lower_split_index(lowering: Lowering, op: ac.SplitIndexOp) -> Place:
    return IndexPlace(lowering.text.into("b32", "mov.u32", "%cluster_ctaid.z"))


def _lower_named_barrier_sync(lowering: Lowering, op: ac.NamedBarrierSyncOp) -> None:
    meet(lowering, op.unit, op.first_barrier.data, op.threads.data)
    if op.result is not None:
        lowering.places[op.result] = NoPlace()


def _lower_next_group_tile(lowering: Lowering, op: ac.NextGroupTileOp) -> None:
    block = op.parent_block()
    assert block is not None
    find_next(lowering, lowering.walks[block])


def _lower_points(lowering: Lowering, op: ac.ElementwiseOp) -> None:
    if op.rows is not None:
        lower_rows(lowering, op, rows_of(op.rows))
    elif op.transpose is not None:
        lower_transpose(lowering, op, transpose_of(op.transpose))
    elif op.run is None or op.run.data == 1:
        lower_elementwise(lowering, op)
    else:
        lower_runs(lowering.text, lowering.places, op, op.run.data, lowering.thread)


# By class: to tell an operation from all others one after the other takes longer than to emit it.
_LOWERED: Mapping[type[Operation], Callable[[Lowering, Any], None]] = {
    ac.TilesOp: _of_kernel(_lower_tiles),
    ac.TurnTilesOp: _of_kernel(_lower_turn_tiles),
    ac.TurnPassOp: lower_turn_pass,
    ac.GridWaitOp: _lower_grid_order,
    ac.GridReleaseOp: _lower_grid_order,
    ac.GroupTilesOp: _of_kernel(_lower_group_tiles),
    ac.TurnGroupTilesOp: _of_kernel(_lower_group_tiles),
    StreamPartOp: _lower_stream_part,
    TurnStreamPartOp: _lower_stream_part,
    PartialStoreOp: lower_partial_store,
    PartialAddOp: lower_partial_add,
    ac.LoopOp: _lower_loop,
    ac.YieldOp: _nothing,
    ac.AffineOp: _placed(lower_affine),
    ac.IndexDivideOp: _placed(lower_index_divide),
    ac.IndexLoadOp: _placed(lower_index_load),
    ac.RangeOp: _placed(lower_range),
    ac.UnitRangeOp: lower_unit_range,
    ac.UnitPassOp: lower_unit_pass,
    ac.GlobalPartOp: _placed(lower_part),
    ac.CursorStartOp: _placed(_lower_cursor_start),
    ac.AdvanceOp: _placed(lower_advance),
    ac.BarrierWaitOp: _placed(lower_barrier_wait),
    ac.DrainOp: lower_drain,
    ac.ArriveExpectOp: _placed(lower_arrive_expect),
    ac.CopyIssueOp: lower_copy_issue,
    ac.BoxPrefetchOp: lower_box_prefetch,
    ac.TransactionCloseOp: _nothing,
    ac.ArriveOp: _lower_release,
    ac.WgmmaFenceOp: _emitted("wgmma.fence.sync.aligned"),
    ac.WgmmaIssueOp: lower_wgmma_issue,
    ac.WgmmaCommitOp: _emitted("wgmma.commit_group.sync.aligned"),
    ac.WgmmaWaitOp: _lower_wgmma_wait,
    PromotedStartOp: lower_promotion,
    ScalesLoadOp: lower_promotion,
    PromoteOp: lower_promotion,
    PromotedReadOp: lower_promotion,
    IssueOrderStartOp: lower_issue_order,
    IssueTakeOp: lower_issue_order,
    IssuePassOp: lower_issue_order,
    IssueOrderEndOp: lower_issue_order,
    **dict.fromkeys(UNIT_OPERATIONS, lower_tensor),
    **dict.fromkeys(REMADE_OPERATIONS, lower_remade),
    **dict.fromkeys(SLOT_OPERATIONS, lower_slots),
    **dict.fromkeys(FRAGMENT_OPERATIONS, lower_fragment),
    VectorLoadOp: lower_register_operand,
    OperandReadOp: lower_register_operand,
    ComputedIssueOp: lower_register_operand,
    AsyncCopyIssueOp: lower_async_copy,
    AsyncCopyArriveOp: lower_async_copy,
    AsyncCopyFenceOp: lower_async_copy,
    AsyncCopyWaitOp: lower_async_copy,
    **dict.fromkeys(HANDED_OPERATIONS, lower_handed),
    ac.SplitIndexOp: _placed(_lower_split_index),
    TeamAfterOp: lower_team_after,
    TeamSumOp: lower_team_sum,
    SplitPartOp: lower_split_part,
    ac.ClusterReduceOp: lower_cluster_reduce,
    ac.FragmentLoadOp: _placed(lower_fragment_load),
    ac.StageWriteOp: _placed(lower_slot_write),
    ac.FenceProxyOp: _placed(lower_fence_proxy),
    ac.NamedBarrierSyncOp: _lower_named_barrier_sync,
    ac.CopyStoreOp: lower_copy_store,
    ac.BulkCommitOp: lower_bulk_commit,
    ac.BulkWaitOp: lower_bulk_wait,
    ac.GlobalStoreOp: lower_store,
    ac.NextGroupTileOp: _lower_next_group_tile,
    ac.RowsStoreOp: lower_rows_store,
    ac.ElementwiseOp: _lower_points,
}
