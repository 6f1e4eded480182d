"""What do known facts leave open of a condition, and what does a condition that holds add to the facts?

Theory: facts are intervals and congruences of each name (`tilewright.layout.numbers.integer_fact`). `simplify` removes
what they decide; what is left is equivalent to the whole wherever the facts hold: the weakest condition there is, not a
sufficient one. `refine` goes the other way: it solves conditions for their names, and covers every value that satisfies
them.

Not handled: inequalities of polynomials follow from each other only by a constant; bounds of products are not solved
for a factor. Checked by tests/layout/numbers/test_condition.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from tilewright.layout.numbers.condition import (
    Comparison,
    Condition,
    Either,
    Every,
    Relation,
    at_least_zero,
    congruence,
    either,
    every,
    is_zero,
    negation,
)
from tilewright.layout.numbers.integer_expression import (
    IntegerExpression,
    Quotient,
    Remainder,
    as_expression,
    of_atom,
    quotient,
    remainder,
    substitute,
)
from tilewright.layout.numbers.integer_fact import ANY, IntegerFact, Truth, as_fact, equal, join, meet, truth_of

Facts = Mapping[str, IntegerFact]


def simplify(condition: Condition, facts: Facts, assumed: frozenset[Condition] = frozenset()) -> Condition:
    """What the facts, and the conditions assumed, leave of the condition: equivalent to it wherever those hold."""
    match condition:
        case bool():
            return condition
        case Comparison():
            return _simplified(condition, facts, assumed)
        case Every(parts):
            return every(simplify(part, facts, assumed) for part in parts)
        case Either(parts):
            return either(simplify(part, facts, assumed) for part in parts)


def decide(condition: Condition, facts: Facts, assumed: frozenset[Condition] = frozenset()) -> Truth:
    """Whether the condition holds of all values, of none, or of some for all that is known."""
    left = simplify(condition, facts, assumed)
    return truth_of(left) if isinstance(left, bool) else Truth.MAYBE


def refine(condition: Condition, facts: Facts) -> dict[str, IntegerFact] | None:
    """The facts sharpened by a condition that holds; None where no values satisfy both."""
    match condition:
        case bool():
            return dict(facts) if condition else None
        case Comparison():
            return _refined(condition, facts)
        case Every(parts):
            refined: dict[str, IntegerFact] | None = dict(facts)
            for part in parts:
                if refined is not None:
                    refined = refine(part, refined)
            return refined
        case Either(parts):
            cases = [case for part in parts if (case := refine(part, facts)) is not None]
            if not cases:
                return None
            merged = cases[0]
            for case in cases[1:]:
                merged = {name: join(merged[name], case[name]) for name in merged if name in case}
            return merged


def _simplified(comparison: Comparison, facts: Facts, assumed: frozenset[Condition]) -> Condition:
    if any(_follows(comparison, given) for given in assumed):
        return True
    expression = _reduced(comparison.expression, facts)
    found = comparison if expression is comparison.expression else _made(expression, comparison.relation)
    if not isinstance(found, Comparison):
        return found
    fact = found.expression.fact(facts)
    match found.relation:
        case ">=":
            answer = fact >= 0
            if answer is Truth.MAYBE:
                answer = _sign(found.expression, facts)
        case "==":
            answer = equal(fact, 0)
        case "!=":
            answer = ~equal(fact, 0)
    match answer:
        case Truth.YES:
            return True
        case Truth.NO:
            return False
        case Truth.MAYBE:
            return True if any(_follows(found, given) for given in assumed) else found


def _sign(expression: IntegerExpression, facts: Facts) -> Truth:
    """Whether a polynomial is never negative, or always, by its coefficients once each name counts from its bound."""
    lows = {name: facts.get(name, ANY).low for name in expression.names}
    shifted = IntegerExpression()
    for monomial, coefficient in expression.terms:
        product = as_expression(coefficient)
        for atom in monomial:
            low = lows.get(atom) if isinstance(atom, str) else None
            if low is None:
                return Truth.MAYBE
            product = product * (of_atom(atom) + low)
        shifted = shifted + product
    if all(coefficient >= 0 for _, coefficient in shifted.terms):
        return Truth.YES
    below = shifted.constant_part < 0 and all(coefficient <= 0 for _, coefficient in shifted.terms)
    return Truth.NO if below else Truth.MAYBE


def _made(expression: IntegerExpression, relation: Relation) -> Condition:
    if relation == ">=":
        return at_least_zero(expression)
    return is_zero(expression) if relation == "==" else negation(is_zero(expression))


def _follows(comparison: Comparison, given: Condition) -> bool:
    """Whether `given` is this comparison, or a stronger one of the same unknowns."""
    if comparison == given:
        return True
    if not isinstance(given, Comparison) or given.relation != comparison.relation:
        return False
    match comparison.relation:
        case ">=":
            difference = (comparison.expression - given.expression).constant
            return difference is not None and difference >= 0
        case "==":
            asked, known = _class_of(comparison.expression), _class_of(given.expression)
            if asked is None or known is None or known[1] % asked[1]:
                return False
            return congruence(asked[0] - known[0], asked[1], asked[2] - known[2]) is True
        case "!=":
            return False


def _class_of(expression: IntegerExpression) -> tuple[IntegerExpression, int, int] | None:
    """(dividend, divisor, remainder) of a congruence in normal form."""
    match expression.unknown_part.terms:
        case (((Remainder(dividend, divisor),), 1),) if (by := divisor.constant) is not None:
            return dividend, by, -expression.constant_part
        case _:
            return None


def _reduced(expression: IntegerExpression, facts: Facts) -> IntegerExpression:
    """Constants in place of names that have one value, and dividends of remainders without what the divisor divides."""
    constants = {name: known for name in expression.names if (known := facts.get(name, ANY).constant) is not None}
    expression = substitute(expression, constants)
    if all(isinstance(atom, str) for monomial, _ in expression.terms for atom in monomial):
        return expression
    total = IntegerExpression()
    for monomial, coefficient in expression.terms:
        product = as_expression(coefficient)
        for atom in monomial:
            match atom:
                case Remainder(dividend, divisor) if (by := divisor.constant) is not None and by > 0:
                    product = product * remainder(_modulo(_reduced(dividend, facts), by, facts), divisor)
                case Remainder(dividend, divisor):
                    product = product * remainder(_reduced(dividend, facts), _reduced(divisor, facts))
                case Quotient(dividend, divisor):
                    product = product * quotient(_reduced(dividend, facts), _reduced(divisor, facts))
                case str():
                    product = product * of_atom(atom)
        total = total + product
    return total


def _modulo(expression: IntegerExpression, by: int, facts: Facts) -> IntegerExpression:
    """An expression with the same remainder: factors replaced by their own remainders where these suffice."""
    total = IntegerExpression()
    for monomial, coefficient in expression.terms:
        kept, factors = coefficient, list(monomial)
        for atom in monomial:
            others = as_fact(kept)
            for other in factors:
                if other != atom:
                    others = others * IntegerExpression((((other,), 1),)).fact(facts)
            fact = of_atom(atom).fact(facts)
            # others (m t + r) = others r (mod by) where by divides others m; `others` are multiples of their gcd
            if factors.count(atom) == 1 and gcd(others.modulus, others.remainder) * fact.modulus % by == 0:
                factors.remove(atom)
                kept *= fact.remainder
        total = total + IntegerExpression(((tuple(factors), kept),) if kept else ())
    return total


def _refined(comparison: Comparison, facts: Facts) -> dict[str, IntegerFact] | None:
    refined = dict(facts)
    expression, relation = comparison.expression, comparison.relation
    if relation == "!=":
        return refined if decide(comparison, facts) is not Truth.NO else None
    for monomial, coefficient in expression.terms:
        match monomial:
            case (str() as name,):
                # a x + rest >= 0, and for equality also -a x - rest >= 0
                rest = (expression - IntegerExpression(((monomial, coefficient),))).fact(refined)
                solved = _bounds(coefficient, rest, equality=relation == "==")
            case (Remainder(dividend, divisor),) if relation == "==":
                match dividend.terms, divisor.constant, expression.unknown_part.terms:
                    case (((str() as name,), 1),), int() as by, ((_, 1),):
                        solved = IntegerFact(None, None, by, -expression.constant_part)
                    case _:
                        continue
            case _:
                continue
        narrowed = None if solved is None else meet(refined.get(name, ANY), solved)
        if narrowed is None:
            return None
        refined[name] = narrowed
    # Of one name alone, what was solved says all.
    if len(expression.names) == 1:
        return refined
    return refined if decide(comparison, refined) is not Truth.NO else None


def _bounds(coefficient: int, rest: IntegerFact, *, equality: bool) -> IntegerFact | None:
    """What `coefficient x + rest >= 0` (or `== 0`) says of x; None where no x satisfies it."""
    low: int | None = None
    high: int | None = None
    # a x >= -rest.high is the weakest demand, and a x <= -rest.low where they are equal
    if rest.high is not None:
        if coefficient > 0:
            low = -(rest.high // coefficient)
        else:
            high = rest.high // -coefficient
    if equality and rest.low is not None:
        if coefficient > 0:
            high = -rest.low // coefficient
        else:
            low = -(-rest.low // -coefficient)
    return IntegerFact(low, high) if low is None or high is None or low <= high else None
