"""Which registers do a warp's wgmmas in flight hold, and were those of the next one left alone since the last fence?

Between issue and wait the accumulator and A registers belong to the operation (`Warp.in_flight`). A `wgmma.fence`
remembers what registers hold; since vectors are never changed in place, an accumulator or A register that is no longer
the same vector at issue was written since the fence. What was read since is noted by `fenced_reads`. Where a group is
done, its accumulators are written back; where their bits are not asked for, as vectors that the warp has not held yet.

Checked by: tests/machine/tensor_core/test_wgmma.py, tests/machine/events_only/test_wgmma_rows.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import repeat
from operator import is_
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.machine.core.decoder import WORD32, Decoder
from tilewright.machine.core.hazard import report_register_hazard
from tilewright.machine.core.lanes import UNINITIALISED, Registers, poison
from tilewright.machine.core.state import Warp
from tilewright.machine.tensor_core.warpgroup import (
    NO_RESULT,
    WARPS,
    IssuedRow,
    MatrixInstruction,
    WarpMatrixState,
    fragment_of_warp,
)

_NO_BITS: npt.NDArray[Any] = np.zeros(32, np.uint32)
_POISON: npt.NDArray[Any] = poison(WORD32.raw)


def fencing(decoder: Decoder) -> Callable[[Warp], None]:
    """A `wgmma.fence` of a warp: what registers hold is remembered. Only those of wgmmas are asked for later."""
    bounds: list[int] = []
    held_all: dict[frozenset[int], bool] = {}

    def are_held_by_rows(warp: Warp, state: WarpMatrixState) -> bool:
        """Are all of them accumulators of rows in flight?"""
        if not state.in_flight or warp.tensor is not None:
            return False
        held = held_all.get(warp.in_flight)
        if held is None:
            held = held_all[warp.in_flight] = decoder.wgmma_registers <= warp.in_flight
        return held and all([isinstance(each, IssuedRow) for each in state.in_flight])

    def fence(warp: Warp) -> None:
        state: WarpMatrixState = warp.wgmma
        fenced = state.fenced
        if fenced is None:
            state.fenced = list(warp.r)
        # Accumulators in flight are passed on, or written back first, which remembers what they hold then.
        elif not are_held_by_rows(warp, state):
            if not bounds:  # all instructions have been decoded by now
                registers = decoder.wgmma_registers
                bounds.extend((min(registers, default=0), max(registers, default=-1) + 1))
            first, end = bounds
            fenced[first:end] = warp.r[first:end]
        state.fresh_fence = True
        if state.reads:
            state.reads.clear()

    return fence


def define(warp: Warp, state: WarpMatrixState, accumulator: tuple[int, ...]) -> None:
    """Give never-written accumulator registers bits that nobody may rely on, until the result is written back."""
    r = warp.r
    if any([r[slot] is UNINITIALISED for slot in accumulator]):
        vectors = _vectors_of_its_own(state, len(accumulator), True)
        missing = [at for at, slot in enumerate(accumulator) if r[slot] is UNINITIALISED]
        _give(warp, tuple([accumulator[at] for at in missing]), [vectors[at] for at in missing])


def _vectors_of_its_own(state: WarpMatrixState, count: int, undefined: bool) -> list[npt.NDArray[Any]]:
    """For each of so many registers a vector that no register of the warp has held, so that a write between wgmma.fence
    and the next wgmma is seen. undefined: of bits that nobody may rely on."""
    state.given += 1
    return _vectors(state.given, count, undefined)


@lru_cache(maxsize=512)
def _vectors(number: int, count: int, undefined: bool) -> list[npt.NDArray[Any]]:
    """Vectors that are all different objects, also from those of another number. Warps have no register in common, so
    that they may share them."""
    bits = _POISON if undefined else _NO_BITS
    return [bits[:] for _ in range(count)]


def _give(warp: Warp, slots: tuple[int, ...], vectors: list[npt.NDArray[Any]]) -> None:
    """Registers that hold this from now on, and held it at the last fence as far as that is asked."""
    r, fenced = warp.r, warp.wgmma.fenced
    first = slots[0]
    end = first + len(slots)
    if slots[-1] == end - 1 and _ascend(slots):
        r[first:end] = vectors
        if fenced is not None:
            fenced[first:end] = vectors
        return
    for slot, vector in zip(slots, vectors, strict=True):
        r[slot] = vector
        if fenced is not None:
            fenced[slot] = vector


@lru_cache(maxsize=256)
def _ascend(slots: tuple[int, ...]) -> bool:
    return slots == tuple(range(slots[0], slots[0] + len(slots)))


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
        if any(slot in end.accumulator for other in state.in_flight for end in other.ends):
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
    if result is NO_RESULT:
        _give(warp, text.accumulator, _vectors_of_its_own(warp.wgmma, len(text.accumulator), False))
        return
    rows, columns = fragment_of_warp(text.n, warp.index % WARPS)
    values = result[rows, columns]
    if text.accumulator_type == "f16":
        pairs = values.reshape(len(text.accumulator), 2, 32).transpose(0, 2, 1)
        vectors = np.ascontiguousarray(pairs).view(np.uint32)[:, :, 0]
    else:
        vectors = values.view(np.uint32)
    _give(warp, text.accumulator, list(vectors))


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
