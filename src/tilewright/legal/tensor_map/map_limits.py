"""Which of a target's numbers does the search for tensor maps read? Fetched once, by plain names.

Each is a fact of `targets`, with its source there. Checked by tests/legal/plan/test_repairs.py, through the repairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tilewright.legal.tensor_map.enumerations import SWIZZLES
from tilewright.targets import Target


@dataclass(frozen=True, slots=True)
class MapLimits:
    """Limits of tensor maps without interleave, and of the copies that need none."""

    rank_max: int
    dim_max: int
    stride_multiple_bytes: int
    stride_limit_bytes: int
    address_alignment_bytes: int
    box_extent_max: int
    inner_multiple_bytes: int
    element_stride_max: int
    box_footprint_bytes_max: int
    shared_bytes_max: int
    bulk_multiple_bytes: int
    spans_bytes: tuple[tuple[str, int], ...]

    def span_bytes(self, swizzle: str | int) -> int:
        """Bytes of a row that `swizzle` permutes; 0 without swizzle and for one that the target lacks."""
        return next((span for name, span in self.spans_bytes if name == swizzle), 0)


@cache
def map_limits(target: Target) -> MapLimits:
    """The limits of `target`."""
    spans = target.limits("tensor_map.swizzle_span_bytes")
    most = target.limit("tensor_map.swizzle_max")
    return MapLimits(
        rank_max=target.limit("tensor_map.rank_max"),
        dim_max=target.limit("tensor_map.dim_max"),
        stride_multiple_bytes=target.limit("tensor_map.stride_multiple_bytes"),
        stride_limit_bytes=target.limit("tensor_map.stride_limit_bytes"),
        address_alignment_bytes=target.limit("tensor_map.address_alignment_bytes"),
        box_extent_max=target.limit("tensor_map.box_extent_max"),
        inner_multiple_bytes=target.limit("tensor_map.box_inner_multiple_bytes"),
        element_stride_max=target.limit("tensor_map.element_stride_max"),
        box_footprint_bytes_max=target.limit("tensor_map.box_footprint_bytes_max"),
        shared_bytes_max=target.limit("cta.shared_bytes_max"),
        bulk_multiple_bytes=target.limit("bulk_copy.size_multiple_bytes"),
        spans_bytes=tuple(zip(SWIZZLES[1 : most + 1], spans[1 : most + 1], strict=True)),
    )
