"""Small instances of products whose consumers take turns, and of products whose operands are copied first."""

from __future__ import annotations

import gc

import pytest
from tests.lower.test_async_copy import matmul

from tilewright.contract.run_state import ClusterState
from tilewright.driver.compile import compile_kernel
from tilewright.driver.small import small_extents
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tile_facts import the_program
from tilewright.machine.state import Warp
from tilewright.synth.wanted import Wanted


@pytest.mark.parametrize("stages", [4, 5])
def test_some_tile_of_one_cta_begins_at_the_rings_end(stages: int) -> None:
    wanted = Wanted(turns=True, consumers=2, tile=(128, 128), stages=stages, stream_k=False)
    compilation = compile_kernel(
        matmul, dims={"M": 4096, "N": 4096, "K": 4096}, wanted=wanted, rerun=False, assembled=False
    )
    decisions = compilation.decisions
    assert isinstance(decisions, PipelineDecisions)
    assert (decisions.stages, bool(decisions.turns)) == (stages, True)
    found = small_extents(the_program(compilation.tile))
    slices = -(-found["K"] // decisions.tile_k)
    assert slices > stages
    assert any(tile * slices % stages == stages - 1 for tile in (1, 2))


def test_where_both_operands_are_copied_first_sides_are_short() -> None:
    # Nine tiles have sides of three.
    compilation = compile_kernel(
        matmul, dims={"M": 4096, "N": 4096, "K": 4095}, strides={"b": (1, 4095)}, wanted=Wanted(stream_k=True),
        rerun=False, assembled=False,
    )  # fmt: skip
    decisions = compilation.decisions
    assert isinstance(decisions, PipelineDecisions)
    assert decisions.a.materialized
    assert decisions.b.materialized
    found = small_extents(the_program(compilation.tile))
    down, across = -(-found["M"] // decisions.tile_m), -(-found["N"] // decisions.tile_n)
    assert down * across >= 4
    assert min(down, across) > 1


def test_what_was_judged_is_freed_without_a_search() -> None:
    def alive() -> int:
        return sum(isinstance(each, Warp | ClusterState) for each in gc.get_objects())

    gc.collect()
    before, enabled = alive(), gc.isenabled()
    gc.disable()
    try:
        compile_kernel(matmul, dims={"M": 256, "N": 256, "K": 512}, assembled=False)
        assert alive() == before
    finally:
        if enabled:
            gc.enable()
