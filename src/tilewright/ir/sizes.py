"""How are run-time extents, and sizes that depend on them, written in the IR?

A program says the range of each axis whose extent only its launch knows (`#tile.range`); where a lowered kernel has a
size it is a plain integer, or an expression over such axes (`#ac.size<"ceil_div(M, 128)">`, `base.size`). Who reads a
size gets a number or an expression, and must say what it does with either.

Checked by: tests/ir/test_sizes.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, StringAttr
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from tilewright.base.error import TilewrightError
from tilewright.base.size import Expression, Range, Size, parse_size
from tilewright.ir.plain_attributes import PlainParameters


@irdl_attr_definition
class RangeAttr(PlainParameters):
    """The extents that an axis may have at a launch: multiples of `multiple_of` from `least` to `most`."""

    name = "tile.range"

    least: IntAttr
    most: IntAttr
    multiple_of: IntAttr

    @classmethod
    def of(cls, values: Range) -> RangeAttr:
        return cls(IntAttr(values.least), IntAttr(values.most), IntAttr(values.multiple_of))

    @property
    def range(self) -> Range:
        return Range(self.least.data, self.most.data, self.multiple_of.data)

    def verify(self) -> None:
        try:
            _ = self.range
        except TilewrightError as error:
            raise VerifyException(error.message) from error


@irdl_attr_definition
class SizeAttr(PlainParameters):
    """A size that depends on run-time extents, as `base.size` writes it."""

    name = "ac.size"

    text: StringAttr

    @property
    def size(self) -> Expression:
        size = parse_size(self.text.data)
        assert not isinstance(size, int), "a number is no expression"
        return size

    def verify(self) -> None:
        try:
            size = parse_size(self.text.data)
        except TilewrightError as error:
            raise VerifyException(error.message) from error
        if isinstance(size, int) or str(size) != self.text.data:
            raise VerifyException(f"{self.text.data!r} is not how {size} is written")


AnySize: TypeAlias = IntAttr | SizeAttr


def size_attr(size: Size) -> AnySize:
    """A size as an attribute."""
    return IntAttr(size) if isinstance(size, int) else SizeAttr(StringAttr(str(size)))


def size_array(sizes: Iterable[Size]) -> ArrayAttr[AnySize]:
    """Sizes as an array attribute."""
    return ArrayAttr([size_attr(size) for size in sizes])


def size_of(attribute: AnySize) -> Size:
    """The size that an attribute holds."""
    return attribute.data if isinstance(attribute, IntAttr) else attribute.size


def sizes_of(attribute: ArrayAttr[AnySize]) -> tuple[Size, ...]:
    """The sizes of an array attribute."""
    return tuple(size_of(each) for each in attribute)


def ranges_of(attribute: DictionaryAttr | None) -> dict[str, Range]:
    """The range of each run-time axis, by name."""
    if attribute is None:
        return {}
    return {axis: each.range for axis, each in attribute.data.items() if isinstance(each, RangeAttr)}


def ranges_attr(ranges: Mapping[str, Range]) -> DictionaryAttr:
    """Ranges by axis as an attribute."""
    return DictionaryAttr({axis: RangeAttr.of(each) for axis, each in ranges.items()})
