"""Which instruction might be missing from a kernel, be there twice, lack its guard, or stand too early?

What is missing leaves traces: operands that nothing uses (`Subject.dead`), siblings that have it, a run of operations
that nothing commits, a barrier that is waited for and never initialised. What is proposed is written with the operands
that are there. Checked by: tests/driver/test_repair.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tilewright.driver.repair_numbers import same_barrier
from tilewright.driver.repair_text import (
    Candidate,
    Place,
    Subject,
    after,
    barrier_of,
    before,
    before_line,
    constant,
    dropped,
    parity_of,
    read_by,
    replaced,
    spelled,
    wait_end,
    wait_lines,
    waits,
    written,
)
from tilewright.frontends.ptx.ast import Address, Immediate, Instruction, PairOfPredicates, Register, Symbol

_ARRIVES = ("mbarrier.arrive",)
_ONCE = ("mbarrier", "cp.async.bulk", "tcgen05.commit", "tcgen05.alloc", "tcgen05.dealloc", "red", "atom")
_USES = ("mbarrier", "cp.async.bulk", "ld", "st", "wgmma", "tcgen05", "bar")
_ADDRESSING = ("add", "mov", "mad", "or", "selp", "mapa", "sub", "cvta")
_BITS = ("xor", "and", "selp", "shr", "bfe")
_INIT_FENCE = "fence.mbarrier_init.release.cluster;"


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
        and any(place.index - 40 < each.index < place.index and _predicates(each.item) for each in subject.dead)
    ]  # fmt: skip
    for place in (*lone, *wanted):
        unused = [
            name for each in reversed(subject.dead) if each.index < place.index and _predicate(each.item)
            for name in sorted(_predicates(each.item))
        ]  # fmt: skip
        beside = [
            each.guard
            for each in subject.near([each for each in subject.places if each.guard])
            if each.item.row != "bra"
        ]
        # Where nothing counts what is done, a predicate that never holds would look like a repair.
        if place.item.guard is None and barrier_of(place.item) is not None:
            for guard in list(dict.fromkeys((*(f"@{name} " for name in unused[:3]), *beside)))[:4]:
                text = f"{guard}{place.text}"
                yield Candidate(f"only where {guard[1:].strip()} holds (line {place.line})", (replaced(place, text),))
        if place in lone:
            continue
        body = re.sub(r"^@!?[\w$%]+\s+", "", place.text)
        condition = "" if place.item.guard is None else _and_guard(place.guard)
        text = f"{{ .reg .pred one_lane; elect.sync _|one_lane, 0xffffffff;{condition} @one_lane {body} }}"
        yield Candidate(f"by one elected lane (line {place.line})", (replaced(place, text),))


def _and_guard(guard: str) -> str:
    name = guard[1:].strip()
    if name.startswith("!"):
        return f" .reg .pred held; not.pred held, {name[1:]}; and.pred one_lane, one_lane, held;"
    return f" and.pred one_lane, one_lane, {name};"


def _predicate(item: Instruction) -> bool:
    return bool(_predicates(item))


def _predicates(item: Instruction) -> set[str]:
    if item.row == "setp" or item.opcode.endswith(".pred"):
        return written(item)
    match item.operands[:1]:
        case (PairOfPredicates(_, second),) if item.row in ("elect.sync", "shfl.sync"):
            return {second.name}
        case _:
            return set()


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
            if carries and _leads_to(subject, target, parities):
                text = f"xor.b32 {target}, {source}, {carries[0]};"
                yield Candidate(f"flip the phase (line {place.line})", (replaced(place, text),))
        if (
            isinstance(operands[1], Immediate)
            and operands[1].value == 0
            and target in parities
            and subject.enclosing(place)
        ):
            beside = [
                name for each in subject.places[max(0, place.index - 4) : place.index][::-1]
                for name in written(each.item) if each.item.opcode.endswith("32")
            ]  # fmt: skip
            for name in list(dict.fromkeys((*lost[:2], *beside[:1], *_counters(subject, place), *beside[1:])))[:5]:
                for text in (f"and.b32 {target}, {name}, 1;", f"bfe.u32 {target}, {name}, 1, 1;"):
                    yield Candidate(f"the phase is a bit of the count (line {place.line})", (replaced(place, text),))


def _counters(subject: Subject, place: Place) -> list[str]:
    """Registers that the loops around an instruction count up."""
    names: list[str] = []
    for loop in subject.enclosing(place):
        for each in subject.places[loop.first : loop.last]:
            same = each.item.row == "add" and written(each.item) & read_by(each.item)
            if same and each.item.operands[-1] == Immediate(1):
                names += same
    return list(dict.fromkeys(names))


def _leads_to(subject: Subject, name: str, goals: set[str]) -> bool:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in goals:
            return True
        if current not in seen:
            seen.add(current)
            waiting += [
                each for place in subject.places if current in read_by(place.item) for each in written(place.item)
            ]
    return False


# ---------------------------------------------------------------- mbarriers


def initialisations(subject: Subject) -> Iterator[Candidate]:
    """An init for a barrier that is used and has none; the inits before the loop that repeats them."""
    inits = list(subject.fits("mbarrier.init"))
    known = {constant(subject, barrier) for place in inits if (barrier := barrier_of(place.item)) is not None}
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
    wanted: dict[tuple[str, int], Address] = {}
    for place in subject.near([each for each in subject.places if barrier_of(each.item) is not None]):
        barrier = barrier_of(place.item)
        at = None if barrier is None else constant(subject, barrier)
        if barrier is not None and at is not None and at not in known and place.item.row != "mbarrier.init":
            wanted.setdefault(at, barrier)
    counts = [each.item.operands[-1].value for each in inits if isinstance(each.item.operands[-1], Immediate)]
    counted = [value for value, _ in Counter(counts).most_common()] or [1]
    for at, barrier in list(wanted.items())[:3]:
        yield from _early_inits(subject, at, barrier, counted[0])
    if not inits:
        return
    offsets = {
        place: at for place in inits if (barrier := barrier_of(place.item)) and (at := constant(subject, barrier))
    }
    for symbol in dict.fromkeys(at[0] for at in offsets.values()):
        numbers = sorted(at[1] for at in offsets.values() if at[0] == symbol)
        gaps = [number + 8 for number in numbers if number + 8 not in numbers] + [numbers[0] - 8]
        for offset in gaps:
            if offset >= 0:
                wanted.setdefault((symbol, offset), Address(Symbol(symbol), offset))
    for at in wanted:
        near = _nearest(offsets, at) or inits[-1]
        count = near.item.operands[-1]
        first = count.value if isinstance(count, Immediate) else counted[0]
        for value in list(dict.fromkeys((first, *counted)))[:2]:
            address = _constant_address(at)
            yield Candidate(
                f"initialise the barrier at {at[0]}+{at[1]} for {value} arrivals",
                (after(subject, near, *_with_address(near.guard, address, value)),),
            )


def _early_inits(subject: Subject, at: tuple[str, int], barrier: Address, count: int) -> Iterator[Candidate]:
    """An init before the first use of a barrier, by a predicate that nothing uses or by that of the first use."""
    uses = [each for each in subject.places if (found := barrier_of(each.item)) and constant(subject, found) == at]
    first = uses[0]
    earlier = [each for each in subject.fits("mbarrier.init") if each.index < first.index]
    text = f"mbarrier.init.shared::cta.b64 [{_constant_address(at)}], {count};"
    title = f"initialise the barrier at {_constant_address(at)} for {count} arrivals"
    for each in [each for each in subject.dead if each.index < first.index and _predicates(each.item)][::-1][:2]:
        guard = f"@{min(_predicates(each.item))} "
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


def _constant_address(at: tuple[str, int]) -> str:
    return f"{at[0]}+{at[1]}" if at[1] else at[0]


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
            each for each in subject.dead if _predicates(each.item) and first.index - 40 < each.index < first.index
        ]  # fmt: skip
        sizes = sum(value for each in copies if barrier_of(each.item) == barrier for value in _sizes(each.item)[:1])
        for value in list(dict.fromkeys((*pairs, *([sizes] if sizes else []), *others, *lost)))[:2]:
            if not value:
                continue
            tail = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, {spelled(barrier)}, {value};"
            title = f"expect {value} bytes"
            for each in reversed(unused[-2:]):
                guard = f"@{min(_predicates(each.item))} "
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
    tops = _tops(subject)
    addresses = _addresses(subject, tops)
    guards = [each for each in tops if _predicates(each.item)]
    remote = "shared::cluster" in opcode
    usual = [guard for guard, _ in Counter(each.guard for each in siblings if each.guard).most_common(2)]
    for each in subject.near(addresses)[:3]:
        name = min(written(each.item))
        lost = [f"@{min(_predicates(guard.item))} " for guard in guards if abs(guard.index - each.index) < 60]
        for spot in _after_uses(subject, each)[:4]:
            for guard in (*lost[:2], *usual, ""):
                text = f"{guard}{opcode} _, [{name}];"
                yield Candidate(f"arrive (after line {spot.line})", (after(subject, spot, text),))
    targets = _awaited_barriers(subject)
    for each in subject.near(guards)[:3]:
        guard = f"@{min(_predicates(each.item))} "
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
                constants.append(f"[{_constant_address(at)}]")
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


def _addresses(subject: Subject, places: list[Place]) -> list[Place]:
    """Those that compute an address in shared memory: something of a symbol is in it."""
    return [
        place for place in places
        if place.item.row in ("add", "mov", "mad", "or", "selp", "mapa", "sub") and _of_a_symbol(subject, place.item)
    ]  # fmt: skip


def _of_a_symbol(subject: Subject, item: Instruction, depth: int = 8) -> bool:
    if any(isinstance(operand, Symbol) for operand in item.operands[1:]):
        return True
    names = read_by(item)
    makers = [place.item for place in subject.places if written(place.item) & names and place.item is not item]
    return depth > 0 and any(_of_a_symbol(subject, each, depth - 1) for each in makers[:4] if each.row in _ADDRESSING)


def _tops(subject: Subject) -> list[Place]:
    """Unused results that are not the operand of another unused one."""
    consumed = {
        name for place in subject.dead for name in read_by(place.item) if name not in written(place.item)
    }  # fmt: skip
    return [place for place in subject.dead if not written(place.item) & consumed]


def commits(subject: Subject) -> Iterator[Candidate]:
    """A commit of tensor-core operations to the barrier that is waited for, and never signalled."""
    operations = list(subject.fits("tcgen05.mma", "tcgen05.cp", "tcgen05.shift"))
    if not operations:
        return
    siblings = list(subject.fits("tcgen05.commit"))
    group = "cta_group::2" if "cta_group::2" in operations[-1].item.opcode else "cta_group::1"
    opcode = f"tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster.b64"
    lost = [each for each in _tops(subject) if _predicates(each.item)]
    for each in subject.near(lost)[:4]:
        for target in _awaited_barriers(subject)[:2]:
            text = f"@{min(_predicates(each.item))} {opcode} {target};"
            makers = [place for place in _straight(subject, each, 12) if place.item.row in ("add", "mov")]
            where = (makers or [each])[-1] if "%" in target else each
            yield Candidate(
                f"commit the tensor core's operations (after line {where.line})", (after(subject, where, text),)
            )
    unused = subject.near(_addresses(subject, _tops(subject)))[:3]
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


def lost_waits(subject: Subject) -> Iterator[Candidate]:
    """A wait of which only the operands are left, or that was answered by a comparison of a number with itself."""
    tops = _tops(subject)
    wanted = _parities(subject, tops)
    addresses = subject.near(_addresses(subject, tops))
    lost = [f"[{min(written(each.item))}]" for each in addresses[:2]]
    bits = any(each.item.row in _BITS for each in tops)
    for each in [each for each in subject.fits("setp") if _tautology(each.item)][:2]:
        done = min(written(each.item))
        for target in list(dict.fromkeys((*lost, *_signalled(subject), *_unwaited(subject))))[:4]:
            for parity in wanted:
                text = f"mbarrier.try_wait.parity.shared::cta.b64 {_as_written(each, done)}, {target}, {parity};"
                yield Candidate(f"wait for the phase (line {each.line})", (replaced(each, text),))
    for each, target in zip(addresses[:2], lost, strict=True):
        for parity in wanted if bits or waits(subject) else ():
            if parity != target.strip("[]"):
                lines = wait_lines(target, parity)
                yield Candidate(f"wait for the phase (after line {each.line})", (after(subject, each, *lines),))


def _parities(subject: Subject, tops: list[Place]) -> list[str]:
    """What the parity of a wait might be: bits that nothing uses, phases that flip, those of the other waits."""
    kept = [min(written(each.item)) for each in subject.near([each for each in tops if each.item.row in _BITS])]
    kept += [name for each in subject.fits("xor") for name in written(each.item) & read_by(each.item)]
    others = [text for wait in waits(subject) if (text := _parity_text(wait))]
    return list(dict.fromkeys((*kept, *others, "0")))[:4]


def phase_waits(subject: Subject) -> Iterator[Candidate]:
    """A wait for the phase of a copy or a commit, before what needs it."""
    use, source = subject.primary, subject.other
    parities = [text for wait in waits(subject) if (text := _parity_text(wait))]
    tops = _tops(subject)
    wanted = _parities(subject, tops)
    bits = [each for each in tops if each.item.row in _BITS]
    unwaited = list(dict.fromkeys((*_signalled(subject), *_unwaited(subject))))
    for each in subject.near(bits)[:2]:
        for target in unwaited[:3]:
            lines = wait_lines(target, min(written(each.item)))
            yield Candidate(f"wait for the phase (after line {each.line})", (after(subject, each, *lines),))
    for target in unwaited[:2]:
        for place in (use, source):
            if place is not None and place not in waits(subject):
                for parity in wanted[:2]:
                    lines = wait_lines(target, parity)
                    yield Candidate(f"wait for the phase (before line {place.line})", (before(subject, place, *lines),))
    targets = [place for place in (use, source) if place is not None]
    for place in targets:
        barrier = barrier_of(place.item)
        if barrier is None or place in waits(subject):
            continue
        ends = [each for each in targets if each is not place and each.index > place.index]
        ends += [each for each in subject.fits("ret", "exit") if each.index > place.index][:1]
        for end in ends:
            for parity in list(dict.fromkeys((*parities, "0")))[:2]:
                yield Candidate(
                    f"wait for the phase (before line {end.line})",
                    (before(subject, end, *wait_lines(spelled(barrier), parity)),),
                )
    acked = [each for each in subject.places if each.item.row == "mbarrier.init"]
    for init in acked:
        barrier = barrier_of(init.item)
        if barrier is not None and not any(same_barrier(subject, init.item, each.item) for each in waits(subject)):
            yield from _handshake(subject, barrier)


def _signalled(subject: Subject) -> list[str]:
    """The barriers that the finding's copies signal."""
    return [spelled(barrier) for place in subject.found if (barrier := barrier_of(place.item)) is not None]


