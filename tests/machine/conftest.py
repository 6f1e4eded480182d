"""Lets the tests of this folder import the kernels that they share (pytest's importlib mode adds no paths)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
