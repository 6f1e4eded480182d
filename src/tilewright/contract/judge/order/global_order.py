"""Do CTAs of different clusters touch the same global memory, and does anything order them?

Clusters of one launch are ordered by memory alone: a release at gpu scope that an acquire of another cluster reads.
What such an acquire learns is kept per cluster: the publications that it has read, each with what its cluster had
learnt before (causality order is transitive). A conflict between clusters that none of them covers is a race.

Where all accesses of a byte are weak, each is in order with the last write, which was in order with all before. Strong
accesses may be unordered among themselves, so words that were ever touched by one keep all of their accesses, and each
new one is compared with all of them.

Not handled: accesses by different proxies that a publication orders, bytes that more agents read than are remembered,
weak accesses beside strong ones of more words than are kept. All are doubts.
Source: PTX ISA 8.9. Checked by: tests/contract/judge/test_strong_accesses.py, test_grid_flags.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import itemgetter

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.history.granules import Footprints
from tilewright.contract.history.shadow_memory import COARSE_GLOBAL_BYTES, FORGOTTEN, Record, ShadowMemory
from tilewright.contract.judge.race import IF_BOTH_HAPPEN, overlap
from tilewright.contract.judge.run_state import ClusterState, is_ordered, name_of
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.contract.rules.replay_codes import RunFindings
from tilewright.machine.core.event import Ranges

WORD_BYTES = 4
_READERS_KEPT = 8
_WORDS_KEPT = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """What a release at gpu scope published: the clock of a warp of cluster `cluster`."""

    number: int
    cluster: int
    clock: VectorClock

    @property
    def key(self) -> tuple[str, int]:
        """Names the track of whoever learns it."""
        return ("publication", self.number)


class GlobalOrder:
    """Accesses of all clusters to global memory, and what clusters learnt from each other. footprints: of accesses of
    global memory; accesses: of this launch, whichever cluster's."""

    def __init__(self, footprints: Footprints | None = None) -> None:
        self.accesses = ShadowMemory(_READERS_KEPT, COARSE_GLOBAL_BYTES, footprints, once=True)
        self._publications = 0
        # Of each cluster, by their numbers: what it has learnt, with the tracks along which its warps know so.
        self._learnt: dict[int, dict[int, tuple[Publication, int]]] = {}
        self._words: dict[int, list[Record]] = {}
        self._addresses: list[int] = []
        self._overflowed = False
        self.communicating: set[Span] = set()
        """Places of accesses by which one cluster hands data to another, in order."""

    def publish(self, cluster: ClusterState, clock: VectorClock) -> Publication:
        """A release at gpu scope by a warp of `cluster`."""
        self._publications += 1
        return Publication(self._publications, cluster.index, clock.copy())

    def learn(self, cluster: ClusterState, publication: Publication, clock: VectorClock) -> None:
        """A warp of `cluster`, whose clock is advanced, has acquired a publication of another cluster."""
        learnt = self._learnt.setdefault(cluster.index, {})
        known = learnt.get(publication.number)
        if known is None:
            known = learnt[publication.number] = publication, cluster.tracks.of(publication.key)
        clock.advance(known[1], 1)

    def judge(
        self, cluster: ClusterState, outer: Record, conflicts: list[Record], clock: VectorClock, findings: RunFindings
    ) -> list[Record]:
        """Judge an access against those of other clusters with which it conflicts; returns unordered strong accesses
        of the same bytes, which are no races."""
        strong: list[Record] = []
        for earlier in conflicts:
            if earlier is FORGOTTEN:
                findings.doubt(f"{outer.span}: more agents read the bytes that this writes than are remembered")
                continue
            if self._overflowed and earlier.atomic != outer.atomic:
                findings.doubt(
                    f"{outer.span}: touches bytes that {earlier.span} did, one strong, the other not, and there are "
                    "too many strong accesses to remember all"
                )
            if earlier.cluster == cluster.index:
                continue
            if outer.read_only and earlier.write:
                report_stale_read(earlier, outer, findings)
            if self.knows(cluster, clock, earlier):
                self.communicating.update((earlier.span, outer.span))
                if earlier.by_engine != outer.by_engine:
                    findings.doubt(
                        f"{outer.span}: {earlier.span} accessed these bytes by another proxy, in another cluster; "
                        "proxy fences between clusters are not followed"
                    )
                continue
            narrow = earlier.atomic and outer.atomic
            if narrow and {earlier.scope, outer.scope} <= {"", "gpu", "sys"}:
                strong.append(earlier)
                continue
            _report(earlier, outer, findings, narrow=narrow)
        return strong

    def knows(self, cluster: ClusterState, clock: VectorClock, earlier: Record) -> bool:
        """Does a warp of `cluster` whose clock this is know that an access, of any cluster, is done?"""
        if earlier.cluster == cluster.index:
            return is_ordered(earlier, clock)
        return self._has_heard(cluster.index, clock, earlier, set())

    def _has_heard(self, cluster: int, clock: VectorClock, earlier: Record, seen: set[int]) -> bool:
        learnt = self._learnt.get(cluster)
        if learnt is None:
            return False
        for number, (publication, track) in learnt.items():
            if number in seen or not clock.at(track):
                continue
            seen.add(number)
            if publication.cluster == earlier.cluster:
                if is_ordered(earlier, publication.clock):
                    return True
            elif self._has_heard(publication.cluster, publication.clock, earlier, seen):
                return True
        return False

    def conflicts(self, outer: Record) -> list[Record]:
        """Enter an access; earlier ones with which it conflicts, of all clusters, each once."""
        addresses = self._tracked(outer) if outer.atomic or self._addresses else None
        met = self.accesses.conflicts(outer)
        if not addresses:
            return met
        found = {id(each): each for each in met}
        for address in addresses:
            kept = self._words[address]
            word = ((address, address + WORD_BYTES),)
            for each in kept:
                if (each.write or outer.write) and _meet(each, outer, word[0]):
                    found[id(each)] = each
            kept[:] = [each for each in kept if not _stands_for(outer, each)]
            kept.append(outer)
        return list(found.values())

    def _tracked(self, outer: Record) -> list[int]:
        """The words with strong accesses that an access touches; those of a strong one are so from now on."""
        if outer.atomic:
            for begin, end in outer.ranges:
                for address in range(begin - begin % WORD_BYTES, end, WORD_BYTES):
                    if address in self._words:
                        continue
                    if len(self._words) >= _WORDS_KEPT:
                        self._overflowed = True
                    else:
                        before = self.accesses.touched(((address, address + WORD_BYTES),))
                        self._words[address] = [each for each in before if each is not FORGOTTEN]
                        insort(self._addresses, address)
        return words_in(self._addresses, outer.ranges)


