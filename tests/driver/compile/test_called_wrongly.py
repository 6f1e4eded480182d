"""What is not as annotations say is one error with a remedy, before anything is compiled or run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.end_to_end.kernels import elementwise, matmul

import tilewright as tw


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tile": 5}, "tile is 5"),
        ({"tile": (64.0, 64.0)}, "tile is"),
        ({"tile": (64, 64, 64)}, "tile is"),
        ({"tile": "64x64"}, "tile is '64x64'"),
        ({"cluster": (True, 1)}, "cluster is"),
        ({"stages": "3"}, "stages is '3'"),
        ({"stages": 2.5}, "stages is 2.5"),
        ({"target": 9}, "target is 9"),
        ({"dtype": ["bf16"]}, r"unknown dtype \['bf16'\]"),
        ({"dtype": {"x": 16}}, "unknown dtype 16"),
        ({"strides": [(8, 1)]}, "strides is"),
        ({"strides": {("x",): (8, 1)}}, "no parameter"),
    ],
)
def test_what_is_wished_has_its_type(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(tw.TilewrightError, match=message) as caught:
        tw.compile(elementwise, M=8, N=8, **arguments)
    assert caught.value.remedy


def test_numbers_and_elements_of_numpy() -> None:
    wanted = tw.compile(elementwise, M=8, N=8, dtype="f16").bundle.plan
    arguments: Any = {"M": np.int64(8), "N": np.int32(8), "dtype": np.dtype("float16")}
    assert tw.compile(elementwise, **arguments).bundle.plan == wanted
    by_parameter: Any = {"x": np.float16, "y": "float16", "z": "f16"}
    assert tw.compile(elementwise, M=8, N=8, dtype=by_parameter).bundle.plan == wanted


def test_wishes_about_a_product_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    with pytest.raises(tw.TilewrightError, match="elementwise has no product"):
        tw.compile(elementwise, M=8, N=8, stages=3)


@pytest.mark.parametrize("rows", [128, 130])
def test_wishes_about_a_product(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, and behind a kernel that copies an operand."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    compiled = tw.compile(matmul, M=128, N=rows, K=128, tile=(64, 64), stages=3)
    programs: Any = compiled.bundle.decisions.get("programs", [compiled.bundle.decisions])
    assert (programs[-1]["unit_rows"], programs[-1]["tile_columns"]) == (64, 64)
    assert {slot["slots"] for slot in programs[-1]["slots"]} == {3}


def test_a_function_is_no_kernel() -> None:
    with pytest.raises(tw.TilewrightError, match="function is no kernel") as caught:
        tw.compile(lambda x: x, M=8)  # pyright: ignore[reportArgumentType]
    assert "@tw.kernel" in caught.value.remedy


def test_calls_that_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    compiled: Any = tw.compile(elementwise, M=8, N=8, dtype="f32")
    x = np.ones((8, 8), np.float32)
    out = np.zeros((8, 8), np.float32)
    out.setflags(write=False)
    for arguments, message in (
        ({"on": "tpu"}, "nothing runs on 'tpu'"),
        ({"out": out}, "z is read-only"),
        ({"out": (out, out)}, "out has 2 arrays for 1"),
        ({"out": 3}, "z is int, no array"),
    ):
        with pytest.raises(tw.TilewrightError, match=message) as caught:
            compiled(x, x[0], **arguments)
        assert caught.value.remedy
    assert (out == 0).all()
