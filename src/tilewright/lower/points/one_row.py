"""What is emitted of one row: loads, what is computed at its points, and what a thread folds of its own elements.

Where one strip holds the row, what is loaded stays in registers from walk to walk, as packed words; what costs much
(exponentials, quotients) stays too, and the rest is computed anew from both, so that few registers wait. The largest or
smallest of elements as they were loaded is folded two at a time, as they lie in a word. A product that only a sum needs
is rounded with it (`row_walks.product_of`). Points past a row's end count nowhere (`row_strip`): they are folded as the
function's identity, and not stored.

Checked by: tests/lower/points/test_rows.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.rows import RowDecision
from tilewright.lower.points.row_arrays import Fetched, RowArrays
from tilewright.lower.points.row_folds import IDENTITIES, Chosen, better
from tilewright.lower.points.row_strip import Strip
from tilewright.lower.points.row_walks import Walk, is_costly, joins_a_sum, product_of
from tilewright.lower.points.wide_loads import widened
from tilewright.lower.ptx.copies.global_access import load_as_float, store_element
from tilewright.lower.ptx.emit import Text, float_literal
from tilewright.lower.ptx.numbers.scalar import emit_scalar
from tilewright.lower.ptx.numbers.scalar_region import lower_scalar_op
from tilewright.lower.ptx.places import IndexPlace, Places, ScalarPlace

_PAIRS = {"bf16": {"max": 0xFF80FF80, "min": 0x7F807F80}, "f16": {"max": 0xFC00FC00, "min": 0x7C007C00}}
"""Two identities in a word, of elements and functions of which two are folded at once."""
_SUMS_AT_ONCE = 2
"""Of products of a run: one would wait for itself, and more take more additions at the end."""


@dataclass(slots=True)
class Folding:
    """What a thread has folded of a walk, by fold. Registers: totals: numbers; words: two elements each, of folds that
    `pairs` has with their element and the word of two identities; places: elements and where they stand."""

    totals: dict[ac.FoldOp, str]
    places: dict[ac.ArgFoldOp, Chosen]
    pairs: dict[ac.FoldOp, tuple[str, int]]
    words: dict[ac.FoldOp, str]


@dataclass(slots=True)
class OneRow:
    """fetched: what is loaded of the strip at hand; kept: values at its points that stay for later walks, by piece;
    points: others, of the piece at hand."""

    text: Text
    row: RowDecision
    arrays: RowArrays
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

    def begin(self, walk: Walk) -> Folding:
        """Nothing is folded yet."""
        text = self.text
        folds = [end for end in walk.ends if isinstance(end, ac.FoldOp)]
        totals = {end: text.into("f32", "mov.f32", float_literal(IDENTITIES[end.function.data])) for end in folds}
        places = {end: self.no_place(end) for end in walk.ends if isinstance(end, ac.ArgFoldOp)}
        pairs = {end: found for end in folds if (found := self.in_pairs(end))}
        words = {end: text.into("b32", "mov.b32", identity) for end, (_, identity) in pairs.items()}
        return Folding(totals, places, pairs, words)

    def at_piece(self, walk: Walk, folding: Folding, piece: int) -> None:
        """Fold a piece, and store what is to be stored of it."""
        text, self.points = self.text, {}
        by_words = [end for end in folding.words if not self.strip.may_be_cut(piece)]
        for end in by_words:
            self.fold_words(end, piece, folding.words[end], *folding.pairs[end])
        ends = [end for end in walk.ends if end not in by_words]
        for inner in walk.needed_by(ends):
            self.at_points(inner, piece)
        for end in ends:
            if isinstance(end, ac.FoldOp):
                total = folding.totals[end]
                text.emit("mov.f32", total, self.function(end)(total, self.partial(end, piece)))
            elif isinstance(end, ac.ArgFoldOp):
                self.place_in(end, piece, folding.places[end])
            else:
                assert isinstance(end, ac.ElementStoreOp)
                values = [self.register(end.value, piece, element) for element in range(self.row.run)]
                self.arrays.store_run(end, piece, values)

    def own(self, end: ac.FoldOp, folding: Folding) -> str:
        """What the thread has folded of its own elements."""
        if end not in folding.words:
            return folding.totals[end]
        low, high = widened(self.text, folding.pairs[end][0], [folding.words[end]])
        return self.function(end)(folding.totals[end], self.function(end)(low, high))

    # ------------------------------------------------------------ one op

    def once(self, inner: Operation) -> None:
        """What is the same at all points."""
        arrays = self.arrays
        match inner:
            case ac.AffineOp() | ac.IndexDivideOp() | ac.IndexLoadOp():
                self.values[inner.result] = IndexPlace(arrays.index_along(self.values, inner))
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
        if joins_a_sum(inner):
            return  # computed with the sum
        if (product := product_of(inner)) is not None:
            (other,) = [each for each in inner.operands if each is not product.result]
            factors = [self.factors(product, piece, element) for element in range(self.row.run)]
            addends = [self.register(other, piece, element) for element in range(self.row.run)]
            pairs = zip(factors, addends, strict=True)
            self.points[result] = [emit_scalar(self.text, "fma", (*pair, addend)) for pair, addend in pairs]
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

    def factors(self, product: ac.ScalarOp, piece: int, element: int) -> tuple[str, str]:
        """Registers with what is multiplied at a point."""
        left, right = (self.register(each, piece, element) for each in product.inputs)
        return left, right

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
        text, fold, elements = self.text, self.function(op), range(self.row.run)
        identity = float_literal(IDENTITIES[op.function.data])
        is_cut, guard = self.strip.may_be_cut(piece), self.strip.guards[piece]
        if (product := product_of(op)) is None:
            found = [self.register(op.value, piece, element) for element in elements]
        else:
            found = self.products([self.factors(product, piece, element) for element in elements], apart=is_cut)
        if is_cut:
            guards = [self.strip.counts(piece, element) for element in elements]
            pairs = zip(found, guards, strict=True)
            found = [text.into("f32", "selp.f32", value, identity, inside) for value, inside in pairs]
        while len(found) > 1:
            pairs = [fold(left, right) for left, right in zip(found[::2], found[1::2], strict=False)]
            found = pairs + found[len(pairs) * 2 :]
        # Where a piece lies in the row or past its end from end to end, so does what it is folded to.
        return found[0] if is_cut or not guard else text.into("f32", "selp.f32", found[0], identity, guard)

    def products(self, factors: list[tuple[str, str]], *, apart: bool) -> list[str]:
        """Registers whose sum is that of the products: each product's own, or a few with several each."""
        if apart:
            return [emit_scalar(self.text, "mul", pair) for pair in factors]
        sums = [emit_scalar(self.text, "mul", pair) for pair in factors[:_SUMS_AT_ONCE]]
        for number, pair in enumerate(factors[_SUMS_AT_ONCE:]):
            place = number % _SUMS_AT_ONCE
            sums[place] = emit_scalar(self.text, "fma", (*pair, sums[place]))
        return sums

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
