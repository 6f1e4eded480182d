"""Does a wait that fails come back to itself on every way that control may take, and leave nothing behind that is read?

`cuda::barrier::wait` tries 16 times, then reads the clock and sleeps longer and longer between its tries. How often it
failed shows in a counter and in a time, which nobody reads once it has succeeded:

    AGAIN: mbarrier.try_wait %p, [%r1], %rd1;  @%p bra DONE;  setp.lt.s32 %q, %r2, 16;  @%q bra COUNT;
           mov.u64 %rd2, %globaltimer;  ...;  nanosleep.u32 %r3;  bra AGAIN;
    COUNT: add.s32 %r2, %r2, 1;  bra AGAIN;

From the wait, with its predicate false, all ways are followed: every one comes back to the wait without another cycle,
and does only arithmetic (clocks among it), loads of parameters and constants, and sleeps. What these write is either
computed anew, and alike, in the straight line that leads to the wait, or dead where the wait has succeeded and no
operand of the wait. Then failing any number of times is a delay, which every schedule may have.

Source: PTX ISA 9.7.13.15 (mbarrier.try_wait: potentially blocking); libcu++, `cuda::barrier::wait` and its back-off.
Not handled: ways that end in a trap (a time limit), calls, jump tables: such a wait is not said to come back.
Checked by: tests/contract/judge/waits/test_backing_off_waits.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tilewright.contract.judge.waits.known_outcome import evaluate, outcome_of
from tilewright.frontends.ptx.ast import Instruction, Label, Register, Symbol
from tilewright.machine.protocol.slicing.slice_operands import facts_of, is_volatile, registers_of

Body = tuple[Instruction | Label, ...]
_STATES = 2000
_ENDS = frozenset({"ret", "exit", "trap"})
_ASIDE = ("param", "const")

_State = tuple[int, tuple[tuple[str, int], ...]]


def comes_back(body: Body, labels: Mapping[str, int], at: int) -> bool:
    """Whether failing leaves no trace, for the wait at index `at` of a body. labels: the index of each."""
    wait = body[at]
    assert isinstance(wait, Instruction)
    predicate = wait.operands[0]
    if not isinstance(predicate, Register):
        return False
    visited = _ways_back(body, labels, at, predicate.name)
    if visited is None:
        return False
    written = {name for index in visited for name in _writes(body[index])}
    left = written - _computed_anew(body, at, visited, written)
    operands = {name for operand in wait.operands[1:] for name in registers_of(operand)}
    return not operands & left and not _is_read(body, labels, at, predicate.name, left)


def _ways_back(body: Body, labels: Mapping[str, int], at: int, predicate: str) -> set[int] | None:
    """The indices that control may visit between a failure and the next try; None if it may not come back, or does
    something besides arithmetic, or may go round elsewhere."""
    visited: set[int] = set()
    begun: set[_State] = set()
    done: set[_State] = set()
    stack: list[tuple[_State, bool]] = [((at + 1, ((predicate, 0),)), False)]
    while stack:
        state, leaving = stack.pop()
        if leaving:
            done.add(state)
            continue
        if state in done:
            continue
        if state in begun or len(begun) > _STATES:
            return None
        begun.add(state)
        stack.append((state, True))
        following = _next_states(body, labels, state)
        if following is None:
            return None
        visited.add(state[0])
        stack.extend((each, False) for each in following if each[0] != at)
    return visited


def _next_states(body: Body, labels: Mapping[str, int], state: _State) -> list[_State] | None:
    """Where control goes from an index, with what is known of registers; None if it ends, or does what counts."""
    index, facts = state
    if index >= len(body):
        return None
    item, known = body[index], dict(facts)
    if isinstance(item, Label):
        return [(index + 1, facts)]
    happens = outcome_of(item, known)
    falls: list[_State] = [] if happens is True else [(index + 1, facts)]
    if happens is False:
        return falls
    if item.row == "bra":
        target = item.operands[-1]
        if not isinstance(target, Symbol) or target.name not in labels:
            return None
        return [(labels[target.name], facts), *falls]
    if not _is_harmless(item):
        return None
    if item.row == "nanosleep":
        return [(index + 1, facts)]
    evaluate(item, known, certain=happens is True)
    return [(index + 1, tuple(sorted(known.items())))]


def _is_harmless(item: Instruction) -> bool:
    """Arithmetic, a clock, a load of a parameter or constant, or a sleep."""
    facts = facts_of(item)
    return item.row == "nanosleep" or facts.kind == "compute" or (facts.kind == "load" and facts.space in _ASIDE)


def _computed_anew(body: Body, at: int, visited: Collection[int], written: Collection[str]) -> set[str]:
    """Registers that are written in the straight line before the wait alone, from values that no failure changes: they
    hold the same at every try."""
    first = at
    while first > 0 and first - 1 in visited and _is_straight(body[first - 1]):
        first -= 1
    elsewhere = {name for index in visited if not first <= index < at for name in _writes(body[index])}
    anew: set[str] = set()
    done: set[str] = set()
    for index in range(first, at):
        item = body[index]
        assert isinstance(item, Instruction), "labels end a straight line"
        facts = facts_of(item)
        same = all(name in anew or name not in written for name in facts.reads)
        same = same and not any(is_volatile(name) for name in facts.reads)
        for name in facts.writes:
            if same and name not in elsewhere and name not in done:
                anew.add(name)
            else:
                anew.discard(name)
            done.add(name)
    return anew


def _is_straight(item: Instruction | Label) -> bool:
    return isinstance(item, Instruction) and item.guard is None and item.row != "bra"


def _is_read(body: Body, labels: Mapping[str, int], at: int, predicate: str, left: set[str]) -> bool:
    """May one of the registers be read, once the wait has succeeded, before it is written again?"""
    known = {predicate: 1}
    index, left = at + 1, set(left)
    passed: set[int] = set()
    while left and index < len(body) and index not in passed:
        passed.add(index)
        item = body[index]
        if isinstance(item, Label):
            index += 1
            continue
        happens = outcome_of(item, known)
        if item.guard is not None and item.guard.register.name in left:
            return True
        if happens is None and item.row == "bra":
            break
        index += 1
        if happens is False:
            continue
        facts = facts_of(item)
        if left & facts.reads:
            return True
        if item.row in _ENDS and happens is True:
            return False
        if item.row == "bra":
            target = item.operands[-1]
            if not isinstance(target, Symbol) or target.name not in labels:
                return True
            index = labels[target.name]
            continue
        if happens is True:
            left -= facts.writes
        evaluate(item, known, certain=happens is True)
    return bool(left) and _is_live(body, labels, index, left)


def _is_live(body: Body, labels: Mapping[str, int], start: int, names: set[str]) -> bool:
    """May one of the registers be read from an index on, before it is written again?"""
    asked: dict[int, set[str]] = {}
    waiting: list[tuple[int, frozenset[str]]] = [(start, frozenset(names))]
    while waiting:
        index, left = waiting.pop()
        while left and index < len(body):
            item = body[index]
            if isinstance(item, Label):
                before = asked.setdefault(index, set())
                if left <= before:
                    break
                before |= left
                index += 1
                continue
            facts = facts_of(item)
            if left & facts.reads or item.row in ("brx.idx", "call"):
                return True
            if item.row == "bra":
                target = item.operands[-1]
                if not isinstance(target, Symbol) or target.name not in labels:
                    return True
                waiting.append((labels[target.name], left))
            elif item.guard is None:
                left -= facts.writes
            if item.guard is None and item.row in ("bra", *_ENDS):
                break
            index += 1
    return False


def _writes(item: Instruction | Label) -> frozenset[str]:
    return facts_of(item).writes if isinstance(item, Instruction) else frozenset()
