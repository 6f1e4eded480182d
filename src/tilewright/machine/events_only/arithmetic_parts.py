"""Into which parts is arithmetic cut that is remembered, so that what a part reads comes again where it can?

A stretch mixes what is new each time, such as a tile's coordinates, with what comes again: the addresses of a ring's
slot, how many columns are left in a tile. So steps are taken together that are computed from the same: from the same
registers which the stretch reads, or from the same values that are few whatever they are computed from (`_FEW`: how
many columns are left is new with each tile, but no more than the tile is wide, and cut to that it comes again). A part
may need what others write, and comes after them: what its steps are computed from comprises what those of the others
are.

Parts of different stretches that do the same arithmetic on other registers are alike (`likeness`), and what one of them
has written is known of the other: a store does for every chunk of columns what it did for the one before.

Where a register is written twice, or read before it is written, steps that touch a register which one of them writes
stay together, but for what is computed from registers of 64 bits: addresses of global memory are new with each tile.

Not handled: values that nobody would need if others were computed in other ways.
Checked by: tests/machine/events_only/test_arithmetic_parts.py, test_remembered_runs.py.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.frontends.ptx.ast import Immediate, Instruction, Register

_FEW = frozenset({"and", "min", "max", "rem"})
"""Rows of which a result is one of few values if an operand is a constant."""
_JOINED_MOST = 2
"""So many steps are done with those that alone need them: they are as soon done as looked up."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """One step that only computes. reads: slots, special registers and the guard among them; partly: it may leave what
    it writes as it was; few: whether its result is one of few values."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    partly: bool
    few: bool = False


def gives_few(instruction: Instruction) -> bool:
    """Is the result one of few values, whatever it is computed from?"""
    return instruction.row in _FEW and any(isinstance(each, Immediate) for each in instruction.operands)


def parts_of(
    places: Sequence[int], arithmetic: Mapping[int, Arithmetic], wide_slots: Container[int]
) -> list[list[int]]:
    """The steps at `places`, by parts, which may be done in this order. wide_slots: declared registers of 64 bits."""
    parts: list[list[int]] = []
    once, others = _written_once(places, arithmetic)
    parts += _by_origin(once, arithmetic)
    for together in _connected(others, arithmetic):
        parts += [part for part in _by_width(together, arithmetic, wide_slots) if part]
    return parts


def _written_once(places: Sequence[int], arithmetic: Mapping[int, Arithmetic]) -> tuple[Sequence[int], Sequence[int]]:
    """Steps whose registers are written once, and not read before, and those that are connected with any others."""
    read, written, twice = set[int](), set[int](), set[int]()
    for place in places:
        step = arithmetic[place]
        read.update(step.reads)
        for slot in step.writes:
            if slot in written or slot in read:
                twice.add(slot)
            written.add(slot)
    if not twice:
        return places, ()
    groups = _connected(places, arithmetic)
    once = [group for group in groups if all(twice.isdisjoint(arithmetic[place].writes) for place in group)]
    kept = {place for group in once for place in group}
    return sorted(kept), [place for place in places if place not in kept]


def _connected(places: Sequence[int], arithmetic: Mapping[int, Arithmetic]) -> list[list[int]]:
    """The steps by what they have to do with one another: those that touch a register which one of them writes."""
    written = {slot for place in places for slot in arithmetic[place].writes}
    groups: list[tuple[set[int], list[int]]] = []
    for place in places:
        step = arithmetic[place]
        slots, members = written.intersection((*step.reads, *step.writes)), [place]
        for group in [each for each in groups if not each[0].isdisjoint(slots)]:
            groups.remove(group)
            slots |= group[0]
            members = [*group[1], *members]
        groups.append((slots, members))
    return [sorted(members) for _, members in groups]


