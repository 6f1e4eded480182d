"""Which fences and barriers might be missing between what conflicts?

A fence belongs between the accesses and the synchronization that follows them; a barrier of the CTA, where all threads
pass; one of the cluster, at its beginning and its end. Registers that warps take must be given back by others.
Checked by: tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tilewright.driver.repair.text import (
    Candidate,
    Subject,
    after,
    before,
    ends_of,
    following_syncs,
    replaced,
)
from tilewright.frontends.ptx.ast import Address, Label, Register

_PROXY_FENCE = "fence.proxy.async.shared::cta;"
_CTA_BARRIER = "bar.sync 0;"
_CLUSTER_BARRIER = ("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
_INIT_FENCE = "fence.mbarrier_init.release.cluster;"
_FENCE_COST = "one fence by each thread"
_BARRIER_COST = "one barrier of the CTA"


def proxy_fences(subject: Subject) -> Iterator[Candidate]:
    title = "a proxy fence between the accesses and the synchronization"
    seen: set[int] = set()
    for place in subject.found:
        for number, sync in enumerate(following_syncs(subject, place)):
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
        for sync in following_syncs(subject, place):
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
    for place in ends_of(subject):
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
