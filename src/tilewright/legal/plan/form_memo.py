"""Have the forms of this view been found before, perhaps as those of another view that names the same tiles?

Questions are equal where their canonical forms are: dimensions joined, units dropped, sorted by stride; the first byte
counts by its alignment alone. Where that is unknown, isl's text of the bytes is asked too (`sets`), which merges views
that overlap themselves. An answer is the list of forms found, as plain numbers; whoever takes it derives the steps
anew, so that neither a damaged file nor two different views under one key can make a wrong plan.

Checked by tests/legal/plan/test_form_search.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, cast

from tilewright.layout.view.derivation import common_form
from tilewright.layout.view.descriptor_limits import DescriptorLimits
from tilewright.layout.view.strided_view import StridedView
from tilewright.layout.view.tiled_view import Dimension, TiledView

if TYPE_CHECKING:
    from tilewright.solve.memo import Memo

Goals = tuple[TiledView, ...]


def remembered(source: TiledView, limits: DescriptorLimits, compute: Callable[[], Goals], *, sets: bool) -> Goals:
    """The forms of `source`, from the memo or from `compute`, which answers with forms that begin at its first byte."""
    memo = _memo()
    alignment = source.offset_bytes % limits.offset_multiple_bytes
    keys = [f"{common_form(source, source.element_bytes, True)._replace(offset_bytes=alignment)} {limits}"]
    found = memo.get(keys[0])
    if found is None and sets:
        text = _set_text(source)
        if text is not None:
            keys.append(f"{text} {alignment} {source.element_bytes} {limits}")
            found = memo.get(keys[1])
    if found is None:
        found = tuple(goal._replace(offset_bytes=0) for goal in compute())
    for key in keys:
        memo.put(key, found)
    return tuple(goal._replace(offset_bytes=source.offset_bytes) for goal in found)


def forget() -> None:
    """Forget every form of this process; those on disk stay."""
    _memo().forget()


@cache
def _memo() -> Memo[Goals]:
    from tilewright.solve.memo import Memo

    return Memo("legal-forms", _encoded, _decoded)


def _encoded(goals: Goals) -> object:
    return [[goal.element_bytes, [list(dimension) for dimension in goal.dimensions]] for goal in goals]


def _decoded(content: object) -> Goals | None:
    goals: list[TiledView] = []
    for element_bytes, dimensions in cast("list[tuple[int, list[list[int]]]]", content):
        entries = [Dimension(*(int(value) for value in dimension)) for dimension in dimensions]
        goals.append(TiledView(tuple(entries), 0, int(element_bytes)))
    return tuple(goals)


def _set_text(source: TiledView) -> str | None:
    """The bytes of the first tile, of all, and the first bytes of tiles, as isl writes them; None where it gave up."""
    from tilewright.solve.bounded import Undetermined
    from tilewright.solve.integer_set import byte_set_text

    dimensions = source.dimensions
    strides = tuple(dimension.stride_bytes for dimension in dimensions)
    texts: list[str] = []
    for extents, steps in (
        (tuple(min(dimension.tile, dimension.extent) for dimension in dimensions), (1,) * source.rank),
        (tuple(dimension.extent for dimension in dimensions), (1,) * source.rank),
        (
            tuple(-(-dimension.extent // dimension.step) for dimension in dimensions),
            tuple(dimension.step for dimension in dimensions),
        ),
    ):
        scaled = tuple(stride * step for stride, step in zip(strides, steps, strict=True))
        text = byte_set_text(StridedView(extents, scaled, 0, source.element_bytes))
        if isinstance(text, Undetermined):
            return None
        texts.append(text)
    return " ".join(texts)
