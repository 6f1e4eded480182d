"""Which im2col maps near an illegal one are legal, and when does an im2col map serve where a tiled one cannot?

Near an illegal map: of the smallest sets of fields whose change can make it legal (`Legality.minimal_changes`), each is
tried with a few values a field: what it is, rounded to the multiples that rules ask for, cut to their limits, to the
largest part that divides it. The least change that the rules accept is the answer; where channels or pixels are cut,
several copies take the place of one.

In place of a tiled map: a view of an image in which the taps of a window and the places it is put at have the same
stride, as convolutions have. The taps become the offsets that the copy takes, and what lies beyond the image is filled.

Not handled: wide modes in place of tiled maps; strided and dilated convolutions there. Checked by
tests/legal/plan/test_im2col_repairs.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from math import ceil
from typing import Any, cast

from tilewright.legal.plan.box_choice import conflict_ways
from tilewright.legal.plan.costs import Cost
from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.repair_plan import Change, Kind, Repair
from tilewright.legal.plan.want import Want
from tilewright.legal.tensor_map.enumerations import FILLS, INTERLEAVES, L2_PROMOTIONS, SWIZZLES, WIDE_MODES
from tilewright.legal.tensor_map.footprint import copy_bytes
from tilewright.legal.tensor_map.im2col_map import Im2colMap, Im2colWideMap
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.map_limits import MapLimits, map_limits
from tilewright.targets import Target

AnyIm2col = Im2colMap | Im2colWideMap

_NAMES: dict[str, Sequence[str]] = {
    "swizzle": SWIZZLES,
    "interleave": INTERLEAVES,
    "l2_promotion": L2_PROMOTIONS,
    "oob_fill": FILLS,
    "mode": WIDE_MODES,
}
_FIELDS = ("dtype", "dims", "strides", "lower_corner", "upper_corner", "channels_per_pixel", "pixels_per_column",
           "element_strides", "interleave", "mode", "swizzle", "l2_promotion", "oob_fill", "address")  # fmt: skip
_MULTIPLES = (16, 32, 128)
_SETS_MOST, _TRIALS_MOST = 6, 400
_COUNT_MOST = 1024
"""Pixels of one column, at most; which of the values tried are legal, the rules say."""
_MEANING = frozenset(("rank", "dtype", "dims", "lower_corner", "upper_corner", "element_strides"))
"""Fields that say which elements are fetched: another value is another question."""
_STORED = frozenset(("strides", "address"))


def im2col_repairs(map: AnyIm2col, want: Want, target: Target) -> list[Repair]:
    """Legal maps near `map`, the least change first, then plain loads; `map` itself where it is legal. Empty where
    there is nothing to copy: an extent, a stride or a count below 1."""
    reading = _reading(map)
    if reading is None:
        return []
    verdict = check(map, target)
    base = _cost(map, map, target)
    pieces = 2 * reading.box_elements
    title = f"plain loads by threads, {pieces // 2} elements a column"
    loads = Repair("loads", title, (), replace(base, thread_copies=pieces), (), reading)
    if verdict.legal:
        return [Repair("legal", "legal as it is", (), base, (), reading, im2col=map), loads]
    found: list[Repair] = []
    for fields in verdict.minimal_changes[:_SETS_MOST]:
        names = {name.partition("[")[0] for name in fields}
        if names & (want.keep | _MEANING) or ("interleave" in names and map.interleave == "none"):
            continue
        changed = _nearest(map, sorted(fields), target)
        if changed is not None:
            found.append(_repair(map, changed, reading, target))
    return sorted([*found, loads], key=lambda each: each.cost.rank)


def as_im2col(reading: Reading, dtype: str | int, swizzle: str, target: Target) -> Im2colMap | None:
    """The im2col map of a view (channels, taps along W[, along H], places along W[, along H], images), whose tile takes
    one tap and whole rows of places, or places of one row; None for any other view."""
    limits = map_limits(target)
    spatial = {4: 1, 6: 2}.get(reading.rank)
    if spatial is None or reading.strides_bytes[0] != reading.element_bytes:
        return None
    taps, places = range(1, 1 + spatial), range(1 + spatial, 1 + 2 * spatial)
    if any(reading.strides_bytes[tap] != reading.strides_bytes[at] for tap, at in zip(taps, places, strict=True)):
        return None
    if any(reading.box[tap] != 1 or reading.dims[tap] == 1 for tap in taps) or reading.box[-1] != 1:
        return None
    whole = all(reading.box[at] == reading.dims[at] for at in list(places)[:-1])
    one_row = all(reading.box[at] == 1 for at in list(places)[1:])
    if not (whole or one_row) or any(step != 1 for step in reading.element_strides):
        return None
    pixels = 1
    for at in places:
        pixels *= reading.box[at]
    sizes = tuple(reading.dims[at] + reading.dims[tap] - 1 for tap, at in zip(taps, places, strict=True))
    map = Im2colMap(
        dtype,
        (reading.dims[0], *sizes, reading.dims[-1]),
        (*(reading.strides_bytes[at] for at in places), reading.strides_bytes[-1]),
        (0,) * spatial,
        tuple(1 - reading.dims[tap] for tap in taps),
        min(reading.box[0], limits.span_bytes(swizzle) // reading.element_bytes or reading.box[0]),
        pixels,
        swizzle=swizzle,
        address=reading.address,
    )
    return map if check(map, target).legal else None


def _reading(map: AnyIm2col) -> Reading | None:
    """The tensor, and one column of it as a box along dimension 1."""
    data_type = map.data_type
    counts = (*map.dims, *map.strides, map.channels_per_pixel, map.pixels_per_column)
    if data_type is None or map.rank < 2 or min(counts) < 1 or map.address < 0:
        return None
    element_bytes = max(1, data_type.global_bits // 8)
    box = (map.channels_per_pixel, map.pixels_per_column, *(1 for _ in map.dims[2:]))
    starts = (map.channels_per_pixel, *(1 for _ in map.dims[1:]))
    return Reading(element_bytes, map.dims, (element_bytes, *map.strides), box, (1,) * map.rank, starts, map.address)


def _nearest(map: AnyIm2col, fields: list[str], target: Target) -> AnyIm2col | None:
    limits = map_limits(target)
    options = [_options(map, name, limits) for name in fields]
    for values in islice(product(*options), _TRIALS_MOST):
        changed = _with(map, dict(zip(fields, values, strict=True)))
        if check(changed, target).legal:
            return changed
    return None


def _options(map: AnyIm2col, name: str, limits: MapLimits) -> list[Any]:
    """Other values of one field, the nearest first; of a count, first what divides it, since copies are then equal."""
    field, value = _entry(map, name)
    if field in _NAMES:
        return [other for other in _NAMES[field] if other != value]
    if not isinstance(value, int):
        return []
    up = [-(-value // multiple) * multiple for multiple in _MULTIPLES]
    if field in _STORED:
        return [other for other in dict.fromkeys(up) if other != value]
    parts = [size for size in range(min(value - 1, _COUNT_MOST), 0, -1) if value % size == 0]
    others = sorted((*up, limits.box_extent_max, _COUNT_MOST), key=lambda other: abs(other - value))
    return [other for other in dict.fromkeys((*parts, *others)) if other != value]


def _entry(map: AnyIm2col, name: str) -> tuple[str, object]:
    """The field that a rule reads by `name`, and what stands there."""
    field, bracket, index = name.partition("[")
    field = {"wide_mode": "mode"}.get(field, field)
    value: object = getattr(map, field)
    if bracket and isinstance(value, tuple):
        entries = cast("tuple[int, ...]", value)
        return field, entries[int(index[:-1])]
    return field, value


def _with(map: AnyIm2col, values: dict[str, Any]) -> AnyIm2col:
    changed: dict[str, Any] = {}
    for name, value in values.items():
        field, bracket, index = name.partition("[")
        field = {"wide_mode": "mode"}.get(field, field)
        given: Any = changed.get(field, getattr(map, field))
        if bracket and isinstance(given, tuple):
            at = int(index[:-1])
            changed[field] = (*given[:at], value, *given[at + 1 :])
        else:
            changed[field] = value
    return replace(map, **changed)


def _repair(before: AnyIm2col, after: AnyIm2col, reading: Reading, target: Target) -> Repair:
    changes = tuple(
        Change(name, getattr(before, name), getattr(after, name))
        for name in _FIELDS
        if getattr(before, name, None) != getattr(after, name, None)
    )
    words = [f"{each.field} {_written(each.after)} instead of {_written(each.before)}" for each in changes]
    kind: Kind = "pad" if any(each.field in _STORED for each in changes) else "fields"
    if any(each.field in ("channels_per_pixel", "pixels_per_column") for each in changes):
        kind = "box"
    return Repair(kind, "; ".join(words), (), _cost(before, after, target), changes, reading, im2col=after)


def _cost(before: AnyIm2col, after: AnyIm2col, target: Target) -> Cost:
    """What `after` costs where `before` took one copy."""
    copies = ceil(before.channels_per_pixel / max(1, after.channels_per_pixel))
    copies *= ceil(before.pixels_per_column / max(1, after.pixels_per_column))
    found = copy_bytes(after, target)
    data_type = after.data_type
    row_bytes = after.channels_per_pixel * (data_type.shared_bits if data_type is not None else 0) // 8
    ways = conflict_ways(max(row_bytes, 1), map_limits(target).span_bytes(after.swizzle))
    padded = [
        (new - old) * (extent - 1)
        for old, new, extent in zip(before.strides, after.strides, before.dims[1:], strict=True)
    ]
    footprint, transaction = found if found is not None else (0, 0)
    return Cost(
        padded_bytes=max(padded, default=0),
        extra_copies=copies - 1,
        bank_conflict_ways=ways,
        smem_bytes=copies * footprint,
        box_bytes=transaction,
    )


def _written(value: object) -> str:
    return str(value).strip("()").replace(" ", "").rstrip(",")
