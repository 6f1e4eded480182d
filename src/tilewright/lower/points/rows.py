"""How rows that units of threads share are loaded, folded and stored.

A unit walks its row once for each level: the folds that wait for those of the level before, and the stores behind them.
What a walk needs first is on its way before the threads of the walk before meet, and vectors that all rows share from
the beginning on, where rows stay in registers. What is done with one row is `one_row`'s. Rows that no strip holds are
loaded anew, but for those arrays that wait in shared memory (`kept_rows`).

A unit may take several rows at once, in step: what all rows share is then loaded once for them, and they meet once.
Those of a CTA, and a warp's, follow one another; where units are parts of a warp, these take neighbouring rows, and
then those behind.

A fold goes through a thread's own elements, then through the unit's threads (`row_folds`), which a cluster's CTAs may
share: then they arrive at its barrier at once, and wait for each other before the first fold.

Checked by: tests/lower/points/test_rows.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tilewright.base.size import Size, bounds, divisor, product
from tilewright.ir.ac import operations as ac
from tilewright.ir.rows import BARRIER_BYTES, RowDecision
from tilewright.ir.sizes import ranges_of, sizes_of
from tilewright.lower.points.one_row import OneRow
from tilewright.lower.points.row_arrays import RowArrays
from tilewright.lower.points.row_folds import (
    WARP_THREADS,
    Unit,
    begin_meetings,
    chosen,
    folded,
)
from tilewright.lower.points.row_strip import RowLength, Strip
from tilewright.lower.points.row_walks import Fold, Walk, levels_of, walks_of, words_of
from tilewright.lower.points.wide_loads import WORD_BYTES
from tilewright.lower.ptx.copies.global_access import indices_of
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import Lowering, integers
from tilewright.lower.ptx.places import BufferPlace, IndexPlace, Places, ScalarPlace
from tilewright.lower.ptx.run_time import POINTS


def lower_rows(lowering: Lowering, op: ac.ElementwiseOp, row: RowDecision) -> None:
    """Emit an op whose units of threads share rows."""
    text = lowering.text
    sizes = sizes_of(op.extents)
    rows = lowering.passed.operand(text, POINTS, product(sizes[:-1]))
    inner, length = lowering.passed.extents(text, sizes[1:-1]), _length(lowering, op, sizes[-1])
    block = integers(ac.kernel_of(op).block)[0]
    end = text.label("rows_end")
    thread = lowering.thread
    buffers = [lowering.place(each) for each in op.through]
    addresses = [
        text.into("b32", "add.u32", lowering.shared_base, place.address)
        for place in buffers
        if isinstance(place, BufferPlace)
    ]
    barriers = ""
    if row.ctas > 1:
        barriers = addresses[0]
        words = [words_of(inner) for inner in op.body.block.ops if isinstance(inner, Fold)]
        of_word = row.warps * WORD_BYTES * row.together
        begin_meetings(text, thread, barriers, [of_word * each for each in words])
        addresses[0] = text.into("b32", "add.u32", barriers, len(words) * BARRIER_BYTES)
        number = _unit_number(text, row, "clusterid")
        rank = text.into("b32", "mov.u32", "%cluster_ctarank")
        thread = text.into("b32", "mad.lo.u32", rank, block, thread)
    else:
        number = _unit_number(text, row, "ctaid")
    side_by_side = max(1, WARP_THREADS // row.threads)
    if block > row.threads:
        # Units are warps or parts of them then, and no thread waits for another warp's, so that whole warps may leave.
        thread = text.into("b32", "and.b32", lowering.thread, row.threads - 1)
        unit = text.into("b32", "shr.u32", lowering.thread, row.threads.bit_length() - 1)
        of_warp = text.into("b32", "and.b32", unit, -side_by_side)
        base = text.into("b32", "mul.lo.u32", number, block // row.threads)
        first = text.into("b32", "add.u32", base, of_warp)
        if row.together > 1:
            first = text.into("b32", "mul.lo.u32", first, row.together)
        text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", first, rows))
        if row.together > 1:
            # Units of a warp take neighbouring rows, and then those behind.
            base, unit = first, text.into("b32", "and.b32", unit, side_by_side - 1)
        number = text.into("b32", "add.u32", base, unit)
    elif row.together > 1:
        number = text.into("b32", "mul.lo.u32", number, row.together)
    varying, levels = levels_of(op)
    changing: set[SSAValue] = {result for each in varying for result in each.results}
    taken: list[OneRow] = []
    for each in range(row.together):
        own = text.into("b32", "add.u32", number, each * side_by_side) if each else number
        # Of units that are warps or CTAs, the first row is there.
        has_row = ""
        if row.threads < WARP_THREADS or (each and (not isinstance(rows, int) or rows % row.together)):
            has_row = text.into("pred", "setp.lt.u32", own, rows)
        values: Places = dict(lowering.places)
        for argument, register in zip(op.body.block.args[:-1], indices_of(text, own, inner), strict=False):
            values[argument] = IndexPlace(register)
        strip = Strip(text, row, length, thread, has_row)
        arrays = RowArrays(text, op, row, values, changing, strip, lowering.passed)
        strip.shift = arrays.shifted()
        if row.kept:
            arrays.keep(addresses[-1], lowering.thread, each)
        taken.append(OneRow(text, row, arrays))
    _Unit(text, op, row, taken, addresses[0] if addresses else "", barriers, varying, levels).all_levels()
    text.place(end)


def _length(lowering: Lowering, op: ac.ElementwiseOp, size: Size) -> RowLength:
    (operand,), ranges = lowering.passed.extents(lowering.text, [size]), ranges_of(ac.kernel_of(op).ranges)
    return RowLength(operand, *bounds(size, ranges), divisor(size, ranges))


def _unit_number(text: Text, row: RowDecision, register: str) -> str:
    """Of the thread's CTA or cluster among all, in the order in which rows are taken. register: the special one."""
    number = text.into("b32", "mov.u32", f"%{register}.x")
    if not row.backwards:
        return number
    last = text.into("b32", "sub.u32", text.into("b32", "mov.u32", f"%n{register}.x"), 1)
    return text.into("b32", "sub.u32", last, number)


