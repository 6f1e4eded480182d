"""Thirty register layouts of one tile: which conversions between them does a compiler meet?

Four warps hold 64 x 64 or 128 x 64 elements: blocked layouts along rows and columns with runs of 1 to 16 elements and
warps side by side or below each other; the accumulator and operand fragments of mma.sync and wgmma; fragments of
ldmatrix, plain and transposed; slices of layouts of higher rank, in which lanes or warps repeat each other.

Each is written by the bits of the element's number, of the lane and of the warp: "r3" is bit 3 of the row, "c0" bit 0
of the column, "-" repeats. Element bits that are not written are the coordinate bits left over, columns first.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.layout.linear.maps import LinearLayout, linear_layout

COLUMN_BITS = 6


@dataclass(frozen=True)
class Written:
    """One layout. registers: the low bits of the element's number; lane, warp: all five, and both."""

    name: str
    registers: str
    lane: str
    warp: str
    rows_first: bool = False


WRITTEN: tuple[Written, ...] = (
    # Blocked along rows: runs of 1, 2, 4, 8, 16 columns; lanes along the row first.
    Written("row1", "", "c0 c1 c2 c3 c4", "r0 r1"),
    Written("row2", "c0", "c1 c2 c3 c4 c5", "r0 r1"),
    Written("row4", "c0 c1", "c2 c3 c4 c5 r0", "r1 r2"),
    Written("row8", "c0 c1 c2", "c3 c4 c5 r0 r1", "r2 r3"),
    Written("row16", "c0 c1 c2 c3", "c4 c5 r0 r1 r2", "r3 r4"),
    Written("row8 high warps", "c0 c1 c2", "c3 c4 c5 r0 r1", "r4 r5"),
    Written("row4 warps across", "c0 c1", "c2 c3 r0 r1 r2", "c4 c5"),
    Written("row8 warps 2x2", "c0 c1 c2", "c3 c4 r0 r1 r2", "c5 r3"),
    Written("whole rows", "c0 c1 c2 c3 c4", "r0 r1 r2 r3 r4", "c5 r5"),
    # Blocked along columns.
    Written("column1", "", "r0 r1 r2 r3 r4", "c0 c1", rows_first=True),
    Written("column2", "r0", "r1 r2 r3 r4 r5", "c0 c1", rows_first=True),
    Written("column4", "r0 r1", "r2 r3 r4 r5 c0", "c1 c2", rows_first=True),
    Written("column8", "r0 r1 r2", "r3 r4 r5 c0 c1", "c2 c3", rows_first=True),
    Written("column16", "r0 r1 r2 r3", "r4 r5 c0 c1 c2", "c3 c4", rows_first=True),
    Written("column8 high warps", "r0 r1 r2", "r3 r4 r5 c0 c1", "c4 c5", rows_first=True),
    Written("column4 lanes across", "r0 r1", "c0 c1 c2 r2 r3", "r4 r5", rows_first=True),
    Written("square2", "c0 r0", "c1 c2 c3 r1 r2", "r3 r4"),
    Written("square4", "c0 c1 r0 r1", "c2 c3 r2 r3 r4", "c4 r5"),
    # Accumulators and operands.
    Written("mma D, warps apart", "c0 r3", "c1 c2 r0 r1 r2", "r4 c5"),
    Written("mma D, warps 2x2", "c0 r3", "c1 c2 r0 r1 r2", "c3 r4"),
    Written("mma D, warps across", "c0 r3", "c1 c2 r0 r1 r2", "c3 c4"),
    Written("wgmma D", "c0 r3 c3", "c1 c2 r0 r1 r2", "r4 r5"),
    Written("dot A, 16 bits", "c0 r3 c3", "c1 c2 r0 r1 r2", "r4 -"),
    Written("dot A, 8 bits", "c0 c1 r3 c4", "c2 c3 r0 r1 r2", "r4 r5"),
    Written("dot B, 16 bits", "r0 r3", "r1 r2 c0 c1 c2", "c3 c4", rows_first=True),
    Written("dot B, 8 bits", "r0 r1 r4", "r2 r3 c0 c1 c2", "- c3", rows_first=True),
    Written("ldmatrix x4 transposed", "r0 r3 c3", "r1 r2 c0 c1 c2", "r4 r5", rows_first=True),
    # Slices of layouts of rank 3: lanes or warps that repeat each other.
    Written("slice, lanes repeat", "c0 c1 c2", "c3 c4 c5 r0 -", "r1 r2"),
    Written("slice, warps repeat", "c0 c1", "c2 c3 c4 c5 r0", "r1 -"),
    Written("slice of columns, lanes repeat", "r0 r1", "- r2 r3 r4 c0", "c1 c2", rows_first=True),
)


def register_layout(written: Written, rows: int = 64) -> LinearLayout:
    """The layout of `rows` x 64 elements."""
    row_bits = rows.bit_length() - 1
    columns, every_row = [f"c{bit}" for bit in range(COLUMN_BITS)], [f"r{bit}" for bit in range(row_bits)]
    named = [*written.registers.split(), *written.lane.split(), *written.warp.split()]
    every = [*every_row, *columns] if written.rows_first else [*columns, *every_row]
    left = [each for each in every if each not in named]
    bases = {
        "register": [_image(each) for each in (*written.registers.split(), *left)],
        "lane": [_image(each) for each in written.lane.split()],
        "warp": [_image(each) for each in written.warp.split()],
    }
    return linear_layout(bases, {"row": rows, "column": 1 << COLUMN_BITS})


def register_layouts(rows: int = 64) -> dict[str, LinearLayout]:
    """All of them by name."""
    return {each.name: register_layout(each, rows) for each in WRITTEN}


def _image(bit: str) -> tuple[int, int]:
    if bit == "-":
        return (0, 0)
    place = 1 << int(bit[1:])
    return (place, 0) if bit[0] == "r" else (0, place)
