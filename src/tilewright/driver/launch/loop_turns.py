"""How do the loops of a protocol run turn: from where on does each repeat itself, and what does it leave behind it?

Looked at are the registers that steer each warp whenever a loop begins anew (`machine.protocol.loops.induction`), the
mbarriers then, and what is on its way to them. Whether the run itself was sound is `judge_launch`'s question.
Checked by: tests/driver/launch/test_judge_launch.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.driver.launch.arrivals_in_flight import Flying, more_and_more
from tilewright.machine.barrier.mbarrier import Mbarrier
from tilewright.machine.core.lanes import FULL, WARP_SIZE, indices, selector
from tilewright.machine.core.state import Cluster, Warp
from tilewright.machine.protocol.protocol_run import ProtocolReport
from tilewright.machine.protocol.slicing.steering import Steering, steering

if TYPE_CHECKING:
    from tilewright.frontends.ptx.ast import Instruction
    from tilewright.machine.protocol.loops.counter_values import Snapshot
    from tilewright.machine.symbolic.tracker import SymbolicRun

_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")
_SNAPSHOTS_KEPT = 200
"""Of each loop in each warp, lest an inner loop leave no place for the one around it."""
_TURNS_TO_REPEAT = 8
_Barriers = Mapping[tuple[int, int], Mbarrier]
"""The mbarriers of a cluster, by CTA and address."""
_Row = tuple[int, list[Any], _Barriers, Mapping[Span, int]]
"""The lanes that turned, the registers of their warp, the mbarriers, and what is on its way to these."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """What a loop that iterated often showed. reason: why it is not shown to repeat itself, None if it is; then it
    does so every `period` iterations from iteration `first` on; said: in words; decides: the positions at which what it
    leaves decides something behind it; further: those of them where that is another one after each number of
    iterations; short: after more iterations it may be seen to repeat itself."""

    reason: str | None
    period: int = 1
    first: int = 0
    said: str = ""
    decides: tuple[int, ...] = ()
    short: bool = False
    further: tuple[int, ...] = ()


@dataclass(slots=True)
class Turns:
    """The registers of each warp at each turn of each loop, in order, with the lanes that turned. waits: where somebody
    waited for an mbarrier, with its CTA and address; counts: where it counted; flying: what will count."""

    log: dict[tuple[int, int], list[tuple[int, _Row]]] = field(
        default_factory=dict[tuple[int, int], list[tuple[int, "_Row"]]]
    )
    names: list[str] = field(default_factory=list[str])
    kept: Counter[tuple[int, int, int]] = field(default_factory=Counter[tuple[int, int, int]])
    flying: Flying = field(default_factory=Flying)
    waits: set[tuple[int, int, Span]] = field(default_factory=set[tuple[int, int, Span]])
    counts: set[tuple[int, int, Span]] = field(default_factory=set[tuple[int, int, Span]])

    def turn(self, cluster: Cluster, warp: Warp, loop: int) -> bool:
        if not self.names:
            self.names = cluster.program.names
        who = warp.cta.linear, warp.index
        if self.kept[*who, loop] < _SNAPSHOTS_KEPT:
            self.kept[*who, loop] += 1
            registers = [None, *warp.r[1:]]  # without the warp, which would keep the whole run
            row = warp.current.mask, registers, _barriers(cluster), dict(self.flying.by_place)
            self.log.setdefault(who, []).append((loop, row))
        return False

    def _longest_visits(self, report: ProtocolReport) -> dict[tuple[int, int, int], list[_Row]]:
        """For each warp and loop, its longest visit: turns with no turn of a loop around it in between."""
        around: list[frozenset[int]] = []
        for loop in report.loops:
            parents: set[int] = set()
            parent = loop.parent
            while parent >= 0:
                parents.add(parent)
                parent = report.loops[parent].parent
            around.append(frozenset(parents))
        longest: dict[tuple[int, int, int], list[_Row]] = {}
        for who, log in self.log.items():
            visits: dict[int, list[_Row]] = {}
            for loop, row in log:
                for inner in [each for each in visits if loop in around[each]]:
                    self._keep(longest, (*who, inner), visits.pop(inner))
                visits.setdefault(loop, []).append(row)
            for loop, visit in visits.items():
                self._keep(longest, (*who, loop), visit)
        return longest

    def _keep(
        self, longest: dict[tuple[int, int, int], list[_Row]], key: tuple[int, int, int], visit: list[_Row]
    ) -> None:
        if len(visit) > len(longest.get(key, ())):
            longest[key] = visit

    def judged(self, report: ProtocolReport, left: frozenset[tuple[int, int]] = frozenset()) -> dict[int, Repeated]:
        """For every loop that turned often enough: whether it repeats itself in all warps; the worst of them. left: the
        loops that warps left since an input said so."""
        steers = steering(report.sliced)
        repeats: dict[int, Repeated] = {}
        seen: dict[tuple[int, bool], set[tuple[bytes, ...]]] = {}
        chosen: frozenset[str] | None = None
        awaited = self.awaited(report)
        for (_, warp, number), visit in sorted(self._longest_visits(report).items(), key=lambda item: item[0]):
            loop = report.loops[number]
            if not loop.protocol or loop.waits or len(visit) < _TURNS_TO_REPEAT:
                continue
            ended = not report.stopped and (warp, number) not in left
            if chosen is None:
                from tilewright.machine.symbolic.reached import reached_by_inputs  # many kernels have no such loop

                chosen = reached_by_inputs(report.sliced, True, grid=True, data=True)
            snapshots = self._snapshots(visit, steers.registers)
            content = _content(snapshots)
            if content in seen.get((number, ended), ()):
                continue  # another warp's iterations were the same
            seen.setdefault((number, ended), set()).add(content)
            barriers = [held for *_, held, _ in visit]
            found = _repeats(report, steers, chosen, number, snapshots, barriers, awaited, ended)
            if found.reason is None and (rising := more_and_more([each for *_, each in visit], found.period)):
                said = f"the loop at {loop.span} is not shown to repeat itself: {rising}"
                found = Repeated(said)
            known = repeats.get(number)
            if known is None or (known.reason is None and (found.reason is not None or found.period > known.period)):
                repeats[number] = found
        return repeats

    def awaited(self, report: ProtocolReport) -> frozenset[tuple[int, int]]:
        """The mbarriers that loops waited for."""
        return frozenset((cta, address) for cta, address, _ in self.waits_in_loops(report))

    def waits_in_loops(self, report: ProtocolReport) -> list[tuple[int, int, Span]]:
        """Where loops waited for mbarriers."""
        waits = _waits_in_loops(report)
        return [each for each in self.waits if each[2] in waits]

    def _snapshots(self, visit: list[_Row], wanted: frozenset[str]) -> list[Snapshot]:
        """The registers at each iteration. wanted: their names. Where the same lanes always turned, only theirs count:
        the others are elsewhere, and get what the last of these holds."""
        masks = {mask for mask, *_ in visit}
        mask = masks.pop() if len(masks) == 1 else FULL
        lanes = np.where(selector(mask), np.arange(WARP_SIZE), indices(mask)[-1])
        slots = [(slot, name) for slot, name in enumerate(self.names) if name in wanted]
        return [
            {
                name: value if mask == FULL else value[lanes]
                for slot, name in slots
                if slot < len(row) and isinstance(value := row[slot], np.ndarray)
            }
            for _, row, *_ in visit
        ]


def _barriers(cluster: Cluster) -> _Barriers:
    return {(cta.linear, address): each for cta in cluster.ctas for address, each in cta.barriers.items()}


def _content(snapshots: Sequence[Snapshot]) -> tuple[bytes, ...]:
    """What snapshots hold, in full."""
    return tuple(
        part for each in snapshots for name, value in each.items() for part in (name.encode(), value.tobytes())
    )


def left_by_inputs(symbolic: SymbolicRun | None) -> frozenset[tuple[int, int]]:
    """The loops that warps of any CTA left since an input said so, each after the warp."""
    return frozenset(
        (each.warp, each.loop)
        for each in (() if symbolic is None else symbolic.conditions)
        if each.loop >= 0 and (each.outcome != each.stays).any()
    )


@dataclass(frozen=True, slots=True)
class _Body:
    """What of a loop is judged, in the order of the text. places: positions; blocks: of each; whole, below: indices of
    what every iteration executes, and of what stands below the loop's latch; passed: blocks that each iteration
    passes."""

    places: list[int]
    instructions: list[Instruction]
    blocks: list[int]
    whole: list[int]
    below: frozenset[int]
    passed: list[int]


def _body_of(report: ProtocolReport, steers: Steering, number: int) -> _Body:
    from tilewright.machine.protocol.loops.latches import latch_of

    loop, text = report.loops[number], report.sliced.text
    flow, natural = text.flow, text.flow.loops[number]
    places = [
        position
        for position in sorted(loop.positions)
        if position in report.sliced.executed
        and (text.facts[position].kept or not steers.registers.isdisjoint(text.facts[position].writes))
    ]
    blocks = [flow.block_of[at] for at in places]
    latch = latch_of(flow, natural)
    below = frozenset(at for at, place in enumerate(places) if latch is not None and latch.is_below(flow, place))
    inside = {flow.block_of[position] for position in loop.positions}
    leaving = [flow.blocks[each].end - 1 for each in inside if not inside.issuperset(flow.blocks[each].successors)]
    first_exit = min(leaving, default=0) if loop.head == min(loop.positions) else 0
    last = frozenset(flow.passed(natural, last=True))
    whole = [index for index, at in enumerate(places) if at < first_exit or blocks[index] in last]
    return _Body(places, [flow.instructions[at] for at in places], blocks, whole, below, flow.passed(natural))


def _repeats(
    report: ProtocolReport, steers: Steering, chosen: frozenset[str], number: int, snapshots: list[Snapshot],
    barriers: Sequence[_Barriers], awaited: Collection[tuple[int, int]], ended: bool,
) -> Repeated:  # fmt: skip
    """Whether a loop is shown to repeat itself. chosen: the registers that inputs reach; barriers: as they were at each
    iteration; awaited: those that loops wait for; ended: what no launch chooses ended the loop in this run."""
    # Many kernels have no loop that iterates often enough.
    from tilewright.driver.explore.control_flow.left_by_loops import decided_behind, varying
    from tilewright.driver.explore.control_flow.loop_counters import counter_used_after
    from tilewright.machine.protocol.loops.chosen_steps import chosen_steps
    from tilewright.machine.protocol.loops.induction import is_read_modulo, objections, open_gain, repetition
    from tilewright.machine.symbolic.at_choice import at_choice

    loop, text, natural = report.loops[number], report.sliced.text, report.sliced.text.flow.loops[number]
    body = _body_of(report, steers, number)
    written = {
        name
        for position in loop.positions
        for name in text.facts[position].writes & steers.registers
        if position in report.sliced.executed
    }
    held = sorted(name for name in written if all(name in snapshot for snapshot in snapshots[1:]))
    found = repetition(snapshots[1:], held)
    if found is None:
        said = f"the loop at {loop.span} was not seen to repeat itself in {len(snapshots)} iterations"
        return Repeated(said, short=True)
    direct, exits = _exits(report, number)
    optional = at_choice(report.sliced, natural, body.places, chosen)
    seen = found

    def read_modulo(name: str, carried: Collection[str]) -> bool:
        return is_read_modulo(
            name, body.instructions, seen, snapshots[1:], exits, direct, chosen, carried, ended=ended,
            blocks=body.blocks, whole=body.whole, below=body.below, passed=body.passed, chosen=optional,
        )  # fmt: skip

    stepped = chosen_steps(report.sliced, steers, natural, chosen, snapshots[1:], read_modulo)
    if stepped.against is not None:
        at, why = stepped.against
        return Repeated(
            f"the loop at {loop.span} is not shown to repeat itself: {why} ({text.flow.instructions[at].span})"
        )
    opened = {name: open_gain(index) for index, name in enumerate(sorted(stepped.open))}
    found = replace(found, steps={**found.steps, **opened})
    against = objections(
        body.instructions, found, snapshots[1:], exits, direct, chosen, ended=ended, blocks=body.blocks,
        whole=body.whole, below=body.below, passed=body.passed, chosen=optional,
    )  # fmt: skip
    if against:
        first = against[0]
        return Repeated(
            f"the loop at {loop.span} is not shown to repeat itself: {first.reason} ({first.instruction.span})"
        )
    counting = _counting_barrier(barriers[len(barriers) // 2 :], found.period, awaited)
    if counting is not None:
        return Repeated(
            f"the loop at {loop.span} is not shown to repeat itself: mbarrier +{counting:#x} counts on from iteration "
            "to iteration"
        )
    stored = _counter_stored(report, steers, number, found.steps.keys())
    if stored is not None:
        return Repeated(
            f"the loop at {loop.span} does not stand for all numbers of iterations: it stores how often it iterated, "
            f"and what memory holds steers the kernel ({stored})"
        )
    after = counter_used_after(report, steers, number, found.steps, snapshots[1:])
    if after is not None:
        return Repeated(
            f"the loop at {loop.span} does not stand for all numbers of iterations: {after.reason} ({after.span})"
        )
    every = "iteration" if found.period == 1 else f"{found.period} iterations"
    # The first snapshot, which is left out, is taken after one iteration.
    # A launch chooses when registers of few states are stepped: these settle in none.
    settling = [name for name in held if name not in chosen and name not in stepped.few]
    first = max(found.first, _settled(snapshots[1:], settling, found.period))
    # What an iteration that a launch chooses leaves in a register, others leave after other numbers of iterations.
    left = {name for index in optional for name in text.facts[body.places[index]].writes & steers.registers}
    chosen_left = stepped.left | left | found.steps.keys()
    decides = decided_behind(report, steers, number, varying(snapshots[1:], held) | chosen_left)
    left_by = [{at: each for at, each in held.items() if at not in awaited} for held in barriers]
    if any(each != left_by[-1] for each in left_by):
        decides = (*decides, *_waits_behind_loops(report))
    further = decided_behind(report, steers, number, frozenset(stepped.left | left))
    # What counts on is no operand behind the loop (`loop_counters`), but may be compared with a number of the launch.
    further += decided_behind(report, steers, number, frozenset(found.steps), with_operands=False)
    said = f"the loop at {loop.span} repeats itself every {every}"
    half = len(barriers) // 2
    # After an odd number of phases a barrier comes back in the period after the next one.
    odd = _counting_barrier(left_by[half:], found.period, (), parity=True) is not None
    return Repeated(None, found.period * (1 + odd), first + 2, said, decides, further=further)


def _settled(snapshots: Sequence[Snapshot], names: Collection[str], period: int) -> int:
    """The index of the snapshot from which on registers gain the same in each period, up to the end of the run."""
    first = 0
    for name in names:
        values = np.stack([np.asarray(each[name]) for each in snapshots])
        gained = values[period:] != values[:-period] if values.dtype == np.bool_ else values[period:] - values[:-period]
        differs = np.flatnonzero((gained != gained[-1]).any(axis=1))
        first = max(first, int(differs[-1]) + 1 if differs.size else 0)
    return first


def _waits_in_loops(report: ProtocolReport) -> frozenset[Span]:
    """The waits that loops make which do more than to wait."""
    inside = {at for loop in report.loops if not loop.waits for at in loop.positions}
    instructions = report.sliced.text.flow.instructions
    return frozenset(instructions[at].span for at in inside if instructions[at].row.startswith(_WAITS))


def _waits_behind_loops(report: ProtocolReport) -> list[int]:
    """Where anything else waits for an mbarrier."""
    inside = _waits_in_loops(report)
    instructions = enumerate(report.sliced.text.flow.instructions)
    return [at for at, each in instructions if each.row.startswith(_WAITS) and each.span not in inside]


def _counting_barrier(
    barriers: Sequence[_Barriers], period: int, awaited: Collection[tuple[int, int]], *, parity: bool = False
) -> int | None:
    """The address of an mbarrier that counts by as much in each period, and ends no phase in any of them: it does when
    it has counted enough, in an iteration that was not run. awaited: those that loops wait for, so that no phase is
    missed; any other must come back in each period to what it has counted. parity: and to the parity of its phase."""
    for at in barriers[-1] if len(barriers) > period else ():
        states = [each[at] for each in barriers if at in each]
        counts = np.array([(each.expected, each.pending, each.transaction_bytes) for each in states], np.int64)
        if len(states) < len(barriers):
            continue
        gained = counts[period:] - counts[:-period]
        turned = np.array([each.phase & 1 for each in states])
        if at not in awaited and (gained.any() or (parity and (turned[period:] != turned[:-period]).any())):
            return at[1]
        if len({each.phase for each in states}) == 1 and gained[0].any() and (gained == gained[0]).all():
            return at[1]
    return None


def _counter_stored(report: ProtocolReport, steers: Steering, number: int, counters: Collection[str]) -> Span | None:
    """Where a loop stores a counter to memory that the kernel reads what steers it from."""
    sliced = report.sliced
    for position in sorted(report.loops[number].positions & sliced.stores) if steers.memory else ():
        facts = sliced.text.facts[position]
        if any(use.role == "data" and use.register in counters for use in facts.uses):
            return sliced.text.flow.instructions[position].span
    return None


def _exits(report: ProtocolReport, number: int) -> tuple[frozenset[str], frozenset[str]]:
    """Guards of branches one way of which leaves a loop, and predicates that decide whether it goes on: guards of
    branches that leave it or begin it anew, and what these are computed from."""
    loop, text = report.loops[number], report.sliced.text
    flow = text.flow
    inside = {flow.block_of[position] for position in loop.positions}
    names: set[str] = set()
    direct: set[str] = set()
    for position in loop.positions:
        item = flow.instructions[position]
        leaves = any(block not in inside for block in flow.blocks[flow.block_of[position]].successors)
        if item.row == "bra" and item.guard is not None and (position in loop.back_edges or leaves):
            names.add(item.guard.register.name)
            if leaves:
                direct.add(item.guard.register.name)
    grown = True
    while grown:
        grown = False
        for position in loop.positions:
            facts = text.facts[position]
            if facts.writes & names and flow.instructions[position].row in ("and", "or", "not", "mov", "xor"):
                new = {name for name in facts.reads if name not in names}
                names |= new
                grown = grown or bool(new)
    return frozenset(direct), frozenset(names)