def _unwaited(subject: Subject) -> list[str]:
    """Barriers that are initialised or signalled, and that no wait names."""
    asked = {constant(subject, barrier) for wait in waits(subject) if (barrier := barrier_of(wait.item)) is not None}
    found: dict[str, None] = {}
    for place in subject.near([each for each in subject.places if barrier_of(each.item) is not None]):
        barrier = barrier_of(place.item)
        at = None if barrier is None else constant(subject, barrier)
        if at is not None and at not in asked:
            found.setdefault(f"[{_constant_address(at)}]")
    return list(found)


def _as_written(place: Place, name: str) -> str:
    """A register's name as the text has it: the reader renames those of nested scopes."""
    words = place.text.split()
    return words[1].rstrip(",") if len(words) > 1 and not words[0].startswith("@") else name


def _tautology(item: Instruction) -> bool:
    return len(item.operands) > 2 and item.operands[1] == item.operands[2]


def _parity_text(wait: Place) -> str:
    match parity_of(wait):
        case Register(name):
            return name
        case Immediate(value):
            return str(value)
        case _:
            return ""


def _handshake(subject: Subject, barrier: Address) -> Iterator[Candidate]:
    """A barrier that is initialised and that nobody uses: the reader arrives on it, the writer waits for it."""
    used = [each for each in subject.places if barrier_of(each.item) == barrier and each.item.row != "mbarrier.init"]
    if used or len(subject.loops) < 2:
        return
    for reader in waits(subject):
        around = [loop for loop in subject.enclosing(reader) if loop.last - loop.first > 3]
        signals = [
            each for each in subject.fits(*_ARRIVES, "cp.async.bulk") if same_barrier(subject, each.item, reader.item)
        ]  # fmt: skip
        for signal in signals[:1]:
            writer = [loop for loop in subject.enclosing(signal) if loop.last - loop.first > 2]
            if not around or not writer or writer[0] == around[0]:
                continue
            end = subject.places[around[0].last - 1]
            first = subject.places[writer[0].first]
            lines = ("xor.b32 answered, answered, 1;", *wait_lines(spelled(barrier), "answered"))
            yield Candidate(
                f"wait for the reader's answer (before line {first.line}), which arrives (before line {end.line})",
                (
                    before_line(subject, writer[0].head_line, ".reg .b32 answered;", "mov.b32 answered, 0;"),
                    before(subject, first, *lines),
                    before(subject, end, f"mbarrier.arrive.shared::cta.b64 _, {spelled(barrier)};"),
                ),
            )


