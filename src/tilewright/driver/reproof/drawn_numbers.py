"""Does the small instance compute what its program says, at numbers that are drawn?

Which operands are multiplied is followed by events (`judge_sums`), but no event names the factors of blocks that a
tensor core takes out of tensor memory: of which rows, which blocks. So a kernel that takes any is run once with
numbers, and its results are held against the program's own meaning (`frontends.tile.reference`). Factors differ by
powers of two from row to row and from block to block, so that one in another's place shows.

Nor does an event name the numbers past the end of a walk or a row: that nothing is made of them is asked of a kernel to
which the launch says where that is, at each extent that its text is run at (`small_run_time`). So is, of points whose
places follow from extents that it says, that each is computed of its own numbers.

Not handled: what is wrong by less than a result's rounding. Checked by:
tests/driver/reproof/test_drawn_numbers.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer, LaunchPlan
from tilewright.contract.rules.text_codes import OTHER_TEXT
from tilewright.driver.reproof.small_run_time import tile_extent
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import cascade_axes, products_of
from tilewright.ir.decisions import ElementwiseDecisions, decisions_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import grid_axes, the_program
from tilewright.ir.tile.gather import read_tensor
from tilewright.ir.tile.types import tensor_type
from tilewright.machine.core.plan import run_plan
from tilewright.runtime.call import layout_of

_LIMITS = {
    Element.S32: 0.0, Element.S8: 1e-2, Element.F32: 1e-4, Element.BF16: 1e-2, Element.F16: 2e-3, Element.F8E4M3: 1e-1,
    Element.F8E5M2: 2e-1,
}  # fmt: skip
"""Of the largest number of a result, that one may differ by: its rounding, or that of values which products take, and
functions of the epilogue."""
_EXPONENTS = 3
"""Of factors, either way."""
_NEAR = 1 / 16
_TILES = 2
"""Of a walk, or steps of a row, at most, whose numbers are asked for because of its end."""
_FAR = 8
"""More than all other numbers of a row."""


def misnumbered_results(
    program: ModuleOp, module: Module, plan: LaunchPlan, contents: Mapping[str, NDArray[np.uint8]]
) -> tuple[Diagnostic, ...]:
    """A finding for each result of a kernel with factors of blocks, or with a walk, a row or strides whose length the
    launch says, that is another than the program's. module, plan: its text and launches, of the small
    instance; contents: bytes of arrays that are not drawn, by name."""
    decisions = decisions_of(the_program(program).attributes["decisions"])
    if not isinstance(decisions, CascadeDecisions):
        if not _sized_points(the_program(program), decisions):
            return ()
        return _misnumbered_points(program, decisions, module, plan, contents)
    ends = _ends_by_launch(the_program(program), decisions)
    if not decisions.factor_columns and not ends and not _sized_rows(the_program(program), decisions):
        return ()
    random = np.random.default_rng(0)
    length = the_program(program).extents[decisions.streamed]
    flat = {each.name: _drawn(random, each, length) for each in plan.buffers if each.role != "workspace"}
    if ends:
        _draw_around_the_end(the_program(program), plan, flat, random)
    blocks = (block_size(each.inner) for each in decisions.slots if each.factors)
    least = min(blocks, default=decisions.tile_streamed)
    products = products_of(the_program(program))
    rounded = {each.element for each in products if not isinstance(each.held.owner, tile.LoadOp)}
    return _misnumbered(program, module, plan, flat, contents, {decisions.streamed: least}, rounded)


def _sized_rows(program: tile.ProgramOp, d: CascadeDecisions) -> bool:
    """Whether the launch says how far apart rows or columns of an array are, beside which nothing else is drawn."""
    kinds = map(tensor_type, program.body.block.args)
    sides = (side for kind in kinds for side in zip(kind.axis_names, kind.stride_sizes, strict=True))
    known = d.streamed not in program.run_time
    return known and any(not isinstance(stride, int) and base_axis(axis) not in d.batch for axis, stride in sides)


def _sized_points(program: tile.ProgramOp, decisions: ElementwiseDecisions) -> bool:
    """Whether the launch says how long a program's rows, of at most two steps, are, or strides of an array."""
    for row in decisions.rows:
        if row.axis in program.run_time:
            return program.extents[row.axis] <= _TILES * tile_extent(program, row.axis)
    kinds = map(tensor_type, program.body.block.args)
    return any(not isinstance(stride, int) for kind in kinds for stride in kind.stride_sizes)


def _misnumbered_points(
    program: ModuleOp, decisions: ElementwiseDecisions, module: Module, plan: LaunchPlan,
    contents: Mapping[str, NDArray[np.uint8]],
) -> tuple[Diagnostic, ...]:  # fmt: skip
    """Of rows or points. Rows have all numbers on one side of 0, which nothing past their end is, and of each side are
    some rows whose last number is the largest and some whose last one is the smallest."""
    random, found = np.random.default_rng(0), list[Diagnostic]()
    axis = next((row.axis for row in decisions.rows), grid_axes(the_program(program))[-1])
    for last in (-_FAR, -_NEAR, _NEAR, _FAR):
        length = the_program(program).extents[axis]
        flat = {each.name: _drawn(random, each, length) for each in plan.buffers}
        for buffer, argument in zip(plan.buffers, the_program(program).body.block.args, strict=False):
            names = tensor_type(argument).axis_names
            if buffer.role == "input" and axis in names and buffer.element not in (Element.S32, Element.S8):
                view = layout_of(flat[buffer.name], buffer)
                along = np.moveaxis(random.integers(2, 4, buffer.shape, endpoint=True) / 4, names.index(axis), -1)
                along *= 1 if last in (_NEAR, -_FAR) else -1
                along[..., -1] = last
                view[...] = np.moveaxis(along, -1, names.index(axis)).astype(view.dtype)
        found += _misnumbered(program, module, plan, flat, contents, {}, set())
    return tuple(found)


