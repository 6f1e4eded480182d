"""How many slices does the small instance of a program leave each tile whose sum teams of clusters share?

So few that a CTA of the first cluster, which takes a share of several teams one after the other, still fills every slot
of its ring twice and two of them a third time, so that a phase which never turns back shows, or as many as a CTA of the
program fills, where that is less; and that its cursors do what those of the program's CTAs do (`small_cursors`), and
all that they would do with as many slices as a ring has slots and one more. A long sum of four teams, whose CTAs take
one share each, costs three quarters of that.

Where no CTA of the program fills a slot twice, nothing of it comes after the ring's first round: its text passes no
phase that has turned to anybody, and what it would do with one decides nothing. There the cursors need only do what the
program's do, which takes slices enough for all slots. A sum of 32768 of 64 by 64, of eight slices in eight slots, has
five left.

As many slices as there are tiles, teams' shares or clusters are none: where two quantities are the same number, one of
them in place of the other would not show; unless they are the same number in the program as well, whose text is then
right with either. As many as teams, or teams but one, are taken only where no other number lets the cursors do as much.
Not handled: fewer than three shares of a CTA, which leave nothing to save; what the program's cursors do and those of
no such instance, a phase that turns back with the first slice of a tile among them, to which neither these slices nor
longer tiles lead. Checked by: tests/driver/reproof/test_small_teams.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.driver.reproof.small_cursors import Happening, Kind, of_cta

TILES_OF_TEAMS = 2
CTAS_OF_TEAMS = 3
"""Clusters of an instance whose tiles teams share: two tiles' shares then fall to different ones."""
_ROUNDS_LEAST = 3
_ROUNDS_TOLD_APART = 64
"""After so many shares a CTA of the program does nothing new."""


@dataclass(frozen=True, slots=True)
class TeamGrid:
    """Tiles that teams share, and the clusters that take their shares one after the other."""

    teams: int
    tiles: int
    clusters: int

    @property
    def shares(self) -> int:
        return self.tiles * self.teams

    @property
    def rounds(self) -> int:
        """Shares that a CTA of the first cluster takes."""
        return -(-self.shares // self.clusters)

    @property
    def quantities(self) -> tuple[int, ...]:
        """What the text counts by."""
        return self.tiles, self.shares, self.clusters

    @property
    def numbers_of_teams(self) -> tuple[int, ...]:
        """What it counts by besides, in the program as in the instance."""
        return self.teams, self.teams - 1


def slices_of_teams(stages: int, whole: int, program: TeamGrid, small: TeamGrid) -> int:
    """Slices of a tile of the small instance. whole: of one in the program."""
    most = min(stages + 1, whole)
    taken, rounds = small.rounds, min(program.rounds, _ROUNDS_TOLD_APART)
    if taken < _ROUNDS_LEAST:
        return most

    def shown(slices: int, shares: int) -> set[Happening]:
        parts: list[tuple[Kind, int]] = [("whole", slices) for _ in range(shares)]
        return set(of_cta(parts, stages, 1))

    wanted = shown(whole, rounds)
    if rounds * whole > stages:
        wanted |= shown(most, taken)
    filled = min(2 * stages + 2, rounds * whole)
    pairs = zip(small.quantities, program.quantities, strict=True)
    others = {less for less, number in pairs if number != whole}
    found = [each for each in range(2, most) if taken * each >= filled and each not in others]
    confused = {number for number in program.numbers_of_teams if number != whole}
    return min((*found, most), key=lambda each: (len(wanted - shown(each, taken)), each in confused, each))
