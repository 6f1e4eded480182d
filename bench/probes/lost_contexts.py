"""What does a case do that may kill its context? Each runs in a process of its own, which prints what it found.

A probe asks by `apart`, from as many threads as `AT_A_TIME`; the process, which is the probe's module called with the
same words, answers by `answered`. Checked by: tests/benchmarks/test_lost_contexts.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tilewright.base.error import TilewrightError

AT_A_TIME = 4
_SECONDS = 20
_FAULTED = 3


def apart(module: str, *words: str) -> dict[str, Any]:
    """What the module `bench.probes.MODULE` found, called with these words, as `found`; else `fault`, in words. Raises
    TilewrightError where it fails otherwise than by a fault."""
    command = [sys.executable, "-m", f"bench.probes.{module}", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return {"fault": "hangs"}
    if done.returncode not in (0, _FAULTED):
        raise TilewrightError(f"{module} {' '.join(words)}: {done.stderr.strip()[-300:]}")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def answered(find: Callable[[], object]) -> int:
    """Prints what is found, or the fault; returns the exit code."""
    try:
        print(json.dumps({"found": find()}))
    except TilewrightError as error:
        print(json.dumps({"fault": error.message.splitlines()[0]}))
        return _FAULTED
    return 0
