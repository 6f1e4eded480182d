"""Relations between three of many loops are asked about, or the verdict stays open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.driver.explore.gaps import unequal_loops as module

_LAUNCHES = 12


def _counts(launch: int, loop: int, many: int) -> int:
    """How often a loop iterates: the last one as often as the two before it together, others by bits of their own."""
    if loop == many - 1:
        return _counts(launch, many - 3, many) + _counts(launch, many - 2, many)
    return (launch * (2 * loop + 3) * 40503 >> 3) % 61


def _asked(many: int, monkeypatch: pytest.MonkeyPatch) -> tuple[set[tuple[str, ...]], list[Any]]:
    """Between which loops a relation is asked about."""
    asked: set[tuple[str, ...]] = set()

    def kept(*given: Any) -> list[Any]:
        asked.add(tuple(given[5]))
        return []

    def kept_later(*_given: Any) -> list[Any]:
        return []

    monkeypatch.setattr(module, "_kept", kept)
    monkeypatch.setattr(module, "_kept_later", kept_later)
    loops = [SimpleNamespace(blocks=frozenset({loop})) for loop in range(many)]
    exploration: Any = SimpleNamespace(ways=SimpleNamespace(flow=SimpleNamespace(loops=loops)))

    def visit(launch: int, loop: int) -> Any:
        count = _counts(launch, loop, many)
        return SimpleNamespace(
            bound=SimpleNamespace(number=loop), leaves=SimpleNamespace(iteration=count), iterations=count
        )

    launches: Any = [
        (SimpleNamespace(), {(loop, 0, loop): {0: visit(launch, loop)} for loop in range(many)})
        for launch in range(_LAUNCHES)
    ]
    span: Any = str
    return asked, module.unequal_loops(exploration, launches, lambda _given: "", span)


@pytest.mark.parametrize("many", [3, 14, 18])
def test_the_relation_of_the_last_three_is_asked_about(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, _ = _asked(many, monkeypatch)
    assert any({*each} == {str(many - 3), str(many - 2), str(many - 1)} for each in asked)


def test_of_more_loops_than_are_compared_it_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = _asked(30, monkeypatch)
    assert [each.key for each in found] == [("unequal", "many")]
