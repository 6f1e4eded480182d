"""How an element-by-element kernel turns tiles: loads along one axis, an exchange, stores along another.

Each warp takes tiles of the grid, a grid of warps apart. For every turned load it fetches its points in the loaded
layout, exchanges them (`lower.exchange.steps`) to the stored one, and there computes and stores, a run at a time.
Points that lie outside the grid are neither loaded nor stored, but take part in the exchange, of which no lane may
stand aside. Loads that run along the stored axis are fetched in runs there; all others element by element, each once.

Shared memory: a warp stores again only after all its lanes have loaded, by bar.warp.sync; no other warp touches its
part, of which it has one for each size of element. Source: PTX ISA, ld, st: vectors are aligned to their size. Checked
by: tests/lower/points/test_transpose.py, on the machine and against the plan's addresses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.exchange import Stage
from tilewright.ir.transpose import TransposeDecision, places_of, tile_counts
from tilewright.layout.linear.maps import LinearLayout
from tilewright.lower.exchange.steps import emit, prepare
from tilewright.lower.exchange.words import Ready, linear_bytes
from tilewright.lower.points.runs import narrowed
from tilewright.lower.points.wide_loads import widened
from tilewright.lower.ptx.copies.global_access import ELEMENT_BYTES, displaced_address, load_as_float, store_element
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import Lowering, integers
from tilewright.lower.ptx.numbers.scalar_region import lower_scalar_op, scalar_register
from tilewright.lower.ptx.places import BufferPlace, GlobalPlace, Places, ScalarPlace
from tilewright.lower.ptx.run_time import fixed_sizes

_WORD_BYTES = 4
_VECTOR_BYTES = 16


def lower_transpose(lowering: Lowering, op: ac.ElementwiseOp, decision: TransposeDecision) -> None:
    """Emit the loop over the op's tiles. `op.through` is the buffer that the exchanges go through."""
    text, extents = lowering.text, fixed_sizes(op.extents)
    buffer = lowering.place(op.through[0])
    assert isinstance(buffer, BufferPlace)
    ready: dict[int, Ready] = {}
    for plan, offset in zip(decision.plans, decision.plan_offsets, strict=True):
        memory = text.into("b32", "add.u32", lowering.shared_base, buffer.address + offset)
        ready[plan.element_bytes] = prepare(text, plan, lowering.thread, memory)
    lane = text.into("b32", "and.b32", lowering.thread, 31)
    sides = [
        _lane_places(text, lane, layout, decision.side) for layout in (decision.stored_layout, decision.loaded_layout)
    ]
    # From lane 0, so that the assembler knows the loop to be uniform in each warp.
    warp = text.into("b32", "shfl.sync.idx.b32", text.into("b32", "shr.u32", lowering.thread, 5), 0, 31, -1)
    first = text.into("b32", "mad.lo.u32", text.into("b32", "mov.u32", "%ctaid.x"), decision.warps, warp)
    step = text.into("b32", "mul.lo.u32", text.into("b32", "mov.u32", "%nctaid.x"), decision.warps)
    number = text.into("b32", "mov.u32", first)
    counts = tile_counts(decision, extents)
    head, end = text.label("tiles"), text.label("tiles_end")
    text.place(head)
    text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", number, math.prod(counts)))
    origins = _origins(text, number, counts, decision)
    stored, loaded = (
        _Side(text, decision, op, extents, layout, run, origins, lanes)
        for layout, run, lanes in (
            (decision.stored_layout, decision.stored_run, sides[0]),
            (decision.loaded_layout, decision.loaded_run, sides[1]),
        )
    )
    _turn_tile(lowering, op, ready, stored, loaded)
    text.emit("add.u32", number, number, step)
    text.emit("bra", head)
    text.place(end)


def _lane_places(text: Text, lane: str, layout: LinearLayout, side: int) -> tuple[str, str]:
    """Where the lane's first point lies in a tile, along the stored and along the loaded axis."""
    _, lanes = places_of(layout, side)
    return linear_bytes(text, lane, [each[0] for each in lanes]), linear_bytes(text, lane, [each[1] for each in lanes])


def _origins(text: Text, number: str, counts: tuple[int, ...], decision: TransposeDecision) -> list[str]:
    """The tile's first point; tiles next to each other along the stored axis follow each other."""
    order = [at for at in range(len(counts)) if at not in (decision.stored_axis, decision.loaded_axis)]
    order += [decision.loaded_axis, decision.stored_axis]
    found = [""] * len(counts)
    rest = number
    for at in reversed(order[1:]):
        found[at] = text.into("b32", "rem.u32", rest, counts[at])
        rest = text.into("b32", "div.u32", rest, counts[at])
    found[order[0]] = rest
    for at in (decision.stored_axis, decision.loaded_axis):
        found[at] = text.into("b32", "mul.lo.u32", found[at], decision.side)
    return found


