"""`tilewright roofline FILE.py:KERNEL`: what bounds a kernel of a shape, and which tiles could still be quickest?"""

from __future__ import annotations

import argparse
import json

from tilewright.base.error import TilewrightError
from tilewright.cli.terminal.repeated_option import Joined

FORMATS = ("text", "json", "html")

EXAMPLES = """examples:
  tilewright roofline gemm.py:matmul --shape M=4096,N=4096,K=4096
  tilewright roofline gemm.py:matmul --shape M=16,N=14336,K=4096 --format json
  tilewright roofline gemm.py:matmul --shape M=4096,N=4096,K=4096 --tile 128x64 --format html > roofline.html

Nothing is compiled: times are bounds and predictions, from rates of the target that were measured or documented.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="FILE.py:KERNEL", help="a kernel declared with @tw.kernel")
    parser.add_argument("--target", default="sm_90a", help="architecture (default: sm_90a)")
    parser.add_argument("--shape", action=Joined, default="", metavar="M=4096,...", help="extent of every axis")
    parser.add_argument("--dtype", action=Joined, default="bf16", metavar="DTYPE", help="as for compile")
    parser.add_argument("--tile", default="", metavar="128x256", help="fix the tile instead of choosing it")
    parser.add_argument("--stages", type=int, metavar="N", help="fix the number of pipeline stages")


def run(arguments: argparse.Namespace) -> int:
    from tilewright import __version__
    from tilewright.cli.source import load_kernel, parse_dtypes, parse_shape, parse_tile
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.views.roofline import kernel_roofline
    from tilewright.report.roofline import roofline_lines, roofline_page, roofline_to_json
    from tilewright.synth.tile.wanted import Wanted
    from tilewright.targets import target as target_named

    facts = target_named(arguments.target)
    if not facts.supports("wgmma"):
        raise TilewrightError(f"no rates are known for {arguments.target}", remedy="use --target sm_90a")
    wanted = Wanted(parse_tile(arguments.tile), arguments.stages)
    kernel = load_kernel(arguments.program)
    dims, dtype = parse_shape(arguments.shape), parse_dtypes(arguments.dtype)
    with Progress(wanted=arguments.format == "text") as progress:
        progress.step(f"predicting the tiles of {kernel.name}")
        report = kernel_roofline(kernel, facts, dims, dtype, wanted)
    match arguments.format:
        case "json":
            print(json.dumps(roofline_to_json(report), indent=2))
        case "html":
            from tilewright.report.html import render_page

            print(render_page(roofline_page(report, f"Tilewright {__version__}")))
        case _:
            from tilewright.cli.terminal.printing import say

            first, *rest = roofline_lines(report)
            say(first, "bold")
            for line in rest:
                say(line)
    return 0
