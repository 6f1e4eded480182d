"""Do some registers go through few states, however often and in whatever order a loop's instructions step them?

The loop's instructions are followed with numbers for these registers and what is computed of them alone. Where anything
else decides a branch or a guard, both ways are followed. What comes together where an iteration begins are the states.

Sound where a register that is unknown stays unknown: then there is no answer. Not handled: floating point; more than
`MOST_STATES` states. Checked by: tests/coverage_attacks/test_chosen_steps.py.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, Sequence

from tilewright.frontends.ptx.ast import Immediate, Instruction, Negated, Operand, Register
from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.protocol.slicing.slice_flow import NaturalLoop

MOST_STATES = 64
"""As many as the iterations after which a loop may repeat itself."""
_STEPS_MOST = 20_000
"""Blocks, with the registers' values, that are looked at."""

_State = tuple[tuple[str, int], ...]


def heeded_bits(sliced: Slice, name: str, within: Collection[str], depth: int = 8) -> int | None:
    """How many low bits of a register anything reads that is executed, what steps it aside; None where that may be all
    of them. within: registers that steer."""
    text, most = sliced.text, 0
    for at, item in enumerate(text.flow.instructions):
        facts = text.facts[at]
        if at not in sliced.executed or name not in facts.reads:
            continue
        if facts.kind != "compute" or (name in facts.writes and len(facts.writes) == 1):
            if facts.kind != "compute" and facts.space == "global":
                continue
            if facts.kind != "compute" or item.row not in ("add", "sub", "mov") or len(item.modifiers) != 1:
                return None
            continue
        if facts.writes.isdisjoint(within):
            continue
        bits = _bits_read(sliced, name, item, within, depth)
        if bits is None:
            return None
        most = max(most, bits)
    return most


def _bits_read(sliced: Slice, name: str, item: Instruction, within: Collection[str], depth: int) -> int | None:
    """How many low bits of a register an instruction reads, as far as what it gives is read."""
    guard = item.guard.register.name if item.guard is not None else ""
    if not depth or guard == name or len(item.modifiers) < 1 or not _width(item.modifiers[-1]):
        return None
    match item.row, item.operands:
        case "and", (_, Register(one), Immediate(int() as mask)) if one == name and mask >= 0:
            return mask.bit_length()
        case "bfe", (_, Register(one), Immediate(int() as begin), Immediate(int() as length)) if one == name:
            return (begin & 0xFF) + (length & 0xFF)
        case "shr", (Register(result), Register(one), Immediate(int() as shift)) if one == name and shift >= 0:
            bits = heeded_bits(sliced, result, within, depth - 1)
            return None if bits is None else bits + shift
        case (("add" | "sub"), (Register(result), one, other)) if len(item.modifiers) == 1:
            fixed = isinstance(one, Immediate) or isinstance(other, Immediate)
            return heeded_bits(sliced, result, within, depth - 1) if fixed else None
        case ("mov", (Register(result), Register())) if len(item.modifiers) == 1:
            return heeded_bits(sliced, result, within, depth - 1)
        case _:
            return None


