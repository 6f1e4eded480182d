"""A launch as somebody gives it: completed by the kernel's directives, or left open in parts, and placed in memory.

What is given may leave out any part. `left_open` says which parts the kernel depends on and nothing fixes; a check
takes these for anything (`PartialLaunch`). `resolve` is for whoever needs a whole launch: it takes block and cluster
from the kernel's directives, else the driver's defaults, and refuses parameters that are not given.
`placed` says where buffers begin, so that no address is better aligned than was promised.
Checked by: tests/driver/launch/test_launch_file.py, test_partial_launch.py.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

from tilewright.base.error import TilewrightError
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
from tilewright.base.value import dataclass
from tilewright.driver.launch.launch_shapes import GivenShape, asks_for_grid, launch_shapes
from tilewright.driver.launch.parameter_kinds import Member, members
from tilewright.frontends.ptx.ast import Kernel, Module

if TYPE_CHECKING:
    from tilewright.driver.launch.launch_buffers import BufferContents

DEFAULT_ALIGNMENT_BYTES = 256
"""What `cuMemAlloc` promises (CUDA Driver API); a pointer without `align` may be taken to have it."""


@dataclass(frozen=True, slots=True)
class BufferSize:
    """A buffer that parameters name: its size and the alignment of its address, both in bytes."""

    name: str
    size_bytes: int
    align_bytes: int = DEFAULT_ALIGNMENT_BYTES


@dataclass(frozen=True, slots=True)
class PartialLaunch:
    """What is known of a launch whose other parts may be anything. params: one for each of the kernel's, None where
    nothing is known of it; empty where nothing is known of any. file: that says so, empty where none does; names: of
    the parameters, as far as they are given, for messages."""

    shape: GivenShape = field(default_factory=GivenShape)
    dynamic_smem_bytes: int | None = None
    params: tuple[Param | None, ...] = ()
    buffers: tuple[BufferSize, ...] = ()
    file: str = ""
    contents: tuple[BufferContents, ...] = ()
    names: tuple[str, ...] = ()

    def left_open(self, module: Module, kernel: Kernel) -> tuple[str, ...]:
        """The parts that are not known and that the kernel may depend on, in words."""
        shapes = launch_shapes(module, kernel, self.shape)
        found: list[str] = []
        if not shapes.blocks.fixed:
            found.append("block")
        if not shapes.clusters.fixed:
            found.append("cluster")
        if self.shape.grid is None and asks_for_grid(module, kernel):
            found.append("grid")
        if self.dynamic_smem_bytes is None and has_dynamic_shared(module, kernel):
            found.append("dynamic_smem")
        used = members(kernel)
        for index in range(len(kernel.parameters)):
            param = self.params[index] if self.params else None
            if param is None:
                found.append(f"params[{index}]")
            elif isinstance(param, OpaqueParam):
                found += [
                    f"params[{index}] from byte {member.offset_bytes} on"
                    for member in used
                    if member.parameter == index and overlaps(param.unknown_bytes, member)
                ]
        return tuple(found)

    def whole(self, kernel: Kernel) -> Launch:
        """The launch, where `left_open` names nothing that matters: what is not known has the driver's defaults."""
        cluster = self.shape.cluster or declared_cluster(kernel)
        params = tuple(param for param in self.params if param is not None)
        return Launch(
            kernel.name,
            self.shape.grid or cluster,
            self.shape.block or declared_block(kernel),
            params,
            cluster,
            self.dynamic_smem_bytes or 0,
        )


def overlaps(ranges: Sequence[tuple[int, int]], member: Member) -> bool:
    """Whether any of the byte ranges of a parameter has a byte of its member."""
    begin, end = member.offset_bytes, member.offset_bytes + member.size_bytes
    return any(low < end and begin < high for low, high in ranges)


