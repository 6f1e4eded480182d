"""What is the cheapest way to bring a tile from one register layout to another?

Theory: candidates, each derived by linear algebra over F2 and not by trial: nothing at all; moves within threads;
shuffles (`exchange.lanes`); one trip through shared memory without bank conflicts (`exchange.stage`), of one warp where
each holds all that it needs, so that no warp waits for another; and trips before or after which lanes exchange halves
of their words, where elements of a word would otherwise go one by one. All are priced by one model and the cheapest is
taken. The model counts what each of a multiprocessor's four schedulers issues, wavefronts and shuffles of the memory
pipe that they share, and the latency of each dependent round; its constants stand in the target's table, `exchange`.

Equal pairs are planned once. Not handled: sizes that are no power of two, exchanges through other CTAs' memory, several
rounds through a smaller memory. Who checks: tests/synth/exchange/test_search.py, tests/lower/exchange/test_steps.py
(the machine and the judge); bench/conversions.py on an H200.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

from tilewright.base.error import TilewrightError
from tilewright.ir.exchange import Cross, ExchangePlan, Rearrange, Stage, Step
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.numbers.bit_matrix import Columns
from tilewright.synth.exchange.chain import plan_of_chain
from tilewright.synth.exchange.held import Held, Pair, extended, pair_of, shared_registers, spans
from tilewright.synth.exchange.lanes import free_of_copies, lane_steps, rearranged, turn_steps
from tilewright.synth.exchange.rounds import drifts
from tilewright.synth.exchange.stage import stages
from tilewright.targets import Target
from tilewright.targets import target as target_by_name

_ELEMENT_BITS = {1: 0, 2: 1, 4: 2}
_WORD_BITS = 2
_CROSSES_TRIED = 2
_PLANS_KEPT = 1 << 12


def plan_exchange(
    source: LinearLayout,
    destination: LinearLayout,
    element_bytes: int,
    target: Target | str,
    *,
    repeated: bool = True,
) -> ExchangePlan | NotExpressible:
    """The cheapest known plan.

    source, destination: from "register", "lane" (32 places) and "warp" to the same outputs; element_bytes: 1, 2 or 4;
    repeated: whether warps make the exchange over and over with little between, and so may come to stand in each
    other's way (`exchange_rounds.drifts`); where they wait for memory between, that costs nothing.
    NotExpressible: the source lacks elements, or the layouts have other numbers of warps. Raises TilewrightError for
    layouts of other inputs or tiles, other element sizes and targets without warps of 32 lanes.
    """
    _require_size(element_bytes)
    name = target if isinstance(target, str) else target.name
    return _planned(source, destination, element_bytes, name, repeated)


def candidate_plans(
    source: LinearLayout, destination: LinearLayout, element_bytes: int, target: Target | str
) -> tuple[ExchangePlan, ...] | NotExpressible:
    """Every plan that was weighed, the cheapest first. As `plan_exchange`."""
    _require_size(element_bytes)
    facts = target_by_name(target) if isinstance(target, str) else target
    if facts.limit("warp.threads") != 32:
        raise TilewrightError(f"no exchange for {facts.name}, whose warps have {facts.limit('warp.threads')} lanes")
    pair = pair_of(source, destination)
    if isinstance(pair, NotExpressible):
        return pair
    plans: list[ExchangePlan] = []
    for kind, steps in _chains(pair, _ELEMENT_BITS[element_bytes], facts):
        elements, warps = 1 << len(pair.source.register), 1 << len(pair.source.warp)
        plans.append(plan_of_chain(kind, steps, elements, warps, element_bytes, facts))
    # Of equal cost, what one way packs after the trip the way back unpacks before it, and neighbours fold both.
    return tuple(sorted(plans, key=lambda plan: (plan.cost.cycles, plan.cost.issue_slots, _ends(plan, pair.forwards))))


def _require_size(element_bytes: int) -> None:
    if element_bytes not in _ELEMENT_BITS:
        raise TilewrightError(
            f"an exchange of elements of {element_bytes} bytes", remedy="elements have 1, 2 or 4; split larger ones"
        )


def _ends(plan: ExchangePlan, forwards: bool) -> list[tuple[str, int]]:
    """Form and width of the accesses, those of the same layout first whichever way the tile goes."""
    stages = [step for step in plan.steps if isinstance(step, Stage)]
    ends = [(side.form, -len(side.elements[0])) for stage in stages for side in (stage.store, stage.load)]
    return ends if forwards else ends[::-1]


@lru_cache(maxsize=_PLANS_KEPT)
def _planned(
    source: LinearLayout, destination: LinearLayout, element_bytes: int, target: str, repeated: bool
) -> ExchangePlan | NotExpressible:
    plans = candidate_plans(source, destination, element_bytes, target)
    if isinstance(plans, NotExpressible) or repeated:
        return plans if isinstance(plans, NotExpressible) else plans[0]
    facts = target_by_name(target)

    def cycles(plan: ExchangePlan) -> int:
        drifting = sum(isinstance(step, Stage) and drifts(step, facts) for step in plan.steps)
        return plan.cost.cycles - drifting * facts.limit("exchange.drift_cycles")

    return min(plans, key=lambda plan: (cycles(plan), plan.cost.issue_slots))


def _chains(pair: Pair, element_bits: int, target: Target) -> Iterator[tuple[str, tuple[Step, ...]]]:
    word_bits = _WORD_BITS - element_bits
    by_lanes = lane_steps(pair, word_bits)
    if by_lanes is not None:
        moved = any(not isinstance(step, Rearrange) for step in by_lanes)
        yield ("shuffles" if moved else "moves within threads"), by_lanes
        if not moved:
            return
    # Where there is stmatrix, there is movmatrix.
    if element_bits == 1 and target.supports("stmatrix"):
        turned = turn_steps(pair)
        if turned is not None:
            yield "transposed in registers", turned
    scope = "of each warp" if pair.in_warp else "of the block"
    for trip in stages(pair, element_bits, target):
        yield f"shared memory {scope}", trip
    for steps, crossed in _crossed_sources(pair, word_bits):
        for trip in stages(crossed, element_bits, target):
            yield f"lanes exchange, then shared memory {scope}", (*steps, *trip)
    for steps, crossed in _crossed_destinations(pair, word_bits):
        for trip in stages(crossed, element_bits, target):
            yield f"shared memory {scope}, then lanes exchange", (*trip, *steps)


def _crossed_sources(pair: Pair, word_bits: int) -> Iterator[tuple[tuple[Step, ...], Pair]]:
    """Lanes exchange parts of words, so that a word's elements are of one thread of the destination too."""
    for packed, lanes in _crossings(pair.source, pair.destination.register, pair, word_bits):
        held = _swapped(packed, lanes, word_bits)
        steps: list[Step] = [rearranged(pair.source.register, packed.register)]
        steps += [Cross(word_bits - len(lanes) + at, lane) for at, lane in enumerate(lanes)]
        yield tuple(steps), Pair(held, pair.destination, pair.bits, pair.in_warp, pair.forwards)


