"""How the sum of a tile is taken by CTAs that share the contracted axis, as decisions of any kind say it.

Checked by: tests/lower/distribution/test_split_product.py and tests/end_to_end/test_walked_splits.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.ac.split import contributions


@dataclass(frozen=True, slots=True)
class SplitSum:
    """ctas: that share a tile; units: consumers that have rows of it; rows, columns: of the tile; parts: of its
    columns, each stored by one of the CTAs; part_step: columns from one part of the sum to the next."""

    ctas: int
    units: int
    rows: int
    columns: int
    parts: int
    part_step: int

    @property
    def partial_bytes(self) -> int:
        """Shared memory for the parts of its columns that a CTA gets from those it shares tiles with: from the other
        one of two, or from each of more, itself included."""
        if self.ctas == 1:
            return 0
        return 4 * self.rows * (self.columns // self.parts) * contributions(self.ctas, self.parts)


@dataclass(frozen=True, slots=True)
class TeamSum:
    """How clusters that share the contracted axis of a tile add up through memory. teams: how many; ctas: of each;
    units: that have rows of a tile; rows, columns: of what a unit has of its CTA's part of a sum."""

    teams: int
    ctas: int
    units: int
    rows: int
    columns: int
