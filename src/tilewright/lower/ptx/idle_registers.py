"""Which registers are idle where too many are live, and over which stretch of the text?

A register is idle over a stretch that does not name it and at whose end its value is wanted. The stretch is closed
under control flow: it is entered at its first instruction alone and left for the one behind its last alone. So every
path through it passes its beginning once and its end once, and a value put away before and brought back behind is what
it was. Results of wgmma are idle only after a wait for all products.

Choices are made one after the other, each at the place where most registers live by then. What can be computed again
from special registers and constants alone goes first, since it takes no memory; then what idles in as few loops as can
be at both ends, and of that for longest. No immediate is looked at, so that a small instance of a kernel makes the
same choices.

Not handled: registers of 128 bits; values that every turn of a loop changes, for the time of a turn; texts whose flow
is not known. Checked by: tests/lower/ptx/test_spill_slots.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.protocol.live_ranges import (
    as_bits,
    constant_registers,
    liveness,
    register_budgets,
    registers_in,
    starts_accumulators,
    width_masks,
    writers_of,
    written_once,
)
from tilewright.machine.protocol.slicing.slice_operands import Facts, facts_of, is_volatile

REGISTER = re.compile(r"%[A-Za-z]+[0-9]+")
_MULTIPLY = "wgmma.mma_async"
_WAIT = "wgmma.wait_group"
_MOST_RECOMPUTED = 3
"""Instructions that compute a value again: more would cost more than a load."""
_MOST_WIDTH = 2


@dataclass(frozen=True, slots=True)
class Idle:
    """A register of `width` words that idles from before instruction `begin` until before instruction `end`.

    depth: loops around the deeper of both. recomputed: indices of the instructions that compute it anew from special
    registers and constants, in order; empty if it must be kept.
    """

    register: str
    width: int
    begin: int
    end: int
    depth: int
    recomputed: tuple[int, ...] = ()


def choose_idle(
    instructions: Sequence[Instruction],
    successors: Sequence[tuple[int, ...]],
    widths: Mapping[str, int],
    budget: int,
    words: int,
) -> tuple[Idle, ...]:
    """Registers to put away, in the order of choice, of which those that must be kept have `words` words at most.

    budget: registers a thread, by `setmaxnreg`, of the instructions that are looked at. widths: of each register.
    """
    facts = [facts_of(instruction) for instruction in instructions]
    reads = [set(fact.reads) & widths.keys() for fact in facts]
    writes = [set(fact.writes) & widths.keys() for fact in facts]
    writers = writers_of(writes)
    constants = constant_registers(instructions, reads, writes, writers)
    for index, instruction in enumerate(instructions):
        reads[index] -= constants
        if starts_accumulators(instruction, instructions, writers):
            reads[index] -= writes[index]
    places = {name: bit for bit, name in enumerate(widths)}
    masks = width_masks(widths, places)
    live, _ = liveness(reads, writes, successors, places)
    budgets = register_budgets(instructions, successors)
    mentions = _mentions(instructions, widths)
    chains = _chains(instructions, facts, widths, writers)
    flow = _Flow.of(instructions, successors)
    multiplied = {
        name for instruction, names in zip(instructions, writes, strict=True)
        if instruction.row.startswith(_MULTIPLY) for name in names
    }  # fmt: skip
    mine = [index for index, found in enumerate(budgets) if found == {budget}]
    chosen: list[Idle] = []
    left = words
    while mine:
        peak = max(mine, key=lambda index: registers_in(live[index], masks))
        found: list[Idle] = []
        for name, width in widths.items():
            again = chains.get(name, ())
            if not live[peak] >> places[name] & 1 or not 1 <= width <= (_MOST_WIDTH if again else min(left, 2)):
                continue
            stretch = _stretch(peak, mentions[name], flow, waits=name in multiplied)
            if stretch is None or any(budgets[index] != {budget} for index in range(stretch[0], stretch[1] + 1)):
                continue
            found.append(Idle(name, width, *stretch, max(flow.depth[place] for place in stretch), again))
        if not found:
            break
        best = min(found, key=lambda idle: (not idle.recomputed, idle.depth, idle.begin - idle.end, idle.register))
        bit = ~as_bits((best.register,), places)
        for index in range(best.begin, best.end):
            live[index] &= bit
        chosen.append(best)
        # A further stretch of the same register ends where this one begins, or begins where it ends.
        mentions[best.register] = sorted({*mentions[best.register], best.begin, best.end - 1})
        left -= 0 if best.recomputed else best.width
    return tuple(chosen)


def _mentions(instructions: Sequence[Instruction], widths: Mapping[str, int]) -> dict[str, list[int]]:
    """Where each register is named at all, guards and addresses counted."""
    found: dict[str, list[int]] = {name: [] for name in widths}
    for index, instruction in enumerate(instructions):
        for name in set(REGISTER.findall(instruction.span.text)) & widths.keys():
            found[name].append(index)
    return found


def _chains(
    instructions: Sequence[Instruction],
    facts: Sequence[Facts],
    widths: Mapping[str, int],
    writers: Mapping[str, list[int]],
) -> dict[str, tuple[int, ...]]:
    """By register that few plain instructions compute from what never changes: those instructions, in order."""
    found: dict[str, tuple[int, ...]] = {}
    for index, (instruction, fact) in enumerate(zip(instructions, facts, strict=True)):
        if fact.kind != "compute" or instruction.guard is not None or len(fact.writes) != 1:
            continue
        (name,) = fact.writes
        if name not in widths or not widths[name] or not written_once((name,), writers):
            continue
        sources = set(fact.reads)
        if any(source not in widths and is_volatile(source) for source in sources):
            continue
        owned = sources & widths.keys()
        if not all(source in found for source in owned):
            continue
        chain = tuple(sorted({index}.union(*(found[source] for source in owned))))
        if len(chain) <= _MOST_RECOMPUTED:
            found[name] = chain
    return found


@dataclass(frozen=True, slots=True)
class _Flow:
    """jumps: edges other than to the next instruction. depth: loops around each instruction, by jumps back. waits:
    where all products of the warpgroup are waited for."""

    jumps: tuple[tuple[int, int], ...]
    depth: tuple[int, ...]
    waits: tuple[int, ...]

    @staticmethod
    def of(instructions: Sequence[Instruction], successors: Sequence[tuple[int, ...]]) -> _Flow:
        jumps = [
            (index, target) for index, following in enumerate(successors) for target in following if target != index + 1
        ]
        ends: dict[int, int] = {}
        for index, target in jumps:
            if target <= index:
                ends[target] = max(index, ends.get(target, 0))
        depth = [0] * len(successors)
        for head, end in ends.items():
            for index in range(head, end + 1):
                depth[index] += 1
        waits = [
            index for index, instruction in enumerate(instructions)
            if instruction.row.startswith(_WAIT) and instruction.span.text.rstrip(" ;").endswith(" 0")
        ]  # fmt: skip
        return _Flow(tuple(jumps), tuple(depth), tuple(waits))


def _stretch(peak: int, mentions: Sequence[int], flow: _Flow, *, waits: bool) -> tuple[int, int] | None:
    """(first, behind the last) of a long closed stretch around `peak` that does not name the register; None if there
    is none.

    Both ends move towards the peak until no jump enters but at the first instruction or leaves but for the one behind
    the last: so what is found is closed, though another might be longer. waits: it begins after a wait for all
    products.
    """
    if peak in mentions:
        return None
    begin = max((index for index in mentions if index < peak), default=-1) + 1
    end = min((index for index in mentions if index > peak), default=-1)
    if waits:
        begin = next((index + 1 for index in flow.waits if begin <= index < peak), 0)
    if begin == 0 or end < 0:
        return None
    settled = False
    while not settled:
        before = (begin, end)
        for source, target in flow.jumps:
            inside, reaches = begin <= source < end, begin <= target < end
            if inside and (target == begin or (not reaches and target != end)):
                # Out of the middle, or back to the first, which would put away what is no longer there.
                begin, end = (source + 1, end) if source < peak else (begin, source)
            elif not inside and reaches and target != begin:
                begin, end = (target, end) if target <= peak else (begin, target)
            elif not inside and target == end:
                end -= 1
            if not begin <= peak < end:
                return None
        settled = before == (begin, end)
    return begin, end
