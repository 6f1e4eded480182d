"""Which loads and stores of a warp may be told as one, where a run is made for its events alone?

A warp that stores its results issues hundreds of loads and stores with nothing between them but arithmetic. Told one by
one, each is an event that is judged. Here the weak ones of such a stretch are told when it ends: those of one kind, by
the same lanes, as one access to the bytes of all.

Why a judgement that finds nothing wrong with the joined access would find nothing wrong with its parts. In a stretch
the warp does nothing that orders it with anybody, nor its lanes with one another, so that whoever is ordered with one
part is ordered with all, and what a part is ordered with all are. Another's access conflicts with the joined one where
it conflicts with a part, as the bytes are the same, and lane by lane, since the places of every part are told. Among
the parts: loads do not conflict; stores told together meet nowhere; and of one space the loads are told before a store
that follows them in the stretch, and stores before a load, so that what lanes of the warp exchange there is judged in
the order of the text. Shared and global memory have no byte in common. What differs is which instruction a finding
names. So whoever joins accesses must make the run again, one by one, unless nothing was found to be wrong
(`driver.reproof`).

Not joined are strong accesses, loads that wait for a word of global memory, those by generic addresses or of another
CTA's memory, and loads and stores of values that decide something: these end a stretch. Those whose addresses lie in
several arrays, and stores that meet, are told one by one, and fault where they would have done.

Checked by: tests/machine/test_joined_accesses.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.machine.dropped_values import MovedValues
from tilewright.machine.event import Access
from tilewright.machine.fault import MachineFault
from tilewright.machine.lanes import FULL, Lanes, Registers, indices, to_bits
from tilewright.machine.memory import locate, merge_ranges
from tilewright.machine.state import Warp
from tilewright.machine.step import Plain, Step

JOINABLE_SPACES = ("shared::cta", "global")


@dataclass(frozen=True, slots=True, eq=False)
class WaitingAccess:
    """A load or store of the text whose events may be told with others. offset: is added to the address register;
    constant: what every lane stores, if the text says so; tell: yields the event of one run of it by itself."""

    span: Span
    space: str
    write: bool
    size_bytes: int
    read_only: bool
    constant: tuple[int, ...]
    offset: int
    tell: Callable[[Warp, Lanes, int], None]


@dataclass(slots=True, eq=False)
class UntoldAccess:
    """One run of it by the lanes of `mask`, whose event is still to come. addresses: what the register holds. Never
    changed, yet not frozen: one is made for every access of a run."""

    access: WaitingAccess
    addresses: Lanes
    mask: int


def join_stretches(steps: Sequence[Step], computes: Sequence[bool], moves: Sequence[MovedValues | None]) -> list[Step]:
    """The steps, of which those that end a stretch of accesses tell what is untold.

    computes: of each step, whether it only computes registers; moves: its load or store of values, if it is one that
    may wait. Of several in a stretch it is noted that they do.
    """
    found = list(steps)
    stretch: list[int] = []
    for index in range(len(steps) + 1):
        if index < len(steps):
            moved = moves[index]
            if moved is not None and not moved.keeps:
                stretch.append(index)
                continue
            if computes[index]:
                continue
        if len(stretch) > 1:
            for at in stretch:
                moved = moves[at]
                assert moved is not None
                moved.waits = True
            found[stretch[-1]] = _telling(steps[stretch[-1]])
        stretch = []
    return found


def _telling(step: Step) -> Step:
    """The step, after which all that its warp has left untold is told, whether or not its guard holds."""
    body = step.body
    assert isinstance(body, Plain)
    run_full, run_masked = body.full, body.masked

    def full(r: Registers) -> None:
        run_full(r)
        tell(r[0])

    def masked(r: Registers, mask: int) -> None:
        run_masked(r, mask)
        tell(r[0])

    return Step(Plain(full, masked), step.span, step.opcode, step.guard, step.negated, step.reads, step.writes)


_Groups = dict[tuple[object, ...], list[UntoldAccess]]
"""Accesses by what those have in common that may be told as one."""


def tell(warp: Warp) -> None:
    """Yield the events of the accesses that are untold."""
    untold = warp.untold
    if not untold:
        return
    warp.untold = []
    batches: dict[str, tuple[bool, _Groups]] = {}
    for each in untold:
        access = each.access
        batch = batches.get(access.space)
        if batch is None or batch[0] != access.write:
            if batch is not None:
                _tell_groups(warp, batch[1])
            batch = batches[access.space] = (access.write, {})
        key = (access.size_bytes, access.read_only, access.constant, each.mask)
        batch[1].setdefault(key, []).append(each)
    for _, groups in batches.values():
        _tell_groups(warp, groups)


def _tell_groups(warp: Warp, groups: _Groups) -> None:
    """Loads, or stores, of one space."""
    for group in groups.values():
        if len(group) > 1 and _tell_joined(warp, group):
            continue
        apart: dict[int, list[UntoldAccess]] = {}
        for each in group:
            apart.setdefault(_array_of(warp, each), []).append(each)
        for part in apart.values():
            if len(part) in (1, len(group)) or not _tell_joined(warp, part):
                for each in part:
                    each.access.tell(warp, each.addresses, each.mask)


def _array_of(warp: Warp, untold: UntoldAccess) -> int:
    """Tells apart the arrays in which the first lanes' addresses lie."""
    if untold.access.space != "global":
        return 0
    lane = (untold.mask & -untold.mask).bit_length() >> 3
    return id(warp.cta.cluster.memory.find(int(untold.addresses[lane]) + untold.access.offset))


def _tell_joined(warp: Warp, group: Sequence[UntoldAccess]) -> bool:
    """Yield one event for all; False, and nothing has happened, if they cannot be told as one."""
    form, mask = group[0].access, group[0].mask
    size_bytes = form.size_bytes
    cluster = warp.cta.cluster
    observe, dropped = cluster.observe, cluster.program.decoder.dropped
    if observe is None or dropped is None or cluster.memory.forgiving:
        return False
    addresses = _addresses(group)
    try:
        found = locate(warp.cta, form.space, addresses.ravel(), size_bytes, form.span)
    except MachineFault:
        return False  # the one of them that is at fault says so
    where = found[0].region
    if len(found) > 1 or (where is not warp.cta.shared if form.space == "shared::cta" else where.space != "global"):
        return False
    base = 0 if where.cta >= 0 else where.base
    places = (found[0].offsets + base).reshape(addresses.shape)
    ranges = merge_ranges(places, size_bytes)
    if form.write:
        if sum(end - begin for begin, end in ranges) != places.size * size_bytes:
            return False
        dropped.drop(where)
    dropped.joined = True
    observe(
        Access(
            warp.actor, "shared" if where.cta >= 0 else "global", where.cta, ranges, form.write, "generic",
            form.span, lanes=to_bits(mask), constant=form.constant, read_only=form.read_only,
            places=(places, size_bytes),
        )
    )  # fmt: skip
    return True


def _addresses(group: Sequence[UntoldAccess]) -> npt.NDArray[np.uint64]:
    """By access and lane that takes part."""
    found = np.stack([each.addresses for each in group])
    if group[0].mask != FULL:
        found = found[:, indices(group[0].mask)]
    offsets = [each.access.offset & 0xFFFF_FFFF_FFFF_FFFF for each in group]
    return found.astype(np.uint64) + np.array(offsets, np.uint64)[:, None]
