"""What did a run do, in numbers that a proof's claims can be compared with?

A tally watches the same events as the judge and only counts: phases, arrivals and bytes of every barrier, slots that
copies fill, bulk stores, registers. It knows no rule, and nothing of who wrote the kernel; `differences` says where a
run departs from `ProtocolClaims`. Shared addresses are compared up to one shift for the whole kernel, since dynamic
shared memory need not begin at offset 0, and the trip count "tiles" is each CTA's own, since a persistent grid need not
divide evenly. Checked by: tests/contract/replay/test_replay.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tilewright.contract.history.byte_ranges import joined
from tilewright.contract.typestate.claims import FoldClaim, ProductClaim, ProtocolClaims, RingClaim, TurnClaim
from tilewright.machine.core.event import (
    AsyncCopyArrive,
    AsyncCopyArriveIssue,
    AsyncCopyIssue,
    BarrierArrive,
    BarrierComplete,
    BarrierExpect,
    BarrierInit,
    CommitArrive,
    CopyIssue,
    Event,
    PhaseEnd,
    Range,
    RegisterBudget,
    WarpActor,
)

_TILES = "tiles"
_WARP_THREADS = 32


@dataclass(slots=True)
class BarrierTally:
    """One mbarrier. arrivals and bytes: how many in each phase, but for those with none; ranges: bytes that its copies
    wrote, in any phase; by_threads: those of them that threads copied, by the phase in which their deferred arrivals
    counted."""

    count: int = 0
    phases: int = 0
    arrivals: dict[int, int] = field(default_factory=lambda: {})
    expected_bytes: dict[int, int] = field(default_factory=lambda: {})
    completed_bytes: dict[int, int] = field(default_factory=lambda: {})
    ranges: set[Range] = field(default_factory=set[Range])
    by_threads: dict[int, set[Range]] = field(default_factory=lambda: {})


@dataclass(slots=True)
class CtaTally:
    """One CTA: its mbarriers by address, sizes of the bulk stores of each warp, last setmaxnreg of each warp."""

    barriers: dict[int, BarrierTally] = field(default_factory=dict[int, BarrierTally])
    stores: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    registers: dict[int, int] = field(default_factory=dict[int, int])

    def barrier(self, address: int) -> BarrierTally:
        found = self.barriers.get(address)
        if found is None:
            found = self.barriers[address] = BarrierTally()
        return found


class Tally:
    """Counts the events of a launch. Feed it every event, or those of the kinds that `handlers` take to these."""

    def __init__(self) -> None:
        self.ctas: dict[int, CtaTally] = {}
        self._barriers: dict[tuple[int, int], BarrierTally] = {}
        self._copied: dict[WarpActor, set[Range]] = {}
        self._deferred: dict[tuple[WarpActor, int], set[Range]] = {}
        self.handlers: dict[type, Callable[[Any], None]] = {
            BarrierInit: self._init,
            BarrierArrive: self._arrive,
            CommitArrive: self._commit_arrive,
            BarrierExpect: self._expect,
            BarrierComplete: self._complete,
            PhaseEnd: self._phase_end,
            CopyIssue: self._copy,
            AsyncCopyIssue: self._thread_copy,
            AsyncCopyArriveIssue: self._defer,
            AsyncCopyArrive: self._deferred_arrive,
            RegisterBudget: self._registers,
        }

    def feed(self, event: Event) -> None:
        """Count an event."""
        counter = self.handlers.get(type(event))
        if counter is not None:
            counter(event)

    def cta(self, cta: int) -> CtaTally:
        found = self.ctas.get(cta)
        if found is None:
            found = self.ctas[cta] = CtaTally()
        return found

    def _barrier(self, cta: int, address: int) -> BarrierTally:
        found = self._barriers.get((cta, address))
        if found is None:
            found = self._barriers[cta, address] = self.cta(cta).barrier(address)
        return found

    def _init(self, event: BarrierInit) -> None:
        self._barrier(event.cta, event.address).count = event.count

    def _arrive(self, event: BarrierArrive) -> None:
        barrier = self._barrier(event.cta, event.address)
        _add(barrier.arrivals, event.phase, event.count)
        if event.expect_bytes:
            _add(barrier.expected_bytes, event.phase, event.expect_bytes)

    def _commit_arrive(self, event: CommitArrive) -> None:
        """By the tensor core, for the products of a commit."""
        _add(self._barrier(event.cta, event.address).arrivals, event.phase, 1)

    def _expect(self, event: BarrierExpect) -> None:
        _add(self._barrier(event.cta, event.address).expected_bytes, event.phase, event.expect_bytes)

    def _complete(self, event: BarrierComplete) -> None:
        _add(self._barrier(event.cta, event.address).completed_bytes, event.phase, event.bytes)

    def _phase_end(self, event: PhaseEnd) -> None:
        self._barrier(event.cta, event.address).phases += 1

    def _copy(self, event: CopyIssue) -> None:
        if event.direction == "store":
            self.cta(event.actor.cta).stores.setdefault(event.actor.warp, []).append(event.bytes)
        elif event.barrier_address is not None:
            # Noted where the bytes go, also where the barrier is that of the pair's other CTA.
            for cta in event.destinations:
                self._barrier(cta, event.barrier_address).ranges.update(event.shared)

    def _thread_copy(self, event: AsyncCopyIssue) -> None:
        self._copied.setdefault(event.actor, set()).update(event.shared)

    def _defer(self, event: AsyncCopyArriveIssue) -> None:
        """What a warp has copied since its last deferred arrival belongs to this one."""
        self._deferred[event.actor, event.arrival] = self._copied.pop(event.actor, set())

    def _deferred_arrive(self, event: AsyncCopyArrive) -> None:
        barrier = self._barrier(event.cta, event.address)
        if event.no_increment:
            _add(barrier.arrivals, event.phase, event.count)
        copied = self._deferred.get((event.actor, event.arrival), set())
        barrier.ranges.update(copied)
        barrier.by_threads.setdefault(event.phase, set()).update(copied)

    def _registers(self, event: RegisterBudget) -> None:
        actor: WarpActor = event.actor
        self.cta(actor.cta).registers[actor.warp] = event.registers


def _add(counts: dict[int, int], phase: int, number: int) -> None:
    counts[phase] = counts.get(phase, 0) + number


def differences(tally: Tally, claims: ProtocolClaims, ctas: int) -> tuple[str, ...]:
    """Where a run of `ctas` CTAs departs from what was proven, one line each."""
    found: list[str] = []
    symbols = dict(claims.symbols)
    most_tiles = 0
    claimed = sorted(
        [
            *(address for ring in claims.rings for address in (*ring.full_addresses, *ring.empty_addresses)),
            *(address for turns in claims.turns for address in turns.addresses),
            *(claims.products.addresses if claims.products is not None else ()),
            *(fold.address for fold in claims.folds),
        ]
    )
    totals: dict[str, int] = {}
    # Where the hardware hands tiles out, a CTA whose tile another has taken never begins.
    begun = [number for number in range(ctas) if not claims.handed or number in tally.ctas]
    for number in begun:
        where, cta = f"CTA {number}", tally.cta(number)
        seen = sorted(cta.barriers)
        shift = seen[0] - claimed[0] if seen and claimed else 0
        if [address - shift for address in seen] != claimed:
            found.append(f"{where}: mbarriers at {seen}, claimed are {claimed} (up to a shift)")
            continue
        if claims.stream is not None:
            symbols.update(claims.stream.symbols(number))
        ranged = {} if claims.range is None else claims.range.symbols(number)
        if claims.handed:
            ranged = _handed(cta, claims, shift, symbols)
            totals = {name: totals.get(name, 0) + count for name, count in ranged.items()}
        tiles = _tiles(cta, claims, shift, symbols | ranged)
        if tiles is None:
            found.append(f"{where}: no number of tiles explains how often its rings are filled")
            continue
        most_tiles = max(most_tiles, tiles)
        own = {**symbols, **ranged, _TILES: tiles} if _TILES in symbols else symbols
        # CTAs are numbered along z last, along which a grid is as long as its clusters.
        rank = number // max(1, ctas // claims.cluster_ctas)
        for ring in claims.rings:
            # Of a pair, which stands along x.
            second = bool(ring.led) and number % 2 == 1
            lines = _ring(cta, ring.of_rank(rank), shift, own, ring.led if second else "")
            found.extend(f"{where}: ring {ring.name}: {line}" for line in lines)
        if claims.products is not None:
            found.extend(f"{where}: {line}" for line in _products(cta, claims.products, shift, own))
        for turns in claims.turns:
            found.extend(f"{where}: {line}" for line in _turns(cta, turns, shift, own))
        for fold in claims.folds:
            found.extend(f"{where}: {line}" for line in _fold(cta, fold, shift))
        found.extend(f"{where}: {line}" for line in (*_stores(cta, claims, own), *_roles(cta, claims)))
    if claims.handed:
        found += (
            [] if found or totals == _in_all(claims) else [f"all CTAs together have {totals}, not {_in_all(claims)}"]
        )
    elif not found and most_tiles != symbols.get(_TILES, 0):
        found.append(f"no CTA has more than {most_tiles} tiles, claimed are up to {symbols[_TILES]}")
    return tuple(found)


def _fills(cta: CtaTally, ring: RingClaim, shift: int) -> int:
    return sum(cta.barriers[address + shift].phases for address in ring.counted_addresses)


def _in_all(claims: ProtocolClaims) -> dict[str, int]:
    """Of tiles that the hardware hands out: how many, and their iterations together, where each has its own number."""
    ranged = {} if claims.range is None else {claims.range.all_symbol: sum(claims.range.lengths)}
    return {_TILES: claims.handed, **ranged}


def _handed(cta: CtaTally, claims: ProtocolClaims, shift: int, symbols: Mapping[str, int]) -> dict[str, int]:
    """How many tiles a CTA was given, and their iterations, as its rings say; none where these do not agree."""
    most = _in_all(claims)
    for numbers in product(*(range(1, each + 1) for each in most.values())):
        own = dict(zip(most, numbers, strict=True))
        if all(_fills(cta, ring, shift) == ring.fills.at({**symbols, **own}) for ring in claims.rings):
            return own
    return dict.fromkeys(most, 0)


def _tiles(cta: CtaTally, claims: ProtocolClaims, shift: int, symbols: Mapping[str, int]) -> int | None:
    """How many tiles the CTA has, by its rings: at most as many as claimed for a CTA."""
    most = symbols.get(_TILES)
    if most is None or not claims.rings:
        most = most or 0
        return most if all(_fills(cta, r, shift) == r.fills.at(symbols) for r in claims.rings) else None
    for tiles in range(most, -1, -1) if claims.range is None else (most,):
        own = {**symbols, _TILES: tiles}
        if all(_fills(cta, ring, shift) == ring.fills.at(own) for ring in claims.rings):
            return tiles
    return None


def _ring(cta: CtaTally, ring: RingClaim, shift: int, symbols: Mapping[str, int], idle: str) -> list[str]:
    """idle: the side whose barriers nobody signals in this CTA."""
    found: list[str] = []
    for stage in range(ring.stages):
        full = cta.barriers[ring.full_addresses[stage] + shift]
        empty = cta.barriers[ring.empty_addresses[stage] + shift]
        phases = ring.phases(stage, symbols)
        of_cta = phases
        for side, barrier, arrivals in (("full", full, ring.full_arrivals), ("empty", empty, ring.empty_arrivals)):
            phases = 0 if side == idle else of_cta
            if barrier.count != arrivals:
                found.append(f"{side} barrier {stage} is initialised with {barrier.count}, claimed is {arrivals}")
            if barrier.phases != phases:
                found.append(f"{side} barrier {stage} completes {barrier.phases} phases, claimed are {phases}")
            counts = {barrier.arrivals.get(phase, 0) for phase in range(phases)}
            if side == idle and barrier.arrivals:
                found.append(f"{side} barrier {stage} takes arrivals, claimed are none")
            if counts - {arrivals}:
                found.append(f"{side} barrier {stage} takes {sorted(counts)} arrivals a phase, claimed are {arrivals}")
        phases = 0 if idle == "full" else of_cta
        for what, counter in (("expects", full.expected_bytes), ("receives", full.completed_bytes)):
            amounts = {counter.get(phase, 0) for phase in range(phases)}
            if amounts - {ring.transaction_bytes}:
                found.append(
                    f"full barrier {stage} {what} {sorted(amounts)} bytes a phase, claimed are {ring.transaction_bytes}"
                )
        slot = joined({(begin + shift, end + shift) for begin, end in ring.slot_ranges[stage]})
        written = joined(full.ranges)
        if of_cta and written != slot:
            found.append(f"copies for slot {stage} write {written}, claimed are {slot}")
        # No transaction counts what threads copy, so that each phase brings all of it is seen here.
        shares = {joined(full.by_threads.get(phase, set())) for phase in range(phases)}
        if len(shares) > 1:
            found.append(f"threads copy to {len(shares)} different sets of bytes of slot {stage}, phase by phase")
    return found


def _products(cta: CtaTally, products: ProductClaim, shift: int, symbols: Mapping[str, int]) -> list[str]:
    found: list[str] = []
    phases = products.waits.at(symbols)
    for unit, address in enumerate(products.addresses):
        barrier = cta.barriers[address + shift]
        if barrier.count != 1:
            found.append(f"unit {unit}'s barrier of products is initialised with {barrier.count}, claimed is 1")
        if barrier.phases != phases:
            found.append(f"unit {unit}'s barrier of products completes {barrier.phases} phases, claimed are {phases}")
        if any(barrier.expected_bytes.get(phase, 0) for phase in range(phases)):
            found.append(f"unit {unit}'s barrier of products expects bytes")
    return found


def _turns(cta: CtaTally, turns: TurnClaim, shift: int, symbols: Mapping[str, int]) -> list[str]:
    found: list[str] = []
    for unit, address in enumerate(turns.addresses):
        barrier, phases = cta.barriers[address + shift], turns.phases(unit, symbols)
        if barrier.count != 1:
            found.append(f"unit {unit}'s barrier of turns is initialised with {barrier.count}, claimed is 1")
        if barrier.phases != phases:
            found.append(f"unit {unit}'s barrier of turns completes {barrier.phases} phases, claimed are {phases}")
        if any(barrier.expected_bytes.get(phase, 0) for phase in range(phases)):
            found.append(f"unit {unit}'s barrier of turns expects bytes")
    return found


def _fold(cta: CtaTally, fold: FoldClaim, shift: int) -> list[str]:
    found: list[str] = []
    barrier, (begin, end) = cta.barriers[fold.address + shift], fold.range
    seen = (barrier.count, barrier.phases, barrier.arrivals.get(0, 0))
    if seen != (1, 1, 1):
        found.append(f"a fold's barrier has count, phases and arrivals {seen}, claimed are 1 each")
    for what, counter in (("expects", barrier.expected_bytes), ("receives", barrier.completed_bytes)):
        if counter.get(0, 0) != end - begin:
            found.append(f"a fold's barrier {what} {counter.get(0, 0)} bytes, claimed are {end - begin}")
    if joined(barrier.ranges) != ((begin + shift, end + shift),):
        found.append(f"words of a fold are written at {joined(barrier.ranges)}, claimed are {fold.range}")
    return found


def _stores(cta: CtaTally, claims: ProtocolClaims, symbols: Mapping[str, int]) -> list[str]:
    found: list[str] = []
    for role in claims.roles:
        mine = [store for store in claims.stores if store.role == role.name]
        first, last = role.first_thread // _WARP_THREADS, (role.first_thread + role.threads - 1) // _WARP_THREADS
        seen = [size for warp, sizes in cta.stores.items() if first <= warp <= last for size in sizes]
        units = max(1, role.threads // 128) if role.unit == "warpgroup128" and not role.takes_turns else 1
        count = units * sum(store.stores.at(symbols) for store in mine)
        if len(seen) != count:
            found.append(f"role {role.name} issues {len(seen)} bulk stores, claimed are {count}")
        sizes = {size for store in mine for size in store.store_bytes}
        if set(seen) - sizes:
            found.append(f"role {role.name} stores {sorted(set(seen))} bytes at a time, claimed are {sorted(sizes)}")
    return found


def _roles(cta: CtaTally, claims: ProtocolClaims) -> list[str]:
    found: list[str] = []
    for role in claims.roles:
        if not role.registers:
            continue
        first, last = role.first_thread // _WARP_THREADS, (role.first_thread + role.threads - 1) // _WARP_THREADS
        for warp in range(first, last + 1):
            registers = cta.registers.get(warp)
            if registers != role.registers:
                found.append(f"warp {warp} of role {role.name} has {registers} registers, claimed are {role.registers}")
    return found