def has_dynamic_shared(module: Module, kernel: Kernel) -> bool:
    """Whether the kernel has shared memory whose size the launch says."""
    return any(
        variable.space == "shared" and variable.size_bytes is None
        for variable in (*module.variables, *kernel.variables)
    )


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """What is given of a launch. None stands for what it leaves open."""

    file: str
    """Its name, for messages."""
    entry: str | None
    """The kernel that is launched."""
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    dynamic_smem_bytes: int | None
    params: tuple[Param | None, ...] | None
    """One for each parameter, None for one that is left open; None where it says nothing of any."""
    buffers: tuple[BufferSize, ...]
    contents: tuple[BufferContents, ...] = ()
    """What stands in buffers."""
    names: tuple[str, ...] = ()
    """Of the parameters, as far as they are given, for messages."""

    def kernel(self, module: Module, path: str) -> Kernel:
        """The kernel of `module` (read from `path`) that is launched. Raises TilewrightError where there is none."""
        names = [kernel.name for kernel in module.kernels]
        if self.entry is None and len(names) == 1:
            return module.kernels[0]
        for kernel in module.kernels:
            if kernel.name == self.entry:
                return kernel
        if not names:
            raise TilewrightError(f"{path} has no kernel", remedy="give a file with a .entry")
        listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        if self.entry is None:
            raise TilewrightError(
                f"{self.file} does not say which of the {len(names)} kernels of {path} it launches",
                remedy=f'add "entry": one of {listed}',
            )
        near = get_close_matches(self.entry, names, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"it has {listed}"
        place = self.file if self.file.startswith("--") else f"{self.file}: entry"
        raise TilewrightError(f"{place}: {path} has no kernel {self.entry!r}", remedy=remedy)

    def resolve(self, kernel: Kernel) -> Launch:
        """The whole launch of `kernel`. Raises TilewrightError where the parameters are not the kernel's, or where one
        is not given."""
        params: list[Param] = []
        for index, param in enumerate(self.fitted(kernel)):
            if param is None:
                raise TilewrightError(
                    f"{self.file}: params[{index}]: is not given, and there is no running without it",
                    span=kernel.parameters[index].span,
                    remedy="write what the parameter is; tilewright check takes what is left out for anything",
                )
            params.append(param)
        launch = Launch(
            kernel.name,
            self.grid or self.cluster or declared_cluster(kernel),
            self.block or declared_block(kernel),
            tuple(params),
            self.cluster or declared_cluster(kernel),
            self.dynamic_smem_bytes or 0,
        )
        require_shape(kernel, GivenShape(launch.block, launch.cluster, launch.grid), self.file)
        return launch

    def fitted(self, kernel: Kernel) -> tuple[Param | None, ...]:
        """One parameter for each of the kernel's, None where nothing is said of it. Raises TilewrightError where they
        are not the kernel's."""
        expected = len(kernel.parameters)
        if self.params is None:
            return (None,) * expected
        if expected != len(self.params):
            raise TilewrightError(
                f"{self.file}: params: has {len(self.params)} entries; {kernel.name} takes {expected} parameters",
                span=kernel.span,
                remedy="give one entry for each .param of the kernel, hidden ones too, in the text's order; "
                "null stands for one that is not known",
            )
        return tuple(
            None if param is None else self._fitted(index, param, kernel) for index, param in enumerate(self.params)
        )

    def partial(self, kernel: Kernel) -> PartialLaunch:
        """What is given of a launch of `kernel`. Raises TilewrightError where it is not the kernel's."""
        shape = GivenShape(self.block, self.cluster, self.grid)
        require_shape(kernel, shape, self.file)
        if len(self.names) > len(kernel.parameters):
            raise TilewrightError(
                f"{self.file}: names: has {len(self.names)} entries; {kernel.name} takes {len(kernel.parameters)} "
                "parameters",
                span=kernel.span,
                remedy="give the names of the kernel's parameters, hidden ones too, in the text's order",
            )
        return PartialLaunch(
            shape, self.dynamic_smem_bytes, self.fitted(kernel), self.buffers, self.file, self.contents, self.names
        )

    def _fitted(self, index: int, param: Param, kernel: Kernel) -> Param:
        """The parameter as the kernel declares it: numbers may be narrower there, or wider floats."""
        parameter = kernel.parameters[index]
        size, wanted = param_bytes(param), parameter.size_bytes
        if size == wanted:
            return param
        match param:
            case ScalarParam("i32", value) if wanted in (1, 2):
                low, high = -(1 << (8 * wanted - 1)), (1 << 8 * wanted) - 1
                if low <= value <= high:
                    return OpaqueParam(wanted, (int(value) & high).to_bytes(wanted, "little"))
            case ScalarParam("f32", value) if parameter.type == "f64":
                return OpaqueParam(8, struct.pack("<d", value))
            case _:
                pass
        raise TilewrightError(
            f"{self.file}: params[{index}]: has {size} bytes; parameter {parameter.name} of {kernel.name} has {wanted}",
            span=parameter.span,
            remedy=f"give a kind of {wanted} bytes, or kind bytes with that size",
        )

    def with_shape(self, shape: GivenShape) -> LaunchFile:
        """What is given, and a shape from elsewhere. Raises TilewrightError where the two contradict each other."""
        for name in ("grid", "block", "cluster"):
            own, other = getattr(self, name), getattr(shape, name)
            if own is not None and other is not None and own != other:
                raise TilewrightError(
                    f"{self.file}: {name}: is {own}; --{name} says {other}", remedy="leave one of them out"
                )
        return replace(
            self, grid=self.grid or shape.grid, block=self.block or shape.block, cluster=self.cluster or shape.cluster
        )


def require_shape(kernel: Kernel, shape: GivenShape, file: str = "") -> None:
    """Raises TilewrightError where block, cluster and grid contradict the kernel's directives or each other. file: that
    gives them; empty where options do."""

    def refuse(field: str, problem: str, remedy: str) -> NoReturn:
        place = f"{file}: {field}" if file else f"--{field}"
        raise TilewrightError(f"{place}: {problem}", span=kernel.span, remedy=remedy)

    other = "" if file else ", or choose another kernel with --entry"
    required = kernel.directives.get("reqntid")
    if shape.block is not None:
        if required is not None and extents_of(required) != shape.block:
            refuse("block", f"is {shape.block}; .reqntid of {kernel.name} is {required}", f"leave block out{other}")
        most = kernel.directives.get("maxntid")
        threads = math.prod(shape.block)
        if most is not None and threads > math.prod(most):
            problem = f"has {threads} threads; .maxntid of {kernel.name} is {most}"
            refuse("block", problem, f"launch fewer threads{other}")
    required = kernel.directives.get("reqnctapercluster")
    if shape.cluster is not None and required is not None and extents_of(required) != shape.cluster:
        refuse("cluster", f"is {shape.cluster}; .reqnctapercluster is {required}", f"leave cluster out{other}")
    cluster = shape.cluster or declared_cluster(kernel)
    if shape.grid is not None and any(blocks % ctas for blocks, ctas in zip(shape.grid, cluster, strict=True)):
        refuse("grid", f"is {shape.grid}, no multiple of the cluster {cluster}", "round the grid up")


@dataclass(frozen=True, slots=True)
class PlacedLaunch:
    """A launch on buffers that begin where their alignment ends. shifts: bytes by name that stand before a buffer's
    first, counted in its size."""

    launch: Launch
    buffers: tuple[BufferSize, ...]
    shifts: Mapping[str, int]


def placed(launch: Launch, buffers: Sequence[BufferSize]) -> PlacedLaunch:
    """The launch with every address as badly aligned as its buffer's alignment permits.

    A machine that places buffers at odd multiples of 256 bytes gives a buffer of alignment 16 an address that is no
    multiple of 32, so that an access which relies on more is seen to be misaligned. An access to the few bytes before
    the buffer is then not seen to be outside.
    """
    shifts = {buffer.name: _shift_bytes(buffer.align_bytes) for buffer in buffers}
    grown = tuple(replace(buffer, size_bytes=buffer.size_bytes + shifts[buffer.name]) for buffer in buffers)
    params = tuple(_shifted(param, shifts) for param in launch.params)
    return PlacedLaunch(replace(launch, params=params), grown, shifts)


def _shift_bytes(align_bytes: int) -> int:
    """From an odd multiple of 256 to an odd multiple of the alignment."""
    return align_bytes if align_bytes < DEFAULT_ALIGNMENT_BYTES else align_bytes - DEFAULT_ALIGNMENT_BYTES


def _shifted(param: Param, shifts: Mapping[str, int]) -> Param:
    match param:
        case PointerParam(buffer, offset, maps, pointers):
            shift = shifts.get(buffer, 0)
            held: list[tuple[int, TensorMapParam | UnknownTensorMapParam]] = []
            for at, each in maps:
                moved = _shifted(each, shifts)
                assert isinstance(moved, TensorMapParam | UnknownTensorMapParam)
                held.append((at + shift, moved))
            led: list[tuple[int, PointerParam]] = []
            for at, each in pointers:
                moved = _shifted(each, shifts)
                assert isinstance(moved, PointerParam)
                led.append((at + shift, moved))
            return PointerParam(buffer, offset + shift, tuple(held), tuple(led))
        case TensorMapParam(buffer, described):
            offset = described.offset_bytes + shifts.get(buffer, 0)
            return TensorMapParam(buffer, replace(described, offset_bytes=offset))
        case OpaqueParam(size, data, fields, given):
            placed_members: list[tuple[int, TensorMapParam | UnknownTensorMapParam | PointerParam]] = []
            for at, member in fields:
                moved = _shifted(member, shifts)
                assert isinstance(moved, TensorMapParam | UnknownTensorMapParam | PointerParam)
                placed_members.append((at, moved))
            return OpaqueParam(size, data, tuple(placed_members), given)
        case _:
            return param


def declared_block(kernel: Kernel) -> tuple[int, int, int]:
    """The block that a kernel's directives ask for (`.reqntid`, else the largest that `.maxntid` allows), else one
    thread."""
    return extents_of(kernel.directives.get("reqntid") or kernel.directives.get("maxntid") or ())


def declared_cluster(kernel: Kernel) -> tuple[int, int, int]:
    """The cluster that a kernel's directives ask for (`.reqnctapercluster`), else one CTA."""
    return extents_of(kernel.directives.get("reqnctapercluster") or ())


def extents_of(extents: Sequence[int]) -> tuple[int, int, int]:
    """x, y and z of extents that may be fewer: what is missing is 1."""
    x, y, z = (*extents, 1, 1, 1)[:3]
    return (x, y, z)


def plain_bytes(param: ScalarParam | NullPointerParam) -> bytes:
    """A number or a null pointer as it stands in memory."""
    match param:
        case NullPointerParam():
            return bytes(8)
        case ScalarParam("f32", value):
            return struct.pack("<f", value)
        case ScalarParam(kind, value):
            width = 8 if kind == "i64" else 4
            return (int(value) & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def param_bytes(param: Param) -> int:
    """Bytes that a parameter has in the kernel's parameter block."""
    match param:
        case PointerParam() | NullPointerParam():
            return 8
        case ScalarParam(kind=kind):
            return 8 if kind == "i64" else 4
        case OpaqueParam(size_bytes=size):
            return size
        case _:
            return 128
