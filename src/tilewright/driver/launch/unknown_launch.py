"""Which launches does a kernel's text admit, where no launch is given?

Block and cluster are one of the shapes that `launch_shapes` finds. Every pointer gets a buffer of its own, large enough
for any offset; every tensor map, among the parameters or in such a buffer, is unknown, but for what one copy through it
transfers (`driver.explore.unknown_maps.unknown_boxes` infers that). The numbers, integers and floats, are those that
`driver.explore.explore` chooses. What is thereby assumed is said.

Not handled: pointers that overlap on purpose.
Checked by: tests/driver/explore/test_judge_unlaunched.py.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.base.plan import (
    Launch,
    NullPointerParam,
    OpaqueParam,
    Param,
    PointerParam,
    ScalarParam,
    TensorMapParam,
    UnknownTensorMapParam,
)
from tilewright.driver.launch.given_launch import PartialLaunch, overlaps
from tilewright.driver.launch.launch_shapes import Shape
from tilewright.driver.launch.parameter_kinds import TENSOR_MAP_BYTES, Member, members
from tilewright.frontends.ptx.ast import Kernel, Module, Parameter
from tilewright.machine.core.memory import PARAMETER_BLOCK
from tilewright.targets.target import Target

_WORD_BYTES = 8
_FLOAT_FORMATS = {2: "<e", 4: "<f", 8: "<d"}
BUFFER_BYTES = 1 << 40
HARMLESS_NUMBER = 64
"""Value of a number that only makes addresses and coordinates: a whole number of 16-byte units of any element."""

MapPlace = tuple[str, int]
"""Where a tensor map stands: a memory's name, and an offset in it, in bytes."""


@dataclass(frozen=True, slots=True)
class UnknownLaunch:
    """The launches of a kernel that `launch_of` makes. given: what is known of them; members: of what is not; numbers:
    those of these, in order."""

    kernel: Kernel
    shape: Shape
    given: PartialLaunch
    dynamic_smem_bytes: int
    members: tuple[Member, ...]
    numbers: tuple[Member, ...]
    assumptions: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.said(member) for member in self.numbers)

    def said(self, member: Member) -> str:
        """A member in words, by the name that the launch gives its parameter, if it does."""
        names = self.given.names
        if member.parameter >= len(names):
            return member_name(self.kernel, member)
        part = member_name(self.kernel, member).removeprefix(f"parameter {member.parameter}")
        return f"{names[member.parameter]}{part}"

    @property
    def tensor_maps(self) -> tuple[Member, ...]:
        return tuple(member for member in self.members if member.kind == "tensor map")

    @property
    def buffers(self) -> dict[str, int]:
        """Bytes of every buffer, by name."""
        made_up = {
            member_name(self.kernel, member): BUFFER_BYTES for member in self.members if member.kind == "pointer"
        }
        return made_up | {buffer.name: buffer.size_bytes for buffer in self.given.buffers}

    @property
    def map_places(self) -> tuple[MapPlace, ...]:
        """Where the tensor maps among the parameters stand."""
        return tuple(_map_place(self.kernel, member) for member in self.tensor_maps)


def map_name(unknown: UnknownLaunch, place: MapPlace) -> str:
    """A tensor map in words: the parameter that it is, or where it stands in a buffer."""
    where, at = place
    for member in unknown.tensor_maps:
        if _map_place(unknown.kernel, member) == place:
            return unknown.said(member)
    for member in unknown.members:
        if member.kind == "pointer" and member_name(unknown.kernel, member) == where:
            return f"the tensor map at byte {at} of {unknown.said(member)}'s buffer"
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


def unknown_launch(module: Module, kernel: Kernel, target: Target, shape: Shape, given: PartialLaunch) -> UnknownLaunch:
    """What is known of a kernel's launches of one shape."""
    assumptions: list[str] = []
    if given.file:
        assumptions.append(
            f"the launch is as {given.file} says, where it says; accesses of global memory are not judged"
        )
    found = tuple(member for member in members(kernel) if _is_open(member, given))
    pointers = sum(member.kind == "pointer" for member in found)
    if pointers > 1:
        assumptions.append(
            f"the {pointers} pointers lead to distinct buffers, no access leaves its buffer, and each is aligned"
        )
    elif pointers:
        assumptions.append("no access leaves the buffer, and each is aligned")
    numbers = tuple(
        member for member in found if member.kind in ("integer", "float") and member.size_bytes <= _WORD_BYTES
    )
    dynamic = given.dynamic_smem_bytes
    if dynamic is None:
        dynamic = _dynamic_bytes(module, kernel, target)
    return UnknownLaunch(kernel, shape, given, dynamic, found, numbers, tuple(assumptions))


def _is_open(member: Member, given: PartialLaunch) -> bool:
    """Is the member part of what is not known?"""
    match given.params[member.parameter] if given.params else None:
        case None:
            return True
        case OpaqueParam() as param:
            return overlaps(param.unknown_bytes, member)
        case _:
            return False


