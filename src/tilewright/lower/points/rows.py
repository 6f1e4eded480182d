"""How rows that units of threads share are loaded, folded and stored.

A unit walks its row once for each level: the folds that wait for those of the level before, and the stores behind them.
Where one strip holds the row, what is loaded stays in registers from walk to walk, as packed words; what costs much
(exponentials, quotients) stays too, and the rest is computed anew from both, so that few registers wait. What a walk
needs first is on its way before the threads of the walk before meet. Rows that no strip holds are loaded anew, but for
those arrays that wait in shared memory (`kept_rows`).

A fold goes through a thread's own elements, then through the unit's threads (`row_folds`), which a cluster's CTAs may
share: then they arrive at its barrier at once, and wait for each other before the first fold. The largest or smallest
of elements as they were loaded is folded two at a time, as they lie in a word.

Points past a row's end count nowhere (`row_strip`): they are folded as the function's identity, and not stored.
Checked by: tests/lower/points/test_rows.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tilewright.base.size import number_of, product
from tilewright.ir.ac import operations as ac
from tilewright.ir.rows import BARRIER_BYTES, RowDecision
from tilewright.ir.sizes import sizes_of
from tilewright.lower.points.row_arrays import Fetched, RowArrays, index_along
from tilewright.lower.points.row_folds import (
    IDENTITIES,
    WARP_THREADS,
    Chosen,
    Unit,
    begin_meetings,
    better,
    chosen,
    folded,
)
from tilewright.lower.points.row_strip import Strip
from tilewright.lower.points.row_walks import Fold, Walk, is_costly, levels_of, walks_of, words_of
from tilewright.lower.points.wide_loads import WORD_BYTES, widened
from tilewright.lower.ptx.emit import Text, float_literal
from tilewright.lower.ptx.global_access import load_as_float, store_element
from tilewright.lower.ptx.lowering import Lowering, integers
from tilewright.lower.ptx.places import BufferPlace, IndexPlace, Places, ScalarPlace
from tilewright.lower.ptx.run_time import POINTS
from tilewright.lower.ptx.scalar import emit_scalar
from tilewright.lower.ptx.scalar_region import lower_scalar_op

_PAIRS = {"bf16": {"max": 0xFF80FF80, "min": 0x7F807F80}, "f16": {"max": 0xFC00FC00, "min": 0x7C007C00}}
"""Two identities in a word, of elements and functions of which two are folded at once."""


def lower_rows(lowering: Lowering, op: ac.ElementwiseOp, row: RowDecision) -> None:
    """Emit an op whose units of threads share rows."""
    text = lowering.text
    sizes = sizes_of(op.extents)
    rows = lowering.passed.operand(text, POINTS, product(sizes[:-1]))
    inner, length = [number_of(size) for size in sizes[1:-1]], number_of(sizes[-1])
    block = integers(ac.kernel_of(op).block)[0]
    end, has_row = text.label("rows_end"), ""
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
        begin_meetings(text, thread, barriers, [row.warps * WORD_BYTES * each for each in words])
        addresses[0] = text.into("b32", "add.u32", barriers, len(words) * BARRIER_BYTES)
        number = _unit_number(text, row, "clusterid")
        rank = text.into("b32", "mov.u32", "%cluster_ctarank")
        thread = text.into("b32", "mad.lo.u32", rank, block, thread)
    else:
        number = _unit_number(text, row, "ctaid")
    if block > row.threads:
        # Units are warps or parts of them then, and no thread waits for another warp's, so that whole warps may leave.
        thread = text.into("b32", "and.b32", lowering.thread, row.threads - 1)
        unit = text.into("b32", "shr.u32", lowering.thread, row.threads.bit_length() - 1)
        first = text.into("b32", "and.b32", unit, -(WARP_THREADS // row.threads))
        base = text.into("b32", "mul.lo.u32", number, block // row.threads)
        text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", text.into("b32", "add.u32", base, first), rows))
        number = text.into("b32", "add.u32", base, unit)
        if row.threads < WARP_THREADS:
            has_row = text.into("pred", "setp.lt.u32", number, rows)
    indices: list[str] = []
    rest = number
    for extent in reversed(inner):
        indices.append(text.into("b32", "rem.u32", rest, extent))
        rest = text.into("b32", "div.u32", rest, extent)
    values: Places = dict(lowering.places)
    for argument, register in zip(op.body.block.args[:-1], [rest, *reversed(indices)], strict=False):
        values[argument] = IndexPlace(register)
    varying, levels = levels_of(op)
    strip = Strip(text, row, length, thread, has_row)
    changing: set[SSAValue] = {result for each in varying for result in each.results}
    arrays = RowArrays(text, op, row, values, changing, strip)
    strip.shift = arrays.shifted()
    if row.kept:
        arrays.keep(addresses[-1], lowering.thread)
    _Row(text, op, row, arrays, addresses[0] if addresses else "", barriers, varying, levels).all_levels()
    text.place(end)


def _unit_number(text: Text, row: RowDecision, register: str) -> str:
    """Of the thread's CTA or cluster among all, in the order in which rows are taken. register: the special one."""
    number = text.into("b32", "mov.u32", f"%{register}.x")
    if not row.backwards:
        return number
    last = text.into("b32", "sub.u32", text.into("b32", "mov.u32", f"%n{register}.x"), 1)
    return text.into("b32", "sub.u32", last, number)


