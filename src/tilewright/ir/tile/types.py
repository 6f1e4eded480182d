"""What a tile program's values are: tensors in memory, indices of tiles, and tiles of numbers. Axes go by name.

Theory: an axis is a name with an extent; the program's `axes` attribute holds the extents. No type says how large a
tile is: the synthesiser chooses that, and the dialect's rules see to it that the meaning does not depend on the choice.

Limits: at most five axes per tensor; elements are those of VALUE_TYPES; strides at least one element. Ops are
in `tile`.
Checked by tests/ir/test_tile_dialect.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntAttr,
    StringAttr,
    bf16,
    f4E2M1FN,
    f8E4M3,
    f8E4M3FN,
    f8E5M2,
    f8E8M0FNU,
    f16,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.size import Size, axes_of, parse_size, value_of
from tilewright.ir.refinement import Refinement, TensorFacts, broken_promise, promised_facts
from tilewright.ir.sizes import AnySize, size_array, sizes_of
from tilewright.ir.tile.axes import base_axis, base_extents, is_axis_name
from tilewright.layout.numbers.condition import names_of

ELEMENT_TYPES: dict[Element, TypeAttribute] = {
    Element.BF16: bf16,
    Element.F16: f16,
    Element.F32: f32,
    Element.F8E4M3: f8E4M3FN,
    Element.F8E5M2: f8E5M2,
    Element.S8: i8,
}
"""The numbers that tiles are computed in and rounded to, as xDSL types; float32 has all of them."""
VALUE_TYPES: dict[Element, TypeAttribute] = {
    **ELEMENT_TYPES, Element.S32: i32, Element.UE8M0: f8E8M0FNU, Element.UE4M3: f8E4M3, Element.F4E2M1X2: f4E2M1FN,
}  # fmt: skip
"""The elements of tensors, and of tiles: integers, factors and pairs too. What is loaded from a tensor of integers or
factors is float32; a tile of integers is what says where along an axis something stands (`tile.argreduce`)."""
_ELEMENTS: dict[Attribute, Element] = {attribute: kind for kind, attribute in reversed(VALUE_TYPES.items())}

KEPT_ELEMENTS = (*ELEMENT_TYPES, Element.F4E2M1X2)
"""Elements that a load keeps."""

MAX_RANK = 5
MAX_TENSOR_ELEMENTS = 2**31
"""A tensor's last element has an offset that fits in a signed 32-bit index."""


