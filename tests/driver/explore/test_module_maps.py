"""A tensor map that is a variable of the module is filled by the host: what it holds is no fact."""

from __future__ import annotations

import pytest
from tests.driver.hanging_kernels import judged

from tilewright.base.verdict import Proven, Refuted, Unknown


def _text(variable: str, announced: int = 1024) -> str:
    space = variable.split()[0].removeprefix(".")
    return f""".version 8.6
.target sm_90a
.address_size 64
{variable}
.visible .entry k(.param .u64 out)
.reqntid 32
{{
    .reg .pred %p<8>; .reg .b32 %r<8>; .reg .b64 %d<8>;
    .shared .align 128 .b8 slot[4096];
    .shared .align 8 .b8 bar[8];
    mov.u64 %d1, map;
    cvta.{space}.u64 %d2, %d1;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra WAIT;
    mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {announced};
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [slot], [%d2, {{%r2, %r2}}], [bar];
WAIT:
    bar.sync 0;
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra AGAIN;
    ret;
}}
"""


@pytest.mark.parametrize("space", ["const", "global"])
def test_a_map_that_the_host_fills_refutes_nothing(space: str) -> None:
    found = judged(_text(f".{space} .align 64 .b8 map[128];"))
    assert isinstance(found.verdict, Proven | Unknown), found.verdict


@pytest.mark.parametrize("space", ["const", "global"])
def test_a_map_with_a_value_is_read(space: str) -> None:
    found = judged(_text(f".{space} .align 64 .b8 map[128] = {{1, 2, 3}};"))
    assert isinstance(found.verdict, Refuted), found.verdict
