"""Which loads and stores of a warp may be reported as one, where a run is made for its events alone?

A warp that stores its results issues hundreds of loads and stores with nothing between them but arithmetic. Told one by
one, each is an event that is judged. Here the weak ones of such a stretch are reported when it ends: loads of one kind
by the same lanes, and stores by any, as one access to the bytes of all.

Why a judgement that finds nothing wrong with the joined access would find nothing wrong with its parts. In a stretch
the warp does nothing that orders it with anybody, nor its lanes with one another, so that whoever is ordered with one
part is ordered with all, and what a part is ordered with all are. Another's access conflicts with the joined one where
it conflicts with a part, as the bytes are the same, and lane by lane, since the places of every part are reported.
Among the parts: loads do not conflict; stores reported together meet nowhere; and of one space the loads are reported
before a store that follows them in the stretch, and stores before a load, so that what lanes of the warp exchange there
is judged in the order of the text. Shared and global memory have no byte in common. Stores by different lanes are
reported as by all of these: whoever knows of them by the signals of single lanes must have heard from each, which asks
for more; and no later store is taken for one of them, as a load by the same lanes is, nor do they store the same as
others, which stores of constants may (these are reported by size and lanes). What differs is which instruction a
finding names. So whoever joins accesses must make the run again, one by one, unless nothing was found to be wrong
(`driver.reproof.reproof`).

Not joined are strong accesses, loads that wait for a word of global memory, those by generic addresses or of another
CTA's memory, and loads and stores of values that decide something: these end a stretch. Those whose addresses lie in
several arrays, and stores that meet, are reported one by one, and fault where they would have done.

Checked by: tests/machine/events_only/test_joined_accesses.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.core.event import Access
from tilewright.machine.core.lanes import UNINITIALISED, Lanes, Registers, to_bits
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Plain, Step, before
from tilewright.machine.events_only.access_shapes import AccessShapes, Forms, look_at
from tilewright.machine.events_only.dropped_values import MovedValues, hull_of

JOINABLE_SPACES = ("shared::cta", "global")


@dataclass(slots=True, eq=False)
class WaitingAccess:
    """A load or store of the text whose events may be reported with others. slot: of the address register, offset: is
    added to it; constant: what every lane stores, if the text says so; tell: yields the event of one run of it by
    itself. Never changed, yet not frozen, as a step (`machine.core.step`)."""

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
        r[0].unreported.append((self, addresses, mask))


UnreportedAccess = tuple[WaitingAccess, Lanes, int]
"""One run of it: what the address register held, and the lanes. A plain tuple, as one is made for every access."""


def join_stretches(steps: Sequence[Step], computes: Sequence[bool], moves: Sequence[MovedValues | None]) -> list[Step]:
    """The steps, of which those that end a stretch of accesses tell what is unreported.

    computes: of each step, whether it only computes registers; moves: its load or store of values, if it is one that
    may wait. Of several in a stretch it is noted that they do.
    """
    found = list(steps)
    forms: Forms = {}
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
                _leave_unreported(moves[at])
            found[stretch[-1]] = _telling(found[stretch[-1]], forms)
        stretch = []
    return found


def _leave_unreported(moved: MovedValues | None) -> None:
    """The event of an access is to be reported with others."""
    assert moved is not None and moved.access is not None
    moved.waits = True


def _telling(step: Step, forms: Forms) -> Step:
    """The step, after which all that its warp has left unreported is reported, whether or not its guard holds."""
    assert isinstance(step.body, Plain), "an access that may wait falls through"
    tell = Telling(forms).tell
    return step.doing(before(step.body, Plain(lambda r: tell(r[0]), lambda r, _mask: tell(r[0]))))


_Kind = tuple[object, ...]
_Form = tuple[tuple[WaitingAccess, ...], tuple[int, ...]]
"""Accesses that a warp makes one after the other, and the lanes of each."""


class Telling:
    """What is reported at the end of one stretch. Which accesses are reported together depends on its way through the
    stretch alone, and is worked out once for each; where they lead is known by shapes (`access_shapes`)."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._groups: dict[_Form, tuple[Group, ...]] = {}
        self._made: dict[_Form, Group] = {}

    def tell(self, warp: Warp) -> None:
        """Yield the events of the accesses that are unreported."""
        unreported = warp.unreported
        if not unreported:
            return
        warp.unreported = []
        accesses, vectors, masks = zip(*unreported, strict=True)
        for group in self.groups(accesses, masks):
            self._tell(warp, group, group.look(vectors))

    def groups(self, accesses: tuple[WaitingAccess, ...], masks: tuple[int, ...]) -> tuple[Group, ...]:
        """What is reported as one of accesses that a warp makes one after the other."""
        groups = self._groups.get((accesses, masks))
        if groups is None:
            parts = _batches(accesses, masks)
            groups = tuple(_group(accesses, masks, part, self._forms) for part in parts)
            self._groups[accesses, masks] = groups
        return groups

    def _tell(self, warp: Warp, group: Group, vectors: tuple[Lanes, ...]) -> None:
        if not _tell_joined(warp, group, vectors):
            self._tell_apart(warp, group, vectors, (_array_of, _lanes_of))

    def _tell_apart(
        self, warp: Warp, group: Group, vectors: tuple[Lanes, ...],
        splits: Sequence[Callable[[Warp, UnreportedAccess], object]],
    ) -> None:  # fmt: skip
        """Of accesses that cannot be reported as one those that can be: split by the first of `splits`, then by
        others."""
        if not splits or len(group.accesses) == 1:
            for access, vector, mask in zip(group.accesses, vectors, group.masks, strict=True):
                access.tell(warp, vector, mask)
            return
        split, *others = splits
        parts: dict[object, list[int]] = {}
        for at, each in enumerate(zip(group.accesses, vectors, group.masks, strict=True)):
            parts.setdefault(split(warp, each), []).append(at)
        if len(parts) == 1:
            self._tell_apart(warp, group, vectors, others)
            return
        for places in parts.values():
            part = _group(group.accesses, group.masks, places, self._forms)
            # The vectors first: one that was made before may stand for another part of the same accesses.
            held = part.look(vectors)
            part = self._made.setdefault((part.accesses, part.masks), part)
            if not _tell_joined(warp, part, held):
                self._tell_apart(warp, part, held, others)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Accesses of one stretch that may be reported as one. look: their vectors, among those of all; lanes: of any of
    them, as a member mask; shapes: where they lead."""

    accesses: tuple[WaitingAccess, ...]
    masks: tuple[int, ...]
    look: Callable[[tuple[Lanes, ...]], tuple[Lanes, ...]]
    lanes: int
    shapes: AccessShapes


def _batches(accesses: Sequence[WaitingAccess], masks: Sequence[int]) -> list[list[int]]:
    """Places of those that may be reported together, in the order in which they are reported: loads, or stores, of one
    space, between which there is none of the other kind."""
    found: list[list[int]] = []
    batches: dict[str, tuple[bool, dict[_Kind, list[int]]]] = {}
    for place, (access, mask) in enumerate(zip(accesses, masks, strict=True)):
        batch = batches.get(access.space)
        if batch is None or batch[0] != access.write:
            if batch is not None:
                found.extend(batch[1].values())
            batch = batches[access.space] = (access.write, {})
        batch[1].setdefault(_kind_of(access, mask), []).append(place)
    for _, kinds in batches.values():
        found.extend(kinds.values())
    return found


def _kind_of(access: WaitingAccess, mask: int) -> _Kind:
    """What those have in common that may be reported as one: stores of values that the text does not give, whatever
    their lanes."""
    if access.write and not access.constant:
        return ()
    return access.size_bytes, access.read_only, access.constant, mask


def _group(accesses: Sequence[WaitingAccess], masks: Sequence[int], places: Sequence[int], forms: Forms) -> Group:
    look = look_at(places)
    mine, of_mine = look(accesses), look(masks)
    first = mine[0]
    shapes = AccessShapes(mine, of_mine, first.space, forms, apart=first.write)
    return Group(mine, of_mine, look, reduce(int.__or__, map(to_bits, of_mine)), shapes)


def _array_of(warp: Warp, unreported: UnreportedAccess) -> object:
    """Tells apart the arrays in which the first lanes' addresses lie."""
    access, addresses, mask = unreported
    if access.space != "global":
        return 0
    lane = (mask & -mask).bit_length() >> 3
    return id(warp.cta.cluster.memory.find(int(addresses[lane]) + access.offset))


def _lanes_of(_warp: Warp, unreported: UnreportedAccess) -> object:
    access, _, mask = unreported
    return access.size_bytes, mask


def _tell_joined(warp: Warp, group: Group, vectors: tuple[Lanes, ...]) -> bool:
    """Yield one event for all; False, and nothing has happened, if they cannot be reported as one."""
    form = group.accesses[0]
    cta = warp.cta
    cluster = cta.cluster
    observe, dropped = cluster.observe, cluster.program.decoder.dropped
    if observe is None or dropped is None or cluster.memory.forgiving:
        return False
    found = group.shapes.find(cta, vectors)
    if found is None:
        return False
    where, ranges, places = found
    if form.write:
        dropped.drop(where, *hull_of(where, ranges))
    if len(vectors) > 1:
        dropped.joined = True
    observe(
        Access(
            warp.actor, "shared" if where.cta >= 0 else "global", where.cta, ranges, form.write, "generic",
            form.span, lanes=group.lanes, constant=form.constant, read_only=form.read_only,
            places=places if len(vectors) > 1 or group.lanes & (group.lanes - 1) else None,
        )
    )  # fmt: skip
    return True
