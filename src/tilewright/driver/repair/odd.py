"""What in a kernel's text is odd by itself? An instruction that stands twice, one without the guard that was computed
for it, a predicate that is always true, a register moved to itself.

There is seldom more than one such place, so what is proposed for it is tried first.
Checked by: tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tilewright.driver.repair.text import (
    Candidate,
    Place,
    Subject,
    barrier_of,
    dropped,
    parity_of,
    read_by,
    replaced,
    waits,
    written,
)
from tilewright.driver.repair.traces import predicates_of
from tilewright.frontends.ptx.ast import Immediate, Instruction, Register

_BY_ONE = ("mbarrier", "cp.async.bulk", "tcgen05.mma", "tcgen05.commit")
"""Rows of what one thread does, mostly."""
_ONCE = ("mbarrier", "cp.async.bulk", "tcgen05.commit", "tcgen05.alloc", "tcgen05.dealloc", "red", "atom")


def doubled(subject: Subject) -> Iterator[Candidate]:
    """An instruction that stands twice, one right after the other."""
    for place in subject.places[:-1]:
        following = subject.places[place.index + 1]
        between = re.sub(r"//[^\n]*", "", subject.text[place.end : following.start])
        if place.text == following.text and place.item.row.startswith(_ONCE) and not between.strip():
            yield Candidate(f"once instead of twice (line {following.line})", (dropped(subject, following),))


def guards(subject: Subject) -> Iterator[Candidate]:
    """A guard for what every thread does and one should do: a predicate that nothing uses any more, the neighbours'."""
    wanted = [
        place
        for place in dict.fromkeys((*(each for each in (subject.primary, subject.other) if each is not None),))
        if place.item.row.startswith(("mbarrier", "cp.async.bulk", "tcgen05.mma", "tcgen05.commit", "tcgen05.cp"))
        and "_wait" not in place.item.row
    ]
    lone = [
        place for place in subject.fits("mbarrier.arrive", "mbarrier.expect_tx", "cp.async.bulk", "tcgen05.commit")
        if place.item.guard is None and place not in wanted and "group" not in place.item.row
        and any(place.index - 40 < each.index < place.index and predicates_of(each.item) for each in subject.dead)
    ]  # fmt: skip
    for place in (*lone, *wanted):
        unused = [
            name for each in reversed(subject.dead) if each.index < place.index and _predicate(each.item)
            for name in sorted(predicates_of(each.item))
        ]  # fmt: skip
        guarded = [each for each in subject.places if each.guard and _ready(subject, each, place)]
        beside = sorted(subject.near(guarded), key=lambda each: not each.item.row.startswith(_BY_ONE))
        # Where nothing counts what is done, a predicate that never holds would look like a repair.
        if place.item.guard is None and barrier_of(place.item) is not None:
            wanted_guards = (*(f"@{name} " for name in unused[:3]), *(each.guard for each in beside))
            for guard in list(dict.fromkeys(wanted_guards))[:5]:
                text = f"{guard}{place.text}"
                yield Candidate(f"only where {guard[1:].strip()} holds (line {place.line})", (replaced(place, text),))
        if place in lone:
            continue
        body = re.sub(r"^@!?[\w$%]+\s+", "", place.text)
        condition = "" if place.item.guard is None else _and_guard(place.guard)
        text = f"{{ .reg .pred one_lane; elect.sync _|one_lane, 0xffffffff;{condition} @one_lane {body} }}"
        yield Candidate(f"by one elected lane (line {place.line})", (replaced(place, text),))


def _ready(subject: Subject, guarded: Place, place: Place) -> bool:
    """Is the guard of an instruction, no branch, computed before `place` in the text?"""
    guard = guarded.item.guard
    return guarded.item.row != "bra" and guard is not None and any(
        guard.register.name in written(each.item) for each in subject.places[: place.index]
    )  # fmt: skip


def _and_guard(guard: str) -> str:
    name = guard[1:].strip()
    if name.startswith("!"):
        return f" .reg .pred held; not.pred held, {name[1:]}; and.pred one_lane, one_lane, held;"
    return f" and.pred one_lane, one_lane, {name};"


def _predicate(item: Instruction) -> bool:
    return bool(predicates_of(item))