def few_states(
    sliced: Slice, loop: NaturalLoop, names: Collection[str], starts: Sequence[Mapping[str, int]],
    fixed: Mapping[str, int], is_followed: Callable[[str], bool], heeded: Mapping[str, int],
) -> bool:  # fmt: skip
    """Whether some registers hold no more than few combinations of values where an iteration begins. starts: those that
    were seen; fixed: what others hold that the loop does not write, the same in all launches;
    is_followed: whether no launch chooses what a register is computed from, so that it may say which way is taken;
    heeded: of registers of which nothing reads more than low bits, these, as a mask."""
    flow, facts = sliced.text.flow, sliced.text.facts
    head = flow.block_of[loop.head]
    needed = _needed(sliced, loop, frozenset(names), is_followed)
    waiting: list[tuple[int, _State]] = []
    for start in starts:
        if any(name not in start for name in names):
            return False
        waiting.append((head, tuple(sorted((name, start[name] & heeded.get(name, _ALL)) for name in names))))
    seen: set[tuple[int, _State]] = set()
    states: set[_State] = set()
    while waiting:
        block, state = waiting.pop()
        if (block, state) in seen:
            continue
        seen.add((block, state))
        if block == head:
            kept = tuple(each for each in state if each[0] in names)
            if len(kept) < len(names):
                return False
            states.add(kept)
            state = kept
        if len(states) > MOST_STATES or len(seen) > _STEPS_MOST:
            return False
        ends = [dict(state)]
        for at in range(flow.blocks[block].begin, flow.blocks[block].end):
            item = flow.instructions[at]
            if at in sliced.executed and not needed.isdisjoint(facts[at].writes):
                ends = [after for values in ends for after in _after(item, facts[at].writes, values, fixed, heeded)]
        last = flow.instructions[flow.blocks[block].end - 1]
        for values in ends:
            for following in _following(sliced, block, last, values):
                if following in loop.blocks:
                    waiting.append((following, tuple(sorted(values.items()))))
    return True


def _needed(
    sliced: Slice, loop: NaturalLoop, names: frozenset[str], is_followed: Callable[[str], bool]
) -> frozenset[str]:  # fmt: skip
    """The registers of a loop that the values of some are computed from, and that decide about this."""
    flow, facts = sliced.text.flow, sliced.text.facts
    places = [at for at in flow.positions(loop.blocks) if at in sliced.executed]
    found: set[str] = set(names)
    size = 0
    while size < len(found):
        size = len(found)
        blocks = {flow.block_of[at] for at in places if not found.isdisjoint(facts[at].writes)}
        for at in places:
            decides = facts[at].kind == "control" and flow.decides(at, blocks)
            if decides or not found.isdisjoint(facts[at].writes):
                deciding = {use.register for use in facts[at].uses if use.role in ("guard", "branch")}
                found |= {each for each in facts[at].reads if each not in deciding or is_followed(each)}
    return frozenset(found)


def _following(sliced: Slice, block: int, last: Instruction, values: Mapping[str, int]) -> Sequence[int]:
    """The blocks that may come next."""
    flow = sliced.text.flow
    successors = flow.blocks[block].successors
    if last.row != "bra" or last.guard is None or len(successors) != 2:
        return successors
    known = values.get(last.guard.register.name)
    if known is None:
        return successors
    falls = flow.block_of[flow.blocks[block].end]
    jumps = bool(known) != last.guard.negated
    return [each for each in successors if (each == falls) != jumps]


def _after(
    item: Instruction, writes: Collection[str], values: dict[str, int], fixed: Mapping[str, int],
    heeded: Mapping[str, int],
) -> list[dict[str, int]]:  # fmt: skip
    """The values after an instruction: two of them where nobody knows whether it is executed."""
    done = {name: value for name, value in values.items() if name not in writes}
    result = result_of(item, ChainMap(values, dict(fixed)))
    if result is not None and len(writes) == 1:
        (name,) = writes
        done[name] = result & heeded.get(name, _ALL)
    if item.guard is None:
        return [done]
    known = values.get(item.guard.register.name)
    if known is None:
        return [done, values] if done != values else [done]
    return [done if bool(known) != item.guard.negated else values]


_ALL = (1 << 64) - 1


