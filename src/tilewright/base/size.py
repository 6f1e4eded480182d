"""What is a size of which some extent is known only when a program is launched?

A whole number, or an expression over the names of axes: `ceil_div(M, 128)` tiles, `min(132, 16 * ceil_div(M, 128))`
CTAs. Where the compiler puts numbers it may put either; two numbers give a number, so that a program whose extents are
all known has no expressions in it. A launch puts the actual extents in (`value_of`), and what holds for all of them is
asked of the range (`bounds`), by interval arithmetic: every function here but the remainder is monotone in each operand
where operands are not negative, as all sizes are. Numbers that follow no formula stand in a list, of which a size
chooses one: `choose(ceil_div(M, 128) - 1, 22, 33)` is 22 of one tile and 33 of more.

Not handled: negative numbers; an expression in which an axis occurs twice has bounds that may be wider than need be.
Checked by: tests/base/test_size.py, against enumeration.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias, get_args

from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass

Function = Literal["+", "-", "*", "//", "%", "min", "max", "ceil_div"]


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a run-time extent may have: multiples of `multiple_of` from `least` to `most`."""

    least: int
    most: int
    multiple_of: int = 1

    def __post_init__(self) -> None:
        numbers = (self.least, self.most, self.multiple_of)
        if any(type(each) is not int for each in numbers):
            raise TilewrightError(f"a range of {numbers} is not of whole numbers", remedy="give whole numbers")
        if self.least < 0 or self.multiple_of < 1 or self.most < max(1, self.least):
            raise TilewrightError(
                f"no extents from {self.least} to {self.most} in multiples of {self.multiple_of}",
                remedy="give 0 <= lo <= hi, hi at least 1, and multiple_of at least 1",
            )
        if self.least % self.multiple_of or self.most % self.multiple_of:
            raise TilewrightError(
                f"a range from {self.least} to {self.most} does not end at multiples of {self.multiple_of}",
                remedy="give multiples of multiple_of as lo and hi",
            )

    @property
    def least_launched(self) -> int:
        """The smallest extent at which something is launched: at 0 there is nothing to do."""
        return self.least or self.multiple_of

    @property
    def launched(self) -> range:
        """Every extent at which something is launched."""
        return range(self.least_launched, self.most + 1, self.multiple_of)

    def __contains__(self, extent: int) -> bool:
        return self.least <= extent <= self.most and extent % self.multiple_of == 0

    def __str__(self) -> str:
        within = f"{self.least} to {self.most}"
        return within if self.multiple_of == 1 else f"{within} in multiples of {self.multiple_of}"


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of an axis, which the launch says."""

    axis: str

    def __str__(self) -> str:
        return self.axis


@dataclass(frozen=True, slots=True)
class Computed:
    """A function of two sizes, one of which at least is no number."""

    function: Function
    left: Size
    right: Size

    def __str__(self) -> str:
        if self.function in _NAMED:
            return f"{self.function}({self.left}, {self.right})"
        return f"{_enclosed(self.left)} {self.function} {_enclosed(self.right)}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The number at an index of a list, or the last one where the index is past that."""

    index: Size
    values: tuple[int, ...]

    def __str__(self) -> str:
        return f"choose({self.index}, {', '.join(map(str, self.values))})"


Expression: TypeAlias = Extent | Computed | Chosen
Size: TypeAlias = "int | Extent | Computed | Chosen"

