"""Which bytes does a layout name, and do two layouts name the same: for every size at once?

A layout is an affine map from an index to a byte, extents and offset possibly symbolic, then perhaps an exclusive-or of
address bits (a swizzle). With symbolic sizes, "equal" and "disjoint" mean: for all sizes that the facts admit.
Theory: Presburger arithmetic, decided by isl. An exclusive-or of two bits is `(a + b) mod 2`, and a bit is
`floor(x / 2^k) mod 2`, so a swizzle stays in one piece. isl's work is counted and limited: past the limit, and for
products of symbols, the answer is Undetermined.

`layout.StridedView.canonical` is the cheap normal form and the one to ask first; `byte_set_text` merges what that
misses: views that overlap themselves, and dimensions that interlock without continuing each other. Equal texts are
equal sets; equal sets nearly always have equal texts, but isl promises no normal form: a text may key a memo, no more.

Not handled: symbolic strides. Checked by tests/solve/test_integer_set.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tilewright.base.error import TilewrightError
from tilewright.base.extra import MissingExtra
from tilewright.layout.numbers.integer_expression import IntegerExpression, Quotient, Remainder
from tilewright.layout.numbers.integer_fact import IntegerFact
from tilewright.layout.view.strided_view import StridedView
from tilewright.solve.bounded import DEFAULT_EFFORT, Effort, Undetermined
from tilewright.solve.installed import solver

Size = int | IntegerExpression
Facts = Mapping[str, IntegerFact]
Answer = TypeVar("Answer")

NO_FACTS: Facts = {}

_LIMIT_MET = "maximal number of operations"


@dataclass(frozen=True, slots=True)
class ExclusiveOr:
    """Bits [from_bit, from_bit + count) of an address are combined into bits [to_bit, to_bit + count)."""

    count: int
    to_bit: int
    from_bit: int


@dataclass(frozen=True, slots=True)
class Layout:
    """extents: elements of each dimension, innermost first; strides_bytes: one for each; offset_bytes: of element
    (0, ..., 0); element_bytes: of one element; swizzle: applied to each byte's address.

    Raises TilewrightError where lengths differ or the element is below one byte.
    """

    extents: tuple[Size, ...]
    strides_bytes: tuple[int, ...]
    offset_bytes: Size = 0
    element_bytes: int = 1
    swizzle: ExclusiveOr | None = None

    def __post_init__(self) -> None:
        if len(self.extents) != len(self.strides_bytes):
            raise TilewrightError(f"layout: {len(self.extents)} extents, {len(self.strides_bytes)} strides")
        if self.element_bytes < 1:
            raise TilewrightError(f"layout: an element of {self.element_bytes} bytes")


def layout_of(view: StridedView, swizzle: ExclusiveOr | None = None) -> Layout:
    """The layout of a view of known sizes."""
    return Layout(view.extents, view.strides_bytes, view.offset_bytes, view.element_bytes, swizzle)


def same_bytes(
    left: Layout, right: Layout, facts: Facts = NO_FACTS, effort: Effort = DEFAULT_EFFORT
) -> bool | Undetermined:
    """Whether both name the same set of bytes, for all sizes that `facts` admit."""
    return _decided((left, right), facts, effort, lambda isl: isl.bytes(left).is_equal(isl.bytes(right)))


def same_order(
    left: Layout, right: Layout, facts: Facts = NO_FACTS, effort: Effort = DEFAULT_EFFORT
) -> bool | Undetermined:
    """Whether both name the same bytes in the same order, dimension 0 fastest, for all sizes that `facts` admit.

    Only the outermost extent may be symbolic.
    """
    return _decided((left, right), facts, effort, lambda isl: isl.order(left).is_equal(isl.order(right)))


def covers(
    outer: Layout, inner: Layout, facts: Facts = NO_FACTS, effort: Effort = DEFAULT_EFFORT
) -> bool | Undetermined:
    """Whether every byte of `inner` is one of `outer`, for all sizes that `facts` admit."""
    return _decided((outer, inner), facts, effort, lambda isl: isl.bytes(inner).is_subset(isl.bytes(outer)))


def disjoint(
    left: Layout, right: Layout, facts: Facts = NO_FACTS, effort: Effort = DEFAULT_EFFORT
) -> bool | Undetermined:
    """Whether no byte is in both, for all sizes that `facts` admit."""
    return _decided((left, right), facts, effort, lambda isl: isl.bytes(left).is_disjoint(isl.bytes(right)))


def is_injective(layout: Layout, facts: Facts = NO_FACTS, effort: Effort = DEFAULT_EFFORT) -> bool | Undetermined:
    """Whether no two indices name a common byte, for all sizes that `facts` admit."""
    return _decided((layout,), facts, effort, lambda isl: isl.relation(layout).is_injective())


def byte_count(layout: Layout, effort: Effort = DEFAULT_EFFORT) -> int | Undetermined:
    """How many distinct bytes a layout of known sizes names."""
    if _sizes(layout):
        return _SYMBOLIC
    return _counted((layout,), NO_FACTS, effort, lambda isl: int(isl.bytes(layout).count_val().to_python()))


def byte_range(layout: Layout, effort: Effort = DEFAULT_EFFORT) -> tuple[int, int] | Undetermined | None:
    """The first byte that a layout of known sizes names and one past the last; None where it names none."""

    def ends(isl: _Isl) -> tuple[int, int] | None:
        found = isl.bytes(layout)
        if found.is_empty():
            return None
        return int(found.dim_min_val(0).to_python()), int(found.dim_max_val(0).to_python()) + 1

    return _SYMBOLIC if _sizes(layout) else _counted((layout,), NO_FACTS, effort, ends)


def byte_set_text(layout: Layout, facts: Facts = NO_FACTS, effort: Effort = DEFAULT_EFFORT) -> str | Undetermined:
    """The set of bytes as text, the same for most equal sets and different for all different ones."""
    layout = _normalized(layout)
    return _counted((layout,), facts, effort, lambda isl: isl.text(isl.bytes(layout)))


def _normalized(layout: Layout) -> Layout:
    """A layout of the same bytes, in the cheap normal form where sizes are known and nothing is swizzled."""
    extents = tuple(extent for extent in layout.extents if isinstance(extent, int) and extent > 0)
    offset = layout.offset_bytes
    if len(extents) < len(layout.extents) or not isinstance(offset, int) or layout.swizzle is not None:
        return layout
    return layout_of(StridedView(extents, layout.strides_bytes, offset, layout.element_bytes).canonical())


def order_text(layout: Layout, facts: Facts = NO_FACTS, effort: Effort = DEFAULT_EFFORT) -> str | Undetermined:
    """The sequence of bytes, dimension 0 fastest, as text: with `byte_set_text`'s promises."""
    return _counted((layout,), facts, effort, lambda isl: isl.text(isl.order(layout)))


