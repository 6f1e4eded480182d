"""How many CTAs share what they load: the cluster along rows and columns of tiles.

Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.synth.model import Rates, slice_cycles
from tilewright.synth.tile_shape import TileShape
from tilewright.synth.wanted import Wanted

_CLUSTERS = ((1, 1), (2, 1), (1, 2))


def choose_cluster(
    rates: Rates, shape: TileShape, element_bytes: int, wanted: Wanted, reasons: list[str]
) -> tuple[int, int]:
    """CTAs of a cluster along rows and columns. One, unless asked for: see the reason it gives.

    Sharing loses where it was measured (`python -m bench clusters` on an H200: of squares of 2048 to 8192 in tiles of
    128x256, pairs reach 0.67 to 0.88 of the speed of single CTAs). A slot is free only when both CTAs have released it,
    and neighbouring multiprocessors' requests for the same lines are joined on their way to the L2 cache anyhow. Which
    of the two weighs how much was not taken apart.
    """
    if wanted.cluster is not None:
        if wanted.cluster not in _CLUSTERS:
            known = ", ".join(f"{m}x{n}" for m, n in _CLUSTERS)
            raise TilewrightError(f"no cluster shape {wanted.cluster}", remedy=f"choose one of {known}")
        reasons.append(f"cluster {wanted.cluster[0]}x{wanted.cluster[1]}: as asked for")
        return wanted.cluster
    multiply, fetch = slice_cycles(rates, (shape.rows, shape.columns, shape.depth), element_bytes)
    reasons.append(
        f"cluster 1x1: a slice takes {multiply:.0f} cycles to multiply and {fetch:.0f} to fetch from L2; neighbours' "
        "requests for the same lines are joined without multicast"
    )
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