def kept_phases(subject: Subject) -> Iterator[Candidate]:
    """A phase that is kept from wait to wait, where the text computes one that does not follow the barrier's."""
    for wait in subject.near(waits(subject))[:3]:
        parity = parity_of(wait)
        loops = [loop for loop in subject.enclosing(wait) if wait_end(subject, wait).index != loop.last]
        if parity is None or not loops:
            continue
        if isinstance(parity, Register):
            makers = [each for each in subject.places if parity.name in written(each.item)]
            resets = [
                each for each in makers
                if each.item.row == "mov" and isinstance(each.item.operands[1], Immediate) and subject.enclosing(each)
            ]  # fmt: skip
            if len(makers) > 1:
                for each in resets:
                    yield Candidate(f"the phase is not reset (line {each.line})", (dropped(subject, each),))
            for each in makers:
                if each.item.row == "mov" and isinstance(each.item.operands[1], Register):
                    text = f"and.b32 {parity.name}, {each.item.operands[1].name}, 1;"
                    yield Candidate(f"the parity is the phase's last bit (line {each.line})", (replaced(each, text),))
        spot = re.search(r",\s*([^,\]]+?)(?=\s*;)", wait.text)
        if spot is None:
            continue
        for loop in loops[::-1]:
            for begin in (0, 1):
                text = wait.text[: spot.start(1)] + "kept_phase" + wait.text[spot.end(1) :]
                yield Candidate(
                    f"keep the phase from wait to wait (line {wait.line})",
                    (
                        before_line(subject, loop.head_line, ".reg .b32 kept_phase;", f"mov.b32 kept_phase, {begin};"),
                        replaced(wait, text),
                        after(subject, wait_end(subject, wait), "xor.b32 kept_phase, kept_phase, 1;"),
                    ),
                )


