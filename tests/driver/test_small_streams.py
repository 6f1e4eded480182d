"""The small instance of a program whose tiles are streamed: every kind of share is in it, and no more."""

from dataclasses import replace

import pytest

from tilewright.base.element import Element
from tilewright.driver.kernels import matmul_kernel
from tilewright.driver.small import small_instance
from tilewright.driver.small_streams import small_stream
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import PipelineDecisions, decisions_of
from tilewright.ir.tile_facts import the_program
from tilewright.synth.decide import decide
from tilewright.synth.wanted import Wanted
from tilewright.targets import target

WANTED = Wanted(tile=(128, 128), stages=4, turns=True, stream_k=True)


def decided(m: int, n: int, k: int) -> tuple[PipelineDecisions, PipelineDecisions, dict[str, int]]:
    """The decisions, those of the small instance, and its extents."""
    elements = {parameter.name: Element.BF16 for parameter in matmul_kernel.parameters}
    module = trace(matmul_kernel, {"M": m, "N": n, "K": k}, elements, None)
    large = decide(the_program(module), target("sm_90a"), WANTED)
    program = the_program(small_instance(module))
    small = decisions_of(program.attributes["decisions"])
    assert isinstance(large, PipelineDecisions) and isinstance(small, PipelineDecisions)
    return large, small, program.extents


def test_the_instance_has_two_helpers_one_of_two_tiles_and_whole_tiles() -> None:
    large, small, extents = decided(4096, 4096, 4096 + 72)
    assert (large.ctas, large.streamed, large.helpers) == (132, 1024 % 132, 132 - 1024 % 132)
    assert (small.ctas, small.streamed, small.helpers) == (5, 3, 2)
    slices = -(-extents["K"] // 64)
    # Four slots, and five CTAs: a head is no whole rounds, a tail more than one, and nothing else is as many.
    assert (small.head_slices, slices - small.head_slices) == (6, 7) and extents["K"] % 64 == 72 % 64
    assert small.head_slices % small.stages and small.stages < slices - small.head_slices
    # Each CTA has a whole tile, and the first has two, as all have several in the program.
    assert (extents["M"] // 128) * (extents["N"] // 128) == small.streamed + small.ctas + 1
    # Both kinds of CTA fill every slot of the ring again.
    assert min(2 * small.head_slices + slices, small.stages + slices) >= 2 * small.stages


@pytest.mark.parametrize(("tiles", "slices", "ctas"), [(1, 12, 3), (2, 12, 3), (7, 4, 6)])
def test_what_a_program_has_less_of_is_taken_as_it_is(tiles: int, slices: int, ctas: int) -> None:
    large, _, _ = decided(4096, 4096, 4096)
    fewer = replace(large, streamed=min(tiles, ctas - 1), ctas=ctas, head_slices=2)
    found = small_stream(fewer, tiles, slices)
    assert found.head_slices == 2 < found.slices <= slices
    assert found.streamed < found.ctas <= min(5, ctas) and found.streamed <= found.tiles <= tiles
