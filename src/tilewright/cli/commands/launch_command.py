"""`tilewright launch kernel.ptx`: write a launch file to fill in, from the text and from what exploration finds.

Exit codes: 0 written; 2 where the text can't be read, or the file can't be written. What the exploration shows is said
on standard error; it does not change the exit code, since `check` is what decides.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

EXAMPLES = """examples:
  tilewright launch kernel.ptx                          # to standard output
  tilewright launch kernel.ptx --output kernel.launch.json
  tilewright launch kernels.ptx --entry matmul --block 128 --cluster 2
  tilewright launch kernel.ptx --blank                  # explore nothing

`tilewright check FOLDER` uses kernel.launch.json where it lies beside kernel.ptx. docs/launch-file.md has the
format. `tilewright capture` records launches of a program that runs on a GPU.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from tilewright.cli.terminal.option_values import extents, seconds

    parser.add_argument("path", metavar="FILE", help="a PTX file, or - for standard input")
    parser.add_argument("--entry", metavar="NAME", help="the kernel; needed where the text has several")
    for name, what in (("block", "threads of a block"), ("cluster", "CTAs of a cluster"), ("grid", "CTAs of the grid")):
        parser.add_argument(f"--{name}", type=extents, default=None, metavar="X[,Y,Z]", help=what)
    parser.add_argument("--blank", action="store_true", help="leave open what the text does not say")
    parser.add_argument("--output", metavar="FILE.json", help="write the file here instead of to standard output")
    parser.add_argument(
        "--budget", type=seconds, default=60.0, metavar="SECONDS", help="time for the exploration (default: 60)"
    )


def run(arguments: argparse.Namespace) -> int:
    from tilewright.cli.terminal.files import require_writable, write_files
    from tilewright.cli.terminal.progress import Progress
    from tilewright.driver.check.sources.text_file import read_given
    from tilewright.driver.explore.example_launch import example_launch
    from tilewright.driver.launch.launch_shapes import GivenShape

    require_writable((arguments.output,), (arguments.path,))
    text, file = read_given(arguments.path)
    shape = GivenShape(arguments.block, arguments.cluster, arguments.grid)
    with Progress() as progress:
        progress.step(f"looking for a launch of {arguments.path}")
        found = example_launch(
            text, file, entry=arguments.entry, shape=shape,
            seconds=0.0 if arguments.blank else arguments.budget, progress=progress.share,
        )  # fmt: skip
    content = _written(found.document)
    if arguments.output:
        write_files({Path(arguments.output): content.encode("utf-8")})
    else:
        print(content, end="")
    print(found.said, file=sys.stderr)
    return 0


def _written(document: Mapping[str, object]) -> str:
    """The JSON text, with each list of numbers on one line."""
    text = json.dumps(document, indent=2)
    return re.sub(r"\[\s+([-\d,\s]+?)\s+\]", lambda each: f"[{' '.join(each[1].split())}]", text) + "\n"
