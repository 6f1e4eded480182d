"""`tilewright`: which commands there are, and what every one of them does with errors.

Exit codes: 0 done; 1 something was refuted or did not match; 2 the input or the environment is at fault, with one
message that names the place and the remedy, or this program is (`driver.check.defect`); 3 undecided. With `--format
json` such a message is a JSON object too. A reader of the output that goes away changes none of them (see `streams`).
What is needed to parse arguments is light; what a command needs is imported when it runs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from tilewright import __version__
from tilewright.base.collector import collector_rare
from tilewright.base.error import TilewrightError, Undecided
from tilewright.cli.terminal.streams import OutputLost, lasting_streams
from tilewright.driver.check.defect import defects_as_errors

COMMANDS = {
    "check": "prove or refute the asynchronous protocol of PTX kernels",
    "compile": "compile a tile program to a proven kernel",
    "lower": "lower proven kernels of the ac dialect to PTX",
    "run": "run a compiled program or a PTX kernel on the GPU or on the CPU machine",
    "launch": "write a launch file to fill in, from a kernel's text",
    "capture": "run a program on a GPU and write its kernel launches as launch files",
    "profile": "read the GPU's counters of a compiled program, beside what the model predicted",
    "tensormap": "judge a tensor map, explain it, and find the nearest legal plan",
    "descriptor": "decode, encode and judge the descriptor of a matrix operand in shared memory",
    "roofline": "say what bounds a kernel of a shape, and which tiles could still be quickest",
    "portability": "say for which targets a program compiles, and what is decided for each",
    "schedule": "schedule a loop's tasks, say what bounds it, and draw it",
    "layout": "compute with layouts, compare, convert and draw them",
    "banks": "count wavefronts of shared memory, and find the layout that takes fewest",
    "reduce": "find the smallest kernel that still shows a finding",
    "demo": "the whole path on a real input, with broken variants refuted",
    "explain": "say what a finding's code means, and what fixes it",
    "lsp": "serve findings, explanations and repairs of PTX to an editor",
    "completion": "write what a shell completes",
    "doctor": "list what is installed, what is missing and how to get it",
}


_INVALID_CHOICE = re.compile(r"argument COMMAND: invalid choice: '(?P<given>.*)' \(choose from .*\)", re.DOTALL)
_OPTION = re.compile(r"--[a-z][\w-]*")
_UNRECOGNIZED = re.compile(r"unrecognized arguments: (?P<given>--[\w-]+)")


class Parser(argparse.ArgumentParser):
    """A parser that says which command or option may have been meant. commands: the parsers of its commands, whose
    unknown options it reports."""

    commands: tuple[argparse.ArgumentParser, ...] = ()

    def error(self, message: str) -> NoReturn:
        from difflib import get_close_matches  # of what is mostly right

        command, option = _INVALID_CHOICE.fullmatch(message), _UNRECOGNIZED.match(message)
        if command is not None:
            near = get_close_matches(command["given"], COMMANDS, n=1)
            meant = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(COMMANDS)}"
            message = f"there is no command {command['given']!r}: {meant}"
        elif option is not None:
            known = {name for parser in self.commands for name in _OPTION.findall(parser.format_help())}
            near = get_close_matches(option["given"], sorted(known), n=1)
            message += f": did you mean {near[0]}?" if near else ""
        super().error(message)


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of all commands, or of one alone."""
    parser = Parser(
        prog="tilewright",
        description="Check, compile and run asynchronous GPU kernels, with or without a GPU.",
        epilog="Begin with `tilewright demo`, or with `tilewright check kernel.ptx`. `tilewright COMMAND --help` has "
        "examples. Exit codes: 0 done, 1 refuted or not matching, 2 input or environment at fault, 3 undecided.",
    )
    parser.add_argument("--version", action="version", version=f"tilewright {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items() if only is None else [(only, COMMANDS[only])]:
        module = import_module(f"tilewright.cli.commands.{name}_command")
        command = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        formats: tuple[str, ...] = getattr(module, "FORMATS", ("text", "json"))
        command.add_argument("--format", choices=formats, default="text", help="how to report (default: text)")
        module.add_arguments(command)
        parser.commands += (command,)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    with lasting_streams(), collector_rare():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    try:
        # The modules of the other commands take longer to load than the arguments to parse.
        parsed = build_parser(given[0] if given and given[0] in COMMANDS else None).parse_args(given)
    except SystemExit as ending:  # argparse has said what it had to say
        return ending.code if isinstance(ending.code, int) else 2
    try:
        # An exit code of 1 is a verdict, and what Python ends with after a mistake of ours would be 1.
        with defects_as_errors(f"`tilewright {parsed.command}`"):
            code = int(import_module(f"tilewright.cli.commands.{parsed.command}_command").run(parsed))
        sys.stdout.flush()
        return code
    except TilewrightError as error:
        if parsed.format == "json" and not isinstance(error, OutputLost):
            print(json.dumps(error_to_json(error), indent=2))
        else:
            print(error_text(error), file=sys.stderr)
        if isinstance(error, Undecided):
            return 3
        # An error that carries findings is a check's verdict, not a mistake in the input.
        return 1 if error.findings else 2
    except KeyboardInterrupt:
        print("tilewright: interrupted", file=sys.stderr)
        return 130


def error_text(error: TilewrightError) -> str:
    """One message: what is wrong, the place with its line, findings if a check made them, the remedy."""
    from tilewright.report.text import printable, render_findings, shown

    place = f"{error.span}: " if error.span is not None else ""
    lines = [f"{printable(place)}error: {printable(error.message.splitlines()[0])}"]
    if error.findings:
        lines.append(render_findings(error.findings, limit=3))
    elif error.span is not None and error.span.text.strip():
        lines.append(f"    {shown(error.span.text.strip())}")
    if error.remedy:
        lines.append(f"  help: {printable(error.remedy)}")
    return "\n".join(lines)


def error_to_json(error: TilewrightError) -> dict[str, object]:
    """The same message as a JSON object."""
    from tilewright.report.findings.findings_json import findings_to_json

    return {
        "error": error.message,
        "file": error.span.file if error.span is not None else None,
        "line": error.span.line if error.span is not None else None,
        "remedy": error.remedy,
        "findings": findings_to_json(error.findings),
    }
