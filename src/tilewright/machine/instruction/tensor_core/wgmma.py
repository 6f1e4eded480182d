"""wgmma: binds `warpgroup` to instructions.

Source: PTX ISA, `wgmma.mma_async`, `wgmma.mma_async.sp`, `wgmma.fence`, `wgmma.commit_group`, `wgmma.wait_group`. Of a
sparse product half the elements of each row of A are stored, as those of a dense product of half the depth; which they
are, a register of metadata says. Not handled, and refused where values are wanted: what sparse products compute.
Checked by: tests/machine/tensor_core/test_wgmma.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.ast import Immediate, Instruction, Operand, Vector
from tilewright.machine.core.decoder import WORD32, WORD64, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.event import WgmmaCommit, WgmmaFence, WgmmaIssue, WgmmaWait
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.hazard import settle
from tilewright.machine.core.lanes import FULL, UNINITIALISED, predicate_mask
from tilewright.machine.core.state import Block, Warp
from tilewright.machine.core.step import Control, Signal
from tilewright.machine.instruction.barriers import uniform
from tilewright.machine.tensor_core.warpgroup import (
    WARPS,
    MatrixInstruction,
    Operation,
    Warpgroup,
    WarpMatrixState,
    operand_bytes,
)
from tilewright.machine.tensor_core.wgmma_registers import check_registers, define, write_back

_DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}
_INTEGERS = ("s8", "u8", "b1")
_BYTES = ("s8", "u8")


def _group(warp: Warp, instruction: Instruction) -> Warpgroup:
    if warp.group is None:
        raise MachineFault(
            "MF005", "no-warpgroup", f"{instruction.opcode} in a warp that is not part of four", instruction.span
        )
    return warp.group


def _fence(_decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    _take_sync(modifiers)
    expect_operands(instruction, 0)

    def act(warp: Warp, _mask: int) -> None:
        _group(warp, instruction)
        state: WarpMatrixState = warp.wgmma
        state.fenced = state.fresh_fence = True
        state.writes.clear()
        state.reads.clear()
        observe = warp.cta.cluster.observe
        if observe is not None:
            observe(WgmmaFence(warp.actor, instruction.span))

    return Control(act, converged=True)


def _take_sync(modifiers: Modifiers) -> None:
    modifiers.flag("sync")
    modifiers.flag("aligned")


def _commit(_decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    _take_sync(modifiers)
    expect_operands(instruction, 0)

    def act(warp: Warp, _mask: int) -> None:
        _group(warp, instruction)
        state: WarpMatrixState = warp.wgmma
        members, state.open = state.open, []
        state.commit(members)
        observe = warp.cta.cluster.observe
        if observe is not None:
            actors = tuple([each.actor for each in members])
            observe(WgmmaCommit(warp.actor, state.committed - 1, actors, instruction.span))

    return Control(act, converged=True)


def _wait(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    _take_sync(modifiers)
    (operand,) = expect_operands(instruction, 1)
    pending = decoder.static_value(decoder.source(instruction, operand, WORD32))
    if pending is None:
        raise unsupported(instruction, "the number of groups is a constant")
    keep = pending
    block = Block(lambda: f"waits for wgmma groups, all but {keep}", instruction.span)

    def act(warp: Warp, _mask: int) -> Signal | None:
        _group(warp, instruction)
        state: WarpMatrixState = warp.wgmma
        if not state.are_done(keep):
            strand = warp.current
            strand.block = block
            state.waiters.append((warp, strand))
            return Signal.BLOCK
        _write_back(warp, state, state.retire(keep))
        state.fresh_fence = False
        observe = warp.cta.cluster.observe
        if observe is not None:
            observe(WgmmaWait(warp.actor, keep, instruction.span))
        return None

    return Control(act, converged=True)


def _write_back(warp: Warp, state: WarpMatrixState, finished: list[Operation]) -> None:
    """finished: what was in flight until now; accumulators are written back that no newer operation has taken on."""
    latest = {each.instruction.accumulator: each for each in finished}
    for accumulator, operation in latest.items():
        if state.chained(accumulator) is None:
            write_back(warp, operation.instruction, operation.result)
    if finished:
        settle(warp)


def _constant(instruction: Instruction, operand: Operand, *allowed: int) -> int:
    if not isinstance(operand, Immediate) or operand.value not in allowed:
        raise unsupported(instruction, f"an immediate operand that is not one of {allowed}")
    return operand.value


def _mma(sparse: bool) -> Callable[[Decoder, Instruction, Modifiers], Control]:
    return lambda decoder, instruction, modifiers: _multiply(decoder, instruction, modifiers, sparse)


def _multiply(decoder: Decoder, instruction: Instruction, modifiers: Modifiers, sparse: bool) -> Control:
    _take_sync(modifiers)
    saturate = modifiers.flag("satfinite")
    counts_bits = modifiers.flag("popc") and modifiers.flag("and")
    parts, modifiers.left = modifiers.left, []
    shape = re.fullmatch(r"m64n(\d+)k(\d+)", parts[0]) if len(parts) == 4 else None
    if shape is None:
        raise unsupported(instruction, "it needs a shape and three types")
    n, k = int(shape[1]), int(shape[2])
    accumulator_type, a_type, b_type = parts[1:]
    _check_types(instruction, n, k // 2 if sparse else k, accumulator_type, a_type, b_type, saturate)
    if sparse and a_type == "b1":
        raise unsupported(instruction, "sparse operands of single bits")
    if counts_bits != (a_type == "b1"):
        raise unsupported(instruction, ".and.popc is for .b1")
    if counts_bits:
        k //= 8  # an operand's row is read as bytes, each of which is eight elements
    operands = list(instruction.operands)
    registers = n // 4 if accumulator_type == "f16" else n // 2
    accumulator = _registers(decoder, instruction, operands.pop(0), registers)
    a_registers: tuple[int, ...] = ()
    a_slot = -1
    a_operand = operands.pop(0)
    if isinstance(a_operand, Vector):
        a_registers = _registers(decoder, instruction, a_operand, 4)
    else:
        a_slot = decoder.source(instruction, a_operand, WORD64)
    b_slot = decoder.source(instruction, operands.pop(0), WORD64)
    if sparse:
        metadata, selector = operands[:2]
        del operands[:2]
        decoder.source(instruction, metadata, WORD32)
        _constant(instruction, selector, 0, 1, 2, 3)
    scale_slot, scale_negated = decoder.predicate(instruction, operands.pop(0))
    immediates = _immediates(instruction, operands, a_type, bool(a_registers))
    negate_a, negate_b, transpose_a, transpose_b = immediates
    text = MatrixInstruction(
        n, k, k // 2 if sparse else k, accumulator_type, a_type, b_type, accumulator, a_registers,
        "mn" if transpose_a else "k", "mn" if transpose_b else "k", negate_a, negate_b, saturate, instruction.span,
    )  # fmt: skip
    names = decoder.names
    accumulator_names = tuple(names[slot] for slot in accumulator)
    a_names = tuple(names[slot] for slot in a_registers)

    mathematics = decoder.mathematics

    def act(warp: Warp, mask: int) -> None:
        if sparse and mathematics:
            raise TilewrightError(
                f"the machine cannot run {instruction.opcode}: a sparse operand", span=instruction.span
            )
        group = _group(warp, instruction)
        r, state = warp.r, warp.wgmma
        holds = predicate_mask(r[scale_slot])
        if holds not in (0, FULL) and holds & mask not in (0, mask):
            raise MachineFault("MF005", "not-uniform", "scale-d differs between lanes", instruction.span)
        scale = bool(holds & mask) != scale_negated
        a_descriptor = uniform(warp, a_slot, mask, "A's descriptor", instruction) if a_slot >= 0 else 0
        b_descriptor = uniform(warp, b_slot, mask, "B's descriptor", instruction)
        chained = state.chained(accumulator)
        vectors = None if chained is not None or not scale else [r[slot] for slot in accumulator]
        a_values = [r[slot] for slot in a_registers]
        if (vectors or a_values) and any(vector is UNINITIALISED for vector in (*(vectors or ()), *a_values)):
            raise MachineFault(
                "MF003", "uninitialised-register", "wgmma reads an accumulator or A register that was never written",
                instruction.span,
            )  # fmt: skip
        if not scale and chained is None:
            define(warp, accumulator)
        same_shape = chained is not None and chained.n == n
        operation = group.issue(warp, text, scale, a_descriptor, b_descriptor, vectors, a_values)
        state.in_flight.append(operation)
        state.open.append(operation)
        check_registers(warp, state, text, same_shape)
        if not (same_shape and not a_registers):
            settle(warp)
        observe = warp.cta.cluster.observe
        if observe is not None:
            read = operand_bytes(operation)
            rows = read.own_rows[warp.index % WARPS]
            observe(
                WgmmaIssue(
                    warp.actor, operation.actor, accumulator_names, a_names, read.whole, instruction.span, rows,
                    read.matrices, scale, state.is_taken(accumulator),
                )
            )  # fmt: skip

    return Control(act, converged=True)


def _check_types(
    instruction: Instruction, n: int, k: int, accumulator_type: str, a_type: str, b_type: str, saturate: bool
) -> None:
    depth = _DEPTHS.get(a_type)
    if depth is None or b_type not in _DEPTHS or depth != k:
        raise unsupported(instruction, f"operands .{a_type} and .{b_type} with K {k}")
    family = {"f16": ("f16",), "bf16": ("bf16",), "tf32": ("tf32",), "s8": _BYTES, "u8": _BYTES, "b1": ("b1",)}
    if b_type not in family.get(a_type, ("e4m3", "e5m2")):
        raise unsupported(instruction, f"operands .{a_type} and .{b_type} do not go together")
    accumulators = ("s32",) if a_type in _INTEGERS else ("f32",) if a_type in ("bf16", "tf32") else ("f32", "f16")
    steps = n <= 32 or n % 16 == 0 if a_type in _INTEGERS else True
    if accumulator_type not in accumulators or n % 8 or not 8 <= n <= 256 or not steps:
        raise unsupported(instruction, f"accumulator .{accumulator_type} with N {n}")
    if saturate and a_type not in _BYTES:
        raise unsupported(instruction, ".satfinite is for integers")


def _registers(decoder: Decoder, instruction: Instruction, operand: Operand, count: int) -> tuple[int, ...]:
    items = decoder.vector(operand)
    if len(items) != count:
        raise unsupported(instruction, f"{len(items)} registers where {count} are needed")
    slots = decoder.destinations(instruction, operand, WORD32)
    if len(set(slots)) != count or min(slots) <= 1:
        raise unsupported(instruction, "a register appears twice")
    decoder.accumulators.update(slots)
    decoder.wgmma_registers.update(slots)
    # These registers are watched by the operation itself, not as plain reads and writes.
    decoder.forget(slots)
    return slots


def _immediates(
    instruction: Instruction, operands: list[Operand], a_type: Any, a_in_registers: bool
) -> tuple[bool, bool, bool, bool]:
    if a_type in _INTEGERS:
        if operands:
            raise unsupported(instruction, "integer operands take no scales")
        return False, False, False, False
    transposes = 0 if a_type not in ("f16", "bf16") else 1 if a_in_registers else 2
    if len(operands) != 2 + transposes:
        raise unsupported(instruction, f"{len(operands)} immediates where {2 + transposes} are needed")
    negate_a = _constant(instruction, operands[0], 1, -1) < 0
    negate_b = _constant(instruction, operands[1], 1, -1) < 0
    bits = [bool(_constant(instruction, operand, 0, 1)) for operand in operands[2:]]
    match bits:
        case [transpose_b]:
            return negate_a, negate_b, False, transpose_b
        case [transpose_a, transpose_b]:
            return negate_a, negate_b, transpose_a, transpose_b
        case _:
            return negate_a, negate_b, False, False


HANDLERS = {
    "wgmma.fence": _fence,
    "wgmma.mma_async": _mma(sparse=False),
    "wgmma.mma_async.sp": _mma(sparse=True),
    "wgmma.commit_group": _commit,
    "wgmma.wait_group": _wait,
}
