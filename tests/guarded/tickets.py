"""Tiles by ticket: one thread takes the next from a counter in global memory and shares it, until there are no more.

`%r_count` is how many tiles there are; the counter may start at any of them. Each tile is one bulk copy, whose barrier
has a phase for each tile that this CTA takes. The order in which CTAs get tickets is open; each gets others.
Checked by: tests/guarded/test_guarded_kernels.py.
"""

from __future__ import annotations

from tests.guarded.text import BODY_END, wait

TICKET_BUGS = (
    "expects more than it copies",
    "ticket rewritten while it is read",
    "ticket read before it is shared",
    "parity of the ticket",
    "copy without an announcement",
)


def tickets(bug: str | None, before_loop: str) -> str:
    """The body; `before_loop` computes `%r_count`."""
    parity = "%r_ticket" if bug == "parity of the ticket" else "%r_turn"
    shared = "" if bug == "ticket read before it is shared" else "    bar.sync 0;\n"
    announce = {
        "expects more than it copies": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bars], 2048;",
        "copy without an announcement": "mbarrier.arrive.shared::cta.b64 _, [%r_bars];",
    }.get(bug or "", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bars], 1024;")
    read = "    add.s32 %r_word, %r_slots, %r_lane;\n    ld.shared.b32 %r_value, [%r_word];\n"
    read += "    add.s32 %r_sum, %r_sum, %r_value;\n"
    done = read + "    bar.sync 0;\n"
    if bug == "ticket rewritten while it is read":
        done = read
    return f"""\
    mov.u32 %r_tid, %tid.x;
    mov.u32 %r_slots, slots;
    mov.u32 %r_bars, bars;
    shl.b32 %r_lane, %r_tid, 2;
    setp.ne.s32 %p_a0, %r_tid, 0;
    @%p_a0 bra $L__INIT;
    mbarrier.init.shared::cta.b64 [%r_bars], 1;
    fence.mbarrier_init.release.cluster;
$L__INIT:
    bar.sync 0;
{before_loop}
    mov.b32 %r_turn, 0;
    mov.b32 %r_sum, 0;
$L__NEXT:
    @%p_a0 bra $L__TAKEN;
    atom.global.add.u32 %r_taken, [%rd_data], 1;
    st.shared.b32 [%r_bars+16], %r_taken;
$L__TAKEN:
{shared}    ld.shared.b32 %r_ticket, [%r_bars+16];
    setp.ge.s32 %p_over, %r_ticket, %r_count;
    @%p_over bra $L__OVER;
    @%p_a0 bra $L__COPIED;
    and.b32 %r_tile, %r_ticket, 63;
    mul.wide.u32 %rd_off, %r_tile, 1024;
    add.s64 %rd_from, %rd_source, %rd_off;
    {announce}
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r_slots], [%rd_from], 1024, [%r_bars];
$L__COPIED:
    and.b32 %r_parity, {parity}, 1;
{wait("%r_bars", "%r_parity")}
{done}    add.s32 %r_turn, %r_turn, 1;
    bra.uni $L__NEXT;
$L__OVER:
    mul.wide.u32 %rd_lane, %r_tid, 4;
    add.s64 %rd_to, %rd_target, %rd_lane;
    st.global.b32 [%rd_to], %r_sum;
    bra.uni {BODY_END};
"""
