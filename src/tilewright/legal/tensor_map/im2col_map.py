"""What is an im2col tensor map, as a user states it? The arguments of `cuTensorMapEncodeIm2col` and its wide kin.

Instead of a box, an im2col map has the corners of a box of pixels, the channels that a copy takes of each pixel, and
the pixels of one column (PTX ISA 5.5.4 and, for the wide modes, 5.5.6). Everything else is as in `tensor_map`:
innermost dimension first, strides in bytes, names or the driver's numbers, any value, legal or not; what is no map at
all is an error.

Not handled: the 128 bytes that the driver makes of it. Checked by: tests/legal/tensor_map/test_im2col.py.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from tilewright.base import plan
from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.legal.argument import integer, integers, shown
from tilewright.legal.tensor_map.enumerations import (
    DATA_TYPE_NAMES,
    DATA_TYPES,
    FILLS,
    INTERLEAVES,
    L2_PROMOTIONS,
    SWIZZLES,
    WIDE_MODES,
    DataType,
)
from tilewright.legal.tensor_map.rule import Fields
from tilewright.legal.tensor_map.tensor_map import (
    TensorMap,
    check_lengths,
    dtype_of_plan,
    enumerated,
    enumeration_number,
    normalize_enumerations,
    plan_element,
    plan_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Im2colMap:
    """One im2col tensor map: the arguments of `cuTensorMapEncodeIm2col` (CUDA Driver API).

    dims, strides, address, enumerations: as in `TensorMap`; lower_corner, upper_corner: rank - 2 signed pixels, of
    dimension 1 first, from the tensor's first pixel and from its last; channels_per_pixel: elements of dimension 0;
    pixels_per_column: pixels that one copy moves. Raises TilewrightError as `TensorMap` does.
    """

    dtype: str | int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    lower_corner: tuple[int, ...]
    upper_corner: tuple[int, ...]
    channels_per_pixel: int
    pixels_per_column: int
    element_strides: tuple[int, ...] | None = None
    interleave: str | int = "none"
    swizzle: str | int = "none"
    l2_promotion: str | int = "none"
    oob_fill: str | int = "zero"
    address: int = 0

    def __post_init__(self) -> None:
        values = self.__dict__
        rank = _normalize(values)
        for field in ("lower_corner", "upper_corner"):
            values[field] = integers(field, values[field])
        # A map of too low a rank has no corners that fit; how many it is given doesn't matter then.
        if rank >= 2:
            check_lengths(values, (("lower_corner", rank - 2), ("upper_corner", rank - 2)))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def data_type(self) -> DataType | None:
        """What is known of the data type; None where the enumeration has no such value."""
        number: int = self.fields.dtype
        return DATA_TYPES[number] if 0 <= number < len(DATA_TYPES) else None

    @cached_property
    def fields(self) -> Fields:
        """What the rules read, enumerations as the driver's numbers."""
        return _fields(self, self.lower_corner, self.upper_corner, 0)

    def to_plan(self) -> plan.TensorMap:
        """The same map for a launch plan. Raises TilewrightError as `TensorMap.to_plan` does."""
        return _to_plan(self, self.lower_corner, self.upper_corner, "im2col")

    @staticmethod
    def from_plan(map: plan.TensorMap, address: int = 0) -> Im2colMap:
        """The im2col map of a launch plan whose buffer is at `address`. Raises TilewrightError for another kind."""
        if map.im2col is None or map.im2col.mode != "im2col":
            raise TilewrightError("tensor map: not an im2col map", remedy="use any_from_plan")
        return Im2colMap(
            dtype_of_plan(map), map.dims, map.strides_bytes, map.im2col.lower_corner, map.im2col.upper_corner,
            map.im2col.channels_per_pixel, map.im2col.pixels_per_column, map.element_strides or None, map.interleave,
            map.swizzle, map.l2_promotion, map.out_of_bounds, address + map.offset_bytes,
        )  # fmt: skip


