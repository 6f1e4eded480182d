"""Which instruction of an mbarrier's life might be missing? Its init, an expectation of bytes, an arrival, a commit.

What is missing leaves traces (`repair.traces`), and siblings that have it: a barrier that is waited for and never
initialised, a run of operations that nothing commits. What is proposed is written with the operands that are there.
Checked by: tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tilewright.base.plural import counted as words_of_count
from tilewright.driver.repair.text import (
    Candidate,
    Place,
    Subject,
    after,
    barrier_of,
    before,
    before_line,
    constant,
    dropped,
    replaced,
    spelled,
    waits,
    written,
)
from tilewright.driver.repair.traces import addresses_among, constant_text, predicates_of, unused_results
from tilewright.frontends.ptx.ast import Address, Immediate, Instruction, Register

_ARRIVES = ("mbarrier.arrive",)
_INIT_FENCE = "fence.mbarrier_init.release.cluster;"


def initialisations(subject: Subject) -> Iterator[Candidate]:
    """An init for a barrier that is used and has none; the inits before the loop that repeats them."""
    inits = list(subject.fits("mbarrier.init"))
    known = {_key(subject, barrier) for place in inits if (barrier := barrier_of(place.item)) is not None}
    for place in inits:
        for loop in subject.enclosing(place)[-1:]:
            first = subject.places[place.index + 1 : place.index + 4]
            moved = [place, *(each for each in first if each.item.row.startswith(("fence", "bar", "barrier")))]
            edits = tuple(dropped(subject, each) for each in moved)
            lines = tuple(each.text for each in moved)
            yield Candidate(
                f"initialise once, before the loop of line {loop.head_line}",
                (*edits, before_line(subject, loop.head_line, *lines)),
            )
    wanted: list[tuple[str, int]] = []
    for place in subject.near([each for each in subject.places if barrier_of(each.item) is not None]):
        barrier = barrier_of(place.item)
        at = None if barrier is None else _key(subject, barrier)
        if at is not None and at not in known and at not in wanted and place.item.row != "mbarrier.init":
            wanted.append(at)
    bases = {at[0] for at in known if at is not None}
    wanted = [at for at in wanted if not at[0].startswith("%") or at[0] in bases]
    counts = [each.item.operands[-1].value for each in inits if isinstance(each.item.operands[-1], Immediate)]
    counted = [value for value, _ in Counter(counts).most_common()] or [1]
    yield from _lost_inits(subject, counted[0])
    for at in wanted[:3]:
        yield from _early_inits(subject, at, counted[0])
    if not inits:
        return
    offsets = {place: at for place in inits if (barrier := barrier_of(place.item)) and (at := _key(subject, barrier))}
    for symbol in dict.fromkeys(at[0] for at in offsets.values()):
        numbers = sorted(at[1] for at in offsets.values() if at[0] == symbol)
        gaps = [number + 8 for number in numbers if number + 8 not in numbers] + [numbers[0] - 8]
        free = [(symbol, offset) for offset in gaps if offset >= 0]
        wanted += [at for at in free if at not in wanted]
    for at in wanted:
        near = _nearest(offsets, at) or inits[-1]
        count = near.item.operands[-1]
        first = count.value if isinstance(count, Immediate) else counted[0]
        for value in list(dict.fromkeys((first, *counted)))[:2]:
            address = constant_text(at)
            yield Candidate(
                f"initialise the barrier at {at[0]}+{at[1]} for {words_of_count(value, 'arrival')}",
                (after(subject, near, *_with_address(near.guard, address, value)),),
            )


def _key(subject: Subject, barrier: Address) -> tuple[str, int] | None:
    """An mbarrier's address as a constant, or as a register and an offset."""
    at = constant(subject, barrier)
    if at is None and isinstance(barrier.base, Register):
        return barrier.base.name, barrier.offset
    return at


def _lost_inits(subject: Subject, count: int) -> Iterator[Candidate]:
    """An init by a predicate and at an address that stand beside each other, and that nothing uses."""
    tops = unused_results(subject)
    for address in addresses_among(subject, tops)[:3]:
        beside = [each for each in tops if abs(each.index - address.index) < 8 and predicates_of(each.item)]
        for guard in beside[:2]:
            place = max(guard, address, key=lambda each: each.index)
            text = f"mbarrier.init.shared::cta.b64 [{min(written(address.item))}], {count};"
            yield Candidate(
                f"initialise a barrier for {words_of_count(count, 'arrival')} (after line {place.line})",
                (after(subject, place, f"@{min(predicates_of(guard.item))} {text}"),),
            )


