"""Which architecture does the machine model for a given text? The one whose table is nearest to its `.target`.

PTX for an older architecture runs on every younger one (PTX ISA 11.1.2 `.target`), so what is older than Hopper is read
with Hopper's limits. Of one generation, `sm_90` and `sm_90a` share a table, as do `sm_100` to `sm_110` in all their
variants (`a`, `f`): their limits agree in what the machine asks for.

Not handled: consumer Blackwell (`sm_120` and later), which has other limits and no tensor memory; it is refused.
Checked by: tests/machine/core/test_run.py, which goes past the limits.
"""

from __future__ import annotations

from re import fullmatch

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.ast import Module
from tilewright.targets import Target, target

_GENERATIONS = ((100, "sm_90a"), (120, "sm_100a"))
"""First number that is too young for a table, and the table's name."""


def model_of(module: Module) -> Target:
    """The table of limits for a module. Raises TilewrightError where none is near."""
    name = module.target[0] if module.target else "sm_90a"
    found = fullmatch(r"sm_(\d+)[af]?", name)
    if found is not None:
        for too_young, table in _GENERATIONS:
            if int(found[1]) < too_young:
                return target(table)
    raise TilewrightError(
        f"the machine has no limits for target {name}", remedy="it models Hopper (sm_90a) and Blackwell (sm_100a)"
    )
