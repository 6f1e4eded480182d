"""How does one warp run for a while? The inner loop of the machine.

Runs of plain steps are called back to back; a control step may jump, block, yield or exit. Anything an engine or a
step refuses becomes a `MachineFault` with the instruction's place. Checked by: tests/machine/core/test_run.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.machine.barrier.rendezvous import warp_exited
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Exit
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.hazard import report_step_hazard
from tilewright.machine.core.lanes import FULL, UNINITIALISED, predicate_mask
from tilewright.machine.core.program import Program
from tilewright.machine.core.state import Strand, Warp
from tilewright.machine.core.step import Control, Signal, Step


def run_warp(warp: Warp, program: Program, quantum: int) -> int:
    """Run `warp` for about `quantum` instructions, or until it blocks or exits. Returns how many it executed."""
    if not warp.select():
        return 0
    executed = 0
    steps, plain_end = program.steps, program.plain_end
    strand = warp.current
    try:
        while executed < quantum:
            strand = warp.current
            if plain_end[strand.pc] > strand.pc:
                executed += _plain_run(warp, program, quantum - executed)
            if strand.pc >= warp.limit_pc:
                if not warp.select():
                    break
                continue
            step = steps[strand.pc]
            body = step.body
            if not isinstance(body, Control):
                continue
            executed += 1
            if not _control(warp, strand, step, body):
                break
    except TilewrightError:
        raise
    except EngineFault as fault:
        span = steps[strand.pc].span
        raise MachineFault(fault.code, fault.name, fault.message, span) from fault
    except (TypeError, AttributeError) as error:
        missing = _missing(warp, program, strand.pc)
        fill = warp.cta.cluster.fill_undefined
        if missing and fill is not None and fill(warp, program, strand.pc, missing):
            warp.steps += executed
            return executed + run_warp(warp, program, quantum - executed)
        raise _uninitialised(warp, program, strand.pc, error) from error
    warp.steps += executed
    return executed


def _plain_run(warp: Warp, program: Program, limit: int) -> int:
    """Run plain steps from the current place on. Leaves the strand at the step that failed, if one raises."""
    strand = warp.current
    start = strand.pc
    stop = min(program.plain_end[start], warp.limit_pc)
    if stop <= start:
        return 0
    stop = min(stop, start + limit)
    _steps(warp, program, start, stop)
    return stop - start


def _steps(warp: Warp, program: Program, start: int, stop: int) -> None:
    """Run plain steps, one by one. Leaves the strand behind them, or at the step that failed, if one raises."""
    strand = warp.current
    pc = start
    r = warp.r
    try:
        if warp.in_flight:
            touched, in_flight = program.touched, warp.in_flight
            full, masked, mask = program.full, program.masked, strand.mask
            for pc in range(start, stop):
                if not touched[pc].isdisjoint(in_flight):
                    report_step_hazard(warp, program.steps[pc], strand.mask)
                if mask == FULL:
                    full[pc](r)
                else:
                    masked[pc](r, mask)
        elif strand.mask == FULL:
            full = program.full
            for pc in range(start, stop):
                full[pc](r)
        else:
            masked, mask = program.masked, strand.mask
            for pc in range(start, stop):
                masked[pc](r, mask)
    except BaseException:
        strand.pc = pc
        raise
    strand.pc = stop


def _control(warp: Warp, strand: Strand, step: Step, body: Control) -> bool:
    """Run a control step. False if the warp's turn is over."""
    mask = strand.mask
    if step.guard >= 0:
        holds = predicate_mask(warp.r[step.guard])
        if step.negated:
            holds ^= FULL
        chosen = mask & holds
        if not chosen:
            strand.pc += 1
            return True
        if chosen != mask:
            step.part(warp, mask, chosen)
            return warp.select()
    in_flight = warp.in_flight
    if in_flight and not (step.reads.isdisjoint(in_flight) and step.writes.isdisjoint(in_flight)):
        report_step_hazard(warp, step, mask)
    signal = Signal.CONVERGE if body.converged and mask != warp.live else body.act(warp, mask)
    if signal is None:
        strand.pc += 1
        return True
    if isinstance(signal, int):
        strand.pc = signal
        return len(warp.strands) == 1 or warp.select()
    match signal:
        case Signal.CONVERGE:
            strand.converging = True
            return warp.select()
        case Signal.BLOCK:
            return warp.relaxed and warp.select()
        case Signal.YIELD:
            strand.pc += 1
            return False
        case Signal.EXIT:
            return _exit(warp, strand, step)


def _exit(warp: Warp, strand: Strand, step: Step) -> bool:
    warp.strands.remove(strand)
    warp.live &= ~strand.mask
    if warp.strands:
        if warp.cta.cluster.part_exited is not None:
            warp.cta.cluster.part_exited(warp, step.span)
        return warp.select()
    observe = warp.cta.cluster.observe
    if observe is not None:
        observe(Exit(warp.actor, step.span))
    warp_exited(warp, step.span)
    return False


def check_stuck(warp: Warp, program: Program) -> None:
    """Raise MachineFault if all strands of a warp wait for lanes of the same warp: those lanes are elsewhere."""
    if warp.strands and all(strand.converging for strand in warp.strands):
        lines = ", ".join(
            f"{strand.mask.bit_count()} lanes at {program.steps[strand.pc].span}" for strand in warp.strands
        )
        step = program.steps[warp.strands[0].pc]
        for strand in warp.strands:
            other = program.steps[strand.pc]
            if other.opcode.startswith("barrier.") and "aligned" not in other.opcode:
                message = f"the machine cannot run {other.opcode} by lanes of a warp that come to it apart: {lines}"
                raise TilewrightError(message, span=other.span)
        raise MachineFault(
            "MF005",
            "diverged-warp",
            f"{step.opcode} needs lanes of CTA {warp.cta.linear} warp {warp.index} that are elsewhere: {lines}",
            step.span,
            "PTX ISA: .aligned, membermask",
        )


def _missing(warp: Warp, program: Program, pc: int) -> list[int]:
    """The slots that a step reads and nobody wrote."""
    step = program.steps[pc]
    slots = set(step.reads) | ({step.guard} if step.guard >= 0 else set[int]())
    return sorted(slot for slot in slots if warp.r[slot] is UNINITIALISED)


def _uninitialised(warp: Warp, program: Program, pc: int, error: Exception) -> Exception:
    step = program.steps[pc]
    missing = sorted(program.names[slot] for slot in _missing(warp, program, pc))
    if not missing:
        return error
    return MachineFault(
        "MF003",
        "uninitialised-register",
        f"{step.opcode} reads {missing[0]}, which CTA {warp.cta.linear} warp {warp.index} never wrote",
        step.span,
    )
