"""Small protocols behind a guard, each with bugs that show as soon as the guard holds.

The guard has left `%p_guard`; what it guards stands behind a branch, or, where a bug is in a value, is executed always
and the value is selected. Without a bug, each is free of hangs and races for all numbers.
Checked by: tests/guarded/test_guarded_kernels.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.guarded.text import BODY_END, wait

_BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
_STORE_OWN = """\
    shl.b32 %r_own, %r_tid, 2;
    add.s32 %r_word, %r_slots, %r_own;
    st.shared.b32 [%r_word], %r_tid;
"""
_READ_OTHER = """\
    xor.b32 %r_turned, %r_own, 128;
    add.s32 %r_other, %r_slots, %r_turned;
    ld.shared.b32 %r_value, [%r_other];
    mul.wide.u32 %rd_lane, %r_tid, 4;
    add.s64 %rd_to, %rd_target, %rd_lane;
    st.global.b32 [%rd_to], %r_value;
"""
_SKIP = f"    @!%p_guard bra {BODY_END};\n"


@dataclass(frozen=True, slots=True)
class Section:
    """A protocol. text: the body for one of `bugs`, or None for none; threads, cluster: of its launch; uniform: whether
    all CTAs must take the same way."""

    name: str
    bugs: tuple[str, ...]
    text: Callable[[str | None], str]
    threads: int = 64
    cluster: int = 1
    uniform: bool = False


def _start(count: str = "1") -> str:
    return f"""\
    mov.u32 %r_tid, %tid.x;
    mov.u32 %r_slots, slots;
    mov.u32 %r_bars, bars;
    setp.eq.s32 %p_first, %r_tid, 0;
    setp.ne.s32 %p_a0, %r_tid, 0;
    @%p_a0 bra $L__INIT;
    mbarrier.init.shared::cta.b64 [%r_bars], {count};
    mbarrier.init.shared::cta.b64 [%r_bars+8], 1;
    fence.mbarrier_init.release.cluster;
$L__INIT:
    bar.sync 0;
"""


def _copy_in(announce: str, size: str = "1024", report: str = "%r_bars") -> str:
    return f"""\
    @%p_a0 bra $L__COPIED;
    {announce}
    {_BULK} [%r_slots], [%rd_source], {size}, [{report}];
