"""How do the agents' words meet? One run of them all, judged for every interleaving.

Agents meet at mbarriers only, and a wait's outcome depends on nothing but which phase it means. So one schedule stands
for all, once these hold, which vector clocks decide: every arrival, expectation and copy is ordered after the end of
the phase before the one it counts in; no phase ends before the waits for the phase two before it; conflicting accesses
are ordered. Asynchronous operations have no clock of their own: they are done for whoever knows enough of what reports
their completion, a track of the clock: "phase" of a barrier, and an agent's "dot", "store", "copy" and "mma" counts.

Where agents are groups of threads, a step may be that of a part of them. Each thread knows what it did itself; of the
others' doing the threads of a part know nothing but what they synchronized on. So what threads of one agent read and
write is compared thread by thread; where it is not known which thread touches what, only the agent's own writes are
taken to go to places of their own.

Checked by: tests/contract/words/test_structured_run.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.base.plural import counted
from tilewright.contract.history.byte_ranges import without
from tilewright.contract.typestate.places.footprint import Ranges, merged
from tilewright.contract.words.accesses import conflict_code, covers, crossing, overlap, ranges_of
from tilewright.contract.words.end import explain_deadlock, judge_agent_end, judge_exit
from tilewright.contract.words.state import (
    Actors,
    AgentState,
    BarrierState,
    Clock,
    Record,
    Track,
    Trouble,
    WaitRecord,
    barrier_name,
    join,
    known_phases,
)
from tilewright.contract.words.word import Barrier, Part, Region, Step, Word

_ENGINES = frozenset({"load", "store", "dot", "mma"})


class Run:
    """One run of all words. `troubles` in the order of discovery, `reviews`: contested points; a run stops at a state
    that it can't go on from."""

    def __init__(self, words: Mapping[str, Word], *, by_threads: bool = False) -> None:
        """by_threads: agents are groups of threads, of which one may act alone; all of them begin at once. Else agents
        act as one, and the first of them begins."""
        self.by_threads = by_threads
        self.agents: dict[str, AgentState] = {}
        for name, word in words.items():
            everyone = Actors(name, name, {}, several=by_threads)
            self.agents[name] = AgentState(word, everyone, everyone)
        self.named: dict[int, str] = {}
        self.barriers: dict[Barrier, BarrierState] = {}
        self.records: dict[str, list[Record]] = {}
        self.troubles: dict[tuple[str, int], Trouble] = {}
        self.reviews: dict[tuple[str, int], Trouble] = {}
        self.written: dict[str, Ranges] = {}
        self.stopped = False

    # ------------------------------------------------------------ the schedule

    def go(self) -> None:
        """Run until all agents are done, or nobody can move."""
        for state in self.agents.values():
            state.running = True
            if not self.by_threads:
                break
        moved = True
        while moved and not self.stopped:
            moved = False
            # Later agents, which fill, go first: a read before its fill then shows as what it is.
            for state in reversed(self.agents.values()):
                if state.running and not state.done:
                    moved = self._advance(state) or moved
        if self.stopped:
            return
        if all(state.done or not state.running for state in self.agents.values()):
            judge_exit(self)
        else:
            explain_deadlock(self)

    def _advance(self, state: AgentState) -> bool:
        moved = False
        steps = state.word.steps
        while state.position < len(steps):
            for watch in state.watched:
                watch(self, state.position)
            if self.stopped or not self._step(state, steps[state.position]):
                return moved
            state.position += 1
            moved = True
            if steps[state.position - 1].kind == "spawn":
                return True
        state.done = True
        judge_agent_end(self, state)
        return True

    def report(
        self, code: str, message: str, line: int, other: int = 0, *, fatal: bool = False, exact: bool = True
    ) -> None:
        key = (code, line)
        if key not in self.troubles or (exact and not self.troubles[key].exact):
            self.troubles[key] = Trouble(code, message, line, other, exact=exact)
        self.stopped = self.stopped or fatal

    # ------------------------------------------------------------ steps

    def _step(self, state: AgentState, step: Step) -> bool:
        """Do a step; False if it has to wait. A step of a part of the threads is judged by what these know."""
        if not self.by_threads:
            return self._do(state, step)
        part = step.part
        actors = state.acting = state.everyone if part is None else self._part(state, part)
        done = self._do(state, step)
        # What all threads know those of any part of them know.
        for other, others in state.parts.items():
            if others is not actors and (part is None or other.within(part)):
                join(others.clock, actors.clock)
        state.acting = state.everyone
        return done

    def _part(self, state: AgentState, part: Part) -> Actors:
        found = state.parts.get(part)
        if found is None:
            name = state.word.agent
            found = Actors(name, f"{part.name} of {name}", dict(state.everyone.clock), part.size > 1)
            for other, others in state.parts.items():
                if part.within(other):
                    join(found.clock, others.clock)
            state.parts[part] = found
        return found

    def _do(self, state: AgentState, step: Step) -> bool:
        match step.kind:
            case "wait":
                return self._wait(state, step)
            case "join":
                return self._join(state, step)
            case "sync":
                return self._sync(state)
            case _:
                pass
        state.time += 1
        name = state.word.agent
        actors = state.acting
        who = actors.who
        if not actors.several:
            state.clock["time", who] = state.time
        match step.kind:
            case "init":
                self._init(state, step)
            case "inval":
                self._inval(state, step)
            case "arrive" | "expect" | "expect_only" | "commit" | "copy_arrive":
                self._arrive(state, step)
            case "load":
                self._load(state, step)
            case "read" | "write" | "free":
                writes = step.kind != "read"
                for region in step.regions:
                    self._access(state, step, region, writes, "thread", ("time", who), state.time)
                    if step.kind == "free":
                        self.records[region.allocation] = []
            case "dot_fence":
                state.registers_fenced = True
            case "dot":
                if self.by_threads and not state.registers_fenced:
                    self.report("WG101", "a wgmma starts with no wgmma.fence after its registers' last use", step.line)
                state.dots += 1
                state.dot_times.append((state.dots, state.time))
                state.lines["dot"] = step.line
                for region in step.regions:
                    self._access(state, step, region, False, "dot", ("dot", name), state.dots)
            case "dot_wait":
                done = state.dots - step.value
                join(state.clock, {("dot", name): done})
                # A wgmma is done only if all warps came to it: whoever waited for it knows that they did.
                issued = [time for dot, time in state.dot_times if dot <= done]
                state.dot_times = [each for each in state.dot_times if each[0] > done]
                if self.by_threads and issued:
                    join(state.clock, {("came", name): issued[-1]})
            case "use":
                state.registers_fenced = False
                if state.clock.get(("dot", name), 0) < state.dots - step.value:
                    self.report("WG104", "the result of a wgmma is used before it is waited for", step.line)
            case "mma":
                state.mmas += 1
                state.lines["mma"] = step.line
                for place, region in enumerate(step.regions):
                    last = place == len(step.regions) - 1
                    self._access(state, step, region, last, "mma", ("mma", name), state.mmas)
            case "store":
                actors.stores += 1
                actors.store_line = step.line
                for region in step.regions:
                    self._access(state, step, region, False, "store", ("read by store", who), actors.stores)
            case "store_commit":
                actors.store_groups.append(actors.stores)
                actors.stores_committed = actors.stores
            case "store_wait" | "store_wait_read":
                known, actors.store_groups = _waited(actors.store_groups, step.value)
                join(state.clock, {("read by store", who): known})
            case "copy":
                actors.copies += 1
                state.lines["copy"] = step.line
                for region in step.regions:
                    self._access(state, step, region, True, "copy", ("copy", who), actors.copies)
            case "copy_commit":
                actors.copy_groups.append(actors.copies)
            case "copy_wait":
                known, actors.copy_groups = _waited(actors.copy_groups, step.value)
                actors.copied = max(actors.copied, known)
                if not actors.several:
                    join(state.clock, {("copy", who): known})
            case "fence":
                actors.fenced = state.time
                if not actors.several:
                    state.clock["fence", who] = state.time
            case "group_sync":
                self._group_sync(state, step)
            case "spawn":
                for other in step.agents:
                    self.agents[other].running = True
                    self.agents[other].everyone.clock = dict(state.clock)
            case _:
                raise AssertionError(step.kind)
        return True

    def _join(self, state: AgentState, step: Step) -> bool:
        others = [self.agents[name] for name in step.agents]
        if not all(other.done for other in others):
            return False
        for other in others:
            join(state.clock, other.clock)
        return True

    def _sync(self, state: AgentState) -> bool:
        """A barrier of all agents: the last to come lets all of them go on."""
        if state.released:
            state.released = False
            return True
        for other in self.agents.values():
            here = other.word.steps[other.position] if other.position < len(other.word.steps) else None
            if other.released or here is None or here.kind != "sync":
                return False
        merged: Clock = {}
        for other in self.agents.values():
            other.time += 1
            for actors in other.actors():
                join(merged, actors.published(other.time))
        for other in self.agents.values():
            for actors in other.actors():
                actors.clock = dict(merged)
            other.released = other is not state
        return True

    def _group_sync(self, state: AgentState, step: Step) -> None:
        """A barrier of the agent's own threads."""
        name = state.word.agent
        owner = self.named.setdefault(step.value, name)
        if owner != name:
            message = f"{owner} and {name} both use named barrier {step.value} as their own"
            self.report("NB102", message, step.line, fatal=True)
        merged: Clock = {}
        for actors in state.actors():
            join(merged, actors.published(state.time))
        for actors in state.actors():
            actors.clock = dict(merged)

    # ------------------------------------------------------------ mbarriers

    def _live(self, state: AgentState, step: Step) -> BarrierState | None:
        """The barrier of a step, if it is there for this agent."""
        barrier = step.barrier
        assert barrier is not None
        found = self.barriers.get(barrier)
        if found is None or not found.live:
            self.report("MB101", f"barrier {barrier_name(barrier)} is used and not initialised", step.line, fatal=True)
            return None
        if any(state.clock.get(("time", who), 0) < time for who, time in found.inits.items()):
            self.report("MB104", f"barrier {barrier_name(barrier)} may not be initialised yet", step.line, found.line)
        return found

    def _init(self, state: AgentState, step: Step) -> None:
        barrier = step.barrier
        assert barrier is not None
        found = self.barriers.get(barrier)
        if not 1 <= step.value < 1 << 20:
            self.report(
                "MB201",
                f"barrier {barrier_name(barrier)} counts {counted(step.value, 'arrival')}",
                step.line,
                fatal=True,
            )
            return
        if found is None:
            self.barriers[barrier] = BarrierState(step.value, step.value, step.line, {state.who: state.time})
            self._repeated(state, step)
            return
        unused = found.pending == found.count and not found.bytes and not found.users
        if found.live and self.by_threads and unused and found.count == step.value and state.who not in found.inits:
            found.inits[state.who] = state.time
            self._repeated(state, step, always=True)
            return
        if found.live:
            message = f"barrier {barrier_name(barrier)} is initialised again"
            self.report("MB103", message, step.line, found.line, fatal=True)
            return
        found.count = found.pending = step.value
        found.base, found.live, found.line = found.done, True, step.line
        found.inits = {state.who: state.time}
        self._repeated(state, step)

    def _repeated(self, state: AgentState, step: Step, *, always: bool = False) -> None:
        """Several threads initialise a barrier alike before its first use: a contested point."""
        if step.barrier is not None and (always or state.acting.several):
            name = barrier_name(step.barrier)
            message = f"barrier {name} is initialised by several threads; contested: repeated_init"
            self.reviews.setdefault(("MB115", step.line), Trouble("MB115", message, step.line))

    def _inval(self, state: AgentState, step: Step) -> None:
        found = self._live(state, step)
        if found is None or step.barrier is None:
            return
        name = barrier_name(step.barrier)
        for agent, time in found.users.items():
            if state.clock.get(("time", agent), 0) < time:
                self.report("MB103", f"barrier {name} is invalidated while {agent} may use it", step.line)
        if found.pending != found.count or found.bytes:
            message = f"barrier {name} is invalidated in the middle of a phase"
            self.report("MB110", message, step.line, found.expect_line or found.arrive_line)
        if state.clock.get(("phase", step.barrier), 0) < found.done and found.load_line:
            self.report("MB103", f"barrier {name} is invalidated while a copy may report to it", step.line,
                        found.load_line)  # fmt: skip
        found.live = False
        found.waits, found.users = [], {}

    def _wait(self, state: AgentState, step: Step) -> bool:
        found = self._live(state, step)
        barrier = step.barrier
        if found is None or barrier is None:
            return False
        if step.value not in (0, 1):
            self.report("MB212", f"parity {step.value} is waited for", step.line, fatal=True)
            return False
        known = known_phases(state, found, barrier)
        target = known if (known - found.base) % 2 == step.value else known - 1
        if found.done >= target + 2:
            message = f"barrier {barrier_name(barrier)} may be a phase ahead of what is waited for"
            self.report("MB108", message, step.line, found.arrive_line, fatal=True)
            return False
        if found.done < target + 1:
            return False
        name = state.who
        state.time += 1
        if not state.acting.several:
            state.clock["time", name] = state.time
        if target >= found.base:
            join(state.clock, found.released)
            join(state.clock, {("phase", barrier): target + 1})
        found.waits.append(WaitRecord(target, name, state.time, step.line))
        found.users[name] = state.time
        return True

    def _arrive(self, state: AgentState, step: Step) -> None:
        found = self._live(state, step)
        barrier = step.barrier
        if found is None or barrier is None:
            return
        name = state.who
        found.users[name] = state.time
        if known_phases(state, found, barrier) < found.done:
            self._early(state, found, step, "an arrival")
            return
        count = step.value if step.kind in ("arrive", "copy_arrive") else 0 if step.kind == "expect_only" else 1
        if count > found.pending:
            message = f"{counted(count, 'arrival')} where {found.pending} of {found.count} are missing"
            self.report("MB106", f"barrier {barrier_name(barrier)}: {message}", step.line, found.line, fatal=True)
            return
        found.pending -= count
        if step.kind.startswith("expect"):
            found.bytes += step.value
            found.expect_line = step.line
        found.arrive_line = step.line
        match step.kind:
            case "commit":
                state.committed = state.mmas
                learned = dict(state.clock)
                learned["mma", state.word.agent] = state.mmas
            case "copy_arrive":
                learned = dict(state.clock)
                learned["copy", name] = state.acting.copies
            case _:
                learned = state.acting.published(state.time)
        if step.part is None:
            # All threads arrive: each part of them as well.
            for actors in state.parts.values():
                join(found.gathering, actors.published(state.time))
        join(found.gathering, learned)
        self._complete(barrier, found)

    def _early(self, state: AgentState, found: BarrierState, step: Step, what: str) -> None:
        """Something may count in the phase before: what explains it best?"""
        assert step.barrier is not None
        name = barrier_name(step.barrier)
        if step.kind == "load" and found.expect_line:
            message = f"barrier {name}: the phase ends before this copy, whose bytes it does not expect"
            self.report("TX101", message, step.line, found.expect_line, fatal=True)
            return
        code = "TX102" if step.kind == "load" else "MB107"
        message = f"{what} at barrier {name} may count in the phase before, which is not waited for"
        self.report(code, message, step.line, found.arrive_line, fatal=True)

    def _load(self, state: AgentState, step: Step) -> None:
        found = self._live(state, step)
        barrier = step.barrier
        if found is None or barrier is None:
            return
        name = state.who
        found.users[name] = state.time
        found.load_line = step.line
        for region in step.regions:
            self._access(state, step, region, True, "load", ("phase", barrier), found.done + 1)
        if known_phases(state, found, barrier) < found.done:
            self._early(state, found, step, "a copy")
            return
        found.bytes -= step.value
        join(found.gathering, state.clock)
        self._complete(barrier, found)

    def _complete(self, barrier: Barrier, found: BarrierState) -> None:
        """End the phase if nothing is missing."""
        if found.pending or found.bytes:
            return
        for wait in found.waits:
            came = max(found.gathering.get((track, wait.agent), 0) for track in ("time", "came"))
            if wait.target == found.done - 1 and came < wait.time:
                message = (
                    f"barrier {barrier_name(barrier)} may end the next phase before this wait sees the one it means"
                )
                self.report("MB108", message, wait.line, found.arrive_line)
        found.done += 1
        found.waits = [wait for wait in found.waits if wait.target >= found.done - 1]
        found.pending = found.count
        found.released = found.gathering
        found.released["phase", barrier] = found.done
        found.gathering = {}

    # ------------------------------------------------------------ memory

    def _access(
        self, state: AgentState, step: Step, region: Region, writes: bool, kind: str, track: Track, value: int
    ) -> None:
        records = self.records.setdefault(region.allocation, [])
        if writes and region.pieces and crossing(region, region):
            exact = len({piece[:2] for piece in region.pieces}) > 1
            message = f"{region.allocation}: threads of {state.word.agent} write the same bytes at once"
            self.report("NB101", message, step.line, exact=exact)
        if self.by_threads and not region.tensor:
            self._note_written(region, writes, step)
        clock, actors = state.clock, state.acting
        # Engines that a whole agent starts have its name; what threads do, theirs.
        name = state.word.agent
        kept: list[Record] = []
        for record in records:
            touches = overlap(record.region, region)
            if touches and (writes or record.writes) and clock.get(record.track, 0) < record.value:
                in_order = kind == record.kind == "mma" and record.agent == name
                exact = True
                if not in_order and kind in ("thread", "copy") and _done_by_itself(record, actors):
                    crosses = crossing(record.region, region)
                    apart = crosses is None and writes and record.writes and record.who == actors.who
                    in_order, exact = crosses is False or apart, crosses is True or not self.by_threads
                if not in_order:
                    self._conflict(record, region, writes, kind, name, step, exact)
            elif touches and self._lacks_fence(record, kind, state):
                message = f"{region.allocation}: an engine uses bytes that threads wrote, with no proxy fence"
                self.report("PX101", message, step.line, record.line)
            replaced = touches and covers(region, record.region)
            if replaced and (writes or (not record.writes and record.track == track)):
                continue
            kept.append(record)
        added = Record(region, writes, kind, name, actors.who, track, value, step.line)
        if kept and (joined := _joined(kept[-1], added)) is not None:
            kept[-1] = joined
        else:
            kept.append(added)
        self.records[region.allocation] = kept

    def _note_written(self, region: Region, writes: bool, step: Step) -> None:
        """Keep which bytes have been written; a read of others finds what was left there: a contested point."""
        written = self.written.get(region.allocation, ())
        touched = ranges_of(region)
        if not writes:
            if region.exact and (missing := without(touched, written)):
                begin, end = missing[0]
                message = f"bytes {begin} to {end - 1} of {region.allocation} are read, which nobody has written"
                key = ("UM101", step.line)
                self.reviews.setdefault(key, Trouble("UM101", f"{message}; contested: unwritten_shared", step.line))
        elif without(touched, written):
            self.written[region.allocation] = merged((*written, *touched))

    def _lacks_fence(self, record: Record, kind: str, state: AgentState) -> bool:
        """Does an engine use what threads wrote, and who issues it knows of no proxy fence after the writes?"""
        if not self.by_threads or not record.writes or record.kind != "thread" or kind not in _ENGINES:
            return False
        own = state.acting.fenced if record.who == state.who else 0
        return max(own, state.clock.get(("fence", record.who), 0)) < record.value

    def _conflict(
        self, record: Record, region: Region, writes: bool, kind: str, name: str, step: Step, exact: bool
    ) -> None:
        code, words = conflict_code(record, region, writes, kind, name, step)
        message = f"{region.allocation}: {words}"
        exact = exact and region.exact and record.region.exact
        self.report(code, message, step.line, record.line, exact=exact)


