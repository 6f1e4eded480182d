"""What a role's walk over groups of rows keeps in registers; how it goes is in `group_tiles`.

A value apart, so that places of `ac` values can name it. Checked by: tests/lower/distribution/test_group_tiles.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.ac import operations as ac


@dataclass(frozen=True, slots=True)
class TileRegisters:
    """A tile's first row, its number along the columns; of the current one, its group and the row where that ends."""

    row: str
    column: str
    group: str
    end: str


@dataclass(frozen=True, slots=True)
class GroupWalk:
    """Registers of the walk. tile: number of the tile looked for, `step` from the next; group: the group looked at, of
    `groups`, `last` being the last; first: number of its first tile; begin, end: its rows; following: the limit of the
    group after it; limits: address of their array; tiles_n, rows, pitch: of the operation. found: the tile found last;
    current: the one that the loop's body is about. head, done: labels."""

    op: ac.GroupLoop
    limits: str
    tile: str
    step: str
    group: str
    groups: str
    last: str
    first: str
    begin: str
    end: str
    following: str
    tiles_n: str
    rows: str
    pitch: str
    found: TileRegisters
    current: TileRegisters
    head: str
    done: str
