"""Which descriptors could state a tiled view, over all ways of splitting, joining, permuting and retyping it at once?

    legal_forms(view, tile, limits, *, steps=None, order="any", max_nodes=4000, most=4, engine="egraph") -> Forms

Theory: equality saturation. Dimensions are a list in an e-graph, so that what is found for a list's tail is found once
for every head; the rewrite rules of `layout.rewrite`, read with symbols in place of integers, are its equations.
Legality is an analysis of e-classes: a second sort of terms holds, for each class of lists and each length, the lists
whose every dimension a descriptor accepts; extraction is from that sort, so that what it yields is legal, and cheapest
by the additive cost of `layout.descriptor_limits`. Landing order comes in three stages: first the rules that keep it,
then those that cut a tile into boxes, then those that permute dimensions; the first stage with a legal form ends it.

Growth is bounded: `max_nodes` e-nodes (asked after every iteration; one iteration may overshoot) and a number of
iterations. A bound that was reached shows in `Forms.complete` and `Forms.note`; all is deterministic. No answer of the
e-graph is believed: its steps are derived afresh (`layout.derivation`), replayed, and judged by `faults` in plain
Python.

Not handled: what changes where the tensor stands (padding, copies: `layout.term`), several maps for one tensor,
negative strides. Numbers whose products leave 62 bits are refused with a note. Checked by tests/solve/test_saturate.py
against plain search and exhaustive enumeration.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, Literal

from tilewright.layout.derivation import derive
from tilewright.layout.descriptor_limits import DescriptorLimits
from tilewright.layout.rewrite import Choices
from tilewright.layout.strided_view import StridedView
from tilewright.layout.tiled_view import TiledView, tiled
from tilewright.solve.breadth_first import search_forms
from tilewright.solve.egraph_text import LIMIT_BITS, legality_text, program_text, question_text, read_view
from tilewright.solve.forms import Form, Forms, Order, choices_for, form_of, sorted_forms

if TYPE_CHECKING:
    from egglog.bindings import EGraph, _Command  # pyright: ignore[reportPrivateUsage]

Engine = Literal["egraph", "search"]
_STAGES: tuple[Order, ...] = ("kept", "blocked", "any")
_ITERATIONS_MOST = 12


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
    if view.offset_bytes % limits.offset_multiple_bytes:
        # No rule moves a view's first byte, so no answer is a complete one.
        note = f"the first byte, {view.offset_bytes}, is no multiple of {limits.offset_multiple_bytes}"
        return Forms((), True, 0, note)
    if _bits(source) > LIMIT_BITS:
        return Forms((), False, 0, f"sizes whose products need {_bits(source)} bits are not searched")
    choices, all_offered = choices_for(source, limits)
    stages = _STAGES[: _STAGES.index(order) + 1]
    if engine == "egraph":
        found = _saturated(source, limits, choices, stages, max_nodes, most)
    else:
        found = _searched(source, limits, choices, stages, max_nodes, most)
    if all_offered:
        return found
    note = "; ".join(filter(None, (found.note, "more factors divide than were offered to the rules")))
    return Forms(found.forms, False, found.nodes, note)


def _searched(
    source: TiledView,
    limits: DescriptorLimits,
    choices: Choices,
    stages: tuple[Order, ...],
    max_nodes: int,
    most: int,
) -> Forms:
    found = Forms((), True, 0)
    for stage in stages:
        found = search_forms(source, limits, choices, order=stage, max_nodes=max_nodes, most=most)
        if found.forms:
            break
    return found


def _saturated(
    source: TiledView,
    limits: DescriptorLimits,
    choices: Choices,
    stages: tuple[Order, ...],
    max_nodes: int,
    most: int,
) -> Forms:
    from egglog.bindings import EGraph

    graph = EGraph()
    graph.run_program(*_program())
    _run(graph, question_text(source, choices) + legality_text(source, limits))
    notes: list[str] = []
    nodes, iterations = 0, 0
    for reached in range(len(stages)):
        grown = " ".join(stages[: reached + 1])
        bounded = False
        while True:
            nodes, before = _nodes(graph), nodes
            if iterations and nodes == before:
                break
            if nodes >= max_nodes or iterations >= _ITERATIONS_MOST:
                bounded = True
                notes.append(f"stopped at {nodes} e-nodes, after {iterations} iterations")
                break
            _run(graph, f"(run-schedule {grown})")
            iterations += 1
        _run(graph, f"(run legal {limits.rank_max + 2})")
        forms, refused = _extracted(graph, source, limits, most)
        if refused:
            notes.append(f"{refused} forms without a derivation left out")
        if forms or bounded:
            return Forms(forms, not notes, nodes, "; ".join(notes))
        nodes = 0
    return Forms((), not notes, _nodes(graph), "; ".join(notes))


def _extracted(graph: EGraph, source: TiledView, limits: DescriptorLimits, most: int) -> tuple[tuple[Form, ...], int]:
    """The cheapest legal views of the root, derived and judged again, and how many could not be."""
    from egglog.bindings import ExtractVariants, PrintFunctionSize

    sizes = _run(graph, "(print-size Inner)")
    if not any(isinstance(size, PrintFunctionSize) and size.size for size in sizes):
        return (), 0
    forms: list[Form] = []
    refused = 0
    for answer in _run(graph, f"(extract (InnerOf (Root)) {most})"):
        assert isinstance(answer, ExtractVariants)
        for term in answer.terms:
            steps = derive(source, read_view(answer.termdag.to_string(term), source.offset_bytes))
            form = form_of(source, steps, limits) if steps is not None else None
            if form is None:
                refused += 1
            else:
                forms.append(form)
    return sorted_forms(forms), refused


@cache
def _program() -> tuple[_Command, ...]:
    """The schema and the rules, parsed once."""
    from egglog.bindings import EGraph

    return tuple(EGraph().parse_program(program_text()))


def _run(graph: EGraph, text: str) -> list[object]:
    return list(graph.run_program(*graph.parse_program(text)))


def _nodes(graph: EGraph) -> int:
    """E-nodes of lists and views."""
    from egglog.bindings import PrintFunctionSize

    sizes = _run(graph, "(print-size Cons) (print-size Tiled)")
    return sum(size.size for size in sizes if isinstance(size, PrintFunctionSize))


def _bits(source: TiledView) -> int:
    """Bits that the largest product in a rule may take."""
    extents = prod(dimension.extent for dimension in source.dimensions)
    tiles = prod(dimension.tile for dimension in source.dimensions)
    strides = max((abs(dimension.stride_bytes) * dimension.extent for dimension in source.dimensions), default=0)
    return (max(extents, tiles, strides) * source.element_bytes).bit_length() + 1
