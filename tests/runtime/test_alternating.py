"""Programs timed alternately: what is captured, how often it runs, that all is given back, and what cannot be timed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda.bindings import driver as real

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer, Launch, LaunchPlan, PointerParam
from tilewright.runtime import alternating
from tilewright.runtime.alternating import alternating_times
from tilewright.runtime.bundle import Bundle

X = Buffer("x", Element.BF16, (1 << 20, 3), (3, 1), "input")
Y = Buffer("y", Element.BF16, (32,), (1,), "output")


def program(entry: str, *, buffer: Buffer = X, target: str = "sm_90a", cluster: int = 1) -> Bundle:
    launch = Launch(entry, (cluster, 1, 1), (32, 1, 1), (PointerParam("x"), PointerParam("y")), (cluster, 1, 1))
    return Bundle("k", target, LaunchPlan((buffer, Y), (launch,)), ptx=".version 8.0\n")


@pytest.fixture
def fake(record: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    driver = record({"first": [8, 8], "second": [8, 8]})
    driver.do_cuStreamEndCapture = lambda stream: (real.CUgraph(0x400),)
    driver.do_cuGraphInstantiate = lambda graph, flags: (real.CUgraphExec(0x500 + driver.count("cuGraphInstantiate")),)
    monkeypatch.setattr(alternating, "_WARM_MILLISECONDS", 1.5)
    return driver


def test_programs_alternate_in_an_order_that_rotates(fake: Any) -> None:
    times = alternating_times([program("first"), program("second")], rounds=3)
    # A replay takes 1 ms by the recording driver's clock; 20 calls go over 20 sets of inputs, twice the L2 cache.
    assert times == [[1000 / 20] * 3] * 2
    replayed = [int(arguments[0]) for name, arguments in fake.calls if name == "cuGraphLaunch"]
    assert replayed == [0x501, 0x502, 0x501, 0x502, 0x502, 0x501, 0x501, 0x502]
    at = [name for name, _ in fake.calls if name in ("cuStreamBeginCapture", "cuStreamEndCapture", "cuLaunchKernelEx")]
    begin = at.index("cuStreamBeginCapture")
    assert at[begin : begin + 22] == ["cuStreamBeginCapture", *["cuLaunchKernelEx"] * 20, "cuStreamEndCapture"]
    addresses = [launch.parameters[0] for launch in fake.launches[-20:]]
    assert len(set(addresses)) == 20 and len({launch.parameters[1] for launch in fake.launches}) == 1


def test_inputs_are_random_and_all_is_given_back(fake: Any) -> None:
    seen: list[Any] = []

    def kernel(launched: Any) -> None:
        pointer = int.from_bytes(launched.parameters[0], "little")
        seen.append(np.frombuffer(fake.live[pointer], ml_dtypes.bfloat16, 3 << 20).astype(np.float32))

    fake.kernel = kernel
    alternating_times([program("first")], rounds=1)
    assert 0.99 < float(seen[0].std()) < 1.01 and bool((seen[0][-100:] != 0).all())
    assert not fake.live
    for made, gone in (("cuStreamCreate", "cuStreamDestroy"), ("cuEventCreate", "cuEventDestroy"),
                       ("cuGraphInstantiate", "cuGraphExecDestroy"), ("cuModuleLoadData", "cuModuleUnload"),
                       ("cuStreamEndCapture", "cuGraphDestroy")):  # fmt: skip
        assert fake.count(made) == fake.count(gone) > 0


def test_integers_that_stand_for_places_are_the_callers(fake: Any) -> None:
    seen: list[Any] = []

    def kernel(launched: Any) -> None:
        seen.append(np.frombuffer(fake.live[int.from_bytes(launched.parameters[0], "little")], np.int32, 9))

    fake.kernel = kernel
    table = Buffer("x", Element.S32, (2, 3), (6, 1), "input")
    alternating_times([program("first", buffer=table)], {"x": np.arange(1, 7, dtype=np.int32).reshape(2, 3)}, rounds=1)
    assert all(each.tolist() == [1, 2, 3, 0, 0, 0, 4, 5, 6] for each in seen)


def test_numbers_of_a_byte_are_random(fake: Any) -> None:
    seen: list[Any] = []

    def kernel(launched: Any) -> None:
        seen.append(np.frombuffer(fake.live[int.from_bytes(launched.parameters[0], "little")], np.int8, 3 << 20))

    fake.kernel = kernel
    alternating_times([program("first", buffer=dataclasses.replace(X, element=Element.S8))], rounds=1)
    assert seen[0].min() == -128 and seen[0].max() == 127


def test_a_fault_is_the_error_and_all_is_given_back(fake: Any) -> None:
    fake.fail["cuGraphInstantiate"] = real.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(TilewrightError, match="ILLEGAL_ADDRESS"):
        alternating_times([program("first")], rounds=1)
    assert not fake.live and fake.count("cuGraphDestroy") == 1 and fake.count("cuModuleUnload") == 1


def test_what_this_gpu_has_no_room_for_has_no_times(fake: Any) -> None:
    fake.resident_clusters = 0
    times = alternating_times([program("first"), program("second", cluster=16)], rounds=2)
    assert times == [[50.0, 50.0], []]
    with pytest.raises(TilewrightError, match="no room"):
        alternating_times([program("first", cluster=16)])


def test_other_gpus_and_integers_are_refused(fake: Any) -> None:
    with pytest.raises(TilewrightError, match="sm_100a"):
        alternating_times([program("first", target="sm_100a")])
    ends = dataclasses.replace(X, element=Element.S32)
    with pytest.raises(TilewrightError, match="values a tuner cannot make up"):
        alternating_times([program("first", buffer=ends)])
    assert not fake.live
