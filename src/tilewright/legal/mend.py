"""What is a legal tensor map near an illegal one?

Each rule has at most one mend, the least change of the field that broke it: a stride is rounded up and the strides
outside it follow (the operand is padded), a box is cut into equal copies, an inner box is widened. A mend changes how a
tensor is stored or how many copies fetch it, never which elements it has. Every answer is judged again by the rules
before it is given: the map returned is its own witness.

Not handled, and answered by None: ranks above 5, extents or strides out of range, element strides, misaligned
addresses. These need another program, not another map. "Near" is per field; that no cheaper combination of changes
exists isn't claimed. Checked by tests/legal/test_mend.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod

from tilewright.base.plan import TensorMap
from tilewright.legal.tensormap import swizzle_span_bytes, violations
from tilewright.legal.violation import Violation
from tilewright.targets import Target


@dataclass(frozen=True, slots=True)
class Change:
    """One mend. title: what to do, one line; cost: what it costs, one line."""

    title: str
    cost: str


@dataclass(frozen=True, slots=True)
class Mended:
    """A map without the violations it was mended for, and the changes that led to it."""

    map: TensorMap
    changes: tuple[Change, ...]


def mend(
    map: TensorMap, target: Target, *, global_address: int = 0, dimension_names: tuple[str, ...] = ()
) -> Mended | None:
    """A legal map near `map`, or None where a rule that it breaks has no mend. A legal map comes back as it is.

    dimension_names: innermost first, for the changes' titles. Raises TilewrightError as `violations` does.
    """
    changes: list[Change] = []
    # Each step clears one rule at one dimension. The bound only guards against two mends that undo each other.
    for _ in range(4 * (map.rank + 1)):
        broken = violations(map, target, global_address=global_address)
        if not broken:
            return Mended(map, tuple(changes))
        step = mend_one(map, broken[0], target, dimension_names=dimension_names)
        if step is None:
            return None
        map = step.map
        changes += step.changes
    return None


def mend_one(
    map: TensorMap, violation: Violation, target: Target, *, dimension_names: tuple[str, ...] = ()
) -> Mended | None:
    """`map` changed so that `violation` is gone, or None where its rule has no mend. Other rules may stay broken."""
    step: tuple[TensorMap, Change] | None
    match violation.code:
        case "TM006":
            change = Change("fill with zeros", "none: integers have no NaN")
            step = replace(map, out_of_bounds="zero"), change
        case "TM012":
            step = _pad_stride(map, violation, dimension_names)
        case "TM014" if violation.index is not None:
            step = _split_box(map, violation.index, violation.limit, target, dimension_names)
        case "TM015":
            step = _widen_inner_box(map, violation.limit)
        case "TM016":
            step = _split_box(map, 0, violation.limit // map.element.bytes, target, dimension_names)
        case "TM018":
            step = _shrink_footprint(map, violation.limit, target, dimension_names)
        case _:
            step = None
    return None if step is None else Mended(step[0], (step[1],))


def _name(index: int, names: tuple[str, ...]) -> str:
    return names[index] if index < len(names) else f"dimension {index}"


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _pad_stride(map: TensorMap, violation: Violation, names: tuple[str, ...]) -> tuple[TensorMap, Change] | None:
    index, multiple = violation.index, violation.limit
    if index is None or map.strides_bytes[index] <= 0:
        return None
    old, padded = map.strides_bytes, list(map.strides_bytes)
    padded[index] = _round_up(old[index], multiple)
    # Outer dimensions follow, the smaller stride first. A stride is read as a number whose digits count the strides
    # within it, and written again with those padded: what did not overlap does not overlap then.
    levels = [index]
    for outer in sorted((i for i in range(len(old)) if i != index and old[i] >= old[index]), key=lambda i: old[i]):
        scaled, rest = 0, old[outer]
        for level in reversed(levels):
            whole, rest = divmod(rest, old[level])
            scaled += whole * padded[level]
        padded[outer] = _round_up(scaled + rest, multiple)
        levels.append(outer)
    element_bytes = map.element.bytes
    if old[index] % element_bytes == 0 and index == 0:
        title = f"pad {_name(0, names)} from {old[0] // element_bytes} to {padded[0] // element_bytes} elements"
    else:
        title = f"pad the stride of {_name(index + 1, names)} from {old[index]} to {padded[index]} bytes"
    size_bytes = sum((extent - 1) * stride for extent, stride in zip(map.dims[1:], padded, strict=True))
    size_bytes += map.dims[0] * element_bytes
    change = Change(title, f"a padded copy of the tensor, {size_bytes} bytes, unless it is allocated so")
    return replace(map, strides_bytes=tuple(padded)), change


def _split_box(
    map: TensorMap, index: int, limit: int, target: Target, names: tuple[str, ...]
) -> tuple[TensorMap, Change] | None:
    extent = map.box[index]
    if extent < 1 or limit < 1 or map.element_strides[index : index + 1] not in ((), (1,)):
        return None
    step = 1
    if index == 0:
        step = target.limit("tensor_map.box_inner_multiple_bytes") // map.element.bytes
        span_bytes = swizzle_span_bytes(map, target)
        if span_bytes and map.interleave == "none":
            limit = min(limit, span_bytes // map.element.bytes)
    fewest = ceil(extent / limit)
    even = next((size for size in range(limit, 0, -1) if extent % size == 0 and size % step == 0), 0)
    # Equal parts where that costs few copies more; otherwise the last copy reaches past the box, where it is harmless.
    part = even if even and extent // even <= 2 * fewest else _round_up(ceil(extent / fewest), step)
    copies = ceil(extent / part)
    whose = f"the box's {extent} elements of {_name(index, names)}"
    change = Change(f"split {whose} into {copies} copies of {part}", f"{copies} copies where there was one")
    return _with_box(map, index, part), change


def _widen_inner_box(map: TensorMap, multiple_bytes: int) -> tuple[TensorMap, Change] | None:
    element_bytes = map.element.bytes
    if map.box[0] < 1:
        return None
    wide = _round_up(map.box[0] * element_bytes, multiple_bytes) // element_bytes
    change = Change(
        f"widen the inner box from {map.box[0]} to {wide} elements",
        f"{(wide - map.box[0]) * element_bytes} bytes more in each row of the box",
    )
    return _with_box(map, 0, wide), change


def _shrink_footprint(
    map: TensorMap, limit_bytes: int, target: Target, names: tuple[str, ...]
) -> tuple[TensorMap, Change] | None:
    if any(stride != 1 for stride in map.element_strides):
        return None
    for index in range(map.rank - 1, 0, -1):
        rest_bytes = prod(map.box) // map.box[index] * map.element.bytes
        if map.box[index] > 1:
            return _split_box(map, index, max(1, min(limit_bytes // rest_bytes, map.box[index] - 1)), target, names)
    return None


def _with_box(map: TensorMap, index: int, extent: int) -> TensorMap:
    return replace(map, box=(*map.box[:index], extent, *map.box[index + 1 :]))
