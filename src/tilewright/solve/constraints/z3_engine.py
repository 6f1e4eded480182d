"""The general engine behind `solve.constraints.fields`: z3 over mathematical integers.

The trees of `solve.constraints.expression` become formulas; Python's `//` and `%` are stated for either sign of the
divisor (z3's are Euclidean), and a comparison that divides by zero is false. The least cost is found by asking for a
strictly better witness until there is none. Each question has a fresh context and z3's own resource limit, both for the
same answer on every machine. Integers, not bit vectors: a product that wraps would make a wrong witness.

Checked by tests/solve/constraints/test_fields.py against enumeration and against the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.solve.bounded import Effort, Undetermined
from tilewright.solve.constraints.expression import (
    Binary,
    Both,
    Comparison,
    Constant,
    Either,
    Field,
    Indicator,
    Known,
    Term,
    Truth,
    divisors,
    unreadable,
)
from tilewright.solve.constraints.fields import Choice, Chosen, Infeasible, Problem, chosen, witness
from tilewright.solve.constraints.narrowing import Domain
from tilewright.solve.constraints.tracing import trace, trace_term
from tilewright.solve.installed import solver

Formula = Any
"""z3's terms: the library ships no types that a strict checker accepts."""


class Asker:
    """One z3 context with a problem's fields and domains in it, and resources to spend."""

    def __init__(self, problem: Problem, resources: int) -> None:
        self.z3: Any = solver("z3")
        self.context: Any = self.z3.Context()
        self.solver: Any = self.z3.Solver(ctx=self.context)
        self.resources = resources
        self.fields: list[Formula] = [self.z3.Int(f"field_{i}", self.context) for i in range(len(problem.names))]
        for variable, domain in zip(self.fields, problem.domains, strict=True):
            self.solver.add(self.within(variable, domain))
        self.constraints: list[Formula] = [
            self.truth(
                trace(constraint.holds, len(constraint.fields)), [self.fields[i] for i in problem.positions(constraint)]
            )
            for constraint in problem.constraints
        ]

    def spent(self) -> int:
        """Resources used in this context so far."""
        statistics = self.solver.statistics()
        keys: list[str] = statistics.keys()
        return int(statistics.get_key_value("rlimit count")) if "rlimit count" in keys else 0

    def check(self, *assumptions: Formula) -> str:
        """ "sat", "unsat", or "unknown" where the resources ran out."""
        left = self.resources - self.spent()
        if left <= 0:
            return "unknown"
        self.solver.set("rlimit", left)
        return str(self.solver.check(*assumptions))

    def values(self) -> tuple[int, ...]:
        """The witness after a "sat"."""
        model = self.solver.model()
        return tuple(int(model.eval(field, model_completion=True).as_long()) for field in self.fields)

    def within(self, variable: Formula, domain: Domain) -> Formula:
        z3 = self.z3
        if isinstance(domain, range):
            bounded = z3.And(variable >= domain[0], variable <= domain[-1])
            if domain.step == 1:
                return bounded
            return z3.And(bounded, (variable - domain.start) % domain.step == 0)
        return z3.Or(*(variable == value for value in domain))

    def truth(self, node: Truth, fields: Sequence[Formula]) -> Formula:
        z3 = self.z3
        match node:
            case Known(value):
                return z3.BoolVal(value, self.context)
            case Both(left, right):
                return z3.And(self.truth(left, fields), self.truth(right, fields))
            case Either(left, right):
                return z3.Or(self.truth(left, fields), self.truth(right, fields))
            case Comparison(operator, left, right):
                a, b = self.term(left, fields), self.term(right, fields)
                compared = {"<": a < b, "<=": a <= b, "==": a == b, "!=": a != b}[operator]
                guards = [self.term(divisor, fields) != 0 for divisor in divisors(node)]
                return z3.And(*guards, compared) if guards else compared
            case _:
                raise unreadable(node)

    def term(self, node: Term, fields: Sequence[Formula]) -> Formula:
        z3 = self.z3
        match node:
            case Field(position):
                return fields[position]
            case Constant(value):
                return z3.IntVal(value, self.context)
            case Indicator(condition):
                one, zero = z3.IntVal(1, self.context), z3.IntVal(0, self.context)
                return z3.If(self.truth(condition, fields), one, zero)
            case Binary(operator, left, right):
                a, b = self.term(left, fields), self.term(right, fields)
                match operator:
                    case "+":
                        return a + b
                    case "-":
                        return a - b
                    case "*":
                        return a * b
                    case _:
                        # z3 divides Euclid's way: as Python does only for a positive divisor.
                        known = isinstance(right, Constant) and right.value > 0
                        quotient = a / b if known else z3.If(b > 0, a / b, (-a) / (-b))
                        if operator == "//":
                            return quotient
                        return a % b if known else a - b * quotient
            case _:
                raise unreadable(node)


def solve(problem: Problem, effort: Effort, start: Chosen | None = None) -> Choice:
    """The cheapest values within `effort.z3_resources`; `start`: values already known, of which only better ones count.

    A witness of z3's that fails in plain Python means that two readings of a predicate differ: no answer.
    """
    asker = Asker(problem, effort.z3_resources)
    costs: list[Formula] = []
    for cost in problem.costs:
        tree = trace_term(cost.value, len(cost.fields))
        fields = [asker.fields[i] for i in problem.positions(cost)]
        costs.append(asker.term(tree, fields))
        asker.solver.add(*(asker.term(divisor, fields) != 0 for divisor in divisors(tree)))
    asker.solver.add(*asker.constraints)
    best = (tuple(start.values[name] for name in problem.names), start.costs) if start is not None else None
    while True:
        if best is not None:
            if not costs:
                return chosen(problem, *best, True, "z3", asker.spent())
            asker.solver.add(_better(asker, costs, best[1]))
        answer = asker.check()
        if answer != "sat":
            break
        values = asker.values()
        found = witness(problem, values)
        if found is None or (best is not None and found >= best[1]):
            written = ", ".join(f"{name} = {value}" for name, value in zip(problem.names, values, strict=True))
            return Undetermined(
                f"z3's witness does not hold in plain Python: {written}",
                "a look at this problem: two readings of a constraint differ",
            )
        best = values, found
    if best is not None:
        return chosen(problem, *best, answer == "unsat", "z3", asker.spent())
    if answer == "unsat":
        return Infeasible("z3", asker.spent())
    return Undetermined(
        f"z3 met its limit of {effort.z3_resources} resources with no witness",
        "a larger `z3_resources`, or narrower domains",
    )


def _better(asker: Asker, costs: Sequence[Formula], best: Sequence[int]) -> Formula:
    """That the costs come before `best`, the first difference deciding."""
    z3 = asker.z3
    cases = [
        z3.And(*(costs[j] == best[j] for j in range(i)), costs[i] < best[i]) if i else costs[0] < best[0]
        for i in range(len(costs))
    ]
    return z3.Or(*cases) if len(cases) > 1 else cases[0]
