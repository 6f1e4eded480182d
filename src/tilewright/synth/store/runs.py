"""Should threads of an element-by-element program take runs of neighbouring points, which they load and store whole?

Threads that take elements one by one ask for memory many times for what one access of 16 bytes brings. A run fills
whole units of 16 bytes of what is stored, so that rows there must begin at multiples of that; what is loaded may begin
anywhere (`lower.points.runs`). The last run of a row is whole, too: what lies past the row's end is written as zeros,
where that may be, so that whole sectors are written. A sector that is written in part is read before the next kernel
gets it. Each thread has two runs in flight. Where one array is stored, it is done with them: CTAs that begin one after
the other keep memory busier than as many as fit at once, which go on until all is done, as they do where several are
copied.

Taken so are programs that store one array, where it lies together along an axis along which every load is dense or does
not change, and programs that copy several, each over axes of its own. Not handled: points that use their places or what
integers lead to, and extents that only a launch knows.
Checked by: tests/driver/reproof/test_small_runs.py, tests/synth/cut/test_copied_together.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.base.element import Element
from tilewright.ir.decisions import RUN_BYTES, Decisions, ElementwiseDecisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import blocks_of
from tilewright.ir.tile.facts import (
    access_of,
    gathers,
    grid_axes,
    loads,
    parameter_name,
    positions,
    run_axes,
    spare_rows,
    stores,
)
from tilewright.ir.tile.types import TensorType, tensor_type
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_THREADS = 256
_CTAS_RESIDENT = 5
"""Of so many threads that copy runs, which take up to 48 registers each, fit a multiprocessor together."""
_IN_FLIGHT = 2
_MOST_LOADS = 2
"""Dense ones, for which a thread has registers."""


def decide_runs(program: tile.ProgramOp, target: Target, wanted: Wanted) -> ElementwiseDecisions | None:
    """The whole decision on a program without dot, if its threads take runs of points; else None."""
    listed = stores(program)
    if positions(program) or gathers(program) or program.run_time:
        return None
    if len(listed) > 1 and not all(isinstance(store.value.owner, tile.LoadOp) for store in listed):
        return None
    widths = {tensor_type(store.tensor).element_kind.bytes for store in listed}
    # Runs are floating-point numbers on their way, which integers of 32 bits are not.
    moved = {tensor_type(each.tensor).element_kind for each in (*listed, *loads(program))}
    if len(widths) > 1 or Element.S32 in moved:
        return None
    run = RUN_BYTES // widths.pop()
    if not all(_goes_in_runs(program, store, run, wanted) for store in listed):
        return None
    points = sum(math.prod(tensor_type(store.tensor).extents) for store in listed)
    ctas = max(1, math.ceil(points / (_IN_FLIGHT * run * _THREADS)))
    if len(listed) > 1:
        ctas = min(ctas, _CTAS_RESIDENT * target.limit("device.multiprocessors"))
    along = " and ".join(dict.fromkeys(run_axes(program, store)[-1] for store in listed))
    reason = f"no dot: {points} points on {ctas} CTAs of {_THREADS} threads, in runs of {run} along {along}"
    return ElementwiseDecisions(ctas, _THREADS, (reason,), run=run)


def _goes_in_runs(program: tile.ProgramOp, store: tile.StoreOp, run: int, wanted: Wanted) -> bool:
    """Whether what is stored lies together and begins at whole units, and so does what is loaded for it."""
    stored, place = tensor_type(store.tensor), access_of(store)
    if any(place.offsets) or (len(stores(program)) == 1 and sorted(place.axes) != sorted(grid_axes(program))):
        return False
    *others, last = run_axes(program, store)
    strides = dict(zip(stored.axis_names, stored.stride_elements, strict=True))
    loose = parameter_name(program, store.tensor) in wanted.misaligned
    begins = stored.element_kind.bytes if loose else stored.refinement.alignment_bytes
    if strides[last] != 1 or any(strides[axis] % run for axis in others) or begins % RUN_BYTES:
        return False
    if program.extents[last] % run and place.tensor not in spare_rows(program):
        return False
    own = [store.value.owner] if isinstance(store.value.owner, tile.LoadOp) else loads(program)
    if any(load.tensor is store.tensor for load in own):
        return False
    kinds = [tensor_type(load.tensor) for load in own]
    dense = [kind for kind in kinds if last in kind.axis_names]
    whole = all(blocks_of(axis) is None for kind in kinds for axis in kind.axis_names)
    return whole and len(dense) <= _MOST_LOADS and all(_is_dense(kind, last) for kind in dense)


def _is_dense(kind: TensorType, axis: str) -> bool:
    strides = dict(zip(kind.axis_names, kind.stride_elements, strict=True))
    return strides[axis] == 1


def kept_for_next(program: tile.ProgramOp, decisions: Decisions, target: Target) -> Decisions:
    """The decisions of a program whose result a later kernel reads: what is stored in runs is kept by the L2 cache, if
    that holds it."""
    if not isinstance(decisions, ElementwiseDecisions) or decisions.run == 1:
        return decisions
    stored = [tensor_type(store.tensor) for store in stores(program)]
    size_bytes = sum(math.prod(kind.extents) * kind.element_kind.bytes for kind in stored)
    return replace(decisions, kept=int(size_bytes <= target.limit("device.l2_bytes")))
