"""How long a tile shape would take: a closed-form model of one pipeline, in multiprocessor cycles.

A tile of bm x bn costs, for each slice of the contracted axis, the larger of its tensor-core time and the time its
operands need from the L2 cache; around that come a fixed start and an epilogue. Whole waves of tiles over the
multiprocessors give the total. Rates are target facts. What the model leaves out: DRAM bandwidth, clock throttling,
bank conflicts; so it ranks shapes, and promises no time. It can be replaced by another function of the same signature.
Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.targets import Target

_TILE_START_CYCLES = 1500
"""Filling an empty pipeline and draining it. A policy, no fact of a target: the model knows neither latencies nor how
many tiles overlap, and takes one number for all of them so that few large tiles rank before many small ones. What a
target was measured to take is in `synth.cost.time_model`."""
_STORE_BYTES_PER_CYCLE = 32
"""Rate at which one tile's result leaves through staging, likewise."""
SCATTERED_BYTES_PER_CYCLE = 8
"""Rate at which it leaves by plain stores across its rows in memory, likewise."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Per multiprocessor: tensor-core operations (two per multiply-add) and L2 bytes per cycle. sector_bytes: what is
    fetched at least, from a multiple of it; line_bytes: what a request reaches, from a multiple of it."""

    multiprocessors: int
    operations_per_cycle: int
    l2_bytes_per_cycle: int
    sector_bytes: int
    line_bytes: int


def rates_of(target: Target, element_bytes: int = 2) -> Rates:
    """The rates of a target for operands of 16 or 8 bits."""
    kind = "bf16" if element_bytes == 2 else "f8"
    return Rates(
        target.limit("device.multiprocessors"),
        target.limit(f"product.{kind}_flop_per_cycle_per_multiprocessor"),
        target.limit("device.l2_bytes_per_cycle_per_multiprocessor"),
        target.limit("device.sector_bytes"),
        target.limit("device.line_bytes"),
    )


def pipeline_cycles(
    rates: Rates,
    extents: tuple[int, int, int],
    tile: tuple[int, int, int],
    element_bytes: int,
    stored_bytes: int,
    *,
    scattered: bool = False,
    loaded_columns: float | None = None,
) -> float:
    """Estimated cycles of a program of (rows, columns, contracted) elements cut into `tile`.

    stored_bytes: bytes written per element of the result. scattered: the result leaves element by element, across its
    rows in memory, and not through staging. loaded_columns: of a tile, where more are loaded than are computed.
    """
    (rows, columns, depth), (tile_m, tile_n, tile_k) = extents, tile
    tiles = math.ceil(rows / tile_m) * math.ceil(columns / tile_n)
    waves = math.ceil(tiles / rates.multiprocessors)
    slices = math.ceil(depth / tile_k)
    multiply, fetch = slice_cycles(rates, tile, element_bytes, loaded_columns)
    # A last tile that reaches past the result stores what lies inside.
    stored = min(tile_m, rows) * min(tile_n, columns) * stored_bytes
    epilogue = stored / (SCATTERED_BYTES_PER_CYCLE if scattered else _STORE_BYTES_PER_CYCLE)
    return waves * (slices * max(multiply, fetch) + epilogue + _TILE_START_CYCLES)


def slice_cycles(
    rates: Rates, tile: tuple[int, int, int], element_bytes: int, loaded_columns: float | None = None
) -> tuple[float, float]:
    """(tensor-core cycles, L2 cycles) of one slice of the contracted axis."""
    tile_m, tile_n, tile_k = tile
    # A wgmma narrower than 64 columns is bound by reading A, which does not shrink with n.
    multiply = 2 * tile_m * max(tile_n, 64) * tile_k / rates.operations_per_cycle
    fetch = (tile_m + (loaded_columns or tile_n)) * tile_k * element_bytes / rates.l2_bytes_per_cycle
    return multiply, fetch


def raster_group(rates: Rates, tile_m: int, tile_n: int) -> int:
    """Tiles along m that run together so that one wave of tiles covers a near-square of the result (least L2
    traffic)."""
    return max(1, round(math.sqrt(rates.multiprocessors * tile_n / tile_m)))