def result_of(item: Instruction, values: Mapping[str, int]) -> int | None:
    """What a whole-number instruction gives; None where that is not known."""
    words = item.modifiers
    given = [_operand(each, values) for each in item.operands[1:]]
    if item.row == "selp":
        if len(given) != 3 or given[2] is None:
            return None
        return _cut(given[0 if given[2] else 1], words[-1])
    if item.row == "setp":
        return _compared(words, given)
    if any(each is None for each in given) or not words:
        return None
    numbers = [each for each in given if each is not None]
    kind = words[-1]
    match item.row, words[:-1], numbers:
        case "mov", (), [one]:
            return _cut(one, kind)
        case "cvt", (_,), [one] if _width(kind) and _width(words[0]):
            return _cut(_signed(one, kind), words[0])
        case "add", (), [one, other]:
            return _cut(one + other, kind)
        case "sub", (), [one, other]:
            return _cut(one - other, kind)
        case "and", (), [one, other]:
            return _cut(one & other, kind)
        case "or", (), [one, other]:
            return _cut(one | other, kind)
        case "xor", (), [one, other]:
            return _cut(one ^ other, kind)
        case "not", (), [one]:
            return _cut(~one, kind) if kind != "pred" else int(not one)
        case "shl", (), [one, other] if other < _width(kind):
            return _cut(one << other, kind)
        case "shr", (), [one, other] if other < _width(kind):
            return _cut(_signed(_cut(one, kind) or 0, kind) >> other, kind)
        case "mul", ("lo",), [one, other]:
            return _cut(one * other, kind)
        case "mul", ("hi",), [one, other] if _width(kind):
            return _cut(_signed(one, kind) * _signed(other, kind) >> _width(kind), kind)
        case "mad", ("lo",), [one, other, third]:
            return _cut(one * other + third, kind)
        case "rem", (), [one, other] if kind[:1] == "u" and _cut(other, kind):
            return (_cut(one, kind) or 0) % (_cut(other, kind) or 1)
        case "div", (), [one, other] if kind[:1] == "u" and _cut(other, kind):
            return (_cut(one, kind) or 0) // (_cut(other, kind) or 1)
        case _:
            return None


_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": lambda one, other: one == other,
    "ne": lambda one, other: one != other,
    "lt": lambda one, other: one < other,
    "le": lambda one, other: one <= other,
    "gt": lambda one, other: one > other,
    "ge": lambda one, other: one >= other,
    "lo": lambda one, other: one < other,
    "ls": lambda one, other: one <= other,
    "hi": lambda one, other: one > other,
    "hs": lambda one, other: one >= other,
}


def _compared(words: Sequence[str], given: Sequence[int | None]) -> int | None:
    if len(words) not in (2, 3) or words[0] not in _COMPARISONS or not _width(words[-1]):
        return None
    kind = words[-1]
    if len(given) < 2 or given[0] is None or given[1] is None:
        return None
    sides = [_cut(each, kind) or 0 for each in given[:2] if each is not None]
    if words[0] not in ("lo", "ls", "hi", "hs"):
        sides = [_signed(each, kind) for each in sides]
    holds = _COMPARISONS[words[0]](*sides)
    if len(words) == 2:
        return int(holds) if len(given) == 2 else None
    if len(given) != 3 or given[2] is None:
        return None
    other = bool(given[2])
    match words[1]:
        case "and":
            return int(holds and other)
        case "or":
            return int(holds or other)
        case "xor":
            return int(holds != other)
        case _:
            return None


def _operand(operand: Operand, values: Mapping[str, int]) -> int | None:
    match operand:
        case Immediate(int() as value):
            return value
        case Register(name):
            return values.get(name)
        case Negated(register):
            known = values.get(register.name)
            return None if known is None else int(not known)
        case _:
            return None


def _width(kind: str) -> int:
    """Bits of a whole number's type; 1 of a predicate, 0 of what is neither."""
    if kind == "pred":
        return 1
    return int(kind[1:]) if kind[:1] in "sub" and kind[1:].isdigit() else 0


def _cut(value: int | None, kind: str) -> int | None:
    width = _width(kind)
    return None if value is None or not width else value & ((1 << width) - 1)


def _signed(value: int, kind: str) -> int:
    """A number of a type, which may be signed."""
    return value & ((1 << _width(kind)) - 1) if kind[:1] != "s" else signed(value, _width(kind))


def signed(value: int, width: int) -> int:
    """So many low bits of a number, as a signed one."""
    value &= (1 << width) - 1
    return value - (1 << width) if width and value >> (width - 1) else value
