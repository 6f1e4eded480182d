"""Which bytes of a buffer does an n-dimensional strided view name, and how else can the same bytes be named?

A view is the affine map (i_0, ..., i_{r-1}) -> offset + sum i_d * stride_d, with 0 <= i_d < extent_d; each image is the
first byte of one element. Dimension 0 is innermost: it varies fastest in the view's order. Strides may be zero
(broadcast), negative, and need not be sorted; nothing says that two indices name different bytes.

Every operation is exact: the result names the same elements in the same order (`split`, `join`), in another
order (`permute`), or a stated part of them (`slice`). Where an operation does not apply it answers None; only an
argument that no view could take, such as a repeated dimension in a permutation, raises TilewrightError.

Not handled: elements below one byte, hierarchical (nested) extents, layouts that are not affine (swizzles). Checked by
tests/layout/view/test_strided_view.py against the enumerated addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class StridedView:
    """A strided view. extents: elements per dimension, innermost first; strides_bytes: one per dimension, dimension 0's
    too; offset_bytes: address of element (0, ..., 0); element_bytes: width of one element.

    Raises TilewrightError where lengths differ, or an extent or the element is below 1.
    """

    extents: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    offset_bytes: int = 0
    element_bytes: int = 1

    def __post_init__(self) -> None:
        if len(self.extents) != len(self.strides_bytes):
            raise TilewrightError(f"strided view: {len(self.extents)} extents, {len(self.strides_bytes)} strides")
        if any(extent < 1 for extent in self.extents):
            raise TilewrightError(f"strided view: extents {self.extents} are not all positive")
        if self.element_bytes < 1:
            raise TilewrightError(f"strided view: an element of {self.element_bytes} bytes")

    @property
    def rank(self) -> int:
        return len(self.extents)

    @property
    def elements(self) -> int:
        """Number of indices; at least 1."""
        return prod(self.extents)

    def permute(self, order: tuple[int, ...]) -> StridedView:
        """The view whose dimension d is this one's `order[d]`. Raises TilewrightError for a non-permutation."""
        if sorted(order) != list(range(self.rank)):
            raise TilewrightError(f"strided view: {order} is no permutation of {self.rank} dimensions")
        return replace(
            self,
            extents=tuple(self.extents[axis] for axis in order),
            strides_bytes=tuple(self.strides_bytes[axis] for axis in order),
        )

    def split(self, axis: int, factor: int) -> StridedView | None:
        """Dimension `axis` as two: `factor` elements, then extent / `factor`. None where that does not divide."""
        extent, stride = self._dimension(axis)
        if factor < 1 or extent % factor:
            return None
        return self._with(axis, 1, ((factor, stride), (extent // factor, stride * factor)))

    def join(self, axis: int) -> StridedView | None:
        """Dimensions `axis` and `axis` + 1 as one. None where the outer one does not continue the inner one."""
        if axis + 1 >= self.rank:
            return None
        extent, stride = self._dimension(axis)
        outer_extent, outer_stride = self._dimension(axis + 1)
        if extent == 1:
            return self._with(axis, 2, ((outer_extent, outer_stride),))
        if outer_extent != 1 and outer_stride != extent * stride:
            return None
        return self._with(axis, 2, ((extent * outer_extent, stride),))

    def slice(self, axis: int, start: int, size: int, step: int = 1) -> StridedView | None:
        """Elements start, start + step, ..., `size` of them, of dimension `axis`. None where one lies outside."""
        extent, stride = self._dimension(axis)
        if size < 1 or step == 0:
            return None
        last = start + (size - 1) * step
        if not (0 <= start < extent and 0 <= last < extent):
            return None
        moved = replace(self, offset_bytes=self.offset_bytes + start * stride)
        return moved._with(axis, 1, ((size, stride * step),))

    def broadcast(self, axis: int, extent: int) -> StridedView:
        """With a dimension of `extent` and stride 0 before dimension `axis`: every element is named `extent` times."""
        if not 0 <= axis <= self.rank:
            raise TilewrightError(f"strided view: no place {axis} among {self.rank} dimensions")
        return self._with(axis, 0, ((extent, 0),))

    def canonical(self) -> StridedView:
        """A view of the same elements, each as often, in an order of its own.

        Strides are made non-negative, dimensions of extent 1 dropped, the rest sorted by stride, and each that
        continues the one before it joined to it. Equal canonical views name the same elements; views that overlap
        themselves may name the same elements and differ (their dimensions have no unique factorization).
        """
        offset = self.offset_bytes
        pairs: list[tuple[int, int]] = []
        for extent, stride in zip(self.extents, self.strides_bytes, strict=True):
            if extent == 1:
                continue
            if stride < 0:
                offset += (extent - 1) * stride
            pairs.append((abs(stride), extent))
        merged: list[tuple[int, int]] = []
        for stride, extent in sorted(pairs):
            if merged and stride == merged[-1][0] * merged[-1][1]:
                merged[-1] = (merged[-1][0], merged[-1][1] * extent)
            else:
                merged.append((stride, extent))
        return StridedView(
            tuple(extent for _, extent in merged), tuple(stride for stride, _ in merged), offset, self.element_bytes
        )

    def addresses(self) -> NDArray[np.int64]:
        """First byte of every element, in the view's order; shape (elements,). For tests: it enumerates."""
        import numpy as np

        found = np.array([self.offset_bytes], dtype=np.int64)
        for extent, stride in zip(self.extents, self.strides_bytes, strict=True):
            found = (np.arange(extent, dtype=np.int64)[:, None] * stride + found[None, :]).reshape(-1)
        return found

    def _dimension(self, axis: int) -> tuple[int, int]:
        if not 0 <= axis < self.rank:
            raise TilewrightError(f"strided view: no dimension {axis} among {self.rank}")
        return self.extents[axis], self.strides_bytes[axis]

    def _with(self, axis: int, count: int, dimensions: tuple[tuple[int, int], ...]) -> StridedView:
        """With `count` dimensions from `axis` on replaced."""
        return replace(
            self,
            extents=(*self.extents[:axis], *(pair[0] for pair in dimensions), *self.extents[axis + count :]),
            strides_bytes=(
                *self.strides_bytes[:axis],
                *(pair[1] for pair in dimensions),
                *self.strides_bytes[axis + count :],
            ),
        )
