"""Which points of a row does each thread hold, and which of them lie in the row?

A strip's piece is a run of every thread. Where all of a piece lies in every row, nothing asks: no predicate, no zeros.
Where rows begin anywhere in a vector, the runs at either end have points of the neighbouring rows, which are loaded
with the vector and count nowhere.

Checked by: tests/lower/points/test_rows.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.ir.rows import RowDecision
from tilewright.lower.ptx.emit import Text


@dataclass(frozen=True, slots=True)
class RowLength:
    """Points of a row. operand: the number, or a register that has it; between least and most, both of which it may be,
    and a multiple of `multiple_of`."""

    operand: int | str
    least: int
    most: int
    multiple_of: int

    def moved(self, text: Text, by: int) -> int | str:
        """The number and some more, or fewer, as an instruction takes it."""
        if isinstance(self.operand, int):
            return self.operand + by
        return text.into("b32", "add.u32", self.operand, by) if by else self.operand


@dataclass(slots=True)
class Strip:
    """thread: a register with the thread's number in its unit; shift: one with how many points of its first run lie
    before the row, "" for none; has_row: a predicate where units of a warp may have none; starts: registers with the
    number of the first point of each piece; guards: whether any of a piece lies in the row, "" where all of it does."""

    text: Text
    row: RowDecision
    length: RowLength
    thread: str
    has_row: str
    shift: str = ""
    starts: list[str] = field(default_factory=list[str])
    guards: list[str] = field(default_factory=list[str])

    def begin(self, first: str) -> None:
        """first: the register of the number of its first point; "" for 0."""
        text, row = self.text, self.row
        own = text.into("b32", "mul.lo.u32", self.thread, row.run)
        if first:
            own = text.into("b32", "add.u32", own, first)
        if self.shift:
            own = text.into("b32", "sub.s32", own, self.shift)
        self.starts = [
            text.into("b32", "add.u32", own, piece * row.threads * row.run) if piece else own
            for piece in range(row.pieces)
        ]
        self.guards = [self._any(piece) for piece in range(row.pieces)]

    def _any(self, piece: int) -> str:
        if self._is_full(piece):
            return ""
        text, before = self.text, self.row.most_before
        last = text.into("b32", "add.u32", self.starts[piece], before) if before else self.starts[piece]
        return text.into("pred", "setp.lt.u32", last, self.length.moved(text, before))

    def _is_full(self, piece: int) -> bool:
        """Whether all points of a piece lie in the row, whichever thread has them."""
        row = self.row
        if row.streamed:
            return not self.shift and self.length.multiple_of % row.strip == 0
        # Runs that begin before the row are those of the first piece; the others come sooner by that much.
        return (piece > 0 or not self.shift) and (piece + 1) * row.threads * row.run <= self.length.least

    def may_be_cut(self, piece: int) -> bool:
        """Whether a row's end may lie inside a run of a piece: of rows that begin anywhere in a vector, the first one,
        and those in which the last run may be."""
        if not self.shift or self.row.streamed:
            return bool(self.shift)
        return piece == 0 or self.may_have_last(piece)

    def may_have_last(self, piece: int) -> bool:
        """Whether a piece may have the row's last run."""
        row = self.row
        if row.streamed:
            return True
        ends = (self.length.least, self.length.most + row.most_before)
        last = [(end - 1) // row.run // row.threads for end in ends]
        return last[0] <= piece <= last[1]

    def counts(self, piece: int, element: int) -> str:
        """Whether an element of a piece lies in the row, if the unit has one; "" where it always does."""
        if not self.may_be_cut(piece):
            return self.guards[piece]
        text = self.text
        number = text.into("b32", "add.u32", self.starts[piece], element) if element else self.starts[piece]
        return text.into("pred", "setp.lt.u32", number, self.length.operand)

    def inside(self, piece: int, element: int) -> str:
        """Whether an element of a piece lies in the unit's row."""
        return self.where_row(self.counts(piece, element))

    def any(self, piece: int) -> str:
        """Whether any of a piece's run lies in the unit's row."""
        return self.where_row(self.guards[piece])

    def whole(self, piece: int) -> str:
        """Whether a piece's run lies in the unit's row from end to end."""
        if not self.may_be_cut(piece):
            return self.any(piece)
        text, most = self.text, self.length.moved(self.text, -self.row.most_before)
        return self.where_row(text.into("pred", "setp.lt.u32", self.starts[piece], most))

    def at_an_end(self, piece: int, emit: Callable[[], None]) -> None:
        """Emit what the threads do whose run a row's end cuts."""
        if not self.may_be_cut(piece):
            return
        text, join = self.text, self.text.label("run_cut")
        done = self.whole(piece)
        if guard := self.any(piece):
            done = text.into("pred", "or.pred", text.into("pred", "not.pred", guard), done)
        text.emit("bra", join, guard=done)
        emit()
        text.place(join)

    def where_row(self, guard: str) -> str:
        """A guard, for units that have a row."""
        if guard and self.has_row:
            return self.text.into("pred", "and.pred", guard, self.has_row)
        return guard or self.has_row
