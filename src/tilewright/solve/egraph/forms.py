"""What is a legal form of a tiled view, and among which numbers are such forms sought?

A `Form` is an answer of a search (`solve.egraph.saturate`, `solve.egraph.breadth_first`): a view that a descriptor can
state, the steps that lead to it from the view asked about, and what it costs. `choices_for` collects the factors,
pieces and element widths that both searches offer to the rewrite rules, from the divisors that the question's own
extents, boxes and steps have in common; where there are more than a bound, it says so.

Not handled: what a form costs in time. Checked by tests/solve/egraph/test_saturate.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd
from typing import Literal

from tilewright.layout.view.derivation import common_form
from tilewright.layout.view.descriptor_limits import DescriptorLimits, cost, faults, widened
from tilewright.layout.view.rewrite import Choices, Step, apply, moved_start, replay, rule_named
from tilewright.layout.view.tiled_view import TiledView

Order = Literal["kept", "blocked", "any"]
"""Where a tile's bytes may land: as asked ("kept"), box after box of it ("blocked"), or dimensions permuted ("any")."""

_FACTORS_MOST = 14
_PIECES_MOST = 4
_COFACTORS_MOST = 4096


@dataclass(frozen=True, slots=True)
class Form:
    """One legal form. source: the view asked about; steps: rewrites from it; view: what the descriptor states, with its
    innermost box rounded up by `widened_bytes` bytes a tile; cost: see `layout.view.descriptor_limits`; order: what of
    the landing order the steps keep.
    """

    source: TiledView
    steps: tuple[Step, ...]
    view: TiledView
    cost: int
    widened_bytes: int
    order: Order

    @property
    def copies(self) -> int:
        """Copies that one tile takes."""
        return self.view.copies

    def start(self, start: tuple[int, ...]) -> tuple[int, ...]:
        """Where the tile that begins at index `start` of `source` begins in `view`."""
        view = self.source
        for step in self.steps:
            start = moved_start(view, step, start)
            after = apply(view, step)
            assert after is not None  # `form_of` replayed the steps.
            view = after
        return start


@dataclass(frozen=True, slots=True)
class Forms:
    """The answer of a search. forms: the cheapest first; complete: nothing was left unexplored for want of nodes or
    choices, so that no forms means that the rules lead to none; nodes: how many were made; note: why it stopped, and
    what it could not use.
    """

    forms: tuple[Form, ...]
    complete: bool
    nodes: int
    note: str = ""


def form_of(source: TiledView, steps: tuple[Step, ...], limits: DescriptorLimits) -> Form | None:
    """The form at the end of `steps`, evaluated afresh; None where a step does not apply or the end is not legal."""
    exact = replay(source, steps)
    if exact is None:
        return None
    view = exact
    if faults(view, limits):
        view = widened(view, limits)
        if faults(view, limits):
            return None
    return Form(
        source,
        steps,
        view,
        cost(view, limits, element_bytes=source.element_bytes, tile_bytes=source.tile_bytes),
        view.tile_bytes - exact.tile_bytes,
        _order(steps),
    )


def sorted_forms(forms: Iterable[Form]) -> tuple[Form, ...]:
    """The cheapest first; ties by fewer steps, then by the view, so that equal questions get equal answers."""
    return tuple(sorted(forms, key=lambda form: (form.cost, len(form.steps), form.view)))


def choices_for(source: TiledView, limits: DescriptorLimits) -> tuple[Choices, bool]:
    """Numbers worth offering to the rules for `source`, and whether none were left out."""
    widths = sorted(limits.element_bytes)
    factors: dict[int, None] = {}
    pieces: dict[int, None] = {}
    for view in _views_of_interest(source, limits):
        for axis, dimension in enumerate(view.dimensions):
            common = gcd(dimension.extent, dimension.box, dimension.step)
            divisors = [factor for factor in range(limits.box_max, 1, -1) if common % factor == 0]
            factors.update(dict.fromkeys(divisors))
            if dimension.extent > limits.extent_max:
                factors.update(dict.fromkeys(_runs(dimension.extent, dimension.step, limits)))
            if dimension.extent > dimension.step:
                factors.update(dict.fromkeys(other.extent for other in source.dimensions if other.extent > 1))
            if dimension.box > limits.box_max:
                pieces.update(dict.fromkeys(_pieces(dimension.box, -(-dimension.box // limits.box_max))))
            row_bytes = dimension.box * view.element_bytes
            if axis == 0 and limits.inner_bytes_max is not None and row_bytes > limits.inner_bytes_max:
                pieces.update(dict.fromkeys(_pieces(dimension.box, -(-row_bytes // limits.inner_bytes_max))))
    useful = sorted(factors, key=lambda factor: (-_usefulness(factor, source, limits), factor))
    kept = useful[:_FACTORS_MOST]
    offered = Choices(tuple(sorted(kept)), tuple(sorted(pieces)), tuple(widths))
    return offered, len(kept) == len(useful)


def _views_of_interest(source: TiledView, limits: DescriptorLimits) -> list[TiledView]:
    """The view and what it joins to, as elements of each width that may be wanted."""
    found = [source, common_form(source, source.element_bytes, False), common_form(source, source.element_bytes, True)]
    for width in sorted({gcd(source.element_bytes, width) for width in limits.element_bytes}):
        if source.element_bytes not in limits.element_bytes and width != source.element_bytes:
            found += [common_form(source, width, False), common_form(source, width, True)]
    return list(dict.fromkeys(found))


def _usefulness(factor: int, source: TiledView, limits: DescriptorLimits) -> int:
    """Larger for a factor more likely needed: one that makes a legal stride, one that makes a wide row, a large one."""
    row_bytes = factor * source.element_bytes
    score = factor.bit_length()
    if row_bytes % limits.stride_multiple_bytes == 0:
        score += 40
    if factor in (2, 4, 8):
        score += 30
    if row_bytes == limits.inner_bytes_max or factor == limits.box_max:
        score += 20
    if any(factor in (dimension.extent, dimension.box) for dimension in source.dimensions):
        score += 20
    return score


def _runs(extent: int, step: int, limits: DescriptorLimits) -> list[int]:
    """Multiples of `step` that divide `extent` and are, with their cofactor, no longer than an extent may be."""
    least = -(-extent // limits.extent_max)
    found: list[int] = []
    for cofactor in range(max(2, least), min(_COFACTORS_MOST, extent) + 1):
        run, rest = divmod(extent, cofactor)
        if not rest and (run % step == 0 or step == extent):
            found.append(run)
        if len(found) == 3:
            break
    return found


def _pieces(box: int, least: int) -> list[int]:
    """The smallest divisors of `box` that are `least` or more."""
    found: list[int] = []
    for count in range(max(2, least), min(box, _COFACTORS_MOST) + 1):
        if box % count == 0:
            found.append(count)
        if len(found) == _PIECES_MOST:
            break
    return found


def _order(steps: tuple[Step, ...]) -> Order:
    if any(step.rule == "swap" for step in steps):
        return "any"
    return "kept" if all(rule_named(step.rule).order == "kept" for step in steps) else "blocked"
