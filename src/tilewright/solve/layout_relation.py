"""Layouts of any family as relations of integers: equality for all sizes beyond normal forms, pieces from relations.

Theory: Presburger arithmetic, decided by isl. A layout is the relation of the coordinate numbers i and values v with
digits x_k, 0 <= x_k < n_k, i = sum of x_k places and v = offset + sum of x_k strides; an exclusive or is a sum of bits
modulo 2. Places and strides must be numbers, so of the extents only the last may be symbolic; two layouts of one shape
are compared on their digits instead, where every extent may be. isl's work is counted and limited: past the limit, and
for products of symbols, the answer is `NotDecided`. A counterexample is one point of the difference, evaluated again.

Not handled: symbolic strides that normal forms do not remove. Checked by tests/solve/test_layout_relation.py against
enumeration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.base.extra import MissingExtra
from tilewright.layout import nested
from tilewright.layout.answer import NotDecided, NotExpressible
from tilewright.layout.coalescing import with_sizes
from tilewright.layout.equality import (
    NO_FACTS,
    AnyLayout,
    Different,
    Equal,
    Facts,
    Verdict,
    compare,
    in_normal_form,
    value_at,
)
from tilewright.layout.layout import Layout
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.nested import Integer
from tilewright.layout.numbers.integer_expression import IntegerExpression, Quotient, Remainder
from tilewright.layout.numbers.integer_fact import ANY, IntegerFact
from tilewright.layout.pieces.piecewise import Piecewise
from tilewright.layout.swizzle import Swizzle
from tilewright.solve.bounded import Effort
from tilewright.solve.installed import solver

ONE_SECOND = Effort(set_operations=100_000)
"""About what isl does in a second on such relations; an answer hangs on the count alone."""

_LIMIT_MET = "maximal number of operations"
_MOST_EXCLUSIVE_OR = 6
_MOST_DIGITS = 48
_MOST_PARTS = 128
"""isl's count of operations does not bound the time of one: its questions are kept small as well."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation in isl's syntax. text: `{ [i] -> [v] : ... }` for one value, over digits `[x0, x1, ...]` where
    `on_digits`; symbols: isl's name of each symbolic size."""

    text: str
    symbols: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def complete(self) -> str:
        """With its parameters declared."""
        return f"[{', '.join(self.symbols.values())}] -> {self.text}"


def relation_of(
    layout: AnyLayout, *, on_digits: bool = False, names: frozenset[str] = frozenset()
) -> Relation | NotExpressible:
    """The layout as a relation between its integer, or its digits, and its value. names: more symbols to declare.

    Domain: at most 48 digits, 6 exclusive ors and 128 pieces; numbers for strides and, but for the last digit, extents;
    with `on_digits` (of a `Layout`'s leaves, or a `Piecewise`'s coordinates) any extents that are linear in the sizes.
    One output; a linear layout's are packed.
    """
    try:
        _small(layout)
        match layout:
            case Layout():
                return _of_layout(layout, _Symbols(names | layout.names), on_digits)
            case LinearLayout():
                return _of_linear(layout, _Symbols(names), on_digits)
            case Piecewise():
                return _of_piecewise(layout, _Symbols(names), on_digits)
    except _NotLinear as error:
        return NotExpressible(str(error))


def equal(left: AnyLayout, right: AnyLayout, facts: Facts = NO_FACTS, effort: Effort = ONE_SECOND) -> Verdict:
    """Whether both are one function of an integer, for all sizes that the facts admit and every extent positive.

    Normal forms first, then isl within `effort.set_operations`. Raises TilewrightError where the numbers of outputs
    differ.
    """
    found = compare(left, right, facts)
    if not isinstance(found, NotDecided):
        return found
    if isinstance(left, Layout) and isinstance(right, Layout):
        one, other = in_normal_form(left), in_normal_form(right)
        if one.is_symbolic and _same_shape(one, other):
            # On digits, strides must be numbers and extents need not be.
            decided = _by_relation(one, other, facts, effort, on_digits=True)
            return found if isinstance(decided, NotDecided) and not decided.would_decide else decided
        return _by_relation(one, other, facts, effort, on_digits=False)
    return _by_relation(left, right, facts, effort, on_digits=False)


class _NotLinear(Exception):
    pass


def _small(layout: AnyLayout) -> None:
    """Raises _NotLinear for a relation with which isl may take long over one operation."""
    match layout:
        case Layout():
            digits, exclusive_or, parts = len(layout.flat), layout.swizzle.bits if layout.swizzle else 0, 1
        case LinearLayout():
            digits, parts = len(layout.columns), 1
            once = twice = 0
            for column in layout.columns:
                once, twice = once | column, twice | once & column
            exclusive_or = twice.bit_count()
        case Piecewise():
            digits, exclusive_or, parts = len(layout.extents), 0, len(layout.pieces)
    if digits > _MOST_DIGITS or exclusive_or > _MOST_EXCLUSIVE_OR or parts > _MOST_PARTS:
        raise _NotLinear(f"{digits} digits, {exclusive_or} exclusive ors and {parts} pieces are too many")


