"""What an upstream function begins with: its arguments, the thread's place, barriers in dynamic shared memory.

Tensor maps are `!llvm.ptr` arguments by value, cast to `!nvgpu.tensormap.descriptor`; global arrays are memrefs of one
dimension, passed as bare pointers; a ring is two `!nvgpu.mbarrier.group` over views of dynamic shared memory.
"""

from __future__ import annotations

from xdsl.ir import Block

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.tensor_memory import TensorMemoryOp
from tilewright.ir.tier import MemoryType
from tilewright.lower.mlir.tensor_slots import declare
from tilewright.lower.mlir.text import (
    SHARED,
    WORKGROUP,
    HeldArray,
    HeldBuffer,
    HeldMap,
    HeldRing,
    Nvgpu,
    cannot_write,
)
from tilewright.lower.ptx.lowering import integers
from tilewright.lower.ptx.run_time import fixed_sizes

_SWIZZLES = {"none": "none", "32B": "swizzle_32b", "64B": "swizzle_64b", "128B": "swizzle_128b"}
_PROMOTIONS = {"none": "none", "64B": "l2promo_64b", "128B": "l2promo_128b", "256B": "l2promo_256b"}


def write_fixed(state: Nvgpu, kernel: ac.KernelOp) -> None:
    text = state.text
    state.thread = text.into("thread", "gpu.thread_id x")
    if not kernel.dynamic_smem_bytes.data:
        return
    state.shared = text.into("shared", f"gpu.dynamic_shared_memory : {SHARED}")
    state.shared_address = text.into(
        "shared_address", f"memref.extract_aligned_pointer_as_index {state.shared} : {SHARED} -> index"
    )
    group_size = text.constant(128)
    state.warpgroup_thread = text.binary("lane", "remui", state.thread, group_size)
    first = text.constant(0)
    state.is_first_thread = text.into("is_first", f"arith.cmpi eq, {state.warpgroup_thread}, {first} : index")
    # Broadcast from lane 0, so that the role's branch is seen to be uniform in each warp.
    group = text.binary("group", "divui", state.thread, group_size)
    word = text.into("group", f"arith.index_cast {group} : index to i32")
    shared, valid = text.name("group"), text.name("valid")
    lane, width = text.constant(0, "i32"), text.constant(32, "i32")
    text.line(f"{shared}, {valid} = gpu.shuffle idx {word}, {lane}, {width} : i32")
    state.warpgroup = text.into("warpgroup", f"arith.index_cast {shared} : i32 to index")


def write_declarations(state: Nvgpu, block: Block) -> list[str]:
    """Declares rings, buffers, maps and arrays; returns the function's arguments, in the PTX parameters' order."""
    arguments: list[str] = []
    text = state.text
    for op in block.ops:
        match op:
            case ac.RingOp():
                state.held[op.result] = _ring(state, op)
            case ac.BufferOp():
                memory = op.result.type
                assert isinstance(memory, MemoryType)
                state.held[op.result] = HeldBuffer(
                    op.address.data, memory.slots.data, memory.slot_bytes.data, memory.swizzle.data
                )
            case TensorMemoryOp():
                state.held[op.result] = declare(state, op)
            case ac.TensorMapOp():
                argument = f"%{op.sym_name.data}"
                arguments.append(f"{argument}: !llvm.ptr {{llvm.byval = !llvm.array<16 x i64>, llvm.align = 64 : i64}}")
                kind = op.result.type
                assert isinstance(kind, ac.DescriptorType)
                if kind.interleave.data != "none":
                    raise cannot_write(op)
                extents = "x".join(str(extent) for extent in reversed(integers(op.box)))
                box = f"memref<{extents}x{op.element.data}, {WORKGROUP}>"
                descriptor = (
                    f"!nvgpu.tensormap.descriptor<tensor = {box}, swizzle = {_SWIZZLES[kind.swizzle.data]}, "
                    f"l2promo = {_PROMOTIONS[op.l2_promotion.data]}, oob = zero, interleave = none>"
                )
                name = text.into("map", f"builtin.unrealized_conversion_cast {argument} : !llvm.ptr to {descriptor}")
                state.held[op.result] = HeldMap(name, descriptor, box)
            case ac.GlobalOp():
                shape, strides = fixed_sizes(op.shape), fixed_sizes(op.strides)
                element = op.result.type
                assert isinstance(element, ac.GlobalType)
                span = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
                kind = f"memref<{span}x{element.element.data}>"
                name = f"%{op.sym_name.data}"
                arguments.append(f"{name}: {kind}")
                state.held[op.result] = HeldArray(name, kind, element.element.data, shape, strides)
            case _:
                pass
    return arguments


def _ring(state: Nvgpu, op: ac.RingOp) -> HeldRing:
    text, stages = state.text, op.stages.data
    words = f"memref<{stages}xi64, {WORKGROUP}>"
    kind = f"!nvgpu.mbarrier.group<memorySpace = {WORKGROUP}, num_barriers = {stages}>"
    names: list[str] = []
    for side, address in (("full", op.address.data), ("empty", op.address.data + 8 * stages)):
        view = text.into(side, f"memref.view {state.shared}[{text.constant(address)}][] : {SHARED} to {words}")
        names.append(text.into(side, f"builtin.unrealized_conversion_cast {view} : {words} to {kind}"))
    return HeldRing(names[0], names[1], kind, stages, op.address.data, op.full_arrivals.data, op.empty_arrivals.data)
