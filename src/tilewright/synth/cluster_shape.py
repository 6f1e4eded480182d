"""How many CTAs share what they load: the cluster along rows and columns of tiles.

Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.synth.model import Rates, slice_cycles
from tilewright.synth.tile_shape import TileShape
from tilewright.synth.wanted import Wanted

_CLUSTERS = ((1, 1), (2, 1), (1, 2))


def choose_cluster(
    rates: Rates, shape: TileShape, element_bytes: int, wanted: Wanted, reasons: list[str]
) -> tuple[int, int]:
    """CTAs of a cluster along rows and columns. One, unless asked for: see the reason it gives.

    Where fetching is the longer, sharing still loses: every release of a slot must then reach the other CTA, and a
    release at cluster scope costs more than the fetch saves (`python -m bench clusters` on an H200).
    """
    if wanted.cluster is not None:
        if wanted.cluster not in _CLUSTERS:
            known = ", ".join(f"{m}x{n}" for m, n in _CLUSTERS)
            raise TilewrightError(f"no cluster shape {wanted.cluster}", remedy=f"choose one of {known}")
        reasons.append(f"cluster {wanted.cluster[0]}x{wanted.cluster[1]}: as asked for")
        return wanted.cluster
    multiply, fetch = slice_cycles(rates, (shape.rows, shape.columns, shape.depth), element_bytes)
    words = (
        "multicast would save nothing" if fetch <= multiply else "a cluster-wide release costs more than sharing saves"
    )
    reasons.append(
        f"cluster 1x1: a slice takes {multiply:.0f} cycles to multiply and {fetch:.0f} to fetch from L2; {words}"
    )
    return (1, 1)
