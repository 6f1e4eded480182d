"""Which loops only wait for a word of global memory to hold what another thread writes there?

Such a loop loads one word by a strong load, compares it with a number that the text gives, and begins anew unless the
comparison lets it go. It changes nothing besides: what its two registers hold afterwards is never read, so how often it
turned, and which of the accepted values it saw, cannot be told. That is read off the text, loop by loop:

    WAIT: ld.acquire.gpu.global.u32 %r1, [%rd1];  setp.ne.u32 %p1, %r1, 1;  @%p1 bra WAIT;

The way through the loop must be one: a load, a comparison, one branch that the comparison decides, plain branches and
`nanosleep`. Source: PTX ISA 8.9 (causality order), 9.7.9.8 (ld). Not handled: loads of other widths, atomic operations
that poll, a bound on the tries, comparisons with registers; such loops are no polls. Checked by:
tests/machine/protocol/loops/test_polls.py.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Sequence

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Address, Immediate, Instruction, Kernel, Label, Register, Symbol
from tilewright.machine.protocol.slicing.facts_as_needed import FactsAsNeeded
from tilewright.machine.protocol.slicing.slice_flow import Flow, NaturalLoop, flow_of
from tilewright.machine.protocol.slicing.slice_operands import registers_of

_ORDERS = frozenset({"relaxed", "acquire", "volatile"})
_WORDS = frozenset({"b32", "u32", "s32"})
_NOT_GLOBAL = frozenset(
    {"shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "param::func", "const"}
)
_VECTORS = frozenset({"v2", "v4", "v8"})
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_MIRRORED = {
    "eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "lo": "hi", "ls": "hs", "hi": "lo",
    "hs": "ls",
}  # fmt: skip
_INVERTED = {
    "eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "lo": "hs", "ls": "hi", "hi": "ls",
    "hs": "lo",
}  # fmt: skip
_BITS = 1 << 32


@dataclass(frozen=True, slots=True)
class Poll:
    """A load that is tried again until the word satisfies a comparison.

    span: of the load; comparison, value: `word comparison value`; signed: compared as such; leaves: the outcome that
    ends the loop.
    """

    span: Span
    comparison: str
    value: int
    signed: bool
    leaves: bool

    @property
    def wanted(self) -> str:
        """What ends the loop, in words."""
        comparison = self.comparison if self.leaves else _INVERTED[self.comparison]
        return f"{comparison} {self.value}"

    def accepts(self, word: int) -> bool:
        """Does the loop end when it reads `word` (32 bits, unsigned)?"""
        one, other = word % _BITS, self.value % _BITS
        if self.signed:
            one, other = ((each ^ _BITS >> 1) - (_BITS >> 1) for each in (one, other))
        return _COMPARISONS[self.comparison](one, other) == self.leaves


def polls_of(kernel: Kernel) -> dict[Span, Poll]:
    """The polls of a kernel without calls, by the place of the load; a place that stands for several loads (a function
    expanded twice) only if all of them poll alike."""
    if not any(isinstance(item, Instruction) and is_strong_load(item) for item in kernel.body):
        return {}
    flow = flow_of(kernel)
    labels: dict[str, int] = {}
    position = 0
    for item in kernel.body:
        if isinstance(item, Label):
            labels[item.name] = position
        else:
            position += 1
    names = _Names(flow.instructions)
    found: dict[Span, list[Poll]] = {}
    for loop in flow.loops:
        poll = _poll(flow, labels, names, loop)
        if poll is not None:
            found.setdefault(poll.span, []).append(poll)
    return {
        span: each[0]
        for span, each in found.items()
        if len(each) == _copies(flow.instructions, span) and len(set(each)) == 1
    }


def _copies(instructions: Sequence[Instruction], span: Span) -> int:
    """How many instructions stand for a place. Lines are compared first: spans are long."""
    return sum(item.span.line == span.line and item.span == span for item in instructions)


class _Names:
    """Facts of the instructions of a kernel by position, and which of them name a register."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self.facts = FactsAsNeeded(instructions)
        self._instructions = instructions
        self._naming: dict[str, list[int]] | None = None

    def naming(self, register: str) -> list[int]:
        """The positions of the instructions that name a register, ascending, perhaps with repetitions; no other reads
        or writes it. register: one that a poll may turn on, or `_`."""
        if self._naming is None:
            self._naming = {"_": []} | {name: list[int]() for name in _turned_on(self._instructions)}
            wanted = frozenset(self._naming)
            for at, item in enumerate(self._instructions):
                if item.guard is not None and item.guard.register.name in wanted:
                    self._naming[item.guard.register.name].append(at)
                for operand in item.operands:
                    if isinstance(operand, Register):  # most are
                        if operand.name in wanted:
                            self._naming[operand.name].append(at)
                    elif not isinstance(operand, Immediate):
                        for name in wanted.intersection(registers_of(operand)):
                            self._naming[name].append(at)
        return self._naming[register]


