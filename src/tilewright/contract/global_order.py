"""Do CTAs of different clusters touch the same global memory, and does anything order them?

Clusters of one launch are ordered by memory alone: a release at gpu scope that an acquire of another cluster reads.
What such an acquire learns is kept per cluster: the publications that it has read. A conflict between clusters that
none of them covers is a race. Source: PTX ISA 8.9.
Not handled: chains of publications through a third cluster, which are doubted. Checked by:
tests/contract/test_strong_accesses.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.contract.race import overlap
from tilewright.contract.replay_codes import RunFindings
from tilewright.contract.run_state import ClusterState, name_of
from tilewright.contract.shadow_memory import Record, ShadowMemory
from tilewright.contract.vector_clock import VectorClock


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """What a release at gpu scope published: the clock of a warp of cluster `cluster`."""

    number: int
    cluster: int
    clock: VectorClock


class GlobalOrder:
    """Accesses of all clusters to global memory, and what clusters learnt from each other."""

    def __init__(self) -> None:
        self._accesses = ShadowMemory(readers_kept=2)
        self._publications = 0
        self._learnt: dict[int, list[Publication]] = {}

    def publish(self, cluster: ClusterState, clock: VectorClock) -> Publication:
        """A release at gpu scope by a warp of `cluster`."""
        self._publications += 1
        return Publication(self._publications, cluster.index, clock.copy())

    def learn(self, cluster: ClusterState, publication: Publication, clock: VectorClock) -> None:
        """A warp of `cluster`, whose clock is advanced, has acquired a publication of another cluster."""
        learnt = self._learnt.setdefault(cluster.index, [])
        if publication not in learnt:
            learnt.append(publication)
        cluster.advance(clock, ("publication", publication.number), 1)

    def enter(self, cluster: ClusterState, record: Record, clock: VectorClock, findings: RunFindings) -> list[Record]:
        """Enter an access and judge it against those of other clusters; returns unordered strong accesses of the same
        bytes, which are no races."""
        strong: list[Record] = []
        outer = Record(
            record.actor, cluster.index, record.write, record.atomic, record.span, record.ranges,
            record.warp_track, record.epoch, record.lanes, record.completion, record.issuer, record.operation,
            by_engine=record.by_engine, uncertain=record.uncertain, reads_value=record.reads_value, scope=record.scope,
        )  # fmt: skip
        for earlier in self._accesses.conflicts(outer):
            if earlier.agent == cluster.index or self._is_ordered(cluster, earlier, clock):
                continue
            narrow = earlier.atomic and outer.atomic
            if narrow and {earlier.scope, outer.scope} <= {"", "gpu", "sys"}:
                strong.append(earlier)
                continue
            first, last = overlap(earlier, outer)
            one, other = name_of(earlier.actor, earlier.issuer), name_of(outer.actor, outer.issuer)
            text = (
                f"{other} {outer.operation} global bytes [{first:#x}, {last:#x}) that {one}, of another CTA, "
                f"{earlier.operation}"
            )
            if earlier.uncertain or outer.uncertain:
                findings.doubt(f"{outer.span}: {text}, if both accesses happen; that depends on data")
                continue
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
        return strong

    def _is_ordered(self, cluster: ClusterState, earlier: Record, clock: VectorClock) -> bool:
        for publication in self._learnt.get(cluster.index, ()):
            if publication.cluster != earlier.agent or not cluster.at(clock, ("publication", publication.number)):
                continue
            done = earlier.completion
            if done is None:
                if publication.clock.at(earlier.warp_track) >= earlier.epoch:
                    return True
            elif done.track >= 0 and publication.clock.at(done.track) >= done.value:
                return True
        return False
