"""How are the events of a whole stretch of accesses told, if nothing but its accesses is left of it?

Then no access need wait for the others: which of them are made, and by which lanes, is what their guards say, and by
the guards' vectors it is known which are told as one (`joined_accesses`). A vector is never changed in place, and those
by which something is known are kept, so that an identity stays its own.

Not handled: accesses with arithmetic between them that must not come before, or behind others that already wait; these
wait one by one. Checked by: tests/machine/events_only/test_joined_accesses.py, test_remembered_runs.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.machine.core.lanes import FULL, Lanes, Registers, predicate_mask
from tilewright.machine.core.step import Plain
from tilewright.machine.events_only.access_shapes import look_at
from tilewright.machine.events_only.joined_accesses import Group, Telling, WaitingAccess, Waits

_KNOWN_MOST = 1024


class _Row:
    """Accesses that wait, of which the last one tells. known: what is told, by the lanes and the guards' vectors."""

    def __init__(self, waits: Sequence[Waits], telling: Telling) -> None:
        self._waits = tuple(waits)
        self._telling = telling
        self._guards = tuple(dict.fromkeys(each.guard for each in waits if each.guard >= 0))
        self._look = look_at(self._guards) if self._guards else None
        self._known: dict[tuple[int, ...], tuple[tuple[Lanes, ...], tuple[Group, ...]]] = {}

    def full(self, r: Registers) -> None:
        self.masked(r, FULL)

    def masked(self, r: Registers, mask: int) -> None:
        warp = r[0]
        if warp.untold:
            for each in self._waits:
                each.masked(r, mask)
            return
        held = () if self._look is None else self._look(r)
        key = (mask, *map(id, held))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KNOWN_MOST:
                self._known.clear()
            known = self._known[key] = held, self._groups(held, mask)
        self._telling.tell_groups(warp, known[1], r)

    def _groups(self, held: Sequence[Lanes], mask: int) -> tuple[Group, ...]:
        holding = dict(zip(self._guards, map(predicate_mask, held), strict=True))
        accesses: list[WaitingAccess] = []
        masks: list[int] = []
        for each in self._waits:
            chosen = mask
            if each.guard >= 0:
                chosen &= holding[each.guard] ^ (FULL if each.negated else 0)
            if chosen:
                accesses.append(each.access)
                masks.append(chosen)
        return self._telling.groups(tuple(accesses), tuple(masks))


def at_once(left: Sequence[tuple[int, Plain]]) -> list[tuple[int, Plain]]:
    """What is left of a stretch, by place, of which accesses that are told together are one, at the last one's place.

    Nothing that they read is written between them, and all of it has been written."""
    found: list[tuple[int, Plain]] = []
    row: list[tuple[int, Plain]] = []
    waits: list[Waits] = []
    for place, rest in left:
        row.append((place, rest))
        if isinstance(rest, Waits):
            waits.append(rest)
            if rest.telling is None:
                continue
            made = _Row(waits, rest.telling)
            row = [(place, Plain(made.full, made.masked))]
        found += row
        row, waits = [], []
    return found + row
