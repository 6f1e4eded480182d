"""Does the small instance compute what its program says, at numbers that are drawn?

Which operands are multiplied is followed by events (`judge_sums`), but no event names the factors of blocks that a
tensor core takes out of tensor memory: of which rows, which blocks. So a kernel that takes any is run once with
numbers, and its results are held against the program's own meaning (`frontends.tile.reference`). Factors differ by
powers of two from row to row and from block to block, so that one in another's place shows.

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
from tilewright.ir.decisions import decisions_of
from tilewright.ir.tile.axes import block_size
from tilewright.ir.tile.facts import the_program
from tilewright.machine.core.plan import run_plan
from tilewright.runtime.call import layout_of

_LIMITS = {Element.F32: 1e-4, Element.BF16: 1e-2, Element.F16: 2e-3, Element.F8E4M3: 1e-1, Element.F8E5M2: 2e-1}
"""Of the largest number of a result, that one may differ by: its rounding, and functions of the epilogue."""
_EXPONENTS = 3
"""Of factors, either way."""


def misnumbered_results(
    program: ModuleOp, module: Module, plan: LaunchPlan, contents: Mapping[str, NDArray[np.uint8]]
) -> tuple[Diagnostic, ...]:
    """A finding for each result of a kernel with factors of blocks that is another than the program's. module, plan:
    its text and launches, of the small instance; contents: bytes of arrays that are not drawn, by name."""
    decisions = decisions_of(the_program(program).attributes["decisions"])
    if not isinstance(decisions, CascadeDecisions) or not decisions.factor_columns:
        return ()
    random = np.random.default_rng(0)
    flat = {each.name: _drawn(random, each) for each in plan.buffers if each.role != "workspace"}
    for name, data in contents.items():
        flat[name].view(np.uint8)[: len(data)] = data
    inputs = {each.name: layout_of(flat[each.name], each) for each in plan.buffers if each.role == "input"}
    least = min(block_size(each.inner) for each in decisions.slots if each.factors)
    expected = evaluate(program, inputs, rounded=False, tile_elements={decisions.streamed: least})
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
                apart = np.where(given == wanted, 0.0, np.abs(given - wanted)).max(initial=0.0)
            # What is no number differs from all.
            if not apart <= _LIMITS[buffer.element] * np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0):
                found.append(_finding(f"what the kernel stores in {buffer.name} is not what the program defines"))
    return tuple(found)


def _finding(message: str) -> Diagnostic:
    return Diagnostic(OTHER_TEXT.code, OTHER_TEXT.name, message)


def _drawn(random: np.random.Generator, buffer: Buffer) -> NDArray[Any]:
    """Numbers of a buffer, from its first element to its last; zeros of a result."""
    count, kind = max(1, buffer.span_elements), DTYPES[buffer.element]
    if buffer.role == "output":
        return np.zeros(count, kind)
    if buffer.element.is_pair:
        return random.integers(0, 256, count, np.uint8)
    if buffer.element.is_factor:
        return np.exp2(random.integers(-_EXPONENTS, _EXPONENTS, count, endpoint=True)).astype(kind)
    return (random.integers(-4, 4, count, endpoint=True) / 4).astype(kind)
