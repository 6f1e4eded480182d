"""Shall consumers that share a tile issue a slot's products one after the other?

Where each slot's product is promoted to a total by the threads, an order keeps consumers from being done at the same
time: while one adds, the tensor core multiplies for the others (see `ir.ac.issue_order`). On an H200 promoted products
of 8 bits were slower in order: one warpgroup's products alone, each adding to the one before, do not keep the tensor
core busy, those of two at a time do. So nothing is ordered but by a wish. Where the tensor core sums by itself, a
consumer's next product waits behind the one before anyhow.

Walks that compute between products are another question (`cascade.issue_plan`). Not handled: consumers that take whole
alternate tiles, which are ordered by their turns; groups of rows.
Checked by: tests/synth/schedule/test_issue_order.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.synth.tile.wanted import Wanted

LEAST_CONSUMERS = 2


def choose_issue_order(consumers: int, wanted: Wanted, reasons: list[str], *, promoted: bool) -> bool:
    """Whether products are issued in order. consumers: that share a tile.

    Raises TilewrightError for a wish where there is nothing to order.
    """
    if not wanted.ordered:
        return False
    if not promoted or consumers < LEAST_CONSUMERS:
        raise TilewrightError(
            f"{consumers} consumers do not issue in order"
            if promoted
            else "only promoted products are issued in order",
            remedy="leave out the order of issue, or ask for accumulation='precise' and 2 or more consumers",
        )
    reasons.append(
        f"{consumers} consumers issue the products of a slot in order, so that one adds while others multiply"
    )
    return True
