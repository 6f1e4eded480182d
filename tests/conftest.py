"""What `make test` leaves to `make test-full`: most cases of large families, and examples that nobody drew before.

A family of costly cases is marked `sample(n)`; where fewer are chosen than there are, they are chosen the same way each
time. Hypothesis draws the same examples on every run of `make test`: a change must not fail for an example that an
earlier run happened not to draw; looking for new ones is the long run's job.
"""

import gc
import os

import pytest
from hypothesis import settings

gc.set_threshold(10_000, 10, 10)
"""Garbage is looked for seldom, as in the commands (`tilewright.base.collector`)."""

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `sample(n)`, n cases spread evenly over all run in `make test`; the others are marked `full`."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample") is not None:
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in families.values():
        marker = cases[0].get_closest_marker("sample")
        assert marker is not None
        (count,) = marker.args
        kept = {len(cases) * place // count for place in range(count)}
        for place, case in enumerate(cases):
            if place not in kept:
                case.add_marker(pytest.mark.full)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end."""
    gc.freeze()
