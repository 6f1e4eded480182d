"""Which results does a tile program define in full, and has a run written each of their elements?

A program whose stores go to its own tile, displaced by nothing, with every axis of the result among those of its grid,
defines every element, since the grid's tiles cover their axes. What a run of the emitted text has left unwritten there
is a tile that no CTA took, a row or a box that nobody stored, or one that was stored elsewhere. Together with the
judge's rule that no two CTAs write the same bytes unordered, each element is then written by whom it belongs to, once.

Where rows stand in groups, the elements are those of the groups' rows, which the sizes of the run say.

Not handled (nothing is asked then): stores displaced within the result.
Checked by: tests/driver/reproof/test_whole_results.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.plan import Buffer, LaunchPlan
from tilewright.contract.history.byte_ranges import without
from tilewright.contract.replay.unwritten import UnwrittenBuffers
from tilewright.contract.rules.replay_codes import REPLAY_RULES
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import access_of, grid_axes, grouping, stores
from tilewright.ir.tile.types import tensor_type
from tilewright.machine.core.event import Ranges

_CODE = "UM103"


def whole_results(program: tile.ProgramOp) -> frozenset[str]:
    """The parameters of which a program stores every element."""
    if grouping(program) is not None:
        return frozenset()
    axes = set(grid_axes(program))
    found = [access_of(store) for store in stores(program)]
    return frozenset(
        each.tensor
        for each in found
        if not any(each.offsets) and axes.issuperset(each.axes) and len(set(each.axes)) == len(each.axes)
    )


def results_in_groups(
    program: tile.ProgramOp, contents: Mapping[str, NDArray[np.uint8]]
) -> dict[str, NDArray[np.bool_]]:  # fmt: skip
    """Of a program whose rows stand in groups, the results of which it stores every element of the groups' rows, with
    which these are, to be broadcast to the result's shape. contents: bytes of the array of sizes, by its name."""
    groups = grouping(program)
    if groups is None or groups.bounds not in contents:
        return {}
    bounds = contents[groups.bounds].view(np.int32)
    axes = {*grid_axes(program), groups.ragged}
    kept: dict[str, NDArray[np.bool_]] = {}
    for store in stores(program):
        at, shape = access_of(store), tensor_type(store.tensor).extents
        if any(at.offsets) or not axes.issuperset(at.axes) or len(set(at.axes)) != len(at.axes):
            continue
        if groups.ragged in at.axes:
            where = at.axes.index(groups.ragged)
            rows = np.arange(shape[where]).reshape([-1 if axis == where else 1 for axis in range(len(shape))])
            if groups.group in at.axes:
                place = at.axes.index(groups.group)
                kept[at.tensor] = rows < bounds.reshape([-1 if axis == place else 1 for axis in range(len(shape))])
            else:
                kept[at.tensor] = rows < bounds[-1]
    return kept


def unwritten_results(
    plan: LaunchPlan, left: UnwrittenBuffers, names: Collection[str], kept: Mapping[str, NDArray[np.bool_]]
) -> tuple[Diagnostic, ...]:
    """A finding for each of the results `names` of which the plan's launches have left elements unwritten. kept: those
    that count, where not all do."""
    rule = REPLAY_RULES[_CODE]
    found: list[Diagnostic] = []
    for buffer in plan.buffers:
        if buffer.name not in names or buffer.name not in left.ranges:
            continue
        missing = _missing_elements(buffer, left, kept.get(buffer.name, np.array(True)))
        if missing.size:
            first = tuple(int(index) for index in np.unravel_index(int(missing[0]), buffer.shape))
            message = f"{missing.size} elements of {buffer.name} are never written; the first is {list(first)}"
            found.append(Diagnostic(rule.code, rule.name, message, source=rule.source, repair=Repair(rule.remedy)))
    return tuple(found)


def _missing_elements(
    buffer: Buffer, left: UnwrittenBuffers, kept: NDArray[np.bool_]
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Numbers, in row-major order, of the elements of which a byte is left unwritten."""
    if not left.ranges[buffer.name]:
        return np.zeros(0, np.intp)
    begins, ends = np.array(left.ranges[buffer.name], np.int64).reshape(-1, 2).T
    size = buffer.element.bytes
    if buffer.strides[-1:] == (1,):
        rows = _places(buffer, buffer.shape[:-1])
        if not np.any(_reached(begins, ends, rows, buffer.shape[-1] * size)):
            return np.zeros(0, np.intp)  # as it should be
    return np.flatnonzero(_reached(begins, ends, _places(buffer, buffer.shape), size) & kept)


def _places(buffer: Buffer, extents: Sequence[int]) -> NDArray[np.int64]:
    """Bytes from a buffer's begin to its elements, along its first axes, at 0 along the others."""
    places = np.zeros(tuple(extents), np.int64)
    for axis, (extent, stride) in enumerate(zip(extents, buffer.strides, strict=False)):
        shape = [extent if each == axis else 1 for each in range(len(extents))]
        places += (np.arange(extent, dtype=np.int64) * (stride * buffer.element.bytes)).reshape(shape)
    return places


def _reached(
    begins: NDArray[np.int64], ends: NDArray[np.int64], places: NDArray[np.int64], size: int
) -> NDArray[np.bool_]:
    """Which of the stretches of `size` bytes at `places` some range has bytes of."""
    # Ranges ascend and are disjoint: the last that begins before a stretch's end is the only one that may reach it.
    last = np.searchsorted(begins, places + (size - 1), side="right") - 1
    return (last >= 0) & (ends[last] > places)


def outside_elements(buffer: Buffer) -> Ranges:
    """The bytes of an array that are of none of its elements, in whatever order its dimensions lie."""
    width = buffer.element.bytes
    dimensions = sorted(
        ((stride * width, extent) for extent, stride in zip(buffer.shape, buffer.strides, strict=True)), reverse=True
    )
    stride_bytes, extent = dimensions[-1]
    row_bytes = extent * width if stride_bytes == width else width
    begins = [0]
    for apart, count in dimensions[:-1] if stride_bytes == width else dimensions:
        begins = [begin + index * apart for begin in begins for index in range(count)]
    rows = tuple((begin, begin + row_bytes) for begin in sorted(begins))
    return without(((0, buffer.span_bytes),), rows)
