"""Atoms agree with a partition of bytes that is made anew each time."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tilewright.contract.history.atoms import Atoms
from tilewright.contract.history.granules import SEGMENT_BYTES
from tilewright.machine.core.event import Ranges

BASE = SEGMENT_BYTES - 40
EVERYTHING = (BASE - 16, BASE + 120)


@st.composite
def some_ranges(draw: st.DrawFn) -> Ranges:
    unit = draw(st.sampled_from([1, 2, 4, 16]))
    edges = sorted(draw(st.sets(st.integers(0, 96 // unit), min_size=2, max_size=8)))
    return tuple((BASE + unit * a, BASE + unit * b) for a, b in zip(edges[::2], edges[1::2], strict=False))


def _bytes(ranges: Ranges) -> set[int]:
    return {byte for begin, end in ranges for byte in range(begin, end)}


@given(st.lists(some_ranges(), max_size=8), st.sampled_from([2, 64]))
def test_every_set_is_a_union_of_atoms(sequence: list[Ranges], kept: int) -> None:
    atoms = Atoms(16, kept)
    for ranges in sequence:
        atoms.of(ranges)
    of_byte = {byte: atom for low, high, atom in atoms.held(*EVERYTHING) for byte in range(low, high)}
    assert len(of_byte) == EVERYTHING[1] - EVERYTHING[0]
    for ranges in sequence:
        mine = atoms.of(ranges)
        assert len(mine) == len(set(mine))
        assert {byte for byte, atom in of_byte.items() if atom in mine} == _bytes(ranges)
    # No finer than needed: bytes of one atom are in the same sets, and those of two are not.
    alike = {byte: frozenset(n for n, each in enumerate(sequence) if byte in _bytes(each)) for byte in of_byte}
    assert len(set(of_byte.values())) == len(set(alike.values()))


@given(st.lists(some_ranges(), max_size=6))
def test_a_child_has_bytes_of_its_parent(sequence: list[Ranges]) -> None:
    atoms = Atoms(16)
    before = {byte: atom for low, high, atom in atoms.held(*EVERYTHING) for byte in range(low, high)}
    for ranges in sequence:
        atoms.of(ranges)
        after = {byte: atom for low, high, atom in atoms.held(*EVERYTHING) for byte in range(low, high)}
        assert all(new in (old, len(before)) or atoms.parents[new] == old for new, old in (
            (after[byte], before[byte]) for byte in after
        ))  # fmt: skip
        before = after
    assert all(parent < child for child, parent in enumerate(atoms.parents) if child)


def test_equal_sets_have_the_same_atoms() -> None:
    atoms = Atoms(16)
    first = ((0, 64), (128, 192))
    another: Ranges = tuple((begin, begin + 64) for begin in (0, 128))
    assert another is not first
    assert atoms.of(first) is atoms.of(another)
    (whole,) = atoms.of(first)
    half = atoms.of(((0, 64),))
    assert set(atoms.of(first)) == {whole, *half}
    assert all(low < high for low, high, _ in atoms.held(0, 256))
    assert all(end == begin for (_, end, _), (begin, _, _) in pairwise(atoms.held(0, 256)))
