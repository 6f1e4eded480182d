"""Re-proof of PTX text: right kernels are proven for their launch, and each spoiled line is refuted by its rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.contract.replay_kernels import COPY_PIECES, copy_buffers, copy_launch, copy_text, machine_tests

from tilewright.base.plan import ScalarParam
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.judge.happens_before import Interpretations
from tilewright.contract.replay.replay import replay
from tilewright.contract.typestate.claims import ProtocolClaims, RingClaim, RoleClaim, StoreClaim
from tilewright.contract.typestate.polynomial import as_polynomial
from tilewright.frontends.ptx.reader import read

STEPS = 5


def judge(
    text: str, *, steps: int = STEPS, seeds: tuple[int, ...] = (0, 1), grid: int = 1,
    claims: ProtocolClaims | None = None, interpretations: Interpretations | None = None,
) -> Verdict:  # fmt: skip
    module = read(text, "double.ptx")
    return replay(
        module,
        copy_launch(steps, grid),
        copy_buffers(steps),
        claims=claims,
        seeds=seeds,
        interpretations=interpretations,
    )


def codes(verdict: Verdict) -> set[str]:
    assert isinstance(verdict, Refuted), verdict
    return {finding.code for finding in verdict.findings}


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5])
def test_a_right_kernel_is_proven_for_this_launch(steps: int) -> None:
    # A tensor of no rows has no map: zero steps run over one step's tensor.
    buffers = copy_buffers(max(steps, 1))
    launch = copy_launch(max(steps, 1))
    if steps == 0:
        launch = replace(launch, params=(*launch.params[:2], ScalarParam("i32", 0)))
    verdict = replay(read(copy_text(), "double.ptx"), launch, buffers, seeds=range(6))
    assert isinstance(verdict, Proven), verdict
    assert verdict.scope == "this launch"
    assert f"{2 * steps} mbarrier phases, {2 * steps} bulk copies" in verdict.claims[0]
    source, target = buffers["source"].view(np.float32), buffers["target"].view(np.float32)
    assert np.array_equal(target, 2 * source if steps else 0 * source)


def swapped(first: str, second: str) -> dict[str, str]:
    """Two pieces, each in the other's place."""
    return {first.replace(" ", "_"): COPY_PIECES[second], second.replace(" ", "_"): COPY_PIECES[first]}


