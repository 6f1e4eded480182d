"""Which product adds to what nobody has written, and how is it made the first?

A product adds to the accumulator where its predicate holds. Three edits make one overwrite it instead. A comparison
that also holds at its bound leaves the bound out. In a loop, a predicate of its own holds from the second product on.
Without a loop, the product overwrites.

Only the product that comes first in the text for an accumulator is one, and only in a single loop: in several, the text
does not say which of them sums. None of the edits lets a later product of a sum overwrite.
Checked by: tests/driver/repair/test_first_products.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.driver.repair.text import (
    Candidate,
    Place,
    Subject,
    after,
    before,
    before_line,
    replaced,
    written,
)
from tilewright.driver.repair.traces import predicates_of
from tilewright.frontends.ptx.ast import Immediate, Negated, Register, Symbol

_UNWRITTEN = "TC122"
_WITHOUT_BOUND = {"ge": "gt", "hs": "hi", "le": "lt", "ls": "lo", "eq": "ne"}
"""What a comparison becomes that is not to hold at its bound."""
_ADDS = "tilewright_adds"
_ADDS_NOW = "tilewright_adds_now"


def first_products(subject: Subject) -> Iterator[Candidate]:
    """Ways to let the first product of a sum overwrite."""
    place = subject.primary
    if subject.finding.code != _UNWRITTEN or place is None or not place.item.row.startswith("tcgen05.mma"):
        return
    flag = _adds(subject, place)
    target = place.item.operands[0]
    earlier = [each for each in subject.places[: place.index] if each.item.row.startswith("tcgen05.mma")]
    if flag is None or any(each.item.operands[0] == target for each in earlier):
        return
    yield from _compared_without_bound(subject, flag)
    match subject.enclosing(place):
        case []:
            yield _overwrites(place, flag)
        case [_]:
            yield from _adds_from_the_second_on(subject, place, flag)
        case _:
            return


def _adds(subject: Subject, place: Place) -> Register | Negated | None:
    """The predicate by which a product adds."""
    predicates = {name for each in subject.places for name in predicates_of(each.item)}
    for operand in reversed(place.item.operands):
        if isinstance(operand, Register | Negated) and _name(operand) in predicates:
            return operand
    return None


def _name(flag: Register | Negated) -> str:
    return flag.name if isinstance(flag, Register) else flag.operand.name


def _compared_without_bound(subject: Subject, flag: Register | Negated) -> Iterator[Candidate]:
    """The comparison behind the predicate, where it counts from a bound: `i >= 0` holds for the first as well."""
    products = [
        each for each in subject.fits("tcgen05.mma") if (other := _adds(subject, each)) and _name(other) == _name(flag)
    ]
    if isinstance(flag, Negated) or len(products) > 1:
        return  # the bound may be that of a step of which each product is one part
    for maker in subject.places:
        if maker.item.row != "setp" or written(maker.item) != {flag.name} or len(maker.item.operands) != 3:
            continue
        first, second = maker.item.operands[1:]
        relation = re.match(r"(@!?\S+\s+)?setp\.(\w+)", maker.text)
        if relation is None or not isinstance(first, Register) or not isinstance(second, Immediate):
            continue
        strict = _WITHOUT_BOUND.get(relation.group(2))
        if strict is not None:
            text = f"{maker.text[: relation.start(2)]}{strict}{maker.text[relation.end(2) :]}"
            yield Candidate(f"the first product overwrites: {strict} (line {maker.line})", (replaced(maker, text),))


def _adds_from_the_second_on(subject: Subject, place: Place, flag: Register | Negated) -> Iterator[Candidate]:
    """A predicate that is false before the loop, and true once a product was issued."""
    (loop,) = subject.enclosing(place)
    comes = [each for each in subject.fits("bra") if Symbol(loop.head) in each.item.operands]
    if any(each.index < loop.first for each in comes):
        return  # what is put before the head would be jumped over
    adds = (f"and.pred {_ADDS_NOW}, {_ADDS}, {_name(flag)};",)
    if isinstance(flag, Negated):
        adds = (f"not.pred {_ADDS_NOW}, {_name(flag)};", f"and.pred {_ADDS_NOW}, {_ADDS}, {_ADDS_NOW};")
    declared = f".reg .pred {_ADDS}, {_ADDS_NOW};"
    yield Candidate(
        f"products add from the second on (line {place.line})",
        (
            before_line(subject, loop.head_line, declared, f"mov.pred {_ADDS}, 0;"),
            before(subject, place, *adds),
            replaced(place, _with_flag(place, _name(flag), _ADDS_NOW)),
            after(subject, place, f"{place.guard}mov.pred {_ADDS}, 1;"),
        ),
    )


def _overwrites(place: Place, flag: Register | Negated) -> Candidate:
    body = f"{{ .reg .pred {_ADDS}; mov.pred {_ADDS}, 0; {_with_flag(place, _name(flag), _ADDS)} }}"
    return Candidate(f"the first product overwrites (line {place.line})", (replaced(place, body),))


def _with_flag(place: Place, name: str, other: str) -> str:
    """The product with another predicate: the last that its operands name, not the one of its guard."""
    found = [*re.finditer(rf"!?{re.escape(name)}(?![\w$])", place.text)][-1]
    return f"{place.text[: found.start()]}{other}{place.text[found.end() :]}"
