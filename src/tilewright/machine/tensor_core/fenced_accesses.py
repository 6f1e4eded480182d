"""Which accesses to a wgmma's registers must a wgmma.fence separate from a later wgmma, and how does a run see them?

Steps that read or write such a register note it with their warp, until the next fence. Only steps from which some path
leads to a wgmma with no fence on the way need to: a backward analysis over the control flow ("a wgmma comes before a
fence"), which leaves nothing to do in the usual kernel. Which accesses matter the run decides (`wgmma_registers`).

Not handled: registers that are read by another wgmma (of another shape), which the machine sees otherwise. Where the
control flow is not known, every step is taken for such a one. Source: PTX ISA 9.7.15.7.1 (wgmma.fence: between a
register access and any wgmma.mma_async that accesses the same registers). Checked by:
tests/machine/tensor_core/test_wgmma.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from tilewright.frontends.ptx.ast import Instruction, Kernel, Label, Symbol
from tilewright.machine.core.decoder import Decoder
from tilewright.machine.core.lanes import Registers
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, Plain, Signal, Step, before, guarded

_ENDS = frozenset({"ret", "exit", "trap"})
_PRODUCTS = frozenset({"wgmma.mma_async", "wgmma.mma_async.sp"})
_MARKS = frozenset({*_PRODUCTS, "wgmma.fence", "bra", "call", "brx.idx", "", *_ENDS})
"""Rows that the analysis looks at: all others lead on to what follows them."""


def unfenced_positions(kernel: Kernel) -> Sequence[bool]:
    """By instruction, whether some path leads from it to a wgmma with no wgmma.fence on the way."""
    labels: dict[str, int] = {}
    marks: list[tuple[int, Instruction]] = []
    size = 0
    for item in kernel.body:
        if isinstance(item, Label):
            labels[item.name] = size
            continue
        if item.row in _MARKS:
            marks.append((size, item))
        size += 1
    places = [place for place, _ in marks]
    following: list[list[int]] = []  # of each mark, those that it leads to, by number
    for number, (_, item) in enumerate(marks):
        leads = [number + 1] if item.row not in _ENDS or item.guard is not None else []
        if item.row == "bra":
            target = item.operands[0] if item.operands else None
            if not isinstance(target, Symbol) or target.name not in labels:
                return [True] * size
            taken = bisect_left(places, labels[target.name])
            leads = [taken] if item.guard is None else [taken, *leads]
        elif item.row in ("call", "brx.idx", ""):
            return [True] * size
        following.append(leads)
    behind, meets = _before_a_wgmma([item for _, item in marks], following)
    found: list[bool] = []
    for place, mark_behind, mark_meets in zip(places, behind, meets, strict=False):
        found += [mark_meets] * (place - len(found))
        found.append(mark_behind)
    return found + [False] * (size - len(found))


def _before_a_wgmma(marks: Sequence[Instruction], following: Sequence[Sequence[int]]) -> tuple[list[bool], list[bool]]:
    """By mark, whether a wgmma comes before a fence, behind it and from it on. The end is one more mark."""
    behind = [False] * len(marks)
    meets = [*(each.row in _PRODUCTS for each in marks), False]
    changed = True
    while changed:
        changed = False
        for number in range(len(marks) - 1, -1, -1):
            if not behind[number] and any(meets[each] for each in following[number]):
                behind[number] = changed = True
                meets[number] = meets[number] or not _is_fence(marks[number])
    return behind, meets


def _is_fence(instruction: Instruction) -> bool:
    return instruction.row == "wgmma.fence" and instruction.guard is None


def with_accesses_seen(decoder: Decoder, steps: Sequence[Step], positions: Sequence[int]) -> list[Step]:
    """The steps, of which those that access a wgmma's registers where no fence follows note it.

    positions: the place of each step's instruction among those of the decoder's kernel.
    """
    registers = decoder.wgmma_registers
    if not registers:
        return list(steps)
    unfenced = unfenced_positions(decoder.kernel)
    found = list(steps)
    for index, (step, position) in enumerate(zip(steps, positions, strict=True)):
        reads, writes = step.reads & registers, step.writes & registers
        if (reads or writes) and position < len(unfenced) and unfenced[position]:
            found[index] = noting(step, _noted(reads, writes))
    return found


def _noted(reads: frozenset[int], writes: frozenset[int]) -> Callable[[Registers], None]:
    def touch(r: Registers) -> None:
        warp: Warp = r[0]
        if warp.wgmma is not None:
            warp.wgmma.reads.update(reads)
            warp.wgmma.writes.update(writes)

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
