"""`tilewright run FILE.twb`: a compiled program on random or given arrays, compared with NumPy where that is quick.

`tilewright run FILE.ptx` runs a foreign kernel: see `run_ptx`.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.cli.terminal.finding_flags import add_finding_flags
from tilewright.cli.terminal.option_values import file_name

if TYPE_CHECKING:
    from tilewright.runtime.bundle import Bundle

_COMPARE_LIMIT_OPERATIONS = 1 << 33

ERROR_LIMITS = {
    Element.BF16: 1e-2, Element.F16: 2e-3, Element.F32: 1e-3, Element.F8E4M3: 5e-2, Element.F8E5M2: 1e-1,
    Element.S8: 2e-2,
}  # fmt: skip
"""Relative errors in the Frobenius norm up to which a result matches NumPy, by element of the output: rounding to
8 or 16 bits; for float32 functions of the epilogue (`lower.ptx.numbers.scalar`), and long sums of 8-bit operands that
are left to a GPU's tensor cores."""

EXAMPLES = """examples:
  tilewright run gemm.twb
  tilewright run gemm.twb --on cpu --seed 7
  tilewright run gemm.twb --inputs arrays.npz --outputs result.npz --format json
  tilewright run kernel.ptx --launch launch.json --inputs in.npz --outputs out.npz
  tilewright run kernel.ptx --launch launch.json --on gpu

In .npz files bfloat16 stands as raw uint16, since NumPy has no name for it. A PTX kernel takes and gives raw bytes
(uint8) by the names of its launch file's buffers; inputs that are not given are zero. It runs on the CPU machine unless
--on gpu asks otherwise, and a fault, a race or a hang is reported with its line.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="FILE", help="what `tilewright compile` wrote, or a PTX text")
    parser.add_argument(
        "--launch", type=file_name, metavar="FILE.json", help="how a PTX kernel is launched (docs/launch-file.md)"
    )
    parser.add_argument(
        "--inputs", type=file_name, metavar="IN.npz", help="input arrays by name (default: random; for PTX zeros)"
    )
    parser.add_argument("--outputs", metavar="OUT.npz", help="write the outputs here (of PTX every buffer)")
    parser.add_argument("--on", choices=("auto", "gpu", "cpu"), default="auto", help="where (default: a GPU if any)")
    parser.add_argument(
        "--isa", metavar="INTERPRETATION", help="how PTX is judged, as in `tilewright check` (default: tolerant)"
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="of the random inputs and of the CPU machine's engines"
    )
    add_finding_flags(parser)


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError("a seed is a whole number, 0 or more")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    if arguments.bundle == "-" or Path(arguments.bundle).suffix == ".ptx":
        from tilewright.cli.run_ptx import run_ptx

        return run_ptx(arguments)
    _refuse_options_of_texts(arguments)
    from tilewright.base.run_time import extents_of, plan_at
    from tilewright.cli.arrays import npz_bytes, random_inputs, read_arrays, read_inputs
    from tilewright.cli.terminal.files import require_writable, write_files
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.compile.place import gpu_runs
    from tilewright.driver.run.random_integers import random_integers
    from tilewright.driver.run.run import CompiledKernel, run_on_machine

    bundle = load_bundle(arguments.bundle)
    require_writable((arguments.outputs,), (arguments.bundle, arguments.inputs))
    plan = bundle.plan
    if arguments.inputs and plan.run_time is not None:
        shapes = {name: array.shape for name, array in read_arrays(arguments.inputs).items()}
        plan = plan_at(plan, extents_of(plan, shapes))
    wanted = [buffer for buffer in plan.buffers if buffer.role == "input"]
    if arguments.inputs:
        inputs = read_inputs(arguments.inputs, wanted)
    else:
        inputs = random_inputs(wanted, arguments.seed) | random_integers(bundle, wanted, arguments.seed)
    on_gpu = arguments.on == "gpu" or (arguments.on == "auto" and gpu_runs(bundle.target))
    if not on_gpu:
        require_machine_target(bundle)
    begin = time.perf_counter()
    if on_gpu:
        outputs: Any = CompiledKernel(bundle)(*inputs.values(), on="gpu")
    else:
        with Progress(wanted=arguments.format == "text") as progress:
            progress.step(f"running {bundle.name} on the CPU machine")
            outputs = run_on_machine(bundle, tuple(inputs.values()), seed=arguments.seed, progress=progress.share)
    seconds = time.perf_counter() - begin
    buffers = [buffer for buffer in bundle.plan.buffers if buffer.role == "output"]
    arrays: tuple[Any, ...] = outputs if len(buffers) > 1 else (outputs,)
    results = dict(zip((buffer.name for buffer in buffers), arrays, strict=True))
    written: list[str] = []
    if arguments.outputs:
        stream = BytesIO()
        npz_bytes(stream, results)
        written = write_files({Path(arguments.outputs): stream.getvalue()})
    errors = relative_errors(bundle, inputs, results)
    where = "GPU" if on_gpu else "CPU machine"
    matches = _reported(arguments, bundle, where, seconds, errors, written, nothing=not plan.launches)
    return 1 if matches is False and not arguments.exit_zero else 0


def _refuse_options_of_texts(arguments: argparse.Namespace) -> None:
    if arguments.launch:
        raise TilewrightError("--launch is for PTX texts; a bundle has its launches in it", remedy="leave it out")
    if arguments.isa is not None:
        raise TilewrightError("--isa is for PTX texts; a bundle is proved, and not judged again", remedy="leave it out")
    for name in ("statistics", "show_reviews", "all", "select", "ignore", "allow"):
        if getattr(arguments, name):
            option = f"--{name.replace('_', '-')}"
            raise TilewrightError(
                f"{option} is for the findings of PTX texts; a bundle is not judged again", remedy="leave it out"
            )


def _reported(
    arguments: argparse.Namespace, bundle: Bundle, where: str, seconds: float, errors: dict[str, float] | None,
    written: Sequence[str], *, nothing: bool,
) -> bool | None:  # fmt: skip
    """Whether the results match NumPy's, which is reported; None where they are not compared. nothing: no launch."""
    buffers = [buffer for buffer in bundle.plan.buffers if buffer.role == "output"]
    limits = {buffer.name: ERROR_LIMITS.get(buffer.element, 0.0) for buffer in buffers}
    # An error that is no number does not match.
    matches = None if errors is None else all(error <= limits[name] for name, error in errors.items())
    if arguments.format == "json":
        shown = None if errors is None else {k: v if math.isfinite(v) else None for k, v in errors.items()}
        document = {
            "name": bundle.name,
            "on": where,
            "seconds": seconds,
            "relative_errors": shown,
            "matches": matches,
            "written": written,
        }
        print(json.dumps(document, indent=2, allow_nan=False))
    elif not (arguments.quiet and matches is not False):
        print(f"{bundle.name} on the {where}: {seconds:.2f} s")
        if nothing:
            print("  nothing is launched: no result has an element")
        if errors is None:
            print("  not compared with NumPy: that would take too long")
        for name, error in (errors or {}).items():
            verdict = "matches" if error <= limits[name] else "DOES NOT MATCH"
            print(f"  {name} {verdict} NumPy in float64: relative error {error:.2e} (limit {limits[name]:.0e})")
        for path in written:
            print(f"wrote {path}")
    return matches