def _early_inits(subject: Subject, at: tuple[str, int], count: int) -> Iterator[Candidate]:
    """An init before the first use of a barrier, by a predicate that nothing uses or by that of the first use."""
    uses = [each for each in subject.places if (found := barrier_of(each.item)) and _key(subject, found) == at]
    first = uses[0]
    earlier = [each for each in subject.fits("mbarrier.init") if each.index < first.index]
    text = f"mbarrier.init.shared::cta.b64 [{constant_text(at)}], {count};"
    title = f"initialise the barrier at {constant_text(at)} for {words_of_count(count, 'arrival')}"
    for each in [each for each in subject.dead if each.index < first.index and predicates_of(each.item)][::-1][:2]:
        guard = f"@{min(predicates_of(each.item))} "
        yield Candidate(f"{title} (after line {each.line})", (after(subject, each, guard + text),))
    if earlier:
        return
    leader = next((each for each in uses if each.guard), None)
    syncs = [each for each in subject.fits("bar.sync", "barrier.sync") if each.index < first.index]
    if leader is None:
        return
    lines = (f"{leader.guard}{text}", f"{leader.guard}{_INIT_FENCE}")
    makers = [
        each for each in subject.places if leader.item.guard and leader.item.guard.register.name in written(each.item)
    ]
    if syncs and makers and makers[-1].index < syncs[-1].index:
        yield Candidate(f"{title} (before line {syncs[-1].line})", (before(subject, syncs[-1], *lines),))
    yield Candidate(f"{title} (before line {leader.line})", (before(subject, leader, *lines, "bar.sync 0;"),))


def _nearest(offsets: dict[Place, tuple[str, int]], at: tuple[str, int]) -> Place | None:
    return min(
        (place for place, each in offsets.items() if each[0] == at[0]),
        key=lambda place: abs(offsets[place][1] - at[1]),
        default=None,
    )


def _with_address(guard: str, address: str, count: int) -> tuple[str, ...]:
    return (f"{guard}mbarrier.init.shared::cta.b64 [{address}], {count};",)


def expectations(subject: Subject) -> Iterator[Candidate]:
    """An expectation of bytes where copies come and none is: before the first copy, or by an arrival that is there."""
    pairs = [int(came) for came, _ in re.findall(r"(\d+) of (\d+) bytes", subject.words)]
    others = [
        each.item.operands[-1].value for each in subject.places
        if "expect_tx" in each.item.opcode and isinstance(each.item.operands[-1], Immediate)
    ]  # fmt: skip
    lost = [int(word) for word in re.findall(r"its (\d+) bytes", subject.words)]
    for place in subject.near(list(subject.fits(*_ARRIVES, "mbarrier.expect_tx"))):
        barrier = barrier_of(place.item)
        copies = [
            each for each in subject.fits("cp.async.bulk") if barrier is not None and barrier_of(each.item) == barrier
        ]
        if place.item.row == "mbarrier.expect_tx" and barrier is not None:
            count = place.item.operands[-1]
            if isinstance(count, Immediate):
                text = f"{place.guard}mbarrier.arrive.expect_tx.shared::cta.b64 _, {spelled(barrier)}, {count.value};"
                yield Candidate(f"arrive as the bytes are expected (line {place.line})", (replaced(place, text),))
        if (
            place.item.row == "mbarrier.arrive"
            and barrier is not None
            and "expect_tx" not in place.item.opcode
            and copies
        ):
            sizes = sum(value for each in copies for value in _sizes(each.item)[:1])
            for value in list(dict.fromkeys((*([sizes] if sizes else []), *pairs, *others, *lost)))[:3]:
                text = f"{place.guard}mbarrier.arrive.expect_tx.shared::cta.b64 _, {spelled(barrier)}, {value};"
                if value:
                    yield Candidate(
                        f"expect {value} bytes with the arrival (line {place.line})", (replaced(place, text),)
                    )
    seen: set[Address] = set()
    copies = [each for each in subject.places if each.item.row.startswith("cp.async.bulk") and barrier_of(each.item)]
    chosen = [each for each in subject.near(copies)]
    for copy in chosen:
        barrier = barrier_of(copy.item)
        first = next(each for each in copies if barrier_of(each.item) == barrier)
        if barrier is None or barrier in seen:
            continue
        seen.add(barrier)
        unused = [
            each for each in subject.dead if predicates_of(each.item) and first.index - 40 < each.index < first.index
        ]  # fmt: skip
        sizes = sum(value for each in copies if barrier_of(each.item) == barrier for value in _sizes(each.item)[:1])
        for value in list(dict.fromkeys((*pairs, *([sizes] if sizes else []), *others, *lost)))[:2]:
            if not value:
                continue
            tail = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, {spelled(barrier)}, {value};"
            title = f"expect {value} bytes"
            for each in reversed(unused[-2:]):
                guard = f"@{min(predicates_of(each.item))} "
                maker = _maker_before(subject, barrier, first)
                where = each if maker is None or maker.index < each.index else maker
                yield Candidate(f"{title} (after line {where.line})", (after(subject, where, guard + tail),))
            yield Candidate(f"{title} (before line {first.line})", (before(subject, first, first.guard + tail),))


