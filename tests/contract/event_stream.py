"""Streams of events for the judge's tests: a tiny machine that runs warps written as Python generators.

A warp is a generator that yields closures; each performs one step on the `Simulator` and returns False while it must
wait. Engines' actions wait in `pending`. A seed chooses what happens next, so one program gives many legal streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.machine.core import event as ev

Step = Callable[[], bool]
Program = Iterator[Step]
PARAMETERLESS = Launch("kernel", (1, 1, 1), (128, 1, 1), ())


def at(line: int) -> Span:
    return Span("<stream>", line)


@dataclass
class Barrier:
    count: int
    pending: int
    tx: int = 0
    phase: int = 0


@dataclass
class Simulator:
    """Barriers, groups and engines of a launch, and the events so far. ctas_of: how many CTAs form a cluster."""

    seed: int
    events: list[ev.Event] = field(default_factory=list)
    barriers: dict[tuple[int, int], Barrier] = field(default_factory=dict)
    pending: list[Step] = field(default_factory=list)
    named: dict[tuple[int, int], dict[ev.WarpActor, bool]] = field(default_factory=dict)
    named_done: dict[tuple[int, int], int] = field(default_factory=dict)
    cluster: list[tuple[ev.WarpActor, bool]] = field(default_factory=list)
    cluster_done: int = 0
    copies: int = 0
    operations: int = 0
    open_copies: dict[ev.WarpActor, list[ev.CopyActor]] = field(default_factory=dict)
    bulk_groups: dict[ev.WarpActor, int] = field(default_factory=dict)
    read_copies: set[ev.CopyActor] = field(default_factory=set)
    written_copies: set[ev.CopyActor] = field(default_factory=set)
    bulk_members: dict[ev.WarpActor, list[list[ev.CopyActor]]] = field(default_factory=dict)
    open_operations: dict[ev.WarpActor, list[ev.TensorCoreActor]] = field(default_factory=dict)
    groups: dict[ev.WarpActor, int] = field(default_factory=dict)
    issued: dict[tuple[int, int], list[ev.TensorCoreActor]] = field(default_factory=dict)
    count_issued: dict[ev.WarpActor, int] = field(default_factory=dict)

    def run(self, programs: dict[ev.WarpActor, Program]) -> list[ev.Event]:
        """Run to the end; raises AssertionError on a hang."""
        random = Random(self.seed)
        current: dict[ev.WarpActor, Step] = {}
        for actor, program in programs.items():
            self._next(actor, program, current)
        while current or self.pending:
            choices: list[ev.WarpActor | int] = [*current, *range(len(self.pending))]
            random.shuffle(choices)
            for choice in choices:
                if isinstance(choice, int):
                    self.pending.pop(choice)()
                    break
                if current[choice]():
                    self._next(choice, programs[choice], current)
                    break
            else:
                raise AssertionError(f"hang: {sorted(map(str, current))}")
        return self.events

    def _next(self, actor: ev.WarpActor, program: Program, current: dict[ev.WarpActor, Step]) -> None:
        step = next(program, None)
        if step is not None:
            current[actor] = step
            return
        current.pop(actor, None)
        self.events.append(ev.Exit(actor, at(999)))

    def emit(self, event: ev.Event) -> bool:
        self.events.append(event)
        return True

    # ---- mbarriers

    def init(self, w: ev.WarpActor, address: int, count: int, line: int = 1) -> bool:
        self.barriers[w.cta, address] = Barrier(count, count)
        return self.emit(ev.BarrierInit(w, w.cta, address, count, at(line)))

    def _advance(self, cta: int, address: int) -> None:
        b = self.barriers[cta, address]
        if b.pending == 0 and b.tx == 0:
            self.emit(ev.PhaseEnd(cta, address, b.phase))
            b.phase += 1
            b.pending = b.count

    def arrive(
        self, w: ev.WarpActor, address: int, line: int, *, count: int = 1, bytes_: int = 0, cta: int | None = None,
        relaxed: bool = False,
    ) -> bool:  # fmt: skip
        cta = w.cta if cta is None else cta
        b = self.barriers[cta, address]
        b.tx += bytes_
        b.pending -= count
        self.emit(ev.BarrierArrive(w, cta, address, b.phase, count, bytes_, at(line), relaxed=relaxed))
        self._advance(cta, address)
        return True

    def expect(self, w: ev.WarpActor, address: int, bytes_: int, line: int) -> bool:
        b = self.barriers[w.cta, address]
        b.tx += bytes_
        return self.emit(ev.BarrierExpect(w, w.cta, address, b.phase, bytes_, at(line)))

    def wait(self, w: ev.WarpActor, address: int, parity: int, line: int) -> bool:
        b = self.barriers[w.cta, address]
        if b.phase & 1 == parity:
            return False
        return self.emit(ev.BarrierWait(w, w.cta, address, parity, b.phase - 1, at(line)))

    # ---- copies

    def load(
        self, w: ev.WarpActor, ranges: ev.Ranges, bytes_: int, barrier: int, line: int, *,
        ctas: tuple[int, ...] | None = None, source: ev.Ranges = (),
    ) -> bool:  # fmt: skip
        copy = ev.CopyActor(self.copies)
        self.copies += 1
        destinations = (w.cta,) if ctas is None else ctas
        self.emit(ev.CopyIssue(w, 0, copy, "load", destinations, ranges, bytes_, barrier, at(line)))

        def deliver(cta: int) -> bool:
            self.emit(ev.Access(copy, "shared", cta, ranges, True, "async", at(line)))
            self.pending.append(lambda: complete(cta))
            return True

        def complete(cta: int) -> bool:
            b = self.barriers[cta, barrier]
            b.tx -= bytes_
            self.emit(ev.BarrierComplete(copy, cta, barrier, b.phase, bytes_, at(line)))
            self._advance(cta, barrier)
            return True

        def read() -> bool:
            if source:
                self.emit(ev.Access(copy, "global", -1, source, False, "async", at(line)))
            for cta in destinations:
                self.pending.append(lambda cta=cta: deliver(cta))
            return True

        self.pending.append(read)
        return True

    def store(self, w: ev.WarpActor, ranges: ev.Ranges, line: int, target: ev.Ranges = ()) -> bool:
        copy = ev.CopyActor(self.copies)
        self.copies += 1
        self.open_copies.setdefault(w, []).append(copy)
        self.emit(ev.CopyIssue(w, 0, copy, "store", (w.cta,), ranges, 0, None, at(line)))

        def read() -> bool:
            self.emit(ev.Access(copy, "shared", w.cta, ranges, False, "async", at(line)))
            self.read_copies.add(copy)
            self.pending.append(write)
            return True

        def write() -> bool:
            if target:
                self.emit(ev.Access(copy, "global", -1, target, True, "async", at(line)))
            self.written_copies.add(copy)
            return True

        self.pending.append(read)
        return True

    def bulk_commit(self, w: ev.WarpActor, line: int) -> bool:
        members = self.open_copies.pop(w, [])
        groups = self.bulk_members.setdefault(w, [])
        groups.append(members)
        return self.emit(ev.BulkCommit(w, 0, len(groups) - 1, tuple(members), at(line)))

    def bulk_wait(self, w: ev.WarpActor, pending: int, line: int, *, read: bool = True) -> bool:
        groups = self.bulk_members.get(w, [])
        done = self.read_copies if read else self.written_copies
        if any(copy not in done for group in groups[: max(0, len(groups) - pending)] for copy in group):
            return False
        return self.emit(ev.BulkWait(w, 0, pending, read, at(line)))

    # ---- wgmma

    def wgmma(self, w: ev.WarpActor, ranges: ev.Ranges, line: int) -> bool:
        group = self.issued.setdefault((w.cta, w.warp // 4), [])
        index = self.count_issued.get(w, 0)
        self.count_issued[w] = index + 1
        if index == len(group):
            group.append(ev.TensorCoreActor(self.operations))
            self.operations += 1
        operation = group[index]
        self.open_operations.setdefault(w, []).append(operation)
        return self.emit(ev.WgmmaIssue(w, operation, ("%f0",), (), ranges, at(line)))

    def wgmma_commit(self, w: ev.WarpActor, line: int) -> bool:
        members = tuple(self.open_operations.pop(w, []))
        number = self.groups.get(w, 0)
        self.groups[w] = number + 1
        return self.emit(ev.WgmmaCommit(w, number, members, at(line)))

    def wgmma_wait(self, w: ev.WarpActor, pending: int, line: int) -> bool:
        # An operation starts once all four warps have issued it.
        wanted = self.groups.get(w, 0) - pending
        peers = [ev.WarpActor(w.cta, w.warp // 4 * 4 + i) for i in range(4)]
        if any(self.groups.get(peer, 0) < wanted for peer in peers):
            return False
        return self.emit(ev.WgmmaWait(w, pending, at(line)))

    # ---- named and cluster barriers

    def named_arrive(self, w: ev.WarpActor, barrier: int, warps: int, line: int, *, waits: bool) -> Program:
        """bar.sync or bar.arrive among `warps` warps, as steps of the warp's program."""
        key = (w.cta, barrier)

        def enter() -> bool:
            members = self.named.setdefault(key, {})
            if w in members:
                return False
            self.emit(ev.NamedBarrierArrive(w, w.cta, barrier, waits, at(line)))
            members[w] = waits
            if len(members) == warps:
                synchronized = tuple(actor for actor, waiting in members.items() if waiting)
                arrived = tuple(actor for actor, waiting in members.items() if not waiting)
                self.emit(ev.NamedBarrier(w.cta, barrier, synchronized, arrived, at(line)))
                self.named[key] = {}
                self.named_done[key] = self.named_done.get(key, 0) + 1
            return True

        generation = [0]

        def first() -> bool:
            generation[0] = self.named_done.get(key, 0)
            return enter()

        yield first
        if waits:
            yield lambda: self.named_done.get(key, 0) > generation[0]

    def cluster_sync(self, w: ev.WarpActor, warps: int, line: int, *, relaxed: bool = False) -> Program:
        """barrier.cluster.arrive and .wait among `warps` warps of the cluster, as steps of the warp's program."""
        generation = [0]

        def arrive() -> bool:
            generation[0] = self.cluster_done
            self.emit(ev.ClusterArrive(w, 0, relaxed, at(line)))
            self.cluster.append((w, relaxed))
            if len(self.cluster) == warps:
                actors = tuple(actor for actor, _ in self.cluster)
                self.emit(ev.ClusterBarrier(0, actors, all(each for _, each in self.cluster), at(line)))
                self.cluster = []
                self.cluster_done += 1
            return True

        yield arrive
        yield lambda: self.cluster_done > generation[0] and self.emit(ev.ClusterWait(w, 0, at(line + 1)))
