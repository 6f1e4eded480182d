"""From hierarchies of named levels to shape:stride layouts and back: which layout is this one without its names?

A hierarchy's outputs become one value by strides, such as row + 64 column for a column-major tile of 64 rows; levels
become the outermost parts of the shape. Every hierarchy has such a layout, and every layout of constant sizes without
a swizzle and with values from 0 on is a hierarchy with one output: sizes need be no powers of two on either side.

Not handled: swizzles and symbolic sizes, which hierarchies do not have.
Checked by tests/layout/linear/test_hierarchy_layout.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.base.error import TilewrightError
from tilewright.layout.layout import Layout
from tilewright.layout.linear.hierarchy import Hierarchy


def layout_of(given: Hierarchy, strides: Mapping[str, int]) -> Layout:
    """The layout of value `sum of output * stride`: one outermost part for each level, its digits inside, the fastest
    first. Raises TilewrightError where strides do not name the outputs."""
    names = [name for name, _ in given.outputs]
    if sorted(strides) != sorted(names):
        raise TilewrightError(f"hierarchy: strides for {list(strides)}, outputs {names}")
    weights = [strides[name] for name in names]

    def weighed(steps: Sequence[int]) -> int:
        return sum(step * weight for step, weight in zip(steps, weights, strict=True))

    shapes = [_part([mode.extent for mode in level.modes], 1) for level in given.levels]
    parts = [_part([weighed(mode.steps) for mode in level.modes], 0) for level in given.levels]
    return Layout(tuple(shapes) or 1, tuple(parts) or 0, weighed(given.offsets))


def _part(leaves: list[int], empty: int) -> object:
    if not leaves:
        return empty
    return leaves[0] if len(leaves) == 1 else tuple(leaves)