def _joined(before: Record, after: Record) -> Record | None:
    """One access for two, the first right before the second, by one thread that goes on where it was; None for others.
    Between them nobody learned of the first alone."""
    if (before.kind, before.who, before.line, before.writes) != ("thread", after.who, after.line, after.writes):
        return None
    first, second = before.region.pieces, after.region.pieces
    if before.value + 1 != after.value or len(first) != 1 or len(second) != 1 or first[0].thread != second[0].thread:
        return None
    if first[0].end != second[0].begin:
        return None
    piece = first[0]._replace(end=second[0].end)
    region = after.region._replace(box=((piece.begin, piece.end),), pieces=(piece,))
    return replace(after, region=region)


def _done_by_itself(record: Record, actors: Actors) -> bool:
    """Is an access, as far as a thread that now touches the bytes made it itself, done before?"""
    if record.agent != actors.agent:
        return False
    return record.kind == "thread" or (record.kind == "copy" and record.who == actors.who
                                       and record.value <= actors.copied)  # fmt: skip


def _waited(groups: list[int], pending: int) -> tuple[int, list[int]]:
    """Up to which operation all are done where `pending` groups may be in flight (0: nothing new), and those groups."""
    if pending >= len(groups):
        return 0, groups
    return groups[len(groups) - 1 - pending], groups[len(groups) - pending :] if pending else []
