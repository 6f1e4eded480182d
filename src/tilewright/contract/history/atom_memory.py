"""Histories of memory in which many accesses touch few different sets of bytes: one for each atom (`atoms`).

It is `ShadowMemory` with another way to keep the histories' numbers: the shared memories of a launch's CTAs, which one
kernel uses in the same way, share the atoms, and each keeps the number of each atom's history.

Checked by: tests/contract/history/test_shadow_memory.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.contract.history.atoms import Atoms
from tilewright.contract.history.shadow_memory import COARSE_BYTES, Record, ShadowMemory
from tilewright.machine.core.event import Ranges


class AtomMemory(ShadowMemory):
    """atoms: also of other memories."""

    __slots__ = ("_atoms", "_numbers")

    def __init__(self, atoms: Atoms | None = None) -> None:
        super().__init__()
        self._atoms = Atoms(COARSE_BYTES) if atoms is None else atoms
        self._numbers = [0]

    def _of(self, ranges: Ranges) -> list[int]:
        """The atoms of `ranges`; all atoms have numbers then."""
        atoms = self._atoms.of(ranges)
        if len(self._numbers) < len(self._atoms.parents):
            self._hear()
        return atoms

    def _hear(self) -> None:
        """Atoms that others cut, or I just did: nothing happened here since, so what a parent has is the child's."""
        numbers = self._numbers
        for parent in self._atoms.parents[len(numbers) :]:
            numbers.append(numbers[parent])

    def _enter(self, record: Record, found: dict[int, Record]) -> None:
        atoms, numbers = self._of(record.ranges), self._numbers
        if len(atoms) == 1:
            (atom,) = atoms
            numbers[atom] = self._entered([numbers[atom]], record, found)[0]
            return
        kinds = sorted({numbers[atom] for atom in atoms})
        added = self._entered(kinds, record, found)
        if len(added) == 1:
            number = added[0]
            for atom in atoms:
                numbers[atom] = number
        else:
            new = dict(zip(kinds, added, strict=True))
            for atom in atoms:
                numbers[atom] = new[numbers[atom]]

    def _put(self, ranges: Ranges, number: int) -> None:
        for atom in self._of(ranges):
            self._numbers[atom] = number

    def _kinds(self, ranges: Ranges) -> Iterator[list[int]]:
        numbers = self._numbers
        yield sorted({numbers[atom] for atom in self._of(ranges)})

    def _unwritten(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        stretches = self._atoms.held(begin, end)
        self._hear()
        unwritten, numbers = self.histories.unwritten, self._numbers
        for low, high, atom in stretches:
            if unwritten[numbers[atom]]:
                yield low, high
