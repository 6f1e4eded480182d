"""`tilewright`: which commands there are, and what every one of them does with errors.

Exit codes: 0 done; 1 something was refuted or did not match; 2 the input or the environment is at fault, with one message
that names the place and the remedy; 3 undecided. Each command's module is imported only when it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from tilewright import __version__
from tilewright.base.error import TilewrightError

_COMMANDS = {
    "compile": "compile a tile program to a proven kernel",
    "run": "run a compiled program on the GPU or on the CPU machine",
    "explain": "say what a finding's code means, and what mends it",
    "doctor": "list what is installed, what is missing and how to get it",
    "demo": "the whole path on a real input, with a broken variant refuted",
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="tilewright",
        description="Compile tile programs to proven asynchronous GPU kernels, and run them with or without a GPU.",
        epilog="Exit codes: 0 done, 1 refuted or not matching, 2 input or environment at fault, 3 undecided.",
    )
    parser.add_argument("--version", action="version", version=f"tilewright {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        import_module(f"tilewright.cli.{name}_command").add_arguments(command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    parsed = build_parser().parse_args(arguments)
    try:
        return int(import_module(f"tilewright.cli.{parsed.command}_command").run(parsed))
    except TilewrightError as error:
        print_error(error)
        return 2
    except KeyboardInterrupt:
        print("tilewright: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away; keep the interpreter from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def print_error(error: TilewrightError) -> None:
    """One message: place, what is wrong, the line, the remedy."""
    place = f"{error.span}: " if error.span is not None else ""
    print(f"{place}error: {error.message}", file=sys.stderr)
    if error.span is not None and error.span.text.strip():
        print(f"    {error.span.text.strip()}", file=sys.stderr)
    for finding in error.findings[1:]:
        print(f"  also: {finding.code} {finding.message}", file=sys.stderr)
    if error.remedy:
        print(f"  help: {error.remedy}", file=sys.stderr)
