"""What an `ac` kernel is in upstream MLIR: text in `gpu`, `nvgpu`, `nvvm`, `scf`, `arith`, `math`, `vector` and
`memref`.

The text says the same as our PTX, one op at a time: roles are `scf.if` on the warpgroup's number, loops are `scf.for`
with cursors and accumulators as iteration arguments, rings are mbarrier groups over dynamic shared memory at the
addresses that synthesis chose (so slots and barriers lie where they lie in the PTX). It is for reading, and for tools
that begin at those dialects; the PTX that is proved and run comes from `ac_to_ptx`.

What upstream cannot say: a tensor map as a by-value argument that is `nvvm.grid_constant` (only `llvm.func` carries
it; a comment in the text says where it belongs), and a parity wait that acquires at cluster scope (inline PTX).
Everything else that has no form raises TilewrightError naming the op. Checked by tests/lower/test_nvgpu.py:
upstream's `mlir-opt` parses and verifies the text, where it is installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Block, Operation

from tilewright.base.error import TilewrightError
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.fragment import AccumulatorPartsOp, FragmentMapOp
from tilewright.ir.ac.tensor_memory import TensorInitOp, TensorMemoryOp
from tilewright.ir.tier import UNITS
from tilewright.lower.distribution.raster import order_of
from tilewright.lower.mlir.declarations import write_declarations, write_fixed
from tilewright.lower.mlir.elements import write_fragment_load, write_global_store, write_stage_write
from tilewright.lower.mlir.fragment_map import write_fragment_map, write_parts
from tilewright.lower.mlir.points import write_affine, write_elementwise
from tilewright.lower.mlir.protocol import (
    write_advance,
    write_arrive,
    write_arrive_expect,
    write_copy_issue,
    write_copy_store,
    write_drain,
    write_wait,
    write_wgmma_issue,
)
from tilewright.lower.mlir.tensor_slots import (
    SlotSetUp,
    SlotWork,
    enter_role,
    waits_for_sums,
    write_fence_after,
    write_set_up,
    write_slots,
)
from tilewright.lower.mlir.tensor_units import UnitWork, write_init, write_unit
from tilewright.lower.mlir.text import (
    HeldCursor,
    HeldIndex,
    HeldMap,
    HeldNothing,
    HeldRing,
    Nvgpu,
    NvgpuText,
    accumulator_definition,
    cannot_write,
    carried_values,
    with_names,
)
from tilewright.lower.mlir.turns import TurnBounds, skip_cursors, turn_bounds, write_turn_pass, write_turn_wait
from tilewright.lower.ptx.lowering import WARP_ROWS, integers
from tilewright.lower.ptx.numbers.float8 import PTX_NAMES
from tilewright.lower.ptx.run_time import fixed_sizes
from tilewright.targets import Target
from tilewright.targets import target as target_named


def lower_to_nvgpu(modules: Sequence[ModuleOp], target: str = "sm_90a") -> str:
    """One upstream module with a `gpu.module` that holds the kernel of each of `modules`, for `target`.

    Raises TilewrightError, naming the op, for what has no form in the upstream dialects.
    """
    kernels = [op for module in modules for op in module.ops if isinstance(op, ac.KernelOp)]
    for kernel in kernels:
        _refuse_run_time(kernel)
        _refuse_bytes(kernel)
    widths = {op.n.data for kernel in kernels for op in kernel.walk() if isinstance(op, ac.WgmmaIssueOp)}
    lines = [accumulator_definition(n) for n in sorted(widths)]
    lines.append("module attributes {gpu.container_module} {")
    lines.append(f'  gpu.module @kernels [#nvvm.target<chip = "{target}">] {{')
    for kernel in kernels:
        lines += _function(kernel, target_named(target))
    return "\n".join([*lines, "  }", "}", ""])


def _refuse_run_time(kernel: ac.KernelOp) -> None:
    """Sizes are constants in what is written here."""
    if kernel.ranges is not None:
        raise TilewrightError(
            f"kernel {kernel.sym_name.data} has extents that only a launch knows, which have no upstream form yet",
            remedy="emit PTX instead, or compile for one extent",
        )


def _refuse_bytes(kernel: ac.KernelOp) -> None:
    """Numbers of 8 bits: their products, conversions and maps have other forms upstream, which are not written."""
    for op in kernel.body.block.ops:
        kind = op.result.type if isinstance(op, ac.GlobalOp) else op
        if isinstance(kind, ac.GlobalType | ac.TensorMapOp) and kind.element.data in (*PTX_NAMES, "i8"):
            raise TilewrightError(
                f"kernel {kernel.sym_name.data} has numbers of 8 bits, which are not written in the upstream dialects",
                remedy="emit PTX instead",
            )
    for op in kernel.walk():
        source = op.source.type if isinstance(op, ac.ElementLoadOp) else None
        if isinstance(source, ac.GlobalType) and source.element.data == "i32":
            raise TilewrightError(
                f"kernel {kernel.sym_name.data} reads integers as numbers, which has no upstream form yet",
                remedy="emit PTX instead",
            )


def _function(kernel: ac.KernelOp, facts: Target) -> list[str]:
    text = NvgpuText(depth=3)
    symbols = {name: cast("IntAttr", count).data for name, count in kernel.symbols.data.items()}
    registers, cluster = kernel.launch_registers.data, integers(kernel.cluster)
    state = Nvgpu(text, {}, symbols, fixed_sizes(kernel.grid), cluster, registers, facts)
    write_fixed(state, kernel)
    arguments = write_declarations(state, kernel.body.block)
    # Who reads these dialects follows waits of all threads: where a role alone waits, all do, which is no less.
    inside = [op for op in kernel.walk() if isinstance(op, ac.GridWaitOp | ac.GridReleaseOp) and _in_role(op)]
    early = {type(op): op for op in inside}
    for op in kernel.body.block.ops:
        if isinstance(op, ac.RoleOp):
            for each in early.values():
                _write_grid_order(text, each)
            early = {}
        _write_top_level(state, op)
    block = ", ".join(str(extent) for extent in integers(kernel.block))
    attributes = [f"nvvm.reqntid = array<i32: {block}>"]
    if state.cluster_size > 1:
        attributes.append(f"nvvm.cluster_dim = array<i32: {', '.join(str(extent) for extent in state.cluster)}>")
    if kernel.launch_registers.data:
        attributes.append(f"nvvm.maxnreg = {kernel.launch_registers.data} : i32")
    head = [f"    // {kernel.dynamic_smem_bytes.data} bytes of dynamic shared memory, from a multiple of 1024 on"]
    if any(isinstance(op, ac.TensorMapOp) for op in kernel.body.block.ops):
        head.append("    // as llvm.func: the tensor maps are nvvm.grid_constant, which gpu.func cannot say")
    head.append(f"    gpu.func @{kernel.sym_name.data}({', '.join(arguments)}) kernel")
    head.append(f"        attributes {{{', '.join(attributes)}}} {{")
    constants = ["      " + line for line in text.constants()]
    return [*head, *constants, *text.lines, "      gpu.return", "    }"]


# ---------------------------------------------------------------- structure


def _write_top_level(state: Nvgpu, op: Operation) -> None:
    text = state.text
    match op:
        case ac.RingOp() | ac.BufferOp() | ac.GlobalOp() | TensorMemoryOp():
            pass
        case _ if isinstance(op, SlotSetUp):
            write_set_up(state, op)
        case TensorInitOp():
            write_init(state, op, _is_thread_zero(state))
        case ac.TensorMapOp():
            descriptor = state.held[op.result]
            assert isinstance(descriptor, HeldMap)
            text.line(f"nvgpu.tma.prefetch.descriptor {descriptor.name}, predicate = {_is_thread_zero(state)}"
                      f" : {descriptor.kind}")  # fmt: skip
        case ac.BarrierInitOp():
            ring = state.held[op.ring]
            assert isinstance(ring, HeldRing)
            predicate = _is_thread_zero(state)
            for stage in range(ring.stages):
                for group, arrivals in ((ring.full, ring.full_arrivals), (ring.empty, ring.empty_arrivals)):
                    count = text.constant(arrivals)
                    place = f"{group}[{text.constant(stage)}]"
                    text.line(f"nvgpu.mbarrier.init {place}, {count}, predicate = {predicate} : {ring.kind}")
        case ac.FenceBarrierInitOp():
            text.line("nvvm.fence.mbarrier.init")
        case ac.CtaSyncOp():
            text.line("gpu.barrier")
        case ac.ClusterSyncOp():
            text.line("nvvm.cluster.arrive")
            text.line("nvvm.cluster.wait")
        case ac.PrefetchOp():
            pass  # A hint, for which the upstream dialects have no operation.
        case ac.GridWaitOp() | ac.GridReleaseOp():
            _write_grid_order(text, op)
        case ac.RoleOp():
            _write_role(state, op)
        case _:
            raise cannot_write(op)


def _in_role(op: Operation) -> bool:
    return not isinstance(op.parent_op(), ac.KernelOp)


def _write_grid_order(text: NvgpuText, op: ac.GridWaitOp | ac.GridReleaseOp) -> None:
    text.line(f"nvvm.griddepcontrol {'wait' if isinstance(op, ac.GridWaitOp) else 'launch_dependents'}")


def _is_thread_zero(state: Nvgpu) -> str:
    return state.text.into("is_zero", f"arith.cmpi eq, {state.thread}, {state.text.constant(0)} : index")


def _write_role(state: Nvgpu, role: ac.RoleOp) -> None:
    text, execution = state.text, role.execution
    unit, count, first = execution.unit.data, execution.count.data, execution.first_thread.data
    (argument,) = role.body.block.args
    text.line(f"// role {role.sym_name.data}")
    state.warp_rows = WARP_ROWS if role.warp_rows is None else role.warp_rows.data
    if unit == "warp32":  # every thread of the CTA
        state.held[argument] = HeldIndex(state.thread)
        _write_block(state, role.body.block)
        return
    groups = max(1, UNITS[unit] * count // 128)
    number = state.warpgroup
    if first:
        number = text.binary("unit", "subi", number, text.constant(first // 128))
    # As unsigned: warpgroups before the role's first are outside too.
    mine = text.into("mine", f"arith.cmpi ult, {number}, {text.constant(groups)} : index")
    state.held[argument] = HeldIndex(number)
    with text.block(f"scf.if {mine} {{"):
        registers = role.registers.data
        if registers:
            direction = "increase" if registers > state.launch_registers else "decrease"
            text.line(f"nvvm.setmaxregister {direction} {registers}")
        if unit == "thread1":
            issues = state.is_first_thread
            if is_set(role.leader):
                rank = text.into("rank", "nvvm.read.ptx.sreg.cluster.ctarank : i32")
                leads = text.into("leads", f"arith.cmpi eq, {rank}, {text.constant(0, 'i32')} : i32")
                issues = text.binary("leads", "andi", leads, issues, "i1")
            with text.block(f"scf.if {issues} {{"):
                enter_role(state, role)
                _write_block(state, role.body.block)
        else:
            enter_role(state, role)
            _write_block(state, role.body.block)


def _write_block(state: Nvgpu, block: Block) -> None:
    for op in block.ops:
        _write_op(state, op)


def _counted(
    state: Nvgpu,
    op: ac.TilesOp | ac.TurnTilesOp | ac.LoopOp,
    index: str,
    bounds: tuple[str, str, str],
    indices: int,
    turns: TurnBounds | None = None,
) -> None:
    """`scf.for index = bounds[0] to bounds[1] step bounds[2]` with the op's carried values and its body.

    indices: leading block arguments that are indices, whose values stand already in `state` or are set by `_raster`.
    """
    text, block = state.text, op.body.block
    arguments = block.args[indices:]
    bindings: list[str] = []
    kinds: list[str] = []
    for argument, initial in zip(arguments, op.carried, strict=True):
        start = state.held[initial]
        fresh = [text.name("carried") for _ in carried_values(start)]
        bindings += [f"{name} = {old}" for name, (old, _) in zip(fresh, carried_values(start), strict=True)]
        kinds += [kind for _, kind in carried_values(start)]
        state.held[argument] = with_names(start, fresh)
    if state.unit_parity:
        fresh_parity = text.name("carried")
        bindings.append(f"{fresh_parity} = {state.unit_parity}")
        kinds.append("i1")
        state.unit_parity = fresh_parity
    head = f"scf.for {index} = {bounds[0]} to {bounds[1]} step {bounds[2]}"
    result = text.name("loop")
    if bindings:
        head = f"{result}:{len(kinds)} = {head} iter_args({', '.join(bindings)}) -> ({', '.join(kinds)})"
    with text.block(head + " {"):
        if isinstance(op, ac.TilesOp | ac.TurnTilesOp):
            m, n = _raster(state, op, index)
            state.held[block.args[0]], state.held[block.args[1]] = HeldIndex(m), HeldIndex(n)
        if isinstance(op, ac.TurnTilesOp) and turns is not None:
            write_turn_wait(state, op, turns, index)
        _write_block(state, block)
        last = block.last_op
        assert isinstance(last, ac.YieldOp)
        if isinstance(op, ac.TurnTilesOp):
            skip_cursors(state, op, last.values)
        yielded = [pair for value in last.values for pair in carried_values(state.held[value])]
        if state.unit_parity:
            yielded.append((state.unit_parity, "i1"))
        if yielded:
            names, types = ", ".join(name for name, _ in yielded), ", ".join(kind for _, kind in yielded)
            text.line(f"scf.yield {names} : {types}")
    taken = 0
    for output, argument in zip(op.outputs, arguments, strict=True):
        start = state.held[argument]
        size = len(carried_values(start))
        state.held[output] = with_names(start, [f"{result}#{taken + number}" for number in range(size)])
        taken += size
    if state.unit_parity:
        state.unit_parity = f"{result}#{taken}"


def _raster(state: Nvgpu, op: ac.TilesOp | ac.TurnTilesOp, tile: str) -> tuple[str, str]:
    """(m, n) of a tile number: groups of `raster_group` tiles along m, and within a group m runs fastest."""
    if order_of(op) != "grouped":
        raise cannot_write(op)
    text = state.text
    cluster_m, cluster_n = state.cluster[0], state.cluster[1]
    tiles_m, tiles_n = _sides_of_clusters(state, op)
    group = op.raster_group.data
    band_tiles = text.constant(group * tiles_n)
    first = text.multiply(text.binary("band", "divui", tile, band_tiles), group)
    within = text.binary("within", "remui", tile, band_tiles)
    left = text.binary("left", "subi", text.constant(tiles_m), first)
    height = text.binary("height", "minui", left, text.constant(group))
    m = text.add(first, text.binary("row", "remui", within, height), "m")
    n = text.binary("n", "divui", within, height)
    if cluster_m > 1:
        m = text.add(text.multiply(m, cluster_m), text.into("rank", "gpu.cluster_block_id x"), "m")
    if cluster_n > 1:
        n = text.add(text.multiply(n, cluster_n), text.into("rank", "gpu.cluster_block_id y"), "n")
    return m, n


def _sides_of_clusters(state: Nvgpu, op: ac.TilesOp | ac.TurnTilesOp) -> tuple[int, int]:
    tiles_m, tiles_n = fixed_sizes((op.tiles_m, op.tiles_n))
    return -(-tiles_m // state.cluster[0]), -(-tiles_n // state.cluster[1])


def _tiles_of_clusters(state: Nvgpu, op: ac.TilesOp | ac.TurnTilesOp) -> int:
    return math.prod(_sides_of_clusters(state, op))


def _write_tiles(state: Nvgpu, op: ac.TilesOp) -> None:
    if op.batch is not None or op.together is not None or op.handed is not None:
        raise cannot_write(op)
    text = state.text
    clusters = state.grid[0] * state.grid[1] * state.grid[2] // state.cluster_size
    total = _tiles_of_clusters(state, op)
    first = text.into("first", "gpu.cluster_id x" if state.cluster_size > 1 else "gpu.block_id x")
    _counted(state, op, text.name("tile"), (first, text.constant(total), text.constant(clusters)), 2)


def _write_turn_tiles(state: Nvgpu, op: ac.TurnTilesOp) -> None:
    if op.batch is not None:
        raise cannot_write(op)
    text, turns = state.text, turn_bounds(state, op)
    total = text.constant(_tiles_of_clusters(state, op))
    _counted(state, op, text.name("tile"), (turns.first, total, turns.step), 2, turns)


def _stages_of(op: Operation, ring: str) -> int:
    kernel = op.parent_op()
    while kernel is not None and not isinstance(kernel, ac.KernelOp):
        kernel = kernel.parent_op()
    assert kernel is not None
    rings = (item for item in kernel.body.block.ops if isinstance(item, ac.RingOp))
    return next(item.stages.data for item in rings if item.sym_name.data == ring)


def _write_op(state: Nvgpu, op: Operation) -> None:
    text = state.text
    match op:
        case ac.TilesOp():
            _write_tiles(state, op)
        case ac.TurnTilesOp():
            _write_turn_tiles(state, op)
        case ac.TurnPassOp():
            write_turn_pass(state, op)
        case ac.GridWaitOp() | ac.GridReleaseOp():
            pass  # Written before the roles.
        case ac.LoopOp():
            index = text.name("k")
            state.held[op.body.block.args[0]] = HeldIndex(index)
            trips = text.constant(state.symbols[op.symbol.data])
            _counted(state, op, index, (text.constant(op.begin.data), trips, text.constant(1)), 1)
        case ac.YieldOp() | ac.TransactionCloseOp():
            pass
        case ac.AffineOp():
            state.held[op.result] = HeldIndex(write_affine(text, op, state.held))
        case ac.CursorStartOp():
            state.held[op.result] = HeldCursor(text.constant(0), text.constant("false", "i1"))
        case ac.AdvanceOp():
            kind = op.cursor.type
            assert isinstance(kind, ac.CursorType)
            state.held[op.result] = write_advance(state, op, _stages_of(op, kind.ring.data))
        case ac.BarrierWaitOp():
            if is_set(op.issuer):
                warp = text.constant(32)
                issues = text.into("issues", f"arith.cmpi ult, {state.warpgroup_thread}, {warp} : index")
                with text.block(f"scf.if {issues} {{"):
                    state.held[op.result] = write_wait(state, op)
                    write_fence_after(state, waited=True)
                return
            state.held[op.result] = write_wait(state, op)
            if waits_for_sums(op):
                write_fence_after(state, waited=True)
        case ac.DrainOp():
            write_drain(state, op)
        case ac.ArriveExpectOp():
            state.held[op.result] = write_arrive_expect(state, op)
        case ac.CopyIssueOp():
            state.held[op.result] = write_copy_issue(state, op)
        case ac.ArriveOp():
            write_arrive(state, op)
        case ac.WgmmaFenceOp():
            text.line("nvvm.wgmma.fence.aligned")
        case ac.WgmmaIssueOp():
            state.held[op.inflight], state.held[op.reading] = write_wgmma_issue(state, op)
        case ac.WgmmaCommitOp():
            text.line("nvvm.wgmma.commit.group.sync.aligned")
        case ac.WgmmaWaitOp():
            text.line(f"nvvm.wgmma.wait.group.sync.aligned {op.pending.data}")
            if op.retired is not None and op.reading is not None:
                state.held[op.retired] = state.held[op.reading]
            if op.settled is not None and op.accumulator is not None:
                state.held[op.settled] = state.held[op.accumulator]
        case _:
            _write_epilogue_op(state, op)


def _write_epilogue_op(state: Nvgpu, op: Operation) -> None:
    text = state.text
    match op:
        case _ if isinstance(op, SlotWork):
            write_slots(state, op)
        case _ if isinstance(op, UnitWork):
            write_unit(state, op)
        case ac.FragmentLoadOp():
            state.held[op.result] = write_fragment_load(state, op)
        case FragmentMapOp():
            write_fragment_map(state, op)
        case AccumulatorPartsOp():
            write_parts(state, op)
        case ac.StageWriteOp():
            write_stage_write(state, op)
            state.held[op.result] = HeldNothing()
        case ac.FenceProxyOp():
            text.line("nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}")
            state.held[op.result] = HeldNothing()
        case ac.NamedBarrierSyncOp():
            number = text.add(state.index(op.unit), op.first_barrier.data)
            word = text.into("barrier", f"arith.index_cast {number} : index to i32")
            text.line(f"nvvm.barrier id = {word} number_of_threads = {text.constant(op.threads.data, 'i32')}")
            if op.result is not None:
                state.held[op.result] = HeldNothing()
        case ac.CopyStoreOp():
            write_copy_store(state, op)
        case ac.BulkCommitOp():
            with text.block(f"scf.if {state.is_first_thread} {{"):
                text.line("nvvm.cp.async.bulk.commit.group")
        case ac.BulkWaitOp():
            with text.block(f"scf.if {state.is_first_thread} {{"):
                text.line(f"nvvm.cp.async.bulk.wait_group {op.pending.data}{' {read}' if op.read.data else ''}")
        case ac.GlobalStoreOp():
            write_global_store(state, op)
        case ac.ElementwiseOp():
            write_elementwise(state, op)
        case _:
            raise cannot_write(op)
