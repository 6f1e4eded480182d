"""Lets the tests of this folder import the programs of the one above, and those of joined axes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "synth" / "joining")]
