"""When consumers may take tiles in turn, and what memory that takes."""

import pytest
from tests.synth.test_decide import decided, matmul

from tilewright.base.error import TilewrightError
from tilewright.ir.decisions import PipelineDecisions
from tilewright.synth.wanted import Wanted


def test_each_consumer_computes_whole_tiles() -> None:
    plan = decided(matmul, 4096, 4096, 4096, wanted=Wanted(tile=(128, 192), turns=True))
    assert isinstance(plan, PipelineDecisions)
    assert plan.turns and plan.consumers == 2 and plan.unit_rows == plan.tile_m == 128
    shared = decided(matmul, 4096, 4096, 4096, wanted=Wanted(tile=(128, 192), turns=False))
    assert isinstance(shared, PipelineDecisions)
    assert not shared.turns and shared.unit_rows == 64
    # A staged box has all rows of a unit, and two barriers of turns stand behind the ring's.
    assert plan.staging_slot_bytes == 2 * shared.staging_slot_bytes
    slots = plan.stages * ((128 + 192) * 64 * 2 + 16)
    assert plan.smem_bytes == slots + 2 * plan.staging_slots * plan.staging_slot_bytes + 16


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(tile=(128, 256), turns=True), "2 consumers cannot take tiles of 128x256 in turn"),
        (Wanted(tile=(64, 128), turns=True), "1 consumers cannot take tiles of 64x128 in turn"),
        (Wanted(tile=(128, 128), cluster=(2, 1), turns=True), "only of a plain product"),
    ],
)
def test_what_cannot_be_had_is_refused(wanted: Wanted, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        decided(matmul, 4096, 4096, 4096, wanted=wanted, strides={"b": (1, 4096)})
