"""Calls that come back: what tells two apart, and that one like another is launched at its own addresses.

PyTorch is not needed: what `repeat_key` reads of a tensor is put on a stand-in.
"""

from __future__ import annotations

import struct
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer, Launch, LaunchPlan, LaunchSizes, PointerParam, RunTimeSizes
from tilewright.base.size import Extent, Range
from tilewright.runtime.arrays import ArrayView
from tilewright.runtime.bundle import Bundle
from tilewright.runtime.launch import load_bundle
from tilewright.runtime.repeated import Repeated, repeat_key


@dataclass
class Tensor:
    address: int
    shape: tuple[int, ...] = (4, 4)
    strides: tuple[int, ...] = (4, 1)
    dtype: str = "bf16"
    ordinal: int = 0
    is_cuda: bool = True
    requires_grad: bool = False
    negative: bool = False
    device: str = "cuda:0"

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def get_device(self) -> int:
        return self.ordinal

    def is_neg(self) -> bool:
        return self.negative


class Parameter(Tensor):
    pass


FRESH = 0x7000


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("torch")
    streams = [0x51]
    module.Tensor = Tensor  # type: ignore[attr-defined]
    module.streams = streams  # type: ignore[attr-defined]
    module.empty_strided = lambda shape, strides, dtype, device: Tensor(FRESH, shape, strides, dtype, device=device)  # type: ignore[attr-defined]
    module._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: streams[0])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


ONE = Tensor(0x1000)


@pytest.mark.parametrize(
    "other",
    [
        replace(ONE, shape=(4, 5)),
        replace(ONE, strides=(1, 4)),
        replace(ONE, dtype="f16"),
        replace(ONE, ordinal=1),
        replace(ONE, address=0x1002),
    ],
)
def test_what_tells_calls_apart(torch: types.ModuleType, other: Tensor) -> None:
    assert repeat_key((other, None)) != repeat_key((ONE, None))


def test_addresses_and_absent_arrays(torch: types.ModuleType) -> None:
    assert repeat_key((ONE, None)) == repeat_key((replace(ONE, address=0x2000), None))
    assert repeat_key((ONE, None, ONE)) != repeat_key((ONE, ONE, None)) != repeat_key((ONE, ONE, ONE))


@pytest.mark.parametrize(
    "array",
    [
        replace(ONE, is_cuda=False),
        replace(ONE, requires_grad=True),
        replace(ONE, negative=True),
        Parameter(0x1000),
        3.0,
    ],
)
def test_what_has_no_key(torch: types.ModuleType, array: object) -> None:
    assert repeat_key((ONE, array)) is None


def test_without_pytorch_nothing_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert repeat_key((ONE,)) is None


X, Y = (Buffer(name, Element.BF16, (4, 4), (4, 1), "input") for name in "xy")
Z = Buffer("z", Element.BF16, (4, 4), (4, 1), "output")
LAUNCH = Launch("k", (1, 1, 1), (32, 1, 1), tuple(PointerParam(name) for name in "yxz"))
PLAN = LaunchPlan((X, Y, Z), (LAUNCH,))


def test_each_call_is_at_its_own_addresses_and_stream(torch: Any, record: Callable[..., Any]) -> None:
    seen: list[tuple[int, ...]] = []
    driver = record(
        {"k": [8, 8, 8]},
        lambda launched: seen.append(tuple(struct.unpack("<Q", value)[0] for value in launched.parameters)),
    )
    loaded = load_bundle(Bundle("k", "sm_90a", PLAN, ptx=".version 8.0\n"))
    assert loaded.arguments == ("x", "y", "z")
    result = ArrayView(FRESH, (4, 4), (4, 1), Element.BF16, "cuda", 0, True, "torch", Tensor(FRESH))
    # The verb takes y before x, and something between that the program does not read.
    repeated = Repeated(loaded, (2, 0), result, (2, 2, 4))
    made = repeated((Tensor(0x20), None, Tensor(0x10)), None)
    assert (made.shape, made.strides) == ((2, 2, 4), (8, 4, 1)) and made.data_ptr() == FRESH
    out = Tensor(0x30)
    assert repeated((Tensor(0x40), None, Tensor(0x50)), out) is out
    torch.streams[0] = 0x52
    repeated((Tensor(0x40), None, Tensor(0x50)), out)
    assert seen == [(0x20, 0x10, FRESH), (0x40, 0x50, 0x30), (0x40, 0x50, 0x30)]
    assert {key[0] for key in loaded._prepared} == {0x51, 0x52}
    assert driver.count("cuModuleLoadData") == 1
    loaded.close()
    with pytest.raises(TilewrightError, match="closed"):
        repeated((Tensor(0x40), None, Tensor(0x50)), out)


def test_a_call_has_the_extents_of_its_arrays(torch: Any, record: Callable[..., Any]) -> None:
    grids: list[tuple[int, int, int]] = []
    record({"k": [8, 8, 8]}, lambda launched: grids.append(launched.grid))
    sizes = RunTimeSizes(
        (("M", Range(1, 4)),), ((Extent("M"), 4),) * 3, (LaunchSizes((Extent("M"), 1, 1), ((), (), ())),)
    )
    loaded = load_bundle(Bundle("k", "sm_90a", LaunchPlan((X, Y, Z), (LAUNCH,), sizes), ptx=".version 8.0\n"))
    result = ArrayView(FRESH, (3, 4), (4, 1), Element.BF16, "cuda", 0, True, "torch", Tensor(FRESH))
    for rows in (3, 2, 3):
        repeated = Repeated(loaded, (2, 0), result, (rows, 4), loaded.run_time_key({"M": rows}))
        repeated((Tensor(0x20), None, Tensor(0x10)), None)
    assert grids == [(3, 1, 1), (2, 1, 1), (3, 1, 1)]
    assert {key[-1] for key in loaded._prepared} == {2, 3}
