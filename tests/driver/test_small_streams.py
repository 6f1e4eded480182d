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
from tilewright.lower.stream_share import share_quantities
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


def test_the_instance_has_every_kind_of_share_and_whole_tiles() -> None:
    large, small, extents = decided(4096, 4096, 4096 + 72)
    assert (large.ctas, large.streamed, small.ctas, small.streamed) == (132, 1024 % 132, 5, 2)
    slices = -(-extents["K"] // 64)
    assert slices % small.granule == 0 and 2 * small.stages - 1 <= slices <= 3 * small.stages
    assert (extents["M"] // 128) * (extents["N"] // 128) == 5  # three whole ones
    whole, _, _, base, larger = share_quantities(2, slices, small.granule, 5)
    ends = [cta * base + min(cta, larger) for cta in range(1, 6)]
    begins = [0, *ends[:-1]]
    kinds = {
        (low % whole == 0, high % whole == 0, low // whole < (high - 1) // whole)
        for low, high in zip(begins, ends, strict=True)
    }
    # The beginning of a tile; its middle; one's end and another's beginning; an end.
    assert kinds == {(True, False, False), (False, False, False), (False, False, True), (False, True, False)}


@pytest.mark.parametrize(("tiles", "slices", "ctas"), [(1, 12, 3), (2, 12, 3), (7, 4, 6)])
def test_what_a_program_has_less_of_is_taken_as_it_is(tiles: int, slices: int, ctas: int) -> None:
    large, _, _ = decided(4096, 4096, 4096)
    found = small_stream(replace(large, streamed=min(tiles, ctas), ctas=ctas, granule=2), tiles, slices)
    assert found.slices <= slices and found.slices % 2 == 0
    assert found.streamed <= found.ctas <= min(5, ctas) and found.streamed <= tiles
    assert found.tiles <= max(tiles, found.streamed)