def _turned_on(instructions: Sequence[Instruction]) -> frozenset[str]:
    """The registers that polls may turn on: words that strong loads bring, and what they are compared into."""
    words = {name for item in instructions if is_strong_load(item) for name in registers_of(item.operands[0])}
    compared = {
        name
        for item in instructions
        if item.row == "setp" and any(isinstance(each, Register) and each.name in words for each in item.operands)
        for name in registers_of(item.operands[0])
    }
    return frozenset(words | compared)


def is_strong_load(item: Instruction) -> bool:
    """A load that others' stores may be waited for by: relaxed, acquire or volatile, of memory that CTAs share."""
    return item.row == "ld" and not _ORDERS.isdisjoint(item.modifiers) and _NOT_GLOBAL.isdisjoint(item.modifiers)


def _poll(flow: Flow, labels: dict[str, int], names: _Names, loop: NaturalLoop) -> Poll | None:
    """The poll that a loop is, if it is one."""
    way = _way_through(flow, labels, loop)
    if way is None or len(way) != sum(flow.blocks[each].end - flow.blocks[each].begin for each in loop.blocks):
        return None
    instructions = [flow.instructions[at] for at in way]
    working = [item for item in instructions if item.row not in ("bra", "nanosleep")]
    deciding = [item for item in instructions if item.guard is not None]
    if len(working) != 2 or len(deciding) != 1 or deciding[0].row != "bra":
        return None
    load, comparison = working
    (branch,) = deciding
    if instructions.index(branch) < instructions.index(comparison) or branch.guard is None:
        return None
    word = _loaded_word(load)
    compared = None if word is None else _comparison(comparison, word)
    if word is None or compared is None:
        return None
    predicate, name, value, signed = compared
    if branch.guard.register.name != predicate:
        return None
    at = way[instructions.index(branch)]
    target = branch.operands[-1]
    assert isinstance(target, Symbol)
    taken = labels[target.name]
    leaves_when_taken = flow.block_of[taken] not in loop.blocks
    way_out = taken if leaves_when_taken else at + 1
    if flow.block_of[way_out] in loop.blocks:
        return None
    if not all(_is_dead(flow, names, way_out, name) for name in (word, predicate)):
        return None
    taken_if = not branch.guard.negated
    return Poll(load.span, name, value, signed, taken_if if leaves_when_taken else not taken_if)


def _is_dead(flow: Flow, names: _Names, start: int, name: str) -> bool:
    """Is a register written on every way from a position before it is read?"""
    entered: set[int] = set()  # blocks, at their beginning
    waiting, naming, facts = [start], names.naming(name), names.facts
    while waiting:
        at = waiting.pop()
        if at >= len(flow.instructions):
            continue
        number = flow.block_of[at]
        block = flow.blocks[number]
        if at == block.begin:
            if number in entered:
                continue
            entered.add(number)
        for place in naming[bisect_left(naming, at) : bisect_left(naming, block.end)]:
            if name in facts[place].reads:
                return False
            if name in facts[place].writes and flow.instructions[place].guard is None:
                break
        else:
            waiting.extend(flow.blocks[each].begin for each in block.successors)
    return True


def _way_through(flow: Flow, labels: dict[str, int], loop: NaturalLoop) -> list[int] | None:
    """The positions that a turn of the loop goes through, in order; None if there is more than one way."""
    block_of, blocks = flow.block_of, loop.blocks
    way: dict[int, None] = {}
    at = loop.head
    while at not in way:
        if block_of[at] not in blocks:
            return None
        way[at] = None
        item = flow.instructions[at]
        following = [at + 1]
        if item.row == "bra":
            target = item.operands[-1]
            if not isinstance(target, Symbol) or target.name not in labels:
                return None
            following = [labels[target.name], *(following if item.guard is not None else ())]
        elif item.row == "nanosleep" and not all(isinstance(operand, Immediate) for operand in item.operands):
            return None
        inside = [each for each in following if block_of[each] in blocks]
        if len(inside) != 1:
            return None
        at = inside[0]
    return list(way) if at == loop.head else None


def _loaded_word(load: Instruction) -> str | None:
    """The register that a strong load of one word of global memory writes."""
    given = set(load.modifiers)
    if not is_strong_load(load) or given & _VECTORS or load.modifiers[-1] not in _WORDS:
        return None
    target, *rest = load.operands
    address = rest[0] if rest else None
    if not isinstance(target, Register) or not isinstance(address, Address):
        return None
    if isinstance(address.base, Register) and address.base.name == target.name:
        return None
    return target.name


def _comparison(item: Instruction, word: str) -> tuple[str, str, int, bool] | None:
    """Predicate, comparison, number and whether it is signed, of `setp` between the register `word` and a number."""
    if item.row != "setp" or len(item.modifiers) != 2 or len(item.operands) != 3:
        return None
    name, kind = item.modifiers
    if name not in _COMPARISONS or kind not in _WORDS or (kind == "b32" and name not in ("eq", "ne")):
        return None
    match item.operands:
        case (Register(predicate), Register(first), Immediate(value)) if first == word:
            pass
        case (Register(predicate), Immediate(value), Register(second)) if second == word:
            name = _MIRRORED[name]
        case _:
            return None
    return predicate, name, value, kind == "s32" and name not in ("lo", "ls", "hi", "hs")
