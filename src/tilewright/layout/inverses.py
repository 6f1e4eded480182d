"""What undoes a layout, and what fills the places that it leaves free?

Theory, for the leaves sorted by stride: a layout without overlap is a mixed radix with gaps. Its complement has the
gaps as leaves; both together are dense. It exists where each stride is a multiple of the end of what lies below (the
leaves are then tractable: each gap is a whole factor). The right inverse R, layout(R(i)) = i, follows the strides
1, s_1, s_1 s_2, ... from the start as far as they are there. The left inverse L, L(layout(x)) = x, is the right inverse
of the layout with its complement; where there is no complement, rows that are padded are taken as longer rows: each
stride a multiple of the one below, and large enough. A bijection of its size has one inverse, on both sides.

A swizzle is its own inverse; it is moved behind the inverse of the rest where `layout.composition` can. Negative
strides are turned round first. Symbolic sizes: where strides divide as polynomials, in an order for all positive sizes.

`NotExpressible` is said only where no layout is the answer. `NotDecided`: left inverses of layouts without overlap
whose strides are not in rows (`(3,2):(2,3)`), offsets that overflow a digit, swizzles that do not move, more than 32
leaves with symbolic sizes.
Checked by tests/layout/test_inverses.py against enumeration.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.answer import NotDecided, NotExpressible, Refusal
from tilewright.layout.coalescing import canonical, equal, merged
from tilewright.layout.composition import compose
from tilewright.layout.layout import Layout, joined, of_flat
from tilewright.layout.nested import Integer
from tilewright.layout.overlap import overlaps
from tilewright.layout.symbolic_composition import exact_quotient, never_negative

_MOST_SYMBOLIC = 32
_Leaf = tuple[Integer, Integer, Integer]
"""stride, extent, and the product of the extents before it."""


@lru_cache(maxsize=1 << 12)
def complement(layout: Layout, size: Integer = 1, *, partial: bool = False) -> Layout | Refusal:
    """The layout, with increasing strides, that names what `layout` leaves free below `size`: where to put copies.

    (layout, complement) is injective and, where its size is `size` or more, dense. size: rounded up to whole copies.
    partial: where a gap is no whole multiple, take the whole multiples in it, as CuTe does; the places left over are
    then named by neither. The offset of the layout is ignored. Raises TilewrightError for a size below 1.
    """
    bound = nested.leaf(size, "size")
    if isinstance(bound, int) and bound < 1:
        raise TilewrightError(f"complement: the size {bound} is not positive")
    if layout.swizzle is not None and (layout := canonical(layout)).swizzle is not None:
        return NotDecided(f"whether the places that {layout} leaves free are strided", "a linear layout over F2")
    leaves = _sorted(layout)
    if not isinstance(leaves, list):
        return leaves
    result: list[tuple[Integer, Integer]] = []
    reached: Integer = 1
    for stride, extent, _ in leaves:
        if stride == 0:
            continue
        gap = exact_quotient(stride, reached)
        if gap is None:
            if not isinstance(stride, int) or not isinstance(reached, int):
                return NotDecided(f"whether the stride {stride} is a multiple of {reached} depends on the sizes")
            if stride < reached:
                return NotExpressible(
                    f"the stride {stride} of {layout} lies below {reached}, where what is below it ends"
                )
            if not partial:
                return NotExpressible(
                    f"the stride {stride} of {layout} is no multiple of {reached}, where what is below ends"
                )
            gap = stride // reached
        result.append((gap, reached))
        reached = nested.times(stride, extent)
    copies = exact_quotient(bound, reached)
    if copies is None:
        if not isinstance(bound, int) or not isinstance(reached, int):
            if bound != 1:
                return NotDecided(f"how often {reached} fits into {bound} depends on the sizes", "the sizes")
            copies = 1
        else:
            copies = -(-bound // reached)
    return of_flat(merged((*result, (copies, reached))))


def right_inverse(layout: Layout) -> Layout | Refusal:
    """The largest layout R with layout(R(i)) = i for every i below its size; `1:0` where that is 0 alone.

    NotExpressible where 0 is no value of the layout.
    """
    turned, back = _unflipped(layout)
    if back is not None:
        found = right_inverse(turned)
        return compose(back, found) if isinstance(found, Layout) else found
    if layout.offset != 0:
        if layout.is_symbolic or layout.least < 0:
            return NotDecided(f"where {layout} is 0 was not looked for", "an offset that makes the least value 0")
        return NotExpressible(f"0 is no value of {layout}")
    leaves = _leaves(layout)
    result: list[tuple[Integer, Integer]] = []
    reached: Integer = 1
    while True:
        fitting = [leaf for leaf in leaves if leaf[0] == reached]
        if not fitting:
            break
        stride, extent, before = max(fitting, key=_weight)
        result.append((extent, before))
        reached = nested.times(stride, extent)
        leaves = [leaf for leaf in leaves if leaf != (stride, extent, before)]
    return _after_swizzle(of_flat(merged(tuple(result))), layout)


def left_inverse(layout: Layout) -> Layout | Refusal:
    """A layout L with L(layout(x)) = x for every x below the layout's size, whose domain holds all its values.

    What L gives for other values is not said; where the complement exists, L is a bijection.
    NotExpressible where the layout overlaps itself or no strides undo it.
    """
    turned, back = _unflipped(layout)
    if back is not None:
        if turned.least < 0:
            return NotExpressible(f"{layout} has values below 0, which no layout takes")
        found = left_inverse(turned)
        if not isinstance(found, Layout):
            return found
        undone = compose(back, found, extend=True)
        return undone if isinstance(undone, Layout) else NotDecided(str(undone))
    plain = layout.plain
    leaves = _sorted(plain)
    if not isinstance(leaves, list):
        return leaves
    if not layout.is_symbolic and overlaps(plain) is True:
        return NotExpressible(f"{layout} gives a value twice")
    if any(stride == 0 for stride, _, _ in leaves):
        return NotExpressible(f"{layout} gives a value twice: a stride is 0")
    rest = complement(plain)
    if isinstance(rest, Layout):
        found = right_inverse(joined([plain, rest]))
        if not isinstance(found, Layout):
            return found
    else:
        padded = _padded_inverse(layout, leaves)
        if not isinstance(padded, Layout):
            return padded
        found = padded
    if layout.offset != 0:
        moved = _moved(found, layout)
        if not isinstance(moved, Layout):
            return moved
        found = moved
    if layout.swizzle is None or layout.swizzle.is_identity:
        return found
    return _after_swizzle(_whole_blocks(found, layout), layout)


def inverse(layout: Layout) -> Layout | Refusal:
    """The layout that undoes a bijection of the integers below its size, on both sides."""
    found = right_inverse(layout)
    if not isinstance(found, Layout):
        return found
    if found.size == layout.size:
        return found
    if layout.is_symbolic:
        return NotDecided(f"whether {layout} is a bijection depends on the sizes", "the sizes")
    return NotExpressible(
        f"{layout} is no bijection of its {layout.size} elements: it gives 0 to {found.size} without {found.size}"
        if isinstance(found.size, int) and found.size > 1
        else f"{layout} is no bijection of its {layout.size} elements: no stride is 1"
    )


def _unflipped(layout: Layout) -> tuple[Layout, Layout | None]:
    """The layout with its negative strides turned round, and what turns its coordinates; (layout, None) without any.

    layout(x) = turned(back(x)), and back is its own inverse.
    """
    if layout.is_symbolic or all(stride >= 0 for _, stride in layout.constant_flat()):
        return layout, None
    forward: list[tuple[Integer, Integer]] = []
    back: list[tuple[Integer, Integer]] = []
    before, turn = 1, 0
    for extent, stride in layout.constant_flat():
        forward.append((extent, abs(stride)))
        back.append((extent, before if stride >= 0 else -before))
        turn += (extent - 1) * before if stride < 0 else 0
        before *= extent
    return of_flat(forward).with_values(layout.least, layout.swizzle), of_flat(back).with_values(turn, None)


def _leaves(layout: Layout) -> list[_Leaf]:
    found: list[_Leaf] = []
    before: Integer = 1
    for extent, stride in merged(layout.flat):
        found.append((stride, extent, before))
        before = nested.times(before, extent)
    return found


def _sorted(layout: Layout) -> list[_Leaf] | Refusal:
    """The leaves by stride; symbolic strides by divisibility, which orders all that are positive."""
    leaves = _leaves(layout)
    if not layout.is_symbolic:
        if any(isinstance(stride, int) and stride < 0 for stride, _, _ in leaves):
            return NotExpressible(f"{layout} has values below that at 0, where copies would have to be")
        return sorted(leaves, key=lambda leaf: (_number(leaf[0]), _number(leaf[1])))
    if not all(never_negative(stride) for stride, _, _ in leaves):
        return NotDecided(f"the strides of {layout} may be negative", "the sizes")
    if len(leaves) > _MOST_SYMBOLIC:
        return NotDecided(f"{len(leaves)} leaves with symbolic strides", f"{_MOST_SYMBOLIC} or fewer, or the sizes")
    waiting: list[_Leaf] = leaves
    ordered: list[_Leaf] = []
    while waiting:
        least = next((leaf for leaf in waiting if _divides_all(leaf[0], waiting)), None)
        if least is None:
            return NotDecided(f"the order of the strides of {layout} depends on the sizes", "the sizes")
        ordered.append(least)
        waiting = [leaf for leaf in waiting if leaf is not least]
    return ordered


def _divides_all(stride: Integer, leaves: list[_Leaf]) -> bool:
    return stride == 0 or all(other == 0 or exact_quotient(other, stride) is not None for other, _, _ in leaves)


def _padded_inverse(layout: Layout, leaves: list[_Leaf]) -> Layout | Refusal:
    result: list[tuple[Integer, Integer]] = []
    below, previous, needed = None, 0, 1
    for stride, extent, before in leaves:
        if not isinstance(stride, int) or not isinstance(extent, int):
            return NotDecided(f"whether {layout} overlaps itself depends on the sizes", "the sizes")
        if below is None:
            result.append((stride, 0))
        elif stride < needed:
            return NotDecided(f"the stride {stride} of {layout} lies below {needed}; only rows in order are undone")
        elif stride % previous:
            return NotDecided(
                f"{stride}, a stride of {layout}, is no multiple of {previous}; only whole rows are undone"
            )
        else:
            result.append((stride // previous, below))
        below, previous, needed = before, stride, stride * extent
    if below is not None:
        result.append((leaves[-1][1], below))
    return of_flat(merged(tuple(result)))


def _moved(found: Layout, layout: Layout) -> Layout | Refusal:
    """The left inverse of the layout without offset, made to undo the offset too: it is that of what it adds."""
    if layout.is_symbolic:
        return NotDecided(f"whether the offset of {layout} overflows a digit depends on the sizes", "the sizes")
    assert isinstance(layout.offset, int)
    if layout.offset < 0:
        return NotExpressible(f"{layout} has values below 0, which no layout takes")
    size = found.size
    assert isinstance(size, int)
    needed = -(-(layout.greatest + 1) // size)
    flat = merged(found.flat) or [(1, 0)]
    extent, stride = flat[-1]
    wide = of_flat([*flat[:-1], (extent * needed, stride)])
    candidate = wide.with_values(-wide.at(layout.offset), None)
    undone = compose(candidate, layout.with_values(layout.offset, None))
    if isinstance(undone, Layout) and equal(undone, Layout(layout.size)) is True:
        return candidate
    return NotDecided(f"the offset {layout.offset} of {layout} overflows a digit of the inverse of what follows it")


def _whole_blocks(found: Layout, layout: Layout) -> Layout:
    """`found` on whole blocks of the layout's swizzle, so that it is defined wherever the swizzle leads."""
    swizzle, size = layout.swizzle, found.size
    if swizzle is None or not isinstance(size, int) or size % (1 << swizzle.top) == 0:
        return found
    flat = merged(found.flat) or [(1, 0)]
    inner = prod(extent for extent, _ in flat[:-1] if isinstance(extent, int))
    stride = flat[-1][1]
    wanted = -(-size // (1 << swizzle.top)) << swizzle.top
    if wanted % inner:
        return found
    return of_flat([*flat[:-1], (wanted // inner, stride)]).with_values(found.offset, None)


def _after_swizzle(found: Layout, layout: Layout) -> Layout | Refusal:
    """`found` after the swizzle of `layout`, which undoes itself."""
    if layout.swizzle is None or layout.swizzle.is_identity:
        return found
    answer = compose(found, Layout(found.size, 1, 0, layout.swizzle))
    return NotDecided(answer.reason, "a linear layout over F2") if isinstance(answer, NotExpressible) else answer


def _weight(leaf: _Leaf) -> tuple[int, int]:
    return (1, leaf[1]) if isinstance(leaf[1], int) else (0, 0)


def _number(value: Integer) -> int:
    assert isinstance(value, int)
    return value
