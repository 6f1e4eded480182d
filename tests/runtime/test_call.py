"""A program called with arrays: compared with what it was compiled for, and copied to the GPU and back if NumPy's."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer, Launch, LaunchPlan, LaunchSizes, PointerParam, RunTimeSizes
from tilewright.base.size import Extent, Range
from tilewright.runtime.arrays import ArrayView
from tilewright.runtime.bundle import Bundle
from tilewright.runtime.call import Program, layout_of, require_match, same_device

ROWS, COLUMNS, PITCH = 3, 4, 6
X = Buffer("x", Element.BF16, (ROWS, COLUMNS), (PITCH, 1), "input")
Y = Buffer("y", Element.BF16, (ROWS, COLUMNS), (1, ROWS), "output")
PLAN = LaunchPlan((X, Y), (Launch("k", (1, 1, 1), (32, 1, 1), (PointerParam("x"), PointerParam("y"))),))
PROGRAM = Bundle("double", "sm_90a", PLAN, ptx=".version 8.0\n")


def doubling(launched: Any) -> None:
    """What the kernel would do: y = y + 2 * x, in the plan's layouts."""
    x, y = (struct.unpack("<Q", value)[0] for value in launched.parameters)
    kind = np.dtype(ml_dtypes.bfloat16)
    for row in range(ROWS):
        for column in range(COLUMNS):
            source = np.frombuffer(ctypes.string_at(x + 2 * (row * PITCH + column), 2), kind)[0]
            address = y + 2 * (row + column * ROWS)
            before = np.frombuffer(ctypes.string_at(address, 2), kind)[0]
            ctypes.memmove(address, kind.type(before + 2 * source).tobytes(), 2)


@pytest.fixture
def fake(record: Callable[..., Any]) -> Any:
    return record({"k": [8, 8]}, doubling)


def values() -> np.ndarray[Any, Any]:
    return np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS).astype(ml_dtypes.bfloat16)


def test_numpy_arrays_go_over_and_come_back(fake: Any) -> None:
    program = Program(PROGRAM)
    y = program(values())
    assert y.dtype == np.dtype(ml_dtypes.bfloat16)
    assert np.array_equal(y.astype(float), 2 * values().astype(float))
    program(values())
    assert fake.count("cuModuleLoadData") == 1
    assert not fake.live, "copies are freed"


def test_arrays_say_the_extents_of_run_time_axes(record: Callable[..., Any]) -> None:
    grids: list[tuple[int, int, int]] = []
    fake = record({"k": [8, 8]}, lambda launched: grids.append(launched.grid))
    launch = Launch("k", (8, 1, 1), (32, 1, 1), (PointerParam("x"), PointerParam("y")))
    sizes = RunTimeSizes((("M", Range(0, 8)),), ((Extent("M"), 4),) * 2, (LaunchSizes((Extent("M"), 1, 1), ((), ())),))
    plan = LaunchPlan(
        (Buffer("x", Element.BF16, (8, 4), (4, 1), "input"), Buffer("y", Element.BF16, (8, 4), (4, 1), "output")),
        (launch,),
        sizes,
    )
    program = Program(Bundle("k", "sm_90a", plan, ptx=".version 8.0\n"))
    for rows in (3, 0, 8):
        assert program(np.zeros((rows, 4), ml_dtypes.bfloat16)).shape == (rows, 4)
    assert grids == [(3, 1, 1), (8, 1, 1)] and fake.count("cuModuleLoadData") == 1
    assert not fake.live
    for shape, words in (((9, 4), "axis M is 9"), ((3, 5), "has shape"), ((3,), "compiled for (M, 4)")):
        with pytest.raises(TilewrightError) as caught:
            program(np.zeros(shape, ml_dtypes.bfloat16))
        assert words in caught.value.message
    with pytest.raises(TilewrightError, match="axis M is 3 in x and 2 in y"):
        program(np.zeros((3, 4), ml_dtypes.bfloat16), out=np.zeros((2, 4), ml_dtypes.bfloat16))


def test_any_numpy_layout_is_taken(fake: Any) -> None:
    x = np.zeros((COLUMNS, 2 * ROWS), ml_dtypes.bfloat16)
    x.T[::-2] = values()
    out = np.ones((ROWS, 2 * COLUMNS), ml_dtypes.bfloat16)[:, ::2]
    assert Program(PROGRAM)(x.T[::-2], out=out) is out
    assert np.array_equal(out.astype(float), 1 + 2 * values().astype(float)), "what out held was there to be read"


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_elements_of_a_buffer_are_seen_whatever_their_dtype(name: str) -> None:
    """NumPy does not read again what it writes of some dtypes as text."""
    flat = np.arange(12).astype(getattr(ml_dtypes, name))
    seen = layout_of(flat, Buffer("x", Element.U8, (2, 3), (6, 2), "input"))
    assert seen.dtype == flat.dtype and np.shares_memory(seen, flat)
    assert np.array_equal(seen.astype(float), [[0, 2, 4], [6, 8, 10]])


def test_copies_are_freed_when_the_kernel_faults(fake: Any) -> None:
    fake.fail["cuStreamSynchronize"] = fake.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(TilewrightError, match="running double: CUDA_ERROR_ILLEGAL_ADDRESS"):
        Program(PROGRAM)(values())
    assert not fake.live


@pytest.mark.parametrize(
    ("arguments", "out", "message"),
    [
        ((), None, "takes 1 arrays and got 0"),
        ((values(), values()), None, "takes 1 arrays and got 2"),
        ((values(),), (values(), values()), "writes 1 arrays and got 2"),
        ((values().T,), None, r"x has shape \(4, 3\)"),
        ((values().astype(np.float32),), None, "x has elements f32; the program was compiled for bf16"),
        ((values(),), np.zeros((ROWS, COLUMNS), np.float16), "y has elements f16"),
        ((values(),), np.broadcast_to(values()[:1], (ROWS, COLUMNS)), "y is read-only"),
        (([1, 2],), None, "x is list"),
    ],
)
def test_other_arrays_are_refused_before_anything_runs(
    fake: Any, arguments: tuple[object, ...], out: object, message: str
) -> None:
    with pytest.raises(TilewrightError, match=message):
        Program(PROGRAM)(*arguments, out=out)
    assert not fake.launches


def on_gpu(shape: tuple[int, ...], strides: tuple[int, ...], ordinal: int = 0) -> ArrayView:
    return ArrayView(0x1000, shape, strides, Element.BF16, "cuda", ordinal, True, "torch", None)


def test_strides_matter_on_the_gpu_except_along_one() -> None:
    require_match(on_gpu((ROWS, COLUMNS), (PITCH, 1)), X)
    with pytest.raises(TilewrightError, match=r"strides \(4, 1\); the program was compiled for \(6, 1\)"):
        require_match(on_gpu((ROWS, COLUMNS), (COLUMNS, 1)), X)
    require_match(on_gpu((1, 8), (999, 1)), Buffer("x", Element.BF16, (1, 8), (8, 1), "input"))
    require_match(on_gpu((0, 8), (999, 7)), Buffer("x", Element.BF16, (0, 8), (8, 1), "input"))


def test_arrays_share_one_device() -> None:
    views = [on_gpu((1,), (1,), 1), on_gpu((1,), (1,), 1)]
    assert same_device(views, (X, Y)) == 1
    with pytest.raises(TilewrightError, match="x is on cuda:1 and y on cuda:0"):
        same_device([views[0], on_gpu((1,), (1,), 0)], (X, Y))
