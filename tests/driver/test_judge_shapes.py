"""Verdicts of shapes, combined: what each shape shows is made up here, and tried with whole kernels below."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.driver.check import CheckOptions, check_text
from tilewright.driver.judge_shapes import judge_shapes
from tilewright.driver.judge_unlaunched import UnlaunchedJudgement
from tilewright.driver.launch_shapes import Choices, LaunchShapes, Shape

PROVEN = Proven("all trip counts", ("the pointers are distinct",))
UNKNOWN = Unknown(("a reason",))
ONE = Choices(((64, 1, 1),))
SEVERAL = Choices(((1, 1, 1), (2, 1, 1), (4, 1, 1)), ((8, 1, 1),), fixed=False)
GENERIC = Choices(SEVERAL.likely, SEVERAL.others, fixed=False, generic=True)


def refuted(code: str = "NB101", line: int = 7, message: str = "a race", name: str = "") -> Refuted:
    return Refuted((Diagnostic(code, name, message, Span("k.ptx", line, 1)),))


def combined(verdicts: Mapping[int, Verdict], clusters: Choices = SEVERAL) -> tuple[Verdict, list[int]]:
    """The verdict, and the clusters that were tried, where a cluster of so many CTAs has this verdict."""
    tried: list[int] = []

    def judge(shape: Shape, _ends: object) -> UnlaunchedJudgement:
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
    verdict, _ = combined({1: refuted("MB101", 9, "a hang"), 2: PROVEN})
    assert isinstance(verdict, Proven)
    assert verdict.assumptions[:2] == (
        "clusters of 2 CTAs, since no directive fixes it",
        "not clusters of 1 CTA: there MB101 a hang (k.ptx:9)",
    )


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
    assert any(line.startswith("not clusters of 1 CTA: there TC211") for line in verdict.assumptions)


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
