"""Small instances of products whose consumers take turns, and of tiles with few slices."""

from __future__ import annotations

import gc
import re

import pytest
from tests.driver.reproof.decided_parts import decided_parts
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.contract.judge.run_state import ClusterState
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_extents, small_instance
from tilewright.driver.reproof.small_cursors import tiles_that_show
from tilewright.frontends.ptx.reader import read
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.machine.core.state import Warp
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


def compiled(stages: int, k: int = 4096) -> tuple[ModuleOp, CascadeDecisions]:
    wanted = Wanted(turns=True, consumers=2, tile=(128, 64), stages=stages, stream_k=False)
    (part,) = decided_parts(matmul_kernel, {"M": 4096, "N": 4096, "K": k}, wanted)
    assert isinstance(part.decisions, CascadeDecisions)
    assert (part.decisions.slots[0].slots, bool(part.decisions.turns)) == (stages, True)
    return part.module, part.decisions


@pytest.mark.parametrize("stages", [4, 5, 7])
def test_tiles_in_turn_pass_the_rings_end_where_they_begin_and_where_they_are_stepped_over(stages: int) -> None:
    module, decisions = compiled(stages)
    slices = -(-small_extents(the_program(module))["K"] // decisions.tile_streamed)
    assert slices > stages
    # The second tile's first slice is the ring's last.
    assert slices % stages == stages - 1
    # The first consumer steps over the second tile: past the ring's end, and its third one is in another phase.
    assert slices % stages + slices % stages >= stages
    assert 2 * slices // stages % 2 == 1


@pytest.mark.parametrize(
    ("units", "slices", "stages", "tiles"), [(1, 1, 4, 5), (1, 4, 3, 3), (2, 5, 4, 5), (2, 2, 3, 4)]
)
def test_short_sums_have_tiles_until_all_has_happened(units: int, slices: int, stages: int, tiles: int) -> None:
    assert tiles_that_show(slices, stages, units, least=stages, most=100) == tiles
    # A program that has fewer is taken as it is.
    assert tiles_that_show(slices, stages, units, least=stages, most=tiles - 1) == max(stages, tiles - 1)


@pytest.mark.parametrize("k", [4096, 320])
def test_a_step_over_the_other_consumers_tile_that_ignores_the_rings_end_is_refuted(k: int) -> None:
    # Where a tile has but a slice more than the ring, the third tile's is the first such step, the other's the second.
    instance = small_instance(compiled(5 if k == 4096 else 4, k)[0])
    lowered = lower_program(the_program(instance))
    modules = {item.name: item.module for item in lowered.kernels}
    claims = {entry: protocol_claims(module, HOPPER, boundaries=False)[0] for entry, module in modules.items()}
    text = lower_to_ptx(list(modules.values()), "sm_90a")

    def judged(text: str) -> Verdict:
        return replay_plan(read(text), launch_plan(lowered), claims, (0,))

    assert isinstance(judged(text), Proven)
    # Of each consumer the last: the step after its own tile.
    phase = list(re.finditer(r"selp\.b32 (%r\d+), 1, 0, (%p\d+);\n\txor\.b32 (%r\d+), \3, \1;\n", text))[-1]
    for edited in (phase[0].replace("1, 0,", "0, 0,"), phase[0].split("\n")[0] + "\n"):
        spoiled = text[: phase.start()] + edited + text[phase.end() :]
        assert isinstance(judged(spoiled), Refuted)


def test_what_was_judged_is_freed_without_a_search() -> None:
    def alive() -> int:
        return sum(isinstance(each, Warp | ClusterState) for each in gc.get_objects())

    gc.collect()
    before, enabled = alive(), gc.isenabled()
    gc.disable()
    try:
        compile_kernel(matmul_kernel, dims={"M": 256, "N": 256, "K": 512}, assembled=False)
        assert alive() == before
    finally:
        if enabled:
            gc.enable()
