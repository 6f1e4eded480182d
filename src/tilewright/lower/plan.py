"""How a lowered program is launched: arrays, and each kernel's grid, cluster, shared memory and parameters, read off
its ac kernel. Parameters come in the order of the kernel's declarations, as in its PTX.
Checked by: tests/lower/test_values.py, which launches by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr

from tilewright.base.element import Element
from tilewright.base.plan import (
    L2Promotion,
    Launch,
    LaunchPlan,
    LaunchSizes,
    Param,
    PointerParam,
    RunTimeSizes,
    ScalarParam,
    Swizzle,
    TensorMap,
    TensorMapParam,
)
from tilewright.base.size import Size, value_of
from tilewright.ir import ac
from tilewright.ir.ac_stream import PartialAddOp
from tilewright.ir.ac_team import TeamSumOp
from tilewright.ir.sizes import ranges_of, sizes_of
from tilewright.lower.ac_to_ptx import the_kernel
from tilewright.lower.lowering import integers
from tilewright.lower.run_time import passed_sizes
from tilewright.lower.tile_to_ac import LoweredProgram

_Number = TypeVar("_Number")


def launch_plan(program: LoweredProgram) -> LaunchPlan:
    """The plan of all kernels of a program, in order."""
    kernels = [the_kernel(kernel.module) for kernel in program.kernels]
    plan = LaunchPlan(program.buffers, tuple(kernel_launch(kernel) for kernel in kernels))
    if not program.ranges:
        return plan
    sizes = tuple(LaunchSizes(_three(sizes_of(kernel.grid)), _sizes_of_params(kernel)) for kernel in kernels)
    return replace(plan, run_time=RunTimeSizes(program.ranges, program.shapes, sizes))


def kernel_launch(kernel: ac.KernelOp) -> Launch:
    """The launch of one kernel; programmatic where it waits for the one before itself, resident where its
    CTAs wait for each other. Run-time axes have their largest extents."""
    largest = {axis: values.most for axis, values in ranges_of(kernel.ranges).items()}
    params: list[Param] = []
    for op in kernel.body.block.ops:
        match op:
            case ac.TensorMapOp():
                params.append(TensorMapParam(op.buffer.data, tensor_map(op, largest)))
            case ac.GlobalOp():
                params.append(PointerParam(op.buffer.data))
            case _:
                pass
    params += [ScalarParam("i32", value_of(size, largest)) for size in passed_sizes(kernel).values()]
    programmatic = any(isinstance(op, ac.GridWaitOp) for op in kernel.walk())
    return Launch(
        kernel.sym_name.data,
        _three(tuple(value_of(size, largest) for size in sizes_of(kernel.grid))),
        _triple(kernel.block),
        tuple(params),
        _triple(kernel.cluster),
        kernel.dynamic_smem_bytes.data,
        programmatic,
        any(isinstance(op, PartialAddOp | TeamSumOp) for op in kernel.walk()),
    )


def _sizes_of_params(kernel: ac.KernelOp) -> tuple[tuple[Size, ...], ...]:
    """As `LaunchSizes` has them, in the order of `kernel_launch`."""
    found: list[tuple[Size, ...]] = []
    for op in kernel.body.block.ops:
        if isinstance(op, ac.TensorMapOp | ac.GlobalOp):
            found.append(sizes_of(op.dims) if isinstance(op, ac.TensorMapOp) else ())
    return (*found, *((size,) for size in passed_sizes(kernel).values()))


def tensor_map(op: ac.TensorMapOp, extents: Mapping[str, int]) -> TensorMap:
    """The arguments of the driver's encoder. extents: of run-time axes."""
    kind = op.result.type
    assert isinstance(kind, ac.DescriptorType)
    return TensorMap(
        Element(op.element.data),
        tuple(value_of(size, extents) for size in sizes_of(op.dims)),
        integers(op.strides_bytes),
        integers(op.box),
        swizzle=cast("Swizzle", kind.swizzle.data),
        l2_promotion=cast("L2Promotion", op.l2_promotion.data),
    )


def _triple(attribute: ArrayAttr[IntAttr]) -> tuple[int, int, int]:
    return _three(integers(attribute))


def _three(numbers: Sequence[_Number]) -> tuple[_Number, _Number, _Number]:
    x, y, z = numbers
    return x, y, z
