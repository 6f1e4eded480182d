"""Does a layout of known sizes give a value twice?

Theory: a sum of digits names no value twice where, by increasing stride, each stride exceeds all that lies below; that
is sufficient and quick. In general two coordinates meet where differences of digits, weighted by the strides, cancel,
which is a search; it is cut off by what the smaller strides can still reach and by their common divisor, and bounded:
beyond 20,000 steps the answer is `NotDecided`. Offset and swizzle, both bijections, do not matter.
Checked by tests/layout/test_inverses.py against enumeration.
"""

from __future__ import annotations

from math import gcd

from tilewright.layout.answer import NotDecided
from tilewright.layout.layout import Layout

_MOST_STEPS = 20000


def overlaps(layout: Layout) -> bool | NotDecided:
    """Whether some value is given twice. Raises TilewrightError where sizes are symbolic."""
    leaves = sorted((abs(stride), extent) for extent, stride in layout.constant_flat() if extent > 1)
    if any(stride == 0 for stride, _ in leaves):
        return True
    reach = 0
    for stride, extent in leaves:
        if stride <= reach:
            break
        reach += (extent - 1) * stride
    else:
        return False
    if len({stride for stride, _ in leaves}) < len(leaves):
        return True
    return _cancels(leaves)


def _cancels(leaves: list[tuple[int, int]]) -> bool | NotDecided:
    """Whether sum y_i stride_i = 0 has a solution, other than zero, with |y_i| < extent_i; strides increase."""
    reach = [0]
    divisor = [0]
    for stride, extent in leaves:
        reach.append(reach[-1] + (extent - 1) * stride)
        divisor.append(gcd(divisor[-1], stride))
    steps = 0
    waiting: list[tuple[int, int, bool]] = [(len(leaves), 0, False)]
    while waiting:
        place, total, moved = waiting.pop()
        if place == 0:
            if moved and total == 0:
                return True
            continue
        if moved and total == 0:
            return True
        if divisor[place] and total % divisor[place]:
            continue
        stride, extent = leaves[place - 1]
        low, high = -(total + reach[place - 1]), reach[place - 1] - total
        first, last = max(-(-low // stride), 1 - extent), min(high // stride, extent - 1)
        if not moved:
            first = max(first, 0)
        steps += max(0, last - first) + 1
        if steps > _MOST_STEPS:
            return NotDecided("too many ways in which strides could cancel", "strides that divide one another")
        for digit in range(first, last + 1):
            waiting.append((place - 1, total + digit * stride, moved or digit != 0))
    return False
