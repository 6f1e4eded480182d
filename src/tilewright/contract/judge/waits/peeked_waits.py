"""Which waits only look ahead, so that their outcome decides no more than whether a later wait is needed?

A pipeline peeks at its next barrier while it still has work: where the peek succeeds, the blocking wait that comes
later is skipped. Such a wait is not tried again where it fails, yet its outcome changes nothing: this is read off the
text. The predicate and what is computed from it may feed only further arithmetic and branches; and what such a branch
decides (`Flow.region`) must be waits that are tried again, and arithmetic whose results are not used outside.

Whether the later wait is for the same phase is not read off the text. Whoever runs the kernel must run it twice: with
peeks that look, and with peeks that always fail. Clean in both, it is clean with any mixture: where a peek succeeds,
the phase that it saw is complete, as it is after the wait that is made where it fails.
Source: PTX ISA 9.7.13.15 (mbarrier.try_wait: potentially blocking). Checked by:
tests/contract/judge/waits/test_peeked_waits.py.
"""

from __future__ import annotations

from tilewright.base.span import Span
from tilewright.contract.judge.waits.retried_waits import is_retried
from tilewright.frontends.ptx.ast import Instruction, Kernel, Label
from tilewright.machine.protocol.slice_flow import Flow, flow_of
from tilewright.machine.protocol.slice_operands import Facts, facts_of

_WAITS = frozenset({"mbarrier.test_wait", "mbarrier.try_wait"})
_IDLE = frozenset({"bra", "nanosleep"})


def peeked_waits(kernel: Kernel) -> frozenset[Span]:
    """Places of the waits of `kernel` that are not tried again and decide only whether other waits are made."""
    if not any(isinstance(item, Instruction) and item.row in _WAITS for item in kernel.body):
        return frozenset()
    labels = {item.name: index for index, item in enumerate(kernel.body) if isinstance(item, Label)}
    retried = {
        item.span
        for index, item in enumerate(kernel.body)
        if isinstance(item, Instruction) and item.row in _WAITS and is_retried(kernel.body, labels, index)
    }
    flow = flow_of(kernel)
    facts = tuple(facts_of(instruction) for instruction in flow.instructions)
    declared = frozenset(name for declaration in kernel.registers for name in declaration.names)
    return frozenset(
        item.span
        for position, item in enumerate(flow.instructions)
        if item.row in _WAITS and item.span not in retried and _only_skips(flow, facts, position, retried, declared)
    )


def _only_skips(flow: Flow, facts: tuple[Facts, ...], wait: int, retried: set[Span], declared: frozenset[str]) -> bool:
    """Does the outcome of the wait at a position reach nothing but branches around waits that are tried again?"""
    reached = set(facts[wait].writes & declared)
    grown = True
    deciding: set[int] = set()
    while grown:
        grown = False
        for position, each in enumerate(facts):
            if position == wait or reached.isdisjoint(each.reads):
                continue
            if each.kind == "compute":
                fresh = (each.writes & declared) - reached
                reached |= fresh
                grown = grown or bool(fresh)
            elif flow.instructions[position].row == "bra":
                deciding.add(position)
            elif flow.instructions[position].span in retried and flow.instructions[position].guard is not None:
                continue  # `@!p` wait: made or not, as the peek had it
            elif (
                position != wait and flow.instructions[position].row in _WAITS and not _reads_as_operand(each, reached)
            ):
                continue
            else:
                return False
    return all(_region_only_waits(flow, facts, position, retried, reached) for position in deciding)


def _reads_as_operand(facts: Facts, reached: set[str]) -> bool:
    return any(use.register in reached and use.role != "guard" for use in facts.uses)


def _region_only_waits(
    flow: Flow, facts: tuple[Facts, ...], branch: int, retried: set[Span], reached: set[str]
) -> bool:
    """Does a branch decide about nothing but waits that are tried again, and arithmetic that stays inside?"""
    inside = {
        position
        for block in flow.region(branch)
        for position in range(flow.blocks[block].begin, flow.blocks[block].end)
    }
    written: set[str] = set()
    for position in inside:
        item = flow.instructions[position]
        if item.row in _IDLE or item.span in retried:
            written |= facts[position].writes
            continue
        if facts[position].kind != "compute":
            return False
        written |= facts[position].writes
    outside = (position for position in range(len(facts)) if position not in inside)
    return not any(facts[position].reads & (written - reached) for position in outside if position != branch)