$L__COPIED:
"""


def _copy(bug: str | None) -> str:
    expected = 2048 if bug == "expects more" else 1024
    announce = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bars], {expected};"
    if bug == "not announced":
        announce = "mbarrier.arrive.shared::cta.b64 _, [%r_bars];"
    if bug == "no arrival":
        announce = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r_bars], 1024;"
    size = "512" if bug == "copies less" else "1024"
    report = "%r_bars+8" if bug == "reports elsewhere" else "%r_bars"
    waited = "" if bug == "not waited for" else wait("%r_bars", "1" if bug == "wrong parity" else "0") + "\n"
    own = "    shl.b32 %r_own, %r_tid, 2;\n"
    return _start() + _SKIP + _copy_in(announce, size, report) + waited + own + _READ_OTHER


def _predicated_copy(bug: str | None) -> str:
    """As `_copy`, with predicates instead of branches."""
    expected = 4096 if bug == "expects more" else 1024
    announce = f"    @%p_mine mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bars], {expected};\n"
    if bug == "not announced":
        announce = ""
    report = "%r_bars+8" if bug == "reports elsewhere" else "%r_bars"
    return f"""{_start()}\
    and.pred %p_mine, %p_first, %p_guard;
    not.pred %p_idle, %p_guard;
{announce}\
    @%p_mine {_BULK} [%r_slots], [%rd_source], 1024, [{report}];
    @%p_idle bra {BODY_END};
{wait("%r_bars", "0")}
    shl.b32 %r_own, %r_tid, 2;
{_READ_OTHER}"""


def _store(bug: str | None) -> str:
    fence = "" if bug == "no proxy fence" else "    fence.proxy.async.shared::cta;\n"
    barrier = "" if bug == "no barrier" else "    bar.sync 0;\n"
    commit = "" if bug == "not committed" else "    cp.async.bulk.commit_group;\n"
    waited = {
        "not waited for": "",
        "waits for all but one": "    cp.async.bulk.wait_group.read 1;\n",
    }.get(bug or "", "    cp.async.bulk.wait_group.read 0;\n")
    early = "    st.shared.b32 [%r_slots], %r_tid;\n" if bug == "overwritten early" else ""
    return f"""{_start()}{_SKIP}{_STORE_OWN}{fence}{barrier}\
    @%p_a0 bra {BODY_END};
    cp.async.bulk.global.shared::cta.bulk_group [%rd_target], [%r_slots], 256;
{commit}{early}{waited}"""


def _named(bug: str | None) -> str:
    count = 96 if bug == "counts a warp more" else 64
    arrive = "" if bug == "nobody arrives" else f"    bar.arrive 1, {64 if count == 96 else count};\n"
    if bug == "arrives at another":
        arrive = "    bar.arrive 2, 64;\n"
    if bug == "arrives twice":
        arrive = "    bar.arrive 1, 64;\n    bar.arrive 1, 64;\n"
    order = _STORE_OWN_WARP if bug != "arrives before it stores" else ""
    late = _STORE_OWN_WARP if bug == "arrives before it stores" else ""
    return f"""{_start()}{_SKIP}\
    shl.b32 %r_own, %r_tid, 2;
    setp.lt.u32 %p_reader, %r_tid, 32;
    @%p_reader bra $L__READER;
{order}{arrive}{late}    bra.uni {BODY_END};
$L__READER:
    bar.sync 1, {count};
{_READ_OTHER}"""


_STORE_OWN_WARP = "    add.s32 %r_word, %r_slots, %r_own;\n    st.shared.b32 [%r_word], %r_tid;\n"


def _exchange(bug: str | None) -> str:
    """Threads of two warps exchange words through shared memory."""
    barrier = "" if bug == "no barrier" else "    bar.sync 0;\n"
    if bug == "only one warp meets":
        barrier = "    setp.lt.u32 %p_half, %r_tid, 32;\n    @%p_half bra $L__MET;\n    bar.sync 0;\n$L__MET:\n"
    if bug == "a warp's barrier":
        barrier = "    bar.warp.sync -1;\n"
    return _start() + _SKIP + _STORE_OWN + barrier + _READ_OTHER


def _cp_async(bug: str | None) -> str:
    commit = "" if bug == "not committed" else "    cp.async.commit_group;\n"
    waited = {"not waited for": "", "waits for all but one": "    cp.async.wait_group 1;\n"}.get(
        bug or "", "    cp.async.wait_group 0;\n"
    )
    if bug == "waits after the barrier":
        barrier = "    bar.sync 0;\n" + waited
        waited = ""
    else:
        barrier = "" if bug == "no barrier" else "    bar.sync 0;\n"
    return f"""{_start()}{_SKIP}\
    shl.b32 %r_piece, %r_tid, 4;
    add.s32 %r_word, %r_slots, %r_piece;
    cvt.u64.u32 %rd_piece, %r_piece;
    add.s64 %rd_from, %rd_source, %rd_piece;
    cp.async.cg.shared.global [%r_word], [%rd_from], 16;
{commit}{waited}{barrier}\
    shl.b32 %r_own, %r_tid, 2;
    xor.b32 %r_turned, %r_own, 128;
    shl.b32 %r_turned, %r_turned, 2;
    add.s32 %r_other, %r_slots, %r_turned;
    ld.shared.b32 %r_value, [%r_other];
    mul.wide.u32 %rd_lane, %r_tid, 4;
    add.s64 %rd_to, %rd_target, %rd_lane;
    st.global.b32 [%rd_to], %r_value;
"""


def _two_phases(bug: str | None) -> str:
    """Two phases of one barrier; the second must not come before all have seen the first."""
    between = "" if bug == "second phase unordered" else "    bar.sync 0;\n"
    parity = "0" if bug == "second wait for the first phase" else "1"
    second = "" if bug == "second arrival missing" else "    mbarrier.arrive.shared::cta.b64 _, [%r_bars];\n"
    if bug == "a third arrival":
        second += second
    return f"""{_start()}{_SKIP}\
    @%p_a0 bra $L__FIRST;
    mbarrier.arrive.shared::cta.b64 _, [%r_bars];
$L__FIRST:
{wait("%r_bars", "0")}
{between}    @%p_a0 bra $L__SECOND;
    shl.b32 %r_own, %r_tid, 2;
    st.shared.b32 [%r_slots], %r_tid;
{second}$L__SECOND:
{wait("%r_bars", parity)}
    ld.shared.b32 %r_value, [%r_slots];
    mul.wide.u32 %rd_lane, %r_tid, 4;
    add.s64 %rd_to, %rd_target, %rd_lane;
    st.global.b32 [%rd_to], %r_value;
