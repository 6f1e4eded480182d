"""Which instructions of a loop are executed in iterations that a launch chooses?

Those in the region of a branch that inputs decide. A branch that leaves the loop, or a loop around it, decides how
often there is an iteration, not in which of them something is done: what comes behind it is executed in all of them up
to the last.

What a branch reads may depend on inputs by its value (`reached`), or by the way that the warp came: several
instructions write it, some of them in such iterations, or it is loaded from where some warp stores as inputs decide. Of
a register that one instruction writes, this is no question: where it is read before, the run says so. What the loop
does not write is the same in all iterations. Source: control dependence (Ferrante, Ottenstein and Warren, "The Program
Dependence Graph and Its Use in Optimization", 1987). Checked by:
tests/machine/symbolic/test_at_choice.py, tests/coverage_attacks/test_chosen_iterations.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.protocol.slicing.slice_flow import Flow, NaturalLoop
from tilewright.machine.symbolic.reached import closed

_WRITTEN = ("shared", "generic", "local")
"""Memory that the kernel itself writes, and that steers it."""


def at_choice(sliced: Slice, loop: NaturalLoop, places: Sequence[int], chosen: frozenset[str]) -> list[int]:
    """Which of some places in a loop are executed in iterations that a launch decides about, by index. chosen: the
    registers that inputs reach."""
    flow = sliced.text.flow
    chosen, decided = _chosen_by_ways(sliced, loop, chosen)
    blocks = decided - frozenset(flow.passed(loop))
    guards = [flow.instructions[at].guard for at in places]
    return [
        index
        for index, (at, guard) in enumerate(zip(places, guards, strict=True))
        if flow.block_of[at] in blocks or (guard is not None and guard.register.name in chosen)
    ]


def _chosen_by_ways(
    sliced: Slice, loop: NaturalLoop, chosen: frozenset[str]
) -> tuple[frozenset[str], frozenset[int]]:  # fmt: skip
    """The registers that inputs reach by their value or by the way, within an iteration of a loop; and the blocks that
    run or not as these decide."""
    text, flow = sliced.text, sliced.text.flow
    inside = flow.positions(loop.blocks)
    writers = Counter(name for facts in text.facts for name in facts.writes)
    branches = [at for at in inside if text.facts[at].kind == "control" and not _leaves_around(flow, loop, at)]
    regions = {at: flow.region(at) for at in branches}
    if _stores_by_way(sliced, chosen):
        loads = [
            each
            for each in (text.facts[at] for at in inside)
            if each.kind in ("load", "atomic") and each.space in _WRITTEN
        ]
        chosen = closed(sliced, chosen.union(*(each.writes & sliced.registers for each in loads)))
    while True:
        blocks = frozenset[int]().union(
            *(region for at, region in regions.items() if not chosen.isdisjoint(text.facts[at].reads))
        )
        optional = [at for at in inside if at in sliced.executed and flow.block_of[at] in blocks]
        by_way = {name for at in optional for name in text.facts[at].writes & sliced.registers if writers[name] > 1}
        found = closed(sliced, chosen | by_way)
        if found == chosen:
            return chosen, blocks
        chosen = found


def _stores_by_way(sliced: Slice, chosen: frozenset[str]) -> bool:
    """Whether anything is stored, other than in global memory, in a loop or where inputs decide."""
    text, flow = sliced.text, sliced.text.flow
    stores = {at for at in sliced.stores if text.facts[at].space != "global"}
    if not stores:
        return False
    deciding = [
        at for at, facts in enumerate(text.facts) if facts.kind == "control" and not chosen.isdisjoint(facts.reads)
    ]
    blocks = frozenset[int]().union(*(flow.region(at) for at in deciding))
    return any(flow.block_of[at] in blocks or flow.is_in_a_loop(at) for at in stores)


def _leaves_around(flow: Flow, loop: NaturalLoop, at: int) -> bool:
    """Whether a branch leaves a loop, or one around it."""
    block = flow.block_of[at]
    around = [each for each in flow.loops if loop.blocks <= each.blocks and block in each.blocks]
    return any(not each.blocks.issuperset(flow.blocks[block].successors) for each in around)