def _maker_before(subject: Subject, barrier: Address, place: Place) -> Place | None:
    if not isinstance(barrier.base, Register):
        return None
    makers = [each for each in subject.places[: place.index] if barrier.base.name in written(each.item)]
    return makers[-1] if makers else None


def _sizes(item: Instruction) -> list[int]:
    return [each.value for each in item.operands if isinstance(each, Immediate)]


def arrivals(subject: Subject) -> Iterator[Candidate]:
    """An arrival that nobody makes: at the end of the loop that waits for the other barriers, or where its operands
    still are."""
    wait = next(
        (each for each in (subject.primary, subject.other) if each is not None and each in waits(subject)), None
    )
    barrier = barrier_of(wait.item) if wait is not None else None
    siblings = list(subject.fits(*_ARRIVES))
    shape = Counter(
        re.sub(r"^@!?\S+\s+", "", each.text).split()[0] for each in siblings if "expect_tx" not in each.item.opcode
    )
    opcode = shape.most_common(1)[0][0] if shape else "mbarrier.arrive.shared::cta.b64"
    tops = unused_results(subject)
    addresses = addresses_among(subject, tops)
    guards = [each for each in tops if predicates_of(each.item)]
    remote = "shared::cluster" in opcode
    usual = [guard for guard, _ in Counter(each.guard for each in siblings if each.guard).most_common(2)]
    for each in subject.near(addresses)[:3]:
        name = min(written(each.item))
        lost = [f"@{min(predicates_of(guard.item))} " for guard in guards if abs(guard.index - each.index) < 60]
        for spot in _after_uses(subject, each)[:4]:
            for guard in (*lost[:2], *usual, ""):
                text = f"{guard}{opcode} _, [{name}];"
                yield Candidate(f"arrive (after line {spot.line})", (after(subject, spot, text),))
    targets = _awaited_barriers(subject)
    for each in subject.near(guards)[:3]:
        guard = f"@{min(predicates_of(each.item))} "
        for spot in _after_uses(subject, each)[:4]:
            for target in targets[:2]:
                text = f"{guard}{opcode} _, {target};"
                yield Candidate(f"arrive (after line {spot.line})", (after(subject, spot, text),))
    if wait is None or barrier is None or remote:
        return
    inside = subject.enclosing(wait)
    for loop in subject.loops:
        if loop in inside or loop.last - loop.first < 3:
            continue
        waited = [each for each in waits(subject) if loop.first <= each.index <= loop.last]
        if waited:
            yield Candidate(
                f"arrive at the end of the loop (line {subject.places[loop.last].line})",
                (before(subject, subject.places[loop.last], f"{opcode} _, {spelled(barrier)};"),),
            )


