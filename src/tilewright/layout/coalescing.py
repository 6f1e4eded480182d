"""When are two layouts the same function, and what is the one way to write it?

Theory: neighbouring leaves (m, d), (n, m d) are one leaf (m n, d), and leaves of extent 1 name nothing. What is left is
unique: in a layout without swizzle the extent of the first leaf is the length of the longest arithmetic run at the
start, and so on for the quotient. Equality of layouts of known sizes, however large, is equality of these forms. With
symbolic extents equal forms are equal functions, and different forms are told apart by trying sizes. Swizzles that
change no value, or that only add, are removed; what remains is compared as an affine function over F2 where the bits of
the values are disjoint, and by enumeration where it is small.

Answers are exact; what is beyond 2**16 elements with a swizzle that is no affine function, or symbolic, can end as
`NotDecided`. Checked by tests/layout/test_coalescing.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.answer import NotDecided
from tilewright.layout.layout import Flat, Layout, joined, made, of_flat
from tilewright.layout.nested import Integer, Nested
from tilewright.layout.numbers.integer_expression import IntegerExpression, substitute
from tilewright.layout.swizzle import Swizzle

_MOST_ENUMERATED = 1 << 16
_WORD = 1 << 62
_TRIALS = 6
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)


@dataclass(frozen=True, slots=True)
class Difference:
    """A coordinate, below the size of both, at which two layouts differ; None where their sizes do.

    sizes: (name, value) for which this is so, of symbolic layouts.
    """

    coordinate: int | None
    left: int
    right: int
    sizes: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        where = "the sizes are" if self.coordinate is None else f"at {self.coordinate} the values are"
        given = "".join(f"{name} = {value}, " for name, value in self.sizes)
        return f"{'with ' + given if given else ''}{where} {self.left} and {self.right}"


def merged(flat: Flat) -> list[tuple[Integer, Integer]]:
    """The leaves without those of extent 1, each that continues its left neighbour joined to it."""
    result: list[tuple[Integer, Integer]] = []
    extent: Integer = 1
    stride: Integer = 0
    for next_extent, next_stride in flat:
        if next_extent == 1:
            continue
        if extent == 1:
            extent, stride = next_extent, next_stride
        elif next_stride == nested.times(extent, stride):
            extent = nested.times(extent, next_extent)
        else:
            result.append((extent, stride))
            extent, stride = next_extent, next_stride
    if extent != 1:
        result.append((extent, stride))
    return result


def coalesce(layout: Layout, profile: Nested | None = None) -> Layout:
    """The same function of an integer with the fewest leaves.

    profile: a nested tuple; where it has an integer the part is coalesced, its tuples are kept, and parts beyond it are
    left as they are. Raises TilewrightError where the layout has not that many parts.
    """
    if isinstance(profile, tuple):
        modes = layout.modes
        if len(profile) > len(modes):
            raise TilewrightError(f"coalesce: {len(modes)} parts of {layout}, {len(profile)} in the profile")
        done = [coalesce(mode, part) for mode, part in zip(modes, profile, strict=False)]
        return joined([*done, *modes[len(done) :]]).with_values(layout.offset, layout.swizzle)
    return of_flat(merged(layout.flat)).with_values(layout.offset, layout.swizzle)


@lru_cache(maxsize=1 << 14)
def canonical(layout: Layout) -> Layout:
    """The one value that stands for this function of an integer: equal functions without swizzle and with known sizes
    have the same one, the very same object as long as it is remembered."""
    flat = merged(layout.flat)
    if layout.swizzle is None or layout.swizzle.is_identity:
        return _interned(of_flat(flat).with_values(layout.offset, None))
    if not layout.is_symbolic:
        added = _without_swizzle(of_flat(flat).with_values(layout.offset, layout.swizzle))
        if added is not None:
            return _interned(added)
    return _interned(of_flat(flat).with_values(layout.offset, layout.swizzle))


@lru_cache(maxsize=1 << 14)
def _interned(layout: Layout) -> Layout:
    return layout


def _without_swizzle(layout: Layout) -> Layout | None:
    """The layout as strides alone, where the swizzle adds its source to target bits that are always zero.

    Each source bit must come from one leaf's bit, or from the offset, without carries.
    """
    swizzle = layout.swizzle
    assert swizzle is not None
    low = ((1 << swizzle.bits) - 1) << swizzle.source
    if layout.least >= 0 and layout.greatest < 1 << swizzle.source:
        return layout.with_values(layout.offset, None)
    bits = disjoint_bits(layout)
    if bits is None:
        return None
    offset = layout.offset
    assert isinstance(offset, int)
    used = offset
    for bit in bits:
        used |= bit
    if used & low << swizzle.target >> swizzle.source:
        return None
    split = [(2, bit + (swizzle(bit) ^ bit)) for bit in bits]
    return of_flat(merged(tuple(split))).with_values(swizzle(offset), None)


def disjoint_bits(layout: Layout) -> list[int] | None:
    """The value of each binary digit of the domain, least first, where a value, before the swizzle, is the exclusive or
    of its digits' and the offset: all extents powers of two, no two digits sharing a bit. None otherwise.
    """
    if layout.is_symbolic:
        return None
    offset = layout.offset
    assert isinstance(offset, int)
    used, bits = offset, list[int]()
    if offset < 0:
        return None
    for extent, stride in layout.constant_flat():
        if extent & (extent - 1) or stride < 0:
            return None
        for _ in range(extent.bit_length() - 1):
            if used & stride:
                return None
            used |= stride
            bits.append(stride)
            stride *= 2
    return bits


def equal(left: Layout, right: Layout) -> bool | NotDecided:
    """Whether both are the same function of an integer, of the same size, for all positive values of symbolic sizes."""
    found = difference(left, right)
    return found is None if isinstance(found, Difference | None) else found


def difference(left: Layout, right: Layout) -> Difference | NotDecided | None:
    """Where the two differ as functions of an integer; None where nowhere, whatever the symbolic sizes are."""
    one, other = canonical(left), canonical(right)
    if one == other:
        return None
    if one.is_symbolic or other.is_symbolic:
        for sizes in _trials(one.names | other.names):
            tried = _at(one, sizes), _at(other, sizes)
            if tried[0] is None or tried[1] is None:
                continue
            found = difference(tried[0], tried[1])
            if isinstance(found, Difference):
                return Difference(found.coordinate, found.left, found.right, tuple(sorted(sizes.items())))
        return NotDecided(
            "the sizes are symbolic, the normal forms differ, and no sizes were found that tell them apart",
            "sizes, or a relation between them",
        )
    if one.size != other.size:
        return Difference(None, _int(one.size), _int(other.size))
    probed = _first_difference(one, other, _probes(one, other))
    if probed is not None:
        return probed
    if one.swizzle is None and other.swizzle is None:
        raise AssertionError(f"{one} and {other} differ, but not at a corner")
    if (
        disjoint_bits(one) is not None and disjoint_bits(other) is not None
    ):  # affine over F2: they agree at zero and every digit
        return None
    if _int(one.size) <= _MOST_ENUMERATED and max(*_reach(one), *_reach(other)) < _WORD:
        places = (one.offsets() != other.offsets()).nonzero()[0]
        return _first_difference(one, other, iter(places[:1].tolist()))
    return NotDecided(f"{one.size} swizzled elements that are no exclusive or of digits", "fewer elements")


def _reach(layout: Layout) -> tuple[int, int]:
    return abs(layout.least), abs(layout.greatest)


def _first_difference(left: Layout, right: Layout, places: Iterator[int]) -> Difference | None:
    for place in places:
        if (one := left.at(place)) != (other := right.at(place)):
            return Difference(place, one, other)
    return None


def _probes(left: Layout, right: Layout) -> Iterator[int]:
    """Coordinates at which two different canonical layouts without swizzle differ for sure, and more.

    Up to the first leaf in which they differ they are the same function. There either the strides differ, at one step,
    or one run is shorter, at whose end the longer one goes on alike and the shorter one does not.
    """
    yield 0
    size = _int(left.size)
    steps: set[int] = set()
    for layout in (left, right):
        place = 1
        for extent, _ in layout.constant_flat():
            steps.add(place)
            steps.update(place << bit for bit in range(extent.bit_length()))
            place *= extent
    yield from sorted(step for step in steps if step < size)
    yield size - 1


def _trials(names: frozenset[str]) -> Iterator[dict[str, int]]:
    order = sorted(names)
    for trial in range(_TRIALS):
        yield {
            name: 1 if trial == 0 else 4 if trial == 1 else _PRIMES[(place + trial) % len(_PRIMES)]
            for place, name in enumerate(order)
        }


def _at(layout: Layout, sizes: dict[str, int]) -> Layout | None:
    """The layout at these sizes; None where one of its extents is not positive there, or is none at all."""
    try:
        extents = tuple(_value(extent, sizes) for extent, _ in layout.flat)
        strides = tuple(_value(stride, sizes) for _, stride in layout.flat)
        offset = _value(layout.offset, sizes)
    except ZeroDivisionError:
        return None
    return None if min(extents, default=1) < 1 else made(extents, strides, offset, layout.swizzle)


def with_sizes(layout: Layout, sizes: dict[str, int]) -> Layout:
    """The layout with some symbolic sizes as numbers. Raises TilewrightError where an extent is not positive."""

    def at(value: Integer) -> Integer:
        return nested.settled(substitute(value, sizes)) if isinstance(value, IntegerExpression) else value

    return Layout(nested.mapped(at, layout.shape), nested.mapped(at, layout.stride), at(layout.offset), layout.swizzle)


def _value(value: Integer, sizes: dict[str, int]) -> int:
    return value if isinstance(value, int) else value.at(sizes)


def _int(value: Integer) -> int:
    assert isinstance(value, int)
    return value


def swizzled(layout: Layout, swizzle: Swizzle) -> Layout | None:
    """`swizzle` after the layout; None where that is two swizzles in a row that are not one."""
    before = layout.swizzle
    if swizzle.is_identity:
        return layout
    if before is None or before.is_identity:
        return layout.with_values(layout.offset, swizzle)
    if before.shift != swizzle.shift:
        return None
    reads = ((1 << before.bits) - 1) << before.source, ((1 << swizzle.bits) - 1) << swizzle.source
    writes = ((1 << before.bits) - 1) << before.target, ((1 << swizzle.bits) - 1) << swizzle.target
    if reads[0] & writes[1] or reads[1] & writes[0]:
        return None
    left = reads[0] ^ reads[1]
    if left == 0:
        return layout.with_values(layout.offset, None)
    low = (left & -left).bit_length() - 1
    bits = (left >> low).bit_length()
    if left >> low != (1 << bits) - 1 or bits > abs(swizzle.shift):
        return None
    return layout.with_values(layout.offset, Swizzle(bits, low - max(0, swizzle.shift), swizzle.shift))
