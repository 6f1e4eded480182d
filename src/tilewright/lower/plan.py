"""How a lowered program is launched: arrays, and each kernel's grid, cluster, shared memory and parameters, read off
its ac kernel. Parameters come in the order of the kernel's declarations, as in its PTX.
Checked by: tests/lower/test_values.py, which launches by it.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr

from tilewright.base.element import Element
from tilewright.base.plan import (
    L2Promotion,
    Launch,
    LaunchPlan,
    Param,
    PointerParam,
    Swizzle,
    TensorMap,
    TensorMapParam,
)
from tilewright.ir import ac
from tilewright.ir.ac_stream import PartialAddOp
from tilewright.ir.ac_team import TeamSumOp
from tilewright.lower.ac_to_ptx import the_kernel
from tilewright.lower.lowering import integers
from tilewright.lower.tile_to_ac import LoweredProgram


def launch_plan(program: LoweredProgram) -> LaunchPlan:
    """The plan of all kernels of a program, in order."""
    return LaunchPlan(program.buffers, tuple(kernel_launch(the_kernel(kernel.module)) for kernel in program.kernels))


def kernel_launch(kernel: ac.KernelOp) -> Launch:
    """The launch of one kernel; programmatic where it waits for the one before itself, resident where its
    CTAs wait for each other."""
    params: list[Param] = []
    for op in kernel.body.block.ops:
        match op:
            case ac.TensorMapOp():
                params.append(TensorMapParam(op.buffer.data, tensor_map(op)))
            case ac.GlobalOp():
                params.append(PointerParam(op.buffer.data))
            case _:
                pass
    programmatic = any(isinstance(op, ac.GridWaitOp) for op in kernel.walk())
    return Launch(
        kernel.sym_name.data,
        _triple(kernel.grid),
        _triple(kernel.block),
        tuple(params),
        _triple(kernel.cluster),
        kernel.dynamic_smem_bytes.data,
        programmatic,
        any(isinstance(op, PartialAddOp | TeamSumOp) for op in kernel.walk()),
    )


def tensor_map(op: ac.TensorMapOp) -> TensorMap:
    """The arguments of the driver's encoder."""
    kind = op.result.type
    assert isinstance(kind, ac.DescriptorType)
    return TensorMap(
        Element(op.element.data),
        integers(op.dims),
        integers(op.strides_bytes),
        integers(op.box),
        swizzle=cast("Swizzle", kind.swizzle.data),
        l2_promotion=cast("L2Promotion", op.l2_promotion.data),
    )


def _triple(attribute: ArrayAttr[IntAttr]) -> tuple[int, int, int]:
    x, y, z = integers(attribute)
    return x, y, z