class RuleViolation(VerifyException):
    """A rule of the tile language is broken. remedy: what the author should write instead."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def axes_text(axes: Sequence[str]) -> str:
    """Axes as messages show them: `(M, K)`."""
    return f"({', '.join(axes)})"


def _verify_axes(axes: tuple[str, ...], what: str) -> None:
    if len(axes) > MAX_RANK:
        raise RuleViolation(f"{what} over {axes_text(axes)} has {len(axes)} axes", f"use at most {MAX_RANK}")
    for axis in axes:
        if not is_axis_name(axis):
            raise RuleViolation(
                f"{what} over {axes_text(axes)} has an axis {axis!r}", "name axes as K, or K/128 for blocks"
            )
    if len(set(axes)) != len(axes):
        raise RuleViolation(
            f"{what} over {axes_text(axes)} names an axis twice",
            "name the axes apart; two names may have the same extent",
        )


def _element_of(element: Attribute) -> Element:
    kind = _ELEMENTS.get(element)
    if kind is not None:
        return kind
    raise RuleViolation(f"{element} is not an element of tile programs", "use bf16, f16, f32, f8e4m3, f8e5m2 or i8")


def _strings(names: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(name) for name in names])


def _integers(numbers: Sequence[int]) -> ArrayAttr[IntAttr]:
    return ArrayAttr([IntAttr(number) for number in numbers])


def _print_strings(printer: Printer, names: Sequence[str]) -> None:
    with printer.in_square_brackets():
        printer.print_list(names, printer.print_string_literal)


def _print_integers(printer: Printer, numbers: Sequence[int]) -> None:
    with printer.in_square_brackets():
        printer.print_list(numbers, printer.print_int)


def _print_sizes(printer: Printer, sizes: Sequence[Size]) -> None:
    def one(size: Size) -> None:
        if isinstance(size, int):
            printer.print_int(size)
        else:
            printer.print_string_literal(str(size))

    with printer.in_square_brackets():
        printer.print_list(sizes, one)


def _parse_strings(parser: AttrParser) -> ArrayAttr[StringAttr]:
    return _strings(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_str_literal))


def _parse_integers(parser: AttrParser) -> ArrayAttr[IntAttr]:
    return _integers(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))


def _parse_sizes(parser: AttrParser) -> ArrayAttr[AnySize]:
    def one() -> Size:
        text = parser.parse_optional_str_literal()
        if text is None:
            return parser.parse_integer()
        try:
            return parse_size(text)
        except TilewrightError as error:
            parser.raise_error(error.message)

    return size_array(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, one))


@irdl_attr_definition
class TensorType(ParametrizedAttribute, TypeAttribute):
    """An array in global memory: `!tile.tensor<["M", "K"], [4096, 64], [64, 1], bf16>`.

    Shape and strides are in elements, outermost axis first. A stride that follows from extents which only a launch
    knows is a size of the array's axes, such as `"T * 64"`. A promise may follow the element:
    `..., bf16, align 128, where "K % 8 == 0">` (`tilewright.ir.refinement`).
    """

    name = "tile.tensor"
    axes: ArrayAttr[StringAttr]
    shape: ArrayAttr[IntAttr]
    strides: ArrayAttr[AnySize]
    element: Attribute
    refinement: Refinement

    @classmethod
    def of(
        cls,
        axes: Sequence[str],
        shape: Sequence[int],
        strides: Sequence[Size],
        element: Element,
        refinement: Refinement | None = None,
    ) -> TensorType:
        promise = refinement or Refinement.of()
        return cls(_strings(axes), _integers(shape), size_array(strides), VALUE_TYPES[element], promise)

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(axis.data for axis in self.axes)

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return tuple(extent.data for extent in self.shape)

    @property
    def stride_elements(self) -> tuple[int, ...]:
        """At the type's own extents."""
        extents = base_extents(dict(zip(self.axis_names, self.extents, strict=True)))
        return tuple(value_of(stride, extents) for stride in self.stride_sizes)

    @property
    def stride_sizes(self) -> tuple[Size, ...]:
        """Numbers, but of those that only a launch knows."""
        return sizes_of(self.strides)

    @property
    def element_kind(self) -> Element:
        return _element_of(self.element)

    @property
    def facts(self) -> TensorFacts:
        """What holds in every call that keeps the promise."""
        return promised_facts(self.refinement, self.axis_names)

    @property
    def is_injective(self) -> bool:
        """True if no two elements share an address (a sufficient test: each stride steps over the axes within it)."""
        reach = 0
        for stride, extent in sorted(zip(self.stride_elements, self.extents, strict=True)):
            if extent > 1:
                if stride <= reach:
                    return False
                reach += stride * (extent - 1)
        return True

    def verify(self) -> None:
        axes, extents = self.axis_names, self.extents
        _verify_axes(axes, "a tensor")
        _element_of(self.element)
        if not axes:
            raise RuleViolation("a tensor has no axis", f"give it one to {MAX_RANK}")
        if not len(axes) == len(extents) == len(self.strides):
            raise RuleViolation(
                f"a tensor over {axes_text(axes)} has {len(extents)} extents and {len(self.strides)} strides",
                "give one of each per axis",
            )
        strangers = {axis for size in self.stride_sizes for axis in axes_of(size)} - set(map(base_axis, axes))
        if strangers:
            raise RuleViolation(
                f"a tensor over {axes_text(axes)} has strides of {min(strangers)}", "give sizes of its own axes"
            )
        strides = self.stride_elements
        if min(extents) < 0:
            raise RuleViolation(f"a tensor over {axes_text(axes)} has shape {extents}", "make no extent negative")
        if min(strides) < 1:
            raise RuleViolation(
                f"a tensor over {axes_text(axes)} has strides {strides}", "make each at least 1, in elements"
            )
        elements = 1
        for extent in extents:
            elements *= extent
        span = 1 + sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True))
        if max(elements, span) > MAX_TENSOR_ELEMENTS:
            raise RuleViolation(
                f"a tensor over {axes_text(axes)} of shape {extents} spans {max(elements, span)} elements",
                f"stay within 2^31 = {MAX_TENSOR_ELEMENTS}",
            )
        self._verify_promise(axes, extents)

    def _verify_promise(self, axes: tuple[str, ...], extents: tuple[int, ...]) -> None:
        strangers = sorted(names_of(self.refinement.condition) - set(axes))
        if strangers:
            raise RuleViolation(
                f"a promise about a tensor over {axes_text(axes)} names {strangers[0]}", "name its axes only"
            )
        broken = broken_promise(self.refinement, dict(zip(axes, extents, strict=True)))
        if broken is not True:
            raise RuleViolation(
                f"a tensor over {axes_text(axes)} of shape {extents} breaks the promise {broken}",
                "give extents that keep it, or promise less",
            )

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_strings(printer, self.axis_names)
            printer.print_string(", ")
            _print_integers(printer, self.extents)
            printer.print_string(", ")
            _print_sizes(printer, self.stride_sizes)
            printer.print_string(", ")
            printer.print_attribute(self.element)
            self.refinement.print_tail(printer)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            axes = _parse_strings(parser)
            parser.parse_punctuation(",")
            shape = _parse_integers(parser)
            parser.parse_punctuation(",")
            strides = _parse_sizes(parser)
            parser.parse_punctuation(",")
            element = parser.parse_type()
            return (axes, shape, strides, element, Refinement.parse_tail(parser))


