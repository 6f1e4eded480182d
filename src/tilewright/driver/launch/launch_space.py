"""What may a launch choose that steers a kernel, and how does one choice become a launch?

Inputs are the numbers among the parameters, the pointers, which may be null, the words of memory that it reads without
writing them, and, where it asks for its place in the grid, how many clusters there are and which of them runs: one
cluster of a large grid is run, and the others are like it at other values of its index. Numbers and pointers that only
make global addresses and coordinates, as far as the text shows, are latent: they have one value until a run decides
something by them. So is by how many bytes a pointer lies past an aligned address.

Not handled: pointers that steer by their high bits. Checked by:
tests/driver/explore/test_judge_unlaunched.py, tests/coverage_attacks/test_address_bits.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tilewright.base.plan import Launch
from tilewright.driver.explore.search.path_search import Assignment, Dimension
from tilewright.driver.launch.parameter_kinds import Member
from tilewright.driver.launch.unknown_launch import HARMLESS_NUMBER, MapPlace, UnknownLaunch, launch_of
from tilewright.frontends.ptx.ast import Instruction, Kernel
from tilewright.machine.protocol.slicing.steering import Steering
from tilewright.machine.symbolic.addresses import ALIGNMENT_BYTES
from tilewright.machine.symbolic.expression import TAKEN, Input, offset_of
from tilewright.machine.symbolic.tracker import Inputs

_GRID_REGISTERS = ("%ctaid", "%nctaid", "%clusterid", "%nclusterid")
_GRID_MOST = 1 << 16
"""Clusters along an axis, in launches that are made up; along y and z so many CTAs, about as many as a grid has."""
_REQUEST = "clusterlaunchcontrol.try_cancel"
_TAKEN_FIRST = 2
"""Clusters whose work one takes over, in the first launch."""
_ENOUGH_TO_TAKE = 128
"""Clusters of a grid whose size steers, in the first launches of a kernel that takes over others' work."""