def masks(subject: Subject) -> Iterator[Candidate]:
    """A multicast to other CTAs: the mask that was computed, and that nothing uses."""
    lost = [min(written(each.item)) for each in subject.dead if each.item.opcode.endswith("16")]
    for place in subject.fits("cp.async.bulk"):
        mask = place.item.operands[-1] if "multicast" in place.item.opcode else None
        mask = place.item.operands[-2] if mask is not None and "cache_hint" in place.item.opcode else mask
        match = re.search(r".*\]\s*,\s*([^,;\s]+)", place.text)
        if isinstance(mask, Register) and match is not None:
            for name in lost[:3]:
                text = place.text[: match.start(1)] + name + place.text[match.end(1) :]
                yield Candidate(f"multicast by {name} (line {place.line})", (replaced(place, text),))


def elections(subject: Subject) -> Iterator[Candidate]:
    """A predicate that is always true, where one lane should be elected."""
    for place in subject.fits("setp"):
        first, second = (*place.item.operands[1:3], None, None)[:2]
        if first is not None and first == second and ".eq" in place.item.opcode and place.item.guard is None:
            name = next(iter(written(place.item)))
            yield Candidate(
                f"elect one lane (line {place.line})", (replaced(place, f"elect.sync _|{name}, 0xffffffff;"),)
            )


def idle_moves(subject: Subject) -> Iterator[Candidate]:
    """A register moved to itself, where a phase should be flipped or a stage advanced."""
    parities = {each.name for wait in waits(subject) if isinstance(each := parity_of(wait), Register)}
    uses = _uses(subject)
    for place in subject.fits("mov"):
        operands = place.item.operands
        if len(operands) != 2 or not isinstance(operands[0], Register) or place.item.guard is not None:
            continue
        target = operands[0].name
        if operands[0] == operands[1]:
            carries = [
                name for each in reversed(subject.dead) for name in written(each.item) if each.index < place.index
            ]
            for flip in (*carries[:2], "1"):
                text = f"xor.b32 {target}, {target}, {flip};"
                yield Candidate(f"flip the phase (line {place.line})", (replaced(place, text),))
            continue
        before_it = [each for each in subject.dead[::-1] if each.index < place.index]
        lost = [name for each in before_it for name in written(each.item)]
        if isinstance(operands[1], Register) and not operands[1].name.startswith("%tid") and subject.enclosing(place):
            source = operands[1].name
            stepped = any(
                target in read_by(each.item)
                and source in written(each.item)
                and each.item.row in ("selp", "and", "rem")
                for each in subject.places
            )
            if stepped:
                text = f"add.s32 {target}, {source}, 1;"
                yield Candidate(f"advance the stage (line {place.line})", (replaced(place, text),))
            carries = [min(written(each.item)) for each in before_it if each.item.row == "selp"]
            if carries and _leads_to(uses, target, parities):
                text = f"xor.b32 {target}, {source}, {carries[0]};"
                yield Candidate(f"flip the phase (line {place.line})", (replaced(place, text),))
        if (
            isinstance(operands[1], Immediate)
            and operands[1].value == 0
            and target in parities
            and subject.enclosing(place)
        ):
            beside = [
                name for each in _divisions_first(subject.places[max(0, place.index - 6) : place.index][::-1])
                for name in written(each.item) if each.item.opcode.endswith("32")
            ]  # fmt: skip
            for name in list(dict.fromkeys((*lost[:2], *beside[:1], *_counters(subject, place), *beside[1:])))[:5]:
                for text in (f"and.b32 {target}, {name}, 1;", f"bfe.u32 {target}, {name}, 1, 1;"):
                    yield Candidate(f"the phase is a bit of the count (line {place.line})", (replaced(place, text),))


def _divisions_first(places: Sequence[Place]) -> list[Place]:
    """A ring's phase is a bit of how often the ring was gone round."""
    return sorted(places, key=lambda place: place.item.row not in ("mul", "div", "shr"))


def _counters(subject: Subject, place: Place) -> list[str]:
    """Registers that the loops around an instruction count up."""
    names: list[str] = []
    for loop in subject.enclosing(place):
        for each in subject.places[loop.first : loop.last]:
            same = each.item.row == "add" and written(each.item) & read_by(each.item)
            if same and each.item.operands[-1] == Immediate(1):
                names += same
    return list(dict.fromkeys(names))


def _uses(subject: Subject) -> dict[str, list[str]]:
    """Of each register, those that instructions compute from it."""
    found: dict[str, list[str]] = {}
    for place in subject.places:
        results = written(place.item)
        for name in read_by(place.item) if results else ():
            found.setdefault(name, []).extend(results)
    return found


def _leads_to(uses: Mapping[str, Sequence[str]], name: str, goals: set[str]) -> bool:
    """Is a value computed from a register's, whatever the order, in one of the goals?"""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in goals:
            return True
        if current not in seen:
            seen.add(current)
            waiting += uses.get(current, ())
    return False