def launch_of(
    unknown: UnknownLaunch,
    values: tuple[int, ...],
    boxes: Mapping[MapPlace, int],
    clusters: tuple[int, int, int] = (1, 1, 1),
    nulls: frozenset[Member] = frozenset(),
    moved: Mapping[Member, int] = MappingProxyType({}),
) -> Launch:
    """One of the launches. values: of `unknown.numbers`; boxes: bytes that a copy through a tensor map transfers, by
    the map's place; clusters: how many there are along each axis, where the grid is not known; nulls: pointers that
    are null; moved: by how many bytes others lead past the beginning of their buffer."""
    chosen = dict(zip(unknown.numbers, values, strict=True)) | dict.fromkeys(nulls, 0)
    parameters: list[Param] = []
    for index, parameter in enumerate(unknown.kernel.parameters):
        own = tuple(member for member in unknown.members if member.parameter == index)
        known = unknown.given.params[index] if unknown.given.params else None
        parameters.append(
            _parameter(unknown.kernel, parameter, own, chosen, boxes, moved)
            if known is None
            else _completed(unknown.kernel, known, own, chosen, boxes, moved)
        )
    shape = unknown.shape
    x, y, z = (count * step for count, step in zip(clusters, shape.cluster, strict=True))
    return Launch(
        unknown.kernel.name, shape.grid or (x, y, z), shape.block, tuple(parameters), shape.cluster,
        unknown.dynamic_smem_bytes,
    )  # fmt: skip


def _parameter(
    kernel: Kernel,
    parameter: Parameter,
    own: tuple[Member, ...],
    chosen: Mapping[Member, int],
    boxes: Mapping[MapPlace, int],
    moved: Mapping[Member, int],
) -> Param:
    if len(own) == 1 and own[0].offset_bytes == 0 and own[0].size_bytes == parameter.size_bytes:
        return _whole(kernel, own[0], chosen, boxes, moved)
    return _completed(kernel, OpaqueParam(parameter.size_bytes), own, chosen, boxes, moved)


def _completed(
    kernel: Kernel, known: Param, own: tuple[Member, ...], chosen: Mapping[Member, int],
    boxes: Mapping[MapPlace, int], moved: Mapping[Member, int],
) -> Param:  # fmt: skip
    """A parameter of which something is known, with the members that are not."""
    if not isinstance(known, OpaqueParam):
        return known
    data = bytearray(known.data.ljust(known.size_bytes, b"\0"))
    given = list(known.given if known.given is not None else [(0, len(known.data))])
    fields: list[tuple[int, TensorMapParam | UnknownTensorMapParam | PointerParam]] = list(known.fields)
    for member in own:
        begin, width = member.offset_bytes, member.size_bytes
        match member.kind:
            case "pointer" if member not in chosen:
                fields.append((begin, _pointer(kernel, member, boxes, moved)))
            case "pointer":
                given.append((begin, begin + width))  # null
            case "tensor map":
                fields.append((begin, UnknownTensorMapParam(boxes.get(_map_place(kernel, member)))))
            case "integer" | "float" if width <= _WORD_BYTES:
                data[begin : begin + width] = _number_bytes(member, chosen)
                given.append((begin, begin + width))
            case _:
                # A structure that is read at places which are not in the text: its bytes stay unknown.
                pass
    return OpaqueParam(known.size_bytes, bytes(data), tuple(fields), tuple(given))


def _pointer(
    kernel: Kernel, member: Member, boxes: Mapping[MapPlace, int], moved: Mapping[Member, int]
) -> PointerParam:  # fmt: skip
    """A pointer to a buffer of its own, with the tensor maps that are known to stand there."""
    name = member_name(kernel, member)
    held = tuple((at, UnknownTensorMapParam(box)) for (where, at), box in sorted(boxes.items()) if where == name)
    # Maps lie where the pointer leads to, which the host has aligned for them.
    return PointerParam(name, 0 if held else moved.get(member, 0), held)


def _whole(
    kernel: Kernel, member: Member, chosen: Mapping[Member, int], boxes: Mapping[MapPlace, int],
    moved: Mapping[Member, int],
) -> Param:  # fmt: skip
    match member.kind:
        case "pointer":
            return NullPointerParam() if member in chosen else _pointer(kernel, member, boxes, moved)
        case "tensor map" if member.size_bytes == TENSOR_MAP_BYTES:
            return UnknownTensorMapParam(boxes.get(_map_place(kernel, member)))
        case "tensor map":
            return OpaqueParam(member.size_bytes)
        case "float" if member.size_bytes == 4:
            return ScalarParam("f32", float(struct.unpack("<f", _number_bytes(member, chosen))[0]))
        case "integer" if member.size_bytes in (4, 8):
            return ScalarParam("i32" if member.size_bytes == 4 else "i64", chosen.get(member, HARMLESS_NUMBER))
        case "integer" | "float" if member.size_bytes > _WORD_BYTES:
            return OpaqueParam(member.size_bytes)
        case "integer" | "float":
            return OpaqueParam(member.size_bytes, _number_bytes(member, chosen))


def _number_bytes(member: Member, chosen: Mapping[Member, int]) -> bytes:
    """The bits chosen for a number, or those of a harmless one, as they stand in memory."""
    value, width = chosen.get(member, HARMLESS_NUMBER), member.size_bytes
    if member.kind == "float" and width in _FLOAT_FORMATS and member not in chosen:
        return struct.pack(_FLOAT_FORMATS[width], value)
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")


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
