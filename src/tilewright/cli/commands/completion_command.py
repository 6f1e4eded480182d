"""`tilewright completion bash`: what a shell completes, written by shtab from the parser itself."""

from __future__ import annotations

import argparse

FORMATS = ("text",)
SHELLS = ("bash", "zsh", "tcsh", "fish", "powershell")
EXAMPLES = """examples:
  tilewright completion bash > ~/.local/share/bash-completion/completions/tilewright
  tilewright completion zsh > ~/.zfunc/_tilewright
  tilewright completion fish > ~/.config/fish/completions/tilewright.fish

It needs the extra: pip install 'tilewright[editor]'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell to write for")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.base.extra import MissingExtra
    from tilewright.cli.main import build_parser

    try:
        import shtab
    except ModuleNotFoundError as error:
        raise MissingExtra("shtab", "completion of commands in a shell") from error
    print(shtab.complete(build_parser(), arguments.shell))
    return 0
