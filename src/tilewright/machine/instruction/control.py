"""Branches, exits, and instructions that only delay or hint.

Source: PTX ISA, Control Flow Instructions; Miscellaneous Instructions. Not handled: `call`, `brx.idx`.
Checked by: tests/machine/test_run.py.
"""

from __future__ import annotations

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.decoder import Decoder, Modifiers, expect_operands
from tilewright.machine.fault import MachineFault
from tilewright.machine.state import Warp
from tilewright.machine.step import Control, Plain, Signal, nothing


def _branch(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("uni")
    (target,) = expect_operands(instruction, 1)
    place = decoder.label(instruction, target)
    return Control(lambda _warp, _mask: place)


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


def _hint(_decoder: Decoder, _instruction: Instruction, modifiers: Modifiers) -> Plain:
    """Caching hints and launch-dependency hints change no value and no order that the machine models."""
    modifiers.left.clear()
    return nothing()


HANDLERS = {
    "bra": _branch,
    "exit": _exit,
    "ret": _exit,
    "trap": _trap,
    "brkpt": _trap,
    "nanosleep": _nanosleep,
    "griddepcontrol.wait": _hint,
    "griddepcontrol.launch_dependents": _hint,
    "prefetch": _hint,
    "prefetchu": _hint,
    "prefetch.tensormap": _hint,
    "cp.async.bulk.prefetch": _hint,
    "cp.async.bulk.prefetch.tensor": _hint,
    "discard": _hint,
    "applypriority": _hint,
    "pmevent": _hint,
}
