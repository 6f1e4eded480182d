"""Which results does a tile program define in full, and has a run written each of their elements?

A program whose stores go to its own tile, displaced by nothing, with every axis of the result among those of its grid,
defines every element, since the grid's tiles cover their axes. What a run of the emitted text has left unwritten there
is a tile that no CTA took, a row or a box that nobody stored, or one that was stored elsewhere. Together with the
judge's rule that no two CTAs write the same bytes unordered, each element is then written by whom it belongs to, once.

Not handled (nothing is asked then): stores displaced within the result, groups of rows whose bounds are data.
Checked by: tests/driver/test_whole_results.py.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.plan import Buffer, LaunchPlan
from tilewright.contract.replay_codes import REPLAY_RULES
from tilewright.contract.unwritten import UnwrittenBuffers
from tilewright.ir import tile
from tilewright.ir.tile_facts import access_of, grid_axes, grouping, stores

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


def unwritten_results(plan: LaunchPlan, left: UnwrittenBuffers, names: Collection[str]) -> tuple[Diagnostic, ...]:
    """A finding for each of the results `names` of which the plan's launches have left elements unwritten."""
    rule = REPLAY_RULES[_CODE]
    found: list[Diagnostic] = []
    for buffer in plan.buffers:
        if buffer.name not in names or buffer.name not in left.ranges:
            continue
        missing = _missing_elements(buffer, left)
        if missing.size:
            first = tuple(int(index) for index in np.unravel_index(int(missing[0]), buffer.shape))
            message = f"{missing.size} elements of {buffer.name} are never written; the first is {list(first)}"
            found.append(Diagnostic(rule.code, rule.name, message, source=rule.source, repair=Repair(rule.remedy)))
    return tuple(found)


def _missing_elements(buffer: Buffer, left: UnwrittenBuffers) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Numbers, in row-major order, of the elements of which a byte is left unwritten."""
    unwritten = np.zeros(buffer.span_bytes, np.bool_)
    for begin, end in left.ranges[buffer.name]:
        unwritten[begin:end] = True
    size = buffer.element.bytes
    strides = tuple(stride * size for stride in buffer.strides)
    elements = np.lib.stride_tricks.as_strided(unwritten, (*buffer.shape, size), (*strides, 1), writeable=False)
    return np.flatnonzero(elements.any(axis=-1))
