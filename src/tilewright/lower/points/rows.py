"""How rows that units of threads share are loaded, folded and stored.

A unit walks its row once for each level: the folds that wait for those of the level before, and the stores behind them.
Where one strip holds the row, what is loaded stays in registers from walk to walk, as packed words; what costs much
(exponentials, quotients) stays too, and the rest is computed anew from both, so that few registers wait. What a walk
needs first is on its way before the threads of the walk before meet. Rows that no strip holds are loaded anew, but for
those arrays that wait in shared memory (`kept_rows`).

A fold goes through a thread's own elements, then through the unit's threads (`row_folds`), which a cluster's CTAs may
share: then they arrive at its barrier at once, and wait for each other before the first fold.

Points past a row's end count nowhere: they are loaded as zeros, folded as the function's identity, and not stored.
Where rows begin anywhere in a vector, so do the points before a row's begin, which its first run has: the runs at
either end are loaded and stored point by point, by the threads that have them.
Checked by: tests/lower/points/test_rows.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tilewright.base.size import number_of, product
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import RUN_BYTES
from tilewright.ir.rows import BARRIER_BYTES, COSTLY, RowDecision
from tilewright.ir.sizes import sizes_of
from tilewright.lower.points.elementwise import affine_index, divided, index_loaded
from tilewright.lower.points.kept_rows import KeptRun, copy_run, copy_singly, read_run
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
from tilewright.lower.points.runs import narrowed
from tilewright.lower.points.wide_loads import WORD_BYTES, WideLoad, arrived, issue_wide, load_singly, widened
from tilewright.lower.ptx.emit import Text, float_literal
from tilewright.lower.ptx.global_access import (
    ELEMENT_BYTES,
    constant_address,
    displaced_address,
    load_as_float,
    store_element,
)
from tilewright.lower.ptx.lowering import Lowering, integers
from tilewright.lower.ptx.places import BufferPlace, GlobalPlace, IndexPlace, Places, ScalarPlace
from tilewright.lower.ptx.run_time import POINTS
from tilewright.lower.ptx.scalar import emit_scalar
from tilewright.lower.ptx.scalar_region import lower_scalar_op

_Fold = ac.FoldOp | ac.ArgFoldOp


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A load's elements of a strip, by piece: packed words of `element`, None for those that are loaded where they are
    used, or float32 registers if `element` is empty."""

    element: str
    pieces: list[list[str] | None]


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
        words = [_words_of(inner) for inner in op.body.block.ops if isinstance(inner, _Fold)]
        begin_meetings(text, thread, barriers, [row.threads // WARP_THREADS * WORD_BYTES * each for each in words])
        addresses[0] = text.into("b32", "add.u32", barriers, len(words) * BARRIER_BYTES)
        number = text.into("b32", "mov.u32", "%clusterid.x")
        rank = text.into("b32", "mov.u32", "%cluster_ctarank")
        thread = text.into("b32", "mad.lo.u32", rank, block, thread)
    else:
        number = text.into("b32", "mov.u32", "%ctaid.x")
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
    walk = _Row(text, op, row, values, length, thread, has_row, addresses[0] if addresses else "", barriers)
    if row.kept:
        walk.keep(addresses[-1], lowering.thread)
    walk.all_levels()
    text.place(end)


@dataclass(slots=True)
class _Row:
    """One row of the thread's unit. values: what is the same along it; fetched: what is loaded of the strip at hand;
    kept: values at its points that stay for later walks, by piece; points: others, of the piece at hand; starts,
    guards: number of the first element of each piece, and whether any lies in the row; shift: a register with how many
    of its first run lie before it, "" for none; varying: what changes along the row; has_row: a predicate where units
    of a warp may have none; shared: a register with the address of the words of folds;
    barriers: one with that of the barriers of a cluster's folds, both in the order of the folds;
    waiting: loads whose elements wait in shared memory, with a register with the address of the thread's first run;
    strip_bytes: of all of them; strip_at: a register with the bytes of the strips before the one at hand."""

    text: Text
    op: ac.ElementwiseOp
    row: RowDecision
    values: Places
    length: int
    thread: str
    has_row: str
    shared: str
    barriers: str
    shift: str = ""
    varying: set[SSAValue] = field(default_factory=set[SSAValue])
    fetched: dict[SSAValue, _Fetched] = field(default_factory=dict[SSAValue, _Fetched])
    kept: dict[SSAValue, list[list[str]]] = field(default_factory=dict[SSAValue, "list[list[str]]"])
    points: dict[SSAValue, list[str]] = field(default_factory=dict[SSAValue, "list[str]"])
    starts: list[str] = field(default_factory=list[str])
    guards: list[str] = field(default_factory=list[str])
    waiting: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    strip_bytes: int = 0
    strip_at: str = ""

    # ------------------------------------------------------------ walks

    def all_levels(self) -> None:
        varying, levels = _levels(self.op)
        ops = list(self.op.body.block.ops)
        walks = self.walks(ops, varying, levels)
        self.shift, self.varying = self.shifted(), {result for each in varying for result in each.results}
        if not self.row.streamed:
            self.begin_strip("")
            self.fetch(walks[0])
        if self.waiting:
            self.over_strips(self.copy_strip)
            self.text.emit("cp.async.wait_all")
        done = 0
        for level in range(1 + max(levels.values(), default=0)):
            for inner in ops:  # what is the same along the row, as far as it is known by now
                if inner not in varying and not isinstance(inner, _Fold) and levels[inner] == level:
                    self.once(inner)
            if done < len(walks) and walks[done].level == level:
                following = walks[done + 1] if done + 1 < len(walks) else None
                self.sweep(walks[done], following)
                done += 1

    def shifted(self) -> str:
        """By how many points the row begins behind a vector of the array that runs follow."""
        if not self.row.shifted:
            return ""
        text, along = self.text, self.op.body.block.args[-1]
        reached = [each for each in map(_reached, self.op.body.block.ops) if each is not None]
        indices, array = next(each for each in reached if self.is_followed(*each))
        point: Places = dict(self.values)
        total = ""
        for index, stride in zip(indices, self.array(array).strides, strict=True):
            if index is along or stride % self.row.run == 0:
                continue
            _index_at(text, point, index)
            place = point[index]
            assert isinstance(place, IndexPlace)
            step = text.into("b32", "mul.lo.u32", place.register, stride % self.row.run)
            total = text.into("b32", "add.u32", total, step) if total else step
        return text.into("b32", "and.b32", total or text.into("b32", "mov.u32", 0), self.row.run - 1)

    def is_followed(self, indices: Sequence[SSAValue], array: SSAValue) -> bool:
        """Whether an access along the row is one of the array that runs follow."""
        owner, along = array.owner, self.op.body.block.args[-1]
        return along in indices and isinstance(owner, ac.GlobalOp) and owner.buffer.data == self.row.shifted

    def walks(self, ops: list[Operation], varying: set[Operation], levels: dict[Operation, int]) -> list[_Walk]:
        found: list[_Walk] = []
        keeps: set[Operation] = set()
        for level in range(1 + max(levels.values(), default=0)):
            ends: list[Operation] = [
                inner
                for inner in ops
                if (isinstance(inner, _Fold) and levels[inner] == level + 1)
                or (isinstance(inner, ac.ElementStoreOp) and inner in varying and levels[inner] == level)
            ]
            if not ends:
                continue
            behind = _behind(ends, keeps)
            needed = [each for each in ops if each in behind and each in varying and each not in ends]
            found.append(_Walk(level, ends, needed))
            if not self.row.streamed:
                keeps |= {each for each in needed if _is_costly(each)}
        return found

    def sweep(self, walk: _Walk, following: _Walk | None) -> None:
        """following: the walk after it, whose loads are issued before the threads meet."""
        text = self.text
        folds = [end for end in walk.ends if isinstance(end, ac.FoldOp)]
        totals = {end: text.into("f32", "mov.f32", float_literal(IDENTITIES[end.function.data])) for end in folds}
        places = {end: self.no_place(end) for end in walk.ends if isinstance(end, ac.ArgFoldOp)}

        def at_pieces() -> None:
            self.fetch(walk)
            for piece in range(self.row.pieces):
                self.points = {}
                for inner in walk.needed:
                    self.at_points(inner, piece)
                for end in walk.ends:
                    if isinstance(end, ac.FoldOp):
                        text.emit("mov.f32", totals[end], self.function(end)(totals[end], self.partial(end, piece)))
                    elif isinstance(end, ac.ArgFoldOp):
                        self.place_in(end, piece, places[end])
                    else:
                        assert isinstance(end, ac.ElementStoreOp)
                        self.store_run(end, piece)

        if self.row.streamed:
            self.over_strips(at_pieces)
        else:
            at_pieces()
            if following is not None:
                self.fetch(following)
        for end in walk.ends:
            if isinstance(end, ac.FoldOp):
                self.values[end.result] = ScalarPlace(folded(text, end.function.data, self.unit(end), totals[end]))
            elif isinstance(end, ac.ArgFoldOp):
                self.values[end.result] = IndexPlace(chosen(text, end.function.data, self.unit(end), places[end]))

    def over_strips(self, emit: Callable[[], None]) -> None:
        """Emit what is done with each strip of the row."""
        text, head, past = self.text, self.text.label("strips"), self.text.label("strips_end")
        first = text.into("b32", "mov.u32", 0)
        if self.waiting:
            self.strip_at = text.into("b32", "mov.u32", 0)
        text.place(head)
        # A length stands by itself, where a small instance may have another.
        end: str | int = self.length
        if self.shift:
            end = text.into("b32", "add.u32", text.into("b32", "mov.u32", self.length), self.shift)
        text.emit("bra", past, guard=text.into("pred", "setp.ge.u32", first, end))
        self.begin_strip(first)
        emit()
        text.emit("add.u32", first, first, self.row.strip)
        if self.waiting:
            text.emit("add.u32", self.strip_at, self.strip_at, self.strip_bytes)
        text.emit("bra", head)
        text.place(past)

    def begin_strip(self, first: str) -> None:
        """first: the register of the number of its first point; "" for 0."""
        text, row = self.text, self.row
        self.fetched = {}
        own = text.into("b32", "mul.lo.u32", self.thread, row.run)
        if first:
            own = text.into("b32", "add.u32", own, first)
        if self.shift:
            own = text.into("b32", "sub.s32", own, self.shift)
        self.starts = [
            text.into("b32", "add.u32", own, piece * row.threads * row.run) if piece else own
            for piece in range(row.pieces)
        ]
        before = row.most_before
        last = [text.into("b32", "add.u32", start, before) for start in self.starts] if before else self.starts
        self.guards = [self.where_row(text.into("pred", "setp.lt.u32", each, self.length + before)) for each in last]

    def may_be_cut(self, piece: int) -> bool:
        """Whether a row's end may lie inside a run of a piece: of rows that begin anywhere in a vector, the first one,
        and those in which the last run may be."""
        row = self.row
        if not self.shift or row.streamed:
            return bool(self.shift)
        last = [(self.length - 1 + before) // row.run // row.threads for before in (0, row.most_before)]
        return piece == 0 or last[0] <= piece <= last[1]

    def inside(self, piece: int, element: int) -> str:
        """Whether an element of a piece lies in the row."""
        if not self.may_be_cut(piece):
            return self.guards[piece]
        text = self.text
        number = text.into("b32", "add.u32", self.starts[piece], element) if element else self.starts[piece]
        return self.where_row(text.into("pred", "setp.lt.u32", number, self.length))

    def whole(self, piece: int) -> str:
        """Whether a piece's run lies in the row from end to end."""
        if not self.may_be_cut(piece):
            return self.guards[piece]
        text, most = self.text, self.length - self.row.most_before
        return self.where_row(text.into("pred", "setp.lt.u32", self.starts[piece], most))

    def at_an_end(self, piece: int, emit: Callable[[list[str]], None]) -> None:
        """Emit what the threads whose run a row's end cuts do, by their elements' guards."""
        if not self.may_be_cut(piece):
            return
        text, join = self.text, self.text.label("run_cut")
        none = text.into("pred", "not.pred", self.guards[piece])
        text.emit("bra", join, guard=text.into("pred", "or.pred", none, self.whole(piece)))
        emit([self.inside(piece, element) for element in range(self.row.run)])
        text.place(join)

    def where_row(self, guard: str) -> str:
        """A guard, for units that have a row."""
        if guard and self.has_row:
            return self.text.into("pred", "and.pred", guard, self.has_row)
        return guard or self.has_row

    def fetch(self, walk: _Walk) -> None:
        """Issue the loads of a walk that are not there yet."""
        for inner in walk.needed:
            if isinstance(inner, ac.ElementLoadOp) and inner.result not in self.fetched:
                self.fetched[inner.result] = self.load(inner)

    # ------------------------------------------------------------ what waits in shared memory

    def keep(self, address: str, thread: str) -> None:
        """Let elements wait at an address of shared memory. thread: register with a thread's number in its CTA."""
        for load in _kept_loads(self.op, self.row):
            element_bytes = ELEMENT_BYTES[self.array(load.source).element]
            own = self.text.into("b32", "mad.lo.u32", thread, self.row.run * element_bytes, address)
            self.waiting[load.result] = self.text.into("b32", "add.u32", own, self.strip_bytes)
            self.strip_bytes += self.row.kept_strip_bytes(element_bytes)

    def kept_runs(self, op: ac.ElementLoadOp) -> list[KeptRun]:
        """Where the thread's runs of a strip wait, by piece."""
        run_bytes = self.row.run * ELEMENT_BYTES[self.array(op.source).element]
        base = self.text.into("b32", "add.u32", self.waiting[op.result], self.strip_at)
        apart = self.row.cta_threads * run_bytes
        return [KeptRun(base, piece * apart, run_bytes) for piece in range(self.row.pieces)]

    def copy_strip(self) -> None:
        """Issue the copies of a strip."""
        for op in _kept_loads(self.op, self.row):
            source = self.array(op.source)
            for piece, (to, run) in enumerate(zip(self.kept_runs(op), self.runs_at(source, op.indices), strict=True)):
                copy_run(self.text, to, *run, self.whole(piece))
                self.at_an_end(piece, functools.partial(copy_singly, self.text, source, to, *run))

    # ------------------------------------------------------------ one op

    def once(self, inner: Operation) -> None:
        """What is the same at all points."""
        match inner:
            case ac.AffineOp() | ac.IndexDivideOp() | ac.IndexLoadOp():
                self.values[inner.result] = IndexPlace(_index(self.text, self.values, inner))
            case ac.ElementLoadOp():
                source = self.array(inner.source)
                address, inside = self.address(source, inner.indices, self.values, check=bool(inner.fill.data))
                guard = self.where_row(inside)
                self.values[inner.result] = ScalarPlace(load_as_float(self.text, source, f"[{address}]", guard))
            case ac.ElementStoreOp():
                destination = self.array(inner.destination)
                address, _ = self.address(destination, inner.indices, self.values, check=False)
                register = self.register(inner.value, 0, 0)
                first = self.where_row(self.text.into("pred", "setp.eq.u32", self.thread, 0))
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
            fetched = self.fetched[result]
            words = fetched.pieces[piece]
            if words is None:
                words = fetched.pieces[piece] = arrived(self.text, self.wide(inner, piece), self.row.run)
            self.points[result] = widened(self.text, fetched.element, words) if fetched.element else words
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
        if not self.row.streamed and _is_costly(inner):
            self.kept.setdefault(result, []).append(registers)

    def number_at(self, op: ac.IndexNumberOp, piece: int, element: int) -> str:
        point = self.elements([op.operand], piece, element)
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

    # ------------------------------------------------------------ memory

    def array(self, value: SSAValue) -> GlobalPlace:
        place = self.values[value]
        assert isinstance(place, GlobalPlace)
        return place

    def address(
        self, array: GlobalPlace, indices: Sequence[SSAValue], values: Places, *, check: bool
    ) -> tuple[str, str]:
        """64-bit address of an element, and a predicate that it lies inside the array (empty when not asked for)."""
        address, inside = array.register, ""
        for index, extent, stride in zip(indices, array.shape, array.strides, strict=True):
            place = values[index]
            assert isinstance(place, IndexPlace)
            if check:
                fits = self.text.into("pred", "setp.lt.u32", place.register, extent)
                inside = self.text.into("pred", "and.pred", inside, fits) if inside else fits
            address = displaced_address(self.text, address, place.register, stride * ELEMENT_BYTES[array.element])
        return address, inside

    def runs_at(self, array: GlobalPlace, indices: Sequence[SSAValue]) -> list[tuple[str, int]]:
        """Where a dense run of each piece begins: a register with the first one's address, and bytes from there."""
        along = self.op.body.block.args[-1]
        point: Places = {**self.values, along: IndexPlace(self.starts[0])}
        address, _ = self.address(array, indices, point, check=False)
        apart = self.row.threads * self.row.run * ELEMENT_BYTES[array.element]
        return [(address, piece * apart) for piece in range(self.row.pieces)]

    def in_vectors(self, array: SSAValue) -> bool:
        owner = array.owner
        return isinstance(owner, ac.GlobalOp) and owner.buffer.data in self.row.vectors

    def elements(self, indices: Sequence[SSAValue], piece: int, element: int) -> Places:
        """The indices of one element."""
        along, text = self.op.body.block.args[-1], self.text
        start = self.starts[piece]
        point: Places = dict(self.values)
        point[along] = IndexPlace(text.into("b32", "add.u32", start, element) if element else start)
        for index in indices:
            _index_at(text, point, index)
        return point

    def load(self, op: ac.ElementLoadOp) -> _Fetched:
        text, source = self.text, self.array(op.source)
        pieces: list[list[str] | None] = []
        if op.result in self.waiting:
            runs = zip(self.kept_runs(op), self.guards, strict=True)
            return _Fetched(source.element, [read_run(text, run, guard) for run, guard in runs])
        if self.in_vectors(op.source):
            count = self.row.run * ELEMENT_BYTES[source.element] // WORD_BYTES
            runs = self.runs_at(source, op.indices)
            for piece, (base, offset) in enumerate(runs):
                words, guard = [text.into("b32", "mov.b32", 0) for _ in range(count)], self.whole(piece)
                for first, unit in _units(words):
                    suffix, operand = _vector(unit)
                    address = constant_address(text, base, offset + first * WORD_BYTES)
                    text.emit(f"{source.load}{suffix}.b32", operand, address, guard=guard)
                pieces.append(words)
            for piece, (words, run) in enumerate(zip(pieces, runs, strict=True)):
                assert words is not None
                self.at_an_end(piece, functools.partial(load_singly, text, source, *run, words))
            return _Fetched(source.element, pieces)
        if self.shift and self.lies_together(op, source):
            # Runs that begin anywhere in this array's vectors. Two of them hold each, so that none is to wait long.
            return _Fetched(source.element, [None] * self.row.pieces)
        for piece in range(self.row.pieces):
            registers: list[str] = []
            for element in range(self.row.run):
                point, guard = self.elements(op.indices, piece, element), self.inside(piece, element)
                address, inside = self.address(source, op.indices, point, check=bool(op.fill.data))
                inside = text.into("pred", "and.pred", inside, guard) if inside else guard
                registers.append(load_as_float(text, source, f"[{address}]", inside))
            pieces.append(registers)
        return _Fetched("", pieces)

    def wide(self, op: ac.ElementLoadOp, piece: int) -> WideLoad:
        """Issue the load of a piece's run, at whatever address it begins."""
        text, source = self.text, self.array(op.source)
        # What lies behind the row is loaded by nobody, though it may be the array's.
        behind: Places = {
            **self.values,
            self.op.body.block.args[-1]: IndexPlace(text.into("b32", "mov.u32", self.length)),
        }
        for index in op.indices:
            _index_at(text, behind, index)
        end, _ = self.address(source, op.indices, behind, check=False)
        address, _ = self.address(source, op.indices, self.elements(op.indices, piece, 0), check=False)
        guards = [self.inside(piece, element) for element in range(self.row.run)]
        return issue_wide(text, source, address, end, guards, self.row.run * ELEMENT_BYTES[source.element])

    def lies_together(self, op: ac.ElementLoadOp, source: GlobalPlace) -> bool:
        """Whether a run's elements are neighbours, none of them outside of the array."""
        along = self.op.body.block.args[-1]
        strides = [stride for index, stride in zip(op.indices, source.strides, strict=True) if index is along]
        moving = [index for index in op.indices if index in self.varying or index is along]
        return strides == [1] and moving == [along] and not op.fill.data

    def store_run(self, op: ac.ElementStoreOp, piece: int) -> None:
        """What a thread holds of a piece."""
        text, destination = self.text, self.array(op.destination)
        registers = [self.register(op.value, piece, element) for element in range(self.row.run)]

        def singly(guards: list[str]) -> None:
            for element, (register, guard) in enumerate(zip(registers, guards, strict=True)):
                point = self.elements(op.indices, piece, element)
                address, _ = self.address(destination, op.indices, point, check=False)
                store_element(text, destination.element, f"[{address}]", register, guard)

        if not self.in_vectors(op.destination):
            singly([self.inside(piece, element) for element in range(self.row.run)])
            return
        base, offset = self.runs_at(destination, op.indices)[piece]
        guard = self.whole(piece)
        for first, unit in _units(narrowed(text, destination.element, registers)):
            suffix, operand = _vector(unit)
            address = constant_address(text, base, offset + first * WORD_BYTES)
            text.emit(f"st.global{suffix}.b32", address, operand, guard=guard)
        self.at_an_end(piece, singly)

    # ------------------------------------------------------------ folds

    def function(self, op: ac.FoldOp) -> Callable[[str, str], str]:
        return lambda left, right: emit_scalar(self.text, op.function.data, (left, right))

    def partial(self, op: ac.FoldOp, piece: int) -> str:
        """Of the thread's own elements in a piece."""
        text, fold = self.text, self.function(op)
        identity = float_literal(IDENTITIES[op.function.data])
        found = [
            text.into("f32", "selp.f32", self.register(op.value, piece, element), identity, self.inside(piece, element))
            for element in range(self.row.run)
        ]
        while len(found) > 1:
            pairs = [fold(left, right) for left, right in zip(found[::2], found[1::2], strict=False)]
            found = pairs + found[len(pairs) * 2 :]
        return found[0]

    def no_place(self, op: ac.ArgFoldOp) -> Chosen:
        """Before the first element: it stands where that does, so that it is right where none is better."""
        text = self.text
        value = text.into("f32", "mov.f32", float_literal(IDENTITIES[op.function.data]))
        number = text.into("b32", "mul.lo.u32", self.thread, self.row.run)
        if self.shift:
            number = text.into("b32", "max.s32", text.into("b32", "sub.s32", number, self.shift), 0)
        return Chosen(value, number)

    def place_in(self, op: ac.ArgFoldOp, piece: int, best: Chosen) -> None:
        """Let the thread's own elements in a piece follow those that `best` was chosen of."""
        text, function = self.text, op.function.data
        identity = float_literal(IDENTITIES[function])
        values = [self.register(op.value, piece, element) for element in range(self.row.run)]
        if self.shift:
            guards = [self.inside(piece, element) for element in range(self.row.run)]
            pairs = zip(values, guards, strict=True)
            values = [text.into("f32", "selp.f32", value, identity, guard) for value, guard in pairs]
        found = [Chosen(value, element) for element, value in enumerate(values)]
        while len(found) > 1:
            pairs = [better(text, function, *pair) for pair in zip(found[::2], found[1::2], strict=False)]
            found = pairs + found[len(pairs) * 2 :]
        value = text.into("f32", "selp.f32", found[0].value, identity, self.guards[piece])
        number = text.into("b32", "add.u32", self.starts[piece], found[0].number)
        taken = better(text, function, best, Chosen(value, number))
        text.emit("mov.f32", best.value, taken.value)
        text.emit("mov.b32", str(best.number), taken.number)

    def unit(self, fold: _Fold) -> Unit:
        """With words of the fold's own, and a barrier where CTAs share the row: both in the order of the folds, which
        need not be that of the walks."""
        folds = [each for each in self.op.body.block.ops if isinstance(each, _Fold)]
        number, barrier = folds.index(fold), ""
        if self.barriers:
            barrier = self.text.into("b32", "add.u32", self.barriers, number * BARRIER_BYTES)
        first = sum(map(_words_of, folds[:number]))
        return Unit(self.thread, self.row.threads, self.shared, first, self.row.ctas, barrier)


def _units(words: list[str]) -> list[tuple[int, list[str]]]:
    """Words that go together: number of the first, and up to 16 bytes of them."""
    most = RUN_BYTES // WORD_BYTES
    return [(first, words[first : first + most]) for first in range(0, len(words), most)]


def _vector(unit: list[str]) -> tuple[str, str]:
    """Suffix and operand of an access of so many words."""
    return ("", unit[0]) if len(unit) == 1 else (f".v{len(unit)}", f"{{{', '.join(unit)}}}")


# ---------------------------------------------------------------- what depends on what


@dataclass(frozen=True, slots=True)
class _Walk:
    """ends: folds and stores; needed: what they are computed from and changes along the row, in order."""

    level: int
    ends: list[Operation]
    needed: list[Operation]


def _reached(op: Operation) -> tuple[Sequence[SSAValue], SSAValue] | None:
    """The indices of an access, and its array."""
    match op:
        case ac.ElementLoadOp():
            return op.indices, op.source
        case ac.ElementStoreOp():
            return op.indices, op.destination
        case _:
            return None


def _kept_loads(op: ac.ElementwiseOp, row: RowDecision) -> list[ac.ElementLoadOp]:
    """The loads along the row whose elements wait in shared memory."""
    along = op.body.block.args[-1]
    return [
        inner
        for inner in op.body.block.ops
        if isinstance(inner, ac.ElementLoadOp)
        and isinstance(inner.source.owner, ac.GlobalOp)
        and inner.source.owner.buffer.data in row.kept
        and along in inner.indices
    ]


def _words_of(fold: _Fold) -> int:
    """Of each warp: of a value that stands somewhere, its place is a second word."""
    return 2 if isinstance(fold, ac.ArgFoldOp) else 1


def _is_costly(op: Operation) -> bool:
    return isinstance(op, ac.ScalarOp) and op.function.data in COSTLY


def _index(text: Text, values: Places, op: ac.AffineOp | ac.IndexDivideOp | ac.IndexLoadOp) -> str:
    match op:
        case ac.AffineOp():
            return affine_index(text, values, op)
        case ac.IndexDivideOp():
            return divided(text, values, op)
        case ac.IndexLoadOp():
            return index_loaded(text, values, op)


def _index_at(text: Text, point: Places, index: SSAValue) -> None:
    """Compute an index at a point, where it changes along the row."""
    if index in point:
        return
    owner = index.owner
    assert isinstance(owner, ac.AffineOp | ac.IndexDivideOp | ac.IndexLoadOp)
    for operand in owner.operands:
        _index_at(text, point, operand)
    point[index] = IndexPlace(_index(text, point, owner))


def _levels(op: ac.ElementwiseOp) -> tuple[set[Operation], dict[Operation, int]]:
    """The ops whose result changes along the row (stores: that go along it), and how many folds, one waiting for the
    other, must be known before each can be computed."""
    along = op.body.block.args[-1]
    varying: set[Operation] = set()
    levels: dict[Operation, int] = {}
    for inner in op.body.block.ops:
        owners = [operand.owner for operand in inner.operands]
        before = [levels[owner] for owner in owners if isinstance(owner, Operation) and owner in levels]
        levels[inner] = max(before, default=0) + isinstance(inner, _Fold)
        moves = any(operand is along or operand.owner in varying for operand in inner.operands)
        if moves and not isinstance(inner, _Fold):
            varying.add(inner)
    return varying, levels


def _behind(ends: Sequence[Operation], known: set[Operation]) -> set[Operation]:
    """The ops, and all that they are computed from, up to what is known."""
    found: set[Operation] = set()
    open_ = list(ends)
    while open_:
        op = open_.pop()
        if op not in found and op not in known:
            found.add(op)
            open_ += [operand.owner for operand in op.operands if isinstance(operand.owner, Operation)]
    return found
