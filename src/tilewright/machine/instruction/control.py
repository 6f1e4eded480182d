"""Branches, exits, and instructions that only delay or hint.

Calls have been expanded before (`inline`); what is left of them fails when it is executed. Lanes that part at a
guarded `.uni` are a fault (`Step.part`). Source: PTX ISA, Control Flow Instructions; Miscellaneous Instructions.
Checked by: tests/machine/core/test_run.py, test_calls.py, tests/coverage_attacks/test_one_way.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.ast import Arguments, Instruction, Symbol
from tilewright.machine.core.decoder import WORD32, Decoder, Modifiers, expect_operands
from tilewright.machine.core.event import GridDependency
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import indices, to_bits
from tilewright.machine.core.state import Strand, Warp
from tilewright.machine.core.step import Control, Plain, Signal, nothing

_ASSERTIONS = frozenset({"__assertfail", "__assert_fail", "__cxa_pure_virtual", "abort"})
"""Functions of the CUDA device runtime that stop the kernel."""


def _branch(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("uni")
    (target,) = expect_operands(instruction, 1)
    place = decoder.label(instruction, target)
    return Control(lambda _warp, _mask: place)


def _indexed_branch(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    uniform = modifiers.flag("uni")
    index, table = expect_operands(instruction, 2)
    slot = decoder.source(instruction, index, WORD32)
    targets = decoder.branch_table(instruction, table)

    def act(warp: Warp, mask: int) -> int:
        lanes_of: dict[int, int] = {}
        for lane in indices(mask).tolist():
            chosen = int(warp.r[slot][lane])
            if chosen >= len(targets):
                raise MachineFault(
                    "MF007", "branch-index", f"brx.idx with {chosen}, the table has {len(targets)} labels",
                    instruction.span,
                )  # fmt: skip
            place = targets[chosen]
            lanes_of[place] = lanes_of.get(place, 0) | 1 << (8 * lane)
        (first, lanes), *others = lanes_of.items()
        if uniform and others:
            who = f"CTA {warp.cta.linear} warp {warp.index}"
            raise MachineFault(
                "MF005", "lanes-part", f"lanes of {who} that come to {instruction.opcode} together go apart",
                instruction.span, "PTX ISA 9.7.12: .uni",
            )  # fmt: skip
        warp.current.mask = lanes
        warp.strands.extend(Strand(place, lanes) for place, lanes in others)
        return first

    return Control(act)


def _call(_decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("uni")
    name = next((operand.name for operand in _flat(instruction) if isinstance(operand, Symbol)), "an unknown function")

    def act(warp: Warp, _mask: int) -> int:
        who = f"CTA {warp.cta.linear} warp {warp.index}"
        if name in _ASSERTIONS:
            raise MachineFault("MF008", "trap", f"an assertion failed in {who}: {name}", instruction.span)
        raise TilewrightError(
            f"{who} calls {name}, which has no body here",
            span=instruction.span,
            remedy="link the function into the text",
        )

    return Control(act)


def _flat(instruction: Instruction) -> list[object]:
    return [operand for operand in instruction.operands if not isinstance(operand, Arguments)]


def _exit(_decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("uni")
    expect_operands(instruction, 0)
    return Control(lambda _warp, _mask: Signal.EXIT)


def _trap(_decoder: Decoder, instruction: Instruction, _modifiers: Modifiers) -> Control:
    def act(warp: Warp, _mask: int) -> int:
        who = f"CTA {warp.cta.linear} warp {warp.index}"
        raise MachineFault("MF008", "trap", f"{instruction.opcode} executed by {who}", instruction.span)

    return Control(act)


def _nanosleep(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    declared = modifiers.take_type()
    (duration,) = expect_operands(instruction, 1)
    decoder.source(instruction, duration, declared)
    return Control(lambda _warp, _mask: Signal.YIELD)


def _grid_dependency(_decoder: Decoder, instruction: Instruction, _modifiers: Modifiers) -> Control:
    expect_operands(instruction, 0)
    waits = instruction.row.endswith("wait")

    def act(warp: Warp, mask: int) -> None:
        observe = warp.cta.cluster.observe
        if observe is not None:
            kind = "wait" if waits else "launch_dependents"
            observe(GridDependency(warp.actor, kind, instruction.span, to_bits(mask)))

    return Control(act)


def _hint(_decoder: Decoder, _instruction: Instruction, modifiers: Modifiers) -> Plain:
    """Caching hints change no value and no order that the machine models."""
    modifiers.left.clear()
    return nothing()


HANDLERS = {
    "bra": _branch,
    "brx.idx": _indexed_branch,
    "call": _call,
    "exit": _exit,
    "ret": _exit,
    "trap": _trap,
    "brkpt": _trap,
    "nanosleep": _nanosleep,
    "griddepcontrol.wait": _grid_dependency,
    "griddepcontrol.launch_dependents": _grid_dependency,
    "prefetch": _hint,
    "prefetchu": _hint,
    "prefetch.tensormap": _hint,
    "cp.async.bulk.prefetch": _hint,
    "cp.async.bulk.prefetch.tensor": _hint,
    "discard": _hint,
    "applypriority": _hint,
    "pmevent": _hint,
}
