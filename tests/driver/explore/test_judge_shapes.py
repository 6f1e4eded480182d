"""Verdicts of shapes, combined: what each shape shows is made up here, and tried with whole kernels below."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.base.check_report import KernelReport
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.explore.judge_shapes import judge_shapes
from tilewright.driver.explore.judge_unlaunched import UnlaunchedJudgement
from tilewright.driver.launch.launch_shapes import Choices, LaunchShapes, Shape

PROVEN = Proven("all trip counts", ("the pointers are distinct",))
UNKNOWN = Unknown(("a reason",))
ONE = Choices(((64, 1, 1),))
SEVERAL = Choices(((1, 1, 1), (2, 1, 1), (4, 1, 1)), ((8, 1, 1),), fixed=False)
GENERIC = Choices(SEVERAL.likely, SEVERAL.others, fixed=False, generic=True)


def refuted(code: str = "NB101", line: int = 7, message: str = "a race", name: str = "") -> Refuted:
    return Refuted((Diagnostic(code, name, message, Span("k.ptx", line, 1)),))


def by_block(judgements: Mapping[int, Verdict | UnlaunchedJudgement], blocks: Choices) -> tuple[Verdict, list[int]]:
    """The verdict, and the blocks that were tried, where a block of so many threads has this verdict."""
    tried: list[int] = []

    def judge(shape: Shape, _ends: object, _effort: object) -> UnlaunchedJudgement:
        tried.append(shape.block[0])
        found = judgements[shape.block[0]]
        return found if isinstance(found, UnlaunchedJudgement) else UnlaunchedJudgement(found, (), 1)

    return judge_shapes(LaunchShapes(blocks, Choices(((1, 1, 1),))), judge).verdict, tried


def combined(verdicts: Mapping[int, Verdict], clusters: Choices = SEVERAL) -> tuple[Verdict, list[int]]:
    """The verdict, and the clusters that were tried, where a cluster of so many CTAs has this verdict."""
    tried: list[int] = []

    def judge(shape: Shape, _ends: object, _effort: object) -> UnlaunchedJudgement:
        tried.append(shape.cluster[0])
        verdict = verdicts[shape.cluster[0]]
        return UnlaunchedJudgement(verdict, (), 1)

    return judge_shapes(LaunchShapes(ONE, clusters), judge).verdict, tried


def test_a_proof_says_for_which_clusters_it_holds() -> None:
    verdict, tried = combined({1: PROVEN, 2: PROVEN, 4: PROVEN}, GENERIC)
    assert isinstance(verdict, Proven) and tried == [1, 2, 4]
    assert verdict.assumptions[0] == (
        "clusters of 1 CTA, clusters of 2 CTAs or clusters of 4 CTAs, since no directive fixes it"
    )


def test_a_kernel_for_any_cluster_is_not_proven_for_some() -> None:
    verdict, _ = combined({1: PROVEN, 2: refuted(), 4: refuted()}, GENERIC)
    assert isinstance(verdict, Unknown)
    assert any("with clusters of 1 CTA it is proven" in reason for reason in verdict.reasons)
    assert any("clusters of 2 CTAs NB101 a race" in reason for reason in verdict.reasons)
    assert all("give --cluster" in reason for reason in verdict.reasons)
    verdict, tried = combined({1: PROVEN, 2: UNKNOWN}, GENERIC)
    assert isinstance(verdict, Unknown) and "a reason" in verdict.reasons and tried == [1, 2]


def test_a_kernel_of_one_shape_is_proven_for_it_and_the_others_are_named() -> None:
    verdict, _ = combined({1: refuted("MB113", 9, "a hang"), 2: PROVEN, 4: PROVEN})
    assert isinstance(verdict, Proven)
    assert verdict.assumptions[:2] == (
        "clusters of 2 CTAs or clusters of 4 CTAs, since no directive fixes it",
        "not clusters of 1 CTA (launched so, the kernel fails with MB113 at k.ptx:9)",
    )


def test_only_a_shape_whose_counts_are_not_met_is_left_out() -> None:
    for failing in (refuted("NB101"), refuted("MB101", 9, "not live")):
        assert isinstance(combined({1: failing, 2: PROVEN, 4: PROVEN})[0], Unknown)
        assert isinstance(combined({1: PROVEN, 2: failing, 4: PROVEN})[0], Unknown)
    both = Refuted((*refuted("MB113", 9, "a hang").findings, *refuted().findings))
    assert isinstance(combined({1: both, 2: PROVEN, 4: PROVEN})[0], Unknown)
    # A kernel that asks how many CTAs there are should meet its counts with any number of them.
    assert isinstance(combined({1: refuted("MB113"), 2: PROVEN, 4: PROVEN}, GENERIC)[0], Unknown)


def test_a_kernel_that_stands_apart_has_clusters_of_one() -> None:
    early = refuted("CL102", 9, "reaches into CTA 1, which may not have started")

    def judge(shape: Shape, _ends: object, _effort: object) -> UnlaunchedJudgement:
        return UnlaunchedJudgement({1: PROVEN, 2: early, 4: early}[shape.cluster[0]], (), 1)

    verdict = judge_shapes(LaunchShapes(ONE, SEVERAL, apart=True), judge).verdict
    assert isinstance(verdict, Proven)
    assert verdict.assumptions[:2] == (
        "clusters of 1 CTA, since no directive fixes it",
        "not clusters of 2 CTAs (launched so, the kernel fails with CL102 at k.ptx:9)",
    )
    # One that waits for other CTAs somewhere is for several, and does so too late.
    assert isinstance(judge_shapes(LaunchShapes(ONE, SEVERAL), judge).verdict, Unknown)
    # What else goes wrong in a cluster of two counts.
    for other in (refuted("MB113"), refuted("NB101")):
        judged = {1: UnlaunchedJudgement(PROVEN, (), 1), 2: UnlaunchedJudgement(other, (), 1, clean=True)}
        verdict = judge_shapes(
            LaunchShapes(ONE, SEVERAL, apart=True), lambda shape, _e, _f, by=judged: by[shape.cluster[0]]
        ).verdict
        assert isinstance(verdict, Unknown), other


TWO_BLOCKS = Choices(((128, 1, 1), (256, 1, 1)), fixed=False, generic=True, proposed=((384, 1, 1), (512, 1, 1)))
HANG = refuted("MB113", 9, "0 of 128 arrivals")


def test_a_guessed_block_whose_counts_are_not_met_refutes_nothing() -> None:
    for code in ("MB113", "MB114", "NB103", "NB202", "SR101", "SR102", "MF001"):
        one = Choices(TWO_BLOCKS.likely, fixed=False, generic=True)
        verdict, _ = by_block({128: refuted(code), 256: refuted(code)}, one)
        assert isinstance(verdict, Unknown) and all("give --block" in reason for reason in verdict.reasons), code
        fixed = Choices(((128, 1, 1),))
        assert isinstance(by_block({128: refuted(code)}, fixed)[0], Refuted)


def test_a_finding_of_a_warps_own_order_refutes_at_guessed_blocks() -> None:
    early = refuted("WG104", 12, "a register of a wgmma in flight is read")
    assert isinstance(by_block({128: early, 256: early}, TWO_BLOCKS)[0], Refuted)
    both = Refuted((*HANG.findings, *early.findings))
    verdict, _ = by_block({128: both, 256: both}, TWO_BLOCKS)
    assert isinstance(verdict, Refuted) and [each.code for each in verdict.findings] == ["WG104"]


def test_bytes_refute_if_every_block_lacks_equally_many() -> None:
    def lacking(have: int, who: str) -> Refuted:
        return refuted("TX104", 9, f"{who} wait forever: 1 of 1 arrival, {have} of 2048 bytes")

    other = {384: HANG, 512: HANG}
    assert isinstance(by_block({128: lacking(1024, "a"), 256: lacking(1024, "b"), **other}, TWO_BLOCKS)[0], Refuted)
    assert isinstance(by_block({128: lacking(512, "a"), 256: lacking(1024, "b"), **other}, TWO_BLOCKS)[0], Unknown)


def test_blocks_are_proposed_where_no_likely_one_meets_the_counts() -> None:
    verdict, tried = by_block({128: HANG, 256: HANG, 384: PROVEN}, TWO_BLOCKS)
    assert isinstance(verdict, Proven) and tried == [128, 256, 384]
    assert verdict.assumptions[:2] == (
        "a block of 384 threads, since no directive fixes it",
        "not a block of 128 threads (launched so, the kernel fails with MB113 at k.ptx:9)",
    )
    assert by_block({128: HANG, 256: PROVEN}, TWO_BLOCKS)[1] == [128, 256]


def test_registers_that_no_warp_gives_back_leave_a_block_out() -> None:
    verdict, _ = by_block({128: PROVEN, 256: refuted("SR102", 3, "waits for registers")}, TWO_BLOCKS)
    assert isinstance(verdict, Proven)
    assert verdict.assumptions[1].startswith("not a block of 256 threads (launched so, the kernel fails with SR102 at")


def test_a_hang_that_larger_numbers_do_not_show_leaves_no_block_out() -> None:
    odd = UnlaunchedJudgement(HANG, (), 1, clean=True)
    assert isinstance(by_block({128: odd, 256: PROVEN}, TWO_BLOCKS)[0], Unknown)


def test_a_proof_holds_for_the_shapes_that_were_not_explored_shortly() -> None:
    spent = UnlaunchedJudgement(UNKNOWN, (), 8, spent=True)
    verdict, _ = by_block({128: PROVEN, 256: spent}, TWO_BLOCKS)
    assert isinstance(verdict, Proven)
    assert verdict.assumptions[0] == "a block of 128 threads, since no directive fixes it"
    assert isinstance(by_block({128: PROVEN, 256: UNKNOWN}, TWO_BLOCKS)[0], Unknown)
    assert isinstance(by_block({128: spent, 256: PROVEN}, TWO_BLOCKS)[0], Unknown)


def test_a_finding_of_every_shape_refutes() -> None:
    verdict, tried = combined(dict.fromkeys((1, 2, 4, 8), refuted()))
    assert isinstance(verdict, Refuted) and tried == [1, 2, 4, 8]
    assert verdict.findings[0].interleaving == (
        "at each of clusters of 1 CTA, clusters of 2 CTAs, clusters of 4 CTAs or clusters of 8 CTAs",
    )


def test_findings_that_differ_refute_nothing() -> None:
    assert isinstance(combined({1: refuted(), 2: refuted(line=8), 4: refuted()})[0], Unknown)
    assert isinstance(combined({1: refuted(), 2: refuted(), 4: refuted(), 8: refuted(line=8)})[0], Unknown)


def test_one_shape_alone_refutes_nothing() -> None:
    alone = Choices(((2, 1, 1),), fixed=False)
    assert isinstance(combined({2: refuted()}, alone)[0], Unknown)


def test_shapes_that_are_no_launch_are_left_out() -> None:
    no_pair = refuted("TC211", 3, "no CTA has rank 1")
    verdict, _ = combined({1: no_pair, 2: refuted(), 4: refuted(), 8: refuted()})
    assert isinstance(verdict, Refuted) and verdict.findings[0].code == "NB101"
    verdict, _ = combined({1: no_pair, 2: PROVEN, 4: PROVEN}, GENERIC)
    assert isinstance(verdict, Proven)
    said = "not clusters of 1 CTA (launched so, the kernel fails with TC211"
    assert any(line.startswith(said) for line in verdict.assumptions)


def test_a_mask_says_how_many_ctas_are_needed() -> None:
    mask = refuted("CL202", 3, "multicast mask 0x1111 in a cluster of 1 CTAs")
    verdict, tried = combined({1: mask, 16: PROVEN})
    assert isinstance(verdict, Proven) and tried == [1, 16]
    assert verdict.assumptions[0] == "clusters of 16 CTAs, since no directive fixes it"
    far = refuted("MF001", 3, "address 0x3000000 names CTA rank 3, not in the cluster", "foreign-shared-memory")
    assert combined({1: far, 4: PROVEN})[1] == [1, 4]


def test_a_kernel_that_fits_no_shape_is_refuted_by_that() -> None:
    mask = refuted("CL202", 3, "multicast mask 0x0 in a cluster of 2 CTAs")
    assert isinstance(combined(dict.fromkeys((1, 2, 4, 8), mask))[0], Refuted)


# ---------------------------------------------------------------- kernels

_GROUPS = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry groups(.param .u32 n)
{
    .shared .align 8 .b64 bars[3];
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 7;
    mov.u32 %r3, bars;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r3], 128;
    @%p1 mbarrier.init.shared::cta.b64 [%r3+8], 128;
    @%p1 mbarrier.init.shared::cta.b64 [%r3+16], 128;
    bar.sync 0;
    ld.param.u32 %r9, [n];
    shl.b32 %r4, %r2, 3;
    add.s32 %r5, %r3, %r4;
    add.s32 %r6, %r2, 1;
    setp.eq.u32 %p2, %r6, 3;
    selp.b32 %r6, 0, %r6, %p2;
    shl.b32 %r7, %r6, 3;
    add.s32 %r8, %r3, %r7;
    mov.u32 %r10, 0;
    setp.eq.u32 %p3, %r2, 0;
    selp.b32 %r11, 1, 0, %p3;
LOOP:
    setp.ge.u32 %p1, %r10, %r9;
    @%p1 bra END;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], %r11;
    @!%p2 bra WAIT;
    xor.b32 %r11, %r11, 1;
    mbarrier.arrive.shared::cta.b64 _, [%r8];
    add.u32 %r10, %r10, 1;
    bra LOOP;
END:
    ret;
}
"""
"""Three groups of 128 threads go one after the other: right with 384 threads alone, which no constant says."""


