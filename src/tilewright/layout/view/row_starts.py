"""Is it certain, before any search, that no rewriting of a tiled view is legal?

Theory: a legal view's boxes are rows of consecutive bytes, each beginning at a multiple of m bytes (`offset_multiple`,
`stride_multiple` and `inner_multiple` all being multiples of m, their greatest common divisor). Rewriting keeps the
bytes of every tile. So a byte of a tile whose predecessor is not in the tile begins a row and is a multiple of m, and
so is the first byte of every tile. Where the dimensions, joined and sorted by stride, do not overlap, those bytes are
known without enumeration: one for each index of the dimensions around the contiguous run.

The answer is one-sided: a reason is a proof, None claims nothing. Not handled: views that overlap themselves, negative
strides (None). Checked by tests/solve/egraph/test_saturate.py: no view with a reason has a legal form.
"""

from __future__ import annotations

from math import gcd

from tilewright.layout.view.derivation import common_form
from tilewright.layout.view.descriptor_limits import DescriptorLimits
from tilewright.layout.view.tiled_view import TiledView


def why_impossible(source: TiledView, limits: DescriptorLimits) -> str | None:
    """Why no view that `source` can be rewritten to is legal, in one line; None where that is not certain."""
    if source.offset_bytes % limits.offset_multiple_bytes:
        # No rule moves a view's first byte.
        return f"the first byte, {source.offset_bytes}, is no multiple of {limits.offset_multiple_bytes}"
    unit = gcd(limits.offset_multiple_bytes, limits.stride_multiple_bytes, limits.inner_multiple_bytes)
    for dimension in source.dimensions:
        jump = dimension.step * dimension.stride_bytes
        if dimension.step != dimension.extent and jump > 0 and jump % unit:
            return f"tiles begin {jump} bytes apart, which is no multiple of {unit}"
    joined = common_form(source, source.element_bytes, True)
    reach = source.element_bytes
    for dimension in sorted(joined.dimensions, key=lambda dimension: dimension.stride_bytes):
        stride = dimension.stride_bytes
        inside = min(dimension.tile, dimension.extent)
        if inside == 1 or stride == 0:
            # The first tile has one index here, or the same bytes at all.
            continue
        if stride < reach:
            return None
        if stride == reach:
            # The run goes on, so that only its first byte begins a row.
            reach = stride * inside
            continue
        if stride % unit:
            return f"runs of {reach} bytes begin {stride} bytes apart, which is no multiple of {unit}"
        reach = (inside - 1) * stride + reach
    return None