@dataclass(slots=True)
class _Side:
    """A thread's points of one tile in one of the layouts. origins: registers, the tile's first point by axis; lanes:
    registers, this lane's place in the tile along the stored and the loaded axis; the rest is found when asked for."""

    text: Text
    decision: TransposeDecision
    op: ac.ElementwiseOp
    extents: tuple[int, ...]
    layout: LinearLayout
    run: int
    origins: list[str]
    lanes: tuple[str, str]
    indices: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    fits: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        return places_of(self.layout, self.decision.side)[0]

    def index(self, axis: int, place: tuple[int, int]) -> str:
        """Register: the point's index along an axis of the grid."""
        turned = (self.decision.stored_axis, self.decision.loaded_axis)
        if axis not in turned:
            return self.origins[axis]
        which = turned.index(axis)
        key = (axis, place[which])
        if key not in self.indices:
            own = (axis, 0)
            if own not in self.indices:
                self.indices[own] = self.text.into("b32", "add.u32", self.origins[axis], self.lanes[which])
            if key != own:
                self.indices[key] = self.text.into("b32", "add.u32", self.indices[own], place[which])
        return self.indices[key]

    def inside(self, place: tuple[int, int], axes: Sequence[int]) -> str:
        """Predicate: the point lies in the grid along these axes; empty where it always does."""
        turned = (self.decision.stored_axis, self.decision.loaded_axis)
        found = ""
        for which, axis in enumerate(turned):
            if axis in axes:
                key = (axis, place[which])
                if key not in self.fits:
                    index = self.index(axis, place)
                    self.fits[key] = self.text.into("pred", "setp.lt.u32", index, self.extents[axis])
                one = self.fits[key]
                found = self.text.into("pred", "and.pred", found, one) if found else one
        return found

    def address(self, array: GlobalPlace, axes: Sequence[int], place: tuple[int, int]) -> str:
        """Register: of an element whose indices are these axes of the grid."""
        position = array.register
        for axis, stride in zip(axes, array.strides, strict=True):
            size = ELEMENT_BYTES[array.element]
            position = displaced_address(self.text, position, self.index(axis, place), stride * size)
        return position

    def runs(self) -> list[range]:
        """A thread's elements, the neighbouring ones together."""
        return [range(first, first + self.run) for first in range(0, len(self.places), self.run)]


def plain_axes(op: ac.ElementwiseOp, indices: Sequence[SSAValue]) -> list[int]:
    """The extents that these indices stand for; empty where one is something else."""
    arguments: list[SSAValue] = [*op.body.block.args]
    found = [arguments.index(index) for index in indices if index in arguments]
    return found if len(found) == len(indices) else []


def _along(array: GlobalPlace, axes: Sequence[int]) -> int:
    """The one axis along which neighbours lie together; -1 where there is none or more than one."""
    found = [axis for axis, stride in zip(axes, array.strides, strict=True) if stride == 1]
    return found[0] if len(found) == 1 else -1


def _turn_tile(lowering: Lowering, op: ac.ElementwiseOp, ready: dict[int, Ready], stored: _Side, loaded: _Side) -> None:
    text, decision = lowering.text, stored.decision
    words: dict[SSAValue, list[str]] = {}
    fetched: list[tuple[ac.ElementLoadOp, Ready, list[str]]] = []
    for inner in op.body.block.ops:
        if not isinstance(inner, ac.ElementLoadOp) or inner.fill.data:
            continue
        source = _array(lowering, inner.source)
        axes = plain_axes(op, inner.indices)
        size = ELEMENT_BYTES[source.element]
        if not axes:
            continue
        if _along(source, axes) == decision.stored_axis:
            words[inner.result] = _fetch(text, stored, source, axes)
        elif _along(source, axes) == decision.loaded_axis and decision.stored_axis in axes and size in ready:
            fetched.append((inner, ready[size], _fetch(text, loaded, source, axes)))
    for inner, way, given in fetched:
        if any(isinstance(step, Stage) for step in way.plan.steps):
            text.emit("bar.warp.sync", -1)
        words[inner.result] = emit(way, given)
    _compute(lowering, op, stored, words)


def _array(lowering: Lowering, value: SSAValue) -> GlobalPlace:
    place = lowering.place(value)
    assert isinstance(place, GlobalPlace)
    return place