"""


def _peers(bug: str | None) -> str:
    """Each of two CTAs arrives at the other's barrier."""
    arrive = """\
    mapa.shared::cluster.u32 %r_remote, %r_bars, %r_peer;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r_remote];
"""
    if bug == "no remote arrival":
        arrive = ""
    if bug == "arrives twice":
        arrive += "    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r_remote];\n"
    if bug == "arrives at itself":
        arrive = "    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r_bars+8];\n"
    meet = "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n"
    leave = "" if bug == "leaves at once" else meet
    waited = (
        ""
        if bug == "leaves at once"
        else wait("%r_bars", "0").replace("parity.shared", "parity.acquire.cluster.shared") + "\n"
    )
    return f"""{_start()}\
    mov.u32 %r_rank, %cluster_ctarank;
    xor.b32 %r_peer, %r_rank, 1;
{meet}{_SKIP}\
    @%p_a0 bra $L__ARRIVED;
{arrive}$L__ARRIVED:
{waited}{leave}"""


_SMEM_DESCRIPTOR = """\
    shr.u32 %r_desc, %r_slots, 4;
    and.b32 %r_desc, %r_desc, 16383;
    cvt.u64.u32 %rd_desc, %r_desc;
    or.b64 %rd_descriptor, %rd_desc, 4611686293372403712;
"""


def _product(bug: str | None) -> str:
    """A wgmma of 64x8x16 whose operands are overwritten, and its sums stored, when it is done."""
    fence = "" if bug == "no proxy fence" else "    fence.proxy.async.shared::cta;\n"
    first = "" if bug == "no wgmma fence" else "    wgmma.fence.sync.aligned;\n"
    commit = "" if bug == "not committed" else "    wgmma.commit_group.sync.aligned;\n"
    waited = {
        "not waited for": "",
        "waits for all but one": "    wgmma.wait_group.sync.aligned 1;\n",
    }.get(bug or "", "    wgmma.wait_group.sync.aligned 0;\n")
    early = ""
    if bug == "operands overwritten early":
        early = "    st.shared.b32 [%r_word], %r_value;\n"
    sums = ", ".join(f"%f_s{index}" for index in range(4))
    zeros = "".join(f"    mov.f32 %f_s{index}, 0f00000000;\n" for index in range(4))
    stores = "".join(f"    st.global.f32 [%rd_to+{4 * index}], %f_s{index};\n" for index in range(4))
    fill = "".join(f"    st.shared.b32 [%r_word+{512 * index}], %r_tid;\n" for index in range(16))
    return f"""{_start()}{_SKIP}{_SMEM_DESCRIPTOR}\
    shl.b32 %r_own, %r_tid, 2;
    add.s32 %r_word, %r_slots, %r_own;
    mov.b32 %r_value, 1;
{fill}{fence}    bar.sync 0;
{zeros}{first}\
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{sums}}}, %rd_descriptor, %rd_descriptor, 1, 1, 1, 0, 0;
{commit}{early}{waited}\
    bar.sync 0;
    st.shared.b32 [%r_word], %r_value;
    mul.wide.u32 %rd_lane, %r_tid, 16;
    add.s64 %rd_to, %rd_target, %rd_lane;
{stores}"""


def _chosen_bytes(bug: str | None) -> str:
    more = 1024 if bug is None else 2048
    announce = (
        f"selp.b32 %r_bytes, {more}, 1024, %p_guard;\n"
        "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bars], %r_bytes;"
    )
    own = "    shl.b32 %r_own, %r_tid, 2;\n"
    return _start() + _copy_in(announce) + wait("%r_bars", "0") + "\n" + own + _READ_OTHER


def _chosen_size(bug: str | None) -> str:
    announce = (
        "selp.b32 %r_bytes, 2048, 1024, %p_guard;\n"
        f"    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bars], {'1024' if bug else '%r_bytes'};"
    )
    own = "    shl.b32 %r_own, %r_tid, 2;\n"
    return _start() + _copy_in(announce, "%r_bytes") + wait("%r_bars", "0") + "\n" + own + _READ_OTHER


def _chosen_parity(bug: str | None) -> str:
    choose = "    selp.b32 %r_parity, 1, 0, %p_guard;\n" if bug else "    selp.b32 %r_parity, 0, 0, %p_guard;\n"
    announce = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bars], 1024;"
    own = "    shl.b32 %r_own, %r_tid, 2;\n"
    return _start() + choose + _copy_in(announce) + wait("%r_bars", "%r_parity") + "\n" + own + _READ_OTHER


