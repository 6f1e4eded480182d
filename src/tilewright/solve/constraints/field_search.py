"""The search behind `solve.constraints.fields`: narrow domains, branch, bound the cost.

At each node every undecided constraint is read at the cheapest level that its unknown fields allow: none unknown, it is
evaluated; one unknown, its values are computed where the constraint is linear in it, else filtered; more, intervals say
no, maybe or yes, and a yes drops the constraint below that node. Then the smallest domain is branched on, from the end
that is cheaper by intervals, and what cannot beat the best witness is cut off. So the answer is exact, and a limit on
steps makes it deterministic; a witness counts only after `solve.constraints.fields.witness` evaluated it anew.

Not handled: relations between several unknown fields beyond intervals; z3 is for those. Checked by
tests/solve/constraints/test_fields.py against enumeration and against z3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilewright.base.error import TilewrightError
from tilewright.solve.bounded import Effort, Undetermined
from tilewright.solve.constraints.cost_floor import cost_floors
from tilewright.solve.constraints.expression import Comparison, Constant, Term, Truth, divisors
from tilewright.solve.constraints.fields import Choice, Constraint, Cost, Infeasible, Problem, chosen, holds_at, witness
from tilewright.solve.constraints.interval import NO, YES, Bounds, Certainty, bounds, certainty
from tilewright.solve.constraints.narrowing import Domain, narrow, size
from tilewright.solve.constraints.tracing import trace, trace_term

_FILTERED = 1024
"""Values up to which a domain is filtered value by value."""

_BISECTED = 64
"""Values above which a domain is halved, once its cheaper end was tried, instead of tried value by value."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A constraint with its tree and its interval reading, both by the position of its own fields."""

    constraint: Constraint
    tree: Truth
    certainty: Certainty


@lru_cache(maxsize=4096)
def _reading(constraint: Constraint) -> _Reading:
    tree = trace(constraint.holds, len(constraint.fields))
    return _Reading(constraint, tree, certainty(tree))


@lru_cache(maxsize=1024)
def _cost_reading(cost: Cost) -> tuple[Term, Bounds | None]:
    tree = trace_term(cost.value, len(cost.fields))
    # A quotient by what may be zero has no bound that holds at every value.
    return tree, None if divisors(tree) else bounds(tree)


@dataclass(frozen=True, slots=True)
class _Part:
    """A constraint and the positions of its fields in the problem."""

    reading: _Reading
    fields: tuple[int, ...]


class _LimitMet(Exception):
    pass


