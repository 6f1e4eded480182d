"""How do the agents' words meet? One run of them all, judged for every interleaving.

Agents meet at mbarriers only, and a wait's outcome depends on nothing but which phase it means. So one schedule stands
for all, once these hold, which vector clocks decide: every arrival, expectation and copy is ordered after the end of
the phase before the one it counts in; no phase ends before the waits for the phase two before it; conflicting accesses
are ordered. Asynchronous operations have no clock of their own: they are done for whoever knows enough of what reports
their completion, a track of the clock: "phase" of a barrier, and an agent's "dot", "store", "copy" and "mma" counts.

Checked by: tests/contract/test_structured_run.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from tilewright.contract.structured_word import Barrier, Region, Step, Word

Track = tuple[str, Hashable]
Clock = dict[Track, int]

_ENGINES = frozenset({"load", "store", "dot", "mma"})


@dataclass(frozen=True, slots=True)
class Trouble:
    """A rule that is broken: at a line, in conflict with another (0: none). exact: false where it may be due to memory
    that is told apart too coarsely."""

    code: str
    message: str
    line: int
    other: int = 0
    steps: tuple[str, ...] = ()
    exact: bool = True


@dataclass(slots=True)
class Record:
    """An access. kind: "thread", "load", "store", "dot", "mma", "copy"; it is done for a clock that has `value` on
    `track`."""

    region: Region
    writes: bool
    kind: str
    agent: str
    track: Track
    value: int
    line: int


@dataclass(slots=True)
class WaitRecord:
    target: int
    agent: str
    time: int
    line: int


@dataclass(slots=True)
class BarrierState:
    """count: arrivals of a phase; pending: that are missing; bytes: expected and not yet brought; done: phases complete
    since the first init, base: of those before the last init."""

    count: int
    pending: int
    line: int
    init: tuple[str, int]
    done: int = 0
    base: int = 0
    bytes: int = 0
    live: bool = True
    gathering: Clock = field(default_factory=dict[Track, int])
    released: Clock = field(default_factory=dict[Track, int])
    waits: list[WaitRecord] = field(default_factory=list[WaitRecord])
    users: dict[str, int] = field(default_factory=dict[str, int])
    expect_line: int = 0
    arrive_line: int = 0
    load_line: int = 0


@dataclass(slots=True)
class AgentState:
    word: Word
    clock: Clock
    position: int = 0
    time: int = 0
    dots: int = 0
    stores: int = 0
    stores_committed: int = 0
    copies: int = 0
    store_groups: list[int] = field(default_factory=list[int])
    copy_groups: list[int] = field(default_factory=list[int])
    mmas: int = 0
    committed: int = 0
    running: bool = False
    done: bool = False
    lines: dict[str, int] = field(default_factory=dict[str, int])
    watched: list[Callable[[Run, int], None]] = field(default_factory=list["Callable[[Run, int], None]"])
    released: bool = False
    registers_fenced: bool = False
    elected: Clock = field(default_factory=dict[Track, int])
    dot_times: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    who: str = ""


def join(clock: Clock, other: Mapping[Track, int]) -> None:
    """Learn all that `other` knows."""
    for track, value in other.items():
        if clock.get(track, 0) < value:
            clock[track] = value


class Run:
    """One run of all words. `troubles` in the order of discovery; a run stops at a state it can't go on from."""

    def __init__(self, words: Mapping[str, Word], *, by_threads: bool = False) -> None:
        """by_threads: agents are groups of threads, of which one may act alone; all of them begin at once. Else agents
        act as one, and the first of them begins."""
        self.by_threads = by_threads
        self.agents = {name: AgentState(word, {}, who=name) for name, word in words.items()}
        self.named: dict[int, str] = {}
        self.barriers: dict[Barrier, BarrierState] = {}
        self.records: dict[str, list[Record]] = {}
        self.troubles: dict[tuple[str, int], Trouble] = {}
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
            self._at_exit()
        else:
            self._deadlock()

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
        self._at_end(state)
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
        """Do a step; False if it has to wait. A step of one thread is judged by what that thread knows."""
        if not self.by_threads:
            return self._do(state, step)
        name = state.word.agent
        if step.single:
            state.clock, state.elected, state.who = state.elected, state.clock, f"one thread of {name}"
            done = self._do(state, step)
            state.clock, state.elected, state.who = state.elected, state.clock, name
            return done
        done = self._do(state, step)
        # What all threads know one of them knows, but for what the others have done.
        own = {("time", name), ("fence", name)}
        join(state.elected, {track: value for track, value in state.clock.items() if track not in own})
        return done

    def _do(self, state: AgentState, step: Step) -> bool:
        match step.kind:
            case "wait":
                return self._wait(state, step)
            case "join":
                return self._join(state, step)
            case "sync":
                return self._sync(state, step)
            case _:
                pass
        state.time += 1
        name = state.word.agent
        who = state.who
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
                    join(state.elected, {("time", name): issued[-1]})
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
                state.stores += 1
                state.lines["store"] = step.line
                for region in step.regions:
                    self._access(state, step, region, False, "store", ("read by store", name), state.stores)
            case "store_commit":
                state.store_groups.append(state.stores)
                state.stores_committed = state.stores
            case "store_wait" | "store_wait_read":
                known, state.store_groups = _waited(state.store_groups, step.value)
                join(state.clock, {("read by store", name): known})
            case "copy":
                state.copies += 1
                state.lines["copy"] = step.line
                for region in step.regions:
                    self._access(state, step, region, True, "copy", ("copy", name), state.copies)
            case "copy_commit":
                state.copy_groups.append(state.copies)
            case "copy_wait":
                known, state.copy_groups = _waited(state.copy_groups, step.value)
                join(state.clock, {("copy", name): known})
            case "fence":
                state.clock["fence", name] = state.time
            case "group_sync":
                self._group_sync(state, step)
            case "spawn":
                for other in step.agents:
                    self.agents[other].running = True
                    self.agents[other].clock = dict(state.clock)
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

    def _sync(self, state: AgentState, step: Step) -> bool:
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
            other.clock["time", other.word.agent] = other.time
            join(merged, other.clock)
            join(merged, other.elected)
        for other in self.agents.values():
            other.clock, other.elected = dict(merged), dict(merged)
            other.released = other is not state
        return True

    def _group_sync(self, state: AgentState, step: Step) -> None:
        """A barrier of the agent's own threads."""
        name = state.word.agent
        owner = self.named.setdefault(step.value, name)
        if owner != name:
            message = f"{owner} and {name} both use named barrier {step.value} as their own"
            self.report("NB102", message, step.line, fatal=True)
        join(state.clock, state.elected)
        state.elected = dict(state.clock)

    # ------------------------------------------------------------ mbarriers

    def _name(self, barrier: Barrier) -> str:
        return f"{barrier[0]}[{barrier[1]}]"

    def _live(self, state: AgentState, step: Step) -> BarrierState | None:
        """The barrier of a step, if it is there for this agent."""
        barrier = step.barrier
        assert barrier is not None
        found = self.barriers.get(barrier)
        if found is None or not found.live:
            self.report("MB101", f"barrier {self._name(barrier)} is used and not initialised", step.line, fatal=True)
            return None
        agent, time = found.init
        if state.clock.get(("time", agent), 0) < time:
            self.report("MB104", f"barrier {self._name(barrier)} may not be initialised yet", step.line, found.line)
        return found

    def _init(self, state: AgentState, step: Step) -> None:
        barrier = step.barrier
        assert barrier is not None
        found = self.barriers.get(barrier)
        if not 1 <= step.value < 1 << 20:
            self.report("MB201", f"barrier {self._name(barrier)} counts {step.value} arrivals", step.line, fatal=True)
            return
        if found is None:
            self.barriers[barrier] = BarrierState(step.value, step.value, step.line, (state.who, state.time))
            return
        if found.live:
            message = f"barrier {self._name(barrier)} is initialised again"
            self.report("MB103", message, step.line, found.line, fatal=True)
            return
        found.count = found.pending = step.value
        found.base, found.live, found.line = found.done, True, step.line
        found.init = (state.who, state.time)

    def _inval(self, state: AgentState, step: Step) -> None:
        found = self._live(state, step)
        if found is None or step.barrier is None:
            return
        name = self._name(step.barrier)
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

    def _known(self, state: AgentState, found: BarrierState, barrier: Barrier) -> int:
        """How many phases the agent knows to be complete."""
        return max(state.clock.get(("phase", barrier), 0), found.base)

    def _wait(self, state: AgentState, step: Step) -> bool:
        found = self._live(state, step)
        barrier = step.barrier
        if found is None or barrier is None:
            return False
        if step.value not in (0, 1):
            self.report("MB212", f"parity {step.value} is waited for", step.line, fatal=True)
            return False
        known = self._known(state, found, barrier)
        target = known if (known - found.base) % 2 == step.value else known - 1
        if found.done >= target + 2:
            message = f"barrier {self._name(barrier)} may be a phase ahead of what is waited for"
            self.report("MB108", message, step.line, found.arrive_line, fatal=True)
            return False
        if found.done < target + 1:
            return False
        name = state.who
        state.time += 1
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
        if self._known(state, found, barrier) < found.done:
            self._early(state, found, step, "an arrival")
            return
        count = step.value if step.kind in ("arrive", "copy_arrive") else 0 if step.kind == "expect_only" else 1
        if count > found.pending:
            message = f"{count} arrivals come where {found.pending} of {found.count} are missing"
            self.report("MB106", f"barrier {self._name(barrier)}: {message}", step.line, found.line, fatal=True)
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
                learned["copy", state.word.agent] = state.copies
            case _:
                learned = state.clock
        join(found.gathering, learned)
        self._complete(barrier, found)

    def _early(self, state: AgentState, found: BarrierState, step: Step, what: str) -> None:
        """Something may count in the phase before: what explains it best?"""
        assert step.barrier is not None
        name = self._name(step.barrier)
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
        if self._known(state, found, barrier) < found.done:
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
            if wait.target == found.done - 1 and found.gathering.get(("time", wait.agent), 0) < wait.time:
                message = f"barrier {self._name(barrier)} may end the next phase before this wait sees the one it means"
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
        clock = state.clock
        name = state.word.agent
        kept: list[Record] = []
        for record in records:
            touches = _overlap(record.region, region)
            if touches and (writes or record.writes) and clock.get(record.track, 0) < record.value:
                in_order = kind == record.kind == "mma" and record.agent == name
                if not in_order:
                    self._conflict(record, region, writes, kind, name, step)
            elif touches and self._lacks_fence(record, kind, clock):
                message = f"{region.allocation}: an engine uses bytes that threads wrote, with no proxy fence"
                self.report("PX101", message, step.line, record.line)
            replaced = touches and _covers(region, record.region)
            if replaced and (writes or (not record.writes and record.track == track)):
                continue
            kept.append(record)
        kept.append(Record(region, writes, kind, name, track, value, step.line))
        self.records[region.allocation] = kept

    def _lacks_fence(self, record: Record, kind: str, clock: Clock) -> bool:
        """Does an engine use what threads wrote, and who issues it knows of no proxy fence after the writes?"""
        if not self.by_threads or not record.writes or record.kind != "thread" or kind not in _ENGINES:
            return False
        return clock.get(("fence", record.agent), 0) < record.value

    def _conflict(self, record: Record, region: Region, writes: bool, kind: str, name: str, step: Step) -> None:
        code, words = _conflict_code(record, region, writes, kind, name, step)
        message = f"{region.allocation}: {words}"
        self.report(code, message, step.line, record.line, exact=region.exact and record.region.exact)

    # ------------------------------------------------------------ ends

    def _at_end(self, state: AgentState) -> None:
        """An agent is done: what it started must be done, or waited for by somebody."""
        name = state.word.agent
        clock = {**state.clock}
        join(clock, state.elected)
        if clock.get(("dot", name), 0) < state.dots:
            self.report("WG103", "a wgmma may be in flight when its warps end", state.lines["dot"])
        if state.stores_committed < state.stores:
            self.report("BG101", "a store is in no committed group when its warps end", state.lines["store"])
        elif clock.get(("read by store", name), 0) < state.stores:
            message = "a store may still read shared memory when the warps that issued it end"
            self.report("BG102", message, state.lines["store"])
        if state.committed < state.mmas:
            self.report("TC114", "no commit follows a tensor-core operation", state.lines["mma"])

    def _at_exit(self) -> None:
        """The kernel is done: nothing may be in flight, no phase half complete."""
        last: Clock = {}
        for state in self.agents.values():
            join(last, state.clock)
            join(last, state.elected)
        for barrier, found in self.barriers.items():
            if found.live and (found.pending != found.count or found.bytes):
                code = "TX101" if found.pending == found.count else "MB110"
                message = f"barrier {self._name(barrier)} is left in the middle of a phase"
                self.report(code, message, found.expect_line or found.arrive_line)
        for records in self.records.values():
            for record in records:
                if last.get(record.track, 0) >= record.value:
                    continue
                match record.kind:
                    case "load":
                        self.report("TM103", "nobody waits for this copy before the kernel ends", record.line)
                    case "copy":
                        self.report("BG104", "nobody waits for this cp.async before the kernel ends", record.line)
                    case "mma":
                        self.report("TC119", "nobody waits for the commit of this operation", record.line)
                    case _:
                        pass

    def _deadlock(self) -> None:
        """Nobody can move: the wait whose barrier lacks what nobody can bring explains it best."""
        causes: list[tuple[int, str, str, int, int]] = []
        told: list[str] = []
        for name, state in self.agents.items():
            if not state.running or state.done:
                continue
            step = state.word.steps[state.position]
            if step.barrier is None or step.kind != "wait":
                continue
            found = self.barriers[step.barrier]
            at = self._name(step.barrier)
            told.append(f"{name} waits at line {step.line} for barrier {at}, parity {step.value}")
            causes.append(self._cause(state, step, found))
        code, message, line, other = "LV102", "agents wait for each other", 0, 0
        if causes:
            _, code, message, line, other = min(causes)
        self.troubles.setdefault((code, line), Trouble(code, message, line, other, tuple(told)))

    def _cause(self, state: AgentState, step: Step, found: BarrierState) -> tuple[int, str, str, int, int]:
        barrier = step.barrier
        assert barrier is not None
        at = f"barrier {self._name(barrier)}"
        if not found.pending and found.bytes:
            off = f"{abs(found.bytes)} {'more' if found.bytes > 0 else 'fewer'}"
            message = f"{at} expects {off} bytes than the phase's copies bring: the wait never ends"
            return 0, "TX104", message, found.expect_line, step.line
        coming = [
            other.word.agent
            for other in self.agents.values()
            if not other.done and any(_signals(later, barrier) for later in other.word.steps[other.position :])
        ]
        missing = f"{found.pending} of {found.count} arrivals of its phase"
        if found.bytes < 0:
            return (
                1,
                "TX104",
                f"{at} is brought bytes that nobody expects; the wait never ends",
                found.load_line,
                step.line,
            )
        if not coming:
            return 2, "MB113", f"{at} lacks {missing}, which nobody brings: the wait never ends", step.line, found.line
        if found.pending != found.count:
            return 3, "MB113", f"{at} lacks {missing}: the wait never ends", step.line, found.line
        if self._known(state, found, barrier) == found.base and step.value == 0:
            filler = _fills_after(state)
            message = f"the wait at {at} is for a phase that only follows what comes after it"
            return (4 if filler else 5), "MB114", message, step.line, found.line
        return 6, "LV102", f"the wait at {at} is for agents that wait themselves", step.line, found.arrive_line


