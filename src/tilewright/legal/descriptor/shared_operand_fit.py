"""Can a descriptor name this layout of an operand in shared memory, and which one does? If none can, why not?

The question is answered by trial: for every swizzle that the copy engine has, every line at which its pattern may begin
and both majors, undo the swizzle, read the two distances off the elements that would show them, and compare the
canonical layout with the given one at every element. So a descriptor that comes back is right by construction, and none
comes back only where no canonical layout agrees everywhere. The K steps of a deep operand share all but the start
address.

Distances that no element shows (a single group of rows, say) are given the value that dense layouts have; the leading
offset of swizzled K-major operands, which is unused, is 16 bytes.

Not handled: operands that would need different distances for different K steps, or a negative distance (whether the
hardware's sums wrap was not measured). Checked by tests/legal/descriptor/test_shared_operand_fit.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Swizzle
from tilewright.legal.descriptor.matrix_descriptor import Major
from tilewright.legal.descriptor.shared_operand import (
    CHUNK_BYTES,
    CORE_ROWS,
    OperandDescriptor,
    canonical_distances,
    depth_step,
    field_problems,
    instruction_of,
    lines_together,
    major_problem,
)
from tilewright.legal.tensor_map.swizzle_code import (
    LINE_BYTES,
    operand_swizzles,
    period_bytes,
    row_bytes,
    swizzled,
    swizzles,
)
from tilewright.targets import Target

Layout = NDArray[np.int64] | Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]
"""Absolute shared byte address of each element: an array [rows, depth], or a function of row and k indices."""


@dataclass(frozen=True, slots=True)
class OperandFit:
    """Descriptors that mean a layout: one for each K step of one instruction, differing in their start alone.

    step_bytes: how far the start advances from step to step, where that is the same each time (0 for a single step).
    """

    major: Major
    swizzle: Swizzle
    descriptors: tuple[OperandDescriptor, ...]
    step_bytes: int | None


@dataclass(frozen=True, slots=True)
class NotEncodable:
    """Why no descriptor means a layout, and the fit that agrees with most of it.

    mismatch: (row, k, where the element stands, where the nearest fit reads it), the first in row order; None where
    the layout is canonical and something else is wrong. swizzle_instead: the pattern under which the same tile, at the
    same place, could be read.
    """

    reasons: tuple[str, ...]
    nearest: OperandFit | None = None
    mismatch: tuple[int, int, int, int] | None = None
    swizzle_instead: Swizzle | None = None


@dataclass(frozen=True, slots=True)
class _Trial:
    fit: OperandFit
    read: NDArray[np.int64]
    agreeing: float


def strided_layout(
    rows: int, depth: int, row_bytes: int, depth_bytes: int, start_address: int, swizzle: Swizzle, target: Target
) -> NDArray[np.int64]:
    """A layout whose elements stand `row_bytes` and `depth_bytes` apart, then swizzled. [rows, depth]"""
    row, k = np.arange(rows, dtype=np.int64)[:, None], np.arange(depth, dtype=np.int64)[None, :]
    return swizzled(start_address + row * row_bytes + k * depth_bytes, swizzle, target)


def descriptor_for(
    layout: Layout, element_bytes: int, target: Target, rows: int | None = None, depth: int | None = None
) -> OperandFit | NotEncodable:
    """The descriptors by which the target's matrix instruction reads an operand that lies so, or why there are none.

    rows (M or N) and depth (K), in elements, are needed where `layout` is a function. Raises TilewrightError where
    the layout is no matrix of addresses, or the target has no matrix instruction.
    """
    addresses = _addresses(layout, rows, depth)
    problems = _shape_problems(addresses, element_bytes, target)
    if problems:
        return NotEncodable(problems)
    forbidden: list[NotEncodable] = []
    nearest: _Trial | None = None
    for swizzle, base_offset, major in _candidates(target):
        trial = _trial(addresses, swizzle, base_offset, major, element_bytes, target)
        if trial is None:
            continue
        if trial.agreeing == 1.0:
            reasons = _why_not(trial.fit, element_bytes, target)
            if not reasons:
                return trial.fit
            forbidden.append(NotEncodable(reasons, trial.fit))
        elif nearest is None or trial.agreeing > nearest.agreeing:
            nearest = trial
    if forbidden:
        return forbidden[0]
    if nearest is None:
        return NotEncodable(
            (
                f"neither along K nor along the rows do elements follow each other: (0, 0), (0, 1) and (1, 0) stand at "
                f"{addresses[0, 0]:#x}, {addresses[0, 1]:#x} and {addresses[1, 0]:#x}",
            )
        )
    return _mismatching(addresses, nearest, _swizzle_instead(addresses, element_bytes, target))


def _addresses(layout: Layout, rows: int | None, depth: int | None) -> NDArray[np.int64]:
    if callable(layout):
        if rows is None or depth is None or rows < 1 or depth < 1:
            raise TilewrightError("a layout given as a function needs the operand's rows and depth")
        layout = np.broadcast_to(
            layout(np.arange(rows, dtype=np.int64)[:, None], np.arange(depth, dtype=np.int64)[None, :]), (rows, depth)
        )
    if layout.ndim != 2 or layout.size == 0 or not np.issubdtype(layout.dtype, np.integer):
        raise TilewrightError(f"an operand's layout is a matrix of addresses, not {layout.dtype} {list(layout.shape)}")
    return layout.astype(np.int64)


def _shape_problems(addresses: NDArray[np.int64], element_bytes: int, target: Target) -> tuple[str, ...]:
    rows, depth = addresses.shape
    if element_bytes not in (1, 2, 4):
        return (f"elements of {element_bytes} bytes: {instruction_of(target)} takes 1, 2 or 4",)
    found: list[str] = []
    step = depth_step(element_bytes, target)
    if depth % step:
        found.append(f"K of {depth} is not a multiple of {step}, the K of one instruction")
    if rows % CORE_ROWS:
        found.append(f"{rows} rows are not a multiple of {CORE_ROWS}")
    if int(addresses.min()) < 0:
        row, k = (int(index) for index in np.unravel_index(int(addresses.argmin()), addresses.shape))
        found.append(f"element (row {row}, k {k}) stands at {int(addresses.min())}, below shared memory")
    return tuple(found)


def _candidates(target: Target) -> Iterator[tuple[Swizzle, int, Major]]:
    majors: tuple[Major, ...] = ("K", "MN")
    for swizzle in swizzles(target):
        lines = max(1, period_bytes(swizzle, target) // LINE_BYTES)
        for base_offset in range(lines):
            for major in majors:
                yield swizzle, base_offset, major


def _trial(
    addresses: NDArray[np.int64], swizzle: Swizzle, base_offset: int, major: Major, element_bytes: int, target: Target
) -> _Trial | None:
    """The fit under one hypothesis and how much of the layout it agrees with; None where it is absurd at once."""
    # Elements that follow each other along the major dimension stand next to each other inside a chunk.
    beside = addresses[0, 1] if major == "K" else addresses[1, 0]
    if CHUNK_BYTES // element_bytes > 1 and beside != addresses[0, 0] + element_bytes:
        return None
    rows, depth = addresses.shape
    straight = swizzled(addresses, swizzle, target, base_offset)
    leading, stride = _distances(straight, swizzle, major, element_bytes, target)
    step = depth_step(element_bytes, target)
    starts = straight[0, ::step]
    canonical = canonical_distances(swizzle, major, rows, step, element_bytes, leading, stride, target)
    model = (canonical[:, None, :] + starts[None, :, None]).reshape(rows, depth)
    agreeing = float((model == straight).mean())
    stored = _stored_base_offset(int(starts[0]), swizzle, base_offset, target)
    descriptors = tuple(OperandDescriptor(start, leading, stride, swizzle, stored) for start in starts.tolist())
    advances = np.unique(np.diff(starts)).tolist()
    step_bytes = 0 if not advances else int(advances[0]) if len(advances) == 1 else None
    return _Trial(
        OperandFit(major, swizzle, descriptors, step_bytes),
        swizzled(model, swizzle, target, base_offset),
        agreeing,
    )


def _distances(
    straight: NDArray[np.int64], swizzle: Swizzle, major: Major, element_bytes: int, target: Target
) -> tuple[int, int]:
    """Leading and stride offset as the elements show them, or dense ones where none shows them."""
    rows, depth = straight.shape
    step = min(depth, depth_step(element_bytes, target))
    width = row_bytes(swizzle, target)
    along = straight[:, :step] - straight[0, 0]

    def shown(row: int, k: int, dense: int) -> int:
        return int(along[row, k]) if row < rows and k < step else dense

    if major == "K":
        leading = CHUNK_BYTES if swizzle != "none" else shown(0, CHUNK_BYTES // element_bytes, CORE_ROWS * CHUNK_BYTES)
        return leading, shown(CORE_ROWS, 0, CORE_ROWS * width)
    lines = lines_together(swizzle)
    group, deep = shown(width // element_bytes, 0, lines * width), shown(0, lines, lines * width)
    return (deep, group) if swizzle == "none" else (group, deep)


def _stored_base_offset(start: int, swizzle: Swizzle, base_offset: int, target: Target) -> int:
    """The field for a pattern that begins at the last line at or before `start` that is `base_offset` lines past a
    period: bits 9 to 7 of that line's address, and 0 where it begins a period."""
    lines = max(1, period_bytes(swizzle, target) // LINE_BYTES)
    at = start // LINE_BYTES
    begins = at - (at - base_offset) % lines
    return begins % 8 if begins % lines else 0


def _why_not(fit: OperandFit, element_bytes: int, target: Target) -> tuple[str, ...]:
    problem = major_problem(fit.swizzle, fit.major, element_bytes, target)
    if problem is not None:
        return (problem,)
    found: dict[str, None] = {}
    for descriptor in fit.descriptors:
        found.update(dict.fromkeys(field_problems(descriptor, target)))
    return tuple(found)


def _swizzle_instead(addresses: NDArray[np.int64], element_bytes: int, target: Target) -> Swizzle | None:
    """The first pattern that makes the tile readable where it replaces the one on it (or none)."""
    majors: tuple[Major, ...] = ("K", "MN")
    for present in swizzles(target):
        straight = swizzled(addresses, present, target)
        for wanted in operand_swizzles(instruction_of(target), target):
            for major in majors:
                trial = _trial(swizzled(straight, wanted, target), wanted, 0, major, element_bytes, target)
                if trial and trial.agreeing == 1.0 and not _why_not(trial.fit, element_bytes, target):
                    return wanted
    return None


def _mismatching(addresses: NDArray[np.int64], trial: _Trial, instead: Swizzle | None) -> NotEncodable:
    row, k = (int(index) for index in np.argwhere(addresses != trial.read)[0])
    stands, read = int(addresses[row, k]), int(trial.read[row, k])
    fit, first = trial.fit, trial.fit.descriptors[0]
    nearest = f"{fit.major}-major, swizzle {fit.swizzle}, leading {first.leading_bytes}, stride {first.stride_bytes}"
    reason = (
        f"element (row {row}, k {k}) stands at {stands:#x}; the nearest descriptor ({nearest}) reads it at {read:#x} "
        f"({int(100 * trial.agreeing)} % of the elements agree)"
    )
    reasons = (reason,) if instead is None else (reason, f"the same tile could be read with swizzle {instead}")
    return NotEncodable(reasons, fit, (row, k, stands, read), instead)
