"""All minimal cores and corrections against every subset of the constraints."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.solve.predicates import drawn_predicates

from tilewright.solve.bounded import Effort
from tilewright.solve.cores import fixed, minimal_cores
from tilewright.solve.fields import Constraint


def brute(fields, constraints):
    """All minimal unsatisfiable subsets and all minimal corrections, by names."""
    names = [constraint.name for constraint in constraints]
    satisfied = {frozenset(c.name for c in constraints if c.holds(*values)) for values in product(*fields.values())}
    subsets = [frozenset(s) for count in range(len(names) + 1) for s in combinations(names, count)]
    unsatisfiable = [s for s in subsets if not any(s <= reached for reached in satisfied)]
    corrections = [frozenset(names) - reached for reached in satisfied]
    return (
        {s for s in unsatisfiable if not any(other < s for other in unsatisfiable)},
        {s for s in corrections if not any(other < s for other in corrections)},
    )


@pytest.mark.parametrize("engine", ["search", "z3"])
@given(
    domains=st.lists(st.lists(st.integers(-3, 6), min_size=1, max_size=4), min_size=2, max_size=2),
    predicates=st.lists(drawn_predicates(2), max_size=6),
)
def test_all_cores_and_corrections(engine, domains, predicates):
    fields = dict(zip("xy", domains, strict=True))
    constraints = [Constraint(f"c{i}", ("x", "y"), holds) for i, holds in enumerate(predicates)]
    found = minimal_cores(fields, constraints, engine=engine)
    cores, corrections = brute(fields, constraints)
    assert found.complete
    assert set(map(frozenset, found.cores)) == cores and len(found.cores) == len(cores)
    assert set(map(frozenset, found.corrections)) == corrections


@given(
    domains=st.lists(st.lists(st.integers(-3, 6), min_size=1, max_size=3), min_size=3, max_size=3),
    predicates=st.lists(st.tuples(st.permutations(range(3)), drawn_predicates(2), drawn_predicates(1)), max_size=3),
)
def test_components_are_explored_apart_and_joined(domains, predicates):
    names = ("x", "y", "z")
    fields = dict(zip(names, domains, strict=True))
    constraints = []
    for i, ((first, second, third), both, one) in enumerate(predicates):
        constraints.append(Constraint(f"both {i}", (names[first], names[second]), both))
        constraints.append(Constraint(f"one {i}", (names[third],), one))
    found = minimal_cores(fields, constraints)

    def spread(constraint):
        at = [names.index(name) for name in constraint.fields]
        return Constraint(constraint.name, names, lambda *values: constraint.holds(*(values[i] for i in at)))

    cores, corrections = brute(fields, [spread(constraint) for constraint in constraints])
    assert found.complete
    assert set(map(frozenset, found.cores)) == cores
    assert set(map(frozenset, found.corrections)) == corrections


def test_cores_name_rules_and_what_the_user_fixed():
    fields = {"stride": range(0, 2**40), "inner": range(1, 257), "swizzle": range(0, 4)}
    span = (512, 32, 64, 128)
    rules = [
        Constraint("stride multiple", ("stride",), lambda stride: stride % 16 == 0),
        Constraint("inner multiple", ("inner",), lambda inner: inner * 2 % 16 == 0),
        Constraint(
            "swizzle span",
            ("inner", "swizzle"),
            lambda inner, swizzle: inner * 2 <= sum((swizzle == i) * span[i] for i in range(4)),
        ),
    ]
    wants = [
        fixed("stride = 200 bytes", "stride", 200),
        fixed("inner = 128", "inner", 128),
        fixed("swizzle = 128B", "swizzle", 3),
    ]
    found = minimal_cores(fields, (*rules, *wants))
    assert found.complete
    assert found.cores == (
        ("stride multiple", "stride = 200 bytes"),
        ("swizzle span", "inner = 128", "swizzle = 128B"),
    )
    assert ("stride = 200 bytes", "swizzle = 128B") in found.corrections
    kept = minimal_cores(fields, wants, given=rules)
    assert kept.cores == (("stride = 200 bytes",), ("inner = 128", "swizzle = 128B"))


def test_what_is_given_may_have_no_solution():
    impossible = Constraint("never", ("x",), lambda x: x > 9)
    found = minimal_cores({"x": range(3)}, [fixed("x = 1", "x", 1)], given=[impossible])
    assert found.complete and found.cores == ((),) and found.corrections == ()
    assert minimal_cores({"x": ()}, [fixed("x = 1", "x", 1)]).cores == ((),)


@pytest.mark.parametrize("engine", ["search", "z3", "auto"])
def test_no_answer_is_no_core(engine):
    names = ("a", "b", "c")
    fields = {name: range(2, 10**6) for name in names}
    cubes = Constraint("cubes", names, lambda a, b, c: a * a * a + b * b * b == c * c * c)
    found = minimal_cores(fields, [cubes], engine=engine, effort=Effort(search_steps=500, z3_resources=100_000))
    assert not found.complete and found.cores == () and found.corrections == ()


def test_few_calls_leave_it_incomplete():
    fields = {"x": range(20)}
    constraints = [fixed(f"x = {i}", "x", i) for i in range(12)]
    found = minimal_cores(fields, constraints, effort=Effort(oracle_calls=5))
    assert not found.complete
    whole = minimal_cores(fields, constraints)
    assert whole.complete and len(whole.cores) == 66 and len(whole.corrections) == 12
    assert set(found.cores) <= set(whole.cores)
