"""A protocol run of a tcgen05 kernel yields the tensor-memory events of the full run, and moves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.machine.tcgen05_kernels import OPENING, allocate, free, module, registers

from tilewright.base.plan import Launch, PointerParam
from tilewright.legal.descriptor.tensor_core_descriptor import (
    InstructionDescriptor,
    SharedDescriptor,
    encode_instruction,
    encode_shared,
)
from tilewright.machine.core import event as events_of
from tilewright.machine.core.event import Access, CommitArrive, Event, TensorMemoryActor
from tilewright.machine.core.memory import VirtualBuffer
from tilewright.machine.core.run import run_launch
from tilewright.machine.protocol.protocol_run import run_protocol

TENSOR_EVENTS = tuple(getattr(events_of, name) for name in dir(events_of) if name.startswith("TensorMemory"))
DESCRIPTOR = encode_shared(SharedDescriptor(0, 128, 256))
INSTRUCTION = InstructionDescriptor("f16", 128, 64, 16, "f32", "bf16", "bf16")
LOOP = f"""{OPENING}{allocate()}
mov.b32 %r40, 0;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {{%r40}};
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
bar.sync 0;
mov.b64 %rd8, {DESCRIPTOR};
mov.b32 %r22, OPERATION;
mov.u32 %r10, 0;
mov.u32 %r11, 0;
setp.ne.u32 %p5, 0, 0;
AGAIN:
@!%p1 bra JOIN;
tcgen05.fence::after_thread_sync;
tcgen05.cp.cta_group::1.128x256b [%r5+64], %rd8;
tcgen05.mmaFORM.cta_group::1.kind::f16 [%r5], %rd8, %rd8,META %r22, %p5;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];
JOIN:
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], %r11;
@!%p2 bra W;
bar.sync 0;
xor.b32 %r11, %r11, 1;
add.u32 %r10, %r10, 1;
setp.lt.u32 %p4, %r10, 3;
setp.eq.u32 %p5, 0, 0;
@%p4 bra AGAIN;
tcgen05.fence::after_thread_sync;
tcgen05.ld.sync.aligned.32x32b.x4.b32 {registers(50, 4)}, [%r6];
add.f32 %r55, %r50, %r51;
tcgen05.wait::ld.sync.aligned;
{free()}"""


def kernel(instruction: InstructionDescriptor = INSTRUCTION, form: str = "", metadata: str = "") -> Any:
    text = LOOP.replace("OPERATION", str(encode_instruction(instruction))).replace("FORM", form)
    return module(text.replace("META", metadata), ".shared .align 1024 .b8 data[8192];")


LAUNCH = Launch("k", (1, 1, 1), (128, 1, 1), (PointerParam("a"), PointerParam("a")), (1, 1, 1), 0)


def told(found: list[Event]) -> dict[Any, list[Any]]:
    """Tensor-memory events of each warp, without the numbers that depend on the order of issue."""
    plain: dict[str, Any] = {"operation": None, "operations": (), "commit": 0}
    streams: dict[Any, list[Any]] = {}
    for event in found:
        if isinstance(event, TENSOR_EVENTS) and not isinstance(event, TensorMemoryActor | events_of.TensorBlock):
            anything: Any = event
            known = {name: value for name, value in plain.items() if hasattr(event, name)}
            streams.setdefault(anything.actor, []).append(replace(anything, **known))
    return streams


@pytest.mark.parametrize("seed", range(2))
def test_events_are_those_of_the_full_run(seed: int) -> None:
    full: list[Event] = []
    sliced: list[Event] = []
    run_launch(kernel(), LAUNCH, {"a": np.zeros(16, np.uint8)}, seed=seed, observe=full.append)
    report = run_protocol(kernel(), LAUNCH, {"a": VirtualBuffer(16)}, observe=sliced.append)
    assert report.fault is None and not report.taints and not report.doubts
    assert told(full) == told(sliced) and len(told(full)) == 4
    for wanted in (CommitArrive, TensorMemoryActor):
        counts = [
            sum(isinstance(e, wanted) or (isinstance(e, Access) and isinstance(e.actor, wanted)) for e in stream)
            for stream in (full, sliced)
        ]
        assert counts[0] == counts[1] > 0


def test_sparse_operands_are_followed_without_values() -> None:
    sliced: list[Event] = []
    sparse = replace(INSTRUCTION, sparse=True, k=32)
    report = run_protocol(kernel(sparse, ".sp", " [%r5+128],"), LAUNCH, {"a": VirtualBuffer(16)}, observe=sliced.append)
    assert report.fault is None and not report.doubts
    issue = next(e for e in sliced if isinstance(e, events_of.TensorMemoryIssue) and e.kind == "mma")
    assert any(block.column_begin == 128 for block in issue.reads)
