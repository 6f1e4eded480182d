"""How does an operand of a kernel reach shared memory: which dimension is innermost there, by which maps or copies?

    plans = plan_operand(view, tile=(64, 128), element=Element.BF16, consumer="wgmma", target="sm_90a")
    plans[0].repair.map, plans[0].inner

A view is an array as it stands: extents, strides, where it begins. For each dimension that may lie innermost in shared
memory (K or MN, for a matrix operand) the same search as for repairs is asked; the plans come back in one list, the
cheapest first. Where a map describes the operand as it stands and brings a tile in as few copies as can be, that plan
is the answer and nothing else is looked for.

Not handled: elements below one byte; halos (tiles that begin before 0). Checked by
tests/legal/plan/test_operand_plan.py, element by element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.layout.view.strided_view import StridedView
from tilewright.legal.argument import integers, shown, target_of
from tilewright.legal.plan.box_choice import choices
from tilewright.legal.plan.costs import Cost
from tilewright.legal.plan.engines import ALL_ENGINES, Engines
from tilewright.legal.plan.moves import Permute
from tilewright.legal.plan.plan_search import (
    RANK_SEARCHED,
    Form,
    Question,
    in_place,
    plan_of,
    ranked,
    several_maps,
    stored_otherwise,
    without_map,
)
from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.reading_search import Chain, first_fault
from tilewright.legal.plan.repair_plan import Kind, Repair
from tilewright.legal.plan.want import Consumer, Want
from tilewright.legal.tensor_map.map_limits import map_limits
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.targets import Target

_WHOLE_ROWS = ("128B", "64B", "32B")


@dataclass(frozen=True, slots=True)
class OperandPlan:
    """inner: the dimension of the view that is contiguous in shared memory; order: the view's dimensions as `repair`
    counts them, innermost first; repair: maps, copies and cost, in that order of dimensions."""

    inner: int
    order: tuple[int, ...]
    repair: Repair

    @property
    def kind(self) -> Kind:
        """What the plan mainly does; "legal" where the view is described as it stands."""
        return self.repair.kind

    @property
    def map(self) -> TensorMap | None:
        """The first map; None for a copy that takes none."""
        return self.repair.map

    @property
    def cost(self) -> Cost:
        return self.repair.cost

    @property
    def title(self) -> str:
        """The plan in one line."""
        return self.repair.title

    @property
    def workspace(self) -> StridedView | None:
        """Where the operand is copied to first, its dimensions in the view's order; None where it is read in place."""
        if self.kind != "copy":
            return None
        stored = self.repair.stored
        place = [self.order.index(dimension) for dimension in range(len(self.order))]
        return StridedView(
            tuple(stored.dims[at] for at in place),
            tuple(stored.strides_bytes[at] for at in place),
            0,
            stored.element_bytes,
        )


def plan_operand(
    view: StridedView,
    tile: tuple[int, ...],
    element: Element,
    consumer: Consumer | None = None,
    *,
    target: str | Target,
    inner: tuple[int, ...] | None = None,
    swizzle: str | None = None,
    copy_allowed: bool = True,
    store: bool = False,
    engines: Engines = ALL_ENGINES,
) -> list[OperandPlan]:
    """Plans to copy tiles of `view`, the cheapest first; never empty.

    tile: elements of each dimension of the view, tiles beginning at multiples of it. inner: the dimensions that may lie
    innermost in shared memory; by default those that are contiguous, else each of which a tile takes more than one
    element. swizzle: of the rows there;
    by default the widest whose span is filled by them. store: from shared memory to the view. Plans that pad the array
    where it stands are left out: a compiler does not allocate it. Raises TilewrightError where the tile does not fit
    the view's rank or is not positive, for a negative stride or address, and where the element has another width.
    """
    hardware = target_of(target)
    answer = _plans if engines.memo else _plans.__wrapped__
    tile = integers("tile", tile, "operand")
    want = Want(copy_allowed=copy_allowed, store=store, consumer=consumer)
    return list(answer(view, tile, element, want, hardware, inner, swizzle, engines))


@lru_cache(maxsize=4096)
def _plans(
    view: StridedView,
    tile: tuple[int, ...],
    element: Element,
    want: Want,
    hardware: Target,
    inner: tuple[int, ...] | None,
    swizzle: str | None,
    engines: Engines,
) -> tuple[OperandPlan, ...]:
    _check(view, tile, element)
    found: list[OperandPlan] = []
    questions: list[tuple[int, tuple[int, ...], Question]] = []
    limits = map_limits(hardware)
    natural = _reading(view, tile)
    for first in _inner(view, tile) if inner is None else inner:
        order = (first, *(at for at in range(view.rank) if at != first))
        reading = _permuted(natural, order)
        span = swizzle or _filled_span(tile[first] * element.bytes, limits.spans_bytes)
        form = Form(element.value, element.bytes, span, "128B", "zero")
        question = Question(reading, form, want, hardware, limits, engines=engines, rotate=False)
        if first_fault(reading, limits) is None:
            direct = choices(Chain((), reading), (span,), limits, store=want.store)
            plans = ranked(plan for choice in direct for plan in plan_of(question, (choice,), reading, "in place"))
            if plans and not plans[0].cost.extra_copies and not plans[0].cost.overfetched_bytes:
                return tuple(OperandPlan(first, order, replace(plan, kind="legal")) for plan in plans)
        questions.append((first, order, question))
    for first, order, question in questions:
        repairs = list(without_map(question))
        if view.rank <= RANK_SEARCHED:
            repairs = [*in_place(question), *several_maps(question), *stored_otherwise(question), *repairs]
        found += [OperandPlan(first, order, each) for each in ranked(repairs) if each.kind != "pad"]
    return tuple(sorted(found, key=lambda plan: plan.cost.rank))


def forget() -> None:
    """Forget every answer of this process; those on disk stay."""
    _plans.cache_clear()


def _inner(view: StridedView, tile: tuple[int, ...]) -> tuple[int, ...]:
    wide = tuple(at for at, extent in enumerate(tile) if extent > 1) or (0,)
    contiguous = tuple(at for at in wide if view.strides_bytes[at] == view.element_bytes)
    return contiguous or wide


def _check(view: StridedView, tile: tuple[int, ...], element: Element) -> None:
    if len(tile) != view.rank or not view.rank or min(tile) < 1:
        raise TilewrightError(f"a tile of {shown(tile)} does not fit a view of {view.rank} dimensions")
    if min(view.strides_bytes) < 0 or view.offset_bytes < 0:
        raise TilewrightError("a view with negative strides or before address 0 has no plan", remedy="flip it first")
    if view.element_bytes != element.bytes:
        raise TilewrightError(
            f"the view's elements have {view.element_bytes} bytes; {element.value} has {element.bytes}"
        )


def _reading(view: StridedView, tile: tuple[int, ...]) -> Reading:
    starts = tuple(0 if size >= extent else size for size, extent in zip(tile, view.extents, strict=True))
    ones = (1,) * view.rank
    return Reading(view.element_bytes, view.extents, view.strides_bytes, tile, ones, starts, view.offset_bytes)


def _permuted(reading: Reading, order: tuple[int, ...]) -> Reading:
    return reading if order[0] == 0 else Permute(order).apply(reading) or reading


def _filled_span(row_bytes: int, spans: tuple[tuple[str, int], ...]) -> str:
    widths = dict(spans)
    return next((name for name in _WHOLE_ROWS if row_bytes % widths[name] == 0), "none")
