"""Which fences, waits and barriers might be missing between what conflicts?

A fence belongs between the accesses and the synchronization that follows them; a wait, before the first use of what it
waits for; a commit, after the last operation of a run; a synchronization of the CTA, where all threads pass.
Checked by: tests/driver/test_repair.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tilewright.driver.repair_numbers import said
from tilewright.driver.repair_text import (
    Candidate,
    Place,
    Subject,
    after,
    barrier_of,
    before,
    read_by,
    replaced,
    spelled,
    wait_lines,
    waits,
    with_number,
    written,
)
from tilewright.frontends.ptx.ast import Address, Immediate, Instruction, Label, Register

_SYNCHRONIZES = ("bar", "barrier", "mbarrier.arrive")
_PROXY_FENCE = "fence.proxy.async.shared::cta;"
_CTA_BARRIER = "bar.sync 0;"
_CLUSTER_BARRIER = ("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
_INIT_FENCE = "fence.mbarrier_init.release.cluster;"
_BULK_READ = "cp.async.bulk.wait_group.read 0;"
_BULK = "cp.async.bulk.wait_group 0;"
_FENCE_COST = "one fence by each thread"
_BARRIER_COST = "one barrier of the CTA"


def _following(subject: Subject, place: Place) -> Iterator[Place]:
    """The instructions that synchronize, after `place` in text order; then those before it, for loops."""
    lines = list(subject.fits(*_SYNCHRONIZES))
    yield from (each for each in lines if each.index > place.index)
    yield from (each for each in reversed(lines) if each.index < place.index)


def _ends(subject: Subject) -> list[Place]:
    return list(subject.fits("ret", "exit"))


def proxy_fences(subject: Subject) -> Iterator[Candidate]:
    title = "a proxy fence between the accesses and the synchronization"
    seen: set[int] = set()
    for place in subject.found:
        for number, sync in enumerate(_following(subject, place)):
            if number == 2:
                break
            if sync.index not in seen:
                seen.add(sync.index)
                where = f"{title} (before line {sync.line})"
                yield Candidate(where, (before(subject, sync, _PROXY_FENCE),), _FENCE_COST)
                if sync.guard:
                    text = ("bar.warp.sync 0xffffffff;",)
                    edit = before(subject, sync, _PROXY_FENCE, *text)
                    yield Candidate(f"{where}, by the whole warp", (edit,), _FENCE_COST)
        yield Candidate(f"{title} (after line {place.line})", (after(subject, place, _PROXY_FENCE),), _FENCE_COST)
        if place is subject.primary:
            yield Candidate(f"{title} (before line {place.line})", (before(subject, place, _PROXY_FENCE),), _FENCE_COST)
            edit = before(subject, place, _PROXY_FENCE, _CTA_BARRIER)
            yield Candidate(f"a proxy fence and a barrier (before line {place.line})", (edit,), _BARRIER_COST)
    yield from _tensor_map_fences(subject)


def _tensor_map_fences(subject: Subject) -> Iterator[Candidate]:
    changes = list(subject.fits("tensormap", "st.global"))
    if not any(each.item.row.startswith("tensormap") for each in changes):
        return
    for place in subject.found:
        for operand in place.item.operands:
            base = getattr(operand, "base", None)
            address = base if isinstance(base, Address) else operand if isinstance(operand, Address) else None
            if address is None or not isinstance(address.base, Register):
                continue
            line = f"fence.proxy.tensormap::generic.acquire.gpu [{address.base.name}], 128;"
            yield Candidate(
                f"acquire the changed tensor map (before line {place.line})", (before(subject, place, line),)
            )
            release = "fence.proxy.tensormap::generic.release.gpu;"
            yield Candidate(
                f"publish and acquire the changed tensor map (before line {place.line})",
                (before(subject, place, release, line),),
            )


def initialised(subject: Subject) -> Iterator[Candidate]:
    """The inits of mbarriers, made known to those who use them."""
    code = subject.finding.code
    if "init" not in subject.words and code[:2] not in ("CL", "PX") and code[2:3] != "2":
        return
    inits = list(subject.fits("mbarrier.init"))
    if not inits:
        return
    last = inits[-1]
    fence = f"{last.guard}{_INIT_FENCE}"
    yield Candidate("the threads of the CTA wait for the inits", (after(subject, last, _CTA_BARRIER),), _BARRIER_COST)
    yield Candidate("the inits are fenced for the cluster", (after(subject, last, fence),), "one fence by one thread")
    yield Candidate(
        "the inits are fenced, and the CTA waits for them", (after(subject, last, fence, _CTA_BARRIER),), _BARRIER_COST
    )
    yield Candidate(
        "the inits are fenced, and the cluster waits for them",
        (after(subject, last, fence, *_CLUSTER_BARRIER),),
        "one barrier of the cluster",
    )


def cta_barriers(subject: Subject) -> Iterator[Candidate]:
    """A barrier of the CTA between what conflicts, or of the warp, or of those who share a named barrier."""
    if subject.other is not None and subject.primary is not None:
        first, last = subject.other.index, subject.primary.index
        if first < last:
            for place in subject.places[first + 1 : last + 1]:
                if place.item.row == "bra" and place.guard:
                    where = f"the threads of the CTA wait for each other (before line {place.line})"
                    yield Candidate(where, (before(subject, place, _CTA_BARRIER),), _BARRIER_COST)
                    break
    for place in subject.found:
        adds = (after, before) if place is subject.other else (before, after)
        for add in adds:
            side = "after" if add is after else "before"
            title = f"the threads of the CTA wait for each other ({side} line {place.line})"
            yield Candidate(title, (add(subject, place, _CTA_BARRIER),), _BARRIER_COST)
    for place in subject.found:
        for sync in _following(subject, place):
            title = f"the lanes of the warp wait for each other (before line {sync.line})"
            yield Candidate(title, (before(subject, sync, "bar.warp.sync 0xffffffff;"),), "one barrier of each warp")
            break
    for other in dict.fromkeys(place.text for place in subject.fits("bar.sync", "barrier.sync") if "," in place.text):
        for place in subject.found[::-1]:
            title = f"those of {other.strip()} wait for each other (before line {place.line})"
            yield Candidate(title, (before(subject, place, re.sub(r"^@!?\S+\s+", "", other)),), _BARRIER_COST)


def cluster_barriers(subject: Subject) -> Iterator[Candidate]:
    arrives, waited = list(subject.fits("barrier.cluster.arrive")), list(subject.fits("barrier.cluster.wait"))
    if subject.finding.code[:2] != "CL" and not arrives and not any("cluster" in each.item.opcode.replace(
        "shared::cluster", "") for each in subject.fits("mbarrier", "mapa", "cp.async.bulk")
    ) and not any("cluster" in name for name in subject.kernel.directives):  # fmt: skip
        return
    for place in arrives:
        if ".relaxed" in place.item.opcode:
            text = place.text.replace(".relaxed", ".release", 1)
            yield Candidate(f"release at the cluster's barrier (line {place.line})", (replaced(place, text),))
    for place in waited:
        before_it = [each for each in arrives if each.index < place.index]
        earlier = [each for each in waited if each.index < place.index]
        if not before_it or (earlier and earlier[-1].index > before_it[-1].index):
            arrive = "barrier.cluster.arrive.aligned;" if "aligned" in place.item.opcode else "barrier.cluster.arrive;"
            title = f"arrive at the cluster's barrier (before line {place.line})"
            yield Candidate(title, (before(subject, place, f"{place.guard}{arrive}"),))
    for place in arrives:
        later = [each for each in waited if each.index > place.index]
        following = [each for each in arrives if each.index > place.index]
        if not later or (following and following[0].index < later[0].index):
            wait = "barrier.cluster.wait.aligned;" if "aligned" in place.item.opcode else "barrier.cluster.wait;"
            title = f"wait at the cluster's barrier (after line {place.line})"
            yield Candidate(title, (after(subject, place, f"{place.guard}{wait}"),))
    for place in _ends(subject):
        title = f"the cluster waits before its end (line {place.line})"
        yield Candidate(title, (before(subject, place, *_CLUSTER_BARRIER),), "one barrier of the cluster")
    inits = list(subject.fits("mbarrier.init"))
    if inits:
        title = "the cluster waits for the inits"
        yield Candidate(title, (after(subject, inits[-1], *_CLUSTER_BARRIER),), "one barrier of the cluster")
    for place in subject.found:
        for add in (before, after):
            side = "before" if add is before else "after"
            title = f"the cluster waits ({side} line {place.line})"
            yield Candidate(title, (add(subject, place, *_CLUSTER_BARRIER),), "one barrier of the cluster")


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
        for sync in _following(subject, place):
            yield Candidate(f"wait for the copies (before line {sync.line})", (before(subject, sync, _BULK_READ),))
            break
    for place in _ends(subject):
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
    for place in _ends(subject):
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
        for number, sync in enumerate(_following(subject, place)):
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
    ends = _ends(subject)
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
        for end in _ends(subject):
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
    last = _ends(subject)[-1:]
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


def exits(subject: Subject) -> Iterator[Candidate]:
    """The kernel waits, before its end, for the phase of a copy that is still on its way."""
    for place in subject.found:
        if place.item.row.startswith("cp.async.bulk") and barrier_of(place.item) is not None and not waits(subject):
            for end in _ends(subject):
                barrier = barrier_of(place.item)
                if barrier is not None:
                    yield Candidate(
                        f"wait for the copy before the end (line {end.line})",
                        (before(subject, end, *wait_lines(spelled(barrier), "0")),),
                    )


def register_changes(subject: Subject) -> Iterator[Candidate]:
    """A setmaxnreg that a role lacks: where its siblings begin with one, and before a role that takes registers."""
    changes = list(subject.fits("setmaxnreg"))
    falling = [each for each in changes if ".dec" in each.item.opcode]
    usual = Counter(each.text for each in falling).most_common(1)
    labels = [item for item in subject.kernel.body if isinstance(item, Label)]
    if usual:
        for label in labels:
            following = [each for each in subject.places if each.line > label.span.line][:6]
            entry = bool(following) and following[0].item.row in ("barrier.sync", "bar.sync")
            if entry and not any(each.item.row == "setmaxnreg" for each in following[:2]):
                title = f"give registers back (before line {following[0].line})"
                yield Candidate(title, (before(subject, following[0], usual[0][0]),))
    rising = [each for each in changes if ".inc" in each.item.opcode]
    for place in subject.near(rising):
        for text in dict.fromkeys(each.text for each in falling):
            yield Candidate(f"give registers back (before line {place.line})", (before(subject, place, text),))
        for label in [each for each in labels if each.span.line < place.line][-1:]:
            first = next((each for each in subject.places if each.line > label.span.line), None)
            for value in (24, 40, 88, 168):
                if first is not None:
                    line = f"setmaxnreg.dec.sync.aligned.u32 {value};"
                    yield Candidate(f"give registers back (before line {first.line})", (before(subject, first, line),))


def grid_waits(subject: Subject) -> Iterator[Candidate]:
    wait = "griddepcontrol.wait;"
    for place in subject.places[:1]:
        yield Candidate(
            f"wait for the grids before this one (before line {place.line})", (before(subject, place, wait),)
        )
    for place in subject.found[::-1]:
        yield Candidate(
            f"wait for the grids before this one (before line {place.line})", (before(subject, place, wait),)
        )
