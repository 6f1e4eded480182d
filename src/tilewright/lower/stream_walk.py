"""What a role keeps in registers of its CTA's part of streamed tiles; how it is found is in `stream_share`.

Values apart, so that places of `ac` values can name them. Checked by: tests/lower/test_stream.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """Registers. cta: this CTA's number; low: the first granule of its share; base, larger: every CTA has `base`
    granules, and the first `larger` one more; exists: a predicate, whether the CTA has this part; tile: its number;
    start: the tile's first granule; count: the part's slices; first_slice: within the tile."""

    cta: str
    low: str
    base: str
    larger: str
    exists: str
    tile: str
    start: str
    count: str
    first_slice: str


@dataclass(frozen=True, slots=True)
class TurnItems:
    """Registers of a role whose units take parts of streamed tiles and whole tiles in turn. items: how many the CTA has
    had; barrier: address of the unit's barrier of turns; parity: that it waits for next; unit."""

    items: str
    barrier: str
    parity: str
    unit: str
