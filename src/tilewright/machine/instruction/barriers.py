"""Named barriers, warp barriers, cluster barriers and register budgets: binds `rendezvous` to instructions.

Source: PTX ISA, `bar` / `barrier{.cta}`, `bar.warp.sync`, `barrier.cluster`, `setmaxnreg`.
Checked by: tests/machine/barrier/test_barriers.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.barrier.rendezvous import (
    arrive_named,
    cluster_arrive,
    cluster_wait,
    passes_again,
    set_registers,
)
from tilewright.machine.core.decoder import WORD32, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.event import MemoryFence
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import FULL, WARP_SIZE, from_bits, indices, merge, to_bits, uniform_value
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, Signal

ALL_MEMBERS = 0xFFFF_FFFF
"""The member mask of all lanes."""


def uniform(warp: Warp, slot: int, mask: int, what: str, instruction: Instruction) -> int:
    """The value that all lanes in `mask` hold in a slot. Raises MachineFault if they differ."""
    value = uniform_value(warp.r[slot], mask)
    if value is None:
        raise MachineFault(
            "MF005", "not-uniform", f"{what} of {instruction.opcode} differs between lanes", instruction.span
        )
    return value


def _named(waits: bool) -> Callable[[Decoder, Instruction, Modifiers], Control]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
        modifiers.flag("cta")
        modifiers.flag("aligned")
        operands = instruction.operands
        if not 1 <= len(operands) <= 2 or (not waits and len(operands) != 2):
            raise unsupported(instruction, f"it has {len(operands)} operands")
        which = decoder.source(instruction, operands[0], WORD32)
        many = decoder.source(instruction, operands[1], WORD32) if len(operands) == 2 else -1
        number, count = decoder.static_value(which), decoder.static_value(many)
        span = instruction.span

        def act(warp: Warp, mask: int) -> Signal | None:
            if passes_again(warp):
                return None
            barrier, threads = number, count
            if barrier is None:
                barrier = uniform(warp, which, mask, "the barrier number", instruction)
            if threads is None and many >= 0:
                threads = uniform(warp, many, mask, "the thread count", instruction)
            return arrive_named(warp, barrier, threads, waits, span)

        return Control(act, converged=True)

    return handler


def _reduce(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    """`bar.red`: waits as `bar.sync`, and tells every thread for how many threads a predicate holds."""
    modifiers.flag("cta")
    modifiers.flag("aligned")
    operation = modifiers.take("popc", "and", "or")
    declared = modifiers.take_type()
    operands = instruction.operands
    if not 3 <= len(operands) <= 4 or (declared.name == "u32") != (operation == "popc"):
        raise unsupported(instruction, "it needs .popc.u32, .and.pred or .or.pred, and 3 or 4 operands")
    slots = tuple(decoder.source(instruction, operand, WORD32) for operand in operands[1:-1])
    predicate, negated = decoder.predicate(instruction, operands[-1])
    to = decoder.destination(instruction, operands[0], declared)

    def act(warp: Warp, mask: int) -> Signal | None:
        if not passes_again(warp):
            barrier = uniform(warp, slots[0], mask, "the barrier number", instruction)
            threads = None if len(slots) == 1 else uniform(warp, slots[1], mask, "the thread count", instruction)
            here = (warp.r[predicate] != negated)[indices(mask)]
            signal = arrive_named(warp, barrier, threads, True, instruction.span, (int(here.sum()), here.size))
            if signal is not None:
                return signal
        holds, voters = warp.barrier_votes
        result = holds if operation == "popc" else holds == voters if operation == "and" else holds > 0
        warp.r[to] = merge(warp.r[to], np.full(WARP_SIZE, result, declared.raw), mask)
        return None

    return Control(act, converged=True)


def _warp_sync(decoder: Decoder, instruction: Instruction, _modifiers: Modifiers) -> Control:
    (members,) = expect_operands(instruction, 1)
    slot = decoder.source(instruction, members, WORD32)
    everybody = decoder.static_value(slot) == ALL_MEMBERS
    span = instruction.span

    def act(warp: Warp, mask: int) -> Signal | None:
        wanted = FULL if everybody else member_lanes(warp, slot, mask, instruction)
        if mask != FULL and wanted & warp.live & ~mask:
            return Signal.CONVERGE
        observe = warp.cta.cluster.observe
        if observe is not None:
            lanes = ALL_MEMBERS if wanted == FULL else to_bits(wanted | (FULL & ~warp.live))
            observe(MemoryFence(warp.actor, "fence", "warp", span, lanes=lanes))
        return None

    return Control(act)


def member_lanes(warp: Warp, slot: int, mask: int, instruction: Instruction) -> int:
    """The lanes named by a member-mask operand. Raises MachineFault if an executing lane is not among them."""
    wanted = from_bits(uniform(warp, slot, mask, "the member mask", instruction))
    if mask & ~wanted:
        raise MachineFault(
            "MF005", "not-a-member", f"a lane executes {instruction.opcode} but is not in its member mask",
            instruction.span, "PTX ISA, membermask",
        )  # fmt: skip
    return wanted


def _cluster_arrive(_decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    relaxed = modifiers.take("release", "relaxed") == "relaxed"
    modifiers.flag("aligned")
    expect_operands(instruction, 0)

    def act(warp: Warp, _mask: int) -> None:
        cluster_arrive(warp, relaxed, instruction.span)

    return Control(act, converged=True)


def _cluster_wait(_decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.take("acquire")
    modifiers.flag("aligned")
    expect_operands(instruction, 0)
    return Control(lambda warp, _mask: cluster_wait(warp, instruction.span), converged=True)


def _setmaxnreg(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    direction = modifiers.take("inc", "dec")
    modifiers.flag("sync")
    modifiers.flag("aligned")
    modifiers.flag("u32")
    (operand,) = expect_operands(instruction, 1)
    value = decoder.static_value(decoder.source(instruction, operand, WORD32))
    least, most, step = (decoder.target.limit(f"setmaxnreg.registers_{name}") for name in ("min", "max", "step"))
    if direction is None or value is None:
        raise unsupported(instruction, "setmaxnreg takes .inc or .dec and a constant")
    increase = direction == "inc"
    legal = least <= value <= most and value % step == 0

    def act(warp: Warp, _mask: int) -> Signal | None:
        if not legal:
            raise MachineFault(
                "SR202", "setmaxnreg-operand",
                f"setmaxnreg to {value} registers, which is no multiple of {step} from {least} to {most}",
                instruction.span, "PTX ISA, setmaxnreg",
            )  # fmt: skip
        return set_registers(warp, value, increase, instruction.span)

    return Control(act, converged=True)


HANDLERS = {
    "bar.sync": _named(True),
    "bar.arrive": _named(False),
    "bar.cta.sync": _named(True),
    "bar.cta.arrive": _named(False),
    "barrier.sync": _named(True),
    "barrier.arrive": _named(False),
    "barrier.cta.sync": _named(True),
    "barrier.cta.arrive": _named(False),
    "bar.red": _reduce,
    "bar.cta.red": _reduce,
    "barrier.red": _reduce,
    "barrier.cta.red": _reduce,
    "bar.warp.sync": _warp_sync,
    "barrier.cluster.arrive": _cluster_arrive,
    "barrier.cluster.wait": _cluster_wait,
    "setmaxnreg": _setmaxnreg,
}
