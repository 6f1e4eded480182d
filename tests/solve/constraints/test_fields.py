"""Both engines of field choice against enumeration: the same sat or unsat, the same least cost; and their limits."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.solve.predicates import drawn_costs, drawn_predicates

from tilewright.base.error import TilewrightError
from tilewright.solve.bounded import Effort, Undetermined
from tilewright.solve.constraints.fields import Chosen, Constraint, Cost, Engine, Infeasible, choose, state
from tilewright.solve.constraints.z3_engine import Asker

ENGINES: tuple[Engine, ...] = ("search", "z3", "auto")

DOMAINS = st.one_of(
    st.lists(st.integers(-6, 9), min_size=1, max_size=5),
    st.builds(lambda low, count, step: range(low, low + count * step, step), *map(st.integers, (-6, 1, 1), (6, 6, 3))),
)


def enumerated(fields, constraints, costs):
    """The least costs of all that satisfy the constraints, or None where nothing does."""
    names = list(fields)
    least = None
    for values in product(*fields.values()):
        known = dict(zip(names, values, strict=True))
        if all(constraint.holds(*(known[name] for name in constraint.fields)) for constraint in constraints):
            found = tuple(cost.value(*(known[name] for name in cost.fields)) for cost in costs)
            least = found if least is None else min(least, found)
    return least


@given(
    st.lists(DOMAINS, min_size=3, max_size=3),
    st.lists(drawn_predicates(3), max_size=4),
    st.lists(drawn_costs(3), max_size=2),
)
def test_engines_agree_with_enumeration(domains, predicates, values):
    names = ("x", "y", "z")
    fields = dict(zip(names, domains, strict=True))
    constraints = [Constraint(f"c{i}", names, holds) for i, holds in enumerate(predicates)]
    costs = [Cost(f"k{i}", names, value) for i, value in enumerate(values)]
    truth = enumerated(fields, constraints, costs)
    for engine in ("search", "z3"):
        answer = choose(fields, constraints, costs, engine=engine)
        if truth is None:
            assert isinstance(answer, Infeasible), engine
        else:
            assert isinstance(answer, Chosen) and answer.least, engine
            assert answer.costs == truth, engine
            assert enumerated({n: [v] for n, v in answer.values.items()}, constraints, costs) == truth


@pytest.mark.parametrize("engine", ENGINES)
def test_largest_box_under_a_swizzle(engine):
    span = [512, 32, 64, 128]
    answer = choose(
        {"inner": range(1, 257), "rows": range(1, 257), "planes": range(1, 257), "swizzle": (1, 2, 3)},
        [
            Constraint("inner-multiple", ("inner",), lambda inner: inner * 2 % 16 == 0),
            Constraint(
                "span",
                ("inner", "swizzle"),
                lambda inner, swizzle: inner * 2 <= sum((swizzle == i) * span[i] for i in range(4)),
            ),
            Constraint("shared-memory", ("inner", "rows", "planes"), lambda i, r, p: i * r * p * 2 <= 232448),
        ],
        [Cost("bytes", ("inner", "rows", "planes"), lambda i, r, p: -2 * i * r * p, floor=-232448)],
        engine=engine,
    )
    assert isinstance(answer, Chosen) and answer.least
    assert answer.costs == (-232448,)


@pytest.mark.parametrize("engine", ENGINES)
def test_huge_domains_need_no_enumeration(engine):
    answer = choose(
        {"stride": range(0, 2**64), "rows": (7,)},
        [
            Constraint("multiple", ("stride",), lambda stride: stride % 2**20 == 0),
            Constraint("at-least", ("stride", "rows"), lambda stride, rows: stride * rows >= 2**40 + 1),
            Constraint("below", ("stride",), lambda stride: stride < 2**40),
        ],
        [Cost("stride", ("stride",), lambda stride: stride)],
        engine=engine,
    )
    assert isinstance(answer, Chosen) and answer.least
    assert answer.values["stride"] == -(-(2**40 + 1) // 7 // 2**20) * 2**20


def hard():
    """A Diophantine equation that neither engine settles quickly."""
    names = ("a", "b", "c")
    return (
        {name: range(2, 10**6) for name in names},
        [Constraint("cubes", names, lambda a, b, c: a * a * a + b * b * b == c * c * c)],
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_is_undetermined_and_deterministic(engine):
    effort = Effort(search_steps=2_000, z3_resources=200_000)
    fields, constraints = hard()
    first = choose(fields, constraints, engine=engine, effort=effort)
    assert isinstance(first, Undetermined)
    assert first == choose(fields, constraints, engine=engine, effort=effort)


def test_z3_honours_its_limit():
    fields, constraints = hard()
    asker = Asker(state(fields, constraints, ()), 100_000)
    asker.solver.add(*asker.constraints)
    assert asker.check() == "unknown"
    assert 90_000 <= asker.spent() <= 110_000
    assert asker.check() == "unknown"


def test_a_limit_after_a_witness_is_not_called_least():
    costs = [Cost("sum", ("a", "b"), lambda a, b: (a * a + b * b + 1) % 4)]
    # Two squares never sum to 3 modulo 4, which no interval or congruence of these fields knows.
    answer = choose({"a": range(1000), "b": range(1000)}, [], costs, engine="search", effort=Effort(search_steps=500))
    assert isinstance(answer, Chosen) and not answer.least


@pytest.mark.parametrize("engine", ENGINES)
def test_division_by_a_field_that_may_be_zero(engine):
    names = ("x", "y")
    fields = {"x": range(0, 9), "y": range(0, 3)}
    unguarded = [Constraint("quotient", names, lambda x, y: x // y == 3)]
    answer = choose(fields, unguarded, engine=engine)
    assert isinstance(answer, Chosen) and answer.values["y"] > 0
    guarded = [Constraint("guarded", names, lambda x, y: (y == 0) | (x // y > 99))]
    answer = choose(fields, guarded, engine=engine)
    assert isinstance(answer, Chosen) and answer.values["y"] == 0


def test_mistakes_are_errors():
    with pytest.raises(TilewrightError, match="reads the field 'y'"):
        choose({"x": (1,)}, [Constraint("c", ("y",), lambda y: y == 1)])
    with pytest.raises(TilewrightError, match="two constraints"):
        choose({"x": (1,)}, [Constraint("c", ("x",), lambda x: x == 1)] * 2)
    with pytest.raises(TilewrightError, match="integers"):
        choose({"x": (1.5,)}, [])  # type: ignore[arg-type]
    with pytest.raises(TilewrightError, match="combine conditions"):
        choose({"x": (1, 2)}, [Constraint("c", ("x",), lambda x: x > 1 and x < 9)])
    with pytest.raises(TilewrightError, match="below its stated floor"):
        choose({"x": (1, 2)}, [], [Cost("k", ("x",), lambda x: x, floor=2)])
    assert isinstance(choose({"x": ()}, []), Infeasible)
