"""What does one access look like in the banks: which lanes ask which bank for how many words?

A grid with a row for each group of lanes that is served together and a column for each bank. A cell says how many
distinct words the group asks of the bank; the largest number of a row is the wavefronts that the group takes.

Not handled: loads in pairs, where two groups are served as one (`legal.bank.banks`); the rows then tell more than the
wavefronts, and the caption says so. Checked by tests/driver/views/test_layout_picture.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.legal.bank.access_kind import access_kind, lane_groups, pair_distances
from tilewright.report.figures.layout_grid import Cell, LayoutGrid
from tilewright.targets import Target

_ONE, _FEW, _MANY = 1, 2, 4
"""Kinds of cells: green, yellow, red."""


def bank_picture(kind: str, addresses: Sequence[int], target: Target) -> LayoutGrid:
    """The picture of one access. addresses: of its lanes in bytes, negative for lanes that take no part. Raises
    TilewrightError for kinds that the target lacks."""
    chosen = access_kind(kind)
    banks, bank_bytes = target.limit("multiprocessor.shared_banks"), target.limit("multiprocessor.shared_bank_bytes")
    rows: list[tuple[Cell | None, ...]] = []
    for group in lane_groups(chosen, target):
        asked: dict[int, dict[int, list[int]]] = {}
        for lane in group:
            begin = addresses[lane]
            if begin < 0:
                continue
            for word in range(begin // bank_bytes, (begin + chosen.lane_bytes - 1) // bank_bytes + 1):
                asked.setdefault(word % banks, {}).setdefault(word, []).append(lane)
        rows.append(tuple(_cell(bank, asked.get(bank, {}), bank_bytes) for bank in range(banks)))
    caption = "A cell says how many words a group of lanes asks of a bank; the most of a row is the group's wavefronts."
    if any(_in_pairs(addresses, apart) for apart in pair_distances(chosen, target)):
        caption = (
            "A cell says how many words a group of lanes asks of a bank; lanes ask alike in pairs, so that two groups "
            "are served as one."
        )
    return LayoutGrid(f"{kind}: one access", "group", "bank", tuple(rows), caption)


def _in_pairs(addresses: Sequence[int], apart: int) -> bool:
    return all(begin == addresses[lane ^ apart] for lane, begin in enumerate(addresses))


def _cell(bank: int, words: dict[int, list[int]], bank_bytes: int) -> Cell | None:
    if not words:
        return None
    labels = "; ".join(
        f"byte {word * bank_bytes}: lane{'s' if len(lanes) > 1 else ''} {', '.join(map(str, lanes))}"
        for word, lanes in sorted(words.items())
    )
    count = len(words)
    return Cell(str(count), _ONE if count == 1 else _FEW if count == 2 else _MANY, f"bank {bank}: {labels}")
