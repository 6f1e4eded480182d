"""Every hardware fact, as versioned tables: limits per architecture and the table of PTX instructions.

Floor 2: imports `base` only. Code asks a `Target` for a limit or a feature and never compares architecture names.
"""

from tilewright.targets.schema import Fact
from tilewright.targets.target import (
    BANK_TARGET_NAMES,
    COMPILED_TARGET_NAMES,
    TARGET_NAMES,
    Target,
    nearest_target,
    target,
)

__all__ = ["BANK_TARGET_NAMES", "COMPILED_TARGET_NAMES", "TARGET_NAMES", "Fact", "Target", "nearest_target", "target"]