Chosen = tuple[tuple[Input, int], ...]
"""The values of a launch's inputs, as a value that can be compared."""


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A launch, the cluster of it that runs, and what a run knows of its inputs."""

    launch: Launch
    cluster: int
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class LaunchSpace:
    """The inputs of a kernel. dimensions: those that steer it; latent: those of which the text does not show it; block:
    those that stand among the parameters, by first and last byte; members: which number or pointer each of them is;
    grid: whether the place in the grid steers; clusters: of a grid that is given."""

    dimensions: Mapping[Input, Dimension]
    latent: Mapping[Input, Dimension]
    block: tuple[tuple[int, int, Input], ...]
    members: Mapping[Input, Member]
    grid: bool
    clusters: tuple[int, int, int] | None = None

    def launch(self, unknown: UnknownLaunch, values: Assignment, boxes: Mapping[MapPlace, int]) -> MadeUp:
        """The launch that a choice of values stands for. boxes: as in `launch_of`."""
        chosen = {self.members[each]: value for each, value in values.items() if each in self.members}
        inside = {each: _part(chosen, self.members, each) for each in unknown.numbers if each not in chosen}
        numbers = tuple(chosen.get(each, inside.get(each, 0)) for each in unknown.numbers)
        nulls = frozenset(each for each, value in chosen.items() if each.kind == "pointer" and not value)
        moved = {self.members[each]: values.get(offset_of(each), 0) for each in self.members if each.kind == "pointer"}
        extents = list(self.clusters or (max(1, values.get(Input("grid", axis, 4), 1)) for axis in range(3)))
        index = [min(values.get(Input("cluster", axis, 4), 0), extents[axis] - 1) for axis in range(3)]
        if self.clusters is None and Input("grid", 0, 4) not in values:
            extents[0] = max(extents[0], min(values.get(TAKEN, 0) + 1, _GRID_MOST))
        x, y, z = extents
        launch = launch_of(unknown, numbers, boxes, (x, y, z), nulls, moved)
        memory = {each: value for each, value in values.items() if each.kind in ("memory", "ticket", "work", "taken")}
        linear = index[0] + x * (index[1] + y * index[2])
        return MadeUp(launch, linear, Inputs(self.block, self.grid, memory, True, self.clusters is not None))


def launch_space(unknown: UnknownLaunch, steers: Steering) -> LaunchSpace:
    """The inputs of the kernel that `unknown` is of."""
    kernel = unknown.kernel
    offsets = block_offsets(kernel)
    names = {parameter.name: index for index, parameter in enumerate(kernel.parameters)}
    steered = {(names[name], offset) for name, offset in steers.parameters if name in names}
    dimensions: dict[Input, Dimension] = {}
    latent: dict[Input, Dimension] = {}
    block: list[tuple[int, int, Input]] = []
    members: dict[Input, Member] = {}
    end = 0
    wide_first = sorted(unknown.members, key=lambda each: (each.parameter, each.offset_bytes, -each.size_bytes))
    for member in wide_first:
        begin = offsets[member.parameter][0] + member.offset_bytes
        nullable = member.kind == "pointer"
        if (member not in unknown.numbers and not nullable) or begin < end:
            continue
        given = Input("pointer" if nullable else "number", begin, member.size_bytes)
        end = begin + member.size_bytes
        largest = 1 if nullable else (1 << (8 * member.size_bytes)) - 1
        inside = range(member.offset_bytes, member.offset_bytes + member.size_bytes)
        if any((member.parameter, offset) in steered for offset in inside):
            dimensions[given] = Dimension(given, unknown.said(member), largest)
        else:
            latent[given] = Dimension(given, unknown.said(member), largest, 1 if nullable else HARMLESS_NUMBER)
        if nullable:
            said = f"{unknown.said(member)} modulo {ALIGNMENT_BYTES}"
            latent[offset_of(given)] = Dimension(offset_of(given), said, ALIGNMENT_BYTES - 1, 0)
        block.append((begin, end, given))
        members[given] = member
    grid = any(name.startswith(_GRID_REGISTERS) for name in steers.specials)
    shape = unknown.shape
    clusters: tuple[int, int, int] | None = None
    if shape.grid is not None:
        x, y, z = (extent // step for extent, step in zip(shape.grid, shape.cluster, strict=True))
        clusters = (x, y, z)
    claims = any(isinstance(each, Instruction) and each.row == _REQUEST for each in kernel.body)
    if claims:
        others = (prod(clusters) if clusters is not None else _GRID_MOST) - 1
        said = "the number of clusters whose work one takes over"
        dimensions[TAKEN] = Dimension(TAKEN, said, others, min(_TAKEN_FIRST, others))
    for axis, letter in enumerate("xyz"):
        if any(f"{base}.{letter}" in steers.specials for base in _GRID_REGISTERS):
            extent, place = Input("grid", axis, 4), Input("cluster", axis, 4)
            most = (_GRID_MOST if axis == 0 else _GRID_MOST // shape.cluster[axis]) - 1
            if clusters is None:
                first = _ENOUGH_TO_TAKE if claims and axis == 0 else 1
                dimensions[extent] = Dimension(extent, f"the grid's clusters along {letter}", most, first, 1)
            last = most if clusters is None else clusters[axis] - 1
            dimensions[place] = Dimension(place, f"the cluster's index along {letter}", last, 0)
    return LaunchSpace(dimensions, latent, tuple(block), members, grid, clusters)


def _part(chosen: Mapping[Member, int], members: Mapping[Input, Member], part: Member) -> int:
    """A number that lies within another one, as texts that load the same bytes twice have it."""
    for whole in members.values():
        shift = part.offset_bytes - whole.offset_bytes
        if whole.parameter == part.parameter and 0 <= shift < whole.size_bytes:
            return chosen.get(whole, 0) >> (8 * shift) & ((1 << (8 * part.size_bytes)) - 1)
    return 0


def block_offsets(kernel: Kernel) -> list[tuple[int, int]]:
    """Where each parameter begins and ends in the parameter block."""
    found: list[tuple[int, int]] = []
    end = 0
    for parameter in kernel.parameters:
        begin = end + -end % parameter.align
        end = begin + parameter.size_bytes
        found.append((begin, end))
    return found
