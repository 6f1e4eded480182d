"""Which architecture does the machine model? Its limits hold for every text, whatever target the text names.

Not handled: any other architecture. Checked by: tests/machine/test_run.py, which goes past the limits.
"""

from __future__ import annotations

from tilewright.targets import target

MODEL = target("sm_90a")
"""The facts of the architecture that is modelled."""
