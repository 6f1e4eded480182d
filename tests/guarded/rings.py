"""A ring of bulk copies whose trip count is a guard's, and the bugs that show once its loop is entered.

One thread of warp 1 copies tiles into two slots; warp 0 reads them. Each slot has a full and an empty mbarrier. The
text is what NVVM makes of such a kernel: loops are tested before they are entered, waits are blocks of inline assembly.
Checked by: tests/guarded/test_guarded_kernels.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.guarded.text import BODY_END, wait

RING_BUGS = (
    "expects more than it copies",
    "expects less than it copies",
    "expects nothing",
    "never releases",
    "releases twice",
    "releases before it reads",
    "consumer's parity inverted",
    "consumer's parity never changes",
    "producer's parity inverted",
    "producer waits for nothing",
    "slots overlap",
    "reports to the other barrier",
    "consumer makes one trip more",
    "producer makes one trip more",
    "last tile has another size",
    "read before the wait",
)
ITERATION_GUARDS: Mapping[str, tuple[str, Mapping[str, int], Mapping[str, int]]] = {
    "in the last iteration": (
        "add.s32 %r_l, %r_n, -1; setp.eq.s32 %p_now, %r_i, %r_l; setp.gt.and.s32 %p_now, %r_n, 40, %p_now;",
        {"n": 41},
        {"n": 5},
    ),
    "in every fifth iteration": (
        "rem.u32 %r_l, %r_i, 5; setp.eq.s32 %p_now, %r_l, %r_m; setp.gt.and.s32 %p_now, %r_m, 2, %p_now;",
        {"n": 6, "m": 4},
        {"n": 6, "m": 64},
    ),
    "where the index meets a number": ("setp.eq.s32 %p_now, %r_i, %r_m;", {"n": 6, "m": 4}, {"n": 6, "m": 64}),
    "from an iteration on": (
        "add.s32 %r_l, %r_m, 900; setp.ge.s32 %p_now, %r_i, %r_l;",
        {"n": 6, "m": -897},
        {"n": 6, "m": 64},
    ),
    "where index and number have a product": (
        "mul.lo.s32 %r_l, %r_i, %r_m; setp.eq.s32 %p_now, %r_l, 51;",
        {"n": 6, "m": 17},
        {"n": 6, "m": 64},
    ),
    "where the index has a bit of a number": (
        "shr.u32 %r_l, %r_m, %r_i; and.b32 %r_l, %r_l, 1; setp.eq.s32 %p_now, %r_l, 1; "
        "setp.eq.and.s32 %p_now, %r_i, 9, %p_now;",
        {"n": 11, "m": 1 << 9},
        {"n": 11, "m": 64},
    ),
}
"""Conditions over the iteration: lines that compute `%p_now` from `%r_i`, a witness and numbers that are harmless."""


def ring(
    bug: str | None, before_loop: str = "", at_iteration: str | None = None, nested: bool = False, own: str = ""
) -> str:
    """The body of a ring. It loops `%r_count` times, after `before_loop`. at_iteration: the bug shows only where these
    lines leave `%p_now` true; nested: both roles have two loops, over `%r_outer` and `%r_inner`;
    own: lines with which each role computes its count by itself."""
    return f"""\
    mov.u32 %r_tid, %tid.x;
    mov.u32 %r_slots, slots;
    mov.u32 %r_bars, bars;
    setp.ne.s32 %p_a0, %r_tid, 0;
    @%p_a0 bra $L__INIT;
    mbarrier.init.shared::cta.b64 [%r_bars], 1;
    mbarrier.init.shared::cta.b64 [%r_bars+8], 1;
    mbarrier.init.shared::cta.b64 [%r_bars+16], 32;
    mbarrier.init.shared::cta.b64 [%r_bars+24], 32;
    fence.mbarrier_init.release.cluster;
$L__INIT:
    bar.sync 0;
{before_loop}
    setp.lt.u32 %p_a1, %r_tid, 32;
    @%p_a1 bra $L__CONSUMER;
    setp.ne.s32 %p_a2, %r_tid, 32;
    @%p_a2 bra {BODY_END};
{own}
{_producer(bug, at_iteration, nested)}
    bra.uni {BODY_END};
