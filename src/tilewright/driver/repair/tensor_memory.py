"""Which waits and fences of tcgen05 might be missing, which allocation of tensor memory, and where should it be freed?

A load is waited for after the last of its run, a store before the synchronization that follows. What is allocated is
freed on every way to the end, by the warps that allocated.
Checked by: tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.driver.repair.numbers import said
from tilewright.driver.repair.text import (
    Candidate,
    Place,
    Subject,
    after,
    before,
    ends_of,
    following_syncs,
    read_by,
    replaced,
    written,
)
from tilewright.frontends.ptx.ast import Address, Immediate, Instruction, Register

_CTA_BARRIER = "bar.sync 0;"


def tensor_memory(subject: Subject) -> Iterator[Candidate]:
    """Waits and fences of tcgen05."""
    load, store = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"
    first, second = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
    for row, wait in (("tcgen05.ld", load), ("tcgen05.st", store)):
        for place in subject.found:
            if place.item.row.startswith(row):
                run = place
                for each in subject.places[place.index + 1 : place.index + 64]:
                    if each.item.row.startswith(row):
                        run = each
                    elif each.item.row in ("bra", "ret") or set(written(place.item)) & read_by(each.item):
                        break
                for each in dict.fromkeys((run, place)):
                    guard = each.guard
                    title = f"{wait[:-1]} (after line {each.line})"
                    yield Candidate(title, (after(subject, each, f"{guard}{wait}"),), "the latency of the transfer")
    for place in subject.found:
        for wait in (load, store):
            title = f"{wait[:-1]} (before line {place.line})"
            yield Candidate(title, (before(subject, place, wait),), "the latency of the transfer")
        for number, sync in enumerate(following_syncs(subject, place)):
            if number == 2:
                break
            for lines in ((load, first), (store, first), (first,)):
                title = f"{' and '.join(line[:-1] for line in lines)} (before line {sync.line})"
                yield Candidate(title, (before(subject, sync, *lines),))
            pair = (before(subject, sync, first), after(subject, sync, second))
            yield Candidate(f"tcgen05 fences around the synchronization (line {sync.line})", pair)
        yield Candidate(f"{second[:-1]} (before line {place.line})", (before(subject, place, second),))


def allocations(subject: Subject) -> Iterator[Candidate]:
    """Tensor memory that is never allocated, or never freed."""
    allocs, frees = list(subject.fits("tcgen05.alloc")), list(subject.fits("tcgen05.dealloc"))
    if allocs and not frees:
        yield from _freed(subject, allocs[0])
    if allocs and frees and subject.finding.code in ("TC205", "TC202"):
        yield from _freed_elsewhere(subject, frees)
    if not allocs and frees:
        yield from _allocated(subject, frees[0])
    if not allocs and not frees:
        yield from _allocated_for(subject)


def _freed_elsewhere(subject: Subject, frees: list[Place]) -> Iterator[Candidate]:
    """Another way to the end frees nothing: the same before the jumps to the end, and before it."""
    ends = ends_of(subject)
    labels = {
        item.name for item in subject.kernel.body if not isinstance(item, Instruction)
        and any(end.line > item.span.line and end.line - item.span.line < 8 for end in ends)
    }  # fmt: skip
    jumps = [
        each for each in subject.fits("bra")
        if each.item.guard is None and any(getattr(operand, "name", "") in labels for operand in each.item.operands)
    ]  # fmt: skip
    for place in (*jumps, *ends):
        title = f"free the tensor memory (before line {place.line})"
        yield Candidate(title, (before(subject, place, frees[0].text),))


def _slot_loads(subject: Subject, alloc: Place) -> list[Place]:
    address = next((each for each in alloc.item.operands if isinstance(each, Address)), None)
    loads = [each for each in subject.fits("ld") if ".shared" in each.item.opcode]
    return [each for each in loads if address in each.item.operands] or loads


def _freed(subject: Subject, alloc: Place) -> Iterator[Candidate]:
    size = alloc.item.operands[-1]
    group = "cta_group::2" if "cta_group::2" in alloc.item.opcode else "cta_group::1"
    threads = 32
    for load in _slot_loads(subject, alloc)[:2]:
        name = min(written(load.item), default="")
        text = str(size.value) if isinstance(size, Immediate) else getattr(size, "name", "")
        body = f"tcgen05.dealloc.{group}.sync.aligned.b32 {name}, {text};"
        sync = ("tcgen05.fence::before_thread_sync;", _CTA_BARRIER, "tcgen05.fence::after_thread_sync;")
        own = (
            "{", ".reg .pred first_warp;", ".reg .b32 thread;", "mov.u32 thread, %tid.x;",
            f"setp.lt.u32 first_warp, thread, {threads};", f"@first_warp {body}", "}",
        )  # fmt: skip
        guarded = (f"{alloc.guard}{body}",) if alloc.guard else own
        spots = [
            each for each in subject.fits("bar.sync", "barrier.sync") if each.index > load.index
        ]  # fmt: skip
        for spot in spots[::-1][:3]:
            fence = subject.places[spot.index + 1 : spot.index + 2]
            where = fence[0] if fence and fence[0].item.row == "tcgen05.fence::after_thread_sync" else spot
            title = f"free the tensor memory (after line {where.line})"
            yield Candidate(title, (after(subject, where, *guarded),))
        for end in ends_of(subject):
            for lines in (guarded, (*sync, *guarded)):
                yield Candidate(
                    f"free the tensor memory before the end (line {end.line})", (before(subject, end, *lines),)
                )


def _allocated(subject: Subject, free: Place) -> Iterator[Candidate]:
    """An allocation to the place in shared memory that the freed address is read from."""
    address = free.item.operands[0]
    size = free.item.operands[-1]
    if not isinstance(address, Register) or not isinstance(size, Immediate):
        return
    loads = [
        each for each in subject.fits("ld") if address.name in written(each.item) and ".shared" in each.item.opcode
    ]
    group = "cta_group::2" if "cta_group::2" in free.item.opcode else "cta_group::1"
    for load in loads[:1]:
        slot = re.search(r"\[[^\]]*\]", load.text)
        syncs = [each for each in subject.fits("bar.sync", "barrier.sync") if each.index < load.index]
        if slot is None or not syncs:
            continue
        text = f"{free.guard}tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 {slot.group()}, {size.value};"
        yield Candidate(
            f"allocate the tensor memory (before line {syncs[-1].line})", (before(subject, syncs[-1], text),)
        )


def _allocated_for(subject: Subject) -> Iterator[Candidate]:
    """An allocation where there is none: the address that is used is a constant."""
    first = next(subject.fits("tcgen05.st", "tcgen05.ld", "tcgen05.cp", "tcgen05.mma"), None)
    sizes = [value for value in said(subject) if value in (32, 64, 128, 256, 512)]
    if first is None:
        return
    last = ends_of(subject)[-1:]
    used = {name for each in subject.fits("tcgen05") for name in read_by(each.item)}
    moves = [
        each for each in subject.places
        if each.item.row == "mov" and each.index < first.index and isinstance(each.item.operands[1], Immediate)
        and _reaches(subject, min(written(each.item)), used)
    ]  # fmt: skip
    for move in moves[:2]:
        name = min(written(move.item))
        for columns in (*sizes, 32, 128, 512)[:3]:
            slot = ".shared .align 4 .b32 tensor_memory_address;"
            one = (
                ".reg .pred first_warp;",
                ".reg .b32 thread;",
                "mov.u32 thread, %tid.x;",
                "setp.lt.u32 first_warp, thread, 32;",
            )
            opcode = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
            alloc = f"@first_warp {opcode} [tensor_memory_address], {columns};"
            fences = ("tcgen05.fence::before_thread_sync;", _CTA_BARRIER, "tcgen05.fence::after_thread_sync;")
            read = f"ld.shared.b32 {name}, [tensor_memory_address];"
            free = f"@first_warp tcgen05.dealloc.cta_group::1.sync.aligned.b32 {name}, {columns};"
            yield Candidate(
                f"allocate {columns} columns (line {move.line}), and free them",
                (
                    replaced(move, "\n\t".join((slot, *one, alloc, *fences, read))),
                    *(before(subject, end, *fences, free) for end in last),
                ),
            )


def _reaches(subject: Subject, name: str, goals: set[str]) -> bool:
    """Is a register one of `goals`, or does one follow from it in two steps?"""
    names = {name}
    for _ in range(3):
        if names & goals:
            return True
        names |= {each for place in subject.places if names & read_by(place.item) for each in written(place.item)}
    return bool(names & goals)
