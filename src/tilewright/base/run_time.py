"""Which numbers of a launch plan depend on extents that only a launch knows, and how?

A plan of a program with run-time axes has the numbers of their largest extents, and says beside which of them follow
from the actual ones: the extents and the strides of buffers, of each launch the grid, the dimensions and the strides of
tensor maps, and the scalars.
`plan_at` puts actual extents in and gives a plan of numbers, which is launched, run or judged as any other.

Where no result has an element the plan has no launches. Where some have, an extent of 0 may have launches of its own,
in the place of those of all others.
Checked by: tests/base/test_run_time.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.base.plan import (
    Launch,
    LaunchPlan,
    LaunchSizes,
    Param,
    ScalarParam,
    TensorMapParam,
)
from tilewright.base.size import Computed, Extent, Range, Size, value_of


def plan_at(plan: LaunchPlan, extents: Mapping[str, int]) -> LaunchPlan:
    """The plan for these extents of its run-time axes; the plan itself where it has none.

    Raises TilewrightError, naming the axis, the extent and the range, for an extent that was not promised.
    """
    sizes = plan.run_time
    if sizes is None:
        return plan
    for axis, values in sizes.ranges:
        require_in_range(axis, values, extents[axis])
    strides = sizes.strides or [buffer.strides for buffer in plan.buffers]
    buffers = tuple(
        replace(buffer, shape=_values(shape, extents), strides=_values(apart, extents))
        for buffer, shape, apart in zip(plan.buffers, sizes.shapes, strides, strict=True)
    )
    results = [buffer for buffer in buffers if buffer.role == "output"]
    if results and all(0 in buffer.shape for buffer in results):
        return LaunchPlan(buffers, ())
    launches = zip(plan.launches, sizes.launches, strict=True)
    return LaunchPlan(
        buffers, tuple(_launch_at(*each, extents) for each in launches if value_of(each[1].launched, extents))
    )


def require_in_range(axis: str, values: Range, extent: int) -> None:
    """Raises TilewrightError for an extent that is none of a range."""
    if extent not in values:
        raise TilewrightError(
            f"axis {axis} is {extent}; the program was compiled for {values}",
            remedy="pass an array with such an extent, or compile for a range that has this one",
        )


def _launch_at(launch: Launch, sizes: LaunchSizes, extents: Mapping[str, int]) -> Launch:
    x, y, z = _values(sizes.grid, extents)
    params = (_param_at(param, each, extents) for param, each in zip(launch.params, sizes.params, strict=True))
    return replace(launch, grid=(x, y, z), params=tuple(params))


def _param_at(param: Param, sizes: Sequence[Size], extents: Mapping[str, int]) -> Param:
    match param:
        case TensorMapParam():
            rank, numbers = len(param.map.dims), _values(sizes, extents)
            strides = numbers[rank:] or param.map.strides_bytes
            return replace(param, map=replace(param.map, dims=numbers[:rank], strides_bytes=strides))
        case ScalarParam() if sizes:
            (value,) = _values(sizes, extents)
            return replace(param, value=value)
        case _:
            return param


def _values(sizes: Sequence[Size], extents: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(value_of(size, extents) for size in sizes)


def extents_of(plan: LaunchPlan, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The extents of a plan's run-time axes, as the shapes of some of its buffers say.

    Raises TilewrightError for buffers that disagree, for an extent outside of its range, and where no shape says one.
    """
    sizes = plan.run_time
    if sizes is None:
        return {}
    found: dict[str, tuple[int, str]] = {}
    for buffer, shape in zip(plan.buffers, sizes.shapes, strict=True):
        given = shapes.get(buffer.name)
        if given is None:
            continue
        if len(given) != len(shape):
            raise TilewrightError(
                f"{buffer.name} has shape {tuple(given)}; the program was compiled for ({', '.join(map(str, shape))})",
                remedy="pass an array of as many dimensions",
            )
        for size, extent in zip(shape, given, strict=True):
            if (said := _said(size, extent, dict(sizes.ranges))) is not None:
                axis, elements = said
                known, where = found.setdefault(axis, (elements, buffer.name))
                if known != elements:
                    raise TilewrightError(
                        f"axis {axis} is {known} in {where} and {elements} in {buffer.name}",
                        remedy="pass arrays that agree",
                    )
    for axis, values in sizes.ranges:
        if axis not in found:
            raise TilewrightError(f"no array says the extent of axis {axis}", remedy="pass an output that has it")
        require_in_range(axis, values, found[axis][0])
    return {axis: extent for axis, (extent, _) in found.items()}


def _said(size: Size, given: int, ranges: Mapping[str, Range]) -> tuple[str, int] | None:
    """The axis and its extent, where an array's extent says it: of blocks if all are whole."""
    match size:
        case Extent(axis):
            return axis, given
        case Computed("ceil_div", Extent(axis), int(block)) if ranges[axis].multiple_of % block == 0:
            return axis, given * block
        case _:
            return None


def largest_extents(plan: LaunchPlan) -> dict[str, int]:
    """The largest extents of a plan's run-time axes, which its own numbers are of."""
    return {} if plan.run_time is None else {axis: values.most for axis, values in plan.run_time.ranges}