@dataclass(slots=True)
class _Unit:
    """The rows that a thread's unit takes at once, in step. shared: a register with the address of the words of folds;
    barriers: one with that of the barriers of a cluster's folds, both in the order of the folds; varying: ops that
    change along the row; levels: as `levels_of` has them."""

    text: Text
    op: ac.ElementwiseOp
    row: RowDecision
    rows: list[OneRow]
    shared: str
    barriers: str
    varying: set[Operation]
    levels: dict[Operation, int]

    def all_levels(self) -> None:
        """Emit every walk, and what is computed between them."""
        ops = list(self.op.body.block.ops)
        walks = walks_of(ops, self.varying, self.levels, keeps_costly=not self.row.streamed)
        if not self.row.streamed:
            self.begin_strip("")
            self.fetch(walks[0].needed)
            shared = [each for walk in walks[1:] for each in walk.needed if self.comes_early(each)]
            self.fetch(shared)
        elif self.row.kept:
            self.over_strips(self.copy_strip)
            self.text.emit("cp.async.wait_all")
        done = 0
        for level in range(1 + max(self.levels.values(), default=0)):
            for inner in ops:  # what is the same along the row, as far as it is known by now
                if inner not in self.varying and not isinstance(inner, Fold) and self.levels[inner] == level:
                    for each in self.rows:
                        each.once(inner)
            if done < len(walks) and walks[done].level == level:
                following = walks[done + 1] if done + 1 < len(walks) else None
                self.sweep(walks[done], following)
                done += 1

    def sweep(self, walk: Walk, following: Walk | None) -> None:
        """following: the walk after it, whose loads are issued before the threads meet."""
        foldings = [each.begin(walk) for each in self.rows]

        def at_pieces() -> None:
            self.fetch(walk.needed)
            for piece in range(self.row.pieces):
                for each, folding in zip(self.rows, foldings, strict=True):
                    each.at_piece(walk, folding, piece)

        if self.row.streamed:
            self.over_strips(at_pieces)
        else:
            at_pieces()
            if following is not None:
                self.fetch(following.needed)
        for end in walk.ends:
            if isinstance(end, ac.FoldOp):
                own = [each.own(end, folding) for each, folding in zip(self.rows, foldings, strict=True)]
                totals = folded(self.text, end.function.data, self.meeting(end), own)
                for each, total in zip(self.rows, totals, strict=True):
                    each.values[end.result] = ScalarPlace(total)
            elif isinstance(end, ac.ArgFoldOp):
                places = [folding.places[end] for folding in foldings]
                numbers = chosen(self.text, end.function.data, self.meeting(end), places)
                for each, number in zip(self.rows, numbers, strict=True):
                    each.values[end.result] = IndexPlace(number)

    def over_strips(self, emit: Callable[[], None]) -> None:
        """Emit what is done with each strip of the rows."""
        text, head, past = self.text, self.text.label("strips"), self.text.label("strips_end")
        strip, arrays = self.rows[0].strip, [each.arrays for each in self.rows]
        first = text.into("b32", "mov.u32", 0)
        if self.row.kept:
            at = text.into("b32", "mov.u32", 0)
            for each in arrays:
                each.strip_at = at
        text.place(head)
        # A length stands by itself, where a small instance may have another.
        end = strip.length.operand
        if strip.shift:
            end = text.into("b32", "add.u32", text.into("b32", "mov.u32", end), strip.shift)
        text.emit("bra", past, guard=text.into("pred", "setp.ge.u32", first, end))
        self.begin_strip(first)
        emit()
        text.emit("add.u32", first, first, self.row.strip)
        if self.row.kept:
            text.emit("add.u32", arrays[0].strip_at, arrays[0].strip_at, arrays[0].strip_bytes)
        text.emit("bra", head)
        text.place(past)

    def begin_strip(self, first: str) -> None:
        """first: the register of the number of its first point; "" for 0."""
        strip = self.rows[0].strip
        strip.begin(first)
        for each in self.rows:
            each.fetched = {}
            each.strip.starts, each.strip.guards = strip.starts, strip.guards

    def copy_strip(self) -> None:
        """Issue the copies of a strip of each row."""
        for each in self.rows:
            each.arrays.copy_strip()

    def comes_early(self, inner: Operation) -> bool:
        """Whether an op loads vectors that all rows share: these are in no one's way from the first loads on, in as few
        registers as before the last walk, where threads would wait for them."""
        arrays = self.rows[0].arrays
        return isinstance(inner, ac.ElementLoadOp) and arrays.is_shared(inner) and arrays.comes_in_words(inner)

    def fetch(self, needed: Sequence[Operation]) -> None:
        """Issue the loads among ops that are not there yet. Where the first row has no elements, no later one has."""
        for inner in needed:
            if isinstance(inner, ac.ElementLoadOp) and inner.result not in self.rows[0].fetched:
                for each in self.rows[:1] if self.rows[0].arrays.is_shared(inner) else self.rows:
                    each.fetched[inner.result] = each.arrays.load(inner)
                for each in self.rows[1:]:
                    each.fetched.setdefault(inner.result, self.rows[0].fetched[inner.result])

    def meeting(self, fold: Fold) -> Unit:
        """With words of the fold's own, and a barrier where CTAs share the row: both in the order of the folds, which
        need not be that of the walks."""
        folds = [each for each in self.op.body.block.ops if isinstance(each, Fold)]
        number, barrier = folds.index(fold), ""
        if self.barriers:
            barrier = self.text.into("b32", "add.u32", self.barriers, number * BARRIER_BYTES)
        first = self.row.together * sum(map(words_of, folds[:number]))
        return Unit(self.rows[0].strip.thread, self.row.of_fold, self.shared, first, barrier)
