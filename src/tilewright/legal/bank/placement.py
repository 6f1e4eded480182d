"""Where may the rows of a tile stand in shared memory, and who accesses them?

A buffer is a logical tile, `rows` of `row_bytes`, with the accesses that warps make of it (`BufferAccess`: for each
digit of the lane number and for each loop, how many rows and bytes it advances) and the asynchronous engines that fill
or drain it. A placement sends byte `column` of row `row` to an address:

    pitch      row * pitch + column
    panels     (column // panel) * (rows * panel) + row * panel + column % panel, where the copy engine writes boxes one
               swizzle span wide, or the matrix instruction reads chunks of 16 bytes
    row XOR    the vector of a row, XORed with `row // repeat % phases`: for rows whose bytes are no power of two

and then through swizzles of the address, which is taken to be aligned to the swizzles' period.

Not handled: placements of several buffers at once; boxes narrower than a span. Checked by
tests/legal/bank/test_swizzle_choice.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.layout.swizzle import Swizzle
from tilewright.legal.bank.access_kind import access_kind

MatrixInstruction = Literal["wgmma", "tcgen05"]
Engine = Literal["tma", "wgmma", "tcgen05"]
Family = Literal["plain", "tma", "swizzle", "xor", "padding"]
Integers = NDArray[np.int64]

_MOST_ROWS_BYTES = 1 << 32


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of a lane number, or one loop: `count` values, each `rows` further down and `column_bytes` right."""

    count: int
    rows: int = 0
    column_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BufferAccess:
    """What warps do to a buffer with one instruction, over all iterations.

    kind: a name of `access_kind`; lanes: digits of the lane number, the fastest first; loops: its repetitions; weight:
    how often all of it runs, against the buffer's other accesses.
    """

    kind: str
    lanes: tuple[Digit, ...]
    loops: tuple[Digit, ...] = ()
    weight: int = 1

    @property
    def iterations(self) -> int:
        return prod(loop.count for loop in self.loops)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tile in shared memory. engines: asynchronous engines that also access it, which restrict where it may stand.

    Raises TilewrightError for a tile or an access of no size, lanes that are no power of two, and accesses that leave
    the tile or are misaligned in every placement.
    """

    rows: int
    row_bytes: int
    accesses: tuple[BufferAccess, ...]
    engines: tuple[Engine, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.rows < 1 or self.row_bytes < 1 or self.rows * self.row_bytes > _MOST_ROWS_BYTES:
            raise TilewrightError(f"a tile of {self.rows} rows of {self.row_bytes} bytes is no buffer")
        for access in self.accesses:
            self._check(access)

    def _check(self, access: BufferAccess) -> None:
        width = access_kind(access.kind).lane_bytes
        digits = (*access.lanes, *access.loops)
        if any(digit.count < 1 or digit.rows < 0 or digit.column_bytes < 0 for digit in digits):
            raise TilewrightError(f"{access.kind}: a digit counts from 1 and advances forwards")
        if any(digit.count & (digit.count - 1) for digit in access.lanes):
            raise TilewrightError(f"{access.kind}: the digits of lane numbers are powers of two")
        last_row = sum((digit.count - 1) * digit.rows for digit in digits)
        last_byte = sum((digit.count - 1) * digit.column_bytes for digit in digits) + width
        if last_row >= self.rows or last_byte > self.row_bytes:
            raise TilewrightError(
                f"{access.kind} reaches row {last_row} and byte {last_byte} of a tile of {self.rows} rows of "
                f"{self.row_bytes} bytes"
            )
        for digit in digits:
            if digit.count > 1 and digit.column_bytes % width:
                raise TilewrightError(f"{access.kind}: steps of {digit.column_bytes} bytes are not aligned to {width}")

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes

    @property
    def reader(self) -> MatrixInstruction | None:
        """The matrix instruction among the engines."""
        if "wgmma" in self.engines:
            return "wgmma"
        return "tcgen05" if "tcgen05" in self.engines else None


@dataclass(frozen=True, slots=True)
class RowXor:
    """Vectors of `vector_bytes`, their number in the row XORed with `row // repeat % phases`."""

    vector_bytes: int
    repeat: int
    phases: int


@dataclass(frozen=True, slots=True)
class Placement:
    """How a buffer stands in shared memory.

    family, name: what it is called; pitch_bytes: from row to row, inside a panel where there are panels; panel_bytes: 0
    without; panels: how many, and so how many boxes the copy engine moves; swizzles: of the address; row_xor: of the
    vector in its row; extra_bytes: more than the tile itself takes; alignment_bytes: what the buffer's base must be a
    multiple of.
    """

    family: Family
    name: str
    pitch_bytes: int
    panel_bytes: int = 0
    swizzles: tuple[Swizzle, ...] = ()
    row_xor: RowXor | None = None
    extra_bytes: int = 0
    alignment_bytes: int = 16
    panels: int = 1

    def addresses(self, rows: Integers, columns: Integers, buffer: Buffer) -> Integers:
        """Byte addresses, from the buffer's base, of these rows and bytes in them."""
        if self.row_xor is not None:
            turn = self.row_xor
            columns = columns ^ (rows // turn.repeat % turn.phases) * turn.vector_bytes
        if self.panel_bytes:
            panel, inside = columns // self.panel_bytes, columns % self.panel_bytes
            sums = panel * (buffer.rows * self.pitch_bytes) + rows * self.pitch_bytes + inside
        else:
            sums = rows * self.pitch_bytes + columns
        return swizzled_addresses(sums, self.swizzles)


def swizzled_addresses(sums: Integers, swizzles: tuple[Swizzle, ...]) -> Integers:
    """All swizzles of these addresses, each of which reads the address as it was."""
    placed = sums.copy()
    for swizzle in swizzles:
        placed ^= (sums >> swizzle.source & (1 << swizzle.bits) - 1) << swizzle.target
    return placed


def positions(digits: tuple[Digit, ...]) -> tuple[Integers, Integers]:
    """Row and column of every combination of the digits, the first varying fastest."""
    rows, columns = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for digit in digits:
        steps = np.arange(digit.count, dtype=np.int64)[:, None]
        rows = (rows + steps * digit.rows).reshape(-1)
        columns = (columns + steps * digit.column_bytes).reshape(-1)
    return rows, columns
