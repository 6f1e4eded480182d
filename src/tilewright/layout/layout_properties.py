"""Does a layout leave a gap or name an element twice; and in which class of layouts is it?

Theory: for overlaps see `layout.overlap`. Values leave no gap where, by increasing stride, each stride is at most one
more than all that lies below reaches: otherwise that number is missing. A swizzle is a bijection of all integers and of
whole blocks.

Classes, for the leaves sorted by stride: tractable where each stride, unless 0, times its extent divides the next
stride (what the categorical account of layouts needs); non-degenerate where leaves of extent 1 have stride 0.
Checked by tests/layout/test_inverses.py against enumeration.
"""

from __future__ import annotations

from itertools import pairwise

from tilewright.layout.answer import NotDecided
from tilewright.layout.coalescing import canonical, merged
from tilewright.layout.inverses import inverse, left_inverse
from tilewright.layout.layout import Layout
from tilewright.layout.overlap import overlaps

_MOST_ENUMERATED = 1 << 16


def is_injective(layout: Layout) -> bool | NotDecided:
    """Whether no value is given twice."""
    if layout.is_symbolic:
        return _injective_symbolic(layout)
    found = overlaps(layout)
    return not found if isinstance(found, bool) else found


def is_surjective(layout: Layout, onto: int | None = None) -> bool | NotDecided:
    """Whether every integer from 0 up to `onto`, by default up to the layout's largest value, is a value, and no other.

    Raises TilewrightError where sizes are symbolic.
    """
    if layout.swizzle is not None and (simpler := canonical(layout)).swizzle is None:
        return is_surjective(simpler, onto)
    end = layout.greatest + 1 if onto is None else onto
    swizzle = layout.swizzle
    if swizzle is not None:
        block = 1 << swizzle.target + swizzle.bits
        if end % block:
            return _surjective_by_values(layout, None if onto is None else onto)
    if layout.least != 0 or layout.greatest != end - 1:
        return False
    reach = 0
    for stride, extent in sorted((abs(stride), extent) for extent, stride in layout.constant_flat() if extent > 1):
        if stride > reach + 1:
            return False
        reach += (extent - 1) * stride
    return True


def is_bijective(layout: Layout) -> bool | NotDecided:
    """Whether the values are the integers below the size, each once."""
    if layout.is_symbolic:
        answer = inverse(layout)
        return True if isinstance(answer, Layout) else NotDecided(f"{answer}", "the sizes")
    if is_injective(layout) is False:
        return False
    return is_surjective(layout, int(layout.size) if isinstance(layout.size, int) else None)


def is_tractable(layout: Layout) -> bool:
    """Whether each stride, unless 0, times its extent divides the next, by increasing stride; leaves of extent 1 too.

    Raises TilewrightError where sizes are symbolic.
    """
    leaves = sorted((stride, extent) for extent, stride in layout.constant_flat())
    if leaves and leaves[0][0] < 0:
        return False
    return all(
        stride == 0 or following % (stride * extent) == 0 for (stride, extent), (following, _) in pairwise(leaves)
    )


def is_non_degenerate(layout: Layout) -> bool:
    """Whether every leaf of extent 1 has stride 0. Symbolic extents count as longer."""
    return all(extent != 1 or stride == 0 for extent, stride in layout.flat)


def _injective_symbolic(layout: Layout) -> bool | NotDecided:
    if any(stride == 0 and isinstance(extent, int) for extent, stride in merged(layout.flat)):
        return False
    if isinstance(left_inverse(layout.plain), Layout):
        return True
    return NotDecided(f"whether {layout} names an element twice depends on the sizes", "the sizes")


def _surjective_by_values(layout: Layout, onto: int | None) -> bool | NotDecided:
    size = layout.size
    if not isinstance(size, int) or size > _MOST_ENUMERATED:
        return NotDecided(f"{layout} swizzles a part of a block", "fewer elements")
    values = {layout.at(place) for place in range(size)}
    end = max(values) + 1 if onto is None else onto
    return min(values) == 0 and max(values) == end - 1 and len(values) == end
