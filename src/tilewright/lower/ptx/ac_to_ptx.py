"""How an `ac` kernel becomes PTX text: one op at a time, with no decision left to take.

Here are the entry, its declarations and its roles; `emitters` has what a role does. Roles become branches on the
warpgroup's number; rings become mbarrier arrays in dynamic shared memory; cursors two registers (stage, parity); loops
carry values in registers moved at the back edge. Sources: PTX ISA, sections on
mbarrier, cp.async.bulk.tensor, wgmma, setmaxnreg. The result is checked by others: the reader parses it afresh,
`machine` runs it, `contract` judges what it did.

The sequence of instructions depends on the decisions alone: extents and trip counts appear only as immediates, so that
what is seen of a small instance holds for a large one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Block, Operation

from tilewright.base.size import Size
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.tensor_memory import TensorMemoryOp, TensorSetUp
from tilewright.ir.sizes import sizes_of
from tilewright.ir.tier import UNITS, MemoryType
from tilewright.lower.ptx.cluster_sync import lower_sync
from tilewright.lower.ptx.copies.prefetch import lower_prefetch
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.emitters import EMITTERS
from tilewright.lower.ptx.lowering import WARP_ROWS, Lowering, integers
from tilewright.lower.ptx.module_head import head_of_kernels
from tilewright.lower.ptx.places import BufferPlace, GlobalPlace, IndexPlace, ParameterPlace, RingPlace
from tilewright.lower.ptx.products.tensor_memory import declare_memory, enter_role, lower_set_up
from tilewright.lower.ptx.run_time import PassedSizes, counts_of, extent_name
from tilewright.lower.ptx.spill_slots import spill_slots_of, with_spill_slots
from tilewright.targets import target as target_named


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
    lowering = Lowering(text, {}, symbols, size, registers, facts, PassedSizes.of(kernel), EMITTERS)
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
            EMITTERS[type(op)](lowering, op)
        case ac.RoleOp():
            _lower_role(lowering, op)
        case _:
            raise AssertionError(f"{op.name} cannot stand directly in a kernel")


def _lower_role(lowering: Lowering, role: ac.RoleOp) -> None:
    text, execution = lowering.text, role.execution
    text.comment(f"role {role.sym_name.data}")
    unit, count, first = execution.unit.data, execution.count.data, execution.first_thread.data
    (argument,) = role.body.block.args
    if unit == "warp32":  # every thread of the CTA; used by kernels without an asynchronous protocol
        lowering.places[argument] = IndexPlace(lowering.thread)
        lowering.emit_block(role.body.block)
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
    lowering.emit_block(role.body.block)
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
