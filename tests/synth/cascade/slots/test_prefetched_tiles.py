"""Which walks ask for their first tile before the launch before has ended."""

import pytest
from examples import fused
from tests.synth.cut.cut_programs import traced

from tilewright.driver.compile.sequence import sequence
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


def _decode(batch: int, length: int) -> dict[str, int]:
    return {"B": batch, "H": 32, "T": length, "E": 128, "F": 128}


@pytest.mark.parametrize(
    ("kernel", "dims", "wanted", "tiles"),
    [
        (fused.decode_attention, _decode(8, 1024), Wanted(), 1),
        (fused.decode_attention, _decode(1, 8192), Wanted(), 1),  # the walk of two kernels
        (fused.decode_attention, _decode(1, 1024), Wanted(), 1),  # no longer than its rings
        (fused.decode_attention, _decode(64, 1024), Wanted(), 0),  # several tiles of a CTA
        (fused.decode_attention, _decode(8, 1024), Wanted(programmatic=False), 0),
        (fused.decode_in_pages(64), _decode(8, 1024) | {"P": 128, "S": 64}, Wanted(), 1),
        (fused.attention, {"B": 1, "H": 16, "Q": 1024, "T": 1024, "E": 128, "F": 128}, Wanted(), 0),  # shared keys
    ],
    ids=["one kernel", "parts", "short", "several tiles", "late", "pages", "shared"],
)
def test_which_walks_ask_ahead(kernel: Kernel, dims: dict[str, int], wanted: Wanted, tiles: int) -> None:
    decisions = sequence(traced(kernel, **dims), target("sm_90a"), wanted)[0].decisions
    assert isinstance(decisions, CascadeDecisions)
    assert decisions.prefetch_tiles == tiles
