"""Is a tensor map legal for every size, for none, or under which condition on the sizes?

`prove` takes a `SymbolicMap` and answers legal (for all sizes as declared), illegal (for all of them, with the rules),
or maybe, with the guard: the condition on the sizes under which the map is legal.

Theory: the rules that judge concrete maps (`tilewright.legal.tensor_map.tiled_rules`) are read over expressions; each
gives a condition, normal and solved for its unknown where that is exact (`tilewright.layout.numbers.condition`). What
intervals and congruences decide is decided first. The conditions left are equivalent to legality, not merely
sufficient; those that follow from the others are dropped, and the guard is then assumed and every rule proved again.

Not handled: symbolic enumerations and ranks; im2col maps. Legality is the encoder's: what it lets pass is judged per
concrete map. Checked by tests/legal/symbolic/test_symbolic.py, against `tiled_rules` on every size of small ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.condition import Comparison, Condition, Either, Every, names_of, parts_of
from tilewright.layout.numbers.condition_facts import refine, simplify
from tilewright.layout.numbers.integer_fact import IntegerFact, Truth
from tilewright.legal.argument import target_of
from tilewright.legal.symbolic.guard import Guard
from tilewright.legal.symbolic.symbolic_map import SymbolicMap, fields_of
from tilewright.legal.tensor_map.common_rules import Driver, driver_version
from tilewright.legal.tensor_map.rule import Fields, Rule, always, implies
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.targets import Target

Answer = Literal["legal", "illegal", "maybe"]


@dataclass(frozen=True, slots=True)
class SymbolicFinding:
    """A rule that a symbolic map breaks, or may break.

    code, name, field, index, limit, source: as in `Violation`; value: what stands there, as an expression;
    needs: the condition on the sizes under which the rule is kept; message: one line with both.
    """

    code: str
    name: str
    field: str
    index: int | None
    value: str
    limit: int
    needs: Condition
    message: str
    source: str


@dataclass(frozen=True, slots=True)
class SymbolicLegality:
    """The answer of `prove`.

    answer: for all sizes as declared; violated: rules that no size keeps, or that no size keeps together (where the
    answer is illegal); undecided: rules that some sizes may break (where it is maybe); guard: the map is legal exactly
    under it. guard is None where the answer is illegal.
    """

    answer: Answer
    violated: tuple[SymbolicFinding, ...]
    undecided: tuple[SymbolicFinding, ...]
    guard: Guard | None


def prove(map: SymbolicMap, target: str | Target, driver: object = None) -> SymbolicLegality:
    """Whether `map` is legal on `target` for all sizes as declared, for none, or under which guard.

    driver: as for `legal.check`. Raises TilewrightError for an unknown target or driver, and where no sizes satisfy
    what is declared.
    """
    chip = target_of(target)
    return _proved(map, chip, driver_version(driver))


@lru_cache(maxsize=1024)
def _proved(map: SymbolicMap, target: Target, driver: Driver | None) -> SymbolicLegality:
    where = map.condition
    facts = refine(where, map.facts)
    if facts is None or (left := simplify(where, facts)) is False:
        raise TilewrightError("tensor map: no sizes satisfy what is declared of them", remedy="widen a bound")
    declared = tuple((size.name, size.fact) for size in map.sizes)
    quick, exact = fields_of(map, facts), fields_of(map)
    rules = tuple(rule for rule in _chosen(_discrete(exact), target, driver) if not _is_yes(_stated(rule, quick)))
    if not rules:
        return SymbolicLegality("legal", (), (), Guard(declared, where, ()))
    assumed = parts_of(left)
    asked = [(rule, _condition(_stated(rule, exact))) for rule in rules]
    rests = [simplify(needs, facts, frozenset(assumed)) for _, needs in asked]
    violated = tuple(_finding(r, n, exact, facts) for (r, n), rest in zip(asked, rests, strict=True) if rest is False)
    if violated:
        return SymbolicLegality("illegal", violated, (), None)
    undecided = tuple(
        _finding(rule, rest, exact, facts) for (rule, _), rest in zip(asked, rests, strict=True) if rest is not True
    )
    conditions = _minimal([part for rest in rests for part in parts_of(rest)], facts, assumed)
    if conditions is None:
        return SymbolicLegality("illegal", undecided, (), None)
    _prove_again(asked, conditions, facts, assumed)
    answer = "maybe" if conditions else "legal"
    return SymbolicLegality(answer, (), undecided, Guard(declared, where, conditions))


def _is_yes(truth: object) -> bool:
    return truth is True or truth is Truth.YES


def _condition(truth: object) -> Condition:
    if isinstance(truth, bool | Comparison | Every | Either):
        return truth
    raise TypeError(f"a rule over terms gave {truth!r}, which is no condition")


def _stated(rule: Rule, given: Fields) -> Any:
    """`rule.stated`, for a rule that is known to apply."""
    if rule.defined is always:
        return rule.holds(given)
    defined = rule.defined(given)
    return True if defined is False else implies(defined, rule.holds(given))


def _discrete(given: Fields) -> tuple[int, ...]:
    return (given.dtype, given.rank, given.interleave, given.swizzle, given.l2_promotion, given.oob_fill)


@lru_cache(maxsize=1024)
def _chosen(discrete: tuple[int, ...], target: Target, driver: Driver | None) -> tuple[Rule, ...]:
    """The rules that concern maps with these enumerations and this rank."""
    dtype, rank, interleave, swizzle, promotion, fill = discrete
    given = Fields(dtype, rank, 0, (), (), (), (), interleave, swizzle, promotion, fill)
    return tuple(rule for rule in tiled_rules(target, driver) if rule.applies(given))


def _finding(rule: Rule, needs: Condition, exact: Fields, facts: Mapping[str, IntegerFact]) -> SymbolicFinding:
    value = str(rule.value(exact))
    place = rule.field if rule.index is None else f"{rule.field}[{rule.index}]"
    if isinstance(needs, bool):
        message = f"{place} is {value}, and breaks the limit of {rule.limit} whatever the sizes are"
    else:
        known = [_known(name, facts[name]) for name in sorted(names_of(needs))]
        message = f"{place} is {value}; the limit of {rule.limit} needs {needs}; {', '.join(known)}"
    return SymbolicFinding(rule.code, rule.name, rule.field, rule.index, value, rule.limit, needs, message, rule.source)


def _known(name: str, fact: IntegerFact) -> str:
    """What is known of one size, in words."""
    if fact.modulus == 1 and fact.low is None and fact.high is None:
        return f"nothing is known of {name}"
    bounds, _, division = str(fact).partition(", ")
    words = [] if bounds == "x" else [bounds.replace("x", name) if "x" in bounds else f"{name} == {bounds}"]
    return "known is " + " and ".join([*words, *([f"{name} {division}"] if division else [])])


def _minimal(
    conditions: list[Condition], facts: Mapping[str, IntegerFact], assumed: tuple[Condition, ...]
) -> tuple[Condition, ...] | None:
    """The conditions without those that follow from the others, in order; None where no sizes satisfy them all."""
    kept = list(dict.fromkeys(conditions))
    for condition in tuple(kept):
        others = [other for other in kept if other != condition]
        refined = _refined(others, facts)
        if refined is None:
            return None
        if simplify(condition, refined, frozenset((*assumed, *others))) is True:
            kept = others
    return tuple(kept) if _refined(kept, facts) is not None else None


def _refined(conditions: Iterable[Condition], facts: Mapping[str, IntegerFact]) -> dict[str, IntegerFact] | None:
    known: dict[str, IntegerFact] | None = dict(facts)
    for condition in conditions:
        if known is not None:
            known = refine(condition, known)
    return known


def _prove_again(
    asked: Iterable[tuple[Rule, Condition]],
    guard: tuple[Condition, ...],
    facts: Mapping[str, IntegerFact],
    assumed: tuple[Condition, ...],
) -> None:
    """Every rule holds under the guard. A failure is a defect of this module, and must not become a wrong guard."""
    refined = _refined(guard, facts)
    assert refined is not None, "a guard that some size satisfies"
    for rule, needs in asked:
        rest = simplify(needs, refined, frozenset((*assumed, *guard)))
        if rest is not True:
            raise AssertionError(f"the guard {' and '.join(map(str, guard))} leaves {rule.code} open: {rest}")
