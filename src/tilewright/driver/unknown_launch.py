"""Which launches does a kernel's text admit, where no launch is given?

Block and cluster are one of the shapes that `launch_shapes` finds. Every pointer gets a buffer of its own, large enough
for any offset; every tensor map, among the parameters or in such a buffer, is unknown, but for what one copy through it
transfers (`driver.unknown_boxes` infers that). The integers that steer the kernel are the numbers that `driver.explore`
chooses; those that only make global addresses and coordinates have one value for all. What is thereby assumed is said.

Not handled: pointers that overlap on purpose.
Checked by: tests/driver/test_judge_unlaunched.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.base.plan import (
    Launch,
    OpaqueParam,
    Param,
    PointerParam,
    ScalarParam,
    UnknownTensorMapParam,
)
from tilewright.driver.launch_shapes import Shape
from tilewright.driver.parameter_kinds import TENSOR_MAP_BYTES, Member, members
from tilewright.frontends.ptx.ast import Kernel, Module, Parameter
from tilewright.machine.memory import PARAMETER_BLOCK
from tilewright.targets.target import Target

BUFFER_BYTES = 1 << 40
HARMLESS_NUMBER = 64
"""Value of a number that only makes addresses and coordinates: a whole number of 16-byte units of any element."""

Place = tuple[int, int]
"""A parameter's number and an offset in it, in bytes."""
MapPlace = tuple[str, int]
"""Where a tensor map stands: a memory's name, and an offset in it, in bytes."""


@dataclass(frozen=True, slots=True)
class UnknownLaunch:
    """The launches of a kernel that `launch_of` makes. numbers: the integers to choose, in order."""

    kernel: Kernel
    shape: Shape
    dynamic_smem_bytes: int
    members: tuple[Member, ...]
    numbers: tuple[Member, ...]
    assumptions: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member_name(self.kernel, member) for member in self.numbers)

    @property
    def tensor_maps(self) -> tuple[Member, ...]:
        return tuple(member for member in self.members if member.kind == "tensor map")

    @property
    def buffers(self) -> dict[str, int]:
        """Bytes of every buffer, by name."""
        return {member_name(self.kernel, member): BUFFER_BYTES for member in self.members if member.kind == "pointer"}

    @property
    def map_places(self) -> tuple[MapPlace, ...]:
        """Where the tensor maps among the parameters stand."""
        return tuple(_map_place(self.kernel, member) for member in self.tensor_maps)


def map_name(unknown: UnknownLaunch, place: MapPlace) -> str:
    """A tensor map in words: the parameter that it is, or where it stands in a buffer."""
    where, at = place
    for member in unknown.tensor_maps:
        if _map_place(unknown.kernel, member) == place:
            return member_name(unknown.kernel, member)
    return f"the tensor map at byte {at} of {where}" + ("'s buffer" if where in unknown.buffers else "")


def _map_place(kernel: Kernel, member: Member) -> MapPlace:
    end = 0
    begin = 0
    for parameter in kernel.parameters[: member.parameter + 1]:
        begin = end + -end % parameter.align
        end = begin + parameter.size_bytes
    return PARAMETER_BLOCK, begin + member.offset_bytes


def member_name(kernel: Kernel, member: Member) -> str:
    """A member in words: `parameter 3`, or `parameter 0 at byte 64` in a structure."""
    whole = kernel.parameters[member.parameter].size_bytes == member.size_bytes and not member.offset_bytes
    return f"parameter {member.parameter}" + ("" if whole else f" at byte {member.offset_bytes}")


def unknown_launch(
    module: Module, kernel: Kernel, target: Target, steering: frozenset[Place], shape: Shape
) -> UnknownLaunch:
    """What is known of a kernel's launches of one shape. steering: places in the parameters whose values steer it."""
    assumptions: list[str] = []
    found = members(kernel)
    pointers = sum(member.kind == "pointer" for member in found)
    if pointers > 1:
        assumptions.append(f"the {pointers} pointers lead to distinct buffers, and no access leaves its buffer")
    elif pointers:
        assumptions.append("no access leaves the buffer")
    numbers = tuple(
        member
        for member in found
        if member.kind == "integer"
        and any(
            member.parameter == parameter and member.offset_bytes <= offset < member.offset_bytes + member.size_bytes
            for parameter, offset in steering
        )
    )
    return UnknownLaunch(kernel, shape, _dynamic_bytes(module, kernel, target), found, numbers, tuple(assumptions))


