"""A solver that is missing is one error with the extra's name; answers that can do without say that they did."""

from __future__ import annotations

import sys

import pytest

from tilewright.base.error import TilewrightError
from tilewright.base.extra import EXTRA_OF, MissingExtra, install
from tilewright.layout.answer import NotDecided
from tilewright.layout.equality import Equal
from tilewright.layout.layout import Layout
from tilewright.layout.numbers.integer_expression import variable
from tilewright.layout.numbers.integer_fact import IntegerFact
from tilewright.layout.swizzle import Swizzle
from tilewright.layout.view.strided_view import StridedView
from tilewright.solve import bit_vectors, integer_set
from tilewright.solve.bounded import Effort, Undetermined
from tilewright.solve.constraints.fields import Chosen, Constraint, Cost, Infeasible, choose
from tilewright.solve.installed import Solver, solver
from tilewright.solve.layout_relation import equal

MODULES: tuple[Solver, ...] = ("z3", "egglog.bindings", "islpy", "ortools.sat.python.cp_model")


@pytest.mark.parametrize("module", MODULES)
def test_an_installed_solver_is_its_module(module: Solver) -> None:
    assert solver(module).__name__ == module


@pytest.mark.parametrize("module", MODULES)
def test_a_missing_solver_names_its_extra(module: Solver, monkeypatch: pytest.MonkeyPatch) -> None:
    package = module.partition(".")[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra) as caught:
        solver(module)
    assert "is not installed" in caught.value.message
    assert install(EXTRA_OF[caught.value.distribution]) in caught.value.remedy


def test_a_solver_that_cannot_be_loaded_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(name: str) -> None:
        raise ModuleNotFoundError("No module named 'pandas'", name="pandas")

    monkeypatch.setattr("tilewright.solve.installed.import_module", lacks)
    with pytest.raises(TilewrightError, match="cannot be loaded: No module named 'pandas'") as caught:
        solver("ortools.sat.python.cp_model")
    assert not isinstance(caught.value, MissingExtra)


def test_bit_vectors_are_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    given = bit_vectors.Variable(0, 8, 255)
    impossible = bit_vectors.Applied("ne", (given, given), 1)
    question = bit_vectors.Question((given,), (impossible,))
    assert bit_vectors.ask(question) == bit_vectors.Contradiction()
    monkeypatch.setitem(sys.modules, "z3", None)
    answer = bit_vectors.ask(question)
    assert isinstance(answer, bit_vectors.Unanswered)
    assert answer.missing is not None and answer.missing.distribution == "z3-solver"


def test_integer_sets_are_undetermined(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = StridedView((8,), (2,), 0, 2)
    assert isinstance(integer_set.byte_set_text(rows), str)
    monkeypatch.setitem(sys.modules, "islpy", None)
    answer = integer_set.byte_set_text(rows)
    assert isinstance(answer, Undetermined)
    assert install("optimal") in answer.would_decide


def test_layouts_are_not_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    size, facts = variable("N"), {"N": IntegerFact(1, 64)}
    left, right = Layout((size,), (1,), 0, Swizzle(3, 0, 6)), Layout(size)
    assert isinstance(equal(left, right, facts), Equal)
    monkeypatch.setitem(sys.modules, "islpy", None)
    answer = equal(left, right, facts)
    assert isinstance(answer, NotDecided)
    assert install("optimal") in answer.would_decide


_FEW = Effort(search_steps=1)
_FIELDS = {"a": range(1, 2000), "b": range(1, 2000)}
_PRODUCT = Constraint("product", ("a", "b"), lambda a, b: a * b == 1009 * 1013)


def test_a_choice_that_only_z3_makes_is_undetermined(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = Cost("a", ("a",), lambda a: a)
    assert isinstance(choose(_FIELDS, [_PRODUCT], [cost], effort=_FEW), Chosen | Infeasible | Undetermined)
    monkeypatch.setitem(sys.modules, "z3", None)
    answer = choose(_FIELDS, [_PRODUCT], [cost], effort=_FEW)
    assert isinstance(answer, Undetermined)
    assert install("solver") in answer.would_decide
    with pytest.raises(MissingExtra):
        choose(_FIELDS, [_PRODUCT], [cost], engine="z3")
