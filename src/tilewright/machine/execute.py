"""How does one warp run for a while? The inner loop of the machine.

Runs of plain steps are called back to back; a control step may jump, block, yield or exit. Anything an engine or a
step refuses becomes a `MachineFault` with the instruction's place. Checked by: tests/machine/test_run.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.machine.engine_fault import EngineFault
from tilewright.machine.event import Exit
from tilewright.machine.fault import MachineFault
from tilewright.machine.hazard import report_step_hazard
from tilewright.machine.lanes import FULL, UNINITIALISED, predicate_mask
from tilewright.machine.program import Program
from tilewright.machine.rendezvous import warp_exited
from tilewright.machine.state import Strand, Warp
from tilewright.machine.step import Control, Signal, Step


def run_warp(warp: Warp, program: Program, quantum: int) -> int:
    """Run `warp` for about `quantum` instructions, or until it blocks or exits. Returns how many it executed."""
    if not warp.select():
        return 0
    executed = 0
    while executed < quantum:
        strand = warp.current
        try:
            executed += _plain_run(warp, program, quantum - executed)
            if strand.pc >= warp.limit_pc:
                if not warp.select():
                    break
                continue
            step = program.steps[strand.pc]
            body = step.body
            if not isinstance(body, Control):
                continue
            executed += 1
            going = _control(warp, strand, step, body)
        except TilewrightError:
            raise
        except EngineFault as fault:
            span = program.steps[strand.pc].span
            raise MachineFault(fault.code, fault.name, fault.message, span) from fault
        except (TypeError, AttributeError) as error:
            raise _uninitialised(warp, program, strand.pc, error) from error
        if not going:
            break
    warp.steps += executed
    return executed


def _plain_run(warp: Warp, program: Program, limit: int) -> int:
    """Run plain steps from the current place on. Leaves the strand at the step that failed, if one raises."""
    strand = warp.current
    start = strand.pc
    stop = min(program.plain_end[start], warp.limit_pc, start + limit)
    if stop <= start:
        return 0
    remembered = program.remembered
    if remembered is None:
        _steps(warp, program, start, stop)
        return stop - start
    r, mask, in_flight = warp.r, strand.mask, warp.in_flight
    for stretch in remembered.stretches.get((start, stop)) or remembered.between(start, stop):
        table = stretch.tables.get(mask)
        if table is None or (in_flight and not stretch.touched.isdisjoint(in_flight)):
            new = remembered.table(stretch, mask)
            if new is None or in_flight:
                _steps(warp, program, stretch.begin, stretch.end)
                continue
            table = new
        found = table.known.get(tuple(map(id, table.look(r))))
        if found is None:
            seen = remembered.seen(stretch, table, r)
            found = table.known.get(seen)
            if found is None:
                _steps(warp, program, stretch.begin, stretch.end)
                remembered.learn(stretch, table, seen, r)
                continue
        table.hits += 1
        for slot, value in found:
            r[slot] = value
    strand.pc = stop
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
            strand.mask = chosen
            warp.strands.append(Strand(strand.pc + 1, mask ^ chosen))
            return warp.select()
    if warp.in_flight and not (step.reads | step.writes).isdisjoint(warp.in_flight):
        report_step_hazard(warp, step, mask)
    signal = Signal.CONVERGE if body.converged and mask != warp.live else body.act(warp, mask)
    match signal:
        case None:
            strand.pc += 1
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
        case target:
            strand.pc = target
            if len(warp.strands) > 1:
                return warp.select()
    return True


def _exit(warp: Warp, strand: Strand, step: Step) -> bool:
    warp.strands.remove(strand)
    warp.live &= ~strand.mask
    if warp.strands:
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
        raise MachineFault(
            "MF005",
            "diverged-warp",
            f"{step.opcode} needs lanes of CTA {warp.cta.linear} warp {warp.index} that are elsewhere: {lines}",
            step.span,
            "PTX ISA: .aligned, membermask",
        )


def _uninitialised(warp: Warp, program: Program, pc: int, error: Exception) -> Exception:
    step = program.steps[pc]
    slots = set(step.reads) | ({step.guard} if step.guard >= 0 else set[int]())
    missing = sorted(program.names[slot] for slot in slots if warp.r[slot] is UNINITIALISED)
    if not missing:
        return error
    return MachineFault(
        "MF003",
        "uninitialised-register",
        f"{step.opcode} reads {missing[0]}, which CTA {warp.cta.linear} warp {warp.index} never wrote",
        step.span,
    )
