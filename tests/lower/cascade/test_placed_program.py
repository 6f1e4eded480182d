# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Which CTA of a cluster holds which slice: the analysis against enumeration of each CTA's terms, against the copies
that the emitted text issues on the CPU machine, and what it must not claim."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from examples.rows import softmax
from tests.lower.cascade_programs import attention

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.driver.compile.walked import walked
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.placed_program import placements
from tilewright.ir.placement import Along, Held, Partial, contributors, dealt, parted, sharing
from tilewright.ir.tile.facts import loads, loops, parameter_name, reductions, stores, the_program
from tilewright.ir.tile.operations import ProgramOp
from tilewright.layout.linear.hierarchy import Hierarchy
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.machine.core.event import CopyIssue, Event
from tilewright.machine.core.run import run_launch
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

ROWS, COLUMNS, DEPTH = 4, 6, 2
"""Of a tile, in the enumerations."""


@tw.kernel
def linear(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    c[i, j] = tw.dot(a[i, k], b[j, k], over=k)


@tw.kernel
def beside(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], r: tw.Tensor["N"], c: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    c[i, j] = tw.exp(tw.dot(a[i, k], b[j, k], over=k) + r[j])


def decided(
    kernel: Kernel, dims: Mapping[str, int], name: str = "sm_90a", **wanted: Any
) -> tuple[ProgramOp, CascadeDecisions]:
    """Walked by tiles."""
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    wish = Wanted(**wanted)
    program = the_program(walked(trace(kernel, dims, elements, None), target(name), wish))
    decisions = decide(program, target(name), wish)
    assert isinstance(decisions, CascadeDecisions)
    return program, decisions


def program_of(kernel: Kernel, dims: Mapping[str, int]) -> ProgramOp:
    return decided(kernel, dims)[0]


def terms(deal: Hierarchy, cta: int, cluster: int) -> set[tuple[int, int, int]]:
    """The products, by row, column and number along the sum, that a place's first tile adds up."""
    begins = {"M": 0, "N": 0, "K": 0} | deal(cta=cta, cluster=cluster)
    sides = ((begins["M"], ROWS), (begins["N"], COLUMNS), (begins["K"], DEPTH))
    return set(product(*(range(begin, begin + size) for begin, size in sides)))


@pytest.mark.parametrize(
    ("across", "clusters"),
    [
        ([], []),
        ([(2, "M", ROWS)], []),
        ([(4, "N", COLUMNS)], []),
        ([(2, "M", ROWS), (2, "N", COLUMNS)], []),
        ([(4, "K", DEPTH)], []),
        ([(2, "K", DEPTH)], [(3, "K", 2 * DEPTH)]),
        ([(3, "M", ROWS), (2, "N", COLUMNS), (2, "K", DEPTH)], [(2, "K", 2 * DEPTH)]),
    ],
)
@pytest.mark.parametrize("kernel", [linear, beside])
def test_products_against_enumeration(kernel: Kernel, across: Any, clusters: Any) -> None:
    program, deal = program_of(kernel, {"M": 64, "N": 64, "K": 64}), dealt({"cta": across, "cluster": clusters})
    found = placements(program, deal, loads(program), {"cta": Along("N", 1, 2), "cluster": Held.ONE})
    ctas, teams = deal.input_sizes["cta"], deal.input_sizes["cluster"]
    of_place = {(cta, team): terms(deal, cta, team) for cta in range(ctas) for team in range(teams)}
    a, b = (found.of[load.result] for load in loads(program)[:2])
    for placement, axes in ((a, (0, 2)), (b, (1, 2))):
        touched = [{tuple(term[at] for at in axes) for term in of_place[cta, 0]} for cta in range(ctas)]
        groups = sharing(placement, "cta")
        for one, other in product(range(ctas), repeat=2):
            assert (touched[one] == touched[other]) == any({one, other} <= set(group) for group in groups)
    (output,) = loops(program)[0].outputs
    exchanges = found.exchanges.get(output, ())
    results = {place: {term[:2] for term in own} for place, own in of_place.items()}
    for (cta, team), own in results.items():
        alike = [place for place, theirs in results.items() if theirs == own]
        own_cluster = [place for place in alike if place[1] == team]
        assert len(own_cluster) == max([contributors(each.before, "cta") for each in exchanges], default=1)
        assert len(alike) == np.prod([contributors(each.before, each.level) for each in exchanges], dtype=int), cta
    levels = (("shared::cluster", across), ("global", clusters))
    assert [each.space for each in exchanges] == [
        space for space, digits in levels if any(axis == "K" for _, axis, _ in digits)
    ]
    # Behind the exchanges nothing is a contribution, and what is computed of the sum lies where that does.
    (store,) = stores(program)
    assert not any(isinstance(each.state, Partial) for each in found.of[store.value].digits)
    assert found.of[store.value].digits == found.of[output].digits


def test_what_no_addition_carries_on_is_unknown() -> None:
    """A softmax's sums are corrected on the way: CTAs that walk parts of it would not have contributions to a sum."""
    sizes = {"B": 1, "H": 1, "Q": 64, "T": 128, "E": 64, "F": 64}
    program = program_of(attention, sizes)
    with pytest.raises(AssertionError, match="nobody knows who has a result"):
        placements(program, dealt({"cta": [(2, "T", 64)]}), loads(program), {})
    rows = placements(program, dealt({"cta": [(2, "Q", 64)]}), loads(program), {})
    assert not rows.exchanges
    assert [rows.of[each.value].digits[0].state for each in stores(program)] == [Along("Q", 64, 2)]


def test_a_constant_that_a_sum_may_not_count_twice() -> None:
    program = program_of(beside, {"M": 64, "N": 64, "K": 64})
    found = placements(program, dealt({"cta": [(2, "K", 64)]}), loads(program), {})
    (exchange,) = found.exchanges[loops(program)[0].outputs[0]]
    # The sum meets before the bias, which both CTAs have, is added.
    assert exchange.before.digits[0].state == Partial("add") and exchange.after.digits[0].state is Held.SAME


@pytest.mark.parametrize("ctas", [1, 2, 4])
def test_folds_of_rows_meet_level_by_level(ctas: int) -> None:
    wanted = Wanted(row_threads=256, row_ctas=ctas, row_kept=False)
    program = the_program(trace(softmax, {"M": 8, "N": 8192}, dict.fromkeys("xy", Element.F32), None))
    decisions = decide(program, target("sm_90a"), wanted)
    assert isinstance(decisions, ElementwiseDecisions)
    (row,) = decisions.rows
    found = placements(program, row.deal, (), {})
    spaces = ["register", "register", "shared::cta", *["shared::cluster"] * (ctas > 1)]
    for op in reductions(program):
        assert [each.space for each in found.exchanges[op.result]] == spaces
        assert row.warps == 8 * ctas and contributors(row.of_fold, "lane") == 32
    # All elements of a strip, each once.
    points = [next(iter(row.deal(**place).values())) for place in _places(row.deal)]
    assert sorted(points) == list(range(row.strip))


def _places(deal: Hierarchy) -> list[dict[str, int]]:
    sizes = deal.input_sizes
    return [dict(zip(sizes, each, strict=True)) for each in product(*(range(size) for size in sizes.values()))]


# ---------------------------------------------------------------- what the text does


def issued(program: ProgramOp, name: str) -> list[CopyIssue]:
    """Loads of the emitted text, on the CPU machine."""
    lowered = lower_program(program)
    plan, events = launch_plan(lowered), list[Event]()
    text = read(lower_to_ptx([each.module for each in lowered.kernels], name), "kernel.ptx")
    buffers = {each.name: np.zeros(each.span_bytes, np.uint8) for each in plan.buffers}
    (launch,) = plan.launches
    run_launch(text, launch, buffers, observe=events.append)
    return [event for event in events if isinstance(event, CopyIssue) and event.direction == "load"]


@pytest.mark.parametrize(
    ("name", "wanted", "tiles"),
    [
        ("sm_90a", {"tile": (64, 64), "cluster": (1, 2)}, (1, 2)),
        ("sm_90a", {"tile": (64, 64), "cluster": (2, 1)}, (2, 1)),
        ("sm_90a", {"tile": (64, 64), "cluster": (4, 1)}, (4, 1)),
        ("sm_90a", {"tile": (64, 64), "split": 2}, (1, 1)),
        ("sm_100a", {"tile": (128, 64), "cluster": (2, 1)}, (2, 1)),
    ],
)
def test_copies_of_the_text_are_those_of_the_placement(
    name: str, wanted: dict[str, Any], tiles: tuple[int, int]
) -> None:
    """One cluster: each CTA issues its part of what it shares, to all who share it, and in all gets its slice."""
    (rows, columns), depth = wanted["tile"], 256
    program, d = decided(linear, {"M": rows * tiles[0], "N": columns * tiles[1], "K": depth}, name, **wanted)
    assert d.ctas == d.cluster_ctas > 1
    found, copies = placements(program, d.deal, loads(program), d.behind_sums), issued(program, name)
    for load in loads(program):
        (slot,) = (each for each in d.slots if each.load == loads(program).index(load))
        buffer = parameter_name(program, load.tensor)
        own = [each for each in copies if each.box is not None and each.box.buffer == buffer]
        placement, axis = found.of[load.result], d.row if slot.buffer == "a" else d.column
        groups = sharing(placement, "cta")
        extent = {d.row: d.tile_rows, d.column: d.tile_columns}[axis]
        brought = parted(placement, "cta", axis, extent)
        for issue in own:
            assert issue.box is not None
            (group,) = (each for each in groups if issue.actor.cta in each)
            assert issue.destinations == (group if slot.peers > 1 else (issue.actor.cta,))
            begin = at(brought, issue.actor.cta, axis)
            along, across = issue.box.coordinates
            size = extent // len(group)
            assert begin <= across < begin + size, (slot.buffer, issue.actor.cta)
            walked_at = at(placement, issue.actor.cta, d.streamed)
            assert along // d.tile_streamed % d.shares == walked_at // d.tile_streamed
        # Nothing is left out: all rows and all numbers along the sum, once.
        elements = sum(issue.bytes for issue in own) // slot.element_bytes
        assert elements == program.extents[axis] * depth


def at(placement: Any, rank: int, axis: str) -> int:
    """Where a CTA's slice begins along an axis."""
    begin = 0
    for digit in (each for each in placement.digits if each.level == "cta"):
        rank, value = divmod(rank, digit.extent)
        begin += value * digit.state.step if isinstance(digit.state, Along) and digit.state.axis == axis else 0
    return begin
