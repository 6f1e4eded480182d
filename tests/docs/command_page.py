"""The page docs/reference/commands.md, made from the parsers of the command line: `python -m tests.docs.command_page`
writes it anew."""

from __future__ import annotations

import argparse
import os
from unittest import mock

from tests.docs.pages import ROOT

from tilewright.cli.main import build_parser

PAGE = ROOT / "docs" / "reference" / "commands.md"
_COLUMNS = "100"
_HEAD = """\
# Commands

What `tilewright COMMAND --help` prints, of every command. Exit codes: 0 done, 1 refuted or not matching, 2 input or
environment at fault, 3 undecided.

This page is made from the parsers by `python -m tests.docs.command_page`.
"""


def page() -> str:
    """The page as Markdown: a heading and the help for each command, in the order of `tilewright --help`."""
    lines = [_HEAD]
    with mock.patch.dict(os.environ, {"COLUMNS": _COLUMNS, "NO_COLOR": "1"}):
        for name, parser in commands().items():
            lines += [f"## {name}", "", "```text", parser.format_help().rstrip(), "```", ""]
    return "\n".join(lines)


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command; of `layout equal` and its like, too, under both words."""
    return _below(build_parser(), "")


def _below(parser: argparse.ArgumentParser, prefix: str) -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                found[f"{prefix}{name}"] = child
                found |= _below(child, f"{prefix}{name} ")
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
