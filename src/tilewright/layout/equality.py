"""Are two layouts, of any family and perhaps of symbolic sizes, one function of an integer: for all sizes?

Theory: normal forms. Sizes are rewritten by what is known of them (N with N = 3 modulo 8 is 8 M + 3, remainders become
quotients, what has but one value is that), which makes equal many expressions that only the facts make equal; then
leaves are joined as far as they go (`layout.coalescing`). Equal forms are equal functions. Different forms of known
sizes are decided: by the forms, as matrices over F2, or as pieces on a common refinement of their coordinates. Of
symbolic sizes a few values that the facts admit are tried, which finds a difference or leaves the question undecided
(`solve.layout_relation` asks further). Every extent is taken to be positive.

What is answered is exact; what would need more than `piecewise.MOST_PIECES` pieces and 2**16 elements is not decided.
Checked by tests/layout/test_equality.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import TypeAlias

from tilewright.base.error import TilewrightError
from tilewright.layout import coalescing, convert, nested
from tilewright.layout.answer import NotDecided, NotExpressible
from tilewright.layout.coalescing import Difference, with_sizes
from tilewright.layout.layout import Layout
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.nested import Integer
from tilewright.layout.numbers import bit_matrix
from tilewright.layout.numbers.integer_expression import (
    IntegerExpression,
    Quotient,
    Remainder,
    as_expression,
    of_atom,
    quotient,
    variable,
)
from tilewright.layout.numbers.integer_fact import ANY, IntegerFact
from tilewright.layout.pieces.algebra import difference
from tilewright.layout.pieces.piecewise import Piecewise

AnyLayout: TypeAlias = Layout | LinearLayout | Piecewise
Facts = Mapping[str, IntegerFact]

NO_FACTS: Facts = {}

_MOST_ENUMERATED = 1 << 16
_MOST_TRIALS = 12
_POSITIVE = IntegerFact(1, None)


@dataclass(frozen=True, slots=True)
class Equal:
    """The same function, for all sizes that the facts admit. by: which argument settled it, in a few words."""

    by: str

    def __str__(self) -> str:
        return f"equal, by {self.by}"


@dataclass(frozen=True, slots=True)
class Different:
    """coordinate: the integer at which the two differ, None where their sizes do; left, right: the values there (or
    the sizes), None where a map is not defined; sizes: (name, value) for which this is so, of symbolic layouts."""

    coordinate: int | None
    left: int | tuple[int, ...] | None
    right: int | tuple[int, ...] | None
    sizes: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        given = "".join(f"{name} = {value}, " for name, value in self.sizes)
        where = "the sizes are" if self.coordinate is None else f"at {self.coordinate} the values are"
        shown = [("not defined" if each is None else str(each)) for each in (self.left, self.right)]
        return f"different: {'with ' + given if given else ''}{where} {shown[0]} and {shown[1]}"


Verdict: TypeAlias = Equal | Different | NotDecided


def compare(left: AnyLayout, right: AnyLayout, facts: Facts = NO_FACTS) -> Verdict:
    """Whether both are one function of an integer below their size.

    facts: of symbolic sizes, by name. A linear layout is read with its inputs packed and, beside one-output layouts,
    its outputs packed. Raises TilewrightError where the numbers of outputs differ.
    """
    match left, right:
        case Layout(), Layout():
            return _layouts(left, right, facts)
        case LinearLayout(), LinearLayout():
            return _linear(left, right)
        case Layout(), LinearLayout():
            found = convert.linear_of_layout(left)
            if isinstance(found, LinearLayout):
                return _linear(found, right)
        case LinearLayout(), Layout():
            found = convert.linear_of_layout(right)
            if isinstance(found, LinearLayout):
                return _linear(left, found)
        case LinearLayout(), Piecewise():
            found = convert.linear_of_piecewise(right)
            if isinstance(found, LinearLayout):
                return _linear(left, found)
        case Piecewise(), LinearLayout():
            found = convert.linear_of_piecewise(left)
            if isinstance(found, LinearLayout):
                return _linear(found, right)
        case _:
            pass
    sizes = [each.size for each in (left, right)]
    if any(not isinstance(size, int) for size in sizes):
        return NotDecided("a symbolic layout beside one of known size", "the sizes")
    return _by_pieces(left, right)


def in_normal_form(layout: Layout, facts: Facts = NO_FACTS) -> Layout:
    """The layout with sizes as the facts let them be written, and its leaves joined; `N'8` counts steps of 8 of N."""
    if not layout.is_symbolic:
        return coalescing.canonical(layout)
    known = {name: facts.get(name, ANY) for name in layout.names}
    written = _Writing(known)
    done = Layout(
        nested.mapped(written.size, layout.shape),
        nested.mapped(written.size, layout.stride),
        written.size(layout.offset),
        layout.swizzle,
    )
    return coalescing.canonical(done)


def admitted(names: frozenset[str], facts: Facts) -> Iterator[dict[str, int]]:
    """A few sizes that the facts admit, small ones and odd ones."""
    choices: list[list[tuple[str, int]]] = []
    for name in sorted(names):
        fact = facts.get(name, _POSITIVE)
        members = list(islice(_members(fact), 12))
        chosen = sorted({members[at] for at in (0, 1, 2, 4, 11) if at < len(members)})
        choices.append([(name, value) for value in chosen])
    # Diagonals first: all small, then mixed.
    seen: set[tuple[tuple[str, int], ...]] = set()
    for turn in range(5):
        each = tuple(values[(turn * (at + 1) + at) % len(values)] for at, values in enumerate(choices) if values)
        if len(each) == len(choices) and each not in seen:
            seen.add(each)
            yield dict(each)
    for combination in islice(product(*choices), 64):
        if combination not in seen:
            seen.add(combination)
            yield dict(combination)


def _layouts(left: Layout, right: Layout, facts: Facts) -> Verdict:
    one, other = in_normal_form(left, facts), in_normal_form(right, facts)
    if one == other:
        return Equal("normal forms")
    if not left.is_symbolic and not right.is_symbolic:
        match coalescing.difference(one, other):
            case None:
                return Equal("normal forms over F2")
            case Difference(coordinate, here, there):
                return Different(coordinate, here, there)
            case NotDecided():
                return _by_pieces(one, other)
    for sizes in islice(admitted(left.names | right.names, facts), _MOST_TRIALS):
        try:
            tried = with_sizes(left, sizes), with_sizes(right, sizes)
        except (TilewrightError, ZeroDivisionError):
            continue  # an extent is not positive there, or no number
        found = coalescing.difference(*tried)
        if isinstance(found, Difference):
            return Different(found.coordinate, found.left, found.right, tuple(sorted(sizes.items())))
    return NotDecided(
        "the normal forms differ for symbolic sizes, and no sizes were found that tell them apart",
        "sizes, or facts that relate them",
    )


def _linear(left: LinearLayout, right: LinearLayout) -> Verdict:
    if left.size != right.size:
        return Different(None, left.size, right.size)
    for bit, (one, other) in enumerate(zip(left.columns, right.columns, strict=True)):
        if one != other:
            return Different(1 << bit, one, other)
    return Equal("matrices over F2")


def _by_pieces(left: AnyLayout, right: AnyLayout) -> Verdict:
    one, other = _pieces(left), _pieces(right)
    if isinstance(one, Piecewise) and isinstance(other, Piecewise):
        if one.outputs != other.outputs:
            raise TilewrightError(f"layouts with {one.outputs} and {other.outputs} outputs are not comparable")
        if one.size != other.size:
            return Different(None, one.size, other.size)
        common = _common(one.extents, other.extents)
        if common is None:
            common = one.extents
        first, second = convert.refined(one, common), convert.refined(other, common)
        if isinstance(first, Piecewise) and isinstance(second, Piecewise):
            found = difference(first, second)
            if found is None:
                return Equal("pieces")
            index = _number(found.place, common)
            return Different(index, _shown(found.left), _shown(found.right))
    return _by_values(left, right)


def _by_values(left: AnyLayout, right: AnyLayout) -> Verdict:
    size, other = left.size, right.size
    if size != other:
        return Different(None, _int(size), _int(other))
    if _int(size) > _MOST_ENUMERATED:
        for index in (*(1 << bit for bit in range(_int(size).bit_length() - 1)), _int(size) - 1):
            one, two = value_at(left, index), value_at(right, index)
            if one != two:
                return Different(index, one, two)
        return NotDecided(f"{size} elements with no common form of few pieces", "fewer elements")
    for index in range(_int(size)):
        one, two = value_at(left, index), value_at(right, index)
        if one != two:
            return Different(index, one, two)
    return Equal("all values")


def _pieces(layout: AnyLayout) -> Piecewise | NotExpressible | NotDecided:
    match layout:
        case Layout():
            return convert.piecewise_of_layout(layout)
        case LinearLayout():
            return convert.piecewise_of_linear(layout)
        case Piecewise():
            return layout


def value_at(layout: AnyLayout, index: int) -> int | tuple[int, ...] | None:
    """The value at an integer below the size, of a layout of known sizes; None where a map is not defined."""
    match layout:
        case Layout():
            return layout.at(index)
        case LinearLayout():
            return bit_matrix.apply(layout.columns, index)
        case Piecewise():
            image = layout(*layout.place(index))
            return _shown(image)


def _shown(image: tuple[int, ...] | None) -> int | tuple[int, ...] | None:
    return image[0] if image is not None and len(image) == 1 else image


def _number(place: tuple[int, ...], extents: tuple[int, ...]) -> int:
    index, step = 0, 1
    for each, extent in zip(place, extents, strict=True):
        index += each * step
        step *= extent
    return index


def _common(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    """Digits of which the coordinates of both are made; None where the sides interlock."""
    ends: set[int] = set()
    for extents in (left, right):
        step = 1
        for extent in extents:
            step *= extent
            ends.add(step)
    found: list[int] = []
    last = 1
    for end in sorted(ends - {1}):
        if end % last:
            return None
        found.append(end // last)
        last = end
    return tuple(found)


def _members(fact: IntegerFact) -> Iterator[int]:
    """The positive numbers of a fact, from the least."""
    if fact.modulus == 0:
        if fact.remainder > 0:
            yield fact.remainder
        return
    start = max(1, fact.low) if fact.low is not None else 1
    start += (fact.remainder - start) % fact.modulus
    while fact.high is None or start <= fact.high:
        yield start
        start += fact.modulus


class _Writing:
    """Rewrites sizes by facts of their names."""

    def __init__(self, facts: Facts) -> None:
        self.facts: dict[str, IntegerFact] = dict(facts)
        self.names: dict[str, IntegerExpression] = {}
        for name, fact in facts.items():
            if fact.modulus == 0:
                self.names[name] = as_expression(fact.remainder)
            elif fact.modulus > 1:
                # The name now counts steps of its residue class; "'" is in no name that a user can give.
                steps = f"{name}'{fact.modulus}"
                self.names[name] = variable(steps) * fact.modulus + fact.remainder
                low = None if fact.low is None else (fact.low - fact.remainder) // fact.modulus
                high = None if fact.high is None else (fact.high - fact.remainder) // fact.modulus
                self.facts[steps] = IntegerFact(low, high)

    def size(self, value: Integer) -> Integer:
        return value if isinstance(value, int) else nested.settled(self.written(value))

    def written(self, expression: IntegerExpression) -> IntegerExpression:
        total = IntegerExpression()
        for monomial, coefficient in expression.terms:
            part = as_expression(coefficient)
            for atom in monomial:
                match atom:
                    case str():
                        part = part * self.names.get(atom, variable(atom))
                    case Quotient(dividend, divisor):
                        part = part * self.quotient(self.written(dividend), self.written(divisor))
                    case Remainder(dividend, divisor):
                        whole, by = self.written(dividend), self.written(divisor)
                        part = part * (whole - by * self.quotient(whole, by))
            total = total + part
        known = total.fact(self.facts).constant
        return total if known is None else as_expression(known)

    def quotient(self, dividend: IntegerExpression, divisor: IntegerExpression) -> IntegerExpression:
        by = divisor.constant
        if by is not None and by > 0:
            # (y // a + c) // b is (y + a c) // (a b)
            inner = dividend.unknown_part.terms
            if len(inner) == 1 and inner[0][1] == 1 and len(inner[0][0]) == 1:
                atom = inner[0][0][0]
                if isinstance(atom, Quotient):
                    step = atom.divisor.constant
                    if step is not None and step > 0:
                        return self.quotient(atom.dividend + dividend.constant_part * step, as_expression(step * by))
        found = quotient(dividend, divisor)
        known = found.fact(self.facts).constant
        if known is not None:
            return as_expression(known)
        return (
            found
            if found != of_atom(Quotient(dividend, divisor)) or by is not None
            else self.exact(found, dividend, divisor)
        )

    def exact(
        self, otherwise: IntegerExpression, dividend: IntegerExpression, divisor: IntegerExpression
    ) -> IntegerExpression:
        """The quotient where every term of the dividend has the divisor, a single positive name or product of names,
        as a factor."""
        if len(divisor.terms) != 1:
            return otherwise
        monomial, coefficient = divisor.terms[0]
        low = divisor.fact(self.facts).low
        if low is None or low < 1:
            return otherwise
        total = IntegerExpression()
        for factors, number in dividend.terms:
            rest = list(factors)
            for atom in monomial:
                if atom not in rest:
                    return otherwise
                rest.remove(atom)
            if number % coefficient:
                return otherwise
            part = as_expression(number // coefficient)
            for atom in rest:
                part = part * of_atom(atom)
            total = total + part
        return total


def _int(value: Integer) -> int:
    assert isinstance(value, int)
    return value
