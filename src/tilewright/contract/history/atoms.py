"""Which bytes have always been touched together? The coarsest partition of which every access is a union of parts.

The bytes that the accesses of a kernel touch in shared memory are few different sets: slots, boxes, the rows that a
warp stages. An atom is a set of bytes that none of these sets has told apart; all of them have one history in every
CTA, so that an access has to do with a few numbers, not with one for each granule. A set that is met first cuts the
atoms of which it has a part: what it has becomes a new atom, a child. Who keeps a number for each atom gives a child
its parent's when he hears of it: no access of his came between.

Not handled: what the numbers mean, which is for `atom_memory` to say; atoms never grow together again, so that sets
that all differ cost more here than granules do.
Checked by: tests/contract/history/test_atoms.py.
"""

from __future__ import annotations

from itertools import pairwise

from tilewright.contract.history.granules import SEGMENT_BYTES, Cells, Part, Segment, renewed, split
from tilewright.machine.core.distinct import counted
from tilewright.machine.core.event import Ranges

_KEPT = 1024
_REST = 0
"""The atom of the bytes that nobody has touched, which is without end."""


class Atoms:
    """Atoms by number, ascending as they turned up. kept: so many sets of bytes are remembered, each of which is told
    of every cut of one of its atoms; parents: of which one each was cut."""

    __slots__ = (
        "_by_value",
        "_granule_bytes",
        "_kept",
        "_segments",
        "_sets",
        "_sizes_bytes",
        "parents",
    )  # fmt: skip

    def __init__(self, granule_bytes: int, kept: int = _KEPT) -> None:
        self.parents = [_REST]
        self._granule_bytes = granule_bytes
        self._kept = kept
        self._sizes_bytes = [0]
        # Of each atom the remembered sets, as lists of atoms, that it is part of.
        self._sets: list[list[list[int]]] = [[]]
        self._segments: dict[int, Segment] = {}
        self._by_value: dict[Ranges, list[int]] = {}

    def of(self, ranges: Ranges) -> list[int]:
        """The atoms of `ranges`, which are not empty, each once. The list is right until another one is asked for."""
        atoms = self._by_value.get(ranges)
        if atoms is None:
            if len(self._by_value) >= self._kept:
                self._forget()
            atoms = self._by_value[ranges] = self._cut(ranges)
        return atoms

    def held(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """The atoms of a stretch in order: for each run of bytes of one atom its begin, its end and the atom."""
        found: list[tuple[int, int, int]] = []
        for index, ((low, high),) in split(((begin, end),)):
            segment = self._segment(index)
            atoms = segment.held(segment.stretch(low, high))
            edges = [0, *((atoms[1:] != atoms[:-1]).nonzero()[0] + 1).tolist(), atoms.size]
            step = segment.granule_bytes
            for at, stop in pairwise(edges):
                found.append((low + at * step, low + stop * step, atoms.item(at)))
        return found

    def _forget(self) -> None:
        self._by_value.clear()
        for sets in self._sets:
            sets.clear()

    def _cut(self, ranges: Ranges) -> list[int]:
        """The atoms of a new set: it is made a union of atoms."""
        places: list[tuple[Segment, Cells]] = []
        sizes: dict[int, int] = {}
        for index, part in split(ranges):
            segment = self._segment(index)
            for cells in segment.fitted(Part(index, part)):
                places.append((segment, cells))
                for atom, count in counted(segment.held(cells)):
                    sizes[atom] = sizes.get(atom, 0) + count * segment.granule_bytes
        mine: list[int] = []
        new: dict[int, int] = {}
        for atom, size in sizes.items():
            if atom == _REST or size < self._sizes_bytes[atom]:
                new[atom] = self._child(atom, size)
            else:
                new[atom] = atom
            mine.append(new[atom])
            self._sets[new[atom]].append(mine)
        for segment, cells in places:
            segment.put(cells, renewed(segment.held(cells), new))
        return mine

    def _child(self, atom: int, size: int) -> int:
        """Cut so many bytes off an atom, which is of the same sets."""
        child = len(self.parents)
        self.parents.append(atom)
        self._sizes_bytes[atom] -= size
        self._sizes_bytes.append(size)
        self._sets.append(list(self._sets[atom]))
        for atoms in self._sets[atom]:
            atoms.append(child)
        return child

    def _segment(self, index: int) -> Segment:
        segment = self._segments.get(index)
        if segment is None:
            segment = self._segments[index] = Segment(index * SEGMENT_BYTES, self._granule_bytes)
        return segment
