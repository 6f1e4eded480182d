"""Which wait for a phase might be missing, name another phase than it should, or stand on the wrong side of something?

A wait that is missing leaves its address and parity unused. A phase that does not follow the barrier's is kept anew,
flipped by each wait. What stands before the wait that it should follow is moved behind it, or the wait up.
Checked by: tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.driver.repair.numbers import PARITY, same_barrier
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
    parity_of,
    read_by,
    replaced,
    spelled,
    wait_end,
    wait_lines,
    waits,
    written,
)
from tilewright.driver.repair.traces import addresses_among, constant_text, unused_results
from tilewright.frontends.ptx.ast import Address, Immediate, Instruction, Register

_ARRIVES = ("mbarrier.arrive",)
_USES = ("mbarrier", "cp.async.bulk", "ld", "st", "wgmma", "tcgen05", "bar")
_BITS = ("xor", "and", "selp", "shr", "bfe")


def lost_waits(subject: Subject) -> Iterator[Candidate]:
    """A wait of which only the operands are left, or that was answered by a comparison of a number with itself."""
    tops = unused_results(subject)
    wanted = _parities(subject, tops)
    addresses = subject.near(addresses_among(subject, tops))
    lost = [f"[{min(written(each.item))}]" for each in addresses[:2]]
    bits = any(each.item.row in _BITS for each in tops)
    for each in [each for each in subject.fits("setp") if _tautology(each.item)][:2]:
        done = min(written(each.item))
        looped = any(loop.last - loop.first > 3 for loop in subject.enclosing(each))
        for target in list(dict.fromkeys((*lost, *_signalled(subject), *_unwaited(subject))))[:4]:
            # Outside of loops a barrier's first phase is waited for.
            for parity in wanted if looped else dict.fromkeys(("0", *wanted)):
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
    tops = unused_results(subject)
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
            found.setdefault(f"[{constant_text(at)}]")
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
        spot = PARITY.search(wait.text)
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
