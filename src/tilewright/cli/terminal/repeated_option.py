"""Options that hold a list and may be given several times: `--shape M=64 --shape N=64` is `--shape M=64,N=64`.

What the list says, `cli.source` reads; this module loads nothing. Checked by: tests/cli/terminal.
"""

from __future__ import annotations

import argparse


class Joined(argparse.Action):
    """All that was given, comma by comma; the default where nothing was."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        given = getattr(namespace, self.dest)
        setattr(namespace, self.dest, f"{values}" if given == self.default else f"{given},{values}")