def load_bundle(path: str) -> Bundle:
    """The bundle at `path`. Raises TilewrightError; for Python files it says what to give instead."""
    from tilewright.runtime.bundle import load

    suffix = Path(path).suffix
    if suffix == ".py" or ".py:" in path:
        kernel = path if ".py:" in path else f"{path}:KERNEL"
        raise TilewrightError(f"{path} is no bundle", remedy=f"compile it first: tilewright compile {kernel}")
    return load(path)


def require_machine_target(bundle: Bundle) -> None:
    """Raises TilewrightError for a bundle of an architecture that the CPU machine does not know."""
    from tilewright.targets import target

    target(bundle.target)


def relative_errors(bundle: Bundle, inputs: dict[str, Any], results: dict[str, Any]) -> dict[str, float] | None:
    """||result - reference|| / ||reference|| of each output, in float64, where the reference is finite; NaN where an
    infinity or NaN of it is another number in the result. None where NumPy would take too long."""
    text = bundle.facts.get("tile")
    operations = bundle.facts.get("operations", 0)
    if not isinstance(text, str) or not isinstance(operations, int) or operations > _COMPARE_LIMIT_OPERATIONS:
        return None
    import numpy as np
    from xdsl.parser import Parser
    from xdsl.utils.exceptions import ParseError, VerifyException

    from tilewright.frontends.tile.reference import evaluate
    from tilewright.ir import context

    try:
        program = Parser(context(), text).parse_module()
        program.verify()
    except (ParseError, VerifyException) as error:
        raise TilewrightError(
            f"the tile program in {bundle.name} cannot be read, so its result cannot be compared",
            remedy=f"it was written by Tilewright {bundle.tilewright_version}: compile the program again",
        ) from error
    reference = evaluate(program, inputs, np.float64, rounded=False)
    return {name: _relative_error(result.astype(np.float64), reference[name]) for name, result in results.items()}


def _relative_error(result: Any, reference: Any) -> float:
    """||result - reference|| / ||reference|| of the finite elements; NaN where others are not the reference's own."""
    import numpy as np

    finite = np.isfinite(reference)
    if not np.array_equal(result[~finite], reference[~finite], equal_nan=True):
        return math.nan
    scale = float(np.linalg.norm(reference[finite]))
    difference = float(np.linalg.norm(result[finite] - reference[finite]))
    return difference / scale if scale else difference
