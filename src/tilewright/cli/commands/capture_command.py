"""`tilewright capture -- COMMAND`: run a program on a GPU and write its kernel launches as launch files."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    from tilewright.driver.capture.convert import Capture, CapturedKernel

DEFAULT_BUFFER_BYTES = 64 << 20
MOST_BUFFER_BYTES = 1 << 28
"""Of a buffer whose contents a launch file may give."""
_SHOWN = 12

EXAMPLES = """examples:
  tilewright capture -- python train.py
  tilewright capture -o gemm --kernel gemm -- ./a.out 4096 4096 4096
  tilewright capture --buffers=16M --limit 4 -- python attention.py
  tilewright check captured/gemm.ptx --launch captured/gemm.1.launch.json

The program runs as it would without, and its exit code is passed on. The summary goes to standard error. A kernel's PTX
is taken from what the program loads (PTX, or a fat binary that has it), and from the folders where Triton keeps its
own; --texts names more folders.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="FOLDER", help="write here (default: captured, captured-2, ...)")
    parser.add_argument(
        "--buffers",
        metavar="BYTES",
        nargs="?",
        type=_bytes,
        const=DEFAULT_BUFFER_BYTES,
        default=0,
        help="save the contents of buffers before each launch, up to BYTES each (default: 64M, at most 256M)",
    )
    parser.add_argument(
        "--limit", metavar="N", type=_count, default=16, help="different launches of one kernel (default: 16; 0: all)"
    )
    parser.add_argument("--kernel", metavar="PATTERN", default="", help="only kernels whose names have or match this")
    parser.add_argument(
        "--texts", metavar="FOLDER", action="append", default=[], help="look for PTX of kernels loaded as cubins here"
    )
    parser.add_argument("--shim", metavar="FILE.so", help="the library to preload, compiled elsewhere")
    parser.add_argument("program", metavar="COMMAND", nargs=argparse.REMAINDER, help="the program and its arguments")


def _bytes(text: str) -> int:
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].isalpha() else (text, "")
    if not (number.isascii() and number.isdigit()) or unit not in ("", "K", "M", "G"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes; write 65536, 64K, 16M or 1G")
    count = int(number) << {"": 0, "K": 10, "M": 20, "G": 30}[unit]
    if count > MOST_BUFFER_BYTES:
        raise argparse.ArgumentTypeError(f"{text} is too much: launch files hold buffers of up to 256M")
    return count


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError("a limit is a whole number, 0 or more")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    from tilewright.driver.capture.run import CaptureOptions, capture, capture_folder

    command = list(arguments.program)
    if command[:1] == ["--"]:
        del command[0]
    if not command:
        raise TilewrightError("there is no command to run", remedy="write it last: tilewright capture -- python x.py")
    for folder in arguments.texts:
        if not Path(folder).is_dir():
            raise TilewrightError(f"there is no folder {folder}", remedy="check the path after --texts")
    options = CaptureOptions(
        arguments.limit,
        arguments.buffers,
        arguments.kernel,
        tuple(map(Path, arguments.texts)),
        Path(arguments.shim) if arguments.shim else None,
    )
    code, found = capture(command, capture_folder(arguments.output), options)
    if arguments.format == "json":
        print(json.dumps({"exit_code": code, **found.to_json()}, indent=2))
    else:
        print("\n".join(summary(found)), file=sys.stderr)
    return code


def summary(found: Capture) -> list[str]:
    """What was captured, in lines."""
    from tilewright.report.text import printable

    checkable = [kernel for kernel in found.kernels if kernel.launches]
    others = [kernel for kernel in found.kernels if not kernel.launches]
    if not found.kernels:
        where = "no process used the CUDA driver through its shared library" if not found.programs else "none was made"
        return [f"captured no launch: {where}", *map(printable, found.notes)]
    files = sum(len(kernel.launches) for kernel in checkable)
    launches = sum(kernel.count for kernel in found.kernels)
    lines = [
        f"captured {_count_of(len(found.kernels), 'kernel')} and {_count_of(launches, 'launch')} in {found.folder}: "
        f"{_count_of(files, 'launch file')} of {_count_of(len(checkable), 'kernel')}"
    ]
    for kernel in checkable[:_SHOWN]:
        first = kernel.launches[0].file
        lines.append(
            f"  tilewright check {found.folder / (kernel.text or '')} --launch {found.folder / first}"
            f"    # {_count_of(len(kernel.launches), 'launch file')} of {_count_of(kernel.count, 'launch')}"
        )
    if len(checkable) > _SHOWN:
        lines.append(f"  and {len(checkable) - _SHOWN} more kernels: see {found.folder / 'capture.json'}")
    lines += _without_files(others)
    over = sum(kernel.over for kernel in found.kernels)
    if over:
        lines.append(f"{_count_of(over, 'launch')} beyond the limit (--limit) left no file")
    for kernel in checkable:
        for reason, count in kernel.unusable.items():
            lines.append(f"{_count_of(count, 'launch')} of {kernel.entry[:60]} without a file: {reason}")
    return [*lines, *map(printable, found.notes)]


def _without_files(kernels: list[CapturedKernel]) -> list[str]:
    """Kernels that have no launch file, by reason."""
    by_reason: dict[str, list[str]] = {}
    for kernel in kernels:
        by_reason.setdefault(kernel.reason or next(iter(kernel.unusable), ""), []).append(kernel.entry[:60])
    return [
        f"{_count_of(len(names), 'kernel')} without a launch file: {reason}: {', '.join(names[:3])}"
        + (", ..." if len(names) > 3 else "")
        for reason, names in by_reason.items()
    ]


def _count_of(count: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"
