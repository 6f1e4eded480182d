"""Accesses of shared memory below the first variable that may stand there."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.base.verdict import Refuted, Verdict
from tilewright.contract.history.shadow_memory import Record
from tilewright.contract.judge.run_state import ClusterState
from tilewright.contract.replay.below_shared import BelowShared
from tilewright.contract.replay.replay import replay
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import Ranges, WarpActor
from tilewright.machine.core.shared_layout import shared_layout
from tilewright.targets import target

TEXT = """.version 8.7
.target sm_90a
.address_size 64
.shared .align 16 .b8 fixed[24];
.extern .shared .align 1024 .b8 dynamic_smem[];
.visible .entry kernel()
{
	.reg .b32 %r<8>;
	mov.u32 %r0, 0;
	mov.u32 %r1, dynamic_smem;
	mov.u32 %r2, fixed;
	BODY
	ret;
}
"""


def judged(body: str, dynamic_bytes: int = 4096, *, high: bool = True) -> Verdict:
    launch = Launch("kernel", (1, 1, 1), (32, 1, 1), (), dynamic_smem_bytes=dynamic_bytes)
    buffers: dict[str, np.ndarray] = {}
    return replay(read(TEXT.replace("BODY", body), "<kernel.ptx>"), launch, buffers, shared_high=high)


ATOMIC = "atom.shared::cta.add.u32 %r3, [BASE], 1;"
INIT = "mbarrier.init.shared::cta.b64 [BASE], 1;"
STORE = "st.shared.u32 [BASE], 0;"


@pytest.mark.parametrize("operation", [ATOMIC, INIT, STORE])
@pytest.mark.parametrize("offset", [0, 16])
def test_an_address_without_the_variable_is_outside(operation: str, offset: int) -> None:
    assert codes(judged(operation.replace("BASE", f"%r0+{offset}"))) == ["MF001"]
    for base in ("%r1", "%r2"):
        assert "MF001" not in codes(judged(operation.replace("BASE", f"{base}+{offset}")))


def codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.findings] if isinstance(verdict, Refuted) else []


def test_where_variables_begin_at_zero_the_same_text_goes() -> None:
    assert "MF001" not in codes(judged(INIT.replace("BASE", "%r0+16"), high=False))


def test_variables_keep_their_distances_and_alignment() -> None:
    module, kind = read(TEXT.replace("BODY", ""), "<kernel.ptx>"), target("sm_90a")
    for dynamic_bytes in (0, 1, 4096, 226 * 1024):
        low = shared_layout(module, module.kernels[0], dynamic_bytes, kind)
        high = shared_layout(module, module.kernels[0], dynamic_bytes, kind, high=True)
        assert low.reserved_bytes == 0
        assert high.reserved_bytes > 0
        assert high.reserved_bytes % 2048 == 1024
        assert high.size_bytes == high.reserved_bytes + low.size_bytes <= 1 << 18
        assert high.symbols == {name: high.reserved_bytes + at for name, at in low.symbols.items()}


def touched(write: bool, ranges: Ranges) -> list[int]:
    cluster = ClusterState(0)
    cluster.shared_memory(3).conflicts(Record(WarpActor(3, 0), 0, write, False, Span("text", 7), ranges))
    judge = BelowShared(1024)
    judge.look(cluster)
    return [finding.primary.line for finding in judge.findings() if finding.primary is not None]


@pytest.mark.parametrize("write", [False, True])
def test_the_history_of_engines_accesses(write: bool) -> None:
    assert touched(write, ((1024, 2048),)) == []
    assert touched(write, ((1020, 1024),)) == [7]
    assert touched(write, ((0, 4), (4096, 8192))) == [7]
