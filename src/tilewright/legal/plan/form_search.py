"""Which forms of a reading does equality saturation find where no short chain of moves makes it legal?

Two engines behind one question. First the abstract domain: every copied row begins at 16 bytes and holds only what is
wanted, so every contiguous run of every box must begin there; where congruences say that some run does not, no form
exists and the e-graph isn't asked. Then `solve.egraph.saturate`, whose derivations become moves here, are applied again
one by one, and are believed only where the reading they lead to is without faults.

Not handled: forms that bring more than is wanted (those are `reading_search`'s), element strides. Checked by
tests/legal/plan/test_form_search.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.layout.numbers.integer_fact import IntegerFact, Truth
from tilewright.layout.view.derivation import derive
from tilewright.layout.view.descriptor_limits import DescriptorLimits
from tilewright.layout.view.rewrite import Step, replay
from tilewright.layout.view.strided_view import StridedView
from tilewright.layout.view.tiled_view import TiledView, tiled
from tilewright.legal.plan.box_choice import BoxChoice
from tilewright.legal.plan.engines import ALL_ENGINES, Engines
from tilewright.legal.plan.form_memo import remembered
from tilewright.legal.plan.moves import Absorb, DropUnit, Expose, Fold, InsertUnit, Move, Permute, Split
from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.reading_search import Chain, first_fault
from tilewright.legal.tensor_map.map_limits import MapLimits

if TYPE_CHECKING:
    from tilewright.solve.egraph.forms import Form

NODES_MOST = 2000
_FORMS_MOST = 2


def may_have_exact_form(reading: Reading, limits: MapLimits) -> bool:
    """Whether every contiguous run of every box begins where a copied row may: else no map brings exactly the boxes."""
    return run_start(reading).divisible_by(limits.address_alignment_bytes) is Truth.YES


def run_start(reading: Reading) -> IntegerFact:
    """What is known of the addresses at which contiguous runs of boxes begin."""
    fact = IntegerFact(reading.address, reading.address)
    run_bytes, growing = reading.element_bytes, True
    dimensions = sorted(zip(reading.strides_bytes, reading.dims, reading.box, reading.starts, strict=True))
    for stride, extent, box, start in dimensions:
        if extent == 1:
            continue
        if growing and stride == run_bytes and box > 1:
            # Where a box reaches past the end, what it lacks is filled in before the next run begins.
            growing = start == 0 and box == extent
            run_bytes *= min(box, extent)
            if start:
                fact = fact + IntegerFact(0, (extent - 1) // start) * (start * stride)
            continue
        growing = False
        fact = fact + IntegerFact(0, extent - 1) * stride
    return fact


def saturated_choices(
    reading: Reading, swizzle: str, limits: MapLimits, engines: Engines = ALL_ENGINES, *, rotate: bool = True
) -> list[BoxChoice]:
    """Boxes of maps in the forms that the e-graph finds, the cheapest first; empty where it finds none."""
    if any(step != 1 for step in reading.element_strides):
        return []
    view = StridedView(reading.dims, reading.strides_bytes, reading.address, reading.element_bytes)
    source = tiled(view, reading.box, reading.starts)
    facts = descriptor_limits(limits, limits.span_bytes(swizzle))
    answers: list[BoxChoice] = []
    for form in _forms(source, view, reading, facts, engines):
        moved = _moved(reading, form.steps)
        if moved is None or first_fault(moved.reading, limits) is not None:
            continue
        if not rotate and any(isinstance(move, Permute) and move.order[0] for move in moved.moves):
            continue
        box = tuple(dimension.box for dimension in form.view.dimensions)
        counts = tuple(dimension.pieces for dimension in form.view.dimensions)
        covered = zip(moved.reading.box, box, counts, strict=True)
        if all(whole <= part * count for whole, part, count in covered):
            answers.append(BoxChoice(moved, box, counts, swizzle))
    return answers


def _forms(
    source: TiledView, view: StridedView, reading: Reading, facts: DescriptorLimits, engines: Engines
) -> tuple[Form, ...]:
    from tilewright.solve.egraph.forms import form_of

    found: list[Form] = []

    def compute() -> tuple[TiledView, ...]:
        from tilewright.solve.egraph.saturate import legal_forms

        answer = legal_forms(view, reading.box, facts, steps=reading.starts, max_nodes=NODES_MOST, most=_FORMS_MOST)
        found.extend(answer.forms)
        return tuple(replayed for form in answer.forms if (replayed := replay(source, form.steps)) is not None)

    if not engines.memo:
        compute()
        return tuple(found)
    goals = remembered(source, facts, compute, sets=engines.sets)
    if found:
        return tuple(found)
    derived = (derive(source, goal) for goal in goals)
    forms = (form_of(source, steps, facts) for steps in derived if steps is not None)
    return tuple(form for form in forms if form is not None)


def descriptor_limits(limits: MapLimits, span_bytes: int) -> DescriptorLimits:
    """The limits of maps under a swizzle of `span_bytes` (0: none), in the words of `layout`."""
    return DescriptorLimits(
        rank_max=limits.rank_max,
        extent_max=limits.dim_max,
        stride_multiple_bytes=limits.stride_multiple_bytes,
        stride_limit_bytes=limits.stride_limit_bytes,
        offset_multiple_bytes=limits.address_alignment_bytes,
        box_max=limits.box_extent_max,
        inner_multiple_bytes=limits.inner_multiple_bytes,
        inner_bytes_max=span_bytes or None,
        box_bytes_max=min(limits.box_footprint_bytes_max, limits.shared_bytes_max),
    )


def _moved(reading: Reading, steps: tuple[Step, ...]) -> Chain | None:
    """The steps of a derivation as moves, applied one by one; None where one does not apply here."""
    moves: list[Move] = []
    for step in steps:
        for move in _moves(reading, step):
            after = move.apply(reading)
            if after is None:
                return None
            moves.append(move)
            reading = after
    return Chain(tuple(moves), reading)


def _moves(reading: Reading, step: Step) -> Iterator[Move]:
    at = step.place
    match step.rule:
        case "drop-unit":
            yield DropUnit(at)
        case "insert-unit":
            yield InsertUnit(at)
        case "join" | "join-inside" | "join-first":
            yield Fold(at, at + 1, reading.dims[at], whole=reading.box[at + 1] > 1)
        case "split" | "split-inside" | "split-first":
            yield Split(at, step.choice)
        case "expose":
            yield Expose(reading.element_bytes // step.choice)
        case "absorb":
            yield Absorb()
        case "swap":
            order = [*range(reading.rank)]
            order[at], order[at + 1] = order[at + 1], order[at]
            yield Permute(tuple(order))
        case _:
            # "factor" and "unfactor" cut boxes and move nothing.
            return
