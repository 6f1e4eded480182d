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
from tilewright.machine.lanes import Lanes, Registers, indices, to_bits
from tilewright.machine.memory import locate, merge_ranges
from tilewright.machine.state import Warp
from tilewright.machine.step import Plain, Step

JOINABLE_SPACES = ("shared::cta", "global")


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """What accesses that are told as one have in common. constant: what every lane stores, if the text says so."""

    space: str
    write: bool
    size_bytes: int
    read_only: bool
    constant: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class UntoldAccess:
    """One load or store by the lanes of `mask`, whose event is still to come. addresses: the register, of all lanes, to
    which `offset` is added; tell: yields the event by itself."""

    span: Span
    form: Form
    addresses: Lanes
    offset: int
    mask: int
    tell: Callable[[Warp, UntoldAccess], None]


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


def tell(warp: Warp) -> None:
    """Yield the events of the accesses that are untold."""
    untold: list[UntoldAccess] = warp.untold
    if not untold:
        return
    warp.untold = []
    for space in JOINABLE_SPACES:
        part: list[UntoldAccess] = []
        for access in untold:
            if access.form.space != space:
                continue
            if part and part[-1].form.write != access.form.write:
                _tell_alike(warp, part)
                part = []
            part.append(access)
        _tell_alike(warp, part)


def _tell_alike(warp: Warp, accesses: Sequence[UntoldAccess]) -> None:
    """Loads, or stores, of one space."""
    groups: dict[tuple[object, ...], list[UntoldAccess]] = {}
    for access in accesses:
        form = access.form
        where = None
        if form.space == "global":
            lane = (access.mask & -access.mask).bit_length() >> 3
            where = warp.cta.cluster.memory.find(int(access.addresses[lane]) + access.offset)
        key = (form.size_bytes, form.read_only, form.constant, access.mask, id(where))
        groups.setdefault(key, []).append(access)
    for group in groups.values():
        if len(group) == 1 or not _tell_joined(warp, group):
            for access in group:
                access.tell(warp, access)


def _tell_joined(warp: Warp, group: Sequence[UntoldAccess]) -> bool:
    """Yield one event for all; False, and nothing has happened, if they cannot be told as one."""
    first = group[0]
    form, size_bytes = first.form, first.form.size_bytes
    cluster = warp.cta.cluster
    observe, dropped = cluster.observe, cluster.program.decoder.dropped
    if observe is None or dropped is None or cluster.memory.forgiving:
        return False
    addresses = _addresses(group)
    try:
        found = locate(warp.cta, form.space, addresses.ravel(), size_bytes, first.span)
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
            first.span, lanes=to_bits(first.mask), constant=form.constant, read_only=form.read_only,
            places=(places, size_bytes),
        )
    )  # fmt: skip
    return True


def _addresses(group: Sequence[UntoldAccess]) -> npt.NDArray[np.uint64]:
    """By access and lane that takes part."""
    lanes = indices(group[0].mask)
    found = np.stack([access.addresses for access in group])[:, lanes].astype(np.uint64)
    offsets = [access.offset & 0xFFFF_FFFF_FFFF_FFFF for access in group]
    return found + np.array(offsets, np.uint64)[:, None]
