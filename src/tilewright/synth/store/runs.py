"""Should each thread of an element-by-element program take runs of neighbouring points, which it loads and stores whole?

Threads that take elements of one or two bytes one by one ask for memory many times for what one access of 16 bytes
brings. A run fills whole units of 16 bytes of what is stored, so that rows there must begin at multiples of that; what
is loaded may begin anywhere (`lower.points.runs`). Two runs are in flight in each thread, in CTAs that are all there at
once.

Taken so are programs that store one array, along whose last axis every load is dense or does not change. Not handled:
points that use their places or what integers lead to, and extents that only a launch knows.
Checked by: tests/synth/store/test_runs.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.ir.decisions import RUN_BYTES, Decisions, ElementwiseDecisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import blocks_of
from tilewright.ir.tile.facts import access_of, gathers, grid_axes, loads, parameter_name, positions, stores
from tilewright.ir.tile.types import TensorType, tensor_type
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_THREADS = 256
_CTAS_RESIDENT = 5
"""Of so many threads that copy runs, which take up to 48 registers each, fit a multiprocessor together."""
_IN_FLIGHT = 2
_MOST_BYTES = 2
"""Of an element: of wider ones a warp's accesses are whole lines anyhow."""
_MOST_LOADS = 2
"""Dense ones, for which a thread has registers."""


def decide_runs(program: tile.ProgramOp, target: Target, wanted: Wanted) -> ElementwiseDecisions | None:
    """The whole decision on a program without dot, if its threads take runs of points; else None."""
    axes = grid_axes(program)
    if positions(program) or gathers(program) or program.run_time or len(stores(program)) != 1:
        return None
    (store,) = stores(program)
    stored, place = tensor_type(store.tensor), access_of(store)
    width, last = stored.element_kind.bytes, axes[-1]
    run = RUN_BYTES // width
    if width > _MOST_BYTES or any(place.offsets) or sorted(place.axes) != sorted(axes):
        return None
    strides = dict(zip(stored.axis_names, stored.stride_elements, strict=True))
    loose = parameter_name(program, store.tensor) in wanted.misaligned
    begins = width if loose else stored.refinement.alignment_bytes
    if strides.get(last) != 1 or any(strides[axis] % run for axis in axes[:-1]) or begins % RUN_BYTES:
        return None
    if any(load.tensor is store.tensor for load in loads(program)):
        return None
    kinds = [tensor_type(load.tensor) for load in loads(program)]
    if any(blocks_of(axis) is not None for kind in kinds for axis in kind.axis_names):
        return None
    dense = [kind for kind in kinds if last in kind.axis_names]
    if len(dense) > _MOST_LOADS or not all(_is_dense(kind, last) for kind in dense):
        return None
    points = math.prod(program.extents[axis] for axis in axes)
    resident = _CTAS_RESIDENT * target.limit("device.multiprocessors")
    ctas = max(1, min(math.ceil(points / (_IN_FLIGHT * run * _THREADS)), resident))
    reason = f"no dot: {points} points on {ctas} CTAs of {_THREADS} threads, in runs of {run} along {last}"
    return ElementwiseDecisions(ctas, _THREADS, (reason,), run=run)


def _is_dense(kind: TensorType, axis: str) -> bool:
    strides = dict(zip(kind.axis_names, kind.stride_elements, strict=True))
    return strides[axis] == 1 and kind.element_kind.bytes <= _MOST_BYTES


def kept_for_next(program: tile.ProgramOp, decisions: Decisions, target: Target) -> Decisions:
    """The decisions of a program whose result a later kernel reads: what is stored in runs is kept by the L2 cache, if
    that holds it."""
    if not isinstance(decisions, ElementwiseDecisions) or decisions.run == 1:
        return decisions
    stored = [tensor_type(store.tensor) for store in stores(program)]
    size_bytes = sum(math.prod(kind.extents) * kind.element_kind.bytes for kind in stored)
    return replace(decisions, kept=int(size_bytes <= target.limit("device.l2_bytes")))
