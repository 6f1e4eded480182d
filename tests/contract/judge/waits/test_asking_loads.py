"""Which loads may come before the grids before have ended, since only boxes that are asked for depend on them."""

from __future__ import annotations

import pytest
from tests.machine.small_kernels import module

from tilewright.contract.judge.waits.asking_loads import asking_loads

LOAD = "@%p1 ld.global.L1::no_allocate.b32 %r1, [%rd2];"
ASK = "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r2, %r1}];"
COPY = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r3], [%rd1, {%r2, %r1}], [%r4];"
)
BODIES = {
    "only asked with": (f"mov.b32 %r1, -1; {LOAD} {ASK}", 1),
    "of two boxes": (f"{LOAD} {ASK} {ASK}", 1),
    "by nobody": (LOAD, 0),
    "copied with as well": (f"{LOAD} {ASK} {COPY}", 0),
    "copied with elsewhere": (f"{LOAD} {ASK} bra on; on: {COPY}", 0),
    "computed with": (f"{LOAD} {ASK} add.u32 %r5, %r1, 1;", 0),
    "stored": (f"{LOAD} {ASK} st.global.b32 [%rd2], %r1;", 0),
    "a condition too": (f"ld.global.b32 %r1, [%rd2]; {ASK} setp.eq.u32 %p1, %r1, 0;", 0),
    "the map's address": (
        "ld.global.b64 %rd1, [%rd2]; cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r2, %r1}];", 0
    ),
    "a strong load": (f"ld.relaxed.gpu.global.b32 %r1, [%rd2]; {ASK}", 0),
    "an atomic operation": (f"atom.global.add.u32 %r1, [%rd2], 1; {ASK}", 0),
    "two of a vector": (f"ld.global.v2.b32 {{%r1, %r2}}, [%rd2]; {ASK}", 1),
    "one of a vector": (f"ld.global.v2.b32 {{%r1, %r5}}, [%rd2]; {ASK}", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_what_is_only_asked_with(name: str) -> None:
    body, asking = BODIES[name]
    (kernel,) = module(body.replace("; ", ";\n").replace(": ", ":\n")).kernels
    assert len(asking_loads(kernel)) == asking