def _awaited_barriers(subject: Subject) -> list[str]:
    """The barriers of the finding's places as addresses that can be written anywhere; then as they are written."""
    constants: list[str] = []
    written_so: list[str] = []
    for place in (subject.primary, subject.other):
        barrier = barrier_of(place.item) if place is not None else None
        if barrier is not None:
            at = constant(subject, barrier)
            if at is not None:
                constants.append(f"[{constant_text(at)}]")
            written_so.append(spelled(barrier))
    return list(dict.fromkeys((*constants, *written_so)))


def _straight(subject: Subject, place: Place, steps: int = 80) -> Iterator[Place]:
    """What follows an instruction up to a branch other than that of a wait."""
    asked = {each.index for each in waits(subject)}
    for each in subject.places[place.index + 1 : place.index + steps]:
        if each.item.row in ("ret", "exit", "brx"):
            return
        if each.item.row == "bra" and not asked & {each.index - 1, each.index - 2, each.index - 3}:
            return
        yield each


def _after_uses(subject: Subject, place: Place) -> list[Place]:
    """After the waits and barriers that follow uses in a straight line, after those alone, and here."""
    spots: list[Place] = []
    used: list[Place] = []
    fresh = False
    for each in _straight(subject, place):
        if each.item.row.startswith(("ld.shared", "tcgen05.ld", "ldmatrix", "wgmma.mma", "ld")):
            fresh = True
        if each.item.row.startswith(("bar", "wgmma.wait_group", "tcgen05.wait", "barrier")):
            (used if fresh else spots).append(each)
            fresh = fresh and not each.item.row.startswith("bar")
    return [*used[::-1][:3], *spots[:2], place]


def commits(subject: Subject) -> Iterator[Candidate]:
    """A commit of tensor-core operations to the barrier that is waited for, and never signalled."""
    operations = list(subject.fits("tcgen05.mma", "tcgen05.cp", "tcgen05.shift"))
    if not operations:
        return
    siblings = list(subject.fits("tcgen05.commit"))
    group = "cta_group::2" if "cta_group::2" in operations[-1].item.opcode else "cta_group::1"
    opcode = f"tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster.b64"
    lost = [each for each in unused_results(subject) if predicates_of(each.item)]
    for each in subject.near(lost)[:4]:
        for target in _awaited_barriers(subject)[:2]:
            text = f"@{min(predicates_of(each.item))} {opcode} {target};"
            makers = [place for place in _straight(subject, each, 12) if place.item.row in ("add", "mov")]
            where = (makers or [each])[-1] if "%" in target else each
            yield Candidate(
                f"commit the tensor core's operations (after line {where.line})", (after(subject, where, text),)
            )
    unused = subject.near(addresses_among(subject, unused_results(subject)))[:3]
    targets = [f"[{min(written(each.item))}]" for each in unused]
    for place in (subject.primary, subject.other):
        barrier = barrier_of(place.item) if place is not None and place in waits(subject) else None
        if barrier is not None:
            targets.append(spelled(barrier))
    used = {barrier_of(each.item) for each in siblings}
    for wait in waits(subject):
        barrier = barrier_of(wait.item)
        if barrier is not None and barrier not in used:
            targets.append(spelled(barrier))
    ends = _last_of_runs(subject, operations)
    for end in subject.near(ends)[:3]:
        following = next((each for each in siblings if end.index < each.index < end.index + 30), None)
        for target in list(dict.fromkeys(targets))[:4]:
            name = target.strip("[]").split("+")[0]
            makers = [each for each in subject.places if name in written(each.item)]
            place = end
            if len(makers) == 1 and end.index < makers[0].index < end.index + 40:
                place = makers[0]
            guard = end.guard or (following.guard if following is not None else "")
            yield Candidate(
                f"commit the tensor core's operations (after line {place.line})",
                (after(subject, place, f"{guard}{opcode} {target};"),),
            )


def _last_of_runs(subject: Subject, operations: list[Place]) -> list[Place]:
    """The last operation before each branch, wait or end."""
    rows = {place.index for place in operations}
    ends: list[Place] = []
    for place in operations:
        for each in subject.places[place.index + 1 :]:
            if each.index in rows:
                break
            if (
                each.item.row in ("bra", "ret", "exit")
                or each in waits(subject)
                or each.item.row.startswith(("bar", "barrier"))
            ):
                ends.append(place)
                break
    return ends or operations[-1:]
