"""What is wrong when a run of a structured program's agents has come to its end, or to where nobody can move?

Checked by: tests/contract/words/test_structured_run.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.base.plural import counted
from tilewright.contract.words.state import (
    AgentState,
    BarrierState,
    Clock,
    Trouble,
    barrier_name,
    join,
    known_phases,
)
from tilewright.contract.words.word import Barrier, Step

if TYPE_CHECKING:
    from tilewright.contract.words.run import Run


def judge_agent_end(run: Run, state: AgentState) -> None:
    """An agent is done: what it started must be done, or waited for by somebody."""
    if state.clock.get(("dot", state.word.agent), 0) < state.dots:
        run.report("WG103", "a wgmma may be in flight when its warps end", state.lines["dot"])
    for actors in state.actors():
        if actors.stores_committed < actors.stores:
            run.report("BG101", "a store is in no committed group when its warps end", actors.store_line)
        elif actors.clock.get(("read by store", actors.who), 0) < actors.stores:
            message = "a store may still read shared memory when the warps that issued it end"
            run.report("BG102", message, actors.store_line)
    if state.committed < state.mmas:
        run.report("TC114", "no commit follows a tensor-core operation", state.lines["mma"])


def judge_exit(run: Run) -> None:
    """The kernel is done: nothing may be in flight, no phase half complete."""
    last: Clock = {}
    for state in run.agents.values():
        for actors in state.actors():
            join(last, actors.published(state.time))
    for barrier, found in run.barriers.items():
        if found.live and (found.pending != found.count or found.bytes):
            code = "TX101" if found.pending == found.count else "MB110"
            message = f"barrier {barrier_name(barrier)} is left in the middle of a phase"
            run.report(code, message, found.expect_line or found.arrive_line)
    for records in run.records.values():
        for record in records:
            if last.get(record.track, 0) >= record.value:
                continue
            match record.kind:
                case "load":
                    run.report("TM103", "nobody waits for this copy before the kernel ends", record.line)
                case "copy":
                    run.report("BG104", "nobody waits for this cp.async before the kernel ends", record.line)
                case "mma":
                    run.report("TC119", "nobody waits for the commit of this operation", record.line)
                case _:
                    pass


def explain_deadlock(run: Run) -> None:
    """Nobody can move: the wait whose barrier lacks what nobody can bring explains it best."""
    causes: list[tuple[int, str, str, int, int]] = []
    told: list[str] = []
    exact = True
    for name, state in run.agents.items():
        if not state.running or state.done:
            continue
        step = state.word.steps[state.position]
        if step.barrier is None or step.kind != "wait":
            continue
        found = run.barriers[step.barrier]
        at = barrier_name(step.barrier)
        told.append(f"{name} waits at line {step.line} for barrier {at}, parity {step.value}")
        causes.append(_cause(run, state, step, found))
        exact = exact and not _passed_over(state)
    code, message, line, other = "LV102", "agents wait for each other", 0, 0
    if causes:
        _, code, message, line, other = min(causes)
    run.troubles.setdefault((code, line), Trouble(code, message, line, other, tuple(told), exact))


def _passed_over(state: AgentState) -> bool:
    """Is there something that other threads of the agent do, and that stands behind the wait of a part of them?"""
    steps = state.word.steps
    waiting = steps[state.position].part
    for step in steps[state.position + 1 :] if waiting is not None else ():
        if step.part is None:
            return False
        if waiting is not None and step.part.members & ~waiting.members:
            return True
    return False


def _cause(run: Run, state: AgentState, step: Step, found: BarrierState) -> tuple[int, str, str, int, int]:
    barrier = step.barrier
    assert barrier is not None
    at = f"barrier {barrier_name(barrier)}"
    if not found.pending and found.bytes:
        off = f"{abs(found.bytes)} {'more' if found.bytes > 0 else 'fewer'}"
        message = f"{at} expects {off} bytes than the phase's copies bring: the wait never ends"
        return 0, "TX104", message, found.expect_line, step.line
    coming = [
        other.word.agent
        for other in run.agents.values()
        if not other.done and any(_signals(later, barrier) for later in other.word.steps[other.position :])
    ]
    missing = f"{found.pending} of {counted(found.count, 'arrival')} of its phase"
    if found.bytes < 0:
        return (
            1,
            "TX104",
            f"{at} is brought bytes that nobody expects; the wait never ends",
            found.load_line,
            step.line,
        )
    if not coming:
        return 2, "MB113", f"{at} lacks {missing}, which nobody brings: the wait never ends", step.line, found.line
    if found.pending != found.count:
        return 3, "MB113", f"{at} lacks {missing}: the wait never ends", step.line, found.line
    if known_phases(state, found, barrier) == found.base and step.value == 0:
        filler = _fills_after(state)
        message = f"the wait at {at} is for a phase that only follows what comes after it"
        return (4 if filler else 5), "MB114", message, step.line, found.line
    return 6, "LV102", f"the wait at {at} is for agents that wait themselves", step.line, found.arrive_line


def _signals(step: Step, barrier: Barrier) -> bool:
    return step.barrier == barrier and step.kind in ("arrive", "expect", "commit", "copy_arrive")


def _fills_after(state: AgentState) -> bool:
    """Is the next thing that the agent does after its wait a copy or an operation of its own?"""
    for step in state.word.steps[state.position + 1 : state.position + 6]:
        if step.kind in ("load", "expect", "mma", "copy"):
            return True
        if step.kind == "wait":
            return False
    return False
