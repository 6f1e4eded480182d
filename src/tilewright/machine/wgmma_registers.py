"""Which registers do a warp's wgmmas in flight hold, and were those of the next one left alone since the last fence?

Between issue and wait the accumulator and A registers belong to the operation (`Warp.in_flight`). A `wgmma.fence`
remembers what registers hold; since vectors are never changed in place, an accumulator or A register that is no longer
the same vector at issue was written since the fence. What was read since is noted by `fenced_reads`. Where a group is
done, its accumulators are written back.

Checked by: tests/machine/test_wgmma.py, tests/machine/test_wgmma_rows.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import repeat
from operator import is_
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.machine.decoder import WORD32, Decoder
from tilewright.machine.hazard import report_register_hazard
from tilewright.machine.lanes import UNINITIALISED, Registers, poison
from tilewright.machine.state import Warp
from tilewright.machine.warpgroup import (
    NO_RESULT,
    WARPS,
    MatrixInstruction,
    WarpMatrixState,
    fragment_of_warp,
)

_NO_BITS: npt.NDArray[Any] = np.zeros(32, np.uint32)
_POISON: npt.NDArray[Any] = poison(WORD32.raw)


def fencing(decoder: Decoder) -> Callable[[Warp], None]:
    """A `wgmma.fence` of a warp: what registers hold is remembered. Only those of wgmmas are asked for later."""
    bounds: list[int] = []

    def fence(warp: Warp) -> None:
        state: WarpMatrixState = warp.wgmma
        fenced = state.fenced
        if fenced is None:
            state.fenced = list(warp.r)
        else:
            if not bounds:  # all instructions have been decoded by now
                registers = decoder.wgmma_registers
                bounds.extend((min(registers, default=0), max(registers, default=-1) + 1))
            first, end = bounds
            fenced[first:end] = warp.r[first:end]
        state.fresh_fence = True
        state.reads.clear()

    return fence


def define(warp: Warp, state: WarpMatrixState, accumulator: tuple[int, ...]) -> None:
    """Give never-written accumulator registers bits that nobody may rely on, until the result is written back."""
    r, fenced = warp.r, state.fenced
    for slot in accumulator:
        if r[slot] is UNINITIALISED:
            # A vector of its own, so that a write between wgmma.fence and the next wgmma is seen.
            r[slot] = vector = _POISON[:]
            if fenced is not None:
                fenced[slot] = vector


def are_left_alone(
    warp: Warp, state: WarpMatrixState, accumulator: tuple[int, ...], look: Callable[[Registers], tuple[Any, ...]], *,
    added: bool,
) -> bool:  # fmt: skip
    """Were these registers, none of them held by an operation, written before the last fence and not touched since?
    Then `check_registers` has nothing to report. look: what they hold; added: the operation adds to that, else it need
    not have been written (`define`)."""
    fenced = state.fenced
    if fenced is None or not state.reads.isdisjoint(accumulator) or not warp.in_flight.isdisjoint(accumulator):
        return False
    vectors = look(warp.r)
    if any(map(is_, vectors, repeat(UNINITIALISED))):
        if added:
            return False
        define(warp, state, accumulator)
        vectors = look(warp.r)
    return all(map(is_, vectors, look(fenced)))


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
        if any(slot in text.accumulator for other in state.in_flight for text in other.ends):
            reads.add(slot)
    writes = held & accumulator
    if reads or writes:
        report_register_hazard(warp, text.span, reads, writes)
    fenced, r = state.fenced, warp.r
    watched = a_registers if chained else accumulator | a_registers
    unfenced = watched if fenced is None else {slot for slot in watched if r[slot] is not fenced[slot]}
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
    fenced = warp.wgmma.fenced
    if result is NO_RESULT:
        for slot in text.accumulator:
            # A vector of its own, so that a write between wgmma.fence and the next wgmma is seen.
            warp.r[slot] = vector = _NO_BITS[:]
            if fenced is not None:
                fenced[slot] = vector
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
        if fenced is not None:
            fenced[slot] = vector


def settle(warp: Warp) -> None:
    """Recompute which registers are in flight."""
    state: WarpMatrixState = warp.wgmma
    parts: dict[int, tuple[int, ...]] = {}
    for issued in state.in_flight:
        for text in issued.ends:
            parts[id(text.accumulator)] = text.accumulator
            parts[id(text.a_registers)] = text.a_registers
    warp.in_flight = _registers_of(tuple(parts.values()))


@lru_cache(maxsize=256)
def _registers_of(parts: tuple[tuple[int, ...], ...]) -> frozenset[int]:
    return frozenset(slot for part in parts for slot in part)
