"""What the kernels of `fragment_kernels` take and give: launches, inputs, and runs on the CPU machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.fragment_kernels import WIDTH, Shape, kernel_text
from tilewright.cli.main import main

Array = NDArray[Any]
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f8e4m3": ml_dtypes.float8_e4m3fn}
_SWIZZLES = {4: "none", 2: "128B", 1: "64B"}


def inputs_of(shape: Shape) -> dict[str, Array]:
    generator = np.random.default_rng(5)
    wide = (shape.rows, WIDTH)
    sizes = {"a": wide, "b": (WIDTH, WIDTH), "c": wide, "d": (shape.rows,), "e": (WIDTH,)}
    numbers = {name: generator.standard_normal(size) for name, size in sizes.items()}
    return {key: value.astype(ml_dtypes.bfloat16 if key in "ab" else np.float32) for key, value in numbers.items()}


def launch_of(shape: Shape) -> dict[str, Any]:
    size = np.dtype(DTYPES[shape.element]).itemsize
    given = [
        {"kind": "tensormap", "dtype": "bf16", "dims": [64, rows], "box": [64, box], "swizzle": "128B", "buffer": name}
        for name, rows, box in (("a", shape.rows, shape.tile), ("b", 64, 64))
    ]
    given += [
        {"kind": "ptr", "bytes": 4 * count, "buffer": name}
        for name, count in (("c", 64 * shape.rows), ("d", shape.rows), ("e", 64))
    ]
    y: dict[str, Any] = {"kind": "ptr", "bytes": shape.rows * shape.columns * size, "buffer": "y"}
    if shape.store == "staged":
        dims, box = [shape.columns, shape.rows], [WIDTH, shape.m]
        dtype = {"f8e4m3": "u8"}.get(shape.element, shape.element)
        y = {"kind": "tensormap", "dtype": dtype, "dims": dims, "box": box, "swizzle": _SWIZZLES[size], "buffer": "y"}
    dynamic = kernel_text(shape, "").split("dynamic_smem_bytes = ")[1].split(",")[0]
    params = [*given, y, {"kind": "ptr", "bytes": 4 * shape.rows, "buffer": "r"}]
    return {"grid": [1], "block": [128 + 128 * shape.units], "dynamic_smem": int(dynamic), "params": params}


def run_text(
    ptx: str, shape: Shape, inputs: dict[str, Array], folder: Path, *, is_checked: bool = False
) -> dict[str, Array]:
    """y and r of a text, as float64 of y and float32 of r. is_checked: whether the text must be proven, too."""
    (folder / "k.ptx").write_text(ptx, "utf-8")
    (folder / "k.json").write_text(json.dumps(launch_of(shape)), "utf-8")
    np.savez(folder / "in.npz", **{key: value.view(np.uint8).reshape(-1) for key, value in inputs.items()})
    arguments = ["--launch", str(folder / "k.json"), "--inputs", str(folder / "in.npz"), "--on", "cpu"]
    assert main(["run", str(folder / "k.ptx"), *arguments, "--outputs", str(folder / "out.npz")]) == 0
    if is_checked:
        assert main(["check", str(folder / "k.ptx"), "--launch", str(folder / "k.json")]) == 0
    found = np.load(folder / "out.npz")
    y = found["y"].view(DTYPES[shape.element]).reshape(shape.rows, shape.columns)
    return {"y": y.astype(np.float64), "r": found["r"].view(np.float32)}