def _by_origin(places: Sequence[int], arithmetic: Mapping[int, Arithmetic]) -> list[list[int]]:
    """The steps by what they are computed from. Each register that they write is written once, and read after that."""
    origins: dict[int, int] = {}  # of a register: a set, as bits
    behind: dict[int, int] = {}  # of one of few values: all that it is computed from
    groups: dict[int, list[int]] = {}
    writers: dict[int, int] = {}
    users: dict[int, set[int]] = {}
    bit = 1
    for place in places:
        step = arithmetic[place]
        origin = 0
        for slot in step.reads:
            found = origins.get(slot)
            if found is None:
                found = origins[slot] = bit
                bit <<= 1
            origin |= found
        groups.setdefault(origin, []).append(place)
        for slot in step.reads:
            if slot in writers:
                users.setdefault(writers[slot], set()).add(origin)
        for slot in step.writes:
            writers[slot] = origin
            origins[slot] = origin
            if step.few:
                origins[slot] = bit
                behind[bit] = _all_behind(origin, behind)
                bit <<= 1
    # A part that needs another's results is computed from all that the other is, and from more, if what is behind few
    # values is counted, too.
    order = sorted(groups, key=lambda origin: (_all_behind(origin, behind).bit_count(), origin.bit_count()))
    return _joined(order, groups, users)


def _all_behind(origin: int, behind: Mapping[int, int]) -> int:
    found = origin
    for few, whole in behind.items():
        if origin & few:
            found |= whole
    return found


def _joined(order: Sequence[int], groups: Mapping[int, list[int]], users: Mapping[int, set[int]]) -> list[list[int]]:
    """The groups in order, few steps joined with the group that alone needs them and is computed from no less."""
    joined: dict[int, int] = {}
    for origin in reversed(order):
        using = users.get(origin, set[int]()) - {origin}
        into = {joined[each] for each in using}
        joined[origin] = origin
        if len(into) == 1 and len(groups[origin]) <= _JOINED_MOST:
            (other,) = into
            if not origin & ~other:
                groups[other].extend(groups[origin])
                joined[origin] = other
    return [sorted(groups[origin]) for origin in order if joined[origin] == origin]


def _by_width(
    places: Sequence[int], arithmetic: Mapping[int, Arithmetic], wide_slots: Container[int]
) -> tuple[list[int], list[int]]:
    """Apart from the others, and behind them, steps that read a register of 64 bits which comes from before, or what is
    computed from one."""
    wide: list[int] = []
    slots, reads = set[int](), set[int]()
    for place in places:
        step = arithmetic[place]
        if any(slot in slots or slot in wide_slots for slot in step.reads):
            wide.append(place)
            slots.update(step.writes)
            reads.update(step.reads, step.writes if step.partly else ())
        elif any(slot in reads or slot in slots or slot in wide_slots for slot in step.writes):
            return list(places), []
    apart = set(wide)
    narrow = [place for place in places if place not in apart]
    written = {slot for place in wide for slot in arithmetic[place].writes}
    touched = {slot for place in narrow for slot in (*arithmetic[place].reads, *arithmetic[place].writes)}
    return (narrow, wide) if written.isdisjoint(touched) else (list(places), [])


def flow(steps: Iterable[Arithmetic]) -> tuple[list[int], list[int]]:
    """What steps, done one after the other, read that they have not written, and what they write."""
    reads: dict[int, None] = {}
    written: dict[int, None] = {}
    for step in steps:
        for slot in step.reads:
            if slot not in written:
                reads[slot] = None
        for slot in step.writes:
            if step.partly and slot not in written:
                reads[slot] = None
            written[slot] = None
    return list(reads), list(written)


def likeness(
    instructions: Sequence[Instruction], left_out: Sequence[bool]
) -> tuple[tuple[object, ...], tuple[str, ...]]:
    """What instructions of arithmetic do, but for the names of the registers, and these in the order in which the text
    names them. Instructions that are alike do the same to registers of the same types in the same order.

    left_out: of each, whether its result is left out.
    """
    numbers: dict[str, int] = {}
    form: list[object] = []
    for instruction, undone in zip(instructions, left_out, strict=True):
        guard = instruction.guard
        form += (instruction.opcode, undone)
        if instruction.row == "or":
            form.append(instruction.span)  # under which it is noted that both operands had a bit
        if guard is not None:
            form += ("@", numbers.setdefault(guard.register.name, len(numbers)), guard.negated)
        for operand in instruction.operands:
            form.append(numbers.setdefault(operand.name, len(numbers)) if isinstance(operand, Register) else operand)
    return tuple(form), tuple(numbers)