@dataclass(slots=True)
class _Row:
    """One row of the thread's unit. shared: a register with the address of the words of folds; barriers: one with that
    of the barriers of a cluster's folds, both in the order of the folds; varying: ops that change along the row;
    levels: as `levels_of` has them; fetched: what is loaded of the strip at hand; kept: values at its points that stay
    for later walks, by piece; points: others, of the piece at hand."""

    text: Text
    op: ac.ElementwiseOp
    row: RowDecision
    arrays: RowArrays
    shared: str
    barriers: str
    varying: set[Operation]
    levels: dict[Operation, int]
    fetched: dict[SSAValue, Fetched] = field(default_factory=dict[SSAValue, Fetched])
    kept: dict[SSAValue, list[list[str]]] = field(default_factory=dict[SSAValue, "list[list[str]]"])
    points: dict[SSAValue, list[str]] = field(default_factory=dict[SSAValue, "list[str]"])

    @property
    def values(self) -> Places:
        """What is the same along the row."""
        return self.arrays.values

    @property
    def strip(self) -> Strip:
        """The points that the thread holds."""
        return self.arrays.strip

    # ------------------------------------------------------------ walks

    def all_levels(self) -> None:
        """Emit every walk, and what is computed between them."""
        ops = list(self.op.body.block.ops)
        walks = walks_of(ops, self.varying, self.levels, keeps_costly=not self.row.streamed)
        if not self.row.streamed:
            self.begin_strip("")
            self.fetch(walks[0])
        elif self.row.kept:
            self.over_strips(self.arrays.copy_strip)
            self.text.emit("cp.async.wait_all")
        done = 0
        for level in range(1 + max(self.levels.values(), default=0)):
            for inner in ops:  # what is the same along the row, as far as it is known by now
                if inner not in self.varying and not isinstance(inner, Fold) and self.levels[inner] == level:
                    self.once(inner)
            if done < len(walks) and walks[done].level == level:
                following = walks[done + 1] if done + 1 < len(walks) else None
                self.sweep(walks[done], following)
                done += 1

    def sweep(self, walk: Walk, following: Walk | None) -> None:
        """following: the walk after it, whose loads are issued before the threads meet."""
        text = self.text
        folds = [end for end in walk.ends if isinstance(end, ac.FoldOp)]
        totals = {end: text.into("f32", "mov.f32", float_literal(IDENTITIES[end.function.data])) for end in folds}
        places = {end: self.no_place(end) for end in walk.ends if isinstance(end, ac.ArgFoldOp)}
        paired = {end: pairs for end in folds if (pairs := self.in_pairs(end))}
        words = {end: text.into("b32", "mov.b32", identity) for end, (_, identity) in paired.items()}

        def at_pieces() -> None:
            self.fetch(walk)
            for piece in range(self.row.pieces):
                self.points = {}
                by_words = [end for end in words if not self.strip.may_be_cut(piece)]
                for end in by_words:
                    self.fold_words(end, piece, words[end], *paired[end])
                ends = [end for end in walk.ends if end not in by_words]
                for inner in walk.needed_by(ends):
                    self.at_points(inner, piece)
                for end in ends:
                    if isinstance(end, ac.FoldOp):
                        text.emit("mov.f32", totals[end], self.function(end)(totals[end], self.partial(end, piece)))
                    elif isinstance(end, ac.ArgFoldOp):
                        self.place_in(end, piece, places[end])
                    else:
                        assert isinstance(end, ac.ElementStoreOp)
                        values = [self.register(end.value, piece, element) for element in range(self.row.run)]
                        self.arrays.store_run(end, piece, values)

        if self.row.streamed:
            self.over_strips(at_pieces)
        else:
            at_pieces()
            if following is not None:
                self.fetch(following)
        for end, word in words.items():
            low, high = widened(text, paired[end][0], [word])
            totals[end] = self.function(end)(totals[end], self.function(end)(low, high))
        for end in walk.ends:
            if isinstance(end, ac.FoldOp):
                self.values[end.result] = ScalarPlace(folded(text, end.function.data, self.unit(end), totals[end]))
            elif isinstance(end, ac.ArgFoldOp):
                self.values[end.result] = IndexPlace(chosen(text, end.function.data, self.unit(end), places[end]))

    def over_strips(self, emit: Callable[[], None]) -> None:
        """Emit what is done with each strip of the row."""
        text, head, past = self.text, self.text.label("strips"), self.text.label("strips_end")
        first = text.into("b32", "mov.u32", 0)
        if self.row.kept:
            self.arrays.strip_at = text.into("b32", "mov.u32", 0)
        text.place(head)
        # A length stands by itself, where a small instance may have another.
        end: str | int = self.strip.length
        if self.strip.shift:
            end = text.into("b32", "add.u32", text.into("b32", "mov.u32", self.strip.length), self.strip.shift)
        text.emit("bra", past, guard=text.into("pred", "setp.ge.u32", first, end))
        self.begin_strip(first)
        emit()
        text.emit("add.u32", first, first, self.row.strip)
        if self.row.kept:
            text.emit("add.u32", self.arrays.strip_at, self.arrays.strip_at, self.arrays.strip_bytes)
        text.emit("bra", head)
        text.place(past)

    def begin_strip(self, first: str) -> None:
        """first: the register of the number of its first point; "" for 0."""
        self.fetched = {}
        self.strip.begin(first)

    def fetch(self, walk: Walk) -> None:
        """Issue the loads of a walk that are not there yet."""
        for inner in walk.needed:
            if isinstance(inner, ac.ElementLoadOp) and inner.result not in self.fetched:
                self.fetched[inner.result] = self.arrays.load(inner)

    # ------------------------------------------------------------ one op

    def once(self, inner: Operation) -> None:
        """What is the same at all points."""
        arrays = self.arrays
        match inner:
            case ac.AffineOp() | ac.IndexDivideOp() | ac.IndexLoadOp():
                self.values[inner.result] = IndexPlace(index_along(self.text, self.values, inner))
            case ac.ElementLoadOp():
                source = arrays.array(inner.source)
                address, inside = arrays.address(source, inner.indices, self.values, check=bool(inner.fill.data))
                guard = self.strip.where_row(inside)
                self.values[inner.result] = ScalarPlace(load_as_float(self.text, source, f"[{address}]", guard))
            case ac.ElementStoreOp():
                destination = arrays.array(inner.destination)
                address, _ = arrays.address(destination, inner.indices, self.values, check=False)
                register = self.register(inner.value, 0, 0)
                first = self.strip.where_row(self.text.into("pred", "setp.eq.u32", self.strip.thread, 0))
                store_element(self.text, destination.element, f"[{address}]", register, first)
            case _:
                if not lower_scalar_op(self.text, self.values, inner):
                    raise AssertionError(f"{inner.name} cannot stand in a row's region")

    def at_points(self, inner: Operation, piece: int) -> None:
        """At each point of a piece that the thread holds."""
        if isinstance(inner, ac.AffineOp | ac.IndexDivideOp | ac.IndexLoadOp):
            return  # computed where an address needs it
        result = inner.results[0]
        if isinstance(inner, ac.ElementLoadOp):
            self.points[result] = self.arrays.values_of(inner, self.fetched[result], piece)
            return
        registers: list[str] = []
        if isinstance(inner, ac.IndexNumberOp):
            self.points[result] = [self.number_at(inner, piece, element) for element in range(self.row.run)]
            return
        for element in range(self.row.run):
            point: Places = {each: ScalarPlace(self.register(each, piece, element)) for each in inner.operands}
            if not lower_scalar_op(self.text, point, inner):
                raise AssertionError(f"{inner.name} cannot stand in a row's region")
            place = point[result]
            assert isinstance(place, ScalarPlace)
            registers.append(place.register)
        self.points[result] = registers
        if not self.row.streamed and is_costly(inner):
            self.kept.setdefault(result, []).append(registers)

    def number_at(self, op: ac.IndexNumberOp, piece: int, element: int) -> str:
        """The number of a point along an axis."""
        point = self.arrays.elements([op.operand], piece, element)
        lower_scalar_op(self.text, point, op)
        place = point[op.result]
        assert isinstance(place, ScalarPlace)
        return place.register

    def register(self, value: SSAValue, piece: int, element: int) -> str:
        """That holds a scalar, or an index that is the same along the row, at a point."""
        if value in self.points:
            return self.points[value][element]
        if value in self.kept:
            return self.kept[value][piece][element]
        place = self.values[value]
        assert isinstance(place, ScalarPlace | IndexPlace)
        return place.register

    # ------------------------------------------------------------ folds

    def function(self, op: ac.FoldOp) -> Callable[[str, str], str]:
        return lambda left, right: emit_scalar(self.text, op.function.data, (left, right))

    def in_pairs(self, op: ac.FoldOp) -> tuple[str, int] | None:
        """The element, and a word of two identities, of a fold that takes two elements of a word at once, as they were
        loaded; None for others."""
        owner, function = op.value.owner, op.function.data
        if not isinstance(owner, ac.ElementLoadOp) or not self.arrays.comes_in_words(owner):
            return None
        element = self.arrays.array(owner.source).element
        identity = _PAIRS.get(element, {}).get(function)
        return None if identity is None else (element, identity)

    def fold_words(self, op: ac.FoldOp, piece: int, total: str, element: str, identity: int) -> None:
        """Fold the words of a piece's run into those of the pieces before."""
        text, opcode = self.text, f"{op.function.data}.NaN.{element}x2"
        words, guard = self.fetched[op.value].pieces[piece], self.strip.guards[piece]
        assert words is not None
        if guard:
            words = [text.into("b32", "selp.b32", word, identity, guard) for word in words]
        while len(words) > 1:
            pairs = [text.into("b32", opcode, *pair) for pair in zip(words[::2], words[1::2], strict=False)]
            words = pairs + words[len(pairs) * 2 :]
        text.emit(opcode, total, total, words[0])

    def partial(self, op: ac.FoldOp, piece: int) -> str:
        """Of the thread's own elements in a piece."""
        text, fold = self.text, self.function(op)
        identity = float_literal(IDENTITIES[op.function.data])
        found: list[str] = []
        for element in range(self.row.run):
            register, guard = self.register(op.value, piece, element), self.strip.counts(piece, element)
            found.append(text.into("f32", "selp.f32", register, identity, guard) if guard else register)
        while len(found) > 1:
            pairs = [fold(left, right) for left, right in zip(found[::2], found[1::2], strict=False)]
            found = pairs + found[len(pairs) * 2 :]
        return found[0]

    def no_place(self, op: ac.ArgFoldOp) -> Chosen:
        """Before the first element: it stands where that does, so that it is right where none is better."""
        text = self.text
        value = text.into("f32", "mov.f32", float_literal(IDENTITIES[op.function.data]))
        number = text.into("b32", "mul.lo.u32", self.strip.thread, self.row.run)
        if shift := self.strip.shift:
            number = text.into("b32", "max.s32", text.into("b32", "sub.s32", number, shift), 0)
        return Chosen(value, number)

    def place_in(self, op: ac.ArgFoldOp, piece: int, best: Chosen) -> None:
        """Let the thread's own elements in a piece follow those that `best` was chosen of."""
        text, function = self.text, op.function.data
        identity = float_literal(IDENTITIES[function])
        values = [self.register(op.value, piece, element) for element in range(self.row.run)]
        if self.strip.may_be_cut(piece):
            guards = [self.strip.counts(piece, element) for element in range(self.row.run)]
            pairs = zip(values, guards, strict=True)
            values = [text.into("f32", "selp.f32", value, identity, guard) for value, guard in pairs]
        found = [Chosen(value, element) for element, value in enumerate(values)]
        while len(found) > 1:
            pairs = [better(text, function, *pair) for pair in zip(found[::2], found[1::2], strict=False)]
            found = pairs + found[len(pairs) * 2 :]
        value = found[0].value
        if guard := self.strip.guards[piece]:
            value = text.into("f32", "selp.f32", value, identity, guard)
        number = text.into("b32", "add.u32", self.strip.starts[piece], found[0].number)
        taken = better(text, function, best, Chosen(value, number))
        text.emit("mov.f32", best.value, taken.value)
        text.emit("mov.b32", str(best.number), taken.number)

    def unit(self, fold: Fold) -> Unit:
        """With words of the fold's own, and a barrier where CTAs share the row: both in the order of the folds, which
        need not be that of the walks."""
        folds = [each for each in self.op.body.block.ops if isinstance(each, Fold)]
        number, barrier = folds.index(fold), ""
        if self.barriers:
            barrier = self.text.into("b32", "add.u32", self.barriers, number * BARRIER_BYTES)
        first = sum(map(words_of, folds[:number]))
        return Unit(self.strip.thread, self.row.of_fold, self.shared, first, barrier)
