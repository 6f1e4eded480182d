"""Which descriptors could state a tiled view, over all ways of splitting, joining, permuting and retyping it at once?

    legal_forms(view, tile, limits, *, steps=None, order="any", max_nodes=4000, most=4, engine="egraph") -> Forms

Theory: equality saturation. Dimensions are a list in an e-graph, so that what is found for a list's tail is found once
for every head; the rewrite rules of `layout.view.rewrite`, read with symbols in place of integers, are its equations.
Legality is an analysis of e-classes: a second sort of terms holds, for each class of lists and each length, the lists
whose every dimension a descriptor accepts; extraction is from that sort, so that what it yields is legal, and cheapest
by the additive cost of `layout.view.descriptor_limits`. Landing order comes in three stages: first the rules that keep
it, then those that cut a tile into boxes, then those that permute dimensions; the first stage with a legal form ends
it, save that copies are tried beside rows so narrow that they cost more.

Growth is bounded: `max_nodes` e-nodes (asked after every run of a set of rules; a run that at its last rate would more
than double them is not begun) and a number of iterations. A bound that was reached shows in `Forms.complete` and
`Forms.note`; all is deterministic. No answer of the e-graph is believed: its steps are derived afresh
(`layout.view.derivation`), replayed, and judged by `faults` in plain Python.

What cannot be legal (`layout.view.row_starts`) is not searched. Not handled: what changes where the tensor stands
(padding, copies: `legal.plan`), several maps for one tensor, negative strides. Numbers whose products leave 62
bits are refused with a note. Checked by tests/solve/egraph/test_saturate.py against plain search and exhaustive
enumeration.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Literal

from tilewright.layout.view.derivation import derive
from tilewright.layout.view.descriptor_limits import COPY_DOUBLING_COST, DescriptorLimits
from tilewright.layout.view.rewrite import Choices
from tilewright.layout.view.row_starts import why_impossible
from tilewright.layout.view.strided_view import StridedView
from tilewright.layout.view.tiled_view import TiledView, tiled
from tilewright.solve.egraph.breadth_first import search_forms
from tilewright.solve.egraph.egglog_bindings import bindings
from tilewright.solve.egraph.egraph_text import LIMIT_BITS, program_text, question_text, read_view
from tilewright.solve.egraph.forms import Form, Forms, Order, choices_for, form_of, sorted_forms

if TYPE_CHECKING:
    from egglog.bindings import EGraph

Engine = Literal["egraph", "search"]
_STAGES: tuple[Order, ...] = ("kept", "blocked", "any")
_PHASES: dict[Order, tuple[tuple[str, ...], ...]] = {
    "kept": (("joined", "split"),),
    "blocked": (("joined", "split", "factored"),),
    # Permuted and joined before anything is split: lists that are split have many more orders.
    "any": (("joined", "swapped"), ("joined", "swapped", "split", "factored")),
}
_ITERATIONS_MOST = 24
_OVERSHOOT_MOST = 2
_LOCK = Lock()
"""The e-graphs are shared: a question pushes its view and pops it."""


def legal_forms(
    view: StridedView,
    tile: tuple[int, ...],
    limits: DescriptorLimits,
    *,
    steps: tuple[int, ...] | None = None,
    order: Order = "any",
    max_nodes: int = 4000,
    most: int = 4,
    engine: Engine = "egraph",
) -> Forms:
    """Up to `most` legal forms of `view`, the cheapest first, for tiles of `tile` elements, dimension 0 innermost.

    steps: tiles begin at their multiples, at multiples of the tile if None, at 0 only where an entry is 0; order: how
    far the landing order may change; max_nodes: e-nodes, or views where `engine` is "search". Raises TilewrightError
    where lengths differ or a number is below 1.
    """
    source = tiled(view, tile, steps)
    impossible = why_impossible(source, limits)
    if impossible is not None:
        return Forms((), True, 0, impossible)
    if _bits(source) > LIMIT_BITS:
        return Forms((), False, 0, f"sizes whose products need {_bits(source)} bits are not searched")
    if limits.box_bytes_max is not None and source.tile_bytes > limits.box_bytes_max:
        return Forms(
            (), False, 0, f"a tile of {source.tile_bytes} bytes is more than {limits.box_bytes_max}: not searched"
        )
    choices, all_offered = choices_for(source, limits)
    stages = _STAGES[: _STAGES.index(order) + 1]
    if order == "any" and not choices.pieces:
        stages = ("kept", "any")
    if engine == "egraph":
        found = _by_stages(lambda stage: _saturated(source, limits, choices, stage, max_nodes, most), stages)
    else:
        found = _by_stages(
            lambda stage: search_forms(source, limits, choices, order=stage, max_nodes=max_nodes, most=most), stages
        )
    if all_offered:
        return found
    note = "; ".join(filter(None, (found.note, "more factors divide than were offered to the rules")))
    return Forms(found.forms, False, found.nodes, note)


def _by_stages(ask: Callable[[Order], Forms], stages: tuple[Order, ...]) -> Forms:
    """The cheapest answer: copies are tried beside narrow rows, permutations only where nothing else is legal."""
    best = Forms((), True, 0)
    for stage in stages:
        if stage == "any" and best.forms:
            break
        found = ask(stage)
        if not best.forms or (found.forms and found.forms[0].cost < best.forms[0].cost):
            best = found
        if best.forms and best.forms[0].cost <= COPY_DOUBLING_COST:
            # A form of the next stage has a copy more.
            break
    return best


def _saturated(
    source: TiledView, limits: DescriptorLimits, choices: Choices, stage: Order, max_nodes: int, most: int
) -> Forms:
    with _LOCK:
        graph = _graph_of(limits)
        _run(graph, "(push)")
        try:
            _run(graph, question_text(source, choices))
            return _grown(graph, source, limits, stage, max_nodes, most)
        finally:
            _run(graph, "(pop)")


def _grown(
    graph: EGraph, source: TiledView, limits: DescriptorLimits, stage: Order, max_nodes: int, most: int
) -> Forms:
    """The legal forms after each phase of `stage`, once its rules add nothing or a bound is reached.

    Where dimensions may be permuted and split there are too many lists to wait for the end: the first iteration with a
    legal form is the last.
    """
    forms: tuple[Form, ...] = ()
    nodes, iterations = 0, 0
    growth: dict[str, float] = {}
    for phase in _PHASES[stage]:
        impatient = "swapped" in phase and "split" in phase
        nodes = -1
        while True:
            before, bounded = nodes, False
            for ruleset in phase:
                if nodes * growth.get(ruleset, 1.0) >= _OVERSHOOT_MOST * max_nodes:
                    # As many again as its last run made would be too many.
                    bounded = True
                    break
                known = max(1, nodes)
                _run(graph, f"(run {ruleset} 1)")
                nodes = _nodes(graph)
                growth[ruleset] = nodes / known if known > 1 else 1.0
                if nodes >= max_nodes:
                    bounded = True
                    break
            iterations += 1
            bounded = bounded or iterations >= _ITERATIONS_MOST
            if not (bounded or impatient or nodes == before):
                continue
            _run(graph, f"(run legal {limits.rank_max + 2})")
            forms, refused = _extracted(graph, source, limits, most)
            note = f"{refused} forms without a derivation left out" if refused else ""
            if bounded:
                note = "; ".join(filter(None, (note, f"stopped at {nodes} e-nodes, after {iterations} iterations")))
                return Forms(forms, False, nodes, note)
            if forms and stage == "any":
                return Forms(forms, False, nodes, note or f"stopped at the first forms, after {iterations} iterations")
            if nodes == before:
                break
    return Forms(forms, True, nodes)


def _extracted(graph: EGraph, source: TiledView, limits: DescriptorLimits, most: int) -> tuple[tuple[Form, ...], int]:
    """The cheapest legal views of the root, derived and judged again, and how many could not be."""
    engine = bindings()
    sizes = _run(graph, "(print-size Inner)")
    if not any(isinstance(size, engine.print_function_size) and size.size for size in sizes):
        return (), 0
    forms: list[Form] = []
    refused = 0
    for answer in _run(graph, f"(extract (InnerOf (Root)) {most})"):
        assert isinstance(answer, engine.extract_variants)
        for term in answer.terms:
            view = read_view(answer.termdag.to_string(term), source.offset_bytes)
            if any(dimension.extent == dimension.tile == 1 for dimension in view.dimensions[1:]):
                # The same form without that dimension is legal too, and cheaper.
                continue
            steps = derive(source, view)
            form = form_of(source, steps, limits) if steps is not None else None
            if form is None:
                refused += 1
            else:
                forms.append(form)
    return sorted_forms(forms), refused


@lru_cache(maxsize=8)
def _graph_of(limits: DescriptorLimits) -> EGraph:
    """An e-graph with the rules and `limits`, and no view: building it costs more than most questions."""
    graph = bindings().egraph()
    _run(graph, program_text(limits))
    return graph


def _run(graph: EGraph, text: str) -> list[object]:
    return list(graph.run_program(*graph.parse_program(text)))


def _nodes(graph: EGraph) -> int:
    """E-nodes of lists and views."""
    function_size = bindings().print_function_size
    sizes = _run(graph, "(print-size Cons) (print-size Tiled)")
    return sum(size.size for size in sizes if isinstance(size, function_size))


def _bits(source: TiledView) -> int:
    """Bits that the largest product in a rule may take."""
    extents = prod(dimension.extent for dimension in source.dimensions)
    tiles = prod(dimension.tile for dimension in source.dimensions)
    strides = max((abs(dimension.stride_bytes) * dimension.extent for dimension in source.dimensions), default=0)
    return (max(extents, tiles, strides) * source.element_bytes).bit_length() + 1