@dataclass(frozen=True)
class Im2colWideMap:
    """One im2col map along W alone: the arguments of `cuTensorMapEncodeIm2colWide` (CUDA Driver API, from 13.0).

    As `Im2colMap`, with one corner of each kind, along W, and a mode: `w` counts pixels_per_column, `w128` always moves
    128 pixels. Raises TilewrightError as `TensorMap` does.
    """

    dtype: str | int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    lower_corner: int
    upper_corner: int
    channels_per_pixel: int
    pixels_per_column: int
    element_strides: tuple[int, ...] | None = None
    interleave: str | int = "none"
    mode: str | int = "w"
    swizzle: str | int = "128B"
    l2_promotion: str | int = "none"
    oob_fill: str | int = "zero"
    address: int = 0

    def __post_init__(self) -> None:
        values = self.__dict__
        _normalize(values)
        for field in ("lower_corner", "upper_corner"):
            values[field] = integer(field, values[field])
        values["mode"] = enumerated("mode", values["mode"], WIDE_MODES)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def data_type(self) -> DataType | None:
        """What is known of the data type; None where the enumeration has no such value."""
        number: int = self.fields.dtype
        return DATA_TYPES[number] if 0 <= number < len(DATA_TYPES) else None

    @cached_property
    def fields(self) -> Fields:
        """What the rules read, enumerations as the driver's numbers; the corners have one entry."""
        return _fields(self, (self.lower_corner,), (self.upper_corner,), enumeration_number(self.mode, WIDE_MODES))

    def to_plan(self) -> plan.TensorMap:
        """The same map for a launch plan. Raises TilewrightError as `TensorMap.to_plan` does."""
        mode = plan_name("mode", self.mode, WIDE_MODES)
        return _to_plan(
            self, (self.lower_corner,), (self.upper_corner,), "im2col::w" if mode == "w" else "im2col::w::128"
        )

    @staticmethod
    def from_plan(map: plan.TensorMap, address: int = 0) -> Im2colWideMap:
        """The wide map of a launch plan whose buffer is at `address`. Raises TilewrightError for another kind."""
        wide = map.im2col
        if wide is None or wide.mode == "im2col" or not len(wide.lower_corner) == len(wide.upper_corner) == 1:
            raise TilewrightError("tensor map: not an im2col map along W", remedy="use any_from_plan")
        return Im2colWideMap(
            dtype_of_plan(map), map.dims, map.strides_bytes, wide.lower_corner[0], wide.upper_corner[0],
            wide.channels_per_pixel, wide.pixels_per_column, map.element_strides or None, map.interleave,
            "w" if wide.mode == "im2col::w" else "w128", map.swizzle, map.l2_promotion, map.out_of_bounds,
            address + map.offset_bytes,
        )  # fmt: skip


AnyMap = TensorMap | Im2colMap | Im2colWideMap


def any_from_plan(map: plan.TensorMap, address: int = 0) -> AnyMap:
    """The map of a launch plan, of whichever kind, whose buffer is at `address`.

    Raises TilewrightError where the fields' lengths contradict each other.
    """
    if map.im2col is None:
        return TensorMap.from_plan(map, address)
    if map.im2col.mode == "im2col":
        return Im2colMap.from_plan(map, address)
    return Im2colWideMap.from_plan(map, address)


def map_of(map: object) -> AnyMap:
    """A tensor map as a caller gives it: of this package, or of a launch plan, whose buffer is at address 0.

    Raises TilewrightError for anything else.
    """
    match map:
        case TensorMap() | Im2colMap() | Im2colWideMap():
            return map
        case plan.TensorMap():
            return any_from_plan(map)
        case _:
            raise TilewrightError(
                f"not a tensor map: {shown(map)}", remedy="give a TensorMap, an Im2colMap or an Im2colWideMap"
            )


def _normalize(values: dict[str, object]) -> int:
    """What all im2col maps share, in place; the rank."""
    normalize_enumerations(values)
    for field in ("dims", "strides"):
        values[field] = integers(field, values[field])
    rank = len(cast("tuple[int, ...]", values["dims"]))
    given = values["element_strides"]
    values["element_strides"] = (1,) * rank if given is None else integers("element_strides", given)
    check_lengths(values, (("strides", max(rank - 1, 0)), ("element_strides", rank)))
    for field in ("channels_per_pixel", "pixels_per_column", "address"):
        values[field] = integer(field, values[field])
    return rank


def _fields(map: Im2colMap | Im2colWideMap, lower: tuple[int, ...], upper: tuple[int, ...], wide_mode: int) -> Fields:
    values: Mapping[str, str | int] = map.__dict__
    return Fields(
        dtype=enumeration_number(values["dtype"], DATA_TYPE_NAMES),
        rank=len(map.dims),
        address=map.address,
        dims=map.dims,
        strides=map.strides,
        box=(),
        element_strides=cast("tuple[int, ...]", map.element_strides),
        interleave=enumeration_number(values["interleave"], INTERLEAVES),
        swizzle=enumeration_number(values["swizzle"], SWIZZLES),
        l2_promotion=enumeration_number(values["l2_promotion"], L2_PROMOTIONS),
        oob_fill=enumeration_number(values["oob_fill"], FILLS),
        lower_corner=lower,
        upper_corner=upper,
        channels_per_pixel=map.channels_per_pixel,
        pixels_per_column=map.pixels_per_column,
        wide_mode=wide_mode,
    )


def _to_plan(
    map: Im2colMap | Im2colWideMap, lower: tuple[int, ...], upper: tuple[int, ...], mode: plan.Im2colMode
) -> plan.TensorMap:
    element, variant = plan_element(map.dtype)
    return plan.TensorMap(
        element=element,
        variant=variant,
        dims=map.dims,
        strides_bytes=map.strides,
        box=(),
        element_strides=cast("tuple[int, ...]", map.element_strides),
        swizzle=plan_name("swizzle", map.swizzle, SWIZZLES),
        interleave=plan_name("interleave", map.interleave, INTERLEAVES),
        l2_promotion=plan_name("l2_promotion", map.l2_promotion, L2_PROMOTIONS),
        out_of_bounds=plan_name("oob_fill", map.oob_fill, FILLS),
        offset_bytes=map.address,
        im2col=plan.Im2col(lower, upper, map.channels_per_pixel, map.pixels_per_column, mode),
    )