_SYMBOLIC = Undetermined("a number is asked of symbolic sizes", "known sizes")


class _NotPresburger(Exception):
    pass


class _Isl:
    """isl's sets of some layouts, with one numbering of their symbols, in a context of their own."""

    def __init__(self, library: Any, names: tuple[str, ...], facts: Facts, operations: int) -> None:
        self.library = library
        self.context: Any = library.Context()
        self.context.set_max_operations(operations)
        self.names = names
        self.symbols = {name: f"n{at}" for at, name in enumerate(names)}
        admitted = [part for name in names for part in _fact_texts(self.symbols[name], facts.get(name))]
        self.sizes: Any = self.parse(library.Set, f"{{ : {' and '.join(admitted) or 'true'} }}")

    def parse(self, kind: Any, text: str) -> Any:
        return kind.read_from_str(self.context, f"[{', '.join(self.symbols.values())}] -> {text}")

    def relation(self, layout: Layout) -> Any:
        """From (index, byte of the element) to the byte's address."""
        variables = [f"i{at}" for at in range(len(layout.extents))]
        target, conditions = self._address(layout, variables)
        inputs = ", ".join([*variables, "b"])
        found = self.parse(self.library.Map, f"{{ [{inputs}] -> [{target}] : {conditions} }}")
        return found.intersect_params(self.sizes)

    def order(self, layout: Layout) -> Any:
        """From the byte's place in the sequence to its address."""
        variables = [f"i{at}" for at in range(len(layout.extents))]
        place, step = ["b"], layout.element_bytes
        for at, (variable, extent) in enumerate(zip(variables, layout.extents, strict=True)):
            place.append(f"{step}*{variable}")
            if isinstance(extent, int):
                step *= extent
            elif at + 1 < len(variables):
                raise _NotPresburger("an inner extent that is symbolic multiplies the places of the outer ones")
        target, conditions = self._address(layout, variables)
        inner = ", ".join([*variables, "b"])
        text = f"{{ [k] -> [{target}] : exists {inner} : k = {' + '.join(place)} and {conditions} }}"
        return self.parse(self.library.Map, text).intersect_params(self.sizes)

    def bytes(self, layout: Layout) -> Any:
        return self.relation(layout).range().coalesce()

    def text(self, found: Any) -> str:
        """Normalized as far as isl goes; the sizes that the facts admit are left out where they are implied."""
        simple = found.coalesce().detect_equalities().remove_redundancies().gist_params(self.sizes).coalesce()
        return f"{', '.join(self.names)}: {simple} for {self.sizes}"

    def _address(self, layout: Layout, variables: list[str]) -> tuple[str, str]:
        """The variable that is the address, and the conditions that tie it to index and byte."""
        terms = [self.expression(layout.offset_bytes), "b"]
        terms += [f"{stride}*{variable}" for stride, variable in zip(layout.strides_bytes, variables, strict=True)]
        conditions = [f"0 <= b < {layout.element_bytes}"]
        for variable, extent in zip(variables, layout.extents, strict=True):
            conditions.append(f"0 <= {variable} < {self.expression(extent)}")
        address = " + ".join(terms)
        if layout.swizzle is None:
            return "a", " and ".join([*conditions, f"a = {address}"])
        moved = _exclusive_or("a", layout.swizzle)
        return "s", f"exists a : {' and '.join([*conditions, f'a = {address}', f's = {moved}'])}"

    def expression(self, value: Size) -> str:
        """A size as isl writes it. Raises _NotPresburger for a product of symbols."""
        if isinstance(value, int):
            return str(value)
        terms: list[str] = []
        for monomial, coefficient in value.terms:
            if len(monomial) > 1:
                raise _NotPresburger(f"{value} multiplies symbols")
            match monomial:
                case ():
                    terms.append(str(coefficient))
                case (Quotient(dividend, divisor),):
                    terms.append(f"{coefficient}*floor({self.expression(dividend)}/{_positive(divisor)})")
                case (Remainder(dividend, divisor),):
                    terms.append(f"{coefficient}*({self.expression(dividend)} mod {_positive(divisor)})")
                case (name,):
                    terms.append(f"{coefficient}*{self.symbols[name]}")
        return f"({' + '.join(terms) or '0'})"


