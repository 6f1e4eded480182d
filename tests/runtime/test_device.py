"""Without a driver everything that needs one says so plainly; targets and compute capabilities."""

from __future__ import annotations

import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer, Launch, LaunchPlan, PointerParam, TensorMap
from tilewright.runtime import device
from tilewright.runtime.device import runs_on
from tilewright.runtime.launch import LoadedPlan
from tilewright.runtime.tensormap import encode

PLAN = LaunchPlan(
    (Buffer("x", Element.F32, (1,), (1,), "input"),), (Launch("k", (1, 1, 1), (1, 1, 1), (PointerParam("x"),)),)
)


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "probe_libcuda", lambda: "libcuda.so.1: cannot open shared object file")
    monkeypatch.setattr(device, "driver", device.driver.__wrapped__)
    monkeypatch.setattr(device, "open_device", device.open_device.__wrapped__)


@pytest.mark.usefixtures("no_driver")
def test_no_driver_is_one_plain_sentence() -> None:
    attempts = [
        lambda: device.open_device(),
        lambda: LoadedPlan(PLAN, b"", target="sm_90a"),
        lambda: encode(TensorMap(Element.F32, (4,), (), (4,)), 0x1000, "x"),
        lambda: device.allocate(4, "a test"),
    ]
    for attempt in attempts:
        with pytest.raises(TilewrightError, match="no NVIDIA driver on this machine: libcuda") as caught:
            attempt()
        assert "CPU" in caught.value.remedy


def test_missing_bindings_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "probe_libcuda", lambda: None)

    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(device.importlib, "import_module", absent)
    with pytest.raises(TilewrightError, match="needs cuda-bindings, which is not installed") as caught:
        device.driver.__wrapped__()
    assert "pip install 'tilewright[gpu]'" in caught.value.remedy


def test_bindings_that_do_not_load_are_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "probe_libcuda", lambda: None)

    def broken(name: str) -> None:
        raise ImportError("undefined symbol: cuInit")

    monkeypatch.setattr(device.importlib, "import_module", broken)
    with pytest.raises(TilewrightError, match="cannot be imported: undefined symbol: cuInit"):
        device.driver.__wrapped__()


@pytest.mark.parametrize(
    ("target", "capability", "expected"),
    [
        ("sm_90a", (9, 0), True),
        ("sm_90a", (10, 0), False),
        ("sm_90a", (8, 9), False),
        ("sm_90", (9, 0), True),
        ("sm_80", (8, 6), True),
        ("sm_86", (8, 0), False),
        ("sm_80", (9, 0), False),
        ("sm_100a", (10, 0), True),
        ("sm_100a", (10, 3), False),
        ("sm_100f", (10, 3), True),
        ("sm_120a", (12, 0), True),
        ("sm_120a", (1, 20), False),
    ],
)
def test_which_gpus_run_a_target(target: str, capability: tuple[int, int], expected: bool) -> None:
    assert runs_on(target, capability) is expected


@pytest.mark.parametrize("target", ["", "sm_", "sm_9", "compute_90", "sm_90b", "90a", "sm_aa"])
def test_what_is_no_target(target: str) -> None:
    with pytest.raises(TilewrightError, match="is no target"):
        runs_on(target, (9, 0))
