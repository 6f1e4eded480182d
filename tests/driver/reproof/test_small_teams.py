"""Small instances of products whose tiles teams of clusters share: what their few slices still show."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import pytest
from tests.end_to_end.text_edits import Edit, drop, number, rewrite
from tests.lower.lowered_programs import gemm
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.plan import LaunchPlan
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.claims import ProtocolClaims
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_extents, small_instance
from tilewright.driver.reproof.small_cursors import Happening, Kind, of_cta
from tilewright.driver.reproof.small_teams import TeamGrid, slices_of_teams
from tilewright.frontends.ptx.reader import read
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.targets import target

HOPPER = target("sm_90a")

STAGES, TEAMS, SHARES, DEPTH = 8, 4, 8, 64


def decided(m: int, n: int, slices: int) -> ModuleOp:
    """A product of which each of four teams has so many slices, decided."""
    return gemm(
        m, n, DEPTH * SHARES * slices, tile=(64, 16), split=2, teams=TEAMS, depth=DEPTH, stages=STAGES, swapped=False
    ).module


@pytest.mark.parametrize(
    ("m", "n", "slices", "left"),
    [(64, 32, 40, 6), (64, 32, 16, 6), (64, 32, 9, 5), (64, 32, 8, 5), (64, 32, 4, 4), (640, 512, 41, 7)],
)
def test_slices_left_of_a_tile(m: int, n: int, slices: int, left: int) -> None:
    assert small_extents(the_program(decided(m, n, slices)))["K"] == DEPTH * SHARES * left


@pytest.mark.parametrize(
    ("m", "n", "tiles"),
    [(200, 192, (2, 2)), (256, 192, (1, 2)), (200, 96, (2, 1)), (200, 200, (2, 2)), (64, 96, (1, 1))],
)  # fmt: skip
def test_several_columns_of_tiles_stay_several(m: int, n: int, tiles: tuple[int, int]) -> None:
    """Of one column a text finds a tile's place by fewer instructions."""
    module = gemm(m, n, 1024, tile=(128, 96), teams=2, split=1, consumers=2, swapped=False).module
    instance = small_instance(module)
    found = the_program(instance).extents
    assert (-(-found["M"] // 128), -(-found["N"] // 96)) == tiles
    texts = [
        lower_to_ptx([each.module for each in lower_program(the_program(one)).kernels], "sm_90a")
        for one in (module, instance)
    ]
    assert texts[0].count("\n") == texts[1].count("\n")


def test_as_many_slices_as_teams_rather_than_fewer_happenings() -> None:
    # The fifth share of six slices begins in the last of five slots, as the second one of four does.
    program, instance = TeamGrid(4, 4, 3), TeamGrid(4, 2, 3)
    slices = slices_of_teams(5, 6, program, instance)
    assert slices == 4
    parts: list[tuple[Kind, int]] = [("whole", slices) for _ in range(instance.rounds)]
    assert ("whole", "passes the ring's end with its first slice") in set(of_cta(parts, 5, 1))


@cache
def small() -> tuple[str, LaunchPlan, dict[str, ProtocolClaims]]:
    """The instance of a product of which a CTA takes many shares: its text, plan and claims."""
    instance = lower_program(the_program(small_instance(decided(640, 512, 41))))
    text = lower_to_ptx([kernel.module for kernel in instance.kernels], "sm_90a")
    claims = {kernel.name: protocol_claims(kernel.module, HOPPER, boundaries=False)[0] for kernel in instance.kernels}
    return text, launch_plan(instance), claims


def replayed(*edits: Edit) -> Proven | object:
    text, plan, claims = small()
    lines = text.split("\n")
    for edit in edits:
        lines = edit(lines)
    return replay_plan(read("\n".join(lines)), plan, claims, (0,))


def handed_on(text: str) -> list[str]:
    """Patterns of the moves that hand slots and phases on from one tile to the next."""
    found: list[str] = []
    for block in re.findall(r"((?:\tmov\.b32 %r\d+, %r\d+;\n)+)\tadd\.u32 %r\d+, %r\d+, %r\d+;\n\tbra tiles", text):
        found += [re.escape(line.strip()) for line in block.strip().split("\n")]
    return found


PHASE = r"xor\.b32 (%r\d+), (%r\d+), (%r\d+);"
END = r"setp\.eq\.u32 (%p\d+), (%r\d+), (?P<n>8);"


def test_as_emitted_it_is_proven() -> None:
    assert isinstance(replayed(), Proven)
    assert len(handed_on(small()[0])) == 5


def turned_back() -> list[int]:
    """Which of the text's exclusive ors turn the phase of a ring's cursor."""
    lines = [line for line in small()[0].split("\n") if re.search(PHASE, line)]
    flips = re.findall(r"selp\.b32 (%r\d+), 1, 0,", small()[0])
    return [at for at, line in enumerate(lines) if any(line.endswith(f" {flip};") for flip in flips)]


@pytest.mark.parametrize("which", [0, 2])  # the producer's, and the consumer's after the first slice of a tile
def test_a_phase_that_never_turns_back_is_refuted(which: int) -> None:
    at = turned_back()[which]
    assert isinstance(replayed(rewrite(PHASE, r"or.b32 \1, \2, \3;", at)), Refuted)


@pytest.mark.parametrize("which", range(5))
def test_a_slot_or_phase_that_is_not_handed_on_is_refuted(which: int) -> None:
    assert isinstance(replayed(drop(handed_on(small()[0])[which], 0)), Refuted)


@pytest.mark.parametrize("which", range(3))
def test_a_ring_of_another_length_is_refuted(which: int) -> None:
    assert isinstance(replayed(rewrite(END, number(lambda count: count + 1), which)), Refuted)


def test_shorter_tiles_show_what_longer_ones_show() -> None:
    for stages, teams in product(range(2, 10), range(2, 9)):
        small = TeamGrid(teams, 2, 3)
        for whole, clusters in product((2, stages, stages + 1, 40), (2 * teams, 3)):
            program = TeamGrid(teams, 2, clusters)
            found = slices_of_teams(stages, whole, program, small)
            most, again = min(stages + 1, whole), program.rounds * whole > stages
            few, of_program = happenings(found, small.rounds, stages), happenings(whole, program.rounds, stages)
            many = happenings(most, small.rounds, stages) if again else of_program
            assert found <= most and many <= few
            if found == most:
                continue
            # Each slot as often as in the program, or a second and the first a third time.
            assert small.rounds * found >= min(2 * stages + 2, program.rounds * whole)
            assert found not in (2, teams, teams - 1) and (found != 2 * teams or whole == 2 * teams)
            assert found != 3 or clusters == whole


def test_a_number_that_is_another_one_in_the_program_too_is_taken() -> None:
    # Eight slices and eight clusters: three of each in the instance tell them apart no less than the program does.
    assert slices_of_teams(8, 8, TeamGrid(8, 1, 8), TeamGrid(8, 1, 3)) == 3
    assert slices_of_teams(8, 8, TeamGrid(8, 1, 9), TeamGrid(8, 1, 3)) == 4


def happenings(slices: int, taken: int, stages: int) -> set[Happening]:
    parts: list[tuple[Kind, int]] = [("whole", slices) for _ in range(taken)]
    return set(of_cta(parts, stages, 1))