def _waited(groups: list[int], pending: int) -> tuple[int, list[int]]:
    """Up to which operation all are done where `pending` groups may be in flight (0: nothing new), and those groups."""
    if pending >= len(groups):
        return 0, groups
    return groups[len(groups) - 1 - pending], groups[len(groups) - pending :] if pending else []


def _signals(step: Step, barrier: Barrier) -> bool:
    return step.barrier == barrier and step.kind in ("arrive", "expect", "commit", "copy_arrive")


def _fills_after(state: AgentState) -> bool:
    """Is the next thing that the agent does after its wait a copy or an operation of its own?"""
    for step in state.word.steps[state.position + 1 : state.position + 6]:
        if step.kind in ("load", "expect", "mma", "copy"):
            return True
        if step.kind == "wait":
            return False
    return False


def _overlap(one: Region, other: Region) -> bool:
    return all(a[0] < b[1] and b[0] < a[1] for a, b in zip(one.box, other.box, strict=True))


def _covers(one: Region, other: Region) -> bool:
    """Is all of `other` in `one`?"""
    if not one.exact and one.box != other.box:
        return False
    return all(a[0] <= b[0] and b[1] <= a[1] for a, b in zip(one.box, other.box, strict=True))


def _conflict_code(record: Record, region: Region, writes: bool, kind: str, name: str, step: Step) -> tuple[str, str]:
    """The rule that two unordered accesses break, and what happens."""
    freed = step.kind == "free"
    match record.kind:
        case "load":
            if kind == "load":
                return "TM102", "two copies write the same bytes and nothing orders them"
            return "MB111", "bytes of a copy are used before the phase that reports them"
        case "dot":
            return "WG105", "shared memory is overwritten while a wgmma may still read it"
        case "mma" if region.tensor:
            if freed:
                return "TC103", "tensor memory is given up while an operation may still use it"
            if kind == "mma" and record.agent != name:
                return "TC118", "two agents' operations use the same tensor memory and nothing orders them"
            return "TC107", "the result of a tensor-core operation is touched before it is complete"
        case "mma":
            return "TC110", "shared memory is overwritten while a tensor-core operation may still read it"
        case "store":
            return "BG103", "bytes of a bulk store are overwritten before it has read them"
        case "copy":
            return "BG105", "bytes of a cp.async are used before it is waited for"
        case _:
            if region.tensor:
                return "TC118", "two agents use the same tensor memory and nothing orders them"
            if kind == "thread":
                return "NB101", f"{name} and {record.agent} use the same bytes and nothing orders them"
            verb = "overwrites" if writes else "reads"
            return "TM101", f"an engine {verb} bytes that {record.agent} may still use"