def moved_after_waits(subject: Subject) -> Iterator[Candidate]:
    """A copy, an expectation or a release that stands before the wait that it should follow."""
    ordered = [
        each for each in subject.near(list(subject.fits("mbarrier.arrive", "cp.async.bulk", "mbarrier.expect_tx")))
    ]
    asked = waits(subject)
    for place in ordered[:8]:
        following = [each for each in asked if place.index < each.index <= place.index + 25][:1]
        for wait in following:
            between = subject.places[place.index + 1 : wait.index]
            if any(each.item.row in ("bra", "ret", "exit") for each in between):
                continue
            group = [
                place,
                *(each for each in between if each.item.row.startswith(("mbarrier.arrive", "cp.async.bulk"))),
            ]
            end = wait_end(subject, wait)
            for moved in dict.fromkeys(((place,), tuple(group))):
                edits = tuple(dropped(subject, each) for each in moved)
                yield Candidate(
                    f"line {place.line} after the wait of line {wait.line}",
                    (*edits, after(subject, end, *(each.text for each in moved))),
                )
    for place in ordered[:4]:
        if not place.item.row.startswith("mbarrier.arrive"):
            continue
        spots: list[Place] = []
        for each in subject.places[place.index + 1 : place.index + 200]:
            if each.item.row in ("bra", "ret", "exit"):
                break
            if each.item.row.startswith(("ld", "bar", "barrier", "wgmma.wait_group", "tcgen05.wait", "ldmatrix", "st")):
                spots.append(each)
        for spot in [*(each for each in spots if each is subject.other or each is subject.primary), *spots[::-1]][:3]:
            yield Candidate(
                f"line {place.line} after line {spot.line}", (dropped(subject, place), after(subject, spot, place.text))
            )


