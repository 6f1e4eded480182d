"""Where should a tile stand in shared memory, so that nobody who accesses it conflicts?

All accesses of a buffer are judged together, in every placement that can be had (`placement_space`), and the best is
the one of fewest wavefronts, then of fewest extra bytes, then the simplest. Two facts make this quick:

    linear    In a tile whose rows are a power of two, an access is a linear map of lane bits over F2, and so are
              panels and swizzles. The words of one group of lanes form a space W, and a placement f takes as many
              wavefronts as there are words of W that f sends to bank 0: the kernel of the bank bits on W. W is found
              once for each access; one comparison of arrays judges all swizzles.
    affine    Padding only scales rows, and loops rotate banks: one warp is judged for each padding, all at once.

The rest (swizzles of rows that are no power of two, row XORs) is judged by residues of the loops, or by enumeration.

Theory of the proof. Let atoms be the widest vectors that any lane moves; every access of a vector needs them aligned
and whole, so a placement moves atoms and never what is inside them. Words that stand at one place of their atoms then
share banks / words-of-an-atom banks, whatever the placement; D distinct ones of a group take at least D over that many
wavefronts, rounded up, since placements are injective. Where the choice takes exactly that (`proof` is "bound"), no
placement at all is better. Otherwise ("exhausted") no other placement of the finite space is: every one was judged. An
optimum among all linear maps, which no hardware has, is not claimed.

Not handled: choosing the accesses themselves; several buffers that share memory. Checked by
tests/legal/bank/test_swizzle_choice.py against enumeration of every access in every placement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Literal

import numpy as np

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers import bit_matrix
from tilewright.legal.bank.access_kind import access_kind, lane_groups, lanes_together, pair_distances
from tilewright.legal.bank.bank_linear import group_basis, lane_count, residues
from tilewright.legal.bank.banks import wavefronts
from tilewright.legal.bank.placement import Buffer, BufferAccess, Digit, Family, Integers, Placement, positions
from tilewright.legal.bank.placement_space import placements, plain_placement
from tilewright.targets import Target
from tilewright.targets import target as target_by_name

Proof = Literal["bound", "exhausted"]
_MOST_JUDGED = 1 << 17
"""Accesses enumerated for one access of the buffer, over all placements that need it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A placement with what it costs: wavefronts of each access of the buffer over all its iterations, in order (an
    engine's own reading last), and the sum by weight."""

    placement: Placement
    by_access: tuple[int, ...]
    wavefronts: int


@dataclass(frozen=True, slots=True)
class SwizzleChoice:
    """best; plain: rows one after another, even where the engines cannot have it so; by_family: the best of each
    family; ideal: wavefronts if no bank were ever asked twice; bound: wavefronts below which no placement goes;
    candidates: how many placements were judged; proof: why the best is minimal."""

    best: Judged
    plain: Judged
    by_family: tuple[Judged, ...]
    ideal: int
    bound: int
    candidates: int
    proof: Proof

    @property
    def conflict_free(self) -> bool:
        """Whether every access takes what it would without any conflict."""
        return self.best.wavefronts == self.ideal


def choose_placement(buffer: Buffer, target: Target | str) -> SwizzleChoice:
    """The best placement of a buffer.

    Raises TilewrightError for lanes that are no warp, kinds and engines that the target lacks, a buffer that nobody
    accesses, and iterations too many to judge where no closed form holds.
    """
    facts = target_by_name(target) if isinstance(target, str) else target
    judged = judge_placements(buffer, facts)
    best = min(judged, key=_worth)
    families: dict[Family, Judged] = {}
    for each in judged:
        known = families.get(each.placement.family)
        if known is None or _worth(each) < _worth(known):
            families[each.placement.family] = each
    accesses = _all_accesses(buffer, facts)
    plain = next((each for each in judged if each.placement.family == "plain"), None)
    if plain is None:
        plain = _judged(buffer, accesses, (plain_placement(buffer),), facts)[0]
    atom = max(access_kind(access.kind).lane_bytes for access in accesses)
    ideal = sum(access.weight * _bound(access, 1, buffer, facts) for access in accesses)
    bound = sum(access.weight * _bound(access, atom, buffer, facts) for access in accesses)
    proof: Proof = "bound" if best.wavefronts == bound else "exhausted"
    return SwizzleChoice(best, plain, tuple(families.values()), ideal, bound, len(judged), proof)


def judge_placements(buffer: Buffer, target: Target | str) -> tuple[Judged, ...]:
    """What every placement of a buffer costs, the simplest first. Raises TilewrightError as `choose_placement` does."""
    facts = target_by_name(target) if isinstance(target, str) else target
    return _judged(buffer, _all_accesses(buffer, facts), placements(buffer, facts), facts)


def _judged(
    buffer: Buffer, accesses: Sequence[BufferAccess], space: Sequence[Placement], target: Target
) -> tuple[Judged, ...]:
    costs = np.stack([_Access(access, buffer, target).cost(space) for access in accesses], axis=1)
    totals = costs @ np.array([access.weight for access in accesses])
    rows = zip(space, costs.tolist(), totals.tolist(), strict=True)
    return tuple(Judged(placement, tuple(each), total) for placement, each, total in rows)


def _worth(judged: Judged) -> tuple[int, int, int]:
    return judged.wavefronts, judged.placement.extra_bytes, judged.placement.panels


def _all_accesses(buffer: Buffer, target: Target) -> tuple[BufferAccess, ...]:
    """The buffer's accesses, and the reading of core matrices by a matrix instruction: 8 rows of 16 bytes at a time."""
    found = list(buffer.accesses)
    if buffer.reader is not None:
        rows, row_bytes = target.limit("matrix_access.rows"), target.limit("matrix_access.row_bytes")
        if buffer.rows % rows or buffer.row_bytes % row_bytes:
            raise TilewrightError(f"a matrix instruction reads {rows} rows of {row_bytes} bytes at a time")
        loops = (Digit(buffer.rows // rows, rows), Digit(buffer.row_bytes // row_bytes, 0, row_bytes))
        found.append(BufferAccess("ldmatrix.x1", (Digit(rows, 1),), loops))
    if not found:
        raise TilewrightError(
            "nobody accesses the buffer", remedy="give its accesses, or the instruction that reads it"
        )
    for access in found:
        lanes = len(positions(access.lanes)[0])
        if lanes != lane_count(access.kind, target):
            raise TilewrightError(
                f"{lanes} lanes; {access.kind} takes addresses from {lane_count(access.kind, target)} on {target.name}"
            )
    return tuple(found)


def _bound(access: BufferAccess, atom: int, buffer: Buffer, target: Target) -> int:
    """Wavefronts below which no placement goes that keeps atoms of so many bytes whole and aligned."""
    kind = access_kind(access.kind)
    bank_bytes = target.limit("multiprocessor.shared_bank_bytes")
    bank_row = target.limit("multiprocessor.shared_banks") * bank_bytes
    width = max(kind.lane_bytes, bank_bytes)
    atom = max(atom, width)
    rows, columns = positions(access.lanes)
    places = list(zip(rows.tolist(), columns.tolist(), strict=True))
    groups = lane_groups(kind, target)
    if any(
        all(place == places[lane ^ apart] for lane, place in enumerate(places))
        for apart in pair_distances(kind, target)
    ):
        groups = tuple(first + second for first, second in zip(groups[::2], groups[1::2], strict=True))
    if buffer.row_bytes % atom:
        # Words may hold the end of one row and the beginning of the next: bytes alone can be counted.
        each = [-(-len({places[lane] for lane in group}) * kind.lane_bytes // bank_row) for group in groups]
        return access.iterations * sum(each)
    total = 0
    for group in groups:
        # An iteration may begin inside a word, where lanes move less than one; it moves all lanes alike otherwise.
        total += min(
            _busiest_place({(row, (column + inside) // width) for row, column in (places[lane] for lane in group)},
                           atom // width, bank_row // atom)
            for inside in range(0, width, kind.lane_bytes)
        )  # fmt: skip
    return access.iterations * total


def _busiest_place(words: set[tuple[int, int]], words_of_atom: int, atoms: int) -> int:
    counts = Counter(word % words_of_atom for _, word in words)
    return max(-(-count // atoms) for count in counts.values())


class _Access:
    """One access of a buffer, with what all placements share."""

    def __init__(self, access: BufferAccess, buffer: Buffer, target: Target) -> None:
        self.access, self.buffer, self.target = access, buffer, target
        self.kind = access_kind(access.kind)
        bank_bytes = target.limit("multiprocessor.shared_bank_bytes")
        self.served_bytes = max(self.kind.lane_bytes, bank_bytes)
        self.bank_row = target.limit("multiprocessor.shared_banks") * bank_bytes
        self.linear = _never_carries(access)

    def cost(self, space: Sequence[Placement]) -> Integers:
        """Wavefronts of all iterations in each placement."""
        found = np.empty(len(space), np.int64)
        alike: dict[tuple[str, int, int], list[int]] = {}
        for place, placement in enumerate(space):
            alike.setdefault(self._way(placement), []).append(place)
        for (way, _, _), members in alike.items():
            chosen = [space[member] for member in members]
            match way:
                case "rank":
                    found[members] = self._by_rank(chosen)
                case "warp":
                    found[members] = self._by_warp(chosen)
                case _:
                    found[members] = self._enumerated(chosen)
        return found

    def _way(self, placement: Placement) -> tuple[str, int, int]:
        """How the placement is judged; those of one answer are judged together."""
        panel, pitch = placement.panel_bytes, placement.pitch_bytes
        rows = self.buffer.rows
        if placement.row_xor is not None:
            return "row xor", 0, pitch
        # Panels stand `rows` apart, which is XOR only where that is a power of two; so is a row's distance.
        if self.linear and not pitch & (pitch - 1) and not (panel and rows & (rows - 1)):
            return "rank", panel, pitch
        if not placement.swizzles and not panel:
            return "warp", 0, 0
        return "swizzles", panel, pitch

    def _by_rank(self, space: Sequence[Placement]) -> Integers:
        """Of placements that differ in their swizzles alone: words of the group's space that reach bank 0."""
        plain = replace(space[0], swizzles=())
        rows, columns = positions(self.access.lanes)
        lanes = plain.addresses(rows, columns, self.buffer).tolist()
        basis = group_basis(lanes_together(self.kind, self.target))
        groups = len(lane_groups(self.kind, self.target))
        if any(lanes[apart] == 0 for apart in pair_distances(self.kind, self.target)):
            basis, groups = [*basis, 1 << len(basis)], groups // 2
        words = np.zeros(1, np.int64)
        for word in bit_matrix.image([lanes[lane] // self.served_bytes for lane in basis]):
            words = np.concatenate([words, words ^ word])
        words *= self.served_bytes
        placed = np.broadcast_to(words, (len(space), len(words))).copy()
        for turn in range(max(len(placement.swizzles) for placement in space)):
            turns = [each.swizzles[turn : turn + 1] for each in space]
            source = np.array([[each[0].source if each else 0] for each in turns])
            mask = np.array([[(1 << each[0].bits) - 1 if each else 0] for each in turns])
            onto = np.array([[each[0].target if each else 0] for each in turns])
            placed ^= (words >> source & mask) << onto
        together = (placed & (self.bank_row - 1) == 0).sum(axis=1)
        return together * (groups * self.access.iterations)

    def _by_warp(self, space: Sequence[Placement]) -> Integers:
        """Of placements at a pitch, without swizzles: a loop rotates the banks, or moves inside one."""
        bank_bytes = self.target.limit("multiprocessor.shared_bank_bytes")
        rows, columns = positions(self.access.lanes)
        pitches = np.array([placement.pitch_bytes for placement in space])
        found = np.zeros(len(space), np.int64)
        for residue in set((pitches % bank_bytes).tolist()):
            alike = pitches % bank_bytes == residue
            steps = [(loop.count, loop.rows * residue + loop.column_bytes) for loop in self.access.loops]
            for start, times in residues(0, steps, bank_bytes, self.kind.lane_bytes):
                addresses = self._table(pitches[alike][:, None] * rows + columns + start)
                found[alike] += wavefronts(self.kind.name, addresses, self.target) * times
        return found

    def _enumerated(self, space: Sequence[Placement]) -> Integers:
        """Of any placements, from the iterations that differ modulo what the placements repeat after."""
        bases = self._bases(space)
        if len(bases) * len(space) > _MOST_JUDGED:
            raise TilewrightError(
                f"undecided: {len(bases)} iterations of {self.kind.name} differ in {len(space)} placements",
                remedy="give a smaller tile, or rows of a power of two bytes",
            )
        rows, columns = positions(self.access.lanes)
        row_table = np.array([row for row, _, _ in bases])[:, None] + rows
        column_table = np.array([column for _, column, _ in bases])[:, None] + columns
        times = np.array([count for _, _, count in bases])
        addresses = [self._table(each.addresses(row_table, column_table, self.buffer)) for each in space]
        each = wavefronts(self.kind.name, np.concatenate(addresses), self.target)
        return (each.reshape(len(space), len(bases)) * times).sum(axis=1)

    def _bases(self, space: Sequence[Placement]) -> list[tuple[int, int, int]]:
        """Row, column and number of the iterations that must be told apart in all of these placements."""
        first, loops = space[0], self.access.loops
        if first.row_xor is None and not first.panel_bytes:
            period = max(1 << swizzle.top for placement in space for swizzle in placement.swizzles)
            steps = [(loop.count, loop.rows * first.pitch_bytes + loop.column_bytes) for loop in loops]
            return [(0, start, times) for start, times in residues(0, steps, period, self.kind.lane_bytes)]
        if first.row_xor is not None and not any(loop.rows and loop.column_bytes for loop in loops):
            # After so many rows every phase is the same, and the address has moved by all banks.
            rotation = self.bank_row // gcd(first.pitch_bytes, self.bank_row)
            turns = [each.row_xor for each in space if each.row_xor is not None]
            period = lcm(rotation, *(turn.phases * turn.repeat for turn in turns))
            met = residues(0, [(loop.count, loop.rows) for loop in loops if loop.rows], period, 1)
            columns = positions(tuple(loop for loop in loops if not loop.rows))[1]
            return [(row, column, times) for row, times in met for column in columns.tolist()]
        if self.access.iterations > _MOST_JUDGED:
            raise TilewrightError(f"undecided: {self.access.iterations} iterations of {self.kind.name} are too many")
        rows, columns = positions(loops)
        return [(row, column, 1) for row, column in zip(rows.tolist(), columns.tolist(), strict=True)]

    def _table(self, addresses: Integers) -> Integers:
        table = np.zeros((len(addresses), self.target.limit("warp.threads")), np.int64)
        table[:, : addresses.shape[1]] = addresses
        return table


def _never_carries(access: BufferAccess) -> bool:
    """Whether sums of rows, and of columns, are XORs."""
    seen_rows = seen_columns = 0
    for digit in (*access.lanes, *access.loops):
        for bit in range((digit.count - 1).bit_length()):
            rows, columns = digit.rows << bit, digit.column_bytes << bit
            if rows & seen_rows or columns & seen_columns:
                return False
            seen_rows, seen_columns = seen_rows | rows, seen_columns | columns
    return True
