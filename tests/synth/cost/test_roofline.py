"""What a program asks of each unit and tier, counted by hand, and bounds that no prediction undercuts."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.synth.walked_products import is_swapped, parts_of, tile_of, walk_of

from tilewright.base.error import TilewrightError
from tilewright.driver.views.roofline import TileWish, surviving_tiles
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cost.roofline import compulsory_bytes, program_roofline, survivors
from tilewright.synth.cost.time_model import least_microseconds, predicted_time
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

TARGET = target("sm_90a")
Shape = tuple[int, int, int]


def _part(shape: Shape, wanted: Wanted | None = None) -> tuple[tile.ProgramOp, CascadeDecisions]:
    m, n, k = shape
    parts = parts_of({"M": m, "N": n, "K": k}, strides={"b": (1, k)}, wanted=wanted)
    return the_program(parts[-1].module), walk_of(parts)


def _extents(decisions: CascadeDecisions, shape: Shape) -> Shape:
    """As the walk has them."""
    m, n, k = shape
    return (n, m, k) if is_swapped(decisions) else shape


def test_a_product_by_hand() -> None:
    shape = (1024, 2048, 512)
    program, decisions = _part(shape, Wanted(tile=(128, 256), depth=64, swapped=False))
    found = {each.name: each for each in program_roofline(program, decisions, TARGET).resources}
    assert compulsory_bytes(program) == 2 * (1024 * 512 + 512 * 2048 + 1024 * 2048)
    assert found["tensor cores"].amount == 2 * 1024 * 2048 * 512
    assert found["device memory"].amount == compulsory_bytes(program)
    slices = (1024 // 128) * (2048 // 256) * (512 // 64)
    slot_bytes = (128 + 256) * 64 * 2
    assert found["L2 cache"].amount == slices * slot_bytes + 1024 * 2048 * 2
    # Two blocks of 64 rows, each of which reads all 256 columns.
    assert found["shared memory"].amount == slices * (128 + 2 * 256) * 64 * 2


@pytest.mark.parametrize(
    ("shape", "dominant"), [((8192, 8192, 8192), "tensor cores"), ((16, 14336, 4096), "device memory")]
)
def test_what_dominates(shape: Shape, dominant: str) -> None:
    found = program_roofline(*_part(shape), TARGET)
    assert found.dominant.name == dominant
    assert found.predicted_microseconds is not None
    assert found.least_microseconds <= found.predicted_microseconds


_SHAPES: tuple[Shape, ...] = ((1024, 1024, 1024), (4096, 4096, 4096), (128, 4096, 4096), (1000, 333, 777), (64, 64, 64))
_WISHES = [
    Wanted(tile=tile_, split=split, stages=stages, turns=turns)
    for tile_, split, stages, turns in itertools.product(
        ((64, 64), (128, 96), (128, 192), (256, 128), (128, 256)), (1, 2), (None, 3), (None, True)
    )
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", _SHAPES)
def test_no_prediction_undercuts_the_least_time_of_its_tile(shape: Shape) -> None:
    seen = 0
    for wish in _WISHES:
        try:
            _, decisions = _part(shape, wish)
        except TilewrightError:
            continue
        seen += 1
        extents = _extents(decisions, shape)
        tiled = (*tile_of(decisions), decisions.tile_streamed)
        least = least_microseconds(tiled, decisions.split, extents, 2, TARGET)
        assert least <= predicted_time(decisions, extents, TARGET, stored_bytes=2).microseconds, (wish, least)
    assert seen >= 5


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", _SHAPES[:3])
def test_pruned_tiles_never_hold_the_models_best(shape: Shape) -> None:
    program, decisions = _part(shape)
    found = surviving_tiles(program, decisions, TARGET, Wanted())
    assert found is not None
    assert found.left_out > 0
    kept = {wish for _, wish in found.estimates}
    best = min(found.estimates, key=lambda item: item[0])[0]
    # Everything that was pruned, predicted after all.
    for height, width, turns, split in itertools.product((64, 128, 256), range(16, 257, 48), (False, True), (1, 2)):
        wish = TileWish(height, width, turns, split)
        if wish in kept:
            continue
        fixed = replace(wish.wanted(Wanted()), swapped=is_swapped(decisions), depth=decisions.tile_streamed)
        try:
            _, other = _part(shape, fixed)
        except TilewrightError:
            continue
        assert predicted_time(other, _extents(other, shape), TARGET, stored_bytes=2).microseconds >= best


def test_survivors_in_order_of_bounds() -> None:
    floors = {"a": 1.0, "b": 2.0, "c": 5.0, "d": 9.0}
    times = {"a": 6.0, "b": None, "c": 5.5, "d": 9.0}
    found = survivors(floors, floors.__getitem__, times.__getitem__)
    assert found is not None
    assert (found.best, found.left_out) == ("c", 1)
    assert survivors(["b"], floors.__getitem__, times.__getitem__) is None
