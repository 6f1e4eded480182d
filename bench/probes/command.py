"""The command line of a probe: it measures, prints while it does, and writes what it found as JSON where asked to.

Not handled: probes with options of their own. Checked by: tests/benchmarks/test_probe_command.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tilewright.base.error import TilewrightError


def run_probe(
    name: str, description: str, measure: Callable[[], Mapping[str, object]], words: Sequence[str] | None = None
) -> int:
    """`python -m bench.probes.NAME [-o FILE]`; the exit status, 2 where nothing can be measured. words: of the command
    line, else the process's."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.probes.{name}", description=description)
    parser.add_argument("-o", "--output", type=Path, help="write them as JSON")
    output: Path | None = parser.parse_args(words).output
    try:
        found = measure()
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if output is not None:
        output.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    return 0