def _crossed_destinations(pair: Pair, word_bits: int) -> Iterator[tuple[tuple[Step, ...], Pair]]:
    """As for sources, after the trip."""
    for packed, lanes in _crossings(pair.destination, pair.source.register, pair, word_bits):
        held = _swapped(packed, lanes, word_bits)
        steps: list[Step] = [Cross(word_bits - len(lanes) + at, lane) for at, lane in enumerate(lanes)]
        steps.append(rearranged(packed.register, pair.destination.register))
        yield tuple(steps), Pair(pair.source, held, pair.bits, pair.in_warp, pair.forwards)


def _crossings(held: Held, other: Columns, pair: Pair, word_bits: int) -> Iterator[tuple[Held, tuple[int, ...]]]:
    """The layout with words whose high bits may go to lanes, and lanes whose columns `other` spans, as many."""
    shared = shared_registers(pair)
    missing = word_bits - len(shared)
    if missing <= 0 or len(held.register) < word_bits or not free_of_copies(held):
        return
    lanes = [at for at, each in enumerate(held.lane) if spans(other, (each,))]
    packed = Held(extended(shared, held.register), held.lane, held.warp)
    for number, some in enumerate(combinations(lanes, missing)):
        if number == _CROSSES_TRIED:
            return
        yield packed, some


def _swapped(held: Held, lanes: tuple[int, ...], word_bits: int) -> Held:
    register, lane = list(held.register), list(held.lane)
    for at, place in enumerate(lanes):
        bit = word_bits - len(lanes) + at
        register[bit], lane[place] = lane[place], register[bit]
    return Held(tuple(register), tuple(lane), held.warp)
