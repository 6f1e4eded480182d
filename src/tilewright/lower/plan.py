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
    Buffer,
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
from tilewright.base.size import Computed, Extent, Range, Size, computed, value_of
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import PartialAddOp
from tilewright.ir.ac.team import TeamSumOp
from tilewright.ir.sizes import ranges_of, sizes_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers
from tilewright.lower.build import free_name
from tilewright.lower.program import shape_of, stride_sizes
from tilewright.lower.ptx.ac_to_ptx import the_kernel
from tilewright.lower.ptx.lowering import integers
from tilewright.lower.ptx.run_time import passed_sizes
from tilewright.lower.tile_to_ac import LoweredProgram

_Number = TypeVar("_Number")


def launch_plan(program: LoweredProgram) -> LaunchPlan:
    """The plan of all kernels of a program, in order."""
    kernels = [the_kernel(kernel.module) for kernel in program.kernels]
    plan = LaunchPlan(program.buffers, tuple(kernel_launch(kernel) for kernel in kernels))
    if not program.ranges:
        return plan
    sizes = tuple(map(_launch_sizes, kernels))
    return replace(plan, run_time=RunTimeSizes(program.ranges, program.shapes, sizes, _sized(program.strides)))


def sequence_plan(
    program: tile.ProgramOp, parts: Sequence[LoweredProgram], launched: Sequence[Size] | None = None
) -> LaunchPlan:
    """The plan of the parts of a program one after the other. program: as it was before it was cut; what one part
    stores and another loads beyond its parameters is a workspace, and workspaces of each part are its own. launched: of
    each part, 0 at extents at which it is left out."""
    given = {each.name: each for each in buffers(program)}
    handed = {each.name for part in parts for each in part.buffers if each.role == "output"} - given.keys()
    sizes = {name: shape_of(program, name) for name in given}
    apart = {name: stride_sizes(program, name) for name in given}
    listed, launches, run_time = list(given.values()), list[Launch](), list[LaunchSizes]()
    taken = given.keys() | handed
    for part, there in zip(parts, launched or [1] * len(parts), strict=True):
        kernels = [the_kernel(kernel.module) for kernel in part.kernels]
        names: dict[str, str] = {}
        for buffer, shape in zip(part.buffers, part.shapes or [each.shape for each in part.buffers], strict=True):
            name = buffer.name
            if buffer.role == "workspace":
                name = free_name(name, taken)
                names[buffer.name] = name
                taken = taken | {name}
            if name not in given:
                # Of a part that is launched at some extents alone no more than it needs.
                fewer = {axis: each for axis, each in part.ranges if each.most < program.run_time[axis].most}
                shape = tuple(_at_most(size, fewer) for size in shape)
            known = next((each for each in listed if each.name == name), None)
            if name in handed and known is not None and not _has(known, buffer):
                raise ValueError(f"{name} is {known} to one part and {buffer} to another")
            if known is None:
                sizes[name] = shape
                listed.append(replace(buffer, name=name, role="workspace"))
        launches += [_renamed(kernel_launch(kernel), names) for kernel in kernels]
        run_time += [_launch_sizes(kernel, there) for kernel in kernels]
    plan = LaunchPlan(tuple(listed), tuple(launches))
    if not program.run_time:
        return plan
    shapes = tuple(sizes[buffer.name] for buffer in listed)
    strides = _sized(tuple(apart.get(buffer.name, buffer.strides) for buffer in listed))
    return replace(plan, run_time=RunTimeSizes(tuple(program.run_time.items()), shapes, tuple(run_time), strides))


def _at_most(size: Size, ranges: Mapping[str, Range]) -> Size:
    """A size, at extents past these ranges as at the most of them."""
    match size:
        case Extent(axis) if axis in ranges:
            return computed("min", size, ranges[axis].most)
        case Computed(function, left, right):
            return computed(function, _at_most(left, ranges), _at_most(right, ranges))
        case _:
            return size


def _sized(strides: tuple[tuple[Size, ...], ...]) -> tuple[tuple[Size, ...], ...]:
    """Strides of arrays, as `RunTimeSizes` has them."""
    return strides if any(not isinstance(each, int) for apart in strides for each in apart) else ()


def _has(known: Buffer, buffer: Buffer) -> bool:
    """Whether one array has all elements of another, in the same places; what stores it may fill its rows further, and
    what loads it may have joined axes."""
    if known.elements == buffer.elements:
        return True
    (row, outer), (other, others) = map(_rows, (known, buffer))
    return known.element.copied_as == buffer.element.copied_as and row >= other and outer == others


def _rows(buffer: Buffer) -> tuple[int, list[tuple[int, int]]]:
    """(elements of a row, (extent, stride) of the axes that rows lie along, joined where they lie as one axis does)."""
    axes = sorted(zip(buffer.strides, buffer.shape, strict=True), reverse=True)
    row = max([extent for stride, extent in axes if stride == 1], default=1)
    joined: list[tuple[int, int]] = []
    for stride, extent in axes:
        if stride == 1 or extent == 1:
            continue
        if joined and joined[-1][1] == extent * stride:
            joined[-1] = (joined[-1][0] * extent, stride)
        else:
            joined.append((extent, stride))
    return row, joined


def _renamed(launch: Launch, names: Mapping[str, str]) -> Launch:
    """The launch on arrays of other names."""

    def param(each: Param) -> Param:
        if isinstance(each, PointerParam | TensorMapParam):
            return replace(each, buffer=names.get(each.buffer, each.buffer))
        return each

    return replace(launch, params=tuple(map(param, launch.params)))


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


def _launch_sizes(kernel: ac.KernelOp, launched: Size = 1) -> LaunchSizes:
    return LaunchSizes(_three(sizes_of(kernel.grid)), _sizes_of_params(kernel), launched)


def _sizes_of_params(kernel: ac.KernelOp) -> tuple[tuple[Size, ...], ...]:
    """As `LaunchSizes` has them, in the order of `kernel_launch`."""
    found: list[tuple[Size, ...]] = []
    for op in kernel.body.block.ops:
        if isinstance(op, ac.TensorMapOp | ac.GlobalOp):
            found.append(_sizes_of_map(op) if isinstance(op, ac.TensorMapOp) else ())
    return (*found, *((size,) for size in passed_sizes(kernel).values()))


def _sizes_of_map(op: ac.TensorMapOp) -> tuple[Size, ...]:
    dims, strides = sizes_of(op.dims), sizes_of(op.strides_bytes)
    return dims if all(isinstance(each, int) for each in strides) else (*dims, *strides)


def tensor_map(op: ac.TensorMapOp, extents: Mapping[str, int]) -> TensorMap:
    """The arguments of the driver's encoder. extents: of run-time axes."""
    kind = op.result.type
    assert isinstance(kind, ac.DescriptorType)
    return TensorMap(
        Element(op.element.data),
        tuple(value_of(size, extents) for size in sizes_of(op.dims)),
        tuple(value_of(size, extents) for size in sizes_of(op.strides_bytes)),
        integers(op.box),
        swizzle=cast("Swizzle", kind.swizzle.data),
        l2_promotion=cast("L2Promotion", op.l2_promotion.data),
    )


def _triple(attribute: ArrayAttr[IntAttr]) -> tuple[int, int, int]:
    return _three(integers(attribute))


def _three(numbers: Sequence[_Number]) -> tuple[_Number, _Number, _Number]:
    x, y, z = numbers
    return x, y, z
