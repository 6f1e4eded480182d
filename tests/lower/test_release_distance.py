"""Slots released 0, 1 and 2 products late: values, proofs of every distance, and what the text says."""

from __future__ import annotations

import re

import pytest
from tests.lower.lowered_programs import Lowered, assert_close, gemm, random_inputs, small

from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.frontends.ptx.reader import read
from tilewright.targets import target

HOPPER = target("sm_90a")


def at(distance: int, depth: int = 512, **wanted: object) -> Lowered:
    """The small instance of a product with that distance."""
    return small(gemm(256, 256, depth, tile=(128, 64), release_distance=distance, **wanted))


def loop_of(text: str) -> str:
    """The consumers' loop over slices."""
    found = re.search(r"\n(loop_\d+):\n(.*?)bra \1;", text[text.index("// role consumer") :], re.DOTALL)
    assert found is not None
    return found[2]


def verdicts(lowered: Lowered) -> list[object]:
    claims = {
        launch.entry: protocol_claims(kernel, HOPPER)[0]
        for launch, kernel in zip(lowered.plan.launches, lowered.kernels, strict=True)
    }
    return [
        *(verify(kernel, HOPPER) for kernel in lowered.kernels),
        replay_plan(read(lowered.ptx), lowered.plan, claims, (0,)),
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize(("distance", "stages"), [(0, 2), (1, 2), (2, 3)])
def test_every_distance_is_proved_twice_and_computes_the_product(distance: int, stages: int, turns: bool) -> None:
    lowered = at(distance, stages=stages, turns=turns)
    assert all(isinstance(each, Proven) for each in verdicts(lowered))
    assert f"wgmma.wait_group.sync.aligned {distance};" in loop_of(lowered.ptx)
    assert_close(lowered, random_inputs(lowered))


@pytest.mark.parametrize("distance", [0, 1, 2])
def test_a_wait_for_one_product_fewer_is_refuted(distance: int) -> None:
    """A slot is then refilled while the tensor core still reads it."""
    lowered = at(distance, stages=distance + 2)
    text = loop_of(lowered.ptx)
    wait = "wgmma.wait_group.sync.aligned {};"
    broken = text.replace(wait.format(distance), wait.format(distance + 1))
    assert broken != text
    claims = {lowered.plan.launches[0].entry: protocol_claims(lowered.kernels[0], HOPPER)[0]}
    verdict = replay_plan(read(lowered.ptx.replace(text, broken)), lowered.plan, claims, (0,))
    assert isinstance(verdict, Refuted)


def test_a_tile_of_as_many_slices_as_are_in_flight_has_no_turn_of_the_loop() -> None:
    lowered = at(2, depth=128, stages=4)
    assert all(isinstance(each, Proven) for each in verdicts(lowered))
    assert_close(lowered, random_inputs(lowered))


@pytest.mark.parametrize(("distance", "depth", "stages"), [(3, 512, 6), (-1, 512, 4), (2, 512, 2), (2, 64, 4)])
def test_a_distance_that_would_stop_for_ever_is_one_clear_error(distance: int, depth: int, stages: int) -> None:
    with pytest.raises(TilewrightError, match="products late") as caught:
        at(distance, depth=depth, stages=stages)
    assert caught.value.remedy.startswith("use 0 or 1")


@pytest.mark.parametrize("distance", [0, 2])
def test_the_upstream_dialects_say_the_same_and_are_proven(distance: int) -> None:
    lowered = at(distance, stages=4)
    waits = re.findall(r"nvvm\.wgmma\.wait\.group\.sync\.aligned (\d)", lowered.nvgpu)
    assert waits == {0: ["0", "0", "0"], 2: ["2", "1", "0"]}[distance]
    report = check_text(lowered.nvgpu, "late.mlir", options=CheckOptions(budget_seconds=60))
    assert not report.error and report.kernels[0].verdict == "proven"
