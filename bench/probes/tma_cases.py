"""Which tensor copies to try: random maps that the driver should take, and coordinates around their edges, by class.

A class is a kind of copy that may have a rule of its own. Every map lies inside `REGION` of a buffer with room on both
sides, so that a copy that goes astray by a little reads a neighbour and faults nothing. Classes in `RISKY` may raise an
illegal instruction, and are tried copy by copy where they do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

import numpy as np

from tilewright.base.element import Element
from tilewright.base.plan import ElementVariant, Im2col, Interleave, OutOfBounds, Swizzle, TensorMap

REGION = (1 << 24, 3 << 23)
"""First and past last byte of the buffer that a map may cover."""
WINDOW_BYTES = 24576
ARENA_BYTES = 49152
ARENA_MARGIN = 8192
"""Of what a store may change, and how far inside its tensor begins and ends."""

Option = TypeVar("Option")
Types = tuple[Element, ElementVariant]
TYPES: tuple[Types, ...] = (
    (Element.U8, "none"), (Element.U16, "none"), (Element.U32, "none"), (Element.S32, "none"), (Element.U64, "none"),
    (Element.S64, "none"), (Element.F16, "none"), (Element.F32, "none"), (Element.F64, "none"), (Element.BF16, "none"),
)  # fmt: skip
CONVERTING: tuple[Types, ...] = ((Element.F32, "f32_ftz"), (Element.F32, "tf32"), (Element.F32, "tf32_ftz"))
SPANS: dict[Swizzle, int] = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
SLICES: dict[Interleave, int] = {"none": 0, "16B": 16, "32B": 32}


@dataclass(frozen=True, slots=True)
class Case:
    """One copy. map: its `offset_bytes` count from the buffer, of stores from the arena; place: in the window; source:
    what the buffer (of stores, the window) holds: `hash` bytes, `special` f32 words, or small `floats`."""

    kernel: str
    map: TensorMap
    coordinates: tuple[int, ...]
    offsets: tuple[int, ...]
    place: int
    source: str = "hash"


class Chooser:
    """Random choices with what copies need."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """Between low and high, both included."""
        return int(self.random.integers(low, high + 1))

    def small(self, high: int) -> int:
        """Between 1 and high, small ones more often."""
        return max(1, min(high, int(high ** float(self.random.random()) + self.random.random())))

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def among(self, *options: Option) -> Option:
        return options[int(self.random.integers(len(options)))]


def strides(
    choose: Chooser, dims: list[int], inner_bytes: int, multiple: int, budget: int, overlapping: bool
) -> tuple[int, ...] | None:
    """Strides of dimensions 1 and up, mostly dense with padding; None where the tensor takes more than budget bytes.

    overlapping: now and then bytes may belong to several elements, which no store should do.
    """
    found: list[int] = []
    step = inner_bytes
    for extent in dims[1:]:
        pad = choose.integer(0, 3) * multiple if choose.chance(0.4) else 0
        stride = -(-step // multiple) * multiple + pad
        if overlapping and choose.chance(0.03):
            stride = choose.integer(0, 8) * multiple
        found.append(stride)
        step = stride * extent
    reach = inner_bytes + sum((extent - 1) * stride for extent, stride in zip(dims[1:], found, strict=True))
    return tuple(found) if reach <= budget else None


def coordinate(choose: Chooser, extent: int, box: int, step: int = 1) -> int:
    """A start coordinate: inside, across the first or the last unit, or wholly outside; a multiple of `step`."""
    low, high = (0, extent - 1)
    if choose.chance(0.5):
        low, high = choose.among((-box, extent + box), (extent - box, extent), (-box - 1, 0), (0, 0))
    if low > high:
        low, high = high, low
    return choose.integer(low // step, high // step) * step


def region_offset(choose: Chooser, multiple: int, store: bool) -> int:
    if store:
        return ARENA_MARGIN + choose.integer(0, 15) * multiple
    return REGION[0] + choose.integer(0, 1 << 16) * multiple


def tiled(
    choose: Chooser, kind: str = "load", types: tuple[Types, ...] = TYPES, interleave: Interleave | None = None,
    swizzle: Swizzle | None = None, stepped: bool = False, wide_span: bool = False, source: str = "hash",
) -> Case | None:  # fmt: skip
    """A copy in tile mode. wide_span: the row is narrower than the swizzle's span."""
    element, variant = choose.among(*types)
    interleave = interleave or "none"
    slice_bytes = SLICES[interleave]
    if swizzle is None:
        swizzle = "32B" if interleave == "32B" else choose.among("none", "32B", "64B", "128B")
    rank = choose.integer(3 if slice_bytes else 1, 5)
    width = element.bytes
    multiple = 32 if interleave == "32B" else 16
    budget = (ARENA_BYTES - 2 * ARENA_MARGIN) if kind != "load" else REGION[1] - REGION[0] - (1 << 21)
    span = 0 if slice_bytes else SPANS[swizzle]
    pieces = choose.small(min(span or 2048, 256 * width) // 16)
    if wide_span:
        pieces = choose.integer(1, max(span // 16 - 1, 1))
    box = [pieces * 16 // width, *(choose.small(256) for _ in range(rank - 1))]
    steps = [choose.integer(1, 8) if stepped and choose.chance(0.6) else 1 for _ in range(rank)]
    unit = slice_bytes or width
    while box_bytes(box, steps, unit, bool(slice_bytes), span) > 16384:
        at = choose.integer(1, rank - 1) if rank > 1 and max(box[1:]) > 1 else 0
        if at == 0:
            box[0] = max(16 // width, box[0] // 2 * width // 16 * 16 // width)
        else:
            box[at] = max(1, box[at] // 2)
    if max(box) > 256:
        return None
    big = 12 if kind != "load" else 60
    dims = [max(1, choose.integer(-3, 3) + choose.among(extent, extent * 2, extent // 2, choose.small(big)))
            for extent in box]  # fmt: skip
    inner_bytes = dims[0] * unit
    found = strides(choose, dims, inner_bytes, multiple, budget, kind == "load")
    if found is None:
        return None
    step0 = 1 if slice_bytes else 16 // width
    at = [coordinate(choose, dims[0], box[0], step0)]
    at += [coordinate(choose, extent, size) for extent, size in zip(dims[1:], box[1:], strict=True)]
    if kind != "load":
        at = [max(0, each) for each in at]
        at[0] = at[0] // step0 * step0
    fill: OutOfBounds = "nan" if element.is_float and choose.chance(0.4) else "zero"
    made = TensorMap(
        element, tuple(dims), found, tuple(box), tuple(steps), swizzle, interleave, choose.among("none", "128B"), fill,
        region_offset(choose, multiple, kind != "load"), variant,
    )  # fmt: skip
    operation = "_add" if kind == "reduce" else ""
    return Case(f"{kind}{operation}_{rank}", made, tuple(at), (), choose.integer(0, 31) * 128, source)


def box_bytes(box: list[int], steps: list[int], unit: int, slices: bool, span: int) -> int:
    """An upper bound of what the box takes in shared memory."""
    counts = [-(-extent // step) for extent, step in zip(box, steps, strict=True)]
    row = box[0] * unit if not slices else counts[0] * unit
    return max(row, span) * prod(counts[1:])


def im2col(
    choose: Chooser, kind: str = "load", interleave: Interleave = "none", wild: bool = False, outside: bool = False,
    types: tuple[Types, ...] = TYPES, image_steps: bool = False, source: str = "hash",
) -> Case | None:  # fmt: skip
    """An im2col copy. wild: it begins just outside its bounding box; outside: of a store, one corner leaves the tensor;
    image_steps: element strides along channels and images, too."""
    rank = choose.integer(3, 5)
    element, variant = choose.among(*types)
    width, slice_bytes = element.bytes, SLICES[interleave]
    swizzle: Swizzle = "32B" if interleave == "32B" else choose.among("none", "32B", "64B", "128B")
    multiple = 32 if interleave == "32B" else 16
    pieces = choose.small(min(512 if slice_bytes else SPANS[swizzle] or 1024, 256 * width) // 16)
    channels = pieces * 16 // width
    pitch = slice_bytes or max(pieces * 16, SPANS[swizzle])
    pixels = choose.small(min(1024, 16384 // max(pitch, pieces * 16)))
    axes = rank - 2
    spatial = [choose.small(12 if kind == "load" else 6) for _ in range(axes)]
    images = choose.integer(1, 4)
    groups = choose.small(5)
    if slice_bytes:
        dims, unit = [*spatial, groups, images], slice_bytes
    else:
        dims, unit = [channels * choose.integer(1, 3) + choose.integer(-2, 2), *spatial, images], width
        dims[0] = max(1, dims[0])
    budget = (ARENA_BYTES - 2 * ARENA_MARGIN) if kind != "load" else 1 << 22
    found = strides(choose, dims, dims[0] * unit, multiple, budget, kind == "load")
    if found is None:
        return None
    limit = {1: 6, 2: 6, 3: 4}[axes]
    lower = [choose.integer(-limit, 3) for _ in range(axes)]
    upper = [choose.integer(-3, limit) for _ in range(axes)]
    if kind != "load":
        lower, upper = [max(0, each) for each in lower], [min(0, each) for each in upper]
    if outside:
        corners, by = choose.among((lower, -1), (upper, 1))
        corners[choose.integer(0, axes - 1)] = by
    last = [extent - 1 + corner for extent, corner in zip(spatial, upper, strict=True)]
    if any(low > high for low, high in zip(lower, last, strict=True)):
        return None
    steps = [choose.integer(1, 4) if choose.chance(0.4) else 1 for _ in range(axes)]
    start = [low + choose.integer(0, (high - low) // step) * step
             for low, high, step in zip(lower, last, steps, strict=True)]  # fmt: skip
    if wild:
        axis = choose.integer(0, axes - 1)
        start[axis] = choose.among(lower[axis] - choose.integer(1, 3), last[axis] + choose.integer(1, 3))
    most = {1: 65535, 2: 255, 3: 31}[axes]
    taps = [choose.integer(0, 3) if choose.chance(0.97) else most for _ in range(axes)]
    image = choose.integer(-1, images + 1) if choose.chance(0.15) else choose.integer(0, images - 1)
    channel = coordinate(choose, dims[0], channels, 16 // width) if not slice_bytes else 0
    group = choose.integer(-1, groups) if choose.chance(0.15) else choose.integer(0, groups - 1)
    if kind != "load":
        start, image = [max(0, each) for each in start], max(0, image)
        channel, group, taps = max(0, channel), max(0, group), []
    at = [*start, group, image] if slice_bytes else [channel, *start, image]
    all_steps = [*steps, 1, 1] if slice_bytes else [1, *steps, 1]
    if image_steps:
        all_steps[-1] = choose.integer(1, 3)
        all_steps[-2 if slice_bytes else 0] = choose.integer(1, 3)
    fill: OutOfBounds = "nan" if element.is_float and choose.chance(0.4) else "zero"
    made = TensorMap(
        element, tuple(dims), found, (), tuple(all_steps), swizzle, interleave, "none", fill,
        region_offset(choose, multiple, kind != "load"), variant, Im2col(tuple(lower), tuple(upper), channels, pixels),
    )  # fmt: skip
    operation = "_add" if kind == "reduce" else ""
    return Case(f"{kind}{operation}_im2col_{rank}", made, tuple(at), tuple(taps), choose.integer(0, 31) * 128, source)


def far(choose: Chooser) -> Case | None:
    """Coordinates far away, and extents up to 2^31 along a dimension of stride 0."""
    case = tiled(choose)
    if case is None or case.map.rank < 2:
        return None
    which = choose.integer(0, case.map.rank - 1)
    place = choose.among(1 << 20, 1 << 30, (1 << 31) - 4096, -(1 << 20), -(1 << 30), -(1 << 31) + 4096, -(1 << 31))
    at = [*case.coordinates[:which], place, *case.coordinates[which + 1 :]]
    if choose.chance(0.4):
        which = choose.integer(1, case.map.rank - 1)
        extent = choose.among(1 << 31, (1 << 31) - 1, 1 << 20)
        at[which] = choose.among(place, extent - choose.integer(1, 4), -1, 0)
        return stretched(case, which, extent, tuple(at))
    return Case(case.kernel, case.map, tuple(at), (), case.place)


def stretched(case: Case, which: int, extent: int, at: tuple[int, ...]) -> Case:
    """The case with another extent; along outer dimensions, without a stride."""
    dims = (*case.map.dims[:which], extent, *case.map.dims[which + 1 :])
    spans = list(case.map.strides_bytes)
    if which:
        spans[which - 1] = 0
    return Case(case.kernel, replace(case.map, dims=dims, strides_bytes=tuple(spans)), at, (), case.place)


def huge(choose: Chooser) -> Case | None:
    """Extents above 2^31, which the driver takes, with coordinates at the tensor's beginning or before it."""
    case = tiled(choose, swizzle="none")
    if case is None:
        return None
    which = choose.integer(0, case.map.rank - 1)
    at = tuple(0 if axis == which else max(0, each) for axis, each in enumerate(case.coordinates))
    return stretched(case, which, choose.among((1 << 31) + 1, (1 << 31) + 256, 3 << 30, (1 << 32) - 1, 1 << 32), at)


def special(choose: Chooser, kind: str = "load") -> Case | None:
    """Copies of f32 words that a conversion would change."""
    case = tiled(choose, kind, (*CONVERTING, (Element.F32, "none")), source="special")
    if case is None or prod(case.map.box) > 2048:
        return None
    return case


def reduction(choose: Chooser, columns: bool = False) -> Case | None:
    """Sums in global memory."""
    types: tuple[Types, ...] = (
        (Element.F32, "none"), (Element.BF16, "none"), (Element.F16, "none"), (Element.U32, "none"),
        (Element.S32, "none"), (Element.U64, "none"), (Element.F32, "f32_ftz"), (Element.F32, "tf32"),
    )  # fmt: skip
    source = choose.among("floats", "special")
    return (
        im2col(choose, "reduce", types=types, source=source)
        if columns
        else tiled(choose, "reduce", types, source=source)
    )


_EXTREMA: tuple[Types, ...] = (
    (Element.U32, "none"), (Element.S32, "none"), (Element.U64, "none"), (Element.S64, "none"), (Element.F16, "none"),
    (Element.BF16, "none"),
)  # fmt: skip
_WORDS: tuple[Types, ...] = ((Element.U32, "none"), (Element.U64, "none"))
_OPERANDS = {
    "min": _EXTREMA, "max": _EXTREMA, "and": _WORDS, "or": _WORDS, "xor": _WORDS, "inc": _WORDS[:1], "dec": _WORDS[:1],
}  # fmt: skip


def operation(choose: Chooser) -> Case | None:
    """Reductions other than sums, of matrices."""
    name = choose.among(*_OPERANDS)
    case = tiled(choose, "reduce", _OPERANDS[name], source=choose.among("floats", "special"))
    if case is None or case.map.rank != 2:
        return None
    return replace(case, kernel=f"reduce_{name}_2")


def misaligned(choose: Chooser, columns: bool) -> Case | None:
    """A start coordinate of dimension 0 that is no multiple of 16 bytes: an illegal instruction, is it always?"""
    case = im2col(choose) if columns else tiled(choose)
    if case is None or case.map.element.bytes > 8:
        return None
    return Case(case.kernel, case.map, (case.coordinates[0] + 1, *case.coordinates[1:]), case.offsets, case.place)


CLASSES: dict[str, Callable[[Chooser], Case | None]] = {
    "load": tiled,
    "load_stepped": lambda choose: tiled(choose, stepped=True),
    "load_pitch": lambda choose: tiled(choose, swizzle=choose.among("32B", "64B", "128B"), wide_span=True,
                                       stepped=choose.chance(0.5)),
    "load_slices_16": lambda choose: tiled(choose, interleave="16B", stepped=choose.chance(0.5)),
    "load_slices_32": lambda choose: tiled(choose, interleave="32B", stepped=choose.chance(0.5)),
    "load_types": lambda choose: tiled(choose, types=CONVERTING),
    "load_special": special,
    "store": lambda choose: tiled(choose, "store"),
    "store_stepped": lambda choose: tiled(choose, "store", stepped=True),
    "store_slices": lambda choose: tiled(choose, "store", interleave=choose.among("16B", "32B"),
                                         stepped=choose.chance(0.3)),
    "store_special": lambda choose: special(choose, "store"),
    "reduce": reduction,
    "reduce_im2col": lambda choose: reduction(choose, columns=True),
    "reduce_other": operation,
    "im2col": im2col,
    "im2col_steps": lambda choose: im2col(choose, image_steps=True),
    "im2col_slices": lambda choose: im2col(choose, interleave=choose.among("16B", "32B")),
    "im2col_types": lambda choose: im2col(choose, types=CONVERTING),
    "im2col_store": lambda choose: im2col(choose, "store"),
    "im2col_store_slices": lambda choose: im2col(choose, "store", interleave=choose.among("16B", "32B")),
    "far": far,
    "huge": huge,
    "im2col_wild": lambda choose: im2col(choose, wild=True),
    "im2col_store_outside": lambda choose: im2col(choose, "store", outside=True),
    "misaligned": lambda choose: misaligned(choose, False),
    "misaligned_im2col": lambda choose: misaligned(choose, True),
}  # fmt: skip
RISKY = {
    "far": 120, "huge": 24, "im2col_wild": 24, "im2col_store_outside": 12, "misaligned": 2, "misaligned_im2col": 2
}  # fmt: skip
"""How many copies of the classes that may raise an illegal instruction."""
ALONE = frozenset(RISKY) - {"far"}
"""Classes whose copies are expected to raise: each runs in a process of its own from the start."""


def cases(name: str, count: int, seed: int) -> list[Case]:
    """`count` copies of a class, or fewer where it's a risky one."""
    choose = Chooser(seed)
    wanted = min(count, RISKY.get(name, count))
    found: list[Case] = []
    for _ in range(wanted * 50):
        case = CLASSES[name](choose)
        if case is not None:
            found.append(case)
            if len(found) == wanted:
                break
    return found
