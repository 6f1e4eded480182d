"""How many slices does the small instance of a program leave each tile whose sum teams of clusters share?

So few that a CTA of the first cluster, which takes a share of several teams one after the other, still fills every slot
of its ring twice and two of them a third time, so that a phase which never turns back shows; and that its cursors do
what those of the program's CTAs do (`small_cursors`), and all that they would do with as many slices as a ring has
slots and one more. A long sum of four teams, whose CTAs take one share each, costs three quarters of that.

As many slices as there are tiles, teams' shares or clusters are none: where two quantities are the same number, one of
them in place of the other would not show.
Not handled: fewer than three shares of a CTA, which leave nothing to save; what the program's cursors do and those of
no such instance, a phase that turns back with the first slice of a tile among them, to which neither these slices nor
longer tiles lead. Checked by: tests/driver/test_small_teams.py.
"""

from __future__ import annotations

from tilewright.driver.small_cursors import Happening, Kind, of_cta

_ROUNDS_LEAST = 3
_ROUNDS_TOLD_APART = 64
"""After so many shares a CTA of the program does nothing new."""


def slices_of_teams(stages: int, whole: int, teams: int, *, tiles: int, clusters: int, rounds: int) -> int:
    """Slices of a tile of the small instance.

    whole: of one in the program; rounds: shares that a CTA of the program takes; tiles, clusters: of the instance.
    """
    most = min(stages + 1, whole)
    taken = -(-tiles * teams // clusters)
    if taken < _ROUNDS_LEAST:
        return most

    def shown(slices: int, shares: int) -> set[Happening]:
        parts: list[tuple[Kind, int]] = [("whole", slices) for _ in range(shares)]
        return set(of_cta(parts, stages, 1))

    wanted = shown(most, taken) | shown(whole, min(rounds, _ROUNDS_TOLD_APART))
    others = {tiles, tiles * teams, clusters}
    found = [each for each in range(2, most) if taken * each >= 2 * stages + 2 and each not in others]
    return min((*found, most), key=lambda each: (len(wanted - shown(each, taken)), each))