_VALUES: Mapping[Function, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "//": lambda left, right: left // right,
    "%": lambda left, right: left % right,
    "min": min,
    "max": max,
    "ceil_div": lambda left, right: -(-left // right),
}
_NAMED = ("min", "max", "ceil_div")
_FALLING = ("-", "//", "ceil_div")
"""Functions that fall where their right operand grows."""


def _enclosed(size: Size) -> str:
    return f"({size})" if isinstance(size, Computed) and size.function not in _NAMED else str(size)


def computed(function: Function, left: Size, right: Size) -> Size:
    """A function of two sizes: a number where both are."""
    if isinstance(left, int) and isinstance(right, int):
        return _VALUES[function](left, right)
    if function == "*" and 1 in (left, right):
        return right if left == 1 else left
    if function == "*" and 0 in (left, right):
        return 0
    if function == "+" and 0 in (left, right):
        return right if left == 0 else left
    if function in ("//", "ceil_div") and right == 1:
        return left
    return Computed(function, left, right)


def chosen(index: Size, values: tuple[int, ...]) -> Size:
    """The number at an index of a list that is not empty, or the last one: a number where the index is one."""
    return Chosen(index, values) if not isinstance(index, int) else values[min(index, len(values) - 1)]


def ceil_div(size: Size, by: Size) -> Size:
    """size / by, rounded up."""
    return computed("ceil_div", size, by)


def product(sizes: Iterable[Size]) -> Size:
    """All sizes multiplied."""
    found: Size = 1
    for size in sizes:
        found = computed("*", found, size)
    return found


def value_of(size: Size, extents: Mapping[str, int]) -> int:
    """The number that a size is, where the axes have these extents. Raises KeyError for an axis without one."""
    match size:
        case int():
            return size
        case Extent(axis):
            return extents[axis]
        case Computed(function, left, right):
            return _VALUES[function](value_of(left, extents), value_of(right, extents))
        case Chosen(index, values):
            return values[min(value_of(index, extents), len(values) - 1)]


def axes_of(size: Size) -> frozenset[str]:
    """The axes whose extents a size depends on."""
    match size:
        case int():
            return frozenset()
        case Extent(axis):
            return frozenset({axis})
        case Computed(_, left, right):
            return axes_of(left) | axes_of(right)
        case Chosen(index):
            return axes_of(index)


def bounds(size: Size, ranges: Mapping[str, Range]) -> tuple[int, int]:
    """Numbers between which a size lies at every extent at which something is launched.

    Raises KeyError for an axis without a range, ZeroDivisionError where a divisor may be 0, ValueError where an operand
    may be negative.
    """
    match size:
        case int():
            return size, size
        case Extent(axis):
            return ranges[axis].least_launched, ranges[axis].most
        case Computed(function, left, right):
            (least, most), (low, high) = bounds(left, ranges), bounds(right, ranges)
            if min(least, low) < 0:
                raise ValueError(f"{size} is computed of what may be negative")
            if function == "%":
                if low == 0:
                    raise ZeroDivisionError(str(size))
                return (least, most) if least == most and low == high and most < low else (0, min(most, high - 1))
            if function in _FALLING:
                low, high = high, low
            value = _VALUES[function]
            return value(least, low), value(most, high)
        case Chosen(index, values):
            least, most = bounds(index, ranges)
            if least < 0:
                raise ValueError(f"{size} is computed of what may be negative")
            found = values[min(least, len(values) - 1) : most + 1]
            return min(found), max(found)


def divisor(size: Size, ranges: Mapping[str, Range]) -> int:
    """A number that a size is a multiple of at every extent, as far as its form shows. Raises KeyError for an axis
    without a range."""
    match size:
        case int():
            return size
        case Extent(axis):
            return ranges[axis].multiple_of
        case Computed("*", left, right):
            return divisor(left, ranges) * divisor(right, ranges)
        case Computed("+" | "-", left, right):
            return math.gcd(divisor(left, ranges), divisor(right, ranges))
        case Computed():
            return 1
        case Chosen(_, values):
            return math.gcd(*values)


def number_of(size: Size) -> int:
    """The number that a size is. Raises TilewrightError where a run-time extent has a part in it."""
    if not isinstance(size, int):
        raise TilewrightError(
            f"{size}, which only a launch knows, stands where a number is needed", remedy="give a known extent"
        )
    return size


def settled(size: Size, ranges: Mapping[str, Range]) -> Size:
    """The number that a size is at every extent of the ranges, where it is one; else the size itself."""
    least, most = bounds(size, ranges)
    return least if least == most else size


def parse_size(text: str) -> Size:
    """What `str` writes of a size. Raises TilewrightError for anything else."""
    try:
        return _parsed(ast.parse(text, mode="eval").body, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
        raise _unreadable(text) from None


def _parsed(tree: ast.expr, text: str) -> Size:
    match tree:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name(id=axis):
            return Extent(axis)
        case ast.Call(func=ast.Name(id="min" | "max" | "ceil_div" as function), args=[left, right], keywords=[]):
            return computed(function, _parsed(left, text), _parsed(right, text))
        case ast.Call(func=ast.Name(id="choose"), args=[index, first, *rest], keywords=[]):
            values = [_parsed(each, text) for each in (first, *rest)]
            numbers = tuple(each for each in values if isinstance(each, int))
            if len(numbers) == len(values):
                return chosen(_parsed(index, text), numbers)
        case ast.BinOp(left=left, op=operator, right=right):
            for kind, function in _OPERATORS.items():
                if isinstance(operator, kind):
                    return computed(function, _parsed(left, text), _parsed(right, text))
        case _:
            pass
    raise _unreadable(text)


_OPERATORS: Mapping[type[ast.operator], Function] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}


def _unreadable(text: str) -> TilewrightError:
    return TilewrightError(
        f"{text!r} is no size",
        remedy=f"write whole numbers and names of axes with {', '.join((*get_args(Function), 'choose'))}",
    )