def words_in(addresses: list[int], ranges: Ranges) -> list[int]:
    """Those of the words at `addresses`, which ascend, of which a byte lies in `ranges`."""
    found: list[int] = []
    if not addresses or not ranges or ranges[-1][1] <= addresses[0] or ranges[0][0] >= addresses[-1] + WORD_BYTES:
        return found
    for begin, end in ranges:
        first = bisect_left(addresses, begin - begin % WORD_BYTES)
        found.extend(addresses[first : bisect_left(addresses, end)])
    return found


_end_of = itemgetter(1)


def _meet(first: Record, second: Record, word: tuple[int, int]) -> bool:
    """Do two accesses share a byte of a word?"""
    low, high = word
    for record in (first, second):
        ranges = record.ranges  # they ascend: the first that ends behind the word's beginning
        found = bisect_right(ranges, word[0], key=_end_of)
        if found == len(ranges) or ranges[found][0] >= word[1]:
            return False
        low, high = max(low, ranges[found][0]), min(high, ranges[found][1])
    return low < high


def _stands_for(later: Record, earlier: Record) -> bool:
    """Is whoever is ordered after `later` ordered after `earlier`, and in conflict with it if with that?"""
    alike = (later.write, later.atomic, later.scope, later.ranges, later.lanes, later.by_engine, later.uncertain)
    return later.agent == earlier.agent and alike == (
        earlier.write, earlier.atomic, earlier.scope, earlier.ranges, earlier.lanes, earlier.by_engine,
        earlier.uncertain,
    )  # fmt: skip


def report_stale_read(earlier: Record, read: Record, findings: RunFindings) -> None:
    """A load that takes bytes for constant reads what this launch has written."""
    text = f"{name_of(read.actor)} reads, by the non-coherent path, bytes that {name_of(earlier.actor)} wrote"
    if earlier.uncertain or read.uncertain:
        findings.doubt(f"{read.span}: {text}, {IF_BOTH_HAPPEN}")
        return
    findings.report(
        "CL107",
        text,
        read.span,
        earlier.span,
        (
            f"a line with these bytes is in the cache of {name_of(read.actor)}'s multiprocessor",
            f"{name_of(earlier.actor)} writes them ({earlier.span})",
            f"{name_of(read.actor)} may find what the cache still holds ({read.span}), whatever orders the two",
        ),
    )


def _report(earlier: Record, outer: Record, findings: RunFindings, *, narrow: bool) -> None:
    first, last = overlap(earlier, outer)
    one, other = name_of(earlier.actor, earlier.issuer), name_of(outer.actor, outer.issuer)
    text = (
        f"{other} {outer.operation} global bytes [{first:#x}, {last:#x}) that {one}, of another CTA, "
        f"{earlier.operation}"
    )
    if earlier.uncertain or outer.uncertain:
        findings.doubt(f"{outer.span}: {text}, {IF_BOTH_HAPPEN}")
        return
    findings.report(
        "CL104" if narrow else "CL101",
        text + (", by atomics of too narrow a scope" if narrow else ""),
        outer.span,
        earlier.span,
        (
            f"{one} {earlier.operation} them ({earlier.span})",
            "CTAs of different clusters are not ordered",
            f"{other} {outer.operation} them ({outer.span}), before or after",
        ),
    )