class _Search:
    """The state of one search: the limit left and the best witness."""

    def __init__(self, problem: Problem, effort: Effort) -> None:
        self.problem = problem
        self.limit = effort.search_steps
        self.steps = 0
        self.best: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        self.costs = tuple((cost, *_cost_reading(cost), problem.positions(cost)) for cost in problem.costs)
        self.floors = tuple(cost.floor for cost in problem.costs)

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self.limit:
            raise _LimitMet

    def least_costs(self, domains: Sequence[Domain]) -> tuple[int, ...]:
        """Lower bounds of the costs, up to the first that has none."""
        found: list[int] = []
        for floor, low in zip(self.floors, self.interval_costs(domains), strict=True):
            least = low if floor is None else floor if low is None else max(low, floor)
            if least is None:
                break
            found.append(least)
        return tuple(found)

    def interval_costs(self, domains: Sequence[Domain]) -> list[int | None]:
        """What intervals say of each cost, floors aside."""
        return [
            None if reading is None else reading([domains[i][0] for i in fields], [domains[i][-1] for i in fields])[0]
            for _, _, reading, fields in self.costs
        ]

    def hopeless(self, domains: Sequence[Domain]) -> bool:
        """Whether nothing in `domains` costs less than the best witness."""
        if self.best is None:
            return False
        least, best = self.least_costs(domains), self.best[1]
        return least > best[: len(least)] if len(least) < len(best) else least >= best

    def propagate(self, domains: list[Domain], parts: Sequence[_Part]) -> tuple[_Part, ...] | None:
        """Narrow `domains` in place until nothing changes; the constraints still undecided, or None where one fails."""
        waiting = list(parts)
        while True:
            kept: list[_Part] = []
            changed = False
            for part in waiting:
                unknown = [i for i in part.fields if size(domains[i]) > 1]
                self.spend(1)
                if not unknown:
                    if not holds_at(part.reading.constraint, [domains[i][0] for i in part.fields]):
                        return None
                elif len(unknown) == 1 or unknown.count(unknown[0]) == len(unknown):
                    field = unknown[0]
                    before = domains[field]
                    domains[field], exact = self.narrowed(part, domains, field)
                    if not domains[field]:
                        return None
                    changed = changed or size(domains[field]) != size(before)
                    if not exact:
                        kept.append(part)
                else:
                    low = [domains[i][0] for i in part.fields]
                    high = [domains[i][-1] for i in part.fields]
                    answer = part.reading.certainty(low, high)
                    if answer == NO:
                        return None
                    if answer != YES:
                        kept.append(part)
            if not changed:
                field = self.cheapened(domains)
                if field is None:
                    return tuple(kept)
                if not domains[field]:
                    return None
            waiting = kept

    def cheapened(self, domains: list[Domain]) -> int | None:
        """Narrow the one unknown field of the first cost, in place, to what may beat the best witness: which field."""
        if self.best is None or not self.costs:
            return None
        most = self.best[1][0] - (len(self.costs) == 1)
        _, tree, _, fields = self.costs[0]
        unknown = {i for i in fields if size(domains[i]) > 1}
        if len(unknown) != 1:
            return None
        (field,) = unknown
        better = Comparison("<=", tree, Constant(most))
        before = size(domains[field])
        self.spend(1)
        domains[field], _ = narrow(better, [None if i == field else domains[i][0] for i in fields], domains[field])
        return field if size(domains[field]) != before else None

    def narrowed(self, part: _Part, domains: Sequence[Domain], field: int) -> tuple[Domain, bool]:
        """The values of `field` that the constraint admits, all other fields of it being fixed."""
        fixed = [None if i == field else domains[i][0] for i in part.fields]
        domain, exact = narrow(part.reading.tree, fixed, domains[field])
        if exact or size(domain) > _FILTERED:
            return domain, exact
        self.spend(size(domain))
        holds = part.reading.constraint
        return tuple(v for v in domain if holds_at(holds, [v if f is None else f for f in fixed])), True

    def find_floors(self, domains: Sequence[Domain], parts: Sequence[_Part]) -> None:
        """Raise the floors of the costs to what the constraints together imply, once, at the root."""
        known = cost_floors(
            domains,
            [(part.reading.tree, part.fields) for part in parts],
            [(tree, fields) for _, tree, _, fields in self.costs],
        )
        pairs = zip(self.floors, known, strict=True)
        self.floors = tuple(max((end for end in pair if end is not None), default=None) for pair in pairs)

    def explore(self, domains: list[Domain], parts: Sequence[_Part]) -> None:
        left = self.propagate(domains, parts)
        if left is None or self.hopeless(domains):
            return
        self.spend(1)
        sizes = [size(domain) for domain in domains]
        open_fields = [i for i, count in enumerate(sizes) if count > 1]
        if not open_fields:
            values = tuple(domain[0] for domain in domains)
            costs = witness(self.problem, values)
            for cost, found in zip(self.problem.costs, costs or (), strict=False):
                if cost.floor is not None and found < cost.floor:
                    raise TilewrightError(f"the cost {cost.name!r} is {found}, below its stated floor {cost.floor}")
            if costs is not None and (self.best is None or costs < self.best[1]):
                self.best = values, costs
            return
        field = min(open_fields, key=lambda i: (sizes[i], i))
        self.branch(domains, left, field)

    def branch(self, domains: list[Domain], parts: Sequence[_Part], field: int) -> None:
        rest = domains[field]
        dived = False
        while rest:
            if size(rest) == 1:
                first, second = rest, ()
            elif size(rest) > _BISECTED and dived:
                middle = size(rest) // 2
                first, second = rest[:middle], rest[middle:]
            else:
                first, second = rest[:1], rest[-1:]
            dived = True
            low, high = (_with(domains, field, part) for part in (first, second or first))
            taken = first if self.least_costs(low) <= self.least_costs(high) or not second else second
            self.explore(_with(domains, field, taken), parts)
            count = size(taken)
            rest = rest[count:] if taken is first else rest[: size(rest) - count]
            if rest and self.hopeless(_with(domains, field, rest)):
                return


def search(problem: Problem, effort: Effort) -> Choice:
    """The cheapest values, or that there are none, within `effort.search_steps`. No domain may be empty."""
    state = _Search(problem, effort)
    parts = tuple(_Part(_reading(constraint), problem.positions(constraint)) for constraint in problem.constraints)
    least = True
    domains = list(problem.domains)
    try:
        left = state.propagate(domains, parts)
        if left is not None:
            state.find_floors(domains, left)
            state.explore(domains, left)
    except _LimitMet:
        least = False
    if state.best is not None:
        return chosen(problem, *state.best, least, "search", state.steps)
    if least:
        return Infeasible("search", state.steps)
    return Undetermined(
        f"the search met its limit of {state.limit} steps with no witness",
        "a larger `search_steps`, narrower domains, or the engine z3",
    )


def _with(domains: Sequence[Domain], field: int, domain: Domain) -> list[Domain]:
    return [domain if i == field else other for i, other in enumerate(domains)]
