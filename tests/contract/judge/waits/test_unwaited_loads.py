"""No way leads to a copy engine's loads without a wait for the grids before."""

from __future__ import annotations

import pytest
from tests.machine.small_kernels import module

from tilewright.contract.judge.waits.unwaited_loads import unwaited_loads

LOAD = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];"
)
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r2, %r3}], [%r1];"
WAIT = "griddepcontrol.wait;"
BODIES = {
    "waited for": (f"{WAIT} {LOAD}", 0),
    "in each turn of a loop": (f"again: {WAIT} {LOAD} @%p1 bra again;", 0),
    "a store": (STORE, 0),
    "never": (f"{LOAD} {LOAD}", 2),
    "afterwards": (f"{LOAD} {WAIT}", 1),
    "in the turn before": (f"again: {LOAD} {WAIT} @%p1 bra again;", 1),
    "under a guard": (f"@%p1 {WAIT} {LOAD}", 1),
    "around it": (f"@%p1 bra on; {WAIT} on: {LOAD}", 1),
    "in one of two parts": (f"@%p1 bra second; {WAIT} {LOAD} second: @%p2 bra done; {LOAD} done: ret;", 1),
    "in both": (f"@%p1 bra second; {WAIT} {LOAD} second: @%p2 bra done; {WAIT} {LOAD} done: ret;", 0),
}


@pytest.mark.parametrize("name", BODIES)
def test_ways_without_a_wait(name: str) -> None:
    body, early = BODIES[name]
    (kernel,) = module(body.replace("; ", ";\n").replace(": ", ":\n")).kernels
    assert len(unwaited_loads(kernel)) == early
