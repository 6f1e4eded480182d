"""Tiles that share no bytes have rings as deep as device memory is the quicker by; others as deep as fits."""

import pytest
from examples import fused
from tests.synth.cut.cut_programs import traced

from tilewright.driver.compile.sequence import sequence
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cascade.slots.own_bytes import brings_its_own
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

_TARGET = target("sm_90a")


def _alone(kernel: Kernel, **dims: int) -> tuple[CascadeDecisions, bool]:
    """The decisions of a program as one kernel, and whether its tiles bring bytes of their own."""
    (part,) = sequence(traced(kernel, **dims), _TARGET, Wanted(cut=False))
    d = part.decisions
    assert isinstance(d, CascadeDecisions)
    sides = ((d.row, d.row_step), (d.column, d.column_step))
    return d, brings_its_own(the_program(part.module), d.slots, *sides, d.batch)


def _decode(batch: int, length: int, width: int) -> dict[str, int]:
    return {"B": batch, "H": 32, "T": length, "E": width, "F": width}


@pytest.mark.parametrize(
    ("kernel", "dims", "own"),
    [
        (fused.decode_attention, _decode(16, 8192, 128), True),
        (fused.decode_in_pages(16), _decode(8, 8192, 128) | {"P": 4096, "S": 16}, True),
        (fused.attention, {"B": 1, "H": 16, "Q": 1024, "T": 1024, "E": 128, "F": 128}, False),
        (fused.attention, {"B": 16, "H": 16, "Q": 64, "T": 1024, "E": 128, "F": 128}, True),
    ],
    ids=["decode", "pages", "several tiles of queries", "one tile of queries"],
)
def test_whose_bytes_a_tile_brings(kernel: Kernel, dims: dict[str, int], own: bool) -> None:
    assert _alone(kernel, **dims)[1] == own


@pytest.mark.parametrize(
    ("kernel", "dims", "slots"),
    [
        (fused.decode_attention, _decode(16, 8192, 128), 2),
        (fused.decode_attention, _decode(16, 8192, 64), 3),
        (fused.decode_attention, _decode(8, 1024, 128), 3),
        (fused.decode_in_pages(64), _decode(16, 8192, 128) | {"P": 2048, "S": 64}, 2),
        (fused.decode_in_pages(16), _decode(16, 8192, 128) | {"P": 8192, "S": 16}, 2),
        (fused.decode_in_pages(8), _decode(16, 8192, 128) | {"P": 16384, "S": 8}, 3),
    ],
    ids=["wide", "narrow", "on half of the multiprocessors", "pages", "small", "smaller, asked for slowly"],
)
def test_rings_are_no_deeper_than_memory_is_the_quicker_by(kernel: Kernel, dims: dict[str, int], slots: int) -> None:
    d, _ = _alone(kernel, **dims)
    assert [each.slots for each in d.slots if not each.resident] == [slots] * 2
    assert all(bool(each.read_once) != bool(each.resident) for each in d.slots)


def test_a_tile_s_own_rows_have_a_slot_more_beside_shorter_rings() -> None:
    d, _ = _alone(fused.decode_attention, **_decode(64, 1024, 128))
    assert [each.slots for each in d.slots] == [2, 2, 2]
