"""`tilewright lsp`: PTX in an editor, by the Language Server Protocol over standard input and output."""

from __future__ import annotations

import argparse

FORMATS = ("text",)
EXAMPLES = """examples:
  tilewright lsp                # what an editor runs

An editor starts it; docs/how-to/use-in-an-editor.md says how, for VS Code, Neovim, Helix and Emacs.
It needs the extra: pip install 'tilewright[editor]'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # What editors pass to servers that speak over their standard streams.
    parser.add_argument("--stdio", action="store_true", help="speak over standard input and output, as it does anyway")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.base.extra import MissingExtra

    try:
        from tilewright.cli.editor.language_server import language_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise MissingExtra("pygls", "the language server") from error
    language_server().start_io()
    return 0
