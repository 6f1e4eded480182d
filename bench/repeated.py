"""A suite in several fresh processes, since a process can be lucky: where its memory lies, what its tuning chose.

Each process runs the whole suite. Of every case the row of the process with the median ratio is kept, with the ratios
of all of them in order as `ratio_by_process`; the summary is of the rows kept.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def without_option(arguments: Sequence[str], *names: str) -> list[str]:
    """A command line without options that take one value, as `--name value` or `--name=value`."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in names:
            skip = True
        elif not argument.startswith(tuple(f"{name}=" for name in names)):
            kept.append(argument)
    return kept


def merged(runs: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rows of the same suite from several processes, as one row for each case."""
    rows: list[dict[str, Any]] = []
    for same in zip(*runs, strict=True):
        measured = [row for row in same if "ratio" in row]
        if not measured:
            rows.append(same[0])
            continue
        middle = statistics.median_low([row["ratio"] for row in measured])
        kept = next(row for row in measured if row["ratio"] == middle)
        rows.append({**kept, "ratio_by_process": [row.get("ratio") for row in same]})
    return rows


def run_in_processes(count: int, result: str) -> list[dict[str, Any]]:
    """Run this command `count` times in fresh processes, each with a result file of that name, and merge their rows."""
    runs: list[list[dict[str, Any]]] = []
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            arguments = without_option(sys.argv[1:], "--processes", "--results")
            print(f"process {number + 1} of {count}", flush=True)
            command = [sys.executable, "-m", "bench", *arguments, "--results", folder]
            subprocess.run(command, check=True)
            document = json.loads((Path(folder) / f"{result}.json").read_text(encoding="utf-8"))
            runs.append(document["rows"][1:])
    return merged(runs)
