"""Consumers that take whole tiles in turn: what they compute, what the text does, and that broken texts are refuted."""

import pytest
from tests.lower.lowered_programs import (
    Lowered,
    assert_close,
    filecheck,
    gemm,
    matmul,
    matmul_bias_relu,
    random_inputs,
    small,
)
from tests.lower.lowered_programs import lower as lower_program

from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.frontends.ptx.reader import read
from tilewright.ir.cascade import CascadeDecisions
from tilewright.lower.distribution.turns import skip_quantities
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


def in_turn(columns: int, **wanted: object) -> Lowered:
    """The small instance of a product, whose tiles are one CTA's."""
    return small(gemm(1024, 2048, 1024, tile=(128, columns), turns=True, **wanted))


def verdict_of(lowered: Lowered, text: str):
    (kernel,) = lowered.kernels
    claims = {lowered.plan.launches[0].entry: protocol_claims(kernel, HOPPER)[0]}
    return replay_plan(read(text), lowered.plan, claims, (0,))


@pytest.mark.parametrize(("columns", "stages"), [(64, 2), (64, 3), (128, None)])
def test_values(columns: int, stages: int | None) -> None:
    lowered = in_turn(columns, stages=stages)
    assert isinstance(lowered.decisions, CascadeDecisions) and lowered.decisions.turns
    assert lowered.decisions.unit_rows == 128
    assert_close(lowered, random_inputs(lowered))


def test_values_at_edges() -> None:
    """The last tiles are partial, their number odd, and an epilogue reads a vector."""
    wanted = Wanted(tile=(128, 64), turns=True)
    large = lower_program(matmul_bias_relu, {"M": 8192 + 40, "N": 64, "K": 72}, wanted=wanted)
    assert_close(small(large), random_inputs(small(large)))
    few = lower_program(matmul, {"M": 40, "N": 72, "K": 200}, wanted=Wanted(tile=(128, 64), turns=True))
    assert_close(few, random_inputs(few))


@pytest.mark.parametrize("cluster", [(2, 1), (1, 2)])
def test_clusters_take_tiles_in_turn(cluster: tuple[int, int]) -> None:
    """Both CTAs of a cluster take every tile of theirs in turn; one may have tiles that lie outside the result."""
    lowered = small(gemm(1024, 2048, 1024, tile=(128, 128), turns=True, cluster=cluster))
    assert lowered.plan.launches[0].grid[:2] == (2 * cluster[0], cluster[1])
    assert_close(lowered, random_inputs(lowered))
    edges = lower_program(
        matmul, {"M": 300, "N": 200, "K": 200}, wanted=Wanted((128, 128), turns=True, cluster=cluster)
    )
    assert_close(edges, random_inputs(edges))


def test_a_cluster_s_broken_texts_are_refuted() -> None:
    lowered = small(gemm(1024, 2048, 1024, tile=(128, 128), turns=True, cluster=(2, 1)))
    assert isinstance(verdict_of(lowered, lowered.ptx), Proven)
    release = "mbarrier.arrive.release.cta.shared::cluster.b64"
    assert release in lowered.ptx
    lines = lowered.ptx.splitlines()
    turn = next(number for number, line in enumerate(lines) if line.startswith("turn_"))
    passed = next(n for n, line in enumerate(lines) if n > turn and "mbarrier.arrive.release.cta" in line)
    released = next(n for n, line in enumerate(lines) if release in line)
    for broken in ([*lines[:passed], *lines[passed + 1 :]], [*lines[:released], *lines[released + 1 :]]):
        assert isinstance(verdict_of(lowered, "\n".join(broken) + "\n"), Refuted)


def test_a_unit_waits_for_its_turn_and_passes_it_on_behind_its_last_slot() -> None:
    filecheck(
        in_turn(64).ptx,
        """
CHECK:      // role consumer
CHECK:      mad.lo.u32 [[TILE:%r[0-9]+]], [[UNIT:%r[0-9]+]], {{%r[0-9]+}}, {{%r[0-9]+}};
CHECK:      xor.b32 [[PARITY:%r[0-9]+]], [[UNIT]], 1;
CHECK:      turn_{{[0-9]+}}:
CHECK-NEXT: mbarrier.try_wait.parity.shared::cta.b64 {{%p[0-9]+}}, {{.*}}, [[PARITY]];
CHECK:      xor.b32 [[PARITY]], [[PARITY]], 1;
CHECK:      wgmma.mma_async
CHECK:      loop_end_{{[0-9]+}}:
CHECK-NEXT: xor.b32 [[OTHER:%r[0-9]+]], [[UNIT]], 1;
CHECK-NEXT: mad.lo.u32 {{%r[0-9]+}}, [[OTHER]], 8,
CHECK:      mbarrier.arrive.release.cta.shared::cta.b64
CHECK-NEXT: cp.async.bulk.wait_group.read
CHECK:      bar.sync
CHECK-NEXT: wgmma.wait_group.sync.aligned 0;
""",
    )


def test_cursors_pass_over_whole_rounds() -> None:
    assert [skip_quantities(slots, 4) for slots in (1, 3, 4, 5, 8, 13)] == [
        (1, 0), (3, 0), (0, 1), (1, 1), (0, 0), (1, 1),
    ]  # fmt: skip
    for slots in range(1, 40):
        further, rounds = skip_quantities(slots, 5)
        for position in range(20):
            stage, parity = position % 5 + further, (position // 5 + rounds) % 2
            if stage >= 5:
                stage, parity = stage - 5, parity ^ 1
            assert (stage, parity) == ((position + slots) % 5, (position + slots) // 5 % 2)


def test_broken_texts_are_refuted() -> None:
    lowered = in_turn(64)
    assert isinstance(verdict_of(lowered, lowered.ptx), Proven)
    lines = lowered.ptx.splitlines()
    consumer = next(number for number, line in enumerate(lines) if "// role consumer" in line)
    turn = next(number for number, line in enumerate(lines) if line.startswith("turn_"))
    toggled = next(n for n, line in enumerate(lines) if n > turn and line.strip().startswith("xor.b32"))
    passed = next(n for n, line in enumerate(lines) if n > turn and "mbarrier.arrive.release.cta" in line
                  and "cp.async.bulk.wait_group.read" in lines[n + 1])  # fmt: skip
    flipped = next(
        n for n, line in enumerate(lines) if n > consumer and line.strip().endswith(", 1;") and "xor" in line
    )
    mutants = {
        "no wait for the turn": [*lines[: turn + 1], *lines[turn + 4 :]],
        "the parity stays": [*lines[:toggled], *lines[toggled + 1 :]],
        "the turn is not passed on": [*lines[:passed], *lines[passed + 1 :]],
        "unit 1 begins": [*lines[:flipped], lines[flipped].replace(", 1;", ", 0;"), *lines[flipped + 1 :]],
    }
    for name, broken in mutants.items():
        verdict = verdict_of(lowered, "\n".join(broken) + "\n")
        assert isinstance(verdict, Refuted), (name, verdict)
