"""What does a solver read for an instruction that moves or counts bits? Terms of the operations of fixed width.

Each function takes terms of one width and gives the term of what the instruction leaves: three-input logic, bytes and
bits picked and inserted, funnel shifts, bits counted and reversed. Shifts by the width or more give zeros, or signs, in
the solver as in PTX. Source: PTX ISA, Integer Arithmetic (bfe, bfi, bfind, brev, clz, popc), Logic and Shift (lop3,
shf), Data Movement (prmt). Not handled: modes of prmt, selectors of prmt that are no constants.
Checked by: tests/driver/explore/terms/test_symbolic_terms.py.
"""

from __future__ import annotations

from functools import reduce

from tilewright.solve.bit_vectors import Applied, Number, Term

_BYTES = 4
_FIELD_BITS = 0xFF
"""Positions and lengths of fields are the low bytes of their operands."""


def logic_of_three(one: Term, two: Term, three: Term, table: int) -> Term:
    """Bit by bit, what `table` has at the number that the three bits make. `one` is the number's highest bit."""
    width = one.width
    inverted = (table & 0xFF).bit_count() > _BYTES
    minterms = [
        reduce(_and, (each if row >> place & 1 else _not(each) for each, place in ((one, 2), (two, 1), (three, 0))))
        for row in range(8)
        if bool(table >> row & 1) != inverted
    ]
    found: Term = reduce(_or, minterms) if minterms else Number(0, width)
    return _not(found) if inverted else found


def reversed_bits(term: Term) -> Term:
    bits = tuple(Applied("extract", (term,), 1, (place, place)) for place in range(term.width))
    return Applied("concat", bits, term.width)


def count_of_ones(term: Term) -> Term:
    """As a number of the term's width: sums of neighbours, of pairs of these, and so on."""
    width, span = term.width, 1
    found = term
    while span < width:
        mask = Number(sum(((1 << span) - 1) << place for place in range(0, width, 2 * span)), width)
        found = _apply("add", _and(found, mask), _and(_shifted("lshr", found, span), mask))
        span *= 2
    return found


def leading_zeros(term: Term) -> Term:
    """As a number of the term's width."""
    filled, span = term, 1
    while span < term.width:
        filled = _or(filled, _shifted("lshr", filled, span))
        span *= 2
    return count_of_ones(_not(filled))


def highest_bit(term: Term, *, signed: bool) -> Term:
    """The place of the highest bit that is 1, of a negative number the highest that is 0; all ones if there is none."""
    width = term.width
    if signed:
        below = Applied("slt", (term, Number(0, width)), 1)
        term = Applied("if", (below, _not(term), term), width)
    return _apply("sub", Number(width - 1, width), leading_zeros(term))


def field(term: Term, begin: Term, count: Term, *, signed: bool) -> Term:
    """`count` bits from `begin` on, filled by zeros or by the highest one of them."""
    width = term.width
    begin, count = _low_byte(begin), _low_byte(count)
    if not signed:
        return _and(_apply("lshr", term, begin), _ones(count))
    short = Applied("ult", (count, Number(width, width)), 1)
    rest = Applied("if", (short, _apply("sub", Number(width, width), count), Number(0, width)), width)
    moved = _apply("ashr", _apply("shl", _apply("ashr", term, begin), rest), rest)
    empty = Applied("eq", (count, Number(0, width)), 1)
    return Applied("if", (empty, Number(0, width), moved), width)


def inserted(part: Term, whole: Term, begin: Term, count: Term) -> Term:
    """`whole` with its `count` bits from `begin` on replaced by the lowest ones of `part`."""
    begin, count = _low_byte(begin), _low_byte(count)
    mask = _apply("shl", _ones(count), begin)
    return _or(_and(whole, _not(mask)), _and(_apply("shl", part, begin), mask))


def funnel(low: Term, high: Term, amount: Term, *, left: bool, wraps: bool) -> Term:
    """Two numbers beside each other, shifted: the upper one of them to the left, the lower one to the right. An amount
    of the width or more wraps, or is the width."""
    width = low.width
    most = Number(width, width)
    if wraps:
        amount = _and(amount, Number(width - 1, width))
    else:
        amount = Applied("if", (Applied("ult", (amount, most), 1), amount, most), width)
    rest = _apply("sub", most, amount)
    if left:
        return _or(_apply("shl", high, amount), _apply("lshr", low, rest))
    return _or(_apply("lshr", low, amount), _apply("shl", high, rest))


def picked_bytes(low: Term, high: Term, selector: int) -> Term:
    """Four of eight bytes, each named by three bits of four; the fourth bit takes its sign in all bits instead."""
    parts: list[Term] = []
    for place in reversed(range(_BYTES)):
        chosen = selector >> (4 * place)
        source, begin = (high, low)[not chosen & 4], 8 * (chosen & 3)
        byte: Term = Applied("extract", (source,), 8, (begin + 7, begin))
        if chosen & 8:
            byte = Applied("sign_extend", (Applied("extract", (source,), 1, (begin + 7, begin + 7)),), 8, (7,))
        parts.append(byte)
    return Applied("concat", tuple(parts), 8 * _BYTES)


def distance(one: Term, other: Term, *, signed: bool) -> Term:
    """The larger less the smaller."""
    less = Applied("slt" if signed else "ult", (one, other), 1)
    return Applied("if", (less, _apply("sub", other, one), _apply("sub", one, other)), one.width)


def _apply(operation: str, one: Term, other: Term) -> Term:
    return Applied(operation, (one, other), one.width)


def _and(one: Term, other: Term) -> Term:
    return _apply("and", one, other)


def _or(one: Term, other: Term) -> Term:
    return _apply("or", one, other)


def _not(term: Term) -> Term:
    return Applied("not", (term,), term.width)


def _shifted(operation: str, term: Term, amount: int) -> Term:
    return _apply(operation, term, Number(amount, term.width))


def _low_byte(term: Term) -> Term:
    return _and(term, Number(_FIELD_BITS, term.width))


def _ones(count: Term) -> Term:
    """As many ones in the lowest bits."""
    one = Number(1, count.width)
    return _apply("sub", _apply("shl", one, count), one)
