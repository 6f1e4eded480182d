"""Which registers do a warp's wgmmas in flight hold, and were those of the next one left alone since the last fence?

Between issue and wait the accumulator and A registers belong to the operation (`Warp.in_flight`). Which of them were
written or read since the last `wgmma.fence` is noted by the steps that do it (`fenced_accesses`). Where a group is
done, its accumulators are written back, which is no access of the warp.

Checked by: tests/machine/tensor_core/test_wgmma.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.machine.core.decoder import WORD32
from tilewright.machine.core.hazard import report_register_hazard
from tilewright.machine.core.lanes import UNINITIALISED, poison
from tilewright.machine.core.state import Warp
from tilewright.machine.tensor_core.warpgroup import (
    NO_RESULT,
    WARPS,
    MatrixInstruction,
    WarpMatrixState,
    fragment_of_warp,
)

_NO_BITS: npt.NDArray[Any] = np.zeros(32, np.uint32)
_POISON: npt.NDArray[Any] = poison(WORD32.raw)


def define(warp: Warp, accumulator: tuple[int, ...]) -> None:
    """Give never-written accumulator registers bits that nobody may rely on, until the result is written back."""
    for slot in accumulator:
        if warp.r[slot] is UNINITIALISED:
            warp.r[slot] = _POISON


def check_registers(warp: Warp, state: WarpMatrixState, text: MatrixInstruction, chained: bool) -> None:
    """Report registers that another operation still holds, or that were touched since the last wgmma.fence.

    A register that was only read since the last fence is told apart, and so is an accumulator that was written after a
    fence which follows the last wait: compilers that leave SSA form put copies of accumulators there (CuTe DSL does),
    which the assembler folds away, and some fence but once before a loop that reads accumulators.
    """
    if chained and not text.a_registers:
        return  # the accumulator is passed on, and there is nothing else
    accumulator, a_registers = set(text.accumulator), set(text.a_registers)
    held = set(warp.in_flight & (a_registers if chained else accumulator | a_registers))
    reads: set[int] = set()
    for slot in held & a_registers:
        # Two operations may read the same A registers; an accumulator in flight may not be an operand.
        if any(slot in other.instruction.accumulator for other in state.in_flight):
            reads.add(slot)
    writes = held & accumulator
    if reads or writes:
        report_register_hazard(warp, text.span, reads, writes)
    watched = a_registers if chained else accumulator | a_registers
    unfenced = watched & state.writes if state.fenced else watched
    late = (unfenced & accumulator) - held if state.fresh_fence else set[int]()
    if late:
        report_register_hazard(warp, text.span, set(), late, after_fence=True)
    if unfenced - held - late:
        report_register_hazard(warp, text.span, set(), unfenced - held - late)
    read = (watched & state.reads) - held - unfenced if state.reads else set[int]()
    if read:
        report_register_hazard(warp, text.span, read, set(), after_fence=True)


def write_back(warp: Warp, text: MatrixInstruction, result: npt.NDArray[Any] | None) -> None:
    """Put a finished operation's accumulator into the warp's registers."""
    assert result is not None, "only a finished operation is written back"
    if result is NO_RESULT:
        for slot in text.accumulator:
            warp.r[slot] = _NO_BITS
        return
    rows, columns = fragment_of_warp(text.n, warp.index % WARPS)
    values = result[rows, columns]
    if text.accumulator_type == "f16":
        pairs = values.reshape(len(text.accumulator), 2, 32).transpose(0, 2, 1)
        vectors = np.ascontiguousarray(pairs).view(np.uint32)[:, :, 0]
    else:
        vectors = values.view(np.uint32)
    for slot, vector in zip(text.accumulator, vectors, strict=True):
        warp.r[slot] = vector