def launch_of(
    unknown: UnknownLaunch, values: tuple[int, ...], boxes: Mapping[MapPlace, int], clusters: int = 1
) -> Launch:
    """One of the launches. values: of `unknown.numbers`; boxes: bytes that a copy through a tensor map transfers,
    by the map's place; clusters: how many there are, along x, where the grid is not known."""
    chosen = dict(zip(unknown.numbers, values, strict=True))
    parameters: list[Param] = []
    for index, parameter in enumerate(unknown.kernel.parameters):
        own = tuple(member for member in unknown.members if member.parameter == index)
        parameters.append(_parameter(unknown.kernel, parameter, own, chosen, boxes))
    shape = unknown.shape
    x, y, z = shape.cluster
    return Launch(
        unknown.kernel.name, shape.grid or (x * clusters, y, z), shape.block, tuple(parameters), shape.cluster,
        unknown.dynamic_smem_bytes,
    )  # fmt: skip


def _parameter(
    kernel: Kernel,
    parameter: Parameter,
    own: tuple[Member, ...],
    chosen: Mapping[Member, int],
    boxes: Mapping[MapPlace, int],
) -> Param:
    if len(own) == 1 and own[0].offset_bytes == 0 and own[0].size_bytes == parameter.size_bytes:
        return _whole(kernel, own[0], chosen, boxes)
    data = bytearray(parameter.size_bytes)
    fields: list[tuple[int, UnknownTensorMapParam | PointerParam]] = []
    for member in own:
        begin = member.offset_bytes
        match member.kind:
            case "pointer":
                fields.append((begin, _pointer(kernel, member, boxes)))
            case "tensor map":
                fields.append((begin, UnknownTensorMapParam(boxes.get(_map_place(kernel, member)))))
            case "integer":
                value = chosen.get(member, HARMLESS_NUMBER)
                width = member.size_bytes
                data[begin : begin + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
            case "float":
                pass
    return OpaqueParam(parameter.size_bytes, bytes(data), tuple(fields))


def _pointer(kernel: Kernel, member: Member, boxes: Mapping[MapPlace, int]) -> PointerParam:
    """A pointer to a buffer of its own, with the tensor maps that are known to stand there."""
    name = member_name(kernel, member)
    held = tuple((at, UnknownTensorMapParam(box)) for (where, at), box in sorted(boxes.items()) if where == name)
    return PointerParam(name, 0, held)


def _whole(kernel: Kernel, member: Member, chosen: Mapping[Member, int], boxes: Mapping[MapPlace, int]) -> Param:
    match member.kind:
        case "pointer":
            return _pointer(kernel, member, boxes)
        case "tensor map" if member.size_bytes == TENSOR_MAP_BYTES:
            return UnknownTensorMapParam(boxes.get(_map_place(kernel, member)))
        case "float" if member.size_bytes == 4:
            return ScalarParam("f32", 1.0)
        case "integer" if member.size_bytes == 4:
            return ScalarParam("i32", chosen.get(member, HARMLESS_NUMBER))
        case "integer" if member.size_bytes == 8:
            return ScalarParam("i64", chosen.get(member, HARMLESS_NUMBER))
        case _:
            value = chosen.get(member, 0)
            return OpaqueParam(member.size_bytes, (value & 0xFFFF).to_bytes(2, "little")[: member.size_bytes])


def _dynamic_bytes(module: Module, kernel: Kernel, target: Target) -> int:
    """All the shared memory that static variables leave."""
    static = [variable for variable in (*module.variables, *kernel.variables) if variable.space == "shared"]
    end = 0
    for variable in static:
        if variable.size_bytes is not None:
            end += -end % max(variable.align, 1) + variable.size_bytes
    if not any(variable.size_bytes is None for variable in static):
        return 0
    widest = max(variable.align for variable in static if variable.size_bytes is None)
    end += -end % max(widest, 1)
    return max(0, target.limit("cta.shared_bytes_max") - end)