@irdl_attr_definition
class GatheredType(ParametrizedAttribute, TypeAttribute):
    """An array that `tile.gather` makes of a tensor: `!tile.gathered<["B", "T", "E"], bf16>`. It has no strides."""

    name = "tile.gathered"
    axes: ArrayAttr[StringAttr]
    element: Attribute

    @classmethod
    def of(cls, axes: Sequence[str], element: Element) -> GatheredType:
        return cls(_strings(axes), VALUE_TYPES[element])

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(axis.data for axis in self.axes)

    @property
    def element_kind(self) -> Element:
        return _element_of(self.element)

    def verify(self) -> None:
        _verify_axes(self.axis_names, "what is gathered")
        _element_of(self.element)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_strings(printer, self.axis_names)
            printer.print_string(", ")
            printer.print_attribute(self.element)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            axes = _parse_strings(parser)
            parser.parse_punctuation(",")
            return (axes, parser.parse_type())


@irdl_attr_definition
class IndexType(ParametrizedAttribute, TypeAttribute):
    """Which tile along an axis, perhaps displaced by a number of elements: `!tile.index<"M">`."""

    name = "tile.index"
    axis: StringAttr

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, axis: str) -> IndexType:
        return cls(StringAttr(axis))


@irdl_attr_definition
class GroupType(ParametrizedAttribute, TypeAttribute):
    """Which group this program's tile lies in, of those that cut another axis of the grid: `!tile.group<"G">`.

    There is one group to a program. So a tensor read at it gives a tile without that axis: the part of its group.
    """

    name = "tile.group"
    axis: StringAttr

    @classmethod
    def of(cls, axis: str) -> GroupType:
        return cls(StringAttr(axis))


@irdl_attr_definition
class ValueType(ParametrizedAttribute, TypeAttribute):
    """A tile of numbers: `!tile.value<["M", "N"], f32>`. Without axes, one number."""

    name = "tile.value"
    axes: ArrayAttr[StringAttr]
    element: Attribute

    @classmethod
    def of(cls, axes: Sequence[str], element: Element) -> ValueType:
        return cls._of(tuple(axes), element)

    @classmethod
    @lru_cache(maxsize=4096)
    def _of(cls, axes: tuple[str, ...], element: Element) -> ValueType:
        return cls(_strings(axes), VALUE_TYPES[element])

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(axis.data for axis in self.axes)

    @property
    def element_kind(self) -> Element:
        return _element_of(self.element)

    def verify(self) -> None:
        _verify_axes(self.axis_names, "a tile")
        _element_of(self.element)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_strings(printer, self.axis_names)
            printer.print_string(", ")
            printer.print_attribute(self.element)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            axes = _parse_strings(parser)
            parser.parse_punctuation(",")
            return (axes, parser.parse_type())


def value_type(value: SSAValue) -> ValueType:
    """The type of an SSA value that is a tile. Raises RuleViolation if it is none."""
    if not isinstance(value.type, ValueType):
        raise RuleViolation(f"a value of type {value.type} stands where a tile belongs", "give a tile")
    return value.type


def read_type(value: SSAValue) -> TensorType | GatheredType:
    """The type of an SSA value that loads read: a tensor, or what is gathered of one. Raises RuleViolation if it is
    neither."""
    return value.type if isinstance(value.type, GatheredType) else tensor_type(value)


def tensor_type(value: SSAValue) -> TensorType:
    """The type of an SSA value that is a tensor. Raises RuleViolation if it is none."""
    if not isinstance(value.type, TensorType):
        raise RuleViolation(f"a value of type {value.type} stands where a tensor belongs", "give a tensor")
    return value.type