class _Symbols:
    """isl's names of sizes, and sizes as isl writes them."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = {name: f"n{at}" for at, name in enumerate(sorted(names))}

    def text(self, value: Integer) -> str:
        """Raises _NotLinear for a product of symbols."""
        if isinstance(value, int):
            return str(value)
        terms: list[str] = []
        for monomial, coefficient in value.terms:
            match monomial:
                case ():
                    terms.append(str(coefficient))
                case (Quotient(dividend, divisor),):
                    terms.append(f"{coefficient}*floor({self.text(dividend)}/{_positive(divisor)})")
                case (Remainder(dividend, divisor),):
                    terms.append(f"{coefficient}*({self.text(dividend)} mod {_positive(divisor)})")
                case (str() as name,):
                    terms.append(f"{coefficient}*{self.names[name]}")
                case _:
                    raise _NotLinear(f"{value} multiplies symbols")
        return f"({' + '.join(terms) or '0'})"


def _of_layout(layout: Layout, symbols: _Symbols, on_digits: bool) -> Relation:
    flat = layout.flat
    digits = [f"x{at}" for at in range(len(flat))]
    conditions = [f"0 <= {digit} < {symbols.text(extent)}" for digit, (extent, _) in zip(digits, flat, strict=True)]
    value = [symbols.text(layout.offset)]
    place, step = ["0"], 1
    for at, (digit, (extent, stride)) in enumerate(zip(digits, flat, strict=True)):
        if not isinstance(stride, int):
            raise _NotLinear(f"the stride {stride} is a symbol that multiplies a digit")
        value.append(f"{stride}*{digit}")
        place.append(f"{step}*{digit}")
        if isinstance(extent, int):
            step *= extent
        elif at + 1 < len(flat) and not on_digits:
            raise _NotLinear(f"the extent {extent} multiplies the places of the digits after it")
    conditions.append(f"a = {' + '.join(value)}")
    inner = ["a", *([] if on_digits else digits)]
    shown = "v"
    if layout.swizzle is not None and not layout.swizzle.is_identity:
        conditions.append(f"v = {_swizzled('a', layout.swizzle)}")
    else:
        conditions.append("v = a")
    return _relation(digits, place, inner, [shown], conditions, symbols, on_digits)


def _of_linear(layout: LinearLayout, symbols: _Symbols, on_digits: bool) -> Relation:
    digits = [f"x{at}" for at in range(len(layout.columns))]
    conditions = [f"0 <= {digit} < 2" for digit in digits]
    rows = max((column.bit_length() for column in layout.columns), default=0)
    bits: list[str] = []
    for row in range(rows):
        read = [digit for digit, column in zip(digits, layout.columns, strict=True) if column >> row & 1]
        if len(read) == 1:
            bits.append(f"{1 << row}*{read[0]}")
        elif read:
            bits.append(f"{1 << row}*(({' + '.join(read)}) mod 2)")
    conditions.append(f"v = {' + '.join(bits) or '0'}")
    place = [f"{1 << at}*{digit}" for at, digit in enumerate(digits)] or ["0"]
    return _relation(digits, place, [] if on_digits else digits, ["v"], conditions, symbols, on_digits)


def _of_piecewise(layout: Piecewise, symbols: _Symbols, on_digits: bool) -> Relation:
    if layout.outputs != 1 and not on_digits:
        raise _NotLinear(f"{layout.outputs} outputs")
    digits = [f"x{at}" for at in range(len(layout.extents))]
    outputs = [f"v{at}" for at in range(layout.outputs)]
    parts: list[str] = []
    for piece in layout.pieces:
        conditions = [f"{low} <= {digit} < {high}" for digit, (low, high) in zip(digits, piece.box, strict=True)]
        for output, row, offset in zip(outputs, piece.matrix, piece.offsets, strict=True):
            terms = [f"{factor}*{digit}" for factor, digit in zip(row, digits, strict=True) if factor]
            conditions.append(f"{output} = {' + '.join([*terms, str(offset)])}")
        parts.append(f"({' and '.join(conditions)})")
    place, step = ["0"], 1
    for digit, extent in zip(digits, layout.extents, strict=True):
        place.append(f"{step}*{digit}")
        step *= extent
    either = [f"({' or '.join(parts) or 'false'})"]
    return _relation(digits, place, [] if on_digits else digits, outputs, either, symbols, on_digits)


def _relation(
    digits: list[str],
    place: list[str],
    inner: list[str],
    outputs: list[str],
    conditions: list[str],
    symbols: _Symbols,
    on_digits: bool,
) -> Relation:
    inputs = digits if on_digits else ["i"]
    every = conditions if on_digits else [*conditions, f"i = {' + '.join(place)}"]
    bound = f"exists {', '.join(inner)} : " if inner else ""
    text = f"{{ [{', '.join(inputs)}] -> [{', '.join(outputs)}] : {bound}{' and '.join(every)} }}"
    return Relation(text, symbols.names)


def _swizzled(address: str, swizzle: Swizzle) -> str:
    terms = [address]
    for bit in range(swizzle.bits):
        to_bit = 1 << swizzle.target + bit
        here, there = f"floor({address}/{to_bit})", f"floor({address}/{1 << swizzle.source + bit})"
        terms.append(f"{to_bit}*((({here} + {there}) mod 2) - ({here} mod 2))")
    return " + ".join(terms)


def _by_relation(left: AnyLayout, right: AnyLayout, facts: Facts, effort: Effort, *, on_digits: bool) -> Verdict:
    names: frozenset[str] = frozenset()
    for each in (left, right):
        names |= each.names if isinstance(each, Layout) else frozenset()
    relations: list[Relation] = []
    for each in (left, right):
        relation = relation_of(each, on_digits=on_digits, names=names)
        if isinstance(relation, NotExpressible):
            return NotDecided(f"no small question of linear arithmetic: {relation.reason}", "the sizes")
        relations.append(relation)
    symbols = _Symbols(names)
    admitted = [part for name in sorted(names) for part in _fact_texts(symbols.names[name], facts.get(name, ANY))]
    for each in (left, right):
        if isinstance(each, Layout):
            admitted += [f"{symbols.text(extent)} >= 1" for extent, _ in each.flat]
    header = f"[{', '.join(symbols.names.values())}] -> "
    try:
        library = solver("islpy")
    except MissingExtra as missing:
        return NotDecided(missing.message, missing.remedy)
    try:
        context: Any = library.Context()
        context.set_max_operations(effort.set_operations)
        sizes: Any = library.Set.read_from_str(context, f"{header}{{ : {' and '.join(admitted) or 'true'} }}")
        one, other = [library.Map.read_from_str(context, each.complete).intersect_params(sizes) for each in relations]
        for layout, rest in ((left, one.subtract(other)), (right, other.subtract(one))):
            if not rest.is_empty():
                index, at = _sample(library, rest, sorted(names), layout, on_digits)
                return _confirmed(left, right, index, at)
        return Equal("relations of integers")
    except library.Error as error:
        return _limit(error, effort)


def _sample(
    library: Any, rest: Any, names: list[str], layout: AnyLayout, on_digits: bool
) -> tuple[int, dict[str, int]]:
    """The coordinate and the sizes of a point of the difference, which `layout` defines."""
    kind = library.dim_type
    count = rest.dim(kind.in_)
    point: Any = rest.wrap().sample_point()
    sizes = {name: int(point.get_coordinate_val(kind.param, at).to_python()) for at, name in enumerate(names)}
    place = [int(point.get_coordinate_val(kind.set, at).to_python()) for at in range(count)]
    if not on_digits:
        return place[0], sizes
    assert isinstance(layout, Layout)
    index, step = 0, 1
    for digit, (extent, _) in zip(place, with_sizes(layout, sizes).constant_flat(), strict=True):
        index, step = index + digit * step, step * extent
    return index, sizes


def _confirmed(left: AnyLayout, right: AnyLayout, index: int, sizes: dict[str, int]) -> Verdict:
    """The difference that isl found, by evaluation."""
    one, other = [with_sizes(each, sizes) if isinstance(each, Layout) else each for each in (left, right)]
    given = tuple(sorted(sizes.items()))
    if one.size != other.size:
        return Different(None, _int(one.size), _int(other.size), given)
    here, there = value_at(one, index), value_at(other, index)
    if here == there:
        return NotDecided(f"isl's difference at {index} is not confirmed by evaluation", "a report of this case")
    return Different(index, here, there, given)


def _same_shape(left: Layout, right: Layout) -> bool:
    return nested.flatten(left.shape) == nested.flatten(right.shape)


def _limit(error: Exception, effort: Effort) -> NotDecided:
    if _LIMIT_MET in str(error):
        return NotDecided(f"isl met its limit of {effort.set_operations} operations", "a larger `set_operations`")
    return NotDecided(f"isl gave no answer: {error}", "another form of the question, such as known sizes")


def _positive(divisor: IntegerExpression) -> int:
    if divisor.constant is None or divisor.constant < 1:
        raise _NotLinear(f"a division by {divisor}")
    return divisor.constant


def _fact_texts(symbol: str, fact: IntegerFact) -> list[str]:
    found: list[str] = []
    if fact.low is not None:
        found.append(f"{symbol} >= {fact.low}")
    if fact.high is not None:
        found.append(f"{symbol} <= {fact.high}")
    if fact.modulus > 1:
        found.append(f"({symbol} - {fact.remainder}) mod {fact.modulus} = 0")
    return found


def _int(value: Integer) -> int:
    assert isinstance(value, int)
    return value