def _chosen_barrier(bug: str | None) -> str:
    choose = "    add.s32 %r_second, %r_bars, 8;\n    selp.b32 %r_chosen, %r_second, %r_bars, %p_guard;\n"
    waited = "%r_bars" if bug == "waits for the other" else "%r_chosen"
    report = "%r_bars" if bug == "reports to the other" else "%r_chosen"
    announce = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_chosen], 1024;"
    own = "    shl.b32 %r_own, %r_tid, 2;\n"
    return _start() + choose + _copy_in(announce, "1024", report) + wait(waited, "0") + "\n" + own + _READ_OTHER


def _chosen_count(bug: str | None) -> str:
    start = _start("%r_arrivals").replace(
        "    @%p_a0 bra $L__INIT;", "    selp.b32 %r_arrivals, 2, 1, %p_guard;\n    @%p_a0 bra $L__INIT;"
    )
    second = "" if bug else "    @%p_guard mbarrier.arrive.shared::cta.b64 _, [%r_bars];\n"
    announce = f"{second}mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bars], 1024;"
    own = "    shl.b32 %r_own, %r_tid, 2;\n"
    return start + _copy_in(announce) + wait("%r_bars", "0") + "\n" + own + _READ_OTHER


def _chosen_threads(bug: str | None) -> str:
    """The thread count of a named barrier is selected."""
    return f"""{_start()}\
    selp.b32 %r_threads, {"96" if bug else "64"}, 64, %p_guard;
{_STORE_OWN}    bar.sync 1, %r_threads;
{_READ_OTHER}"""


def _chosen_place(bug: str | None) -> str:
    """Where a warp writes is selected: the other's words, or its own."""
    shift = 0 if bug else 256
    return f"""{_start()}\
    selp.b32 %r_shift, {shift}, 256, %p_guard;
    shl.b32 %r_own, %r_tid, 2;
    add.s32 %r_word, %r_slots, %r_own;
    st.shared.b32 [%r_word], %r_tid;
    bar.sync 0;
    xor.b32 %r_turned, %r_own, 128;
    add.s32 %r_other, %r_slots, %r_turned;
    ld.shared.b32 %r_value, [%r_other];
    add.s32 %r_next, %r_word, %r_shift;
    st.shared.b32 [%r_next], %r_value;
    mul.wide.u32 %rd_lane, %r_tid, 4;
    add.s64 %rd_to, %rd_target, %rd_lane;
    st.global.b32 [%rd_to], %r_value;
"""


SECTIONS = (
    Section(
        "bulk copy",
        (
            "expects more",
            "not announced",
            "no arrival",
            "copies less",
            "reports elsewhere",
            "not waited for",
            "wrong parity",
        ),
        _copy,
    ),
    Section("predicated copy", ("expects more", "reports elsewhere", "not announced"), _predicated_copy),
    Section(
        "bulk store",
        (
            "no proxy fence",
            "no barrier",
            "not committed",
            "not waited for",
            "waits for all but one",
            "overwritten early",
        ),
        _store,
    ),
    Section(
        "named barrier",
        ("counts a warp more", "nobody arrives", "arrives at another", "arrives before it stores"),
        _named,
    ),
    Section("exchange", ("no barrier", "only one warp meets", "a warp's barrier"), _exchange),
    Section(
        "cp.async",
        ("not committed", "not waited for", "waits for all but one", "waits after the barrier", "no barrier"),
        _cp_async,
    ),
    Section(
        "two phases",
        ("second phase unordered", "second wait for the first phase", "second arrival missing", "a third arrival"),
        _two_phases,
    ),
    Section(
        "cluster peers", ("no remote arrival", "arrives at itself", "leaves at once"), _peers, cluster=2, uniform=True
    ),
    Section(
        "wgmma",
        (
            "no proxy fence",
            "no wgmma fence",
            "not committed",
            "not waited for",
            "waits for all but one",
            "operands overwritten early",
        ),
        _product,
        threads=128,
    ),
)
"""Protocols behind a branch."""
CHOICES = (
    Section("selected bytes expected", ("other bytes",), _chosen_bytes),
    Section("selected bytes copied", ("other bytes",), _chosen_size),
    Section("selected parity", ("other parity",), _chosen_parity),
    Section("selected barrier", ("waits for the other", "reports to the other"), _chosen_barrier),
    Section("selected arrivals", ("more than arrive",), _chosen_count),
    Section("selected threads", ("more than there are",), _chosen_threads),
    Section("selected address", ("of another warp's reads",), _chosen_place),
)
"""Protocols in which a value is selected."""
SHARED = ".shared .align 1024 .b8 slots[8192];\n.shared .align 8 .b8 bars[64];"
SECTION_NAMES: Mapping[str, Section] = {each.name: each for each in (*SECTIONS, *CHOICES)}
