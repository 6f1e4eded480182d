"""Where does an arrival belong that releases a slot before its reads? Behind the last of them.

An arrival on an mbarrier tells the producer that a slot may be filled again. Where reads follow it, it is moved to the
first place behind them that every way from it leads through: behind the loops that the reads are in, and behind the
labels that branches in between lead to, but within the loop that the arrival is in. First behind the last read of that
loop, then behind the read that was found.

Not handled: an arrival whose address or guard is computed anew before that place; one on another barrier than the
reads' (the check of the text decides). Checked by: tests/driver/repair/test_releases.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.driver.repair.text import (
    Candidate,
    Place,
    Subject,
    after,
    before,
    dropped,
    read_by,
    written,
)
from tilewright.frontends.ptx.ast import Instruction, Label, Symbol

_READS = ("ldmatrix", "wgmma.mma_async", "wgmma.wait_group", "tcgen05.mma", "tcgen05.cp", "cp.async.bulk")
_NEAREST = 4


def moved_behind_reads(subject: Subject) -> Iterator[Candidate]:
    """An arrival, taken behind the reads that follow it."""
    arrivals = [each for each in subject.fits("mbarrier.arrive") if "expect_tx" not in each.item.opcode]
    for arrival in subject.near(arrivals)[:_NEAREST]:
        around = subject.enclosing(arrival)[:1]
        last = around[0].last if around else len(subject.places) - 1
        reads = [each for each in subject.places[arrival.index + 1 : last] if _reads(each.item)]
        found = [each for each in subject.found if each in reads]
        for read in dict.fromkeys((*reads[-1:], *found)):
            spot = _join(subject, arrival, read, last)
            if spot is None or _changed(subject, arrival, spot):
                continue
            label = any(
                isinstance(item, Label) and read.line <= item.span.line <= spot.line for item in subject.kernel.body
            )
            beside = spot.index == read.index + 1 and not label
            edit = after(subject, read, arrival.text) if beside else before(subject, spot, arrival.text)
            title = f"release behind the last read (line {arrival.line}, after line {read.line})"
            yield Candidate(title, (dropped(subject, arrival), edit))


def _reads(item: Instruction) -> bool:
    return (item.row == "ld" and ".shared" in item.opcode) or item.row.startswith(_READS)


def _join(subject: Subject, arrival: Place, read: Place, last: int) -> Place | None:
    """The first instruction behind a read that every way from the arrival leads to; None where that is beyond the
    instruction with the index `last`."""
    targets = _targets(subject)
    spot = read.index + 1
    while spot <= last:
        ends = [loop.last + 1 for loop in subject.loops if arrival.index < loop.first < spot <= loop.last]
        ends += [
            target
            for place in subject.places[arrival.index + 1 : spot]
            if place.item.row == "bra" and (target := targets.get(_target(place.item), 0)) > spot
        ]
        if not ends:
            return subject.places[spot]
        spot = max(ends)
    return None


def _targets(subject: Subject) -> dict[str, int]:
    """The index of the instruction that follows each label."""
    found: dict[str, int] = {}
    index = 0
    for item in subject.kernel.body:
        if isinstance(item, Label):
            found[item.name] = index
        else:
            index += 1
    return found


def _target(item: Instruction) -> str:
    target = item.operands[0] if item.operands else None
    return target.name if isinstance(target, Symbol) else ""


def _changed(subject: Subject, arrival: Place, spot: Place) -> bool:
    """Is something that the arrival needs computed anew on the way?"""
    needed = read_by(arrival.item)
    return any(written(each.item) & needed for each in subject.places[arrival.index + 1 : spot.index])
