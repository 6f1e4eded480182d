"""Where "auto" runs a program: on a GPU that can, else on the CPU machine."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tilewright.base.error import TilewrightError
from tilewright.driver.compile import place


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    place.gpu_runs.cache_clear()
    yield
    place.gpu_runs.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, driver: str | None, capability: tuple[int, int] | None) -> None:
    def open_device(ordinal: int) -> object:
        if capability is None:
            raise TilewrightError("there is no GPU 0: 0 visible")
        return SimpleNamespace(compute_capability=capability)

    monkeypatch.setattr(place, "probe_libcuda", lambda: driver)
    monkeypatch.setattr(place, "open_device", open_device)


@pytest.mark.parametrize(
    ("driver", "capability", "runs"),
    [
        ("no libcuda", (9, 0), False),
        (None, None, False),
        (None, (8, 0), False),
        (None, (10, 0), False),
        (None, (9, 0), True),
    ],
)
def test_only_a_gpu_that_can(
    monkeypatch: pytest.MonkeyPatch, driver: str | None, capability: tuple[int, int] | None, runs: bool
) -> None:
    pretend(monkeypatch, driver, capability)
    assert place.gpu_runs("sm_90a") is runs


def test_what_is_no_target_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "no libcuda", None)
    with pytest.raises(TilewrightError, match="is no target"):
        place.gpu_runs("frob")
