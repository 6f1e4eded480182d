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
from tilewright.machine.lanes import FULL, UNINITIALISED, Lanes, Registers, indices, to_bits
from tilewright.machine.memory import locate, merge_ranges
from tilewright.machine.state import Warp
from tilewright.machine.step import Plain, Quiet, Step, before, guarded

JOINABLE_SPACES = ("shared::cta", "global")


@dataclass(slots=True, eq=False)
class WaitingAccess:
    """A load or store of the text whose events may be told with others. slot: of the address register, offset: is added
    to it; constant: what every lane stores, if the text says so; tell: yields the event of one run of it by itself.
    Never changed, yet not frozen, as a step (`machine.step`)."""

    span: Span
    space: str
    write: bool
    size_bytes: int
    read_only: bool
    constant: tuple[int, ...]
    slot: int
    offset: int
    tell: Callable[[Warp, Lanes, int], None]

    def wait(self, r: Registers, mask: int) -> None:
        """It is run by the lanes of `mask`, and its event is still to come."""
        addresses = r[self.slot]
        if addresses is UNINITIALISED:
            raise TypeError("uninitialised register")
        r[0].untold.append((self, addresses, mask))


UntoldAccess = tuple[WaitingAccess, Lanes, int]
"""One run of it: what the address register held, and the lanes. A plain tuple, as one is made for every access."""


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
                found[at] = _waiting(steps[at], moves[at])
            found[stretch[-1]] = _telling(found[stretch[-1]])
        stretch = []
    return found


def _waiting(step: Step, moved: MovedValues | None) -> Step:
    """The step, which leaves its event to be told with others. Where what it reads has been written, there is nothing
    else to it: what is loaded or stored is dropped."""
    assert moved is not None and moved.access is not None and isinstance(step.body, Plain)
    moved.waits = True
    wait = moved.access.wait
    rest = Plain(lambda r: wait(r, FULL), wait)
    if step.guard >= 0:
        rest = guarded(rest, step.guard, step.negated)
    return step.doing(Quiet(step.body.full, step.body.masked, rest, True))


def _telling(step: Step) -> Step:
    """The step, after which all that its warp has left untold is told, whether or not its guard holds."""
    telling = Plain(lambda r: tell(r[0]), lambda r, _mask: tell(r[0]))
    assert isinstance(step.body, Quiet) and step.body.rest is not None
    both = before(step.body, telling)
    return step.doing(Quiet(both.full, both.masked, before(step.body.rest, telling), True))


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
        access = each[0]
        batch = batches.get(access.space)
        if batch is None or batch[0] != access.write:
            if batch is not None:
                _tell_groups(warp, batch[1])
            batch = batches[access.space] = (access.write, {})
        key = (access.size_bytes, access.read_only, access.constant, each[2])
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
                    each[0].tell(warp, each[1], each[2])


def _array_of(warp: Warp, untold: UntoldAccess) -> int:
    """Tells apart the arrays in which the first lanes' addresses lie."""
    access, addresses, mask = untold
    if access.space != "global":
        return 0
    lane = (mask & -mask).bit_length() >> 3
    return id(warp.cta.cluster.memory.find(int(addresses[lane]) + access.offset))


def _tell_joined(warp: Warp, group: Sequence[UntoldAccess]) -> bool:
    """Yield one event for all; False, and nothing has happened, if they cannot be told as one."""
    form, _, mask = group[0]
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
    mask = group[0][2]
    found = np.stack([addresses for _, addresses, _ in group])
    if mask != FULL:
        found = found[:, indices(mask)]
    offsets = [access.offset & 0xFFFF_FFFF_FFFF_FFFF for access, _, _ in group]
    return found.astype(np.uint64) + np.array(offsets, np.uint64)[:, None]