def test_a_block_is_found_at_which_every_group_is_there() -> None:
    (report,) = check_text(_GROUPS).kernels
    assert report.verdict == "proven", report.reasons
    assert "a block of 384 threads, since no directive fixes it" in report.assumptions
    (report,) = check_text(_GROUPS.replace("mbarrier.arrive.shared::cta.b64 _, [%r8];", "")).kernels
    assert report.verdict == "unknown" and any("give --block" in reason for reason in report.reasons)


_KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 source) .reqntid 32
{{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b8 full[8];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %cluster_ctarank;
    ld.param.u64 %rd1, [source];
    setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.shared::cta.b64 [full], 1;
    @!%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {expected};
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra WAIT;
    mov.u32 %r3, tile;
    mov.u32 %r4, full;
    mov.b16 %h1, {mask};
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r3], [%rd1], 1024, [%r4], %h1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;
    @!%p3 bra WAIT;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
}}
""".replace("    .reg .b32", "    .reg .b16 %h<2>;\n    .reg .b32")


def kernel(mask: int = 3, expected: int = 1024) -> str:
    return _KERNEL.format(mask=mask, expected=expected)


def test_a_multicast_is_checked_with_its_width() -> None:
    (report,) = check_text(kernel()).kernels
    assert report.verdict == "proven", report.reasons
    assert "clusters of 2 CTAs, since no directive fixes it" in report.assumptions


def test_a_bug_of_every_width_is_refuted() -> None:
    (report,) = check_text(kernel(expected=2048)).kernels
    assert report.verdict == "refuted" and report.errors[0].code.startswith("TX")


def test_a_cluster_that_is_given_is_the_only_one() -> None:
    (report,) = check_text(kernel(), options=CheckOptions(cluster=(1, 1, 1))).kernels
    assert report.verdict == "refuted" and report.errors[0].code == "CL202"
    (report,) = check_text(kernel(), options=CheckOptions(cluster=(2, 1, 1))).kernels
    assert report.verdict == "proven" and not any("cluster" in line for line in report.assumptions)


_ASSERTS = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry asserts(.param .u32 n)
{
    .reg .pred %p<9>; .reg .b32 %r<9>;
    .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %cluster_nctaid.x;
    setp.eq.u32 %p1, %r1, {ctas};
    ld.param.u32 %r2, [n];
    setp.eq.u32 %p2, %r2, {also};
    or.pred %p1, %p1, %p2;
    @%p1 bra FINE;
    trap;
FINE:
    mov.u32 %r3, %tid.x;
    setp.eq.u32 %p3, %r3, 0;
    @%p3 mbarrier.init.shared::cta.b64 [bar], 1;
    bar.sync 0;
    @%p3 mbarrier.arrive.shared::cta.b64 _, [bar];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], {parity};
    @!%p4 bra WAIT;
    ret;
}
"""


