"""Do launches decide whether a loop counts at a barrier, so that what the barrier holds differs from launch to launch?

What an mbarrier has counted is a state that a loop carries, as registers are, but no register: an arrival that a launch
decides about leaves another phase behind, or another count that ends one much later. Where loops wait for the barrier
in each of its phases, they see to that. Of a decision about any other in a loop that repeats itself there are three
cases:

- it compares with what ends the loop, or a loop inside it: then it follows how often that iterates (`i + 2 < n`);
- it is the same expression in each iteration: then the loop must have been seen to repeat itself under each outcome;
- anything else is open.

Not handled: counts that differ by an operand; commits of the tensor core. Checked by:
tests/coverage_attacks/test_counted_barriers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tilewright.base.span import Span
from tilewright.driver.explore.exploration import ENOUGH_ITERATIONS, FAILS, HOLDS, Exploration, Place, Tried, place_of
from tilewright.driver.explore.missing import Missing, cut
from tilewright.driver.explore.path_search import label
from tilewright.driver.explore.reachable import Impossible, Reached, Undecided, reach
from tilewright.driver.explore.unequal_loops import bound_of
from tilewright.machine.protocol.slice_flow import Flow
from tilewright.machine.symbolic.expression import Input, Node, rendered
from tilewright.machine.symbolic.tracker import Condition

_BEFORE = 200


def counted_barriers(
    exploration: Exploration, chosen: Sequence[Tried], loops: Sequence[int], name: Callable[[Input], str]
) -> list[Missing]:
    """Decisions whether loops count at barriers that launches do not cover. loops: those that repeat themselves."""
    flow = exploration.ways.flow
    awaited = frozenset[tuple[int, int]]().union(*(tried.judged.awaited for tried in chosen))
    counting = {span for tried in chosen for cta, address, span in tried.judged.counts if (cta, address) not in awaited}
    bounds: dict[int, set[Node | None]] = {}
    places: dict[Place, dict[tuple[int, bytes], tuple[Condition, Sequence[Condition]]]] = {}
    for tried in chosen:
        for index, each in enumerate(tried.judged.conditions):
            if each.loop >= 0:
                bounds.setdefault(each.loop, set()).add(bound_of(each.node))
            elif each.kind != "value" and _counts(flow, each, counting):
                before = tried.judged.conditions[max(0, index - _BEFORE) : index]
                places.setdefault(place_of(each), {}).setdefault(
                    (each.node.number, label(each.outcome)), (each, before)
                )
    found: list[Missing] = []
    for loop in loops:
        around = flow.loops[loop].blocks
        inner = [each for each in bounds if flow.loops[each].blocks <= around]
        ends = {bound for each in inner for bound in bounds[each]} - {None}
        for place, known in places.items():
            if flow.block_of[place[0]] not in around:
                continue
            loose = {number: each for number, each in known.items() if bound_of(each[0].node) not in ends}
            if len({each.node.number for each, _ in loose.values()}) > 1:
                each = next(iter(loose.values()))[0]
                said = f"whether it counts at a barrier depends on {cut(rendered(each.node, name))} in each iteration"
                found.append(Missing(place[0], said, ("counted", loop, place), Undecided))
                continue
            for each, before in loose.values():
                found += _under(exploration, chosen, loop, each, before, name)
    return found


def _under(
    exploration: Exploration, chosen: Sequence[Tried], loop: int, decision: Condition, before: Sequence[Condition],
    name: Callable[[Input], str],
) -> list[Missing]:  # fmt: skip
    """What is missing for a loop to be seen to repeat itself where a decision comes out as it did."""
    outcome = label(decision.outcome)
    alike = [tried for tried in chosen if _decides(tried, decision, outcome)]
    shown = [found for tried in alike if (found := tried.judged.repeats.get(loop)) is not None]
    said = cut(rendered(decision.node, name))
    said = said if outcome == HOLDS else f"!{said}"
    for each in shown:
        if each.reason is not None and not each.short:
            return [Missing(-1, f"{each.reason}, where {said}", ("counted", loop, place_of(decision)), Undecided)]
    if any(each.reason is None for each in shown):
        return []
    stays = _stays(chosen, loop)
    key = "counted", loop, place_of(decision), decision.node.number, outcome, None if stays is None else stays.iteration
    reason = f"no launch tried iterates a loop often enough to show that it repeats itself where {said}"

    def ask() -> Reached | Impossible | Undecided:
        if stays is None:
            return Undecided()
        own = [each for each in before if (each.cta, each.warp) == (decision.cta, decision.warp)]
        needed = [each for each in exploration.ways.needed(own, decision.position, decision) if each.loop < 0]
        excluded = (HOLDS if outcome == FAILS else FAILS,)
        return reach(
            exploration.table, exploration.dimensions, decision, (*needed, stays), excluded, tuple(exploration.barred)
        )

    return [Missing(decision.position, reason, key, ask)]


def _decides(tried: Tried, decision: Condition, outcome: bytes) -> bool:
    return any(
        each.node.number == decision.node.number
        and each.position == decision.position
        and label(each.outcome) == outcome
        for each in tried.judged.conditions
    )


def _stays(chosen: Sequence[Tried], loop: int) -> Condition | None:
    """By what some launch stayed in a loop for long."""
    found: Mapping[int, Condition] = {
        each.iteration: each
        for tried in chosen
        for each in tried.judged.conditions
        if each.loop == loop and each.outcome.size == 1 and (label(each.outcome) == HOLDS) == each.stays
        if each.iteration <= ENOUGH_ITERATIONS
    }
    return found[max(found)] if found else None


def _counts(flow: Flow, condition: Condition, counting: Collection[Span]) -> bool:
    """Whether a decision is about something that counts at a barrier. counting: where that is done."""
    if not counting:
        return False
    if condition.kind == "guard":
        return flow.instructions[condition.position].span in counting
    return any(flow.instructions[at].span in counting for at in flow.positions(flow.region(condition.position)))
