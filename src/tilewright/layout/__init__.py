"""The layout algebra: where every element of a tile lives, with no GPU words. Floor 2: imports `base` only.

    from tilewright import layout

    layout.compose(layout.parse_layout("(8,16):(16,1)"), layout.parse_layout("(4,32):(32,1)"))

Each name is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.layout.answer import NotDecided, NotExpressible, expect
    from tilewright.layout.coalescing import Difference, canonical, coalesce, difference, equal, with_sizes
    from tilewright.layout.composition import compose, swizzle_after
    from tilewright.layout.division import (
        blocked_product,
        flat_divide,
        flat_product,
        logical_divide,
        logical_product,
        raked_product,
        tiled_divide,
        tiled_product,
        zipped_divide,
        zipped_product,
    )
    from tilewright.layout.equality import Different, Equal, compare
    from tilewright.layout.inverses import complement, inverse, left_inverse, right_inverse
    from tilewright.layout.layout import Layout
    from tilewright.layout.layout_properties import (
        is_bijective,
        is_injective,
        is_non_degenerate,
        is_surjective,
        is_tractable,
    )
    from tilewright.layout.layout_text import parse_layout, parse_nested
    from tilewright.layout.linear.hierarchy import Hierarchy
    from tilewright.layout.linear.maps import LinearLayout, linear_layout
    from tilewright.layout.pieces.piecewise import Piecewise
    from tilewright.layout.swizzle import Swizzle

_HOMES = {
    "Difference": "tilewright.layout.coalescing",
    "Different": "tilewright.layout.equality",
    "Equal": "tilewright.layout.equality",
    "Hierarchy": "tilewright.layout.linear.hierarchy",
    "Layout": "tilewright.layout.layout",
    "LinearLayout": "tilewright.layout.linear.maps",
    "NotDecided": "tilewright.layout.answer",
    "NotExpressible": "tilewright.layout.answer",
    "Piecewise": "tilewright.layout.pieces.piecewise",
    "Swizzle": "tilewright.layout.swizzle",
    "blocked_product": "tilewright.layout.division",
    "canonical": "tilewright.layout.coalescing",
    "coalesce": "tilewright.layout.coalescing",
    "compare": "tilewright.layout.equality",
    "complement": "tilewright.layout.inverses",
    "compose": "tilewright.layout.composition",
    "difference": "tilewright.layout.coalescing",
    "equal": "tilewright.layout.coalescing",
    "expect": "tilewright.layout.answer",
    "flat_divide": "tilewright.layout.division",
    "flat_product": "tilewright.layout.division",
    "inverse": "tilewright.layout.inverses",
    "is_bijective": "tilewright.layout.layout_properties",
    "is_injective": "tilewright.layout.layout_properties",
    "is_non_degenerate": "tilewright.layout.layout_properties",
    "is_surjective": "tilewright.layout.layout_properties",
    "is_tractable": "tilewright.layout.layout_properties",
    "left_inverse": "tilewright.layout.inverses",
    "linear_layout": "tilewright.layout.linear.maps",
    "logical_divide": "tilewright.layout.division",
    "logical_product": "tilewright.layout.division",
    "parse_layout": "tilewright.layout.layout_text",
    "parse_nested": "tilewright.layout.layout_text",
    "raked_product": "tilewright.layout.division",
    "right_inverse": "tilewright.layout.inverses",
    "swizzle_after": "tilewright.layout.composition",
    "tiled_divide": "tilewright.layout.division",
    "tiled_product": "tilewright.layout.division",
    "with_sizes": "tilewright.layout.coalescing",
    "zipped_divide": "tilewright.layout.division",
    "zipped_product": "tilewright.layout.division",
}

__all__ = [
    "Difference",
    "Different",
    "Equal",
    "Hierarchy",
    "Layout",
    "LinearLayout",
    "NotDecided",
    "NotExpressible",
    "Piecewise",
    "Swizzle",
    "blocked_product",
    "canonical",
    "coalesce",
    "compare",
    "complement",
    "compose",
    "difference",
    "equal",
    "expect",
    "flat_divide",
    "flat_product",
    "inverse",
    "is_bijective",
    "is_injective",
    "is_non_degenerate",
    "is_surjective",
    "is_tractable",
    "left_inverse",
    "linear_layout",
    "logical_divide",
    "logical_product",
    "parse_layout",
    "parse_nested",
    "raked_product",
    "right_inverse",
    "swizzle_after",
    "tiled_divide",
    "tiled_product",
    "with_sizes",
    "zipped_divide",
    "zipped_product",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tilewright.layout' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
