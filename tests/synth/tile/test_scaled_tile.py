# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Which tiles scaled products get, and that wishes come before the model."""

from dataclasses import replace

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cost.model import rates_of
from tilewright.synth.decide import Wanted, decide
from tilewright.synth.operand.scaled_product import fits_registers
from tilewright.synth.tile.scaled_tile import choose_scaled_shape, scaled_cycles
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.targets import target

TARGET = target("sm_90a")
RATES = rates_of(TARGET, 1)


@tw.kernel
def by_blocks(
    a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M", "K/128"], t: tw.Tensor["N/128", "K/128"],
    c: tw.Tensor["M", "N"],
):  # fmt: skip
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * s[i, k // 128] * t[j // 128, k // 128]
    c[i, j] = acc


def question(*extents: int) -> TileQuestion:
    return TileQuestion(extents, 1, 2, (False,), (8, 8), 1, 128)


def decided(*extents: int, wanted: Wanted | None = None) -> CascadeDecisions:
    elements = {"a": Element.F8E4M3, "b": Element.F8E4M3, "s": Element.F32, "t": Element.F32, "c": Element.BF16}
    module = trace(by_blocks, dict(zip("MNK", extents, strict=True)), elements)
    program = the_program(walked(module, TARGET, wanted))
    decisions = decide(program, TARGET, wanted)
    assert isinstance(decisions, CascadeDecisions)
    return decisions


@pytest.mark.parametrize("extents", [(1, 16, 128), (128, 4096, 7168), (4096, 4096, 7168), (100, 392, 640)])
def test_every_shape_fits_and_says_why(extents):
    decisions = decided(*extents)
    assert fits_registers(decisions.tile_rows, decisions.tile_columns, decisions.consumers)
    assert any("slots promoted by" in reason for reason in decisions.reasons)


def test_few_tiles_share_their_slices():
    assert decided(128, 4096, 7168).split > 1
    assert decided(4096, 4096, 7168).split == 1
    assert decided(128, 4096, 256).split == 1


def test_wishes_come_first():
    decisions = decided(128, 4096, 7168, wanted=Wanted(tile=(128, 128)))
    assert (decisions.tile_rows, decisions.tile_columns, decisions.split) == (128, 128, 1)
    assert choose_scaled_shape(RATES, question(128, 4096, 7168), TARGET, Wanted(split=2), []) is None


def test_more_work_takes_longer():
    shape = TileShape(128, 128, 128, 2)
    cycles = [
        scaled_cycles(RATES, question(m, 4096, k), shape, TARGET) for m, k in ((128, 1024), (128, 4096), (4096, 4096))
    ]
    assert cycles == sorted(cycles)


def test_what_scales_cost_beside_overlapping_slots_is_counted():
    """Tiles whose slots overlap win where nothing is loaded beside them; the model's parameters say by how much."""
    extents = (4096, 28672, 4096)
    plain = TileQuestion(extents, 1, 2, (False,), (1, 1), 1, 128)
    scaled = replace(plain, scaled=True)
    overlapping = TileShape(128, 128, 128, 2, False)
    assert scaled_cycles(RATES, plain, overlapping, TARGET) < scaled_cycles(RATES, scaled, overlapping, TARGET)
    alone = TileShape(192, 128, 128, 3, False)
    assert scaled_cycles(RATES, plain, alone, TARGET) == scaled_cycles(RATES, scaled, alone, TARGET)


def test_other_columns_are_taken_where_tiles_come_out_much_better():
    """504 tiles of 104 columns are four waves, as are 420 of 128; where slots are scaled, and where a little is saved
    alone, the usual tiles stay."""
    plain = TileQuestion((1243, 5376, 4096), 1, 2, (False,), (8, 8), 1, 128, bulk=True, turnable=True)
    chosen = choose_scaled_shape(RATES, plain, TARGET, Wanted(), [])
    assert chosen is not None and (chosen.rows, chosen.columns) == (128, 104)
    assert fits_registers(chosen.rows, chosen.columns, chosen.consumers)
    little = replace(plain, extents=(918, 2048, 1536))
    others = (replace(plain, scaled=True), replace(plain, bulk=False), little)
    usual = [choose_scaled_shape(RATES, each, TARGET, Wanted(), []) for each in others]
    assert {(each.rows, each.columns) for each in usual if each is not None} <= {(192, 128), (128, 160), (128, 128)}
