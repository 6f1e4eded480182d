"""Which integers for these fields satisfy these named constraints at least cost?

    choose({"box": range(1, 257), "swizzle": (0, 1, 2, 3)},
           [Constraint("inner-multiple", ("box",), lambda box: box * 2 % 16 == 0), ...],
           [Cost("bytes", ("box",), lambda box: -2 * box)])

Constraints and costs are plain functions of integers, built as `solve.constraints.expression` says. Two engines answer:
"search" (`solve.constraints.field_search`: domains narrowed by linear facts and intervals, branch and bound) and "z3"
(`solve.constraints.z3_engine`); "auto" searches and asks z3 only where the search met its limit. Whoever answers, the
witness is evaluated again with the plain functions, and a witness that fails is no answer.

Costs are compared in order, the first decides. Not handled: unbounded fields. Checked by
tests/solve/constraints/test_fields.py: both engines against enumeration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from types import MappingProxyType
from typing import Any, Literal

from tilewright.base.error import TilewrightError
from tilewright.base.extra import MissingExtra
from tilewright.solve.bounded import DEFAULT_EFFORT, Effort, Undetermined
from tilewright.solve.constraints.narrowing import Domain
from tilewright.solve.constraints.tracing import evaluate, trace

Engine = Literal["auto", "search", "z3"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A named condition: `holds` of the values of `fields`, in that order."""

    name: str
    fields: tuple[str, ...]
    holds: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Cost:
    """What to make small: `value` of the values of `fields`. floor: a bound that it cannot go below, where the caller
    knows one; the search stops when it is reached."""

    name: str
    fields: tuple[str, ...]
    value: Callable[..., Any]
    floor: int | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """Values that satisfy every constraint, evaluated in plain Python, with their costs in order.

    least: whether no other values cost less; False where the limit came first. steps: of the search, or of z3.
    """

    values: Mapping[str, int]
    costs: tuple[int, ...]
    least: bool
    engine: str
    steps: int


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No values satisfy all constraints."""

    engine: str
    steps: int


Choice = Chosen | Infeasible | Undetermined


@dataclass(frozen=True, slots=True)
class Problem:
    """A question as the engines read it: fields by number, domains ascending, and none empty."""

    names: tuple[str, ...]
    domains: tuple[Domain, ...]
    constraints: tuple[Constraint, ...]
    costs: tuple[Cost, ...]

    def positions(self, part: Constraint | Cost) -> tuple[int, ...]:
        """Where the fields that `part` reads stand."""
        return tuple(self.names.index(name) for name in part.fields)


def choose(
    fields: Mapping[str, Sequence[int]],
    constraints: Sequence[Constraint],
    costs: Sequence[Cost] = (),
    *,
    engine: Engine = "auto",
    effort: Effort = DEFAULT_EFFORT,
) -> Choice:
    """Values for `fields`, each from its domain (a `range`, also a huge one, or any sequence), at least cost.

    Raises TilewrightError where a constraint or cost names a field that is not there, two constraints share a name, a
    domain holds something else than integers, or a predicate is not built as `solve.constraints.expression` says.
    """
    problem = state(fields, constraints, costs)
    if any(not domain for domain in problem.domains):
        return Infeasible("domains", 0)
    if engine == "z3":
        from tilewright.solve.constraints.z3_engine import solve

        return solve(problem, effort)
    from tilewright.solve.constraints.field_search import search

    found = search(problem, effort)
    if engine == "search" or isinstance(found, Infeasible) or (isinstance(found, Chosen) and found.least):
        return found
    from tilewright.solve.constraints.z3_engine import solve

    start = found if isinstance(found, Chosen) else None
    try:
        second = solve(problem, effort, start)
    except MissingExtra as missing:
        if isinstance(found, Chosen):
            return found  # not known to be the cheapest: `least` is False
        return Undetermined(f"{found.reason}; {missing.message}", missing.remedy)
    return second if isinstance(second, (Chosen, Infeasible)) else found


def holds_at(constraint: Constraint, values: Sequence[int]) -> bool:
    """Whether the constraint holds of its own fields' values: the plain function; where that divides by zero, what
    `solve.constraints.tracing.evaluate` says."""
    try:
        return bool(constraint.holds(*values))
    except ZeroDivisionError:
        return evaluate(trace(constraint.holds, len(constraint.fields)), values)


def cost_at(cost: Cost, values: Sequence[int]) -> int | None:
    """The cost at its own fields' values; None where it divides by zero."""
    try:
        return int(cost.value(*values))
    except ZeroDivisionError:
        return None


def witness(problem: Problem, values: Sequence[int]) -> tuple[int, ...] | None:
    """The costs of `values`, or None where they break a domain, a constraint, or leave a cost undefined.

    Everything is evaluated with the plain functions; no engine's reading is used.
    """
    if any(value not in domain for value, domain in zip(values, problem.domains, strict=True)):
        return None
    for constraint in problem.constraints:
        if not holds_at(constraint, [values[i] for i in problem.positions(constraint)]):
            return None
    found = [cost_at(cost, [values[i] for i in problem.positions(cost)]) for cost in problem.costs]
    costs = tuple(cost for cost in found if cost is not None)
    return costs if len(costs) == len(found) else None


def chosen(
    problem: Problem, values: Sequence[int], costs: tuple[int, ...], least: bool, engine: str, steps: int
) -> Chosen:
    return Chosen(MappingProxyType(dict(zip(problem.names, values, strict=True))), costs, least, engine, steps)


def state(fields: Mapping[str, Sequence[int]], constraints: Sequence[Constraint], costs: Sequence[Cost]) -> Problem:
    for part in (*constraints, *costs):
        for name in part.fields:
            if name not in fields:
                raise TilewrightError(f"{part.name!r} reads the field {name!r}, which is not among {sorted(fields)}")
    seen: set[str] = set()
    for constraint in constraints:
        if constraint.name in seen:
            raise TilewrightError(f"two constraints are called {constraint.name!r}")
        seen.add(constraint.name)
    domains = tuple(_domain(name, values) for name, values in fields.items())
    return Problem(tuple(fields), domains, tuple(constraints), tuple(costs))


def _domain(name: str, values: Sequence[int]) -> Domain:
    if isinstance(values, range):
        return values if values.step > 0 else values[::-1]
    try:
        return tuple(sorted({index(value) for value in values}))
    except TypeError as error:
        raise TilewrightError(f"the domain of {name!r} holds something else than integers") from error
