"""The layout algebra: where every element of a tile lives, with no GPU words. Floor 2: imports `base` only.

    from tilewright import layout

    layout.compose(layout.parse_layout("(8,16):(16,1)"), layout.parse_layout("(4,32):(32,1)"))

Each name is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.base.lazy_names import lazy_names

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


__getattr__ = lazy_names(
    __name__,
    {
        "tilewright.layout.answer": "NotDecided NotExpressible expect",
        "tilewright.layout.coalescing": "Difference canonical coalesce difference equal with_sizes",
        "tilewright.layout.composition": "compose swizzle_after",
        "tilewright.layout.division": (
            "blocked_product flat_divide flat_product logical_divide logical_product raked_product tiled_divide "
            "tiled_product zipped_divide zipped_product"
        ),
        "tilewright.layout.equality": "Different Equal compare",
        "tilewright.layout.inverses": "complement inverse left_inverse right_inverse",
        "tilewright.layout.layout": "Layout",
        "tilewright.layout.layout_properties": "is_bijective is_injective is_non_degenerate is_surjective is_tractable",
        "tilewright.layout.layout_text": "parse_layout parse_nested",
        "tilewright.layout.linear.hierarchy": "Hierarchy",
        "tilewright.layout.linear.maps": "LinearLayout linear_layout",
        "tilewright.layout.pieces.piecewise": "Piecewise",
        "tilewright.layout.swizzle": "Swizzle",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
