"""Do launches decide whether a loop counts at a barrier, so that what the barrier holds differs from launch to launch?

What an mbarrier has counted is a state that a loop carries, as registers are, but no register: an arrival that a launch
decides about (of a thread, a copy or the tensor core), how many arrivals or bytes there are, or at which barrier,
leaves another phase behind, or another count that ends one much later. Where loops wait for the barrier in each of its
phases, they see to that: these waits follow how often loops iterate. A wait in iterations that a launch chooses
otherwise is itself one of the decisions that are asked about, since it may see another phase in each. Of a decision
about any other barrier in a loop that repeats itself there are three cases:

- it compares with what ends the loop, or a loop inside it, or with a number more or less: then it follows how often
  that iterates (`i + 2 < n`, `i < n - 2`). It may be combined with what no launch chooses (`i < n - 2 && lane == 0`);
- it is the same expression in each iteration: then the loop must have been seen to repeat itself under each outcome;
- anything else is open.

Not handled: which of several other decisions come together (`joint_decisions`). Checked by:
tests/coverage_attacks/test_counted_barriers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tilewright.base.span import Span
from tilewright.driver.explore.gaps.behind_loops import sum_of
from tilewright.driver.explore.gaps.missing import Missing, cut
from tilewright.driver.explore.gaps.unequal_loops import bound_of
from tilewright.driver.explore.search.exploration import (
    ENOUGH_ITERATIONS,
    FAILS,
    HOLDS,
    Exploration,
    Place,
    Tried,
    place_of,
)
from tilewright.driver.explore.search.path_search import label
from tilewright.driver.explore.search.reachable import Impossible, Reached, Undecided, reach
from tilewright.machine.protocol.slicing.slice_flow import Flow
from tilewright.machine.symbolic.expression import Applied, Input, Node, Not, inputs_of, rendered
from tilewright.machine.symbolic.tracker import Condition

_BEFORE = 200
_CONNECTIVES = ("and", "or", "xor", "not", "mov")
_Known = dict[tuple[int, bytes], tuple[Condition, Sequence[Condition]]]


def counted_barriers(
    exploration: Exploration, chosen: Sequence[Tried], loops: Sequence[int], name: Callable[[Input], str]
) -> list[Missing]:  # fmt: skip
    """Decisions whether loops count at barriers that launches do not cover. loops: those that repeat themselves."""
    waits = frozenset[tuple[int, int, Span]]().union(*(tried.judged.waits for tried in chosen))
    counts = frozenset[tuple[int, int, Span]]().union(*(tried.judged.counts for tried in chosen))
    decisions = Decisions(exploration.ways.flow, chosen)
    awaiting = {span for _, _, span in waits}
    at_choice = {
        span
        for loop in loops
        for place in decisions.loose(loop, awaiting)
        for span in decisions.about(place) & awaiting
    }
    awaited = {(cta, address) for cta, address, span in waits if span not in at_choice}
    counting = {span for cta, address, span in counts if (cta, address) not in awaited} | at_choice
    found: list[Missing] = []
    for loop in loops:
        for place, loose in decisions.loose(loop, counting).items():
            if len({each.node.number for each, _ in loose.values()}) > 1:
                each = next(iter(loose.values()))[0]
                how = "how it counts" if each.kind == "value" else "whether it counts"
                what = "whether it waits for" if decisions.about(place) & at_choice else f"{how} at"
                said = f"{what} a barrier depends on {cut(rendered(each.node, name))} in each iteration"
                found.append(Missing(place[0], said, ("counted", loop, place), Undecided))
                continue
            for each, before in loose.values():
                found += _under(exploration, chosen, loop, each, before, name)
    return found


class Decisions:
    """What inputs decided in the launches. bounds: of each loop, what its end was compared with."""

    def __init__(self, flow: Flow, chosen: Sequence[Tried]) -> None:
        self.flow = flow
        self.bounds: dict[int, set[Node | None]] = {}
        self.places: dict[Place, _Known] = {}
        self._about: dict[tuple[int, bool], frozenset[Span]] = {}
        for tried in chosen:
            for index, each in enumerate(tried.judged.conditions):
                if each.loop >= 0:
                    self.bounds.setdefault(each.loop, set()).add(bound_of(each.node))
                else:
                    before = tried.judged.conditions[max(0, index - _BEFORE) : index]
                    known = self.places.setdefault(place_of(each), {})
                    known.setdefault((each.node.number, label(each.outcome)), (each, before))

    def loose(self, loop: int, about: Collection[Span]) -> dict[Place, _Known]:
        """Those in a loop about some instructions that do not follow how often it, or one in it, iterates."""
        around, ends = self.flow.loops[loop].blocks, self.ends(loop)
        numbers = {sum_of(each)[0] for each in ends}
        found: dict[Place, _Known] = {}
        for place, known in self.places.items():
            if self.flow.block_of[place[0]] in around and not self.about(place).isdisjoint(about):
                found[place] = {
                    key: each for key, each in known.items() if not self._follows(each[0].node, ends, numbers)
                }
        return {place: loose for place, loose in found.items() if loose}

    def _follows(self, node: Node, ends: Collection[Node], numbers: Collection[Node]) -> bool:
        """Whether what a launch chooses of a decision are comparisons with what ends loops, or with these but for a
        constant. numbers: what ends loops, less constants."""
        if bound_of(node) in ends:
            return True
        bounds = [bound_of(each) for each in parts_of(node) if each.opaque or inputs_of((each,))]
        return all(each is not None and sum_of(each)[0] in numbers for each in bounds)

    def ends(self, loop: int) -> set[Node]:
        """What the ends of a loop, and of those inside it, are compared with."""
        around = self.flow.loops[loop].blocks
        inner = [each for each in self.bounds if self.flow.loops[each].blocks <= around]
        return {bound for each in inner for bound in self.bounds[each] if bound is not None}

    def about(self, place: Place) -> frozenset[Span]:
        """What a decision is about."""
        branch = any(each.kind not in ("guard", "value") for each, _ in self.places[place].values())
        key = place[0], branch
        if key not in self._about:
            flow = self.flow
            decided = flow.positions(self._decided(place[0])) if branch else (place[0],)
            self._about[key] = frozenset(flow.instructions[at].span for at in decided)
        return self._about[key]

    def _decided(self, position: int) -> frozenset[int]:
        """The blocks that a branch decides about, those aside that each iteration comes to which comes to its end."""
        flow = self.flow
        around = [loop for loop in flow.loops if flow.block_of[position] in loop.blocks]
        return flow.region(position).difference(*(flow.passed(loop) for loop in around))


def parts_of(node: Node) -> Iterator[Node]:
    """What a predicate connects: comparisons, and whatever else it is made of."""
    operation = node.operation
    connects = isinstance(operation, Not) or (
        isinstance(operation, Applied) and operation.instruction.row in _CONNECTIVES
    )
    compares = isinstance(operation, Applied) and operation.instruction.row == "setp"
    if compares and len(node.sources) == 3 and isinstance(node.sources[2], Node):
        yield from parts_of(node.sources[2])
    if not connects:
        yield node
        return
    for each in node.sources:
        if isinstance(each, Node):
            yield from parts_of(each)


def _under(
    exploration: Exploration, chosen: Sequence[Tried], loop: int, decision: Condition, before: Sequence[Condition],
    name: Callable[[Input], str],
) -> list[Missing]:  # fmt: skip
    """What is missing for a loop to be seen to repeat itself where a decision comes out as it did."""
    outcome = label(decision.outcome)
    value = decision.kind == "value"
    alike = [tried for tried in chosen if _decides(tried, decision, outcome)]
    shown = [found for tried in alike if (found := tried.judged.repeats.get(loop)) is not None]
    said = cut(rendered(decision.node, name))
    said = f"{said} is as it was" if value else said if outcome == HOLDS else f"!{said}"
    for each in shown:
        if each.reason is not None and not each.short:
            return [Missing(-1, f"{each.reason}, where {said}", ("counted", loop, place_of(decision)), Undecided)]
    if any(each.reason is None for each in shown):
        return []
    stays = stays_long(chosen, loop)
    key = "counted", loop, place_of(decision), decision.node.number, outcome, None if stays is None else stays.iteration
    reason = f"no launch tried iterates a loop often enough to show that it repeats itself where {said}"

    def ask() -> Reached | Impossible | Undecided:
        if stays is None or value:
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


def stays_long(chosen: Sequence[Tried], loop: int) -> Condition | None:
    """By what some launch stayed in a loop for long."""
    found: Mapping[int, Condition] = {
        each.iteration: each
        for tried in chosen
        for each in tried.judged.conditions
        if each.loop == loop and each.outcome.size == 1 and (label(each.outcome) == HOLDS) == each.stays
        if each.iteration <= ENOUGH_ITERATIONS
    }
    return found[max(found)] if found else None
