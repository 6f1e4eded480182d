"""Kernels of one warp that wait forever where a condition holds: nobody arrives on the barrier."""

from __future__ import annotations

from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.explore.judge_unlaunched import UnlaunchedJudgement, judge_unlaunched
from tilewright.driver.explore.search.exploration import DEFAULT_EFFORT, Effort
from tilewright.frontends.ptx.reader import read


def hanging(condition: str, *, before: str = "") -> str:
    """Waits where `condition` makes %p1 true. Of `n` and `m` in %r1 and %r2, `data` in %d1, %tid.x in %r3."""
    return f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u32 m, .param .u64 data)
.reqntid 32
{{
    .reg .pred %p<16>; .reg .b32 %r<40>; .reg .b64 %d<16>;
    .shared .align 8 .b8 bar[16];
    ld.param.u32 %r1, [n];
    ld.param.u32 %r2, [m];
    ld.param.u64 %d1, [data];
    mov.u32 %r3, %tid.x;
    setp.eq.u32 %p8, %r3, 0;
    @%p8 mbarrier.init.shared::cta.b64 [bar], 1;
    @%p8 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    {before}
    {condition}
    @!%p1 bra DONE;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p9, [bar], 0;
    @!%p9 bra WAIT;
DONE:
    ret;
}}
"""


def judged(text: str, effort: Effort = DEFAULT_EFFORT) -> UnlaunchedJudgement:
    module = read(text, "k.ptx")
    return judge_unlaunched(module, module.kernels[0], tolerant(), effort=effort)
