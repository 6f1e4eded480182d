"""What is a tensor map, as a user states it? The arguments of `cuTensorMapEncodeTiled`, legal or not.

Dimensions innermost first; strides in bytes, of dimensions 1 to rank - 1; enumerations by short name or by the driver's
number, kept as the name where the number has one. A value may break any rule: `check` says which. What is no tensor map
at all (a list of the wrong length, a number that is no integer, a name that no enumeration has) is an error here.

`base.plan.TensorMap` is the compiled program's map, all of whose enumerations have names; `to_plan` and `from_plan` go
between. Not handled: the 128 bytes that the driver makes of it. Checked by:
tests/legal/tensor_map/test_tensor_map.py.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast, get_args

from tilewright.base import plan
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.legal.argument import integer, integers
from tilewright.legal.tensor_map.enumerations import (
    DATA_TYPE_NAMES,
    DATA_TYPES,
    FILLS,
    INTERLEAVES,
    L2_PROMOTIONS,
    SWIZZLES,
    DataType,
    number_of,
)
from tilewright.legal.tensor_map.rule import Fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ENUMERATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("dtype", DATA_TYPE_NAMES),
    ("interleave", INTERLEAVES),
    ("swizzle", SWIZZLES),
    ("l2_promotion", L2_PROMOTIONS),
    ("oob_fill", FILLS),
)


Name = TypeVar("Name", bound=str)
VARIANTS: tuple[plan.ElementVariant, ...] = get_args(plan.ElementVariant)


def enumerated(field: str, value: object, names: Sequence[str]) -> str | int:
    """The name of an enumeration's value: of a name itself (or an alias), of a number its name, or the number."""
    if isinstance(value, str):
        return value if value in names else names[number_of(value, tuple(names), field)]
    number = integer(field, value)
    return names[number] if 0 <= number < len(names) else number


@dataclass(frozen=True)
class TensorMap:
    """One tiled tensor map: the arguments of `cuTensorMapEncodeTiled` (CUDA Driver API), innermost dimension first.

    dtype: name or enumeration number; dims, box: elements; strides: bytes, one fewer than dims; element_strides:
    elements, 1 for each dimension where not given; address: bytes, of the tensor's first element.
    Lists become tuples and known numbers become names, so that equal maps compare and hash equal.
    Raises TilewrightError for lists of wrong lengths, for what is no integer, and for unknown names.
    """

    dtype: str | int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] | None = None
    interleave: str | int = "none"
    swizzle: str | int = "none"
    l2_promotion: str | int = "none"
    oob_fill: str | int = "zero"
    address: int = 0

    def __post_init__(self) -> None:
        values = self.__dict__
        normalize_enumerations(values)
        for field in ("dims", "strides", "box"):
            values[field] = integers(field, values[field])
        rank = len(self.dims)
        given = values["element_strides"]
        values["element_strides"] = (1,) * rank if given is None else integers("element_strides", given)
        check_lengths(values, (("strides", max(rank - 1, 0)), ("box", rank), ("element_strides", rank)))
        values["address"] = integer("address", values["address"])

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The element strides, one for each dimension, as given."""
        return cast("tuple[int, ...]", self.element_strides)

    @property
    def data_type(self) -> DataType | None:
        """What is known of the data type; None where the enumeration has no such value."""
        number: int = self.fields.dtype
        return DATA_TYPES[number] if 0 <= number < len(DATA_TYPES) else None

    @cached_property
    def fields(self) -> Fields:
        """What the rules read, enumerations as the driver's numbers."""
        return Fields(
            enumeration_number(self.dtype, DATA_TYPE_NAMES),
            len(self.dims),
            self.address,
            self.dims,
            self.strides,
            self.box,
            self.steps,
            enumeration_number(self.interleave, INTERLEAVES),
            enumeration_number(self.swizzle, SWIZZLES),
            enumeration_number(self.l2_promotion, L2_PROMOTIONS),
            enumeration_number(self.oob_fill, FILLS),
        )

    def to_plan(self) -> plan.TensorMap:
        """The same map for a launch plan; its `offset_bytes` is the address, counted from a buffer at address 0.

        Raises TilewrightError where a launch plan cannot say it: an enumeration value without a name.
        """
        element, variant = plan_element(self.dtype)
        return plan.TensorMap(
            element=element,
            variant=variant,
            dims=self.dims,
            strides_bytes=self.strides,
            box=self.box,
            element_strides=self.steps,
            swizzle=plan_name("swizzle", self.swizzle, SWIZZLES),
            interleave=plan_name("interleave", self.interleave, INTERLEAVES),
            l2_promotion=plan_name("l2_promotion", self.l2_promotion, L2_PROMOTIONS),
            out_of_bounds=plan_name("oob_fill", self.oob_fill, FILLS),
            offset_bytes=self.address,
        )

    @staticmethod
    def from_plan(map: plan.TensorMap, address: int = 0) -> TensorMap:
        """The map of a launch plan whose buffer is at `address`.

        Raises TilewrightError where the fields' lengths contradict each other, and for an im2col map.
        """
        if map.im2col is not None:
            raise TilewrightError("tensor map: an im2col map is no tiled one", remedy="use Im2colMap.from_plan")
        return TensorMap(
            dtype_of_plan(map),
            map.dims,
            map.strides_bytes,
            map.box,
            map.element_strides or None,
            map.interleave,
            map.swizzle,
            map.l2_promotion,
            map.out_of_bounds,
            address + map.offset_bytes,
        )


def normalize_enumerations(values: dict[str, object]) -> None:
    """Names for the enumerations among a map's `values`, in place. Raises TilewrightError for unknown names."""
    for field, names in _ENUMERATIONS:
        value = values[field]
        if type(value) is not str or value not in names:
            values[field] = enumerated(field, value, names)


def check_lengths(values: dict[str, object], expected: Iterable[tuple[str, int]]) -> None:
    """Raises TilewrightError where a list among a map's `values` hasn't the length that the rank needs."""
    for field, needed in expected:
        length = len(cast("tuple[int, ...]", values[field]))
        if length != needed:
            rank = len(cast("tuple[int, ...]", values["dims"]))
            raise TilewrightError(f"tensor map: {field} has {length} entries; rank {rank} needs {needed}")


def enumeration_number(value: str | int, names: tuple[str, ...]) -> int:
    """The driver's number of a value that `enumerated` made."""
    return names.index(value) if isinstance(value, str) else value


def plan_name(field: str, value: str | int, names: tuple[Name, ...]) -> Name:
    """`value` as one of `names`. Raises TilewrightError where it has no name."""
    for name in names:
        if name == value:
            return name
    raise TilewrightError(f"tensor map: {field} {value!r} has no name, and a launch plan needs one")


def plan_element(dtype: str | int) -> tuple[Element, plan.ElementVariant]:
    """The element and its variant in a launch plan. Raises TilewrightError for a data type without a name."""
    for variant in VARIANTS:
        if variant == dtype and variant != "none":
            return (Element.F32 if "f32" in variant else Element.U8), variant
    try:
        return Element(dtype), "none"
    except ValueError:
        raise TilewrightError(f"tensor map: dtype {dtype!r} has no name, and a launch plan needs one") from None


def dtype_of_plan(map: plan.TensorMap) -> str:
    """The data type's name of a launch plan's map."""
    return map.element.value if map.variant == "none" else map.variant
