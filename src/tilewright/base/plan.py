"""How a compiled program is launched: buffers, tensor maps, kernels in order. Pure data, which `plan_json` writes.

Parameters stand in the order of the kernel's declarations, each a pointer, a scalar or a tensor map described by the
arguments of `cuTensorMapEncodeTiled`, `cuTensorMapEncodeIm2col` or `cuTensorMapEncodeIm2colWide` (dimensions innermost
first, strides in bytes). This module does not judge whether a tensor map is legal (`legal` does) and does not encode it
(`runtime` does).
"""

from __future__ import annotations

from typing import Literal

from tilewright.base.element import Element
from tilewright.base.size import Range, Size
from tilewright.base.value import dataclass

Swizzle = Literal["none", "32B", "64B", "128B", "128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B"]
Interleave = Literal["none", "16B", "32B"]
OutOfBounds = Literal["zero", "nan"]
L2Promotion = Literal["none", "64B", "128B", "256B"]
BufferRole = Literal["input", "output", "workspace"]
Im2colMode = Literal["im2col", "im2col::w", "im2col::w::128"]
ElementVariant = Literal["none", "f32_ftz", "tf32", "tf32_ftz", "u4x16_align8", "u4x16_align16", "u6x16_align16"]
"""How the driver's data type differs from the map's element: f32 whose copies flush or round, or, with element u8,
values of 4 and 6 bits, sixteen of which are packed into 8 or 12 bytes of global memory."""

_VARIANT_BITS = {"u4x16_align8": 4, "u4x16_align16": 4, "u6x16_align16": 6}
"""Bits of one value in global memory."""


@dataclass(frozen=True, slots=True)
class Im2col:
    """What an im2col map has instead of a box. Index 0 is W, then H and D, as many as the mode has.

    lower_corner, upper_corner: of the bounding box, the first from the tensor's first pixel, the second from its last.
    Modes `im2col::w` and `im2col::w::128` have corners along W only.
    """

    lower_corner: tuple[int, ...]
    upper_corner: tuple[int, ...]
    channels_per_pixel: int
    pixels_per_column: int
    mode: Im2colMode = "im2col"


