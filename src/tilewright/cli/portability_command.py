"""`tilewright portability FILE.py:KERNEL`: for which targets does a program compile, and how, side by side?"""

from __future__ import annotations

import argparse
import json

from tilewright.cli.terminal.repeated_option import Joined

FORMATS = ("text", "json")

EXAMPLES = """examples:
  tilewright portability gemm.py:matmul --shape M=4096,N=4096,K=4096
  tilewright portability attention.py:attention --shape B=1,H=8,Q=1024,T=1024,E=64,F=64 --format json
  tilewright portability gemm.py:matmul --shape M=64,N=64,K=64 --dtype f8e4m3

Nothing is compiled: what is decided for each target is shown, or the line that keeps the program from it. Times are
predictions, and marked as estimates where no device of the target was measured. Exit status 1: some target refuses it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="FILE.py:KERNEL", help="a kernel declared with @tw.kernel")
    parser.add_argument("--shape", action=Joined, default="", metavar="M=4096,...", help="extent of every axis")
    parser.add_argument("--dtype", action=Joined, default="bf16", metavar="DTYPE", help="as for compile")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.cli.source import load_kernel, parse_dtypes, parse_shape
    from tilewright.cli.terminal.printing import say
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.views.portability import portability
    from tilewright.report.portability import portability_lines, portability_to_json
    from tilewright.targets import TARGET_NAMES
    from tilewright.targets import target as target_named

    kernel = load_kernel(arguments.program)
    dims, dtype = parse_shape(arguments.shape), parse_dtypes(arguments.dtype)
    with Progress(wanted=arguments.format == "text") as progress:
        progress.step(f"deciding {kernel.name} for {len(TARGET_NAMES)} targets")
        report = portability(kernel, [target_named(name) for name in TARGET_NAMES], dims, dtype)
    if arguments.format == "json":
        print(json.dumps(portability_to_json(report), indent=2))
    else:
        first, *rest = portability_lines(report)
        say(first, "bold")
        for line in rest:
            say(line)
    return int(any(row.blocked for row in report.rows))
