"""Which registers and shared bytes hold unknown data now, in one running protocol run?

Registers are tracked whole, by warp; shared memory byte by byte, and only if the kernel's protocol depends on a load
from it. The machine's own events say what an instruction accessed, so no handler knows of taint. Local memory is
tracked by byte and thread (`taint.local`). What a step reads is taken from the decoder, which sees every operand.

A load that matters and meets bytes whose stored data was left out of the slice stops a rehearsal with `ReadBack`: the
caller takes these stores into the slice and starts again. Source: as `taint`. Not handled: single lanes; tainted
barriers' objects. Checked by: tests/machine/protocol/test_protocol_run.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.core.distinct import distinct
from tilewright.machine.core.event import (
    Access,
    AsyncCopyIssue,
    BarrierPeek,
    BarrierWait,
    CopyActor,
    CopyIssue,
    Event,
    WarpActor,
)
from tilewright.machine.core.lanes import Lanes
from tilewright.machine.core.memory import GlobalMemory
from tilewright.machine.core.state import Cluster, Cta, Warp
from tilewright.machine.taint.local import LocalAccess, LocalShadow
from tilewright.machine.taint.taint import KNOWN, Origin, Sources, TaintedDecision, What

if TYPE_CHECKING:
    from tilewright.machine.protocol.peeked_outcomes import PeekedOutcomes
    from tilewright.machine.protocol.same_loads import SameLoads
    from tilewright.machine.protocol.value_identity import ValueIdentities
    from tilewright.machine.symbolic.tracker import SymbolicRun
    from tilewright.machine.taint.addresses import UnknownAddresses

SPIN_LIMIT = 4
"""Turns of a loop that polls unknown data, after which the run goes on as if the data had come."""

_NOTED = frozenset({Access, CopyIssue, AsyncCopyIssue, BarrierPeek, BarrierWait})
_CLEAN = 0
_NEVER_WRITTEN = 1
_FIRST = 2


class ReadBack(Exception):
    """The slice reads back data of stores (positions) that it left out."""

    def __init__(self, positions: frozenset[int]) -> None:
        super().__init__(f"stores {sorted(positions)} are read back")
        self.positions = positions


@dataclass(slots=True, eq=False)
class WarpTaint:
    """registers: origins by slot, absent where known; local: origin of what decides whether, or where, a store went to
    local memory; polls: iterations that a warp stayed in a loop because of a tainted branch, by its position."""

    registers: dict[int, Origin] = field(default_factory=dict[int, Origin])
    local: Origin = KNOWN
    polls: dict[int, int] = field(default_factory=dict[int, int])


class Tracker:
    """The taint of one run. `observe` is the run's observer; it passes every event on to `forward`.

    shadowed: whether shared memory is tracked; known: (begin, end) addresses of global buffers with known contents, as
    long as the kernel does not write to them. uncertain: the step now running may not happen, or elsewhere; astray:
    where its global addresses come from, if they are unknown; seen, local_seen: what it accessed; issued: bulk copies
    that it issued. answered:
    requests for work whose answers are given. addresses: who uses which buffer, where that matters. identities: of
    what is stored, where that is asked; outcomes: of peeks, where there are
    some. rehearsing: data left out of the slice raises `ReadBack`; else it is unknown.
    """

    def __init__(
        self, forward: Callable[[Event], None], sources: Sources, shadowed: bool, known: list[tuple[int, int]],
        *, rehearsing: bool,
    ) -> None:  # fmt: skip
        self.forward = forward
        self.sources = sources
        self.shadowed = shadowed
        self.known = known
        self.rehearsing = rehearsing
        self.decisions: dict[tuple[Span, What], Origin] = {}
        self.branch_origins: dict[int, Origin] = {}
        self.seen: list[Access] | None = None
        self.local_seen: list[LocalAccess] | None = None
        self.local = LocalShadow(_NEVER_WRITTEN)
        self.uncertain = False
        self._warps: dict[int, WarpTaint] = {}
        self._shadows: dict[int, npt.NDArray[np.int32]] = {}
        self._ids: dict[Origin | int, int] = {}
        self._contents: list[Origin | int] = []
        self.astray: Origin = KNOWN
        self.answered: frozenset[Span] = frozenset()
        self.addresses: UnknownAddresses | None = None
        self.identities: ValueIdentities | SameLoads | None = None
        self.outcomes: PeekedOutcomes | None = None
        self.issued: list[CopyActor] | None = None
        self._uncertain_copies: dict[CopyActor, Origin] = {}
        self._carried: dict[CopyActor, int] = {}
        self._known_copies: set[CopyActor] = set()
        # Follows how the run depends on the inputs of its launch, if anything does.
        self.symbolic: SymbolicRun | None = None
        self.memory: GlobalMemory | None = None

    def start(self, cluster: Cluster) -> None:
        """Begin a cluster: registers are known, shared memory was never written."""
        self.memory = cluster.memory
        self._warps.clear()
        self._shadows.clear()
        self._carried.clear()
        self.local.clear()
        if self.identities is not None:
            self.identities.start(cluster)
        if self.outcomes is not None:
            self.outcomes.start()
        if self.shadowed:
            cluster.observe_local = self._local_access
            for cta in cluster.ctas:
                self._shadows[cta.linear] = np.full(cta.shared.size_bytes, _NEVER_WRITTEN, np.int32)

    def of(self, warp: Warp) -> WarpTaint:
        key = id(warp)
        found = self._warps.get(key)
        if found is None:
            found = self._warps[key] = WarpTaint()
        return found

    def all_known(self, warp: Warp) -> bool:
        """Whether nothing that is unknown reaches any register of a warp, and no branch has depended on it."""
        return not self.branch_origins and not self.of(warp).registers

    def forget(self, warp: Warp, slots: Sequence[int]) -> None:
        """These registers now hold what the launch gives."""
        registers = self.of(warp).registers
        for slot in slots:
            registers.pop(slot, None)

    def decide(self, span: Span, what: What, origin: Origin) -> None:
        """Note a choice that depends on unknown data."""
        key = (span, what)
        self.decisions[key] = self.decisions.get(key, KNOWN) | origin

    def report(self) -> tuple[TaintedDecision, ...]:
        """All choices noted, by place."""
        if self.addresses is not None:
            for span, origin in self.addresses.meetings():
                self.decide(span, "global address", origin)
        ordered = sorted(self.decisions.items(), key=lambda item: (item[0][0].line, item[0][0].column, item[0][1]))
        return tuple(TaintedDecision(span, what, self.sources.of(origin)) for (span, what), origin in ordered)

    def identity(self, content: Origin | int) -> int:
        """The number that stands in shadow memory for an origin, or for the data of a store left out (a position)."""
        if content == KNOWN:
            return _CLEAN
        found = self._ids.get(content)
        if found is None:
            found = self._ids[content] = _FIRST + len(self._contents)
            self._contents.append(content)
        return found

    def observe(self, event: Event) -> None:
        """Take note of an event and pass it on."""
        if type(event) in _NOTED:  # most are not
            match event:
                case Access():
                    event = self._access(event)
                case CopyIssue(copy=copy) | AsyncCopyIssue(copy=copy):
                    if self.uncertain:
                        self._uncertain_copies[copy] = self.astray
                    if self.issued is not None:
                        self.issued.append(copy)
                    if self.symbolic is not None and self.symbolic.copies is not None:
                        self.symbolic.copies.append(copy)
                case BarrierPeek() | BarrierWait() if self.outcomes is not None:
                    self.outcomes.note(event)
                case _:
                    pass
        self.forward(event)

    def _access(self, event: Access) -> Access:
        if self.identities is not None:
            event = self.identities.note(event)
        if self.seen is not None:
            self.seen.append(event)
        symbolic = self.symbolic
        if symbolic is not None:
            if symbolic.seen is not None:
                symbolic.seen.append(event)
            if isinstance(event.actor, CopyActor) and event.write and event.space == "shared":
                symbolic.copied(event)
            if event.write and event.space == "global" and event.ranges and self.memory is not None:
                region = self.memory.find(event.ranges[0][0])
                symbolic.wrote(event, region.name if region is not None else "")
        if self.known and event.write and event.space == "global":
            self._forget(event)
        if self.addresses is not None and event.space == "global":
            copy = event.actor if isinstance(event.actor, CopyActor) else None
            self.addresses.note(event, self.astray if copy is None else self._uncertain_copies.get(copy, KNOWN))
        if isinstance(event.actor, CopyActor):
            self._copy_access(event, event.actor)
            if event.actor in self._uncertain_copies and event.space == "global":
                return replace(event, uncertain=True)
            return event
        if event.write and event.space == "shared" and self.seen is None and isinstance(event.actor, WarpActor):
            self._mark(event, _CLEAN)  # what a step accesses whose data may be unknown is marked after it
        return replace(event, uncertain=True) if self.uncertain else event

    def _local_access(self, cta: Cta, offsets: Lanes, size_bytes: int, write: bool) -> None:
        access = self.local.access(cta, offsets, size_bytes, write)
        if self.local_seen is not None:
            self.local_seen.append(access)
        if self.symbolic is not None and self.symbolic.local_seen is not None:
            self.symbolic.local_seen.append(access)
        if write:
            self.local.mark(access, _CLEAN)

    def _forget(self, event: Access) -> None:
        """What the kernel writes has zeros in place of data: the buffer is no longer known."""
        self.known[:] = [
            (low, high)
            for low, high in self.known
            if not any(begin < high and low < end for begin, end in event.ranges)
        ]

    def _copy_access(self, event: Access, copy: CopyActor) -> None:
        if not self.shadowed:
            return
        if event.space == "global" and not event.write:
            if all(any(low <= begin and end <= high for low, high in self.known) for begin, end in event.ranges):
                self._known_copies.add(copy)
            return
        if event.space == "shared" and event.write:
            number = self._carried.pop(copy, None)
            if number is None:
                known = copy in self._known_copies or event.span in self.answered
                number = self.identity(KNOWN if known else self.sources.origin(event.span, "data that a copy brought"))
            self._mark(event, number)

    def carry(self, copies: list[CopyActor], number: int) -> None:
        """Give what these copies will write, the values of a register, the number of an origin."""
        self._carried.update(dict.fromkeys(copies, number))

    def mark(self, seen: list[Access], local: list[LocalAccess], number: int) -> None:
        """Give what these accesses wrote to shared and local memory the number of an origin."""
        for access in seen:
            if access.write and access.space == "shared":
                self._mark(access, number)
        for each in local:
            if each.write:
                self.local.mark(each, number)

    def _mark(self, event: Access, number: int) -> None:
        shadow = self._shadows.get(event.cta)
        if shadow is not None:
            for begin, end in event.ranges:
                shadow[begin:end] = number

    def loaded(self, span: Span, seen: list[Access], local: list[LocalAccess], *, decides: bool) -> Origin:
        """The origin of what a load's accesses read. Raises ReadBack where stored data was left out of the slice, and
        the load decides something."""
        found: Origin = KNOWN
        left_out: set[int] = set()
        for access in seen:
            if access.write:
                continue
            if access.space == "global":
                for begin, end in access.ranges:
                    if not any(low <= begin and end <= high for low, high in self.known):
                        found |= self.sources.origin(span, "data in global memory")
                continue
            shadow = self._shadows.get(access.cta)
            if shadow is None:
                found |= self.sources.origin(span, "data in shared memory")
                continue
            for begin, end in access.ranges:
                numbers: list[int] = distinct(shadow[begin:end]).tolist()
                found |= self._held(numbers, span, "shared", left_out)
        for each in local:
            if not each.write:
                found |= self._held(self.local.numbers(each), span, "local", left_out)
        if left_out and decides and self.rehearsing:
            raise ReadBack(frozenset(left_out))
        if left_out:
            found |= self.sources.origin(span, "data whose computation this run leaves out")
        return found

    def _held(self, numbers: list[int], span: Span, space: str, left_out: set[int]) -> Origin:
        """The origin of bytes with such numbers; stores whose data the slice leaves out are added to `left_out`."""
        found: Origin = KNOWN
        for number in numbers:
            if number == _NEVER_WRITTEN:
                found |= self.sources.origin(span, f"{space} memory that nobody had written")
            elif number >= _FIRST:
                content = self._contents[number - _FIRST]
                if isinstance(content, int):
                    left_out.add(content)
                else:
                    found |= content
        return found
