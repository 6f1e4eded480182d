"""How many CTAs share what they load: the cluster along rows and columns of tiles.

A choice by what was measured of pairs, of which `bench clusters` compares both kinds with single CTAs; what multicast
does to the rate of copies, `bench.probes.multicast` tells. Of few rows `synth.tile.few_rows` has chosen. Not handled:
CTAs that share loads in products of several waves that are streamed, batches, groups of rows; clusters along both axes.
Checked by: tests/synth/distribution/test_cluster_shape.py, tests/synth/test_decide.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.synth.cost.model import Rates, slice_cycles
from tilewright.synth.distribution.cluster_parts import CORE_ROWS, in_equal_parts
from tilewright.synth.tile.scaled_tile import two_overlap
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_CLUSTERS = ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4))
_LEAST_WAVES = 2
"""Of tiles: with one wave of them nothing was gained, or measured."""


def choose_cluster(
    rates: Rates, shape: TileShape, question: TileQuestion, target: Target, wanted: Wanted, reasons: list[str]
) -> tuple[int, int]:
    """CTAs of a cluster along rows and columns: one, unless two are asked for or slots are scaled and many.

    What two multiprocessors read at the same time the L2 cache sends them as fast as one can multicast it: 67 bytes a
    cycle to each against 66 (`python -m bench.probes.multicast` on an H200). Products that only copy and multiply gain
    nothing by pairs, in time or in energy (`python -m bench clusters --alone`: of the same tile, 0.97 to 1.02 of a
    single CTA's speed where there are many waves and pairs take no more, 0.74 to 0.99 where there is one). But the L2
    cache has less to do, and where threads load scales for every slot, those come sooner.
    """
    if wanted.cluster is not None:
        if wanted.cluster not in _CLUSTERS:
            known = ", ".join(f"{m}x{n}" for m, n in _CLUSTERS)
            raise TilewrightError(f"no cluster shape {wanted.cluster}", remedy=f"choose one of {known}")
        reasons.append(f"cluster {wanted.cluster[0]}x{wanted.cluster[1]}: as asked for")
        return wanted.cluster
    if shape.paired:
        m, n = shape.cluster
        # CTAs along the columns read the same rows of A, and those along the rows the same columns of B.
        large = (n > 1) == ((question.extents[0] >= question.extents[1]) != shape.swapped)
        spared = "which memory else brings more than once" if large else "which the L2 cache else sends to each"
        reasons.append(f"cluster {m}x{n}: one copy of what {m * n} CTAs read, {spared}")
        return shape.cluster
    if question.scaled and question.element_bytes == 1:
        return _of_scaled(rates, shape, question, target, wanted, reasons)
    multiply, fetch = slice_cycles(rates, (shape.rows, shape.columns, shape.depth), question.element_bytes)
    reasons.append(
        f"cluster 1x1: a slice takes {multiply:.0f} cycles to multiply and {fetch:.0f} to fetch from L2; neighbours' "
        "requests for the same lines are joined without multicast"
    )
    return (1, 1)


def _of_scaled(
    rates: Rates, shape: TileShape, question: TileQuestion, target: Target, wanted: Wanted, reasons: list[str]
) -> tuple[int, int]:
    """As `choose_cluster`, of a product of 8-bit operands whose slots are scaled."""
    rows, columns, depth = question.extents
    if shape.swapped:
        rows, columns = columns, rows
    slices = math.ceil(depth / shape.depth)
    paired = "_paired" if two_overlap(shape, slices) else ""
    cost = target.limit(f"promotion.shared_tile_cycles{paired}")
    saved = target.limit(f"promotion.shared_slice_cycles{paired}") * slices - cost
    tiles = (math.ceil(rows / shape.rows), math.ceil(columns / shape.columns))
    plain = question.batch == 1 and question.products == 1 and shape.shares == 1 and shape.resident == 1
    # Threads that copy an operand fill the slots of their own CTA.
    plain = plain and wanted.unmapped != "threads"
    waves = math.ceil(tiles[0] * tiles[1] / rates.multiprocessors)
    if saved <= 0 or not plain or waves < _LEAST_WAVES:
        why = "are too few to make up for waiting for each other" if saved <= 0 else "are of too few tiles"
        why = why if plain else "are shared otherwise, or not by copies"
        reasons.append(f"cluster 1x1: {slices} slices with scales {why}")
        return (1, 1)
    # Sharing the rows' operand was the quicker of the two wherever both come out even.
    for m, n in ((1, 2), (2, 1)):
        extent = shape.rows if n > 1 else shape.columns
        taken = math.ceil(tiles[0] / m) * math.ceil(tiles[1] / n)
        if math.ceil(taken / (rates.multiprocessors // 2)) == waves and in_equal_parts(extent, 2, CORE_ROWS):
            reasons.append(
                f"cluster {m}x{n}: scales of {slices} slices come sooner where pairs share their copies, about "
                f"{saved} cycles of a tile"
            )
            return (m, n)
    reasons.append(f"cluster 1x1: pairs of {tiles[0]}x{tiles[1]} tiles take a wave more")
    return (1, 1)


def taken_by_clusters(
    rates: Rates, tile: tuple[int, int], tiles: tuple[int, int], cluster: tuple[int, int]
) -> tuple[Rates, tuple[int, int], tuple[int, int]]:
    """What the order of tiles is chosen by where a cluster's CTAs take neighbouring tiles: how many clusters there are,
    how large what a cluster takes is, and how many times the result holds that.

    tile: rows, columns; tiles: how many of them along each.
    """
    (m, n), clusters = cluster, rates.multiprocessors // (cluster[0] * cluster[1])
    each = replace(rates, multiprocessors=clusters)
    return each, (m * tile[0], n * tile[1]), (math.ceil(tiles[0] / m), math.ceil(tiles[1] / n))
