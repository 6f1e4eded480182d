"""Which tiles are cut along the contracted axis, so that CTAs that own none help with them (`ir.ac.stream`).

Checked by: tests/lower/test_stream.py, tests/end_to_end/test_walked_streams.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TileStream:
    """tiles: how many, the first ones; helpers: CTAs that own none of them; head_slices: of each tile, a helper's."""

    tiles: int
    helpers: int
    head_slices: int

    @property
    def ctas(self) -> int:
        return self.tiles + self.helpers