def _positive(divisor: IntegerExpression) -> int:
    if divisor.constant is None or divisor.constant < 1:
        raise _NotPresburger(f"a division by {divisor}")
    return divisor.constant


def _exclusive_or(address: str, swizzle: ExclusiveOr) -> str:
    terms = [address]
    for bit in range(swizzle.count):
        to_bit = 1 << (swizzle.to_bit + bit)
        here, there = f"floor({address}/{to_bit})", f"floor({address}/{1 << (swizzle.from_bit + bit)})"
        terms.append(f"{to_bit}*((({here} + {there}) mod 2) - ({here} mod 2))")
    return " + ".join(terms)


def _fact_texts(symbol: str, fact: IntegerFact | None) -> list[str]:
    if fact is None:
        return []
    found: list[str] = []
    if fact.low is not None:
        found.append(f"{symbol} >= {fact.low}")
    if fact.high is not None:
        found.append(f"{symbol} <= {fact.high}")
    if fact.modulus > 1:
        found.append(f"({symbol} - {fact.remainder}) mod {fact.modulus} = 0")
    return found


def _decided(
    layouts: tuple[Layout, ...], facts: Facts, effort: Effort, question: Callable[[_Isl], object]
) -> bool | Undetermined:
    return _counted(layouts, facts, effort, lambda isl: bool(question(isl)))


def _counted(
    layouts: tuple[Layout, ...], facts: Facts, effort: Effort, question: Callable[[_Isl], Answer]
) -> Answer | Undetermined:
    """The answer of `question`, or that it met the limit of isl's operations, or that isl is not installed."""
    try:
        library = solver("islpy")
    except MissingExtra as missing:
        return Undetermined(missing.message, missing.remedy)
    names = sorted({name for layout in layouts for size in _sizes(layout) for name in size.names})
    try:
        return question(_Isl(library, tuple(names), facts, effort.set_operations))
    except _NotPresburger as error:
        return Undetermined(f"not a question of linear arithmetic: {error}", "the sizes, or another form of the layout")
    except library.Error as error:
        if _LIMIT_MET in str(error):
            return Undetermined(f"isl met its limit of {effort.set_operations} operations", "a larger `set_operations`")
        return Undetermined(f"isl gave no answer: {error}", "another form of the question, such as known sizes")


def _sizes(layout: Layout) -> list[IntegerExpression]:
    return [size for size in (*layout.extents, layout.offset_bytes) if isinstance(size, IntegerExpression)]