@dataclass(frozen=True, slots=True)
class TensorMap:
    """Arguments of one `cuTensorMapEncodeTiled`, or of an im2col map. Index 0 is the innermost dimension.

    dims: extents in elements (of packed variants: in values); strides_bytes: of dimensions 1..rank-1; box: elements per
    copy and dimension, empty for an im2col map; offset_bytes: where the tensor begins inside its buffer.
    """

    element: Element
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: Swizzle = "none"
    interleave: Interleave = "none"
    l2_promotion: L2Promotion = "none"
    out_of_bounds: OutOfBounds = "zero"
    offset_bytes: int = 0
    variant: ElementVariant = "none"
    im2col: Im2col | None = None

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def inner_bytes(self) -> int:
        """Bytes of one run along dimension 0: elements, slices of an interleaved map, or packed values."""
        if self.interleave != "none":
            return self.dims[0] * (16 if self.interleave == "16B" else 32)
        return -(-self.dims[0] * _VARIANT_BITS.get(self.variant, 8 * self.element.bytes) // 8)

    @property
    def span_bytes(self) -> int:
        """Bytes from the tensor's first to past its last, none of its strides being negative."""
        outer = zip(self.dims[1:], self.strides_bytes, strict=True)
        return self.inner_bytes + sum((extent - 1) * stride for extent, stride in outer)

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy adds to its mbarrier's transaction count: the full box, whatever is out of bounds.

        Raises ValueError for an interleaved map, for an im2col map and for packed values.
        """
        if self.interleave != "none" or self.im2col is not None or self.variant.endswith(("align8", "align16")):
            raise ValueError("slices, columns and packed values are counted by the copy engine's model")
        strides = self.element_strides or (1,) * self.rank
        count = self.box[0]
        for extent, stride in zip(self.box[1:], strides[1:], strict=True):
            count *= -(-extent // stride)
        return count * self.element.bytes


@dataclass(frozen=True, slots=True)
class TensorMapParam:
    """A 128-byte `CUtensorMap` passed by value (`.param .align 64 .b8 name[128]`)."""

    buffer: str
    map: TensorMap


@dataclass(frozen=True, slots=True)
class PointerParam:
    """A 64-bit global address: the start of a buffer plus `offset_bytes`.

    maps, pointers: tensor maps and pointers that the buffer holds when the kernel starts, by their offsets from its
    start; for checking.
    """

    buffer: str
    offset_bytes: int = 0
    maps: tuple[tuple[int, TensorMapParam | UnknownTensorMapParam], ...] = ()
    pointers: tuple[tuple[int, PointerParam], ...] = ()


@dataclass(frozen=True, slots=True)
class NullPointerParam:
    """A 64-bit pointer that is zero: a scratch area the kernel does not use."""


@dataclass(frozen=True, slots=True)
class UnknownTensorMapParam:
    """A tensor map of which nothing is known but, perhaps, what one copy through it transfers (`box_bytes`).

    For checking without a launch: such a kernel can be checked, not run for its numbers.
    """

    box_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class OpaqueParam:
    """A structure passed by value.

    data: its first bytes; fields: members that are no plain bytes (pointers, tensor maps), by their offset; given: the
    byte ranges of `data` that somebody gave, None for all of it. Who needs a value for what nobody gave takes zero; a
    check takes it for anything (`unknown_bytes`).
    """

    size_bytes: int
    data: bytes = b""
    fields: tuple[tuple[int, TensorMapParam | UnknownTensorMapParam | PointerParam], ...] = ()
    given: tuple[tuple[int, int], ...] | None = None

    @property
    def unknown_bytes(self) -> tuple[tuple[int, int], ...]:
        """The byte ranges that are neither data nor a member, in order."""
        known = list(self.given if self.given is not None else [(0, len(self.data))])
        known += [(at, at + (8 if isinstance(member, PointerParam) else 128)) for at, member in self.fields]
        found: list[tuple[int, int]] = []
        reached = 0
        for begin, end in sorted(known):
            if begin > reached:
                found.append((reached, begin))
            reached = max(reached, end)
        if reached < self.size_bytes:
            found.append((reached, self.size_bytes))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A number passed by value, little-endian; integers may be signed or unsigned."""

    kind: Literal["i32", "i64", "f32"]
    value: int | float


Param = TensorMapParam | PointerParam | ScalarParam | NullPointerParam | UnknownTensorMapParam | OpaqueParam


def buffers_of(param: Param) -> tuple[str, ...]:
    """The names of the buffers that a parameter refers to, in order."""
    match param:
        case PointerParam(buffer, _, maps, pointers):
            return (buffer, *(name for _, held in (*maps, *pointers) for name in buffers_of(held)))
        case TensorMapParam():
            return (param.buffer,)
        case OpaqueParam():
            return tuple(name for _, member in param.fields for name in buffers_of(member))
        case ScalarParam() | NullPointerParam() | UnknownTensorMapParam():
            return ()


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch. Grid, block and cluster are (x, y, z); `cluster` (1, 1, 1) means none.

    programmatic: the kernel may begin while the launch before it still runs, and waits for its results itself
    (griddepcontrol.wait). resident: its CTAs wait for one another, so the whole grid must fit on the GPU at once.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    params: tuple[Param, ...]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem_bytes: int = 0
    programmatic: bool = False
    resident: bool = False


@dataclass(frozen=True, slots=True)
class Buffer:
    """A named array. strides in elements, outermost first, one per dimension of `shape`.

    role: "input" and "output" are the caller's arrays, in the order of the program's parameters; "workspace" is
    allocated by whoever launches. zeroed: a workspace that holds zeros when the first launch begins; the launches leave
    zeros in it, so that it need not be cleared again.
    """

    name: str
    element: Element
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    role: BufferRole
    zeroed: bool = False

    @property
    def span_elements(self) -> int:
        """Elements from the first to the last addressed, inclusive."""
        if 0 in self.shape:
            return 0
        return 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))

    @property
    def span_bytes(self) -> int:
        return self.span_elements * self.element.bytes

    @property
    def elements(self) -> tuple[Element, tuple[tuple[int, int], ...]]:
        """The element, as what it is copied, and (extent, stride) of the array's dimensions from the widest stride on,
        those in one that go on where another ends. Two arrays at one address that agree in this are the same
        elements."""
        found: list[tuple[int, int]] = []
        dims = zip(self.strides, self.shape, strict=True)
        for stride, extent in sorted((each for each in dims if each[1] != 1), reverse=True):
            if found and found[-1][1] == extent * stride:
                extent *= found.pop()[0]
            found.append((extent, stride))
        return self.element.copied_as, tuple(found)


@dataclass(frozen=True, slots=True)
class LaunchSizes:
    """The sizes of one launch. params: of each parameter, the dimensions of a tensor map, and behind them its strides
    where one is no number; or a scalar that the launch computes; nothing of others. launched: 0 at extents at which it
    is left out."""

    grid: tuple[Size, Size, Size]
    params: tuple[tuple[Size, ...], ...]
    launched: Size = 1


@dataclass(frozen=True, slots=True)
class RunTimeSizes:
    """What a plan's numbers are where extents are known only at a launch. ranges: of each run-time axis; shapes: of the
    plan's buffers; launches: of its launches; strides: of the buffers, none where all are the buffers' own.
    `base.run_time` puts extents in."""

    ranges: tuple[tuple[str, Range], ...]
    shapes: tuple[tuple[Size, ...], ...]
    launches: tuple[LaunchSizes, ...]
    strides: tuple[tuple[Size, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Everything needed to run a compiled program: its arrays, and its launches in order on one stream.

    run_time: of a program with run-time axes, which numbers depend on their extents; those that stand here are of the
    largest ones.
    """

    buffers: tuple[Buffer, ...]
    launches: tuple[Launch, ...]
    run_time: RunTimeSizes | None = None

    def buffer(self, name: str) -> Buffer:
        """The buffer called `name`. Raises KeyError where there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)
