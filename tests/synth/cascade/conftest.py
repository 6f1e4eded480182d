"""Lets the tests of this folder import its programs, and those of the lowering's tests."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(_TESTS / "lower"), str(_TESTS / "synth" / "joining")]