MUTANTS: dict[str, tuple[dict[str, str], set[str]]] = {
    "no CTA barrier after init": ({"cta_sync": ""}, {"MB104", "MB202"}),
    "init after the barrier": (swapped("init", "cta sync"), {"MB104", "MB202", "MB203", "MB115"}),
    "no wait for an empty slot": ({"empty_wait": ""}, {"TM101", "MB209"}),
    "empty waited with the wrong parity": (
        {"empty_wait": COPY_PIECES["empty wait"].replace("%r10", "%r9")}, {"MB114"}),
    "no wait for a full slot": ({"full_wait": ""}, {"MB111", "MB113"}),
    "full waited with the wrong parity": (
        {"full_wait": "xor.b32 %r9, %r9, 1;\n" + COPY_PIECES["full wait"]}, {"MB111", "MB113"}),
    "slot never released": ({"release": ""}, {"MB113"}),
    "slot released twice": ({"release": COPY_PIECES["release"] * 2}, {"MB107", "MB109", "MB209", "TM101"}),
    "slot released before it is read": (swapped("read", "release"), {"TM101"}),
    "read not fenced before the release": ({"read_fence": ""}, {"PX102"}),
    "too few bytes expected": ({"expect": COPY_PIECES["expect"].replace("512", "256")}, {"TX104", "MB209"}),
    "too many bytes expected": ({"expect": COPY_PIECES["expect"].replace("512", "1024")}, {"TX104"}),
    "copy issued twice": ({"load": COPY_PIECES["load"] * 2}, {"TM102"}),
    "no proxy fence before the store": ({"fence": ""}, {"PX101"}),
    "fence before the write": (swapped("stage", "fence"), {"PX101"}),
    "staging rewritten while it is read": ({"staging_wait": ""}, {"BG103"}),
    "store not committed": ({"commit": ""}, {"BG101", "BG103"}),
    "store not waited for": ({"drain": ""}, {"BG102"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_spoiled_kernel_is_refuted(name: str) -> None:
    changed, expected = MUTANTS[name]
    for seed in (0, 1, 2):
        verdict = judge(copy_text(**changed), seeds=(seed,))
        assert codes(verdict) & expected, codes(verdict)
        assert isinstance(verdict, Refuted)
        for finding in verdict.findings:
            assert finding.primary is None or finding.primary.file == "double.ptx"


def test_findings_point_at_both_instructions() -> None:
    verdict = judge(copy_text(fence="bar.warp.sync 0xffffffff;\n"))
    assert isinstance(verdict, Refuted)
    (finding,) = verdict.findings
    assert finding.code == "PX101"
    assert finding.primary is not None and finding.conflicts_with is not None
    lines = copy_text(fence="bar.warp.sync 0xffffffff;\n").splitlines()
    assert "cp.async.bulk.tensor.2d.global" in lines[finding.primary.line - 1]
    assert "st.shared.v4" in lines[finding.conflicts_with.line - 1]
    assert 3 <= len(finding.interleaving) <= 6


def test_the_race_behind_a_hang_is_found_in_some_schedule() -> None:
    found = set[str]()
    for seed in range(8):
        found |= codes(judge(copy_text(full_wait=""), seeds=(seed,)))
    assert found >= {"MB111", "MB113"}


def test_harmless_edits_stay_proven() -> None:
    for changed in (
        {"fence": COPY_PIECES["fence"] * 2},
        {"cta_sync": COPY_PIECES["cta sync"] * 2},
        {"drain": "@!%p1 cp.async.bulk.wait_group.read 0;\n"},
        {"read_fence": "fence.proxy.async;\n"},
    ):
        assert isinstance(judge(copy_text(**changed)), Proven), changed


def test_a_tolerant_reading_allows_an_unfenced_refill() -> None:
    text = copy_text(read_fence="")
    assert codes(judge(text)) == {"PX102"}
    assert isinstance(judge(text, interpretations=Interpretations(fence_before_refill=None)), Proven)


def test_two_ctas_that_write_the_same_output() -> None:
    assert "CL101" in codes(judge(copy_text(), grid=2))
    apart = "shl.b32 %r15, %r6, 2;\nmul.lo.u32 %r21, %r20, 20;\nadd.u32 %r15, %r15, %r21;\n"
    text = copy_text(consume=COPY_PIECES["consume"].replace("shl.b32 %r15, %r6, 2;\n", apart))
    verdict = replay(read(text, "double.ptx"), copy_launch(2 * STEPS, 2), copy_buffers(2 * STEPS))
    # The launch asks for 10 steps a CTA: rows 20 to 39 of the first meet those of the second.
    assert "CL101" in codes(verdict)


def test_a_flag_in_memory_is_not_judged() -> None:
    text = copy_text(release="atom.shared.add.u32 %r22, [%r4], 0;\n" + COPY_PIECES["release"])
    verdict = judge(text)
    assert isinstance(verdict, (Unknown, Refuted))
    assert not isinstance(verdict, Proven)


def test_a_run_past_its_limit_is_unknown() -> None:
    module = read(copy_text(), "double.ptx")
    verdict = replay(module, copy_launch(STEPS), copy_buffers(STEPS), step_limit=50)
    assert isinstance(verdict, Unknown)
    assert isinstance(replay(module, copy_launch(STEPS), copy_buffers(STEPS), seeds=()), Unknown)


def ring(**changed: object) -> RingClaim:
    fields: dict[str, object] = {
        "name": "ab",
        "stages": 2,
        "full_addresses": (1536, 1544),
        "empty_addresses": (1552, 1560),
        "full_arrivals": 1,
        "empty_arrivals": 1,
        "transaction_bytes": 512,
        "fills": as_polynomial(STEPS),
        "slot_ranges": (((0, 512),), ((512, 1024),)),
    }
    return RingClaim(**(fields | changed))  # type: ignore[arg-type]


def claims(the_ring: RingClaim, stores: int = STEPS, store_bytes: int = 512) -> ProtocolClaims:
    return ProtocolClaims(
        "double", (), (), 1, 64, 0, (the_ring,),
        (StoreClaim("math", "target", (store_bytes,), as_polynomial(stores)),),
        (RoleClaim("load", "thread1", 0, 32, 0), RoleClaim("math", "warp32", 32, 32, 0)),
    )  # fmt: skip


def test_claims_are_compared_with_the_run() -> None:
    verdict = judge(copy_text(), claims=claims(ring()))
    assert isinstance(verdict, Proven), verdict
    assert any("2 stages" in line for line in verdict.claims)


@pytest.mark.parametrize(
    "wrong",
    [
        claims(ring(full_arrivals=2)),
        claims(ring(empty_arrivals=2)),
        claims(ring(transaction_bytes=1024)),
        claims(ring(fills=as_polynomial(STEPS + 1))),
        claims(ring(slot_ranges=(((0, 256),), ((512, 1024),)))),
        claims(ring(stages=1, full_addresses=(1536,), empty_addresses=(1552,), slot_ranges=(((0, 512),),))),
        claims(ring(full_addresses=(1552, 1560), empty_addresses=(1536, 1544))),
        claims(ring(), stores=STEPS - 1),
        claims(ring(), store_bytes=256),
    ],
)
def test_claims_that_differ_refute(wrong: ProtocolClaims) -> None:
    assert codes(judge(copy_text(), claims=wrong)) == {"LV101"}


GEMM = machine_tests("gemm_text")
GEMM_N, GEMM_STAGES = 64, 3


def judge_gemm(text: str, seed: int = 0) -> Verdict:
    m, width, k = 256, 64, 320
    buffers = {
        "a": np.ones(m * k * 2, np.uint8),
        "b": np.ones(width * k * 2, np.uint8),
        "c": np.zeros(m * width * 2, np.uint8),
    }
    launch = GEMM.gemm_launch(m, width, k, GEMM_N, GEMM_STAGES, 1)
    return replay(read(text, "gemm.ptx"), launch, buffers, seeds=(seed,))


def test_a_wgmma_ring_is_proven() -> None:
    for seed in (0, 1):
        verdict = judge_gemm(GEMM.gemm_text(GEMM_N, GEMM_STAGES), seed)
        assert isinstance(verdict, Proven), verdict


RELEASE = "    @%p6 mbarrier.arrive.shared::cta.b64 _, [%r7+24];\n"
WAIT = "    wgmma.wait_group.sync.aligned 0;\n"
FULL_WAIT = "FULL:\n    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r7], %parity;\n    @!%p3 bra FULL;\n"
GEMM_MUTANTS = {
    "released before the wait": (
        WAIT,
        "    and.b32 %r14, %r1, 127;\n    setp.eq.u32 %p6, %r14, 0;\n" + RELEASE + WAIT,
        {"WG105", "MB107", "MB209"},
    ),
    "one group pending": (WAIT, "    wgmma.wait_group.sync.aligned 1;\n", {"WG105"}),
    "never waited for": (WAIT, "", {"WG105", "WG104"}),
    "full slot not waited for": (FULL_WAIT, "", {"MB111"}),
    "not fenced": ("    wgmma.fence.sync.aligned;\n", "", {"WG101"}),
    "no release": (RELEASE, "", {"MB113"}),
    "bytes": ("[%r7], 24576;", "[%r7], 16384;", {"TX104"}),
}  # fmt: skip


@pytest.mark.parametrize("name", GEMM_MUTANTS)
def test_a_spoiled_wgmma_ring_is_refuted(name: str) -> None:
    old, new, expected = GEMM_MUTANTS[name]
    text = GEMM.gemm_text(GEMM_N, GEMM_STAGES)
    assert text.count(old) == 1
    assert codes(judge_gemm(text.replace(old, new))) & expected