def _misnumbered(
    program: ModuleOp, module: Module, plan: LaunchPlan, flat: Mapping[str, NDArray[Any]],
    contents: Mapping[str, NDArray[np.uint8]], tile_elements: Mapping[str, int], rounded: set[Element],
) -> tuple[Diagnostic, ...]:  # fmt: skip
    """Run with these numbers, and held against the program. flat: all elements of buffers, by name; rounded: what some
    values are rounded to on the way."""
    for name, data in contents.items():
        flat[name].view(np.uint8)[: len(data)] = data
    inputs = {each.name: layout_of(flat[each.name], each) for each in plan.buffers if each.role == "input"}
    expected = evaluate(program, inputs, rounded=False, tile_elements=tile_elements)
    arrays = {name: array.view(np.uint8) for name, array in flat.items()}
    try:
        run_plan({launch.entry: module for launch in plan.launches}, plan, arrays)
    except TilewrightError as fault:
        return (_finding(f"the kernel ends at drawn numbers with: {fault.message}"),)
    found: list[Diagnostic] = []
    for buffer in plan.buffers:
        if buffer.role == "output":
            given = layout_of(flat[buffer.name], buffer).astype(np.float64)
            wanted = expected[buffer.name].astype(np.float64)
            with np.errstate(invalid="ignore"):
                same = (given == wanted) | (np.isnan(given) & np.isnan(wanted))
                apart = np.where(same, 0.0, np.abs(given - wanted)).max(initial=0.0)
            # What is no number differs from all that are, on either side.
            limit = max(_LIMITS[each] for each in (buffer.element, *rounded))
            if not apart <= limit * np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0):
                found.append(_finding(f"what the kernel stores in {buffer.name} is not what the program defines"))
    return tuple(found)


def _ends_by_launch(program: tile.ProgramOp, d: CascadeDecisions) -> bool:
    """Whether the launch says where a walk ends, in its first tile or its second: what comes behind more of them is
    bounded by the same text."""
    return d.streamed in program.run_time and program.extents[d.streamed] <= _TILES * d.tile_streamed


def _draw_around_the_end(
    program: tile.ProgramOp, plan: LaunchPlan, flat: Mapping[str, NDArray[Any]], random: np.random.Generator
) -> None:
    """Numbers with which it shows where a walk ends: of every second row the last element alone is near 0, and so would
    be one past the end, where all others are far below; of the rows between, far above. What is multiplied by that has
    another sign in the last element."""
    axes = cascade_axes(program)
    summed = {read_tensor(each.brought.tensor) for each in products_of(program) if each.op.axis.data == axes.streamed}
    for buffer, argument in zip(plan.buffers, program.body.block.args, strict=False):
        names = tensor_type(argument).axis_names
        if buffer.role != "input" or buffer.element in (Element.S32, Element.S8):
            continue
        view = layout_of(flat[buffer.name], buffer)
        numbers = random.integers(2, 4, buffer.shape, endpoint=True) / 4
        if axes.streamed in names:
            along = np.moveaxis(-numbers, names.index(axes.streamed), -1)
            along[..., -1] = 1.0 if argument in summed else -_NEAR
            view[...] = np.moveaxis(along, -1, names.index(axes.streamed)).astype(view.dtype)
        elif axes.row in names:
            along = np.moveaxis(numbers, names.index(axes.row), -1)
            along[..., 1::2] *= -1
            view[...] = np.moveaxis(along, -1, names.index(axes.row)).astype(view.dtype)


def _finding(message: str) -> Diagnostic:
    return Diagnostic(OTHER_TEXT.code, OTHER_TEXT.name, message)


def _drawn(random: np.random.Generator, buffer: Buffer, length: int) -> NDArray[Any]:
    """Numbers of a buffer, from its first element to its last; zeros of a result. length: of the walk, which whole
    numbers may be some of."""
    count, kind = max(1, buffer.span_elements), DTYPES[buffer.element]
    if buffer.role == "output":
        return np.zeros(count, kind)
    if buffer.element is Element.S32:
        return np.where(np.arange(count) % 2, random.integers(1, length, count, endpoint=True), length).astype(kind)
    if buffer.element.is_pair:
        return random.integers(0, 256, count, np.uint8)
    if buffer.element.is_factor:
        return np.exp2(random.integers(-_EXPONENTS, _EXPONENTS, count, endpoint=True)).astype(kind)
    return (random.integers(-4, 4, count, endpoint=True) / 4).astype(kind)
