"""`tilewright portability FILE.py:KERNEL`: for which targets does a program compile, and how, side by side?"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError
from tilewright.cli.terminal.repeated_option import Joined

if TYPE_CHECKING:
    from tilewright.base.size import Range
    from tilewright.frontends.tile.kernel import Kernel

FORMATS = ("text", "json")

EXAMPLES = """examples:
  tilewright portability gemm.py:matmul --shape M=4096,N=4096,K=4096
  tilewright portability attention.py:attention --shape B=1,H=8,Q=1024,T=1024,E=64,F=64 --format json
  tilewright portability gemm.py:matmul --shape M=1..8192,N=64,K=64 --dtype f8e4m3
  tilewright portability fused.py --shape B=1,H=8,G=2,Q=1024,T=1024,E=64,F=64

Nothing is compiled: what is decided for each target is shown, or the line that keeps the program from it. A file
without a kernel's name stands for each of its kernels whose axes are given, a line for each. Times are predictions, and
marked as estimates where no device of the target was measured. Exit status 1: some target refuses a program.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "program", metavar="FILE.py[:KERNEL]", help="a kernel declared with @tw.kernel, or a file of such"
    )
    parser.add_argument("--shape", action=Joined, default="", metavar="M=4096,...", help="extent of every axis")
    parser.add_argument("--dtype", action=Joined, default="bf16", metavar="DTYPE", help="as for compile")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.cli.source import load_kernel, load_kernels, parse_dtypes, parse_ranged_shape
    from tilewright.cli.terminal.printing import say
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.views.portability import portability
    from tilewright.report.portability import (
        PortabilityReport,
        portability_lines,
        portability_table,
        portability_to_json,
    )
    from tilewright.targets import COMPILED_TARGET_NAMES
    from tilewright.targets import target as target_named

    dims, dtype = parse_ranged_shape(arguments.shape), parse_dtypes(arguments.dtype)
    whole = ":" not in arguments.program and not arguments.program.endswith(".ptx")
    kernels = load_kernels(arguments.program) if whole else {"": load_kernel(arguments.program)}
    targets = [target_named(name) for name in COMPILED_TARGET_NAMES]
    reports: list[PortabilityReport] = []
    left: list[str] = []
    with Progress(wanted=arguments.format == "text") as progress:
        for kernel in kernels.values():
            missing = [axis for axis in kernel.axes if axis not in dims]
            if whole and missing:
                left.append(f"{kernel.name}: --shape has no {', '.join(missing)}")
                continue
            progress.step(f"deciding {kernel.name} for {len(targets)} targets")
            own = _of_kernel(kernel, dims) if whole else dims
            reports.append(portability(kernel, targets, own, dtype))
    if not reports:
        raise TilewrightError(f"{arguments.program}: {'; '.join(left)}", remedy="give the extents of one kernel's axes")
    if arguments.format == "json":
        listed = [portability_to_json(report) for report in reports]
        print(json.dumps({"programs": listed, "left_out": left} if whole else listed[0], indent=2))
    else:
        first, *rest = portability_table(reports)
        say(first, "bold")
        for line in rest:
            say(line)
        for line in left:
            say(line)
        for report in () if whole else reports:
            for line in portability_lines(report):
                say(line)
    return int(any(row.blocked for report in reports for row in report.rows))


def _of_kernel(kernel: Kernel, dims: dict[str, int | Range]) -> dict[str, int | Range]:
    """The extents of a kernel's axes."""
    return {axis: extent for axis, extent in dims.items() if axis in kernel.axes}
