"""Which architecture does the machine model for a given text? The one whose table is nearest to its `.target`.

The tables say themselves which architectures' text is read with their limits (`architectures` in `targets/data`).

Not handled: architectures that no table names; they are refused.
Checked by: tests/machine/core/test_run.py, which goes past the limits.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.ast import Module
from tilewright.targets import TARGET_NAMES, Target, nearest_target, target


def model_of(module: Module) -> Target:
    """The table of limits for a module. Raises TilewrightError where none is near."""
    name = module.target[0] if module.target else ""
    found = nearest_target(name)
    if found is None:
        known = " and ".join(f"{target(each).title}: {each}" for each in TARGET_NAMES)
        raise TilewrightError(f"the machine has no limits for target {name}", remedy=f"it models {known}")
    return found
