"""Where does each element of a tile live: a shape with strides, an offset and a swizzle?

Theory: a layout is the function of a coordinate `swizzle(offset + sum of coordinate * stride)`. Its shape and strides
are congruent nested tuples; a coordinate is an integer for any part of the shape, taken apart colexicographically (the
leftmost leaf varies fastest), so a layout is also a function of the integers below its size. Two layouts may differ
and be the same function: `layout.coalescing` has the canonical form.

Strides may be zero or negative; extents are positive, and any of them may be symbolic, then taken to be positive. What
is above the floor of 64-bit machine words is computed exactly. Not handled: sizes that are no product of extents
(`layout.pieces.piecewise`), functions over F2 that no single exclusive-or of adjacent bits expresses
(`layout.linear.maps`). Checked by tests/layout/test_layout.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.nested import Integer, Nested
from tilewright.layout.numbers.integer_expression import IntegerExpression
from tilewright.layout.swizzle import Swizzle

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Flat = tuple[tuple[Integer, Integer], ...]
"""(extent, stride) of each leaf, left to right."""

_MOST_ENUMERATED = 1 << 26
_WORD = 1 << 62


@dataclass(frozen=True, slots=True)
class Layout:
    """shape: extents; stride: congruent with it, by default dense with the leftmost leaf fastest; offset: added to
    every value; swizzle: applied last. All in elements (or whatever unit the caller counts in).

    Raises TilewrightError for extents below 1, shapes and strides that are not congruent, and anything that is no
    nested tuple of integers.
    """

    shape: Nested
    stride: Nested
    offset: Integer
    swizzle: Swizzle | None
    _leaves: tuple[Flat, bool] | None = field(init=False, compare=False, repr=False)

    def __init__(self, shape: object, stride: object = None, offset: object = 0, swizzle: object = None) -> None:
        extents = nested.checked(shape, "shape")
        for extent in nested.leaves(extents):
            if isinstance(extent, int) and extent < 1:
                raise TilewrightError(
                    f"shape {nested.nested_text(extents)}: the extent {extent} is not positive",
                    remedy="a layout has at least one element",
                )
        nested.product(extents)
        strides = nested.compact_strides(extents) if stride is None else nested.checked(stride, "stride")
        if not nested.congruent(extents, strides):
            raise TilewrightError(
                f"shape {nested.nested_text(extents)} and stride {nested.nested_text(strides)} are nested differently",
                remedy="give each extent its stride",
            )
        if not isinstance(swizzle, Swizzle | None):
            raise TilewrightError(f"{swizzle!r} is no swizzle")
        object.__setattr__(self, "shape", extents)
        object.__setattr__(self, "stride", strides)
        object.__setattr__(self, "offset", 0 if offset == 0 else nested.leaf(offset, "offset"))
        object.__setattr__(self, "swizzle", swizzle)
        object.__setattr__(self, "_leaves", None)

    @property
    def size(self) -> Integer:
        """Elements of the domain."""
        return nested.product(self.shape)

    @property
    def rank(self) -> int:
        return nested.rank(self.shape)

    @property
    def depth(self) -> int:
        return nested.depth(self.shape)

    @property
    def flat(self) -> Flat:
        """(extent, stride) of each leaf, left to right."""
        return self._known()[0]

    @property
    def is_symbolic(self) -> bool:
        """Whether a size, a stride or the offset has no value yet."""
        return self._known()[1]

    def _known(self) -> tuple[Flat, bool]:
        """The leaves, and whether something is symbolic: kept, since every operation asks."""
        known = self._leaves
        if known is None:
            extents, strides = nested.flatten(self.shape), nested.flatten(self.stride)
            numbers = all([isinstance(value, int) for value in (*extents, *strides, self.offset)])
            known = tuple(zip(extents, strides, strict=True)), not numbers
            object.__setattr__(self, "_leaves", known)
        return known

    @property
    def modes(self) -> tuple[Layout, ...]:
        """The outermost parts, each without offset or swizzle."""
        if not isinstance(self.shape, tuple):
            return (self.plain,)
        return tuple(map(made, self.shape, nested.parts(self.stride)))

    @property
    def plain(self) -> Layout:
        """Shape and strides alone."""
        return self if self.swizzle is None and self.offset == 0 else made(self.shape, self.stride)

    @property
    def names(self) -> frozenset[str]:
        """The symbolic sizes that occur."""
        found: frozenset[str] = frozenset()
        for value in (*nested.leaves(self.shape), *nested.leaves(self.stride), self.offset):
            if isinstance(value, IntegerExpression):
                found |= value.names
        return found

    @property
    def least(self) -> int:
        """The smallest value before the swizzle. Raises TilewrightError where sizes are symbolic."""
        return _constant(self.offset) + sum(min(0, (n - 1) * d) for n, d in self.constant_flat())

    @property
    def greatest(self) -> int:
        """The largest value before the swizzle. Raises TilewrightError where sizes are symbolic."""
        return _constant(self.offset) + sum(max(0, (n - 1) * d) for n, d in self.constant_flat())

    @property
    def cosize(self) -> int:
        """One past the largest value, without swizzle; with one, rounded up to the block that it keeps.

        Raises TilewrightError where sizes are symbolic.
        """
        end = self.greatest + 1
        if self.swizzle is None or self.swizzle.is_identity:
            return end
        block = 1 << self.swizzle.target + self.swizzle.bits
        return -(-end // block) * block

    def constant_flat(self) -> tuple[tuple[int, int], ...]:
        """`flat` as Python's ints. Raises TilewrightError where sizes are symbolic."""
        flat, symbolic = self._known()
        if symbolic:
            raise TilewrightError(f"{self} has symbolic sizes", remedy="give them values")
        return cast("tuple[tuple[int, int], ...]", flat)

    def __call__(self, coordinate: object, *more: object) -> Integer:
        """The value at a coordinate: an integer below the size, or one for each part of the shape, nested as far as one
        likes. Raises TilewrightError for a coordinate outside, or a swizzle of symbolic values."""
        given = nested.checked((coordinate, *more) if more else coordinate, "coordinate")
        value = self.offset + _dot(given, self.shape, self.stride)
        if self.swizzle is None:
            return nested.settled(value)
        value = nested.settled(value)
        if not isinstance(value, int):
            raise TilewrightError(f"the swizzle of {value} needs its value", remedy="give the sizes")
        return self.swizzle(value)

    def at(self, index: int) -> int:
        """The value at an integer of the domain, for constant sizes, not checked: below 0 or above the size, the last
        leaf with more than one element goes on. Raises TilewrightError where sizes are symbolic."""
        value = _constant(self.offset)
        last = 0
        for extent, stride in self.constant_flat():
            if extent > 1:
                value += index % extent * stride
                index, last = index // extent, extent * stride
        value += index * last
        return value if self.swizzle is None else self.swizzle(value)

    def offsets(self) -> NDArray[np.int64]:
        """Every value, colexicographically: element i is `layout(i)`; shape (size,).

        Raises TilewrightError for symbolic sizes, more than 2**26 elements, or values beyond 2**62.
        """
        import numpy as np

        flat = self.constant_flat()
        size = _constant(self.size)
        if size > _MOST_ENUMERATED:
            raise TilewrightError(f"{size} elements are too many to enumerate", remedy="ask the algebra instead")
        if self.least < -_WORD or self.greatest > _WORD:
            raise TilewrightError("the layout's values do not fit machine words", remedy="call it with a coordinate")
        values = np.full(1, self.offset, dtype=np.int64)
        for extent, stride in flat:
            if extent > 1:
                values = (np.arange(extent, dtype=np.int64)[:, None] * stride + values[None, :]).reshape(-1)
        if self.swizzle is not None and not self.swizzle.is_identity:
            swizzle = self.swizzle
            values ^= (values >> swizzle.source & (1 << swizzle.bits) - 1) << swizzle.target
        return values

    def with_values(self, offset: Integer, swizzle: Swizzle | None) -> Layout:
        """The same shape and strides with another offset and swizzle."""
        return made(self.shape, self.stride, offset, swizzle)

    def __str__(self) -> str:
        body = f"{nested.nested_text(self.shape)}:{nested.nested_text(self.stride)}"
        if self.swizzle is not None:
            return f"{self.swizzle} o {self.offset} o {body}"
        return body if self.offset == 0 else f"{self.offset} o {body}"


