"""Teams of CTAs that share a tile and add up through memory: proved, proved as text, equal to the reference."""

import re

import pytest
from tests.lower.lowered_programs import assert_close, gemm, lower, matmul, matmul_bias_relu, random_inputs, run

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.driver.reproof.address_proof import OtherAddress, staged_stores
from tilewright.driver.reproof.reproof import replay_plan, reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.frontends.ptx.reader import read
from tilewright.ir.ac.split import SPARE_ROWS
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


def proved(lowered):
    for kernel in lowered.kernels:
        assert isinstance(verify(kernel, HOPPER), Proven), verify(kernel, HOPPER)
    verdict = reprove(lowered.module, lowered.ptx, "sm_90a", "product")
    assert isinstance(verdict, Proven), verdict
    for staged in staged_stores(lowered.parsed, lowered.plan.launches):
        assert not isinstance(staged.verdict, OtherAddress), staged
    return lowered


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("teams", "split", "tile", "swapped"),
    [(2, 1, (64, 16), False), (3, 2, (64, 8), True), (2, 4, (128, 16), False), (6, 1, (64, 24), False)],
)
def test_a_product_of_teams_is_proved_and_right(teams, split, tile, swapped):
    """Slices that come out uneven, last tiles that are not full, more flags than warps, fewer parts than CTAs."""
    m, n = (tile[1] + 5, tile[0] + 40) if swapped else (tile[0] + 16, tile[1] + 8)
    depth = 64 * split * teams + 72
    lowered = proved(gemm(m, n, depth, tile=tile, split=split, teams=teams, depth=64, swapped=swapped))
    assert (lowered.decisions.teams, lowered.decisions.shares) == (teams, split * teams)
    assert lowered.plan.launches[0].resident and lowered.decisions.ctas == 4 * split * teams
    assert_close(lowered, random_inputs(lowered))


def test_epilogues_see_the_whole_sum():
    wanted = Wanted((64, 32), split=2, teams=2, depth=64)
    lowered = proved(lower(matmul_bias_relu, {"M": 70, "N": 40, "K": 300}, wanted=wanted))
    assert_close(lowered, random_inputs(lowered))


def test_sums_are_the_same_in_every_run_and_flags_are_left_as_they_were():
    wanted = Wanted((64, 16), teams=4, depth=64, swapped=False)
    lowered = lower(matmul, {"M": 64, "N": 16, "K": 64 * 9}, {"c": Element.F32}, wanted=wanted)
    arrays = random_inputs(lowered)
    first, second = run(lowered, arrays), run(lowered, arrays)
    assert (first["c"] == second["c"]).all()
    assert_close(lowered, arrays)


@pytest.fixture(scope="module")
def small():
    """The small instance of a product of three teams: its text, plan and claims."""
    lowered = gemm(40, 24, 64 * 6 + 72, tile=(64, 16), split=2, teams=3, depth=64, swapped=False)
    instance = lower_program(the_program(small_instance(lowered.module)))
    text = lower_to_ptx([kernel.module for kernel in instance.kernels], "sm_90a")
    return text, launch_plan(instance), {k.name: protocol_claims(k.module, HOPPER)[0] for k in instance.kernels}


def without_line(text: str, *words: str, number: int = 0) -> str:
    lines = text.split("\n")
    found = [place for place, line in enumerate(lines) if all(word in line for word in words)]
    del lines[found[number]]
    return "\n".join(lines)


def replayed(small, text):
    return replay_plan(read(text), small[1], small[2], (0,))


def test_as_emitted_the_small_instance_is_proven(small):
    verdict = replayed(small, small[0])
    assert isinstance(verdict, Proven), verdict


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda text: text.replace("st.release.gpu", "st.relaxed.gpu"), id="a flag that releases nothing"),
        pytest.param(lambda text: text.replace("ld.acquire.gpu", "ld.relaxed.gpu"), id="a wait that acquires nothing"),
        pytest.param(lambda text: text.replace("st.release.gpu", "st.release.cluster"), id="at the scope of a cluster"),
        pytest.param(lambda text: without_line(text, "st.relaxed.gpu"), id="a flag that is not set back"),
        pytest.param(lambda text: without_line(text, "st.release.gpu"), id="a flag that nobody sets"),
        pytest.param(lambda text: text.replace(str(SPARE_ROWS), "0"), id="teams that all store"),
        pytest.param(
            lambda text: (
                without_line(text[: text.index("st.release.gpu")], "bar.sync", number=-1)
                + text[text.index("st.release.gpu") :]
            ),
            id="no meeting before the flag",
        ),
        pytest.param(
            lambda text: (
                text[: text.rindex("ld.acquire.gpu")] + without_line(text[text.rindex("ld.acquire.gpu") :], "bar.sync")
            ),
            id="no meeting after the flag",
        ),
    ],
)
def test_a_weaker_exchange_is_not_proven(small, spoil):
    spoiled = spoil(small[0])
    assert spoiled != small[0]
    assert not isinstance(replayed(small, spoiled), Proven)


def test_a_second_tile_that_begins_at_another_slot_is_in_the_small_instance():
    """A first product of each tile that took slot 0's barrier would be right for a CTA's first tile alone."""
    lowered = gemm(64, 32, 64 * 2 * 8, tile=(64, 16), teams=2, depth=64, stages=3, swapped=False)
    instance = lower_program(the_program(small_instance(lowered.module)))
    text = lower_to_ptx([kernel.module for kernel in instance.kernels], "sm_90a")
    taken = launch_plan(instance), {k.name: protocol_claims(k.module, HOPPER)[0] for k in instance.kernels}
    first = re.compile(r"(mad\.lo\.u32 %r\d+, %r\d+), 8,(?=[^:]*?add\.u32[^:]*?\nwait_\d+:)")
    places = list(first.finditer(text))
    assert len(places) >= 3  # the producer's, and a consumer's of the first and of the other slices
    assert isinstance(replay_plan(read(text), *taken, (0,)), Proven)
    for place in places:
        spoiled = text[: place.start()] + place.group(1) + ", 0," + text[place.end() :]
        assert isinstance(replay_plan(read(spoiled), *taken, (0,)), Refuted), place.group()
