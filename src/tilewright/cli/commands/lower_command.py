"""`tilewright lower kernel.ac.mlir`: PTX of kernels in the `ac` dialect, once they are proven.

Exit codes: 0 lowered; 1 a kernel is refuted, 3 one is not proven: then nothing is written, and the findings stand on
standard error; 2 where the text can't be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.base.check_report import FileReport

EXAMPLES = """examples:
  tilewright lower kernel.ac.mlir                       # to standard output
  tilewright lower kernel.ac.mlir -o kernel.ptx
  tilewright lower kernel.ac.mlir --target sm_90a       # where the text names no target
  tilewright compile gemm.py:matmul --shape M=4096,N=4096,K=4096 --emit ac && tilewright lower matmul.ac.mlir

What is not proven is not lowered: exit code 1 where a kernel is refuted, 3 where the proof does not decide. `tilewright
check` shows the same findings, in more formats, and proves the PTX as well. docs/how-to/write-an-ac-kernel.md begins
with a small kernel.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="FILE.ac.mlir", help="kernels in the ac dialect, or - for standard input")
    parser.add_argument("--entry", metavar="NAME", help="lower this kernel alone")
    parser.add_argument("--target", metavar="ARCH", help="where the text names none (sm_90a)")
    parser.add_argument("-o", "--output", metavar="FILE.ptx", help="write the PTX here instead of to standard output")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.base.check_report import exit_code
    from tilewright.cli.terminal.files import require_writable, write_files
    from tilewright.driver.check.sources.text_file import read_given
    from tilewright.driver.compile.lower_text import lower_text

    require_writable((arguments.output,), (arguments.path,))
    text, file = read_given(arguments.path)
    lowered = lower_text(text, file, entry=arguments.entry, target=arguments.target)
    if lowered.ptx is None:
        _refuse(lowered.report, arguments.format)
        # A proof except for what is set aside is no proof to lower by.
        return exit_code((lowered.report,)) or 3
    contents = {Path(arguments.output): lowered.ptx.encode("utf-8")} if arguments.output else {}
    written = write_files(contents)
    if arguments.format == "json":
        kernels = [{"name": each.name, "target": each.target, "claims": list(each.claims)} for each in
                   lowered.report.kernels]  # fmt: skip
        print(json.dumps({"kernels": kernels, "written": written, "ptx": lowered.ptx}, indent=2))
    elif arguments.output:
        for kernel in lowered.report.kernels:
            print(f"{kernel.name} ({kernel.target}): {kernel.verdict_words}")
        print(f"wrote {written[0]}")
    else:
        print(lowered.ptx, end="")
    return 0


def _refuse(report: FileReport, form: str) -> None:
    """Why nothing is lowered."""
    from tilewright import __version__
    from tilewright.report.findings.check_json import check_to_json
    from tilewright.report.findings.check_text import render_check

    if form == "json":
        print(json.dumps(check_to_json((report,), tool=f"tilewright {__version__}"), indent=2))
        return
    print(render_check((report,)), file=sys.stderr)
    if not report.error:
        print("nothing is lowered: what is not proven stays a text", file=sys.stderr)
