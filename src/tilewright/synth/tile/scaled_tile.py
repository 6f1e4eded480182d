"""Which tile suits a product that is promoted slot by slot, scaled or not, and shall several CTAs share its slices?

A slot costs more than the tensor core's time: between two products of a consumer lie the wait for the first, one
multiply-add for each of its accumulators, and the barriers. More consumers hide that of each other, and wider parts
share the barriers. A closed form ranks tiles and splits; its parameters are facts of the target (`promotion`).

Not handled: clusters that share loads, batches, several products. Checked by: tests/synth/tile/test_scaled_tile.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tilewright.synth.cost.model import Rates, slice_cycles
from tilewright.synth.distribution.split import splits_of
from tilewright.synth.operand.scaled_product import fits_registers
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_TILES: tuple[tuple[int, int, int], ...] = (
    (192, 128, 3),
    (128, 192, 2),
    (128, 160, 2),
    (128, 128, 2),
    (128, 64, 2),
    (64, 128, 1),
    (64, 64, 1),
    (64, 32, 1),
)
"""(rows, columns, consumers) that are ranked."""
_ROWS = ((64, 1), (128, 2), (192, 3))
_LEAST_COLUMNS = 64
_SPLITS = (1, 2, 4)
_PAIR = 2
_PAIRED_ACCUMULATORS = 64
_LEAST_SLICES = 4
"""Slots of each CTA that shares a tile: fewer do not fill its ring."""


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Cycles: until an empty pipeline is full and for its end (`start`); of a slot besides its product (`slot`), and
    for each register of its accumulator, alone (`register`) or where two slots overlap (`paired`, and `paired_scaled`
    where their scales are loaded beside); of a rendezvous (`meeting`). Bytes a cycle at which a result leaves
    (`store`), and partial sums are exchanged (`exchange`). fetch: of a slot's time at the L2 cache's rate."""

    start: float
    slot: float
    register: float
    paired: float
    paired_scaled: float
    meeting: float
    store: float
    exchange: float
    fetch: float


@cache
def _parameters(target: Target) -> _Parameters:
    def of(name: str) -> int:
        return target.limit(f"promotion.{name}")

    return _Parameters(
        start=of("start_cycles"),
        slot=of("slot_cycles"),
        register=of("register_percent") / 100,
        paired=of("paired_register_percent") / 100,
        paired_scaled=of("scaled_register_percent") / 100,
        meeting=of("meeting_cycles"),
        store=of("store_bytes_per_cycle"),
        exchange=of("exchange_bytes_per_cycle"),
        fetch=of("fetch_percent") / 100,
    )


def choose_scaled_shape(
    rates: Rates, question: TileQuestion, target: Target, wanted: Wanted, reasons: list[str], *, alone: bool = False
) -> TileShape | None:
    """The best shape for such a product; None where it is not one, or a wish leaves nothing to choose. alone: of those
    whose slices no CTAs share."""
    wishes = (wanted.tile, wanted.consumers, wanted.split, wanted.cluster, wanted.depth, wanted.swapped)
    if (
        not question.scaled_depth
        or max(question.batch, question.products) > 1
        or any(each is not None for each in wishes)
    ):
        return None
    found = (pair for pair in estimated(rates, question, target) if pair[0].split == 1 or not alone)
    best, least = min(found, key=lambda pair: pair[1])
    others = further_estimated(rates, question, target)
    other, cycles = min(others, key=lambda pair: pair[1], default=(best, least))
    if cycles <= (1 - target.limit("promotion.least_gain_percent") / 100) * least:
        best = other
    reasons.append(
        f"tile {best.rows}x{best.columns}x{best.depth}: slots promoted by {best.consumers} consumers"
        + (f", slices shared by {best.split} CTAs" if best.split > 1 else "")
        + f", about {scaled_cycles(rates, question, best, target):.0f} cycles by the model"
    )
    return best


def estimated(rates: Rates, question: TileQuestion, target: Target) -> Iterator[tuple[TileShape, float]]:
    """All tiles that are ranked, with their estimated cycles."""
    for rows, columns, consumers in _TILES:
        slices = math.ceil(question.extents[2] / question.scaled_depth)
        for split in splits_of(target):
            if split == 1 or (split in _SPLITS and slices // split >= _LEAST_SLICES):
                depth, swapped = question.scaled_depth, question.orientations[0]
                shape = TileShape(rows, columns, depth, consumers, swapped, split)
                yield shape, scaled_cycles(rates, question, shape, target)


def further_estimated(rates: Rates, question: TileQuestion, target: Target) -> Iterator[tuple[TileShape, float]]:
    """The same of tiles of all columns, in both orientations if results leave in bulk in both; none where slots are
    scaled, which was not measured."""
    if question.scaled or not question.bulk:
        return
    depth, natural = question.scaled_depth, question.orientations[0]
    for swapped in (natural, not natural) if question.turnable else (natural,):
        for rows, consumers in _ROWS:
            for columns in range(_LEAST_COLUMNS, target.limit("product.columns_max") + 1, 8):
                if fits_registers(rows, columns, consumers):
                    shape = TileShape(rows, columns, depth, consumers, swapped)
                    yield shape, scaled_cycles(rates, question, shape, target)


def _clusters(multiprocessors: int, ctas: int) -> int:
    """Clusters that run at once. Those of more than two CTAs leave multiprocessors over, since a cluster's are of one
    GPC, whose number is no multiple: 32 clusters of four take two turns on an H200 (measured)."""
    return (multiprocessors if ctas <= _PAIR else multiprocessors * 7 // 8) // ctas


def _accumulators(shape: TileShape) -> int:
    """Registers of a thread."""
    return shape.rows * shape.columns // (128 * shape.consumers)


def two_overlap(shape: TileShape, slices: int) -> bool:
    """Whether the products of two slots overlap in a consumer: of an even number of slots, where registers hold three
    accumulators."""
    return slices % 2 == 0 and _accumulators(shape) <= _PAIRED_ACCUMULATORS and shape.consumers <= _PAIR


def promotion_cycles(question: TileQuestion, shape: TileShape, slices: int, target: Target) -> float:
    """Estimated cycles of a slot besides its product. slices: of a CTA."""
    by = _parameters(target)
    paired = by.paired_scaled if question.scaled else by.paired
    return by.slot + (paired if two_overlap(shape, slices) else by.register) * _accumulators(shape)


def scaled_cycles(rates: Rates, question: TileQuestion, shape: TileShape, target: Target) -> float:
    """Estimated cycles of the whole product."""
    by = _parameters(target)
    rows, columns, depth = question.extents
    if shape.swapped:
        rows, columns = columns, rows
    tiles = math.ceil(rows / shape.rows) * math.ceil(columns / shape.columns)
    waves = math.ceil(tiles / _clusters(rates.multiprocessors, shape.split))
    slices = math.ceil(math.ceil(depth / shape.depth) / shape.split)
    multiply, fetch = slice_cycles(rates, (shape.rows, shape.columns, shape.depth), question.element_bytes)
    slot = max(multiply + promotion_cycles(question, shape, slices, target), by.fetch * fetch)
    epilogue = shape.rows * shape.columns * question.stored_bytes / by.store / shape.split
    if shape.split > 1:
        epilogue += by.meeting + 4 * shape.rows * shape.columns / by.exchange / shape.split
    return by.start + waves * (slices * slot + epilogue)
