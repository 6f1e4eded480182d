"""Which reads of a wgmma's registers must a wgmma.fence separate from a later wgmma, and how does a run see them?

A write after a `wgmma.fence` is found by the register's vector, which is no longer the same (`machine.warpgroup`). A
read leaves it as it was, so steps that read such a register note it with their warp, until the next fence. Only steps
from which some path leads to a wgmma with no fence on the way need to: a backward analysis over the control flow ("a
wgmma comes before a fence"), which leaves nothing to do in the usual kernel. Which reads matter the run decides.

Not handled: registers that are read by another wgmma (of another shape), which the machine sees otherwise. Where the
control flow is not known, every step is taken for such a one. Source: PTX ISA 9.7.15.7.1 (wgmma.fence: between a
register access and any wgmma.mma_async that accesses the same registers). Checked by: tests/machine/test_wgmma.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.frontends.ptx.ast import Instruction, Kernel
from tilewright.machine.decoder import Decoder
from tilewright.machine.lanes import Registers
from tilewright.machine.live_ranges import control_flow
from tilewright.machine.state import Warp
from tilewright.machine.step import Control, Plain, Signal, Step, before, guarded


def unfenced_positions(kernel: Kernel) -> Sequence[bool]:
    """By instruction, whether some path leads from it to a wgmma.mma_async with no wgmma.fence on the way."""
    instructions, successors = control_flow(kernel)
    if successors is None:
        return [True] * len(instructions)
    before: dict[int, list[int]] = {}
    for index, following in enumerate(successors):
        for after in following:
            before.setdefault(after, []).append(index)
    found = [False] * len(instructions)
    waiting = [index for index, each in enumerate(instructions) if each.row == "wgmma.mma_async"]
    while waiting:
        for index in before.get(waiting.pop(), ()):
            if not found[index]:
                found[index] = True
                if not _is_fence(instructions[index]):
                    waiting.append(index)
    return found


def _is_fence(instruction: Instruction) -> bool:
    return instruction.row == "wgmma.fence" and instruction.guard is None


def with_reads_seen(decoder: Decoder, steps: Sequence[Step], positions: Sequence[int]) -> list[Step]:
    """The steps, of which those that read a wgmma's registers where no fence follows note it.

    positions: the place of each step's instruction among those of the decoder's kernel.
    """
    registers = decoder.wgmma_registers
    if not registers:
        return list(steps)
    unfenced = unfenced_positions(decoder.kernel)
    found = list(steps)
    for index, (step, position) in enumerate(zip(steps, positions, strict=True)):
        if not registers.isdisjoint(step.reads) and position < len(unfenced) and unfenced[position]:
            found[index] = noting(step, _noted(step.reads & registers))
    return found


def _noted(slots: frozenset[int]) -> Callable[[Registers], None]:
    def touch(r: Registers) -> None:
        warp: Warp = r[0]
        warp.wgmma.reads.update(slots)

    return touch


def noting(step: Step, touch: Callable[[Registers], None]) -> Step:
    """The step, before which `touch` is called wherever it runs in some lane."""
    body = step.body
    if isinstance(body, Control):
        act = body.act

        def act_and_touch(warp: Warp, mask: int) -> int | Signal | None:
            touch(warp.r)
            return act(warp, mask)

        return step.doing(Control(act_and_touch, body.converged))
    touching = Plain(touch, lambda r, _mask: touch(r))
    if step.guard >= 0:
        touching = guarded(touching, step.guard, step.negated)
    return step.doing(before(touching, body))
