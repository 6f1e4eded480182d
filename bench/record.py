"""What every result file says besides its numbers: versions, the machine, the command."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shlex
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from bench.repeated import without_option

_PACKAGES = ("torch", "triton", "numpy", "xdsl", "cuda-bindings", "tilewright")


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = {"python": platform.python_version(), "processor": platform.machine()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm", "--format=csv,noheader"]
        found["gpu"] = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass
    from tilewright.base.error import TilewrightError
    from tilewright.runtime.assemble import find_ptxas

    with suppress(TilewrightError):  # on a machine that runs what another one compiled
        found["ptxas"] = find_ptxas().version
    return found


_SAYS_NOTHING = ("--results", "--kernels", "--jobs", "--folder")
"""Options about where files lie and how many processes compile, which say nothing about the numbers."""


def write(name: str, rows: list[dict[str, object]], folder: Path, *, module: str = "bench") -> Path:
    """Write `rows` to FOLDER/NAME.json with versions and the command, of the module that was run; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    document = {
        "command": f"python -m {shlex.join([module, *without_option(sys.argv[1:], *_SAYS_NOTHING)])}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "versions": versions(),
        "rows": rows,
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return path
