"""Does the small instance compute what its program says, at numbers that are drawn?

Which operands are multiplied is followed by events (`judge_sums`), but no event names the factors of blocks that a
tensor core takes out of tensor memory: of which rows, which blocks. So a kernel that takes any is run once with
numbers, and its results are held against the program's own meaning (`frontends.tile.reference`). Factors differ by
powers of two from row to row and from block to block, so that one in another's place shows.

Nor does an event name the numbers past the end of a walk: that nothing is made of them is asked of a kernel to which
the launch says where that is, at each extent that its text is run at (`small_run_time`).

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
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import cascade_axes, products_of
from tilewright.ir.decisions import decisions_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import block_size
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.gather import read_tensor
from tilewright.ir.tile.types import tensor_type
from tilewright.machine.core.plan import run_plan
from tilewright.runtime.call import layout_of

_LIMITS = {Element.F32: 1e-4, Element.BF16: 1e-2, Element.F16: 2e-3, Element.F8E4M3: 1e-1, Element.F8E5M2: 2e-1}
"""Of the largest number of a result, that one may differ by: its rounding, or that of values which products take, and
functions of the epilogue."""
_EXPONENTS = 3
"""Of factors, either way."""
_NEAR = 1 / 16
_TILES = 2
"""Of a walk, at most, whose numbers are asked for because of its end."""


def misnumbered_results(
    program: ModuleOp, module: Module, plan: LaunchPlan, contents: Mapping[str, NDArray[np.uint8]]
) -> tuple[Diagnostic, ...]:
    """A finding for each result of a kernel with factors of blocks, or with a walk whose end the launch says, that is
    another than the program's. module, plan: its text and launches, of the small instance; contents: bytes of arrays
    that are not drawn, by name."""
    decisions = decisions_of(the_program(program).attributes["decisions"])
    if not isinstance(decisions, CascadeDecisions):
        return ()
    ends = _ends_by_launch(the_program(program), decisions)
    if not decisions.factor_columns and not ends:
        return ()
    random = np.random.default_rng(0)
    length = the_program(program).extents[decisions.streamed]
    flat = {each.name: _drawn(random, each, length) for each in plan.buffers if each.role != "workspace"}
    if ends:
        _draw_around_the_end(the_program(program), plan, flat, random)
    for name, data in contents.items():
        flat[name].view(np.uint8)[: len(data)] = data
    inputs = {each.name: layout_of(flat[each.name], each) for each in plan.buffers if each.role == "input"}
    blocks = (block_size(each.inner) for each in decisions.slots if each.factors)
    least = min(blocks, default=decisions.tile_streamed)
    expected = evaluate(program, inputs, rounded=False, tile_elements={decisions.streamed: least})
    arrays = {name: array.view(np.uint8) for name, array in flat.items()}
    try:
        run_plan({launch.entry: module for launch in plan.launches}, plan, arrays)
    except TilewrightError as fault:
        return (_finding(f"the kernel ends at drawn numbers with: {fault.message}"),)
    products = products_of(the_program(program))
    rounded = {each.element for each in products if not isinstance(each.held.owner, tile.LoadOp)}
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
