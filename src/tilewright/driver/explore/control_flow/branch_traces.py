"""What differs after a branch has gone one way and not the other? A trace, nothing of the protocol, or nothing at all.

A branch that leaves a trace decides about registers that steer what comes after it, about local memory, or about
something of the protocol on one of its ways. Two kinds leave none:

- both ways store to the same places of shared memory by the same instructions, and do nothing else of the protocol:
  each lane touches the same bytes, whichever way it takes, and what is stored there steers nothing;
- an idle branch decides about nothing but accesses to global memory that order nothing. Without a launch nothing is
  said of global memory, so such a branch need not be seen both ways, as an access under a guard need not be. Where the
  accesses name registers of the tensor core, the way to them must be seen.

Not handled: ways of several branches that together store alike. Checked by: tests/coverage_attacks/test_two_arms.py,
tests/coverage_attacks/test_idle_branches.py, tests/coverage_attacks/test_joint_decisions.py.
"""

from __future__ import annotations

from collections.abc import Collection

from tilewright.frontends.ptx.ast import Operand
from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.protocol.slicing.slice_operands import registers_of
from tilewright.machine.symbolic.idle_loops import accesses_global_memory, tensor_registers
from tilewright.machine.symbolic.kept_steps import changes_private_memory, is_protocol
from tilewright.machine.symbolic.memory_words import STRONG

_Stores = tuple[tuple[str, tuple[str, ...], Operand], ...]
"""Of each store, how it stores and where."""


def lasting_choices(
    sliced: Slice, steering: Collection[str], among: frozenset[int] | None = None
) -> frozenset[int]:  # fmt: skip
    """Branches and guards after which something differs. steering: registers whose values steer the protocol; among:
    positions that are asked about, None for all."""
    flow, facts = sliced.text.flow, sliced.text.facts
    found: set[int] = set()
    for position in sliced.executed if among is None else sliced.executed & among:
        if flow.instructions[position].guard is None:
            continue
        if facts[position].kind != "control":
            stores = facts[position].kind == "store" and changes_private_memory(sliced, position)
            if stores or is_protocol(sliced, position):
                found.add(position)
            continue
        region = frozenset(flow.positions(flow.region(position))) & sliced.executed
        written = frozenset[str]().union(*(facts[each].writes for each in region)) & frozenset(steering)
        read = frozenset[str]().union(*(facts[each].reads for each in sliced.executed - region))
        stores = any(facts[each].kind == "store" and changes_private_memory(sliced, each) for each in region)
        acts = any(is_protocol(sliced, each) for each in region) and not _stores_alike(sliced, position)
        if written & read or stores or acts:
            found.add(position)
    return frozenset(found)


def idle_choices(sliced: Slice, steering: Collection[str]) -> dict[int, frozenset[bool]]:
    """Branches that decide about nothing but plain accesses to global memory and what these need, each with the ways
    that need not be seen, True for the one that it jumps: both, or the one that does nothing, where the other names
    registers of the tensor core. steering: registers whose values steer the protocol."""
    flow, facts = sliced.text.flow, sliced.text.facts
    heads = {loop.head for loop in flow.loops}
    tensor = tensor_registers(sliced.text)
    found: dict[int, frozenset[bool]] = {}
    for position in sliced.executed:
        instruction = flow.instructions[position]
        if instruction.row != "bra" or instruction.guard is None:
            continue
        region = frozenset(flow.positions(flow.region(position)))
        inside = region & sliced.executed
        written = frozenset[str]().union(*(facts[each].writes for each in inside)) & frozenset(steering)
        read = frozenset[str]().union(*(facts[each].reads for each in sliced.executed - inside))
        if not heads.isdisjoint(region) or written & read or not all(_is_idle(sliced, each) for each in inside):
            continue
        if all(tensor.isdisjoint(facts[each].reads | facts[each].writes) for each in region):
            found[position] = frozenset((False, True))
            continue
        block, falls = flow.blocks[flow.block_of[position]], flow.block_of[position + 1]
        meeting = flow.postdominator[flow.block_of[position]]
        if len(set(block.successors)) == 2 and meeting in block.successors:
            found[position] = frozenset((falls != meeting,))
    return found


def _is_idle(sliced: Slice, position: int) -> bool:
    """Whether an instruction computes, branches, or accesses global memory without an order to anything else."""
    facts, instruction = sliced.text.facts[position], sliced.text.flow.instructions[position]
    moves = facts.kind == "compute" or instruction.row == "bra"
    return moves or accesses_global_memory(sliced.text, position)


def _stores_alike(sliced: Slice, branch: int) -> bool:
    """Whether both ways of a branch store to the same places of shared memory, in the same order, and do nothing else
    of the protocol: whoever takes which of them, each lane touches the same bytes. What they store steers nothing."""
    flow = sliced.text.flow
    starts = set(flow.blocks[flow.block_of[branch]].successors)
    meeting = flow.postdominator[flow.block_of[branch]]
    ways = {_stores_on_the_way(sliced, start, meeting) for start in starts}
    return len(starts) == 2 and len(ways) == 1 and None not in ways


def _stores_on_the_way(sliced: Slice, start: int, meeting: int) -> _Stores | None:
    """The stores to shared memory from one block to another; None where the way branches, does more of the protocol or
    computes where it stores."""
    flow, facts = sliced.text.flow, sliced.text.facts
    found: list[tuple[str, tuple[str, ...], Operand]] = []
    written: set[str] = set()
    passed: set[int] = set()
    at = start
    while at != meeting:
        block = flow.blocks[at]
        if at in passed or len(block.successors) != 1:
            return None
        passed.add(at)
        for position in range(block.begin, block.end):
            instruction = flow.instructions[position]
            written |= facts[position].writes
            if position not in sliced.executed or not is_protocol(sliced, position):
                continue
            address = instruction.operands[0] if instruction.operands else None
            plain = instruction.guard is None and STRONG.isdisjoint(instruction.modifiers)
            stores = instruction.row == "st" and facts[position].space == "shared" and plain
            if not stores or address is None or position in sliced.stores | sliced.data:
                return None
            if not written.isdisjoint(registers_of(address)):
                return None
            found.append((instruction.row, instruction.modifiers, address))
        at = next(iter(block.successors))
    return tuple(found)
