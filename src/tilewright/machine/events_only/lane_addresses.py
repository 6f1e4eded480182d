"""Which address does each lane of a load or store of shared memory ask for, in a run of a kernel?

Events tell the bytes that a warp touched, not which lane asked for which; counting bank conflicts needs the lanes. So
the steps of `ld`, `st`, `ldmatrix` and `stmatrix` are wrapped: each tells its addresses, as offsets in the CTA's shared
memory, and then does what it did. Generic addresses are told where they point into the CTA's own shared memory.

What conflicts by other rules, atomics and other CTAs' shared memory, is told by name instead (`Refused`). Copy engines
and matrix instructions, which are no accesses of lanes, are not told.

Not handled: offsets as the assembler will place static variables; the machine's own order of variables counts.
Checked by: tests/driver/views/test_bank_report.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import Decoder, type_name
from tilewright.machine.core.lanes import FULL, UNINITIALISED, Registers, predicate_mask, selector
from tilewright.machine.core.memory import OFFSET_MASK, RANK_SHIFT, SHARED_WINDOW
from tilewright.machine.core.program import Program, assemble
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, Plain, Signal, Step

_ADDRESS_OPERAND = {"ld": 1, "ldu": 1, "st": 0, "ldmatrix": 1, "stmatrix": 0}
_ATOMIC = ("atom", "red")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_WINDOW = np.uint64(SHARED_WINDOW)
_LOW = np.uint64(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One execution by one warp. step: index of the instruction; kind: as `legal.bank.access_kind` calls it; offsets:
    of every lane in the CTA's shared memory; active: which lanes take part."""

    step: int
    kind: str
    offsets: NDArray[np.int64]
    active: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Refused:
    """One execution whose conflicts are not counted, and why."""

    step: int
    reason: str


Record = Callable[[Asked | Refused], None]


def watched(program: Program, record: Record) -> Program:
    """The program, whose accesses of shared memory tell `record` their lanes' addresses before they are made."""
    decoder = program.decoder
    instructions = [item for item in decoder.kernel.body if isinstance(item, Instruction)]
    steps = list(program.steps)
    for index, instruction in enumerate(instructions):
        look = _look(decoder, instruction, index, record)
        if look is not None:
            steps[index] = _with(steps[index], look)
    return assemble(decoder, steps)


def span_of(program: Program, step: int) -> Span:
    """Where in the text an instruction stands."""
    return program.steps[step].span


Look = Callable[[Warp, int], None]


def _look(decoder: Decoder, instruction: Instruction, step: int, record: Record) -> Look | None:
    """What tells of an instruction's addresses, given the warp and the lanes that run it; None for all others."""
    modifiers = set(instruction.modifiers)
    spaces = {each for each in modifiers if each.partition("::")[0] in ("shared", "global", "local", "param", "const")}
    if spaces and not spaces <= {"shared", "shared::cta", "shared::cluster"}:
        return None
    if instruction.row in _ATOMIC and spaces:
        return lambda _warp, _mask: record(Refused(step, "conflicts of atomics are not modelled"))
    if instruction.row not in _ADDRESS_OPERAND:
        return None
    kind = _kind(instruction)
    if kind is None:
        return lambda _warp, _mask: record(Refused(step, f"conflicts of {instruction.opcode} are not modelled"))
    decoder.begin()
    slot, offset = decoder.address(instruction, instruction.operands[_ADDRESS_OPERAND[instruction.row]])
    generic, cluster = not spaces, "shared::cluster" in spaces or not spaces
    added = np.uint64(offset & 0xFFFF_FFFF_FFFF_FFFF)

    def look(warp: Warp, mask: int) -> None:
        base = warp.r[slot]
        if base is UNINITIALISED:
            return
        addresses = base.astype(np.uint64) + added
        active = np.zeros(addresses.shape, np.bool_)
        active[selector(mask)] = True
        if generic:
            active &= (addresses >= _WINDOW) & (addresses - _WINDOW <= _LOW)
            if not active.any():
                return
        offsets = (addresses & _LOW).astype(np.int64)
        ranks = offsets >> RANK_SHIFT
        # Rank 0 in the CTA's own window means the CTA itself; in the cluster's it is the first CTA.
        own = ranks == warp.cta.rank if cluster else (ranks == 0) | (ranks == warp.cta.rank)
        if not own[active].all():
            record(Refused(step, "it accesses another CTA's shared memory"))
        else:
            record(Asked(step, kind, offsets & OFFSET_MASK, active))

    return look


def _kind(instruction: Instruction) -> str | None:
    if instruction.row in ("ldmatrix", "stmatrix"):
        count = next((each for each in instruction.modifiers if each in ("x1", "x2", "x4")), None)
        return f"{instruction.row}.{count}" if count is not None and "m8n8" in instruction.modifiers else None
    types = [found for each in instruction.modifiers if (found := type_name(each)) is not None]
    count = next((_VECTORS[each] for each in instruction.modifiers if each in _VECTORS), 1)
    if not types or types[-1].bytes * count not in (1, 2, 4, 8, 16):
        return None
    return f"{'st' if instruction.row == 'st' else 'ld'}.shared.b{8 * types[-1].bytes * count}"


def _with(step: Step, look: Look) -> Step:
    """The step, looked at first."""
    guard, negated = step.guard, step.negated

    def chosen(r: Registers, mask: int) -> int:
        if guard < 0:
            return mask
        holds = predicate_mask(r[guard])
        return mask & (holds ^ FULL if negated else holds)

    match step.body:
        case Plain(run_full, run_masked):

            def full(r: Registers) -> None:
                if mask := chosen(r, FULL):
                    look(r[0], mask)
                run_full(r)

            def masked(r: Registers, mask: int) -> None:
                if taking_part := chosen(r, mask):
                    look(r[0], taking_part)
                run_masked(r, mask)

            return step.doing(Plain(full, masked))
        case Control(run, converged):

            def act(warp: Warp, mask: int) -> int | Signal | None:
                look(warp, mask)
                return run(warp, mask)

            return step.doing(Control(act, converged))
