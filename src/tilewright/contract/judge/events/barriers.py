"""mbarriers: hands their events to `phase_ledger`, after what concerns memory: their bytes, and reaching into peers.

Source: PTX ISA 9.7.13.15. Checked by: tests/contract/judge/test_happens_before_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.contract.history.shadow_memory import Record
from tilewright.contract.judge import barrier_life, phase_ledger
from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.race import describe_race
from tilewright.contract.judge.run_state import is_ordered, published_by
from tilewright.machine.core.event import (
    BarrierArrive,
    BarrierExpect,
    BarrierInit,
    BarrierInvalidate,
    BarrierPeek,
    BarrierWait,
    PhaseEnd,
)


def initialise(state: LaunchState, event: BarrierInit) -> None:
    """mbarrier.init: its bytes must be free."""
    cluster, warp = state.step(event.actor)
    span = ((event.address, event.address + phase_ledger.BARRIER_BYTES),)
    untouched = event.cta not in cluster.shared  # as it mostly is yet
    for earlier in () if untouched else cluster.shared_memory(event.cta).touched(span):
        if not is_ordered(earlier, warp.clock):
            record = Record(event.actor, warp.track, True, False, event.span, span, operation="initialises")
            code, message, steps = describe_race(earlier, record, "shared")
            state.findings.report(code, message, event.span, earlier.span, steps)
    barrier_life.initialise(cluster, warp, event, state.findings, state.interpretations.repeated_init)
    low, high = cluster.barrier_bounds.get(event.cta, span[0])
    cluster.barrier_bounds[event.cta] = (min(low, span[0][0]), max(high, span[0][1]))


def invalidate(state: LaunchState, event: BarrierInvalidate) -> None:
    """mbarrier.inval."""
    barrier_life.invalidate(*state.step(event.actor), event, state.findings, state.interpretations.tensor_pipeline)


def arrive(state: LaunchState, event: BarrierArrive) -> None:
    """mbarrier.arrive and arrive_drop, own or remote."""
    cluster, warp = state.step(event.actor)
    if event.cta != event.actor.cta:
        state.check_started(cluster, warp, event.cta, event.span)
    phase_ledger.arrive(cluster, warp, event, published_by(cluster, warp, event.lanes), state.findings)


def expect(state: LaunchState, event: BarrierExpect) -> None:
    """mbarrier.expect_tx."""
    cluster, warp = state.step(event.actor)
    if event.cta != event.actor.cta:
        state.check_started(cluster, warp, event.cta, event.span)
    phase_ledger.expect(cluster, warp, event, state.findings)


def phase_end(state: LaunchState, event: PhaseEnd) -> None:
    """A phase has ended."""
    phase_ledger.end_phase(state.cluster_of(event.cta), event, state.findings)


def wait(state: LaunchState, event: BarrierWait) -> None:
    """A successful mbarrier.test_wait or try_wait."""
    phase_ledger.wait(*state.step(event.actor), event, state.findings, state.interpretations.parity_sign)


def peek(state: LaunchState, event: BarrierPeek) -> None:
    """A test_wait or try_wait whose outcome is left open."""
    phase_ledger.peek(*state.step(event.actor), event, state.findings)


HANDLERS: dict[type, Callable[[LaunchState, Any], None]] = {
    BarrierInit: initialise,
    BarrierInvalidate: invalidate,
    BarrierArrive: arrive,
    BarrierExpect: expect,
    PhaseEnd: phase_end,
    BarrierWait: wait,
    BarrierPeek: peek,
}
