"""How are the elements of a row loaded and stored, and copied to where they wait in shared memory?

Runs of arrays that lie together go as vectors. One that a row's end cuts is loaded whole nevertheless, unless it goes
past its array's end, or past a row behind which lie bytes of no element, which nobody may have written: then the thread
that has it loads it element by element. Arrays that begin elsewhere in a vector
than those that runs follow are loaded by the units that cover a run (`wide_loads`), others element by element.

Checked by: tests/lower/points/test_rows.py and test_kept_rows.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import RUN_BYTES
from tilewright.ir.rows import RowDecision
from tilewright.lower.points.cut_runs import store_halves
from tilewright.lower.points.elementwise import affine_index, divided, index_loaded
from tilewright.lower.points.kept_rows import KeptRun, copy_run, copy_singly, read_run
from tilewright.lower.points.row_strip import Strip
from tilewright.lower.points.row_walks import reached
from tilewright.lower.points.runs import array_bytes, narrowed
from tilewright.lower.points.wide_loads import WORD_BYTES, WideLoad, arrived, issue_wide, load_singly, widened
from tilewright.lower.ptx.copies.global_access import (
    ELEMENT_BYTES,
    constant_address,
    element_address,
    load_as_float,
    store_element,
)
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.places import GlobalPlace, IndexPlace, Places
from tilewright.lower.ptx.run_time import PassedSizes

_HALF_BYTES = 2


@dataclass(frozen=True, slots=True)
class Fetched:
    """A load's elements of a strip, by piece: packed words of `element`, None for those that are loaded where they are
    used, or float32 registers if `element` is empty."""

    element: str
    pieces: list[list[str] | None]


@dataclass(slots=True)
class RowArrays:
    """Of one row. values: what is the same along it; varying: what changes; waiting: loads whose elements wait in
    shared memory, with a register with the address of the thread's first run; strip_bytes: of all of them; strip_at: a
    register with the bytes of the strips before the one at hand."""

    text: Text
    op: ac.ElementwiseOp
    row: RowDecision
    values: Places
    varying: set[SSAValue]
    strip: Strip
    passed: PassedSizes
    waiting: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    strip_bytes: int = 0
    strip_at: str = ""

    # ------------------------------------------------------------ where elements are

    def array(self, value: SSAValue) -> GlobalPlace:
        """What an access reaches."""
        place = self.values[value]
        assert isinstance(place, GlobalPlace)
        return place

    def address(
        self, array: GlobalPlace, indices: Sequence[SSAValue], values: Places, *, check: bool
    ) -> tuple[str, str]:
        """64-bit address of an element, and a predicate that it lies inside the array (empty when not asked for)."""
        address, inside = array.register, ""
        strides = self.passed.strides(self.text, array.apart)
        for index, extent, stride in zip(indices, array.shape, strides, strict=True):
            place = values[index]
            assert isinstance(place, IndexPlace)
            if check:
                fits = self.text.into("pred", "setp.lt.u32", place.register, extent)
                inside = self.text.into("pred", "and.pred", inside, fits) if inside else fits
            address = element_address(self.text, address, place.register, stride, ELEMENT_BYTES[array.element])
        return address, inside

    def elements(self, indices: Sequence[SSAValue], piece: int, element: int) -> Places:
        """The indices of one element."""
        text, start = self.text, self.strip.starts[piece]
        point: Places = dict(self.values)
        point[self._along] = IndexPlace(text.into("b32", "add.u32", start, element) if element else start)
        for index in indices:
            self._index_at(point, index)
        return point

    @property
    def _along(self) -> SSAValue:
        return self.op.body.block.args[-1]

    def shifted(self) -> str:
        """By how many points the row begins behind a vector of the array that runs follow."""
        if not self.row.shifted:
            return ""
        text = self.text
        every = [each for each in map(reached, self.op.body.block.ops) if each is not None]
        indices, array = next(each for each in every if self._is_followed(*each))
        point: Places = dict(self.values)
        total = ""
        strides = self.passed.strides(text, self.array(array).apart)
        for index, stride in zip(indices, strides, strict=True):
            if index is self._along or (isinstance(stride, int) and stride % self.row.run == 0):
                continue
            self._index_at(point, index)
            place = point[index]
            assert isinstance(place, IndexPlace)
            step = stride % self.row.run if isinstance(stride, int) else stride
            step = text.into("b32", "mul.lo.u32", place.register, step)
            total = text.into("b32", "add.u32", total, step) if total else step
        return text.into("b32", "and.b32", total or text.into("b32", "mov.u32", 0), self.row.run - 1)

    def _is_followed(self, indices: Sequence[SSAValue], array: SSAValue) -> bool:
        """Whether an access along the row is one of the array that runs follow."""
        owner = array.owner
        return self._along in indices and isinstance(owner, ac.GlobalOp) and owner.buffer.data == self.row.shifted

    def _runs_at(self, array: GlobalPlace, indices: Sequence[SSAValue]) -> list[tuple[str, int]]:
        """Where a run of each piece begins, all at one distance: a register with the first one's address, and bytes
        from there."""
        point: Places = {**self.values, self._along: IndexPlace(self.strip.starts[0])}
        address, _ = self.address(array, indices, point, check=False)
        apart = self.row.threads * self.row.run * self._step_bytes(array, indices)
        return [(address, piece * apart) for piece in range(self.row.pieces)]

    def _step_bytes(self, array: GlobalPlace, indices: Sequence[SSAValue]) -> int:
        """From one element along the row to the next; 0 where something else moves along it too, and where the launch
        says how far that is."""
        along = self._along
        strides = [stride for index, stride in zip(indices, array.apart, strict=True) if index is along]
        moving = [index for index in indices if index in self.varying or index is along]
        if moving != [along] or not isinstance(strides[0], int):
            return 0
        return strides[0] * ELEMENT_BYTES[array.element]

    def _operands(
        self, array: GlobalPlace, indices: Sequence[SSAValue], piece: int, *, check: bool = False, apart: bool = False
    ) -> list[tuple[str, str]]:
        """Of each element of a piece's run, the operand of its address, and a predicate that it lies inside its array
        (empty when not asked for). apart: whether each has an address of its own, as where few threads need them."""
        elements, step = range(self.row.run), self._step_bytes(array, indices)
        if step and not check and not apart:
            base, offset = self._runs_at(array, indices)[piece]
            return [(constant_address(self.text, base, offset + element * step), "") for element in elements]
        found = [self.address(array, indices, self.elements(indices, piece, each), check=check) for each in elements]
        return [(f"[{address}]", inside) for address, inside in found]

    def _in_vectors(self, array: SSAValue) -> bool:
        return self._is_one_of(array, self.row.vectors)

    def _is_one_of(self, array: SSAValue, parameters: Sequence[str]) -> bool:
        owner = array.owner
        return isinstance(owner, ac.GlobalOp) and owner.buffer.data in parameters

    def index_along(self, values: Places, op: ac.AffineOp | ac.IndexDivideOp | ac.IndexLoadOp) -> str:
        """A register with an index that others give."""
        match op:
            case ac.AffineOp():
                return affine_index(self.text, values, op)
            case ac.IndexDivideOp():
                return divided(self.text, values, op)
            case ac.IndexLoadOp():
                return index_loaded(self.text, self.passed, values, op)

    def _index_at(self, point: Places, index: SSAValue) -> None:
        """Compute an index at a point, where it changes along the row."""
        if index in point:
            return
        owner = index.owner
        assert isinstance(owner, ac.AffineOp | ac.IndexDivideOp | ac.IndexLoadOp)
        for operand in owner.operands:
            self._index_at(point, operand)
        point[index] = IndexPlace(self.index_along(point, owner))

    # ------------------------------------------------------------ loads

    def load(self, op: ac.ElementLoadOp) -> Fetched:
        """Issue the loads of a strip."""
        text, source = self.text, self.array(op.source)
        pieces: list[list[str] | None] = []
        if op.result in self.waiting:
            runs = enumerate(self._kept_runs(op))
            return Fetched(source.element, [read_run(text, run, self.strip.any(piece)) for piece, run in runs])
        if self._in_vectors(op.source):
            count = self.row.run * ELEMENT_BYTES[source.element] // WORD_BYTES
            for piece, (base, offset) in enumerate(self._runs_at(source, op.indices)):
                guard, fits = self._loadable(op, piece, base, offset)
                words = [text.into("b32", "mov.b32", 0) if guard else text.register("b32") for _ in range(count)]
                for first, unit in _units(words):
                    suffix, operand = _vector(unit)
                    address = constant_address(text, base, offset + first * WORD_BYTES)
                    text.emit(f"{source.load}{suffix}.b32", operand, address, guard=guard)
                self._past_the_array(piece, fits, functools.partial(load_singly, text, source, base, offset, words))
                pieces.append(words)
            return Fetched(source.element, pieces)
        run_bytes = self.row.run * ELEMENT_BYTES[source.element]
        if self.strip.shift and run_bytes > WORD_BYTES and self._lies_together(op, source):
            # Runs that begin anywhere in this array's vectors. Two of them hold each, so that none is to wait long.
            return Fetched(source.element, [self._cut_words(op, source, piece) for piece in range(self.row.pieces)])
        for piece in range(self.row.pieces):
            registers: list[str] = []
            for element, (operand, inside) in enumerate(
                self._operands(source, op.indices, piece, check=bool(op.fill.data))
            ):
                guard = self.strip.inside(piece, element)
                inside = text.into("pred", "and.pred", inside, guard) if inside and guard else inside or guard
                registers.append(load_as_float(text, source, operand, inside))
            pieces.append(registers)
        return Fetched("", pieces)

    def _cut_words(self, op: ac.ElementLoadOp, source: GlobalPlace, piece: int) -> list[str] | None:
        """The packed words of a run whose elements all threads load one by one, as a row's end may cut it: so nobody
        waits for what few do otherwise. None of others, and of strips, few of which have a row's end."""
        if self.row.streamed or not self.strip.may_be_cut(piece):
            return None
        text = self.text
        address, _ = self.address(source, op.indices, self.elements(op.indices, piece, 0), check=False)
        words = [text.register("b32") for _ in range(self.row.run * ELEMENT_BYTES[source.element] // WORD_BYTES)]
        guards = [self.strip.inside(piece, element) for element in range(self.row.run)]
        load_singly(text, source, address, 0, words, guards)
        return words

    def is_shared(self, op: ac.ElementLoadOp) -> bool:
        """Whether all rows read the same elements."""
        return list(op.indices) == [self._along]

    def comes_in_words(self, op: ac.ElementLoadOp) -> bool:
        """Whether what is loaded is there as packed words."""
        return op.result in self.waiting or self._in_vectors(op.source)

    def values_of(self, op: ac.ElementLoadOp, fetched: Fetched, piece: int) -> list[str]:
        """A piece's elements as float32 registers."""
        words = fetched.pieces[piece]
        if words is None:
            words = fetched.pieces[piece] = arrived(self.text, self._wide(op, piece), self.row.run)
        return widened(self.text, fetched.element, words) if fetched.element else words

    def _loadable(self, op: ac.ElementLoadOp, piece: int, base: str, offset_bytes: int) -> tuple[str, str]:
        """Predicates: whether a piece's run is loaded whole; and whether it lies in its array, "" where each does."""
        guard, fits = self.strip.any(piece), self._fits(op, piece, base, offset_bytes)
        if not fits:
            return guard, ""
        return self.text.into("pred", "and.pred", guard, fits) if guard else fits, fits

    def _fits(self, op: ac.ElementLoadOp, piece: int, base: str, offset_bytes: int) -> str:
        """Whether a run lies in its array from end to end, where one that a row's end cuts may not."""
        if not (self.strip.shift and self.strip.may_have_last(piece)):
            return ""
        text, source = self.text, self.array(op.source)
        end = self._row_end(op, source) if self._is_one_of(op.source, self.row.spaced) else self._array_end(source)
        behind = offset_bytes + self.row.run * ELEMENT_BYTES[source.element]
        return text.into("pred", "setp.le.u64", text.into("b64", "add.s64", base, behind), end)

    def _array_end(self, source: GlobalPlace) -> str:
        """A register with the address just behind an array."""
        text, strides = self.text, self.passed.strides(self.text, source.apart)
        known, passed = list[tuple[int, int]](), list[tuple[int | str, int | str]]()
        for extent, stride in zip(source.shape, strides, strict=True):
            if isinstance(extent, int) and isinstance(stride, int):
                known.append((extent, stride))
            else:
                passed.append((extent, stride))
        size = text.into("b64", "mov.u64", array_bytes(known, source.element))
        end = text.into("b64", "add.s64", source.register, size)
        for extent, stride in passed:
            last = text.into("b32", "sub.u32", text.into("b32", "mov.u32", extent), 1)
            end = element_address(text, end, last, stride, ELEMENT_BYTES[source.element])
        return end

    def _row_end(self, op: ac.ElementLoadOp, source: GlobalPlace) -> str:
        """A register with the address just behind the row."""
        length = self.text.into("b32", "mov.u32", self.strip.length.operand)
        behind: Places = {**self.values, self._along: IndexPlace(length)}
        for index in op.indices:
            self._index_at(behind, index)
        return self.address(source, op.indices, behind, check=False)[0]

    def _past_the_array(self, piece: int, fits: str, emit: Callable[[list[str]], None]) -> None:
        """Emit what the thread does whose run goes past the array's end."""
        if not fits:
            return
        text, join, done = self.text, self.text.label("run_in_array"), fits
        if guard := self.strip.any(piece):
            done = text.into("pred", "or.pred", text.into("pred", "not.pred", guard), fits)
        text.emit("bra", join, guard=done)
        emit([self.strip.inside(piece, element) for element in range(self.row.run)])
        text.place(join)

    def _wide(self, op: ac.ElementLoadOp, piece: int) -> WideLoad:
        """Issue the load of a piece's run, at whatever address it begins."""
        text, source = self.text, self.array(op.source)
        # What lies behind the row is loaded by nobody, though it may be the array's.
        end = self._row_end(op, source)
        address, _ = self.address(source, op.indices, self.elements(op.indices, piece, 0), check=False)
        guards = [self.strip.inside(piece, element) for element in range(self.row.run)]
        return issue_wide(text, source, address, end, guards, self.row.run * ELEMENT_BYTES[source.element])

    def _lies_together(self, op: ac.ElementLoadOp, source: GlobalPlace) -> bool:
        """Whether a run's elements are neighbours, none of them outside of the array."""
        return self._step_bytes(source, op.indices) == ELEMENT_BYTES[source.element] and not op.fill.data

    # ------------------------------------------------------------ what waits in shared memory

    def keep(self, address: str, thread: str, number: int) -> None:
        """Let elements wait at an address of shared memory. thread: register with a thread's number in its CTA; number:
        of the row among those that its unit takes at once."""
        loads = _kept_loads(self.op, self.row)
        sizes = [self.row.kept_strip_bytes(ELEMENT_BYTES[self.array(load.source).element]) for load in loads]
        begin = number * sum(sizes)
        for load, size in zip(loads, sizes, strict=True):
            element_bytes = ELEMENT_BYTES[self.array(load.source).element]
            own = self.text.into("b32", "mad.lo.u32", thread, self.row.run * element_bytes, address)
            self.waiting[load.result] = self.text.into("b32", "add.u32", own, begin)
            begin += size
        self.strip_bytes = self.row.together * sum(sizes)

    def _kept_runs(self, op: ac.ElementLoadOp) -> list[KeptRun]:
        """Where the thread's runs of a strip wait, by piece."""
        run_bytes = self.row.run * ELEMENT_BYTES[self.array(op.source).element]
        base = self.text.into("b32", "add.u32", self.waiting[op.result], self.strip_at)
        apart = self.row.cta_threads * run_bytes
        return [KeptRun(base, piece * apart, run_bytes) for piece in range(self.row.pieces)]

    def copy_strip(self) -> None:
        """Issue the copies of a strip."""
        text = self.text
        for op in _kept_loads(self.op, self.row):
            source = self.array(op.source)
            runs = zip(self._kept_runs(op), self._runs_at(source, op.indices), strict=True)
            for piece, (to, (base, offset)) in enumerate(runs):
                guard, fits = self._loadable(op, piece, base, offset)
                copy_run(text, to, base, offset, guard)
                self._past_the_array(piece, fits, functools.partial(copy_singly, text, source, to, base, offset))

    # ------------------------------------------------------------ stores

    def store_run(self, op: ac.ElementStoreOp, piece: int, registers: Sequence[str]) -> None:
        """What a thread holds of a piece, float32 registers."""
        text, destination, strip = self.text, self.array(op.destination), self.strip

        def singly(*, apart: bool) -> None:
            operands = self._operands(destination, op.indices, piece, apart=apart)
            for element, ((operand, _), register) in enumerate(zip(operands, registers, strict=True)):
                store_element(text, destination.element, operand, register, strip.inside(piece, element))

        if not self._in_vectors(op.destination):
            singly(apart=False)
            return
        base, offset = self._runs_at(destination, op.indices)[piece]
        guard, words = strip.whole(piece), narrowed(text, destination.element, [*registers])
        for first, unit in _units(words):
            suffix, operand = _vector(unit)
            address = constant_address(text, base, offset + first * WORD_BYTES)
            text.emit(f"st.global{suffix}.b32", address, operand, guard=guard)
        if ELEMENT_BYTES[destination.element] == _HALF_BYTES:
            start = strip.starts[piece]
            strip.at_an_end(piece, lambda: store_halves(text, words, base, offset, start, strip.length.operand))
        else:
            strip.at_an_end(piece, lambda: singly(apart=True))


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


def _units(words: list[str]) -> list[tuple[int, list[str]]]:
    """Words that go together: number of the first, and up to 16 bytes of them."""
    most = RUN_BYTES // WORD_BYTES
    return [(first, words[first : first + most]) for first in range(0, len(words), most)]


def _vector(unit: list[str]) -> tuple[str, str]:
    """Suffix and operand of an access of so many words."""
    return ("", unit[0]) if len(unit) == 1 else (f".v{len(unit)}", f"{{{', '.join(unit)}}}")
