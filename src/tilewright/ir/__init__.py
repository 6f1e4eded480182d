"""The intermediate representations, as xDSL dialects.

Importing this package imports no xDSL, so that `tilewright.ir.function` serves the author's language cheaply; the
dialects are loaded by `context()` or by importing their modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.context import Context


def context() -> Context:
    """A fresh xDSL context that parses and verifies every dialect of this package, and `builtin`."""
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin

    from tilewright.ir.ac.dialect import Ac
    from tilewright.ir.tier import Tier
    from tilewright.ir.tile.operations import Tile

    result = Context()
    for dialect in (Builtin, Tile, Tier, Ac):
        result.load_dialect(dialect)
    return result