def moved_up_waits(subject: Subject) -> Iterator[Candidate]:
    """A wait that stands behind what should wait: to where its operands are known, or before what is found."""
    for wait in subject.near(waits(subject))[:5]:
        barrier, parity = barrier_of(wait.item), _parity_text(wait)
        end = wait_end(subject, wait)
        if barrier is None or not parity or end is wait:
            continue
        lines = wait_lines(spelled(barrier), parity)
        removed = (dropped(subject, wait), dropped(subject, end))
        makers = [
            place for place in subject.places[: wait.index] if written(place.item) & read_by(wait.item)
        ]  # fmt: skip
        for place in makers[-1:]:
            between = subject.places[place.index + 1 : wait.index]
            if any(each.item.row.startswith(_USES) for each in between):
                yield Candidate(
                    f"the wait of line {wait.line} after line {place.line}", (*removed, after(subject, place, *lines))
                )
        for place in subject.found:
            if (makers[-1].index if makers else -1) < place.index < wait.index:
                yield Candidate(
                    f"the wait of line {wait.line} before line {place.line}", (*removed, before(subject, place, *lines))
                )


def every_thread_arrives(subject: Subject) -> Iterator[Candidate]:
    """All threads of a role release what all of them read: an arrival without its guard, and the count to match."""
    for place in subject.near(list(subject.fits("mbarrier.arrive"))):
        if place.item.guard is None or "expect_tx" in place.item.opcode:
            continue
        body = re.sub(r"^@!?\S+\s+", "", place.text)
        for init in subject.fits("mbarrier.init"):
            count = init.item.operands[-1]
            if not isinstance(count, Immediate) or not same_barrier(subject, init.item, place.item):
                continue
            for threads in (32, 64, 128, 256):
                yield Candidate(
                    f"every thread arrives (line {place.line}), {threads} of them (line {init.line})",
                    (
                        replaced(place, body),
                        replaced(init, re.sub(r"\d+(?=\s*;)", str(threads * count.value), init.text)),
                    ),
                )


