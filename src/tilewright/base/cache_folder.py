"""Where is kept on disk what takes long to find: compiled programs, answers of solvers, reports?

`$TILEWRIGHT_CACHE`, else `$XDG_CACHE_HOME/tilewright`, else `~/.cache/tilewright`.
Checked by: tests/solve/test_memo.py, tests/driver/compile/test_cache.py.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder, which need not exist."""
    named = os.environ.get("TILEWRIGHT_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tilewright"
