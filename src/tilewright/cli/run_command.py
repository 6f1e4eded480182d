"""`tilewright run FILE.twb`: a compiled program on random or given arrays, compared with NumPy where it is small enough."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.base.error import TilewrightError

_COMPARE_LIMIT_OPERATIONS = 1 << 33


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="FILE.twb", help="what `tilewright compile` wrote")
    parser.add_argument("--inputs", metavar="IN.npz", help="input arrays by parameter name (default: random)")
    parser.add_argument("--outputs", metavar="OUT.npz", help="write the outputs here, 16-bit floats as raw uint16")
    parser.add_argument("--on", choices=("auto", "gpu", "cpu"), default="auto", help="where to run (default: a GPU if any)")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs and of the CPU machine's engines")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to report (default: text)")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.driver.run import CompiledKernel, run_on_machine
    from tilewright.runtime.bundle import load
    from tilewright.runtime.device import probe_libcuda

    bundle = load(arguments.bundle)
    inputs = _inputs(bundle, arguments.inputs, arguments.seed)
    on_gpu = arguments.on == "gpu" or (arguments.on == "auto" and probe_libcuda() is None)
    begin = time.perf_counter()
    if on_gpu:
        outputs: Any = CompiledKernel(bundle)(*inputs.values(), on="gpu")
    else:
        show = _progress if sys.stderr.isatty() and arguments.format == "text" else None
        outputs = run_on_machine(bundle, tuple(inputs.values()), seed=arguments.seed, progress=show)
        if show is not None:
            print("\r\033[K", end="", file=sys.stderr)
    seconds = time.perf_counter() - begin
    names = [buffer.name for buffer in bundle.plan.buffers if buffer.role == "output"]
    results = dict(zip(names, outputs if isinstance(outputs, tuple) else (outputs,), strict=True))
    if arguments.outputs:
        _save(Path(arguments.outputs), results)
    error = _relative_error(bundle, inputs, results)
    where = "GPU" if on_gpu else "CPU machine"
    if arguments.format == "json":
        print(json.dumps({"name": bundle.name, "on": where, "seconds": seconds, "relative_error": error}))
    else:
        compared = "not compared (too large)" if error is None else f"relative error against float64 NumPy {error:.2e}"
        print(f"{bundle.name} on the {where}: {seconds:.2f} s, {compared}")
    return 1 if error is not None and not error < 1e-2 else 0


def _progress(share: float) -> None:
    print(f"\r\033[Krunning on the CPU machine: {100 * share:.0f} %", end="", file=sys.stderr, flush=True)


def _inputs(bundle: Any, path: str | None, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    from tilewright.runtime.arrays import numpy_dtype

    wanted = [buffer for buffer in bundle.plan.buffers if buffer.role == "input"]
    random = np.random.default_rng(seed)
    if path is None:
        return {item.name: random.standard_normal(item.shape).astype(numpy_dtype(item.element)) for item in wanted}
    try:
        with np.load(path) as archive:
            given = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError) as error:
        raise TilewrightError(f"cannot read {path}: {error}", remedy="give an .npz of arrays by parameter name") from error
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for buffer in wanted:
        if buffer.name not in given:
            raise TilewrightError(
                f"{path} has no array {buffer.name}", remedy=f"it needs {', '.join(item.name for item in wanted)}"
            )
        array, dtype = given[buffer.name], numpy_dtype(buffer.element)
        # NumPy files cannot name bfloat16: raw 16-bit images stand for it.
        arrays[buffer.name] = array.view(dtype) if array.dtype == np.uint16 and dtype.itemsize == 2 else array.astype(dtype)
    return arrays


def _save(path: Path, results: dict[str, np.ndarray[Any, Any]]) -> None:
    raw = {name: array.view(np.uint16) if array.dtype.itemsize == 2 else array for name, array in results.items()}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.npz")
    try:
        np.savez(temporary, **raw)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise TilewrightError(f"cannot write {path}: {error.strerror}", remedy="choose another --outputs") from error


def _relative_error(bundle: Any, inputs: dict[str, Any], results: dict[str, Any]) -> float | None:
    """||result - reference|| / ||reference|| over all outputs, in float64; None where the reference would take too long."""
    text = bundle.facts.get("tile")
    operations = bundle.facts.get("operations", 0)
    if not isinstance(text, str) or not isinstance(operations, int) or operations > _COMPARE_LIMIT_OPERATIONS:
        return None
    from xdsl.parser import Parser

    from tilewright.frontends.tile.reference import evaluate
    from tilewright.ir import context

    reference = evaluate(Parser(context(), text).parse_module(), inputs, np.float64, rounded=False)
    difference = sum(float(np.sum((results[name].astype(np.float64) - reference[name]) ** 2)) for name in results)
    scale = sum(float(np.sum(reference[name] ** 2)) for name in results)
    return (difference / scale) ** 0.5 if scale else difference**0.5
