"""How does an element-by-element program whose loads run along another axis than its stores go over the grid?

Each warp takes tiles of points. It loads them with lanes next to each other along the axis that the loads run along,
exchanges them through shared memory of its own, computes, and stores with lanes next to each other along the axis that
the stores run along. Both sides are linear layouts of the same tile: from the numbers of element, lane and warp to the
place along the stored axis, the place along the loaded one, and the number of the warp's tile. Every bit of a place
comes from one bit of element or lane, so that places are sums.

Not handled: more than two axes that accesses run along. Who checks: tests/lower/points/test_transpose.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from tilewright.base.error import TilewrightError
from tilewright.ir.exchange import (
    Access,
    Cross,
    ExchangeCost,
    ExchangePlan,
    Load,
    Rearrange,
    Shuffle,
    Stage,
    Store,
    Toggle,
    Turn,
)
from tilewright.layout.linear.maps import LinearLayout

STORED, LOADED, WARP = "stored", "loaded", "warp"
"""Outputs of the layouts: places along the two axes in a tile, and whose tile it is."""
_LANE_BITS = 5


@dataclass(frozen=True, slots=True)
class TransposeDecision:
    """stored_axis, loaded_axis: places among the program's grid axes of those that stores and turned loads run along.
    side: points of a warp's tile along either. stored_run, loaded_run: neighbouring points that a thread takes at once,
    which divide the extents and are aligned in every array. warps: of a CTA. plans: from the layout that is loaded to
    the one that is stored, one for each size of element that is turned; each has memory of its own, in this order,
    since a warp's part lies elsewhere for each size. smem_bytes: of a CTA, for all plans."""

    stored_axis: int
    loaded_axis: int
    side: int
    stored_run: int
    loaded_run: int
    warps: int
    plans: tuple[ExchangePlan, ...]
    smem_bytes: int

    @property
    def stored_layout(self) -> LinearLayout:
        return side_layout(STORED, self.side, self.stored_run, self.warps)

    @property
    def loaded_layout(self) -> LinearLayout:
        return side_layout(LOADED, self.side, self.loaded_run, self.warps)

    @property
    def plan_offsets(self) -> tuple[int, ...]:
        """Bytes before each plan's memory."""
        return tuple(accumulate([plan.shared_bytes for plan in self.plans[:-1]], initial=0))


TRANSPOSE_CLASSES: tuple[type, ...] = (
    TransposeDecision, ExchangePlan, ExchangeCost, Rearrange, Toggle, Shuffle, Cross, Turn, Access, Stage, Store, Load
)  # fmt: skip
"""What a decision is made of."""


@lru_cache(maxsize=1 << 8)
def side_layout(along: str, side: int, run: int, warps: int) -> LinearLayout:
    """Who holds which point where accesses run along one axis: runs of `run` points of an element's low bits, then
    lanes along the axis, then across; what is left is of the element's high bits.

    along: STORED or LOADED; side, run, warps: powers of two. Raises TilewrightError for others, and for tiles of fewer
    points than a warp's lanes take.
    """
    sizes = (side, run, warps)
    if any(size < 1 or size & size - 1 for size in sizes) or run > side or side * side < run << _LANE_BITS:
        raise TilewrightError(
            f"a warp's tile of {side} x {side} points in runs of {run}, {warps} warps",
            remedy="give powers of two, and a run for every lane",
        )
    side_bits, run_bits, warp_bits = (size.bit_length() - 1 for size in sizes)
    shift = {STORED: 0, LOADED: side_bits}
    across = LOADED if along == STORED else STORED
    line = [1 << bit + shift[along] for bit in range(side_bits)]
    rows = [1 << bit + shift[across] for bit in range(side_bits)]
    lanes = line[run_bits : run_bits + _LANE_BITS]
    lanes += rows[: _LANE_BITS - len(lanes)]
    register = [
        *line[:run_bits],
        *(each for each in (*line, *rows) if each not in lanes and each not in line[:run_bits]),
    ]
    warp = [1 << 2 * side_bits + bit for bit in range(warp_bits)]
    inputs = (("register", len(register)), ("lane", _LANE_BITS), ("warp", warp_bits))
    outputs = ((STORED, side_bits), (LOADED, side_bits), (WARP, warp_bits))
    return LinearLayout(inputs, outputs, (*register, *lanes, *warp))


def tile_counts(decision: TransposeDecision, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Tiles along each extent: of one point along the axes that are not turned."""
    turned = (decision.stored_axis, decision.loaded_axis)
    return tuple([-(-size // decision.side) if at in turned else size for at, size in enumerate(extents)])


def places_of(layout: LinearLayout, side: int) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """(along the stored axis, along the loaded one) of every element of a thread, from its first; and of the bits of
    its lane."""
    bits = dict(layout.input_bits)
    columns = layout.columns[: bits["register"]]
    elements = [0]
    for column in columns:
        elements += [each | column for each in elements]
    lanes = layout.columns[bits["register"] : bits["register"] + _LANE_BITS]
    return tuple(_split(each, side) for each in elements), tuple(_split(each, side) for each in lanes)


def _split(packed: int, side: int) -> tuple[int, int]:
    return packed % side, packed // side % side
