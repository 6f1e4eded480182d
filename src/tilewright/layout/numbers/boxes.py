"""Boxes of integer points: what do two share, what is left of one, and where in one does an affine form lie in a range?

Theory: a box is a product of half-open intervals. Differences of boxes, and the points of a box where an affine form
lies in a range, are unions of boxes. For a form that reads its coordinates as digits (each coefficient exceeds what the
smaller ones reach together) two slices for each digit suffice; for others the number is bounded by a budget, and None
answers beyond it. Checked by tests/layout/numbers/test_boxes.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

Box: TypeAlias = "tuple[tuple[int, int], ...]"
"""(low, high) of each coordinate, high not in it."""


def volume(box: Box) -> int:
    """Points of the box."""
    return prod(high - low for low, high in box)


def intersection(left: Box, right: Box) -> Box | None:
    """The shared box; None where nothing is shared."""
    found: list[tuple[int, int]] = []
    for (low, high), (other_low, other_high) in zip(left, right, strict=True):
        low, high = max(low, other_low), min(high, other_high)
        if low >= high:
            return None
        found.append((low, high))
    return tuple(found)


def without(box: Box, removed: Box) -> list[Box]:
    """Disjoint boxes that hold the points of `box` outside `removed`."""
    shared = intersection(box, removed)
    if shared is None:
        return [box]
    left: list[Box] = []
    for axis, ((low, high), (inner_low, inner_high)) in enumerate(zip(box, shared, strict=True)):
        done, rest = shared[:axis], box[axis + 1 :]
        if low < inner_low:
            left.append((*done, (low, inner_low), *rest))
        if inner_high < high:
            left.append((*done, (inner_high, high), *rest))
    return left


def value_range(box: Box, row: Sequence[int], offset: int) -> tuple[int, int]:
    """The least and the greatest value of `row . x + offset` in the box."""
    least = greatest = offset
    for (low, high), factor in zip(box, row, strict=True):
        one, other = factor * low, factor * (high - 1)
        least += min(one, other)
        greatest += max(one, other)
    return least, greatest


def where_between(box: Box, row: Sequence[int], offset: int, low: int, high: int, most: int) -> list[Box] | None:
    """Disjoint boxes of the points with low <= row . x + offset < high; None where they are more than `most`."""
    found: list[Box] = []
    waiting = [box]
    while waiting:
        if len(found) + len(waiting) > most:
            return None
        current = waiting.pop()
        least, greatest = value_range(current, row, offset)
        if least >= high or greatest < low:
            continue
        if low <= least and greatest < high:
            found.append(current)
            continue
        # Every value of the coordinate with the largest part in the range: inside, outside, or to be taken further.
        axis = max(range(len(row)), key=lambda at: abs(row[at]) if current[at][1] - current[at][0] > 1 else 0)
        begin, end = current[axis]
        factor = row[axis]
        one, other = factor * begin, factor * (end - 1)
        rest_least, rest_greatest = least - min(one, other), greatest - max(one, other)
        possible = _interval(factor, low - rest_greatest, high - 1 - rest_least, begin, end)
        inside = _interval(factor, low - rest_least, high - 1 - rest_greatest, begin, end)
        if inside[0] < inside[1]:
            found.append((*current[:axis], inside, *current[axis + 1 :]))
        else:
            inside = (possible[1], possible[1])
        partial = inside[0] - possible[0] + possible[1] - inside[1]
        if len(found) + len(waiting) + partial > most:
            return None
        for value in (*range(possible[0], inside[0]), *range(inside[1], possible[1])):
            waiting.append((*current[:axis], (value, value + 1), *current[axis + 1 :]))
    return found


def overlapping(boxes: Sequence[Box]) -> tuple[int, int] | None:
    """The numbers of two boxes that share a point; None where none do."""
    order = sorted(range(len(boxes)), key=lambda at: boxes[at])
    open_boxes: list[int] = []
    for at in order:
        box = boxes[at]
        if not box:
            if open_boxes:
                return open_boxes[0], at
            open_boxes.append(at)
            continue
        begin = box[0][0]
        open_boxes = [other for other in open_boxes if boxes[other][0][1] > begin]
        for other in open_boxes:
            if intersection(boxes[other], box) is not None:
                return other, at
        open_boxes.append(at)
    return None


def _interval(factor: int, least: int, greatest: int, begin: int, end: int) -> tuple[int, int]:
    """The x of begin .. end - 1 with least <= factor x <= greatest, half-open; factor is not 0."""
    if factor > 0:
        first, last = -(-least // factor), greatest // factor
    else:
        first, last = -(greatest // -factor), -least // -factor
    low = min(max(first, begin), end)
    return low, max(low, min(last + 1, end))
