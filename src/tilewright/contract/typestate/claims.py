"""What does a proven program promise, in numbers that a run can be compared with?

The typestate proof talks about tokens; an independent check of the emitted text sees addresses, counts and bytes.
Claims are the bridge: every number here follows from the proven program and can be read off an event stream as well.
Counts are polynomials in the program's symbols (`claim.fills.at({"K": 64, "tiles": 3})`).

Checked by: tests/contract/typestate/test_typestate.py; the comparison with a run is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.base.plural import counted
from tilewright.contract.typestate.polynomial import Monomial, Polynomial
from tilewright.ir.tile.order import taken


@dataclass(frozen=True, slots=True)
class RingClaim:
    """One ring in one CTA.

    full_addresses and empty_addresses: byte offsets in dynamic shared memory, one per stage. full_arrivals and
    empty_arrivals: arrivals that complete one phase, from all CTAs of the cluster. transaction_bytes: bytes that each
    phase of a full barrier expects and receives. fills: slots filled in the CTA's life. slot_ranges: for each stage,
    the half-open byte ranges that its copies write. receivers: how many of a cluster's CTAs, the first along z, are
    sent anything at all (None: each). led: the side, "full" or "empty", on which only barriers of the first CTA of a
    pair are signalled, by both CTAs; "" where each CTA has its own.
    """

    name: str
    stages: int
    full_addresses: tuple[int, ...]
    empty_addresses: tuple[int, ...]
    full_arrivals: int
    empty_arrivals: int
    transaction_bytes: int
    fills: Polynomial
    slot_ranges: tuple[tuple[tuple[int, int], ...], ...]
    receivers: int | None = None
    led: str = ""

    @property
    def counted_addresses(self) -> tuple[int, ...]:
        """Of the barriers by whose phases slots are counted: those that every CTA has."""
        return self.empty_addresses if self.led == "full" else self.full_addresses

    def of_rank(self, rank: int) -> RingClaim:
        """What is claimed of the CTA at that place along z of its cluster."""
        if self.receivers is None or rank < self.receivers:
            return self
        return replace(self, transaction_bytes=0, slot_ranges=((),) * self.stages)

    def phases(self, stage: int, symbols: Mapping[str, int]) -> int:
        """Phases that full[stage], and empty[stage] alike, complete in the CTA's life; of a side that is led, in that
        of a pair's first CTA."""
        return max(0, -(-(self.fills.at(symbols) - stage) // self.stages))


@dataclass(frozen=True, slots=True)
class TurnClaim:
    """Barriers of turns of a role whose two units take a CTA's tiles in turn: byte offsets in dynamic shared memory of
    unit 0's and unit 1's, each of which counts one arrival a phase. A unit's barrier completes a phase with each tile
    of the other's; tiles: in the CTA's life."""

    addresses: tuple[int, int]
    tiles: Polynomial

    def phases(self, unit: int, symbols: Mapping[str, int]) -> int:
        """Phases that a unit's barrier completes: tiles that the other has taken, the first being unit 0's."""
        return (self.tiles.at(symbols) + unit) // 2


@dataclass(frozen=True, slots=True)
class ProductClaim:
    """Barriers on which the tensor core arrives for the units of a role, one for each: byte offsets in dynamic shared
    memory. Each counts one arrival a phase; waits: phases in the CTA's life, of each."""

    addresses: tuple[int, ...]
    waits: Polynomial


@dataclass(frozen=True, slots=True)
class FoldClaim:
    """The barrier of a fold of a row that a cluster's CTAs share: its byte offset in dynamic shared memory. It counts
    one arrival in its only phase, and the bytes of a range, which all warps of the cluster write."""

    address: int
    range: tuple[int, int]


@dataclass(frozen=True, slots=True)
class StreamClaim:
    """How many heads and tails each CTA has, and the symbols that say so."""

    heads: str
    tails: str
    streamed: int
    helpers: int

    def symbols(self, cta: int) -> dict[str, int]:
        """Values of the two symbols for a CTA."""
        if cta < self.helpers:
            return {self.heads: max(0, -(-(self.streamed - cta) // self.helpers)), self.tails: 0}
        return {self.heads: 0, self.tails: 1}


@dataclass(frozen=True, slots=True)
class RangeClaim:
    """Of tiles that each have their own number of iterations: the symbol that counts these, and the one that counts
    tiles. lengths: by the number of a tile among those of all matrices; ctas, together: by which CTA takes which
    (`ir.tile.order.taken`)."""

    symbol: str
    tiles: str
    lengths: tuple[int, ...]
    ctas: int
    together: int | None = None

    @property
    def all_symbol(self) -> str:
        """What the iterations of all tiles of a CTA are called together."""
        return f"all_{self.symbol}"

    def over_tiles(self, count: Polynomial) -> Polynomial:
        """A count in which tiles all have the same number of iterations, as one where each has its own."""
        terms: dict[Monomial, int] = {}
        for monomial, coefficient in count.terms:
            names = list(monomial)
            if self.symbol in names:
                # Within a tile the symbol is a number; over tiles it is summed.
                names.remove(self.symbol)
                names.remove(self.tiles)
                names.append(self.all_symbol)
            terms[tuple(sorted(names))] = coefficient
        return Polynomial(tuple(sorted(terms.items())))

    def is_summed(self, count: Polynomial) -> bool:
        """Whether a count is of sums over tiles alone."""
        return all(
            self.symbol not in monomial or (monomial.count(self.symbol), monomial.count(self.tiles)) == (1, 1)
            for monomial, _ in count.terms
        )

    def symbols(self, cta: int) -> dict[str, int]:
        """Of a CTA: how many tiles, and their iterations together."""
        own = taken(cta, self.ctas, len(self.lengths), self.together)
        return {self.tiles: len(own), self.all_symbol: sum(self.lengths[tile] for tile in own)}


@dataclass(frozen=True, slots=True)
class StoreClaim:
    """Bulk stores of one role's unit: bytes of each (one entry per static place) and how many in the unit's life; of
    all its units together, where they take tiles in turn."""

    role: str
    buffer: str
    store_bytes: tuple[int, ...]
    stores: Polynomial


@dataclass(frozen=True, slots=True)
class RoleClaim:
    """Threads [first_thread, first_thread + threads) of the CTA; registers per thread, 0 where unchanged from
    launch. takes_turns: its units share the CTA's tiles, whole ones in turn."""

    name: str
    unit: str
    first_thread: int
    threads: int
    registers: int
    takes_turns: bool = False


@dataclass(frozen=True, slots=True)
class ProtocolClaims:
    """Claims of one kernel. symbols: the values it was built with; minima: the least values the proof covers; stream:
    where CTAs differ in how many parts of tiles they take; range: where tiles differ in their iterations; handed: where
    the hardware hands tiles out, how many there are for all CTAs."""

    kernel: str
    symbols: tuple[tuple[str, int], ...]
    minima: tuple[tuple[str, int], ...]
    cluster_ctas: int
    block_threads: int
    dynamic_smem_bytes: int
    rings: tuple[RingClaim, ...]
    stores: tuple[StoreClaim, ...]
    roles: tuple[RoleClaim, ...]
    turns: tuple[TurnClaim, ...] = ()
    stream: StreamClaim | None = None
    range: RangeClaim | None = None
    products: ProductClaim | None = None
    handed: int = 0
    folds: tuple[FoldClaim, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """The claims in words, one fact a line."""
        out: list[str] = []
        for ring in self.rings:
            out.append(
                f"{self.kernel}: ring {ring.name}: {counted(ring.stages, 'stage')}, {ring.fills} fills per CTA, "
                f"{ring.transaction_bytes} bytes and {counted(ring.full_arrivals, 'arrival')} per full phase, "
                f"{counted(ring.empty_arrivals, 'arrival')} per empty phase"
            )
        if self.products is not None:
            each = counted(len(self.products.addresses), "unit")
            out.append(f"{self.kernel}: tensor memory: {self.products.waits} commits by each of {each}")
        for fold in self.folds:
            begin, end = fold.range
            out.append(f"{self.kernel}: a fold across a cluster: {end - begin} bytes of its warps' words in each CTA")
        for store in self.stores:
            sizes = ", ".join(map(str, sorted(set(store.store_bytes))))
            in_turn = any(role.name == store.role and role.takes_turns for role in self.roles)
            units = "by its units, ping-pong" if in_turn else "per unit"
            out.append(f"{self.kernel}: role {store.role}: {store.stores} bulk stores of {sizes} bytes {units}")
        return tuple(out)