def remote_arrivals(subject: Subject) -> Iterator[Candidate]:
    """Arrivals and waits across the cluster, in the forms that reach it."""
    for place in subject.found:
        barrier = barrier_of(place.item)
        if place.item.row == "mbarrier.arrive" and barrier is not None and "expect_tx" not in place.item.opcode:
            text = f"{place.guard}mbarrier.arrive.release.cluster.shared::cluster.b64 _, {spelled(barrier)};"
            edits = [replaced(place, text)]
            yield Candidate(f"arrive on the other CTA's barrier (line {place.line})", tuple(edits))
            for wait in waits(subject):
                if "cluster" not in wait.item.opcode.replace("shared::cluster", ""):
                    edits.append(replaced(wait, wait.text.replace(".shared::cta", ".acquire.cluster.shared::cta", 1)))
            yield Candidate(f"arrive on the other CTA's barrier (line {place.line}), and wait for it so", tuple(edits))
    for place in subject.near([each for each in subject.places if ".relaxed.cluster" in each.item.opcode])[:3]:
        text = place.text.replace(".relaxed.cluster", ".release.cluster")
        if place in waits(subject):
            text = place.text.replace(".relaxed.cluster", ".acquire.cluster")
        yield Candidate(f"ordered for the cluster (line {place.line})", (replaced(place, text),))
