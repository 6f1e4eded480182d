"""By which rewrite steps does one tiled view become another, when somebody claims that it does?

An e-graph says that two views are equal and not why. This module finds the steps, and `replay` checks them, so that no
answer of an e-graph is believed.

Theory: both views are brought to a common form by steps that each have an inverse: pieces merged, elements exposed to
the narrower width, dimensions of one element dropped, adjacent dimensions joined wherever they join. The derivation
goes down from the one and up to the other; a stretch that comes back to a view it has left is cut out. The first
attempt keeps the order of dimensions, the second sorts them by stride too.

Not handled: two views that are equal but whose common forms differ (views that overlap themselves may have several):
None then, which is no claim that they differ. Checked by tests/layout/view/test_derivation.py.
"""

from __future__ import annotations

from math import gcd

from tilewright.layout.view.rewrite import Step, apply
from tilewright.layout.view.tiled_view import TiledView

_SPLIT_OF_JOIN = {"join": "split", "join-inside": "split-inside", "join-first": "split-first"}
_Path = list[tuple[Step, TiledView]]
"""Steps, each with the view it leads to."""


def derive(source: TiledView, goal: TiledView) -> tuple[Step, ...] | None:
    """Steps from `source` to `goal`, or None where none were found. Their replay ends at `goal`."""
    if source == goal:
        return ()
    width = gcd(source.element_bytes, goal.element_bytes)
    for reorder in (False, True):
        down, up = _common_form(source, width, reorder), _common_form(goal, width, reorder)
        if _end(source, down) != _end(goal, up):
            continue
        back = _reversed(goal, up)
        if back is not None and _end(_end(source, down), back) == goal:
            return _without_loops(source, down + back)
    return None


def common_form(view: TiledView, width: int, reorder: bool) -> TiledView:
    """`view` in elements of `width` bytes, without pieces or units, joined wherever it joins; `reorder`: and sorted."""
    return _end(view, _common_form(view, width, reorder))


def _end(view: TiledView, path: _Path) -> TiledView:
    return path[-1][1] if path else view


def _common_form(view: TiledView, width: int, reorder: bool) -> _Path:
    """The steps to the form in which two equal views agree; `reorder`: dimensions are sorted by stride as well."""
    path: _Path = []
    for place in range(view.rank):
        _take(view, path, Step("unfactor", place))
    if view.element_bytes != width:
        _take(view, path, Step("expose", 0, width))
    place = 0
    while place < _end(view, path).rank:
        if not _take(view, path, Step("drop-unit", place)):
            place += 1
    _join_all(view, path)
    if reorder:
        for last in range(_end(view, path).rank - 1, 0, -1):
            for place in range(last):
                inner, outer = _end(view, path).dimensions[place : place + 2]
                if (outer.stride_bytes, outer) < (inner.stride_bytes, inner):
                    _take(view, path, Step("swap", place))
        _join_all(view, path)
    return path


def _join_all(view: TiledView, path: _Path) -> None:
    place = 0
    while place + 1 < _end(view, path).rank:
        if not any(_take(view, path, Step(rule, place)) for rule in _SPLIT_OF_JOIN):
            place += 1
        else:
            # What was joined may now continue the dimension within it.
            place = max(0, place - 1)


def _take(view: TiledView, path: _Path, step: Step) -> bool:
    after = apply(_end(view, path), step)
    if after is not None:
        path.append((step, after))
    return after is not None


def _reversed(view: TiledView, path: _Path) -> _Path | None:
    """The steps that undo `path`, last first; None where one has no inverse that applies."""
    befores = [view, *(after for _, after in path)]
    found: _Path = []
    for (step, after), before in zip(reversed(path), reversed(befores[:-1]), strict=True):
        undone = apply(after, _inverse(step, before))
        if undone != before:
            return None
        found.append((_inverse(step, before), before))
    return found


def _inverse(step: Step, before: TiledView) -> Step:
    """The step that undoes `step`, which was taken at `before`."""
    match step.rule:
        case "join" | "join-inside" | "join-first":
            return Step(_SPLIT_OF_JOIN[step.rule], step.place, before.dimensions[step.place].extent)
        case "expose":
            return Step("absorb", 0, before.element_bytes)
        case "unfactor":
            return Step("factor", step.place, before.dimensions[step.place].pieces)
        case "drop-unit":
            return Step("insert-unit", step.place)
        case _:
            return step


def _without_loops(source: TiledView, path: _Path) -> tuple[Step, ...]:
    """The steps of `path` without those that come back to a view that it has already left."""
    reached = {source: 0}
    steps: list[Step] = []
    views = [source]
    for step, view in path:
        if view in reached:
            length = reached[view]
            for left in views[length + 1 :]:
                del reached[left]
            del steps[length:], views[length + 1 :]
            continue
        steps.append(step)
        views.append(view)
        reached[view] = len(steps)
    return tuple(steps)
