"""How does a launch plan with run-time axes stand in a JSON document?

As any other (`base.plan_json`), but that `axes` says the range of each run-time axis, and that a number which depends
on their extents is a string, such as `"M"` or `"min(132, 32 * ceil_div(M, 200))"` (`base.size`): among the extents and
the strides of a buffer, in a grid, among the dimensions and the strides of a tensor map, as the value of a scalar.
`taken_apart` reads these, and leaves a document of numbers, those of the largest extents, which is read as ever.

Checked by: tests/runtime/test_plan_json.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tilewright.base.error import TilewrightError
from tilewright.base.plan import LaunchSizes, RunTimeSizes
from tilewright.base.size import Range, Size, axes_of, bounds, parse_size, value_of

_RANGE = ("name", "least", "most", "multiple_of")


def with_sizes(document: dict[str, object], sizes: RunTimeSizes) -> dict[str, object]:
    """A plan's document of numbers, with sizes where these depend on run-time axes. Changes it."""
    written: dict[str, object] = {"format": document["format"]}
    written["axes"] = [
        dict(zip(_RANGE, (axis, each.least, each.most, each.multiple_of), strict=True)) for axis, each in sizes.ranges
    ]
    for buffer, shape in zip(_objects(document["buffers"]), sizes.shapes, strict=True):
        buffer["shape"] = _written(shape)
    for buffer, strides in zip(_objects(document["buffers"]), sizes.strides, strict=False):
        buffer["strides"] = _written(strides)
    for launch, each in zip(_objects(document["launches"]), sizes.launches, strict=True):
        launch["grid"] = _written(each.grid)
        if each.launched != 1:
            (launch["launched"],) = _written([each.launched])
        for param, of_param in zip(_objects(launch["params"]), each.params, strict=True):
            if param["param"] == "tensor_map":
                described = cast("dict[str, Any]", param["map"])
                rank = len(described["dims"])
                described["dims"] = _written(of_param[:rank])
                if of_param[rank:]:
                    described["strides_bytes"] = _written(of_param[rank:])
            elif of_param:
                (param["value"],) = _written(of_param)
    return {**written, **{name: value for name, value in document.items() if name != "format"}}


def _objects(value: object) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", value)


def _written(sizes: Sequence[Size]) -> list[object]:
    return [size if isinstance(size, int) else str(size) for size in sizes]


def taken_apart(document: Mapping[str, object], where: str) -> tuple[dict[str, object], RunTimeSizes]:
    """The same document with the numbers of the largest extents, and the sizes that it had.

    Only what has the shape of a plan is looked at: the reader of plans refuses the rest. Raises TilewrightError, naming
    the path, for an axis without a range and for a text that is no size.
    """
    ranges = _ranges(document["axes"], f"{where}.axes")
    largest = {axis: each.most for axis, each in ranges.items()}

    def settle(value: object, path: str) -> tuple[object, Size]:
        """A number of the largest extents, and the size."""
        if not isinstance(value, str):
            return value, value if isinstance(value, int) else 0
        size = _size(value, path, ranges)
        return value_of(size, largest), size

    def settle_each(value: object, path: str) -> tuple[object, tuple[Size, ...]]:
        if not isinstance(value, list):
            return value, ()
        pairs = [settle(each, f"{path}[{at}]") for at, each in enumerate(cast("list[object]", value))]
        return [number for number, _ in pairs], tuple(size for _, size in pairs)

    shapes, strides = list[tuple[Size, ...]](), list[tuple[Size, ...]]()
    launches: list[LaunchSizes] = []

    def of_buffer(fields: dict[str, object], path: str) -> None:
        fields["shape"], shape = settle_each(fields.get("shape"), f"{path}.shape")
        fields["strides"], apart = settle_each(fields.get("strides"), f"{path}.strides")
        shapes.append(shape)
        strides.append(apart)

    def of_launch(fields: dict[str, object], path: str) -> None:
        params: list[tuple[Size, ...]] = []

        def of_param(param: dict[str, object], at: str) -> None:
            sizes: tuple[Size, ...] = ()
            if param.get("param") == "tensor_map" and isinstance(param.get("map"), dict):
                copy = dict(cast("dict[str, object]", param["map"]))
                copy["dims"], sizes = settle_each(copy.get("dims"), f"{at}.map.dims")
                copy["strides_bytes"], apart = settle_each(copy.get("strides_bytes"), f"{at}.map.strides_bytes")
                sizes += () if _are_numbers(apart) else apart
                param["map"] = copy
            elif param.get("param") == "scalar" and param.get("kind") == "i32" and isinstance(param.get("value"), str):
                param["value"], size = settle(param["value"], f"{at}.value")
                sizes = (size,)
            params.append(sizes)

        _, launched = settle(fields.pop("launched", 1), f"{path}.launched")
        fields["grid"], grid = settle_each(fields.get("grid"), f"{path}.grid")
        fields["params"] = _each(fields.get("params"), f"{path}.params", of_param)
        if len(grid) == 3:
            launches.append(LaunchSizes((grid[0], grid[1], grid[2]), tuple(params), launched))

    settled = {name: value for name, value in document.items() if name != "axes"}
    settled["buffers"] = _each(document.get("buffers"), f"{where}.buffers", of_buffer)
    settled["launches"] = _each(document.get("launches"), f"{where}.launches", of_launch)
    sized = () if all(map(_are_numbers, strides)) else tuple(strides)
    return settled, RunTimeSizes(tuple(ranges.items()), tuple(shapes), tuple(launches), sized)


def _are_numbers(sizes: Sequence[Size]) -> bool:
    return all(isinstance(each, int) for each in sizes)


def _each(value: object, path: str, change: Callable[[dict[str, object], str], None]) -> object:
    """Copies of a list's objects, each changed."""
    if not isinstance(value, list):
        return value
    copies: list[object] = []
    for at, item in enumerate(cast("list[object]", value)):
        if not isinstance(item, dict):
            copies.append(item)
            continue
        copy = dict(cast("dict[str, object]", item))
        change(copy, f"{path}[{at}]")
        copies.append(copy)
    return copies


def _ranges(value: object, path: str) -> dict[str, Range]:
    found: dict[str, Range] = {}
    if not isinstance(value, list) or not value:
        raise _unlike(path, "is no list of axes")
    for at, item in enumerate(cast("list[object]", value)):
        fields = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        if set(fields) != set(_RANGE) or not isinstance(fields["name"], str) or fields["name"] in found:
            raise _unlike(f"{path}[{at}]", f"is no axis with {', '.join(_RANGE)}")
        try:
            found[fields["name"]] = Range(*(cast("int", fields[name]) for name in _RANGE[1:]))
        except TilewrightError as error:
            raise _unlike(f"{path}[{at}]", f"has {error.message}") from error
    return found


def _size(text: str, path: str, ranges: Mapping[str, Range]) -> Size:
    try:
        size = parse_size(text)
    except TilewrightError as error:
        raise _unlike(path, f"is no size: {error.message}") from error
    strangers = sorted(axes_of(size) - ranges.keys())
    if strangers:
        raise _unlike(path, f"names {strangers[0]}, which is no axis of the plan")
    try:
        bounds(size, ranges)
    except (ValueError, ZeroDivisionError) as error:
        raise _unlike(path, f"is no size at every extent: {error}") from error
    return size


def _unlike(path: str, problem: str) -> TilewrightError:
    return TilewrightError(f"{path} {problem}", remedy="the document was not written by this version of Tilewright")