def _fetch(text: Text, side: _Side, source: GlobalPlace, axes: Sequence[int]) -> list[str]:
    """A thread's points of an array, packed into words, in runs."""
    size = ELEMENT_BYTES[source.element]
    words: list[str] = []
    parts: list[str] = []
    for run in side.runs():
        place = side.places[run[0]]
        address, guard = side.address(source, axes, place), side.inside(place, axes)
        if side.run * size >= _WORD_BYTES:
            words += _load_words(text, source.load, address, side.run * size, guard)
            continue
        for number in range(side.run):
            part = text.into("b16", "mov.b16", 0)
            text.emit(
                f"{source.load}.{'u8' if size == 1 else 'b16'}", part, f"[{address}+{number * size}]", guard=guard
            )
            parts.append(part)
    if size == 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [text.into("b16", "or.b16", low, text.into("b16", "shl.b16", high, 8)) for low, high in pairs]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return words + [text.into("b32", "mov.b32", f"{{{low}, {high}}}") for low, high in pairs]


def _load_words(text: Text, load: str, address: str, size: int, guard: str) -> list[str]:
    words = [text.into("b32", "mov.b32", 0) for _ in range(size // _WORD_BYTES)]
    for first in range(0, len(words), _VECTOR_BYTES // _WORD_BYTES):
        some = words[first : first + _VECTOR_BYTES // _WORD_BYTES]
        place = f"[{address}+{first * _WORD_BYTES}]"
        text.emit(f"{load}{_vector(some)}.b32", _group(some), place, guard=guard)
    return words


def _vector(words: Sequence[str]) -> str:
    return "" if len(words) == 1 else f".v{len(words)}"


def _group(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{{{', '.join(words)}}}"


# ---------------------------------------------------------------- values and stores


def _compute(lowering: Lowering, op: ac.ElementwiseOp, side: _Side, words: dict[SSAValue, list[str]]) -> None:
    """What is computed from the loads, a run at a time, and its stores."""
    stores = [inner for inner in op.body.block.ops if isinstance(inner, ac.ElementStoreOp)]
    sources: dict[SSAValue, SSAValue] = {
        inner.result: inner.source for inner in op.body.block.ops if isinstance(inner, ac.ElementLoadOp)
    }
    singles = _Singles(lowering, op, side)

    def is_copy(store: ac.ElementStoreOp) -> bool:
        source = sources.get(store.value)
        same = source is not None and _array(lowering, source).element == _array(lowering, store.destination).element
        return same and store.value in words

    computed = not all(is_copy(store) for store in stores)
    for run in side.runs():
        results: dict[ac.ElementStoreOp, list[str]] = {store: [] for store in stores}
        floats: dict[SSAValue, list[str]] = {}
        if computed:
            floats = {
                value: _elements(lowering.text, _array(lowering, sources[value]).element, each, run)
                for value, each in words.items()
            }
            for at, number in enumerate(run):
                known: Places = {value: ScalarPlace(registers[at]) for value, registers in floats.items()}
                singles.point(number, known, results)
        for store in stores:
            if is_copy(store):
                _store_copy(lowering, op, side, store, words[store.value], run)
            else:
                _store_floats(lowering, op, side, store, results[store], run)


def _elements(text: Text, element: str, words: list[str], run: range) -> list[str]:
    """The run's elements as float32 registers."""
    per_word = _WORD_BYTES // ELEMENT_BYTES[element]
    some = words[run[0] // per_word : -(-run.stop // per_word)]
    skipped = run[0] % per_word
    return widened(text, element, some)[skipped : skipped + len(run)]


@dataclass(slots=True)
class _Singles:
    """Values of single points. Indices, and what is loaded element by element, are found once for each place that they
    depend on."""

    lowering: Lowering
    op: ac.ElementwiseOp
    side: _Side
    shifted: dict[tuple[SSAValue, int, int], str] = field(default_factory=dict[tuple[SSAValue, int, int], str])
    loaded: dict[tuple[SSAValue, int, int], str] = field(default_factory=dict[tuple[SSAValue, int, int], str])

    def point(self, number: int, known: Places, results: dict[ac.ElementStoreOp, list[str]]) -> None:
        """What the body computes for one element. known: values of loads that are there already."""
        values: Places = {**self.lowering.places, **known}
        for inner in self.op.body.block.ops:
            match inner:
                case ac.AffineOp() | ac.IndexDivideOp():
                    pass
                case ac.ElementLoadOp():
                    if inner.result not in known:
                        values[inner.result] = ScalarPlace(self._load(inner, self.side.places[number]))
                case ac.ElementStoreOp():
                    results[inner].append(scalar_register(values, inner.value))
                case _:
                    if not lower_scalar_op(self.lowering.text, values, inner):
                        raise AssertionError(f"{inner.name} cannot stand in an element-by-element body")

    def _argument(self, value: SSAValue) -> int:
        arguments: list[SSAValue] = [*self.op.body.block.args]
        return arguments.index(value)

    def _axes(self, value: SSAValue) -> frozenset[int]:
        """Extents of the grid that an index depends on."""
        if isinstance(value.owner, ac.IndexDivideOp):
            return self._axes(value.owner.operand)
        if isinstance(value.owner, ac.AffineOp):
            return frozenset[int]().union(*(self._axes(each) for each in value.owner.operands_))
        return frozenset([self._argument(value)])

    def _key(self, value: SSAValue, axes: frozenset[int], place: tuple[int, int]) -> tuple[SSAValue, int, int]:
        decision = self.side.decision
        return (
            value,
            place[0] if decision.stored_axis in axes else 0,
            place[1] if decision.loaded_axis in axes else 0,
        )

    def _index(self, value: SSAValue, place: tuple[int, int]) -> str:
        owner = value.owner
        if isinstance(owner, ac.IndexDivideOp):
            return self._quotient(owner, place)
        if not isinstance(owner, ac.AffineOp):
            return self.side.index(self._argument(value), place)
        key = self._key(value, self._axes(value), place)
        if key not in self.shifted:
            text = self.lowering.text
            total = text.into("b32", "mov.u32", owner.constant.data)
            for coefficient, operand in zip(integers(owner.coefficients), owner.operands_, strict=True):
                total = text.into("b32", "mad.lo.s32", self._index(operand, place), coefficient, total)
            self.shifted[key] = total
        return self.shifted[key]

    def _quotient(self, owner: ac.IndexDivideOp, place: tuple[int, int]) -> str:
        key = self._key(owner.result, self._axes(owner.result), place)
        if key not in self.shifted:
            dividend = self._index(owner.operand, place)
            self.shifted[key] = self.lowering.text.into("b32", "div.u32", dividend, owner.size.data)
        return self.shifted[key]

    def _load(self, op: ac.ElementLoadOp, place: tuple[int, int]) -> str:
        axes = frozenset[int]().union(*(self._axes(each) for each in op.indices))
        key = self._key(op.result, axes, place)
        if key in self.loaded:
            return self.loaded[key]
        text, source = self.lowering.text, _array(self.lowering, op.source)
        inside = self.side.inside(place, sorted(axes))
        position = source.register
        for value, extent, stride in zip(op.indices, source.shape, source.strides, strict=True):
            index = self._index(value, place)
            if op.fill.data:
                # As unsigned, so that a negative index is outside too.
                fits = text.into("pred", "setp.lt.u32", index, extent)
                inside = fits if not inside else text.into("pred", "and.pred", inside, fits)
            position = displaced_address(text, position, index, stride * ELEMENT_BYTES[source.element])
        self.loaded[key] = load_as_float(text, source, f"[{position}]", inside)
        return self.loaded[key]


def _store_floats(
    lowering: Lowering, op: ac.ElementwiseOp, side: _Side, store: ac.ElementStoreOp, floats: list[str], run: range
) -> None:
    text, array = lowering.text, _array(lowering, store.destination)
    size = ELEMENT_BYTES[array.element]
    address, guard = _target(side, op, store, array, run)
    if len(run) * size >= _WORD_BYTES:
        _store_words(text, address, narrowed(text, array.element, floats), guard)
        return
    for at, value in enumerate(floats):
        store_element(text, array.element, f"[{address}+{at * size}]", value, guard)


def _store_copy(
    lowering: Lowering, op: ac.ElementwiseOp, side: _Side, store: ac.ElementStoreOp, words: list[str], run: range
) -> None:
    """Words go as they came."""
    text, array = lowering.text, _array(lowering, store.destination)
    size = ELEMENT_BYTES[array.element]
    address, guard = _target(side, op, store, array, run)
    per_word = _WORD_BYTES // size
    if len(run) >= per_word:
        _store_words(text, address, words[run[0] // per_word : run.stop // per_word], guard)
        return
    for at, number in enumerate(run):
        word, place = words[number // per_word], number % per_word
        part = text.into("b32", "shr.u32", word, 8 * size * place) if place else word
        text.emit(f"st.global.b{8 * size}", f"[{address}+{at * size}]", part, guard=guard)


def _target(
    side: _Side, op: ac.ElementwiseOp, store: ac.ElementStoreOp, array: GlobalPlace, run: range
) -> tuple[str, str]:
    """Address of the run's first element, and the predicate that the run lies in the grid."""
    axes, place = plain_axes(op, store.indices), side.places[run[0]]
    return side.address(array, axes, place), side.inside(place, axes)


def _store_words(text: Text, address: str, words: Sequence[str], guard: str) -> None:
    for first in range(0, len(words), _VECTOR_BYTES // _WORD_BYTES):
        some = words[first : first + _VECTOR_BYTES // _WORD_BYTES]
        text.emit(f"st.global{_vector(some)}.b32", f"[{address}+{first * _WORD_BYTES}]", _group(some), guard=guard)