def made(shape: Nested, stride: Nested, offset: Integer = 0, swizzle: Swizzle | None = None) -> Layout:
    """A layout of parts that are known to fit: congruent, settled, with positive extents."""
    layout = object.__new__(Layout)
    put = object.__setattr__
    put(layout, "shape", shape)
    put(layout, "stride", stride)
    put(layout, "offset", offset)
    put(layout, "swizzle", swizzle)
    put(layout, "_leaves", None)
    return layout


def of_flat(flat: Flat | list[tuple[Integer, Integer]]) -> Layout:
    """The layout of these leaves: an integer for one, `1:0` for none."""
    if len(flat) == 1:
        return made(*flat[0])
    if not flat:
        return made(1, 0)
    return made(tuple(extent for extent, _ in flat), tuple(stride for _, stride in flat))


def joined(layouts: tuple[Layout, ...] | list[Layout]) -> Layout:
    """The layout with these as its outermost parts; offsets add up. Raises TilewrightError where one has a swizzle."""
    if any(layout.swizzle is not None for layout in layouts):
        raise TilewrightError("a swizzled layout cannot be one part of another", remedy="join first, swizzle last")
    offset: Integer = 0
    for layout in layouts:
        offset = offset + layout.offset
    return made(
        tuple(layout.shape for layout in layouts), tuple(layout.stride for layout in layouts), nested.settled(offset)
    )


def _constant(value: Integer) -> int:
    if isinstance(value, int):
        return value
    raise TilewrightError(f"the size {value} is symbolic", remedy="give it a value")


def _dot(coordinate: Nested, shape: Nested, stride: Nested) -> Integer:
    if isinstance(coordinate, tuple):
        if not isinstance(shape, tuple) or len(shape) != len(coordinate):
            raise TilewrightError(
                f"the coordinate {nested.nested_text(coordinate)} does not fit the shape {nested.nested_text(shape)}",
                remedy="give one integer, or one for each part of the shape",
            )
        total: Integer = 0
        for part, extents, strides in zip(coordinate, shape, nested.parts(stride), strict=True):
            total = total + _dot(part, extents, strides)
        return total
    size = nested.product(shape)
    inside = not isinstance(coordinate, int) or (coordinate >= 0 and (not isinstance(size, int) or coordinate < size))
    if not inside:
        raise TilewrightError(
            f"the coordinate {coordinate} is not below {size}, the size of {nested.nested_text(shape)}"
        )
    total = 0
    left: Integer = coordinate
    leaves = list(zip(nested.leaves(shape), nested.leaves(stride), strict=True))
    for place, (extent, leaf_stride) in enumerate(leaves):
        if extent == 1:
            continue
        if all(other == 1 for other, _ in leaves[place + 1 :]):
            return total + left * leaf_stride
        total, left = total + left % extent * leaf_stride, left // extent
    return total
