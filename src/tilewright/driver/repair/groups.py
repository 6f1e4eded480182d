"""Which commits and waits of groups might be missing or too weak? Of bulk stores, of cp.async, of wgmma.

A commit belongs after the last operation of a run; a wait, before the first use of what it waits for, or after the
commit. A wait that leaves fewer groups pending costs overlap, so the weakest that is enough is tried first.
Checked by: tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.driver.repair.text import (
    Candidate,
    Place,
    Subject,
    after,
    before,
    ends_of,
    following_syncs,
    replaced,
    with_number,
)
from tilewright.frontends.ptx.ast import Immediate, Label

_SYNCHRONIZES = ("bar", "barrier", "mbarrier.arrive")
_CTA_BARRIER = "bar.sync 0;"
_BULK_READ = "cp.async.bulk.wait_group.read 0;"
_BULK = "cp.async.bulk.wait_group 0;"
_BARRIER_COST = "one barrier of the CTA"


def lower_waits(subject: Subject, row: str) -> Iterator[Candidate]:
    """Waits that leave fewer groups pending."""
    for place in subject.near(list(subject.fits(row))):
        if not place.item.operands or not isinstance(place.item.operands[-1], Immediate):
            continue
        pending = place.item.operands[-1].value
        for fewer in dict.fromkeys((pending - 1, pending - 2, 0)):
            text = with_number(place, pending, fewer) if 0 <= fewer < pending else None
            if text is not None:
                title = f"leave {fewer} groups pending instead of {pending} (line {place.line})"
                yield Candidate(title, (replaced(place, text),), "less overlap")


def bulk_groups(subject: Subject) -> Iterator[Candidate]:
    """Commits and waits of bulk stores."""
    stores = [
        each for each in subject.fits("cp.async.bulk", "cp.reduce.async.bulk") if "bulk_group" in each.item.opcode
    ]
    commits = list(subject.fits("cp.async.bulk.commit_group"))
    asked = list(subject.fits("cp.async.bulk.wait_group"))
    if not stores:
        return
    for place in _uncommitted(stores, commits, asked):
        commit = f"{place.guard}cp.async.bulk.commit_group;"
        yield Candidate(f"commit the copies (after line {place.line})", (after(subject, place, commit),))
    if not asked:
        for place in commits[-1:] or stores[-1:]:
            lines = (f"{place.guard}{_BULK_READ}",) if commits else (
                f"{place.guard}cp.async.bulk.commit_group;", f"{place.guard}{_BULK_READ}")  # fmt: skip
            yield Candidate(f"wait for the copies (after line {place.line})", (after(subject, place, *lines),))
    yield from lower_waits(subject, "cp.async.bulk.wait_group")
    for place in subject.found:
        if place in stores:
            lines = (f"{place.guard}cp.async.bulk.commit_group;", f"{place.guard}{_BULK_READ}")
            yield Candidate(
                f"commit the copies and wait for them (after line {place.line})", (after(subject, place, *lines),)
            )
    for place in commits[-3:][::-1]:
        yield Candidate(
            f"wait for the copies (after line {place.line})", (after(subject, place, f"{place.guard}{_BULK_READ}"),)
        )
    for place in subject.found[::-1]:
        for wait in (_BULK_READ, _BULK):
            yield Candidate(f"wait for the copies (before line {place.line})", (before(subject, place, wait),))
            title = f"wait for the copies, all threads (before line {place.line})"
            yield Candidate(title, (before(subject, place, wait, _CTA_BARRIER),), _BARRIER_COST)
    for place in subject.found:
        for sync in following_syncs(subject, place):
            yield Candidate(f"wait for the copies (before line {sync.line})", (before(subject, sync, _BULK_READ),))
            break
    for place in ends_of(subject):
        yield Candidate(f"wait for the copies before the end (line {place.line})", (before(subject, place, _BULK),))
    for place in asked:
        if ".read" in place.item.opcode:
            title = f"wait until the copies are written (line {place.line})"
            yield Candidate(title, (replaced(place, place.text.replace(".read", "", 1)),))


def _uncommitted(operations: list[Place], commits: list[Place], asked: list[Place]) -> list[Place]:
    """The last operation of every run that reaches a wait, or the end, without a commit."""
    marks = sorted((*operations, *commits, *asked), key=lambda each: each.index)
    found: list[Place] = []
    for place, following in zip(marks, [*marks[1:], None], strict=True):
        if place in operations and (following is None or following in asked):
            found.append(place)
    return found


def async_copies(subject: Subject) -> Iterator[Candidate]:
    """Commits and waits of cp.async."""
    copies = [each for each in subject.places if each.item.row == "cp.async"]
    if not copies:
        return
    commits, asked = list(subject.fits("cp.async.commit_group")), list(subject.fits("cp.async.wait"))
    runs = _uncommitted(copies, commits, asked)
    for place in runs:
        yield Candidate(
            f"commit the copies (after line {place.line})", (after(subject, place, "cp.async.commit_group;"),)
        )
    yield from lower_waits(subject, "cp.async.wait_group")
    if any(each in copies for each in subject.found):
        for place in copies:
            following = subject.places[place.index + 1 :]
            end = next(
                (each for each in following if each.item.row in ("bra", "bar.sync", "cp.async.commit_group")), None
            )
            if end is not None and end.item.row != "cp.async.commit_group" and not any(
                each.item.row == "cp.async" for each in subject.places[place.index + 1 : end.index]
            ):  # fmt: skip
                yield Candidate(
                    f"commit the copies (after line {place.line})", (after(subject, place, "cp.async.commit_group;"),)
                )
    use = subject.primary
    if use is not None:
        syncs = [each for each in subject.fits("bar.sync", "barrier.sync") if each.index < use.index]
        for pending in (1, 0, 2):
            for sync in syncs[-2:][::-1]:
                line = f"cp.async.wait_group {pending};"
                yield Candidate(f"wait for the copies (before line {sync.line})", (before(subject, sync, line),))
    for place in subject.found[::-1]:
        yield Candidate(
            f"wait for the copies (before line {place.line})", (before(subject, place, "cp.async.wait_all;"),)
        )
        title = f"wait for the copies, all threads (before line {place.line})"
        yield Candidate(title, (before(subject, place, "cp.async.wait_all;", _CTA_BARRIER),), _BARRIER_COST)


def wgmmas(subject: Subject) -> Iterator[Candidate]:
    """Fences, commits and waits of wgmma."""
    operations = list(subject.fits("wgmma.mma_async"))
    if not operations:
        return
    commits, asked = list(subject.fits("wgmma.commit_group")), list(subject.fits("wgmma.wait_group"))
    commit, wait = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
    fences = list(subject.fits("wgmma.fence"))
    use = subject.primary
    if (
        use is not None
        and use not in operations
        and subject.other in operations
        and not _uncommitted(operations, commits, asked)
    ):
        for place in dict.fromkeys((_block_start(subject, use), use)):
            for pending in (1, 0):
                title = f"wait for the wgmmas{' but 1 group' if pending else ''} (before line {place.line})"
                edit = before(subject, place, wait.replace(" 0;", f" {pending};"))
                yield Candidate(title, (edit,), "less overlap")
    for place in _uncommitted(operations, commits, asked):
        yield Candidate(f"commit the wgmmas (after line {place.line})", (after(subject, place, commit),))
    for place in _first_of_runs(operations, fences, commits):
        title = f"wgmma.fence (before line {place.line})"
        yield Candidate(title, (before(subject, place, "wgmma.fence.sync.aligned;"),), "none on sm_90a")
    yield from lower_waits(subject, "wgmma.wait_group")
    for place in _uncommitted(commits, [], asked):
        for pending in (1, 0) if subject.enclosing(place) else (0,):
            title = f"wait for the wgmmas but {pending} groups (after line {place.line})"
            title = title if pending else f"wait for the wgmmas (after line {place.line})"
            edit = after(subject, place, wait.replace(" 0;", f" {pending};"))
            yield Candidate(title, (edit,), "less overlap")
    for place in subject.near(operations)[:1]:
        following = [each for each in commits if each.index > place.index][:1]
        for each in following:
            for pending in (1, 0):
                title = f"leave {pending} groups of wgmmas pending (after line {each.line})"
                yield Candidate(title, (after(subject, each, wait.replace(" 0;", f" {pending};")),), "less overlap")
    for place in subject.near(list(subject.fits("mbarrier.arrive")))[:3]:
        title = f"wait for the wgmmas before the release (line {place.line})"
        yield Candidate(title, (before(subject, place, wait),), "less overlap")
    for place in subject.found:
        if place in operations:
            both = (commit, wait)
            title = f"commit the wgmmas and wait for them (after line {place.line})"
            yield Candidate(title, (after(subject, place, *both),), "no overlap")
            title = f"wgmma.fence (before line {place.line})"
            yield Candidate(title, (before(subject, place, "wgmma.fence.sync.aligned;"),))
        else:
            title = f"wait for the wgmmas (before line {place.line})"
            yield Candidate(title, (before(subject, place, wait),), "less overlap")
            edit = before(subject, place, wait, _CTA_BARRIER)
            yield Candidate(f"{title}, all threads", (edit,), _BARRIER_COST)
    for place in ends_of(subject):
        title = f"wait for the wgmmas before the end (line {place.line})"
        yield Candidate(title, (before(subject, place, commit, wait),))


def _block_start(subject: Subject, place: Place) -> Place:
    """The first instruction after the last label or branch before `place`, where a release stands between; else it."""
    labels = [item.span.line for item in subject.kernel.body if isinstance(item, Label)]
    start = place
    for each in subject.places[place.index - 1 :: -1] if place.index else ():
        if each.item.row in ("bra", "ret", "exit") or any(each.line < line <= start.line for line in labels):
            break
        start = each
    between = subject.places[start.index : place.index]
    return start if any(each.item.row.startswith(_SYNCHRONIZES) for each in between) else place


def _first_of_runs(operations: list[Place], fences: list[Place], commits: list[Place]) -> list[Place]:
    """The first operation of every run between commits that has no fence before it."""
    marks = sorted((*operations, *fences, *commits), key=lambda each: each.index)
    found: list[Place] = []
    fenced = False
    for place in marks:
        if place in fences:
            fenced = True
        elif place in commits:
            fenced = False
        elif not fenced:
            found.append(place)
            fenced = True
    return found
