"""The algebra of layouts in one place: every operation of `layout.coalescing`, `.composition`, `.inverses`, `.division`
and `.layout_properties`, under the names that people know from CuTe.

Every operation is exact. An answer that is no layout is a value, `NotExpressible`; one that could not be settled is
`NotDecided`; what no layout could take raises TilewrightError. Nothing here enumerates more than 2**16 elements.
"""

from __future__ import annotations

from tilewright.layout.answer import NotDecided, NotExpressible, Refusal, expect
from tilewright.layout.coalescing import Difference, canonical, coalesce, difference, equal, with_sizes
from tilewright.layout.composition import Tiler, compose, swizzle_after
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
from tilewright.layout.inverses import complement, inverse, left_inverse, right_inverse
from tilewright.layout.layout_properties import (
    is_bijective,
    is_injective,
    is_non_degenerate,
    is_surjective,
    is_tractable,
)

__all__ = [
    "Difference",
    "NotDecided",
    "NotExpressible",
    "Refusal",
    "Tiler",
    "blocked_product",
    "canonical",
    "coalesce",
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
    "logical_divide",
    "logical_product",
    "raked_product",
    "right_inverse",
    "swizzle_after",
    "tiled_divide",
    "tiled_product",
    "with_sizes",
    "zipped_divide",
    "zipped_product",
]
