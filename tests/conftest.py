"""What `make test` leaves to `make test-full`: most cases of large families, and examples that nobody drew before.

A family of costly cases is marked `sample(n)`; where fewer are chosen than there are, they are chosen the same way each
time. Of modules that hold many programs, or many attacks, of one kind, a third of the tests run (`_OF_ONE_KIND`);
elsewhere every second case of a test that has several. Hypothesis draws the same examples on every run of `make test`,
a quarter of what the long run draws: a change must not fail for an example that an earlier run happened not to draw;
looking for new ones is the long run's job. A test says how many it draws only where each takes so long that it wants
fewer.
"""

import gc
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

gc.set_threshold(10_000, 10, 10)
"""Garbage is looked for seldom, as in the commands (`tilewright.base.collector`)."""

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("random", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

_OF_ONE_KIND = {
    Path(__file__).parent / name
    for name in ("contract/typestate", "coverage_attacks", "driver/explore", "driver/reproof", "end_to_end", "lower")
}
_FEW = 3
"""Cases of a module, or of a test, that all run."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `sample(n)`, n cases spread evenly over all run in `make test`; the others are marked `full`. So
    are two thirds of what is then left of a module in `_OF_ONE_KIND`, and every second case of a test elsewhere."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample") is not None:
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in families.values():
        marker = cases[0].get_closest_marker("sample")
        assert marker is not None
        (count,) = marker.args
        kept = {len(cases) * place // count for place in range(count)}
        _leave_out(case for place, case in enumerate(cases) if place not in kept)
    kinds: dict[str, list[pytest.Item]] = {}
    for item in items:
        marks, whole = {mark.name for mark in item.iter_markers()}, _is_of_one_kind(item.path)
        if marks.isdisjoint({"full", "gpu"} if whole else {"full", "gpu", "sample"}):
            kinds.setdefault(str(item.path) if whole else item.nodeid.partition("[")[0], []).append(item)
    for cases in kinds.values():
        if len(cases) > _FEW:
            step = 3 if _is_of_one_kind(cases[0].path) else 2
            _leave_out(case for place, case in enumerate(cases) if place % step)


@cache
def _is_of_one_kind(path: Path) -> bool:
    return not _OF_ONE_KIND.isdisjoint(path.parents)


def _leave_out(cases: Iterable[pytest.Item]) -> None:
    for case in cases:
        case.add_marker(pytest.mark.full)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end."""
    gc.freeze()