def asserting(ctas: int, parity: int = 0, also: int = 37) -> KernelReport:
    text = _ASSERTS.replace("{ctas}", str(ctas)).replace("{parity}", str(parity)).replace("{also}", str(also))
    if also < 0:
        text = text.replace("setp.eq.u32 %p2, %r2, -1;", "setp.lt.u32 %p2, %r2, 0;")
    (report,) = check_text(text).kernels
    return report


def test_a_shape_that_the_kernel_asserts_against_is_left_out() -> None:
    report = asserting(2, also=-1)
    assert report.verdict == "proven", report.reasons
    assert any("clusters of 1 CTA" in each and "own assertion" in each for each in report.assumptions)
    assert asserting(3, also=-1).verdict == "unknown"


def test_a_shape_is_left_out_only_where_every_launch_fails_the_assertion() -> None:
    report = asserting(2)
    assert not any("own assertion" in each and "clusters" in each for each in report.assumptions), report.assumptions


_OWN_WORDS = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 source)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<1>;
    .shared .align 16 .b8 words[4096];
    .shared .align 8 .b8 bar[8];
    ld.param.u64 %rd0, [source];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %tid.y;
    or.b32 %r2, %r0, %r1;
    setp.eq.u32 %p0, %r2, 0;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
    bar.sync 0;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4096;
    @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [words], [%rd0], 4096, [bar];
again:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra again;
    mov.u32 %r7, %ntid.x;
    mad.lo.u32 %r7, %r1, %r7, %r0;
    shl.b32 %r3, {index}, 2;
    mov.u32 %r4, words;
    add.u32 %r3, %r3, %r4;
    ld.shared.b32 %r5, [%r3];
    add.u32 %r5, %r5, 1;
    st.shared.b32 [%r3], %r5;
    ld.shared.b32 %r6, [{read}];
    ret;
}}
"""


def test_rows_that_share_words_refute_no_kernel_that_may_have_one_row() -> None:
    """Launched with one row of threads each thread has words of its own."""
    (kernel,) = check_text(_OWN_WORDS.format(index="%r0", read="%r3")).kernels
    assert kernel.verdict == "unknown"
    assert any("with a block of 128 threads it is proven" in reason for reason in kernel.reasons), kernel.reasons


def test_what_threads_share_whatever_the_rows_is_refuted() -> None:
    (kernel,) = check_text(_OWN_WORDS.format(index="%r7", read="%r4")).kernels
    assert (kernel.verdict, kernel.errors[0].code) == ("refuted", "NB101")
