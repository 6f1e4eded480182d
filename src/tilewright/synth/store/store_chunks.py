"""In what chunks of columns does a warpgroup's part of a tile go through staging, and how do their rows lie there?

A chunk is one box of a bulk store. Its rows lie one after another; a warp writes eight of them at once, 16 bytes each,
and those must lie in different banks of shared memory. Rows as long as a swizzle's span do so under that swizzle; rows
of an odd number of 16-byte pieces do so without one, since odd multiples of 16 bytes visit all eight groups of four
banks in turn. Of what fits a tile's columns, the fewest chunks are taken: each costs two barriers of the warpgroup.
Where the columns divide into no longer rows than half a sector, as those of 136, 152 or 184 elements of 16 bits do,
chunks of two lengths are taken instead, for such rows are slow to leave: sectors are written by halves.
All results of a program pass through the same slots, so one choice serves them all.

Source: PTX ISA, tensor swizzling modes; shared memory of 32 banks of 4 bytes.
Checked by: tests/synth/store/test_store_chunks.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilewright.base.plan import Swizzle

_SPANS: tuple[tuple[int, Swizzle], ...] = ((128, "128B"), (64, "64B"), (32, "32B"))
_PIECE_BYTES = 16
_LONGEST_ROW_BYTES = 256
_SECTOR_BYTES = 32
"""What rows are at least, where there is a choice (targets: device.sector_bytes)."""
_MOST_TAILS = 8
_TURNED_COLUMNS = (32, 16, 8)
"""At most those of 4096 bytes: two slots of it leave as many stages as one of more."""
_FRAGMENT_COLUMNS = 8
"""Columns that are staged together: those of which each thread holds a pair (PTX ISA, wgmma register fragments)."""


@dataclass(frozen=True, slots=True)
class StagedRow:
    """One row of a chunk in shared memory. tails: how many chunks at a tile's end have rows of tail_bytes instead."""

    bytes: int
    swizzle: Swizzle
    tail_bytes: int = 0
    tails: int = 0

    def columns(self, element_bytes: int) -> int:
        return self.bytes // element_bytes

    def chunks(self, width_bytes: int) -> tuple[int, ...]:
        """Bytes of a row of each chunk of so many in all."""
        whole = (width_bytes - self.tails * self.tail_bytes) // self.bytes
        return (self.bytes,) * whole + (self.tail_bytes,) * self.tails


def staged_row(columns: int, element_bytes: Sequence[int], most_bytes: int = _LONGEST_ROW_BYTES) -> StagedRow | None:
    """The row of the largest chunks into which `columns` columns of results of each of `element_bytes` divide evenly;
    of two lengths where such rows would be shorter than a sector.

    None where there is none. most_bytes: of a row. Rows of whole 128-byte spans are preferred to longer ones: they need
    no second thought about where the next row's banks lie.
    """
    return _staged_row(columns, tuple(element_bytes), most_bytes)


# Every tile that is compared asks, several times each, and few answers differ.
@lru_cache(maxsize=4096)
def _staged_row(columns: int, element_bytes: tuple[int, ...], most_bytes: int) -> StagedRow | None:
    even = _even_row(columns, element_bytes, most_bytes)
    if even is None or even.bytes >= _SECTOR_BYTES or len(set(element_bytes)) > 1:
        return even
    return _uneven_row(columns * element_bytes[0], _FRAGMENT_COLUMNS * element_bytes[0], most_bytes) or even


@lru_cache(maxsize=1024)
def turned_columns(columns: int) -> tuple[int, ...]:
    """Columns of each box whose lines are columns (`synth.store.turned_store`): powers of two as layouts
    have it, of one length or of two, the shorter ones last, and as few as can be. Empty where there are none."""
    found = [
        (long,) * ((columns - tails * short) // long) + (short,) * tails
        for long in _TURNED_COLUMNS
        for short in _TURNED_COLUMNS
        if short <= long
        for tails in range(long // short)
        if columns > tails * short and (columns - tails * short) % long == 0
    ]
    return min(found, key=len, default=())


def _uneven_row(width_bytes: int, unit_bytes: int, most_bytes: int) -> StagedRow | None:
    """The fewest chunks of two lengths, each an odd number of pieces and of whole units; of as few, those most alike.
    None where one length has to do."""
    lengths = [
        row.bytes for row in _ROWS if row.swizzle == "none" and row.bytes <= most_bytes and row.bytes % unit_bytes == 0
    ]
    found = [
        StagedRow(long, "none", short, tails)
        for long in lengths
        for short in lengths
        if short < long
        for tails in range(1, min(width_bytes // short, _MOST_TAILS) + 1)
        if width_bytes > tails * short and (width_bytes - tails * short) % long == 0
    ]
    return min(found, key=lambda row: (len(row.chunks(width_bytes)), row.bytes - row.tail_bytes), default=None)


def _even_row(columns: int, element_bytes: Sequence[int], most_bytes: int) -> StagedRow | None:
    widths = [columns * each for each in element_bytes]
    found = [
        row
        for row in _ROWS
        if row.bytes <= most_bytes
        and all(width % row.bytes == 0 for width in widths)
        and all(row.bytes % (_FRAGMENT_COLUMNS * each) == 0 for each in element_bytes)
    ]
    if not found:
        return None
    full = [row for row in found if row.swizzle == _SPANS[0][1]]
    return full[0] if full else max(found, key=lambda row: (row.bytes, row.swizzle != "none"))


def _rows() -> Iterator[StagedRow]:
    for span, swizzle in _SPANS:
        yield StagedRow(span, swizzle)
    for pieces in range(1, _LONGEST_ROW_BYTES // _PIECE_BYTES, 2):
        yield StagedRow(pieces * _PIECE_BYTES, "none")


_ROWS = tuple(_rows())
