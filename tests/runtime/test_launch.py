"""What a launch hands the driver, read back from a recording stand-in; and what it refuses before asking the driver."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import (
    Buffer,
    Launch,
    LaunchPlan,
    LaunchSizes,
    NullPointerParam,
    OpaqueParam,
    PointerParam,
    RunTimeSizes,
    ScalarParam,
    TensorMap,
    TensorMapParam,
    UnknownTensorMapParam,
)
from tilewright.base.size import Extent, Range, ceil_div
from tilewright.runtime import device as gpu
from tilewright.runtime.launch import _PREPARED_LIMIT, LoadedPlan, scalar_bytes

MAP = TensorMap(Element.BF16, (64, 32), (128,), (64, 8), swizzle="128B", offset_bytes=256)
PLAN = LaunchPlan(
    (
        Buffer("x", Element.BF16, (32, 64), (64, 1), "input"),
        Buffer("y", Element.F32, (32,), (1,), "output"),
        Buffer("partial", Element.F32, (4, 32), (32, 1), "workspace"),
    ),
    (
        Launch(
            "first",
            (4, 1, 1),
            (128, 1, 1),
            (ScalarParam("i32", -3), TensorMapParam("x", MAP), PointerParam("partial", 16)),
            cluster=(2, 1, 1),
            dynamic_smem_bytes=100_000,
        ),
        Launch("second", (1, 2, 3), (32, 2, 1), (PointerParam("partial"), PointerParam("y"), ScalarParam("f32", 0.5))),
    ),
)
FUNCTIONS = {"first": [4, 128, 8], "second": [8, 8, 4]}
POINTERS = {"x": 0x10000, "y": 0x20000}


@pytest.fixture
def fake(record: Callable[..., Any]) -> Any:
    return record(dict(FUNCTIONS))


def load(plan: LaunchPlan = PLAN, target: str = "sm_90a") -> LoadedPlan:
    return LoadedPlan(plan, b".version 8.0", target=target, name="demo")


def test_launches_go_out_in_order_with_their_parameters(fake: Any) -> None:
    load().run(POINTERS, stream=7)
    first, second = fake.launches
    (workspace,) = fake.live
    assert (first.grid, first.block, first.cluster) == ((4, 1, 1), (128, 1, 1), (2, 1, 1))
    assert (first.shared_bytes, first.stream, first.function) == (100_000, 7, 0x100)
    assert (second.grid, second.block, second.cluster) == ((1, 2, 3), (32, 2, 1), None)
    scalar, encoded, pointer = first.parameters
    assert struct.unpack("<i", scalar) == (-3,)
    assert struct.unpack("<16Q", encoded) == tuple(0x10000 + 256 + index for index in range(16))
    assert struct.unpack("<Q", pointer) == (workspace + 16,)
    assert [struct.unpack("<Q", value)[0] for value in second.parameters[:2]] == [workspace, 0x20000]
    assert struct.unpack("<f", second.parameters[2]) == (0.5,)


def test_the_tensor_map_reaches_the_driver_field_by_field(fake: Any) -> None:
    load().run(POINTERS)
    ((_, arguments),) = [call for call in fake.calls if call[0] == "cuTensorMapEncodeTiled"]
    kind, rank, address, dims, strides, box, element_strides, interleave, swizzle, promotion, fill = arguments
    assert (rank, address) == (2, 0x10000 + 256)
    assert [[int(value) for value in values] for values in (dims, strides, box, element_strides)] == [
        [64, 32],
        [128],
        [64, 8],
        [1, 1],
    ]
    names = [value.name.removeprefix("CU_TENSOR_MAP_") for value in (kind, interleave, swizzle, promotion, fill)]
    assert names == [
        "DATA_TYPE_BFLOAT16",
        "INTERLEAVE_NONE",
        "SWIZZLE_128B",
        "L2_PROMOTION_NONE",
        "FLOAT_OOB_FILL_NONE",
    ]


def test_null_pointers_and_structures_reach_the_kernel(record: Callable[..., Any]) -> None:
    structure = OpaqueParam(160, b"\x01\x02", ((8, PointerParam("y", 4)),))
    launch = Launch("foreign", (1, 1, 1), (32, 1, 1), (NullPointerParam(), structure))
    fake = record({"foreign": [8, 160]})
    load(dataclasses.replace(PLAN, launches=(launch,))).run(POINTERS)
    null, content = fake.launches[0].parameters
    assert null == bytes(8)
    assert content == b"\x01\x02" + bytes(6) + struct.pack("<Q", 0x20004) + bytes(144)


def test_an_unknown_tensor_map_is_not_launched(record: Callable[..., Any]) -> None:
    record({"foreign": [128]})
    launch = Launch("foreign", (1, 1, 1), (32, 1, 1), (UnknownTensorMapParam(1024),))
    with pytest.raises(TilewrightError, match="unknown") as caught:
        load(dataclasses.replace(PLAN, launches=(launch,))).run(POINTERS)
    assert "describe the tensor map" in caught.value.remedy


@pytest.mark.parametrize("element", list(Element))
@pytest.mark.parametrize(
    "fields",
    [
        {"swizzle": "none", "interleave": "16B", "l2_promotion": "64B"},
        {"swizzle": "32B", "interleave": "32B", "l2_promotion": "128B"},
        {"swizzle": "64B", "l2_promotion": "256B", "out_of_bounds": "nan"},
    ],
)
def test_every_value_of_a_tensor_map_has_a_driver_name(fake: Any, element: Element, fields: dict[str, Any]) -> None:
    changed = TensorMapParam("x", dataclasses.replace(MAP, element=element, **fields))
    launch = dataclasses.replace(PLAN.launches[0], params=(ScalarParam("i32", 1), changed, PointerParam("partial")))
    load(dataclasses.replace(PLAN, launches=(launch,))).run(POINTERS)
    ((_, arguments),) = [call for call in fake.calls if call[0] == "cuTensorMapEncodeTiled"]
    enums = (gpu.driver().CUtensorMapDataType, gpu.driver().CUtensorMapSwizzle)
    assert isinstance(arguments[0], enums[0]) and isinstance(arguments[8], enums[1])


def test_limits_are_raised_once_at_load(fake: Any) -> None:
    load()
    kinds = fake.CUfunction_attribute
    set_attributes = [arguments for name, arguments in fake.calls if name == "cuFuncSetAttribute"]
    assert [(int(function), which, value) for function, which, value in set_attributes] == [
        (0x100, kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100_000)
    ]


def test_a_programmatic_launch_may_begin_early(fake: Any) -> None:
    first, second = PLAN.launches
    both = (first, dataclasses.replace(second, programmatic=True, grid=(2, 2, 3), cluster=(2, 1, 1)))
    load(dataclasses.replace(PLAN, launches=both)).run(POINTERS)
    assert [(launch.programmatic, launch.cluster) for launch in fake.launches] == [
        (False, (2, 1, 1)),
        (True, (2, 1, 1)),
    ]
    load(dataclasses.replace(PLAN, launches=(first, dataclasses.replace(second, programmatic=True)))).run(POINTERS)
    assert (fake.launches[-1].programmatic, fake.launches[-1].cluster) == (True, None)


def test_a_large_cluster_is_opted_into(fake: Any) -> None:
    launch = dataclasses.replace(PLAN.launches[0], grid=(16, 1, 1), cluster=(16, 1, 1))
    load(dataclasses.replace(PLAN, launches=(launch,)))
    allowed = [arguments[1].name for name, arguments in fake.calls if name == "cuFuncSetAttribute"]
    assert "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED" in allowed


def test_a_repeated_run_prepares_nothing(fake: Any) -> None:
    loaded = load()
    for _ in range(3):
        loaded.run(POINTERS)
    assert len(fake.launches) == 6
    assert fake.count("cuTensorMapEncodeTiled") == 1
    assert fake.count("cuMemAlloc") == 1
    loaded.run({**POINTERS, "y": 0x30000})
    assert fake.count("cuTensorMapEncodeTiled") == 1, "x did not move"
    loaded.run({**POINTERS, "x": 0x40000})
    assert fake.count("cuTensorMapEncodeTiled") == 2
    assert struct.unpack("<Q", fake.launches[-1].parameters[1]) == (0x20000,)


RUN_TIME = LaunchPlan(
    (Buffer("x", Element.BF16, (512, 64), (64, 1), "input"), Buffer("y", Element.F32, (512,), (1,), "output")),
    (
        Launch(
            "first",
            (4, 1, 1),
            (128, 1, 1),
            (ScalarParam("i32", 8), TensorMapParam("x", dataclasses.replace(MAP, dims=(64, 512))), PointerParam("y")),
        ),
    ),
    RunTimeSizes(
        (("M", Range(0, 512)),),
        ((Extent("M"), 64), (Extent("M"),)),
        (LaunchSizes((ceil_div(Extent("M"), 128), 1, 1), ((ceil_div(Extent("M"), 64),), (64, Extent("M")), ())),),
    ),
)


def test_a_launch_has_the_numbers_of_its_extents(fake: Any) -> None:
    loaded = load(RUN_TIME)
    loaded.run(POINTERS, extents={"M": 130})
    (launched,) = fake.launches
    assert launched.grid == (2, 1, 1) and struct.unpack("<i", launched.parameters[0]) == (3,)
    ((_, arguments),) = [call for call in fake.calls if call[0] == "cuTensorMapEncodeTiled"]
    assert [int(value) for value in arguments[3]] == [64, 130]
    loaded.run(POINTERS, extents={"M": 130})
    assert fake.count("cuTensorMapEncodeTiled") == 1, "nothing changed"
    loaded.run(POINTERS, extents={"M": 7})
    assert fake.launches[-1].grid == (1, 1, 1) and fake.count("cuTensorMapEncodeTiled") == 2
    assert fake.count("cuModuleLoadData") == 1


def test_an_extent_of_0_launches_nothing(fake: Any) -> None:
    load(RUN_TIME).run({"x": 0, "y": 0}, extents={"M": 0})
    assert not fake.launches


def test_extents_are_asked_for(fake: Any) -> None:
    loaded = load(RUN_TIME)
    with pytest.raises(TilewrightError, match="without an extent of axis M"):
        loaded.run(POINTERS)
    with pytest.raises(TilewrightError, match="axis M is 513; the program was compiled for 0 to 512"):
        loaded.run(POINTERS, extents={"M": 513})
    with pytest.raises(TilewrightError, match="the address of x is null"):
        loaded.run({"x": 0, "y": 0x20000}, extents={"M": 1})
    assert not fake.launches


def test_fresh_addresses_do_not_pile_up(fake: Any) -> None:
    loaded = load(LaunchPlan(PLAN.buffers, (PLAN.launches[1],)))
    for index in range(_PREPARED_LIMIT + 10):
        loaded.run({"x": 0x10000, "y": 0x20000 + 256 * index})
    assert len(loaded._prepared) == _PREPARED_LIMIT
    loaded.run({"x": 0x10000, "y": 0x20000})
    assert struct.unpack("<Q", fake.launches[-1].parameters[1]) == (0x20000,)


def test_streams_do_not_share_workspaces(fake: Any) -> None:
    loaded = load()
    loaded.run(POINTERS, stream=1)
    loaded.run(POINTERS, stream=2)
    assert len(fake.live) == 2
    assert fake.launches[1].parameters[0] != fake.launches[3].parameters[0]
    zeroed = [arguments for name, arguments in fake.calls if name == "cuMemsetD8Async"]
    assert [(int(pointer), value, size) for pointer, value, size, _ in zeroed] == [(key, 0, 512) for key in fake.live]
    assert not {int(stream) for *_, stream in zeroed} & {1, 2}, "nothing is recorded where a graph may be captured"
    assert fake.capture_mode.name.endswith("GLOBAL")
    assert fake.count("cuStreamCreate") == fake.count("cuStreamDestroy") == 2
    loaded.close()
    assert not fake.live
    assert fake.count("cuModuleUnload") == 1
    with pytest.raises(TilewrightError, match="closed"):
        loaded.run(POINTERS, stream=1)


def test_the_context_is_entered_only_where_it_is_not_current(fake: Any) -> None:
    loaded = load()
    loaded.run(POINTERS)
    assert fake.stack == []
    fake.stack.append(gpu.open_device().context)
    fake.calls.clear()
    loaded.run(POINTERS)
    assert fake.count("cuCtxPushCurrent") == 0
    assert [name for name, _ in fake.calls] == ["cuCtxGetCurrent", "cuLaunchKernelEx", "cuLaunchKernelEx"]


def test_times_come_from_pairs_of_events(fake: Any) -> None:
    times = load().time(POINTERS, 5, warmups=2, flush_l2=True)
    assert times == [1.0] * 5
    assert len(fake.launches) == 2 * (5 + 2)
    assert fake.count("cuEventDestroy") == 10
    assert fake.count("cuMemsetD8Async") == 5 + 1
    with pytest.raises(TilewrightError, match="measure nothing"):
        load().time(POINTERS, 0)


def test_names_must_be_the_programs(fake: Any) -> None:
    loaded = load()
    with pytest.raises(TilewrightError, match="lacks y and does not know z"):
        loaded.run({"x": 1, "z": 2})
    with pytest.raises(TilewrightError, match="does not know partial"):
        loaded.run({**POINTERS, "partial": 0x30000})
    with pytest.raises(TilewrightError, match="x is null"):
        loaded.run({**POINTERS, "x": 0})
    loaded.run(POINTERS)
    with pytest.raises(TilewrightError, match="does not know z"):
        loaded.run({**POINTERS, "z": 2})
    assert len(fake.launches) == 2


def _with_first(**changes: Any) -> LaunchPlan:
    return dataclasses.replace(PLAN, launches=(dataclasses.replace(PLAN.launches[0], **changes),))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (_with_first(block=(1025, 1, 1)), "1025 threads, and the function allows 1024"),
        (_with_first(dynamic_smem_bytes=232_449), "232449 bytes of shared memory"),
        (_with_first(grid=(3, 1, 1)), "grid's x is no multiple"),
        (_with_first(params=(ScalarParam("i32", 1),)), r"passes parameters of \[4\] bytes.*takes \[4, 128\] or more"),
        (
            _with_first(params=(*PLAN.launches[0].params, ScalarParam("i32", 1))),
            r"passes parameters of \[4, 128, 8, 4\] bytes.*takes \[4, 128, 8\]",
        ),
        (dataclasses.replace(PLAN, launches=()), "no launches"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_at_load(fake: Any, plan: LaunchPlan, message: str) -> None:
    with pytest.raises(TilewrightError, match=message) as caught:
        load(plan)
    assert caught.value.remedy
    assert fake.count("cuModuleLoadData") == fake.count("cuModuleUnload")
    assert fake.stack == []


def test_what_the_gpu_cannot_run_is_refused(fake: Any) -> None:
    with pytest.raises(TilewrightError, match="neither a cubin nor PTX"):
        LoadedPlan(PLAN, b"", target="sm_90a")
    with pytest.raises(TilewrightError, match=r"compiled for sm_100a, and NVIDIA H200 has compute capability 9\.0"):
        load(target="sm_100a")
    assert fake.count("cuModuleLoadData") == 0


def test_driver_errors_say_what_was_attempted(fake: Any) -> None:
    errors = fake.CUresult
    loaded = load()
    fake.fail["cuTensorMapEncodeTiled"] = errors.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(TilewrightError, match="CUDA_ERROR_INVALID_VALUE") as caught:
        loaded.run(POINTERS)
    for piece in ("x of first", "bf16", "0x10000+256", "(64, 32)", "(128,)", "(64, 8)", "(1, 1)", "swizzle 128B"):
        assert piece in caught.value.message
    del fake.fail["cuTensorMapEncodeTiled"]

    fake.fail["cuMemAlloc"] = errors.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(TilewrightError, match=r"512 bytes for workspace partial.*1000 of 2000 bytes are free"):
        loaded.run(POINTERS, stream=9)
    del fake.fail["cuMemAlloc"]

    fake.fail["cuLaunchKernelEx"] = errors.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    with pytest.raises(TilewrightError, match=r"launching first of demo with grid \(4, 1, 1\).*OUT_OF_RESOURCES"):
        loaded.run(POINTERS)

    fake.fail["cuStreamSynchronize"] = errors.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(TilewrightError, match="running demo: CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        loaded.synchronize()
    assert "compute-sanitizer" in caught.value.remedy

    fake.fail["cuStreamSynchronize"] = errors.CUDA_ERROR_NOT_PERMITTED
    with pytest.raises(TilewrightError) as caught:
        loaded.synchronize()
    assert caught.value.remedy == "the driver's own words"
    assert fake.stack == []


def test_a_workspace_that_cannot_be_zeroed_is_freed(fake: Any) -> None:
    fake.fail["cuMemsetD8Async"] = fake.CUresult.CUDA_ERROR_NOT_PERMITTED
    with pytest.raises(TilewrightError, match="zeroing workspace partial of demo: CUDA_ERROR_NOT_PERMITTED"):
        load().run(POINTERS)
    assert not fake.live
    assert fake.count("cuStreamDestroy") == 1
    assert fake.capture_mode.name.endswith("GLOBAL")


def waiting_plan(ctas: int) -> LaunchPlan:
    """Of a kernel whose CTAs wait for one another."""
    second = dataclasses.replace(PLAN.launches[1], grid=(ctas, 1, 1), resident=True)
    return dataclasses.replace(PLAN, launches=(PLAN.launches[0], second))


def test_ctas_that_wait_for_one_another_must_fit_at_once(fake: Any) -> None:
    ctas = 2 * gpu.open_device().sm_count
    fake.resident_ctas = 2
    load(waiting_plan(ctas)).run(POINTERS)
    assert fake.launches[1].grid == (ctas, 1, 1)
    with pytest.raises(TilewrightError, match=f"wait for one another, and .* has room for {ctas}") as caught:
        load(waiting_plan(ctas + 1))
    assert "stream_k" in caught.value.remedy
    assert fake.count("cuModuleUnload") == 1


def test_clusters_that_wait_for_one_another_must_fit_at_once(fake: Any) -> None:
    fake.resident_clusters = 3
    for clusters in (3, 4):
        launch = dataclasses.replace(PLAN.launches[1], grid=(2 * clusters, 1, 1), cluster=(2, 1, 1), resident=True)
        plan = dataclasses.replace(PLAN, launches=(PLAN.launches[0], launch))
        if clusters == 3:
            load(plan)
        else:
            with pytest.raises(TilewrightError, match="has room for 6"):
                load(plan)


def test_a_large_cluster_that_the_device_cannot_hold_is_refused_at_load(fake: Any) -> None:
    fake.resident_clusters = 0
    launch = dataclasses.replace(PLAN.launches[0], grid=(16, 1, 1), cluster=(16, 1, 1))
    with pytest.raises(TilewrightError, match="no room for a cluster of 16") as caught:
        load(dataclasses.replace(PLAN, launches=(launch, PLAN.launches[1])))
    assert "split" in caught.value.remedy
    assert fake.count("cuModuleUnload") == 1


def test_a_grid_whose_ctas_do_not_wait_for_one_another_may_be_larger(fake: Any) -> None:
    fake.resident_ctas = 0
    load().run(POINTERS)
    assert fake.count("cuOccupancyMaxActiveBlocksPerMultiprocessor") == 0


def test_a_missing_entry_unloads_the_module(fake: Any) -> None:
    fake.fail["cuModuleGetFunction"] = fake.CUresult.CUDA_ERROR_NOT_FOUND
    with pytest.raises(TilewrightError, match="looking up first in the module of demo: CUDA_ERROR_NOT_FOUND"):
        load()
    assert fake.count("cuModuleUnload") == 1


@pytest.mark.parametrize(
    ("param", "expected"),
    [
        (ScalarParam("i32", -1), b"\xff" * 4),
        (ScalarParam("i32", 2**32 - 1), b"\xff" * 4),
        (ScalarParam("i64", 2**63), b"\0" * 7 + b"\x80"),
        (ScalarParam("f32", 1), b"\0\0\x80\x3f"),
    ],
)
def test_scalars_are_little_endian(param: ScalarParam, expected: bytes) -> None:
    assert scalar_bytes(param) == expected


@pytest.mark.parametrize(
    "param",
    [ScalarParam("i32", 2**32), ScalarParam("i32", 1.5), ScalarParam("i64", -(2**63) - 1), ScalarParam("f32", 1e39)],
)
def test_scalars_out_of_range_are_refused(param: ScalarParam) -> None:
    with pytest.raises(TilewrightError, match="does not fit"):
        scalar_bytes(param)