$L__CONSUMER:
{own}
{_consumer(bug, nested)}
"""


def _producer(bug: str | None, at_iteration: str | None, nested: bool) -> str:
    expected = {"expects more than it copies": 2048, "expects less than it copies": 512}.get(bug or "", 1024)
    announce = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_full], {expected};"
    if bug == "expects nothing":
        announce = "mbarrier.arrive.shared::cta.b64 _, [%r_full];"
    size = "1024"
    if at_iteration is not None:
        wrong = 1024 if bug is None else 2048
        announce = (
            f"{at_iteration}\n    selp.b32 %r_bytes, {wrong}, 1024, %p_now;\n"
            "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_full], %r_bytes;"
        )
    elif bug == "last tile has another size":
        announce = (
            "add.s32 %r_l, %r_count, -1; setp.eq.s32 %p_last, %r_i, %r_l; selp.b32 %r_bytes, 512, 1024, %p_last;\n"
            "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_full], 1024;"
        )
        size = "%r_bytes"
    parity = "" if bug == "producer's parity inverted" else "    xor.b32 %r_parity, %r_parity, 1;\n"
    room = "" if bug == "producer waits for nothing" else wait("%r_empty", "%r_parity")
    slot = "256" if bug == "slots overlap" else "1024"
    other = "    xor.b32 %r_report, %r_full, 8;\n" if bug == "reports to the other barrier" else ""
    report = "%r_report" if other else "%r_full"
    body = f"""\
    and.b32 %r_stage, %r_i, 1;
    shr.u32 %r_parity, %r_i, 1;
    and.b32 %r_parity, %r_parity, 1;
{parity}    shl.b32 %r_off, %r_stage, 3;
    add.s32 %r_full, %r_bars, %r_off;
    add.s32 %r_empty, %r_full, 16;
{room}
    {announce}
{other}    mul.lo.s32 %r_at, %r_stage, {slot};
    add.s32 %r_slot, %r_slots, %r_at;
    and.b32 %r_tile, %r_i, 63;
    mul.wide.u32 %rd_off, %r_tile, 1024;
    add.s64 %rd_from, %rd_source, %rd_off;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r_slot], [%rd_from], {size}, [{report}];
"""
    count = "%r_count"
    more = (
        "    add.s32 %r_more, %r_count, 1; setp.gt.s32 %p_some, %r_count, 0; selp.b32 %r_more, %r_more, 0, %p_some;\n"
    )
    if bug == "producer makes one trip more":
        return more + _loop("PRODUCE", body, "%r_more")
    return _nested("PRODUCE", body) if nested else _loop("PRODUCE", body, count)


def _consumer(bug: str | None, nested: bool) -> str:
    release = "    mbarrier.arrive.shared::cta.b64 _, [%r_empty];\n"
    read = "    ld.shared.b32 %r_value, [%r_mine];\n    add.s32 %r_sum, %r_sum, %r_value;\n"
    waited = wait("%r_full", "%r_parity") + "\n"
    match bug:
        case "never releases":
            steps = waited + read
        case "releases twice":
            steps = waited + read + release + release
        case "releases before it reads":
            steps = waited + release + read
        case "read before the wait":
            steps = read + waited + release
        case _:
            steps = waited + read + release
    parity = "    shr.u32 %r_parity, %r_i, 1;\n    and.b32 %r_parity, %r_parity, 1;\n"
    if bug == "consumer's parity inverted":
        parity += "    xor.b32 %r_parity, %r_parity, 1;\n"
    if bug == "consumer's parity never changes":
        parity = "    mov.b32 %r_parity, 0;\n"
    slot = "256" if bug == "slots overlap" else "1024"
    body = f"""\
    and.b32 %r_stage, %r_i, 1;
{parity}    shl.b32 %r_off, %r_stage, 3;
    add.s32 %r_full, %r_bars, %r_off;
    add.s32 %r_empty, %r_full, 16;
    mul.lo.s32 %r_at, %r_stage, {slot};
    add.s32 %r_slot, %r_slots, %r_at;
    shl.b32 %r_lane, %r_tid, 2;
    add.s32 %r_mine, %r_slot, %r_lane;
{steps}"""
    start = "    mov.b32 %r_sum, 0;\n"
    end = """\
    mul.wide.u32 %rd_lane, %r_tid, 4;
    add.s64 %rd_to, %rd_target, %rd_lane;
    st.global.b32 [%rd_to], %r_sum;
"""
    more = (
        "    add.s32 %r_more, %r_count, 1; setp.gt.s32 %p_some, %r_count, 0; selp.b32 %r_more, %r_more, 0, %p_some;\n"
    )
    if bug == "consumer makes one trip more":
        return start + more + _loop("CONSUME", body, "%r_more") + end
    count = "%r_other" if bug == "two counts" else "%r_count"
    return start + (_nested("CONSUME", body) if nested else _loop("CONSUME", body, count)) + end


def _loop(name: str, body: str, count: str) -> str:
    return f"""\
    setp.lt.s32 %p_none{name.lower()}, {count}, 1;
    @%p_none{name.lower()} bra $L__{name}_END;
    mov.b32 %r_i, 0;
$L__{name}:
{body}    add.s32 %r_i, %r_i, 1;
    setp.lt.s32 %p_go{name.lower()}, %r_i, {count};
    @%p_go{name.lower()} bra $L__{name};
$L__{name}_END:
"""


def _nested(name: str, body: str) -> str:
    return f"""\
    setp.lt.s32 %p_x{name.lower()}, %r_outer, 1;
    setp.lt.or.s32 %p_x{name.lower()}, %r_inner, 1, %p_x{name.lower()};
    @%p_x{name.lower()} bra $L__{name}_END;
    mov.b32 %r_i, 0;
    mov.b32 %r_o, 0;
$L__{name}_OUTER:
    mov.b32 %r_k, 0;
$L__{name}:
{body}    add.s32 %r_i, %r_i, 1;
    add.s32 %r_k, %r_k, 1;
    setp.lt.s32 %p_go{name.lower()}, %r_k, %r_inner;
    @%p_go{name.lower()} bra $L__{name};
    add.s32 %r_o, %r_o, 1;
    setp.lt.s32 %p_out{name.lower()}, %r_o, %r_outer;
    @%p_out{name.lower()} bra $L__{name}_OUTER;
$L__{name}_END:
"""
