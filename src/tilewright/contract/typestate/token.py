"""What does a value of an `ac` role stand for, at any iteration of the loops around it?

Each value is abstracted to a record whose positions are polynomials in trip counts and loop counters: a slot of a ring
is the n-th slot that the unit ever waited for, a wgmma belongs to the n-th group that it committed. A unit's state
holds how often it has waited, filled and released (polynomials) and what bulk stores may still be reading (a
may-set, joined over iterations).

Linear records stand for obligations; `is_linear` tells them apart. Checked by:
tests/contract/typestate/test_typestate*.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import cast

from xdsl.ir import Operation

from tilewright.contract.typestate.polynomial import Polynomial

UNIT = "unit"
"""The atom that is a unit's number within its role."""
WARP = "warp"
"""The number of a warp in its unit, where rows of warps do not follow one another."""
WARPS = 4


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a ring, counted in slots from the ring's first use; side as given at its start."""

    ring: str
    side: str
    position: Polynomial


@dataclass(frozen=True, slots=True)
class Slot:
    """The slot at `position`, obtained by waiting. stage "retired": read, and no longer being read. fenced: a proxy
    fence followed the wait. issuer: of the unit's threads only those of its first warp have waited."""

    ring: str
    side: str
    position: Polynomial
    fenced: bool = False
    issuer: bool = False


@dataclass(frozen=True, slots=True)
class Filling:
    """A slot being filled, of which `bytes_left` announced bytes are not yet issued. site: where it was announced.
    by_threads: threads copy into it, and no deferred arrival covers that yet."""

    ring: str
    position: Polynomial
    bytes_left: int
    site: str
    by_threads: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """A slot that wgmma of group number `group` (counted in commits) reads. fenced, issuer: as of a slot."""

    ring: str
    position: Polynomial
    group: Polynomial
    fenced: bool = False
    issuer: bool = False


@dataclass(frozen=True, slots=True)
class Accumulating:
    """An accumulator whose last wgmma belongs to group number `group`. idle: threads wrote it, and no wgmma has since:
    any group may stand for it, since none has to be waited for."""

    m: int
    n: int
    group: Polynomial
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """An accumulator that no wgmma in flight writes. May be read any number of times."""

    m: int
    n: int


@dataclass(frozen=True, slots=True)
class TensorAccumulating:
    """An accumulator in tensor memory, from a column of the unit's part on, that the tensor core owns."""

    m: int
    n: int
    column: int


@dataclass(frozen=True, slots=True)
class TensorSettled:
    """An accumulator in tensor memory that no product in flight writes, and that the threads have not read."""

    m: int
    n: int
    column: int


@dataclass(frozen=True, slots=True)
class TensorOperand:
    """A left operand in tensor memory, as many elements in a cell as fit, that is to be multiplied."""

    m: int
    k: int
    column: int
    element: str


@dataclass(frozen=True, slots=True)
class TensorFilling:
    """A slot of tensor memory that products fill. started: columns of the accumulators that they have begun."""

    ring: str
    position: Polynomial
    started: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class TensorFactors:
    """A slot whose factors of blocks, of so many rows and cells of each, are copied to tensor memory."""

    ring: str
    position: Polynomial
    rows: int
    cells: int
    element: str


@dataclass(frozen=True, slots=True)
class Promoted:
    """A total in registers that the unit's threads alone write, in place."""

    m: int
    n: int


@dataclass(frozen=True, slots=True)
class Scales:
    """Numbers in registers, one for each place of an accumulator."""

    m: int
    n: int


@dataclass(frozen=True, slots=True)
class Computed:
    """A full slot of which the unit has read its part of A, and what it computed of it, in registers."""

    ring: str
    position: Polynomial
    m: int
    k: int
    element: str


@dataclass(frozen=True, slots=True)
class Vector:
    """Numbers in registers, one for each of `k` elements of a slice of the contracted axis."""

    k: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """Numbers that are loaded, or computed of an accumulator, where they are used."""

    m: int
    n: int
    axes: str
    element: str


@dataclass(frozen=True, slots=True)
class Values:
    """A fragment in registers of its own: a plain value."""

    m: int
    n: int
    axes: str
    element: str


@dataclass(frozen=True, slots=True)
class Staged:
    """Bytes of a staging slot, elements of type `element`. state: "written", "fenced" or "ready"; line: elements that
    lie together."""

    buffer: str
    slot: int
    state: str
    bytes: int
    element: str
    line: int


@dataclass(frozen=True, slots=True)
class Index:
    """A 32-bit index: constant + sum of coefficient * atom. Atoms are named: "unit", the role's unit number; a loop's
    arguments, by their loop."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    @property
    def is_unit(self) -> bool:
        return self.terms == ((UNIT, 1),) and self.constant == 0


@dataclass(frozen=True, slots=True)
class Part:
    """What lies at an index along each of some dimensions of a global array, which `array` declares: (dimension of the
    whole array, index), by dimension."""

    array: Operation
    picked: tuple[tuple[int, Index], ...]


@dataclass(frozen=True, slots=True)
class Scalar:
    pass


Token = (
    Cursor
    | Slot
    | Filling
    | Reading
    | Accumulating
    | Settled
    | TensorAccumulating
    | TensorSettled
    | TensorOperand
    | TensorFilling
    | TensorFactors
    | Promoted
    | Scales
    | Computed
    | Vector
    | Fragment
    | Values
    | Staged
    | Index
    | Part
    | Scalar
)


def is_linear(token: Token) -> bool:
    """Whether the token is an obligation, to be used exactly once."""
    return type(token) in _LINEAR


_LINEAR = frozenset(
    {
        Slot, Filling, Reading, Accumulating, Promoted, Computed, Staged, TensorAccumulating, TensorSettled,
        TensorOperand, TensorFilling, TensorFactors,
    }
)  # fmt: skip


def describe(token: Token) -> str:
    match token:
        case Cursor():
            return f"a cursor of ring {token.ring}"
        case Slot():
            return f"a {token.side} slot of ring {token.ring}"
        case Filling():
            return f"a slot of ring {token.ring} being filled"
        case Reading():
            return f"a slot of ring {token.ring} being read"
        case Accumulating():
            return "an accumulator in flight"
        case Settled():
            return "an accumulator"
        case TensorAccumulating():
            return f"an accumulator of {token.m} x {token.n} in flight at column {token.column}"
        case TensorSettled():
            return f"an accumulator of {token.m} x {token.n} at column {token.column}"
        case TensorFilling():
            return f"a slot of ring {token.ring} that products fill"
        case TensorFactors():
            return f"factors of {token.rows} rows, of a slot of ring {token.ring}"
        case TensorOperand():
            return f"an operand of {token.m} x {token.k} of {token.element} at column {token.column}"
        case Promoted():
            return "a total"
        case Scales():
            return "scales"
        case Computed():
            return f"a slot of ring {token.ring} of which an operand was computed"
        case Vector():
            return "a vector"
        case Fragment():
            return "a fragment"
        case Values():
            return "a fragment in registers"
        case Staged():
            return f"{token.state} bytes of buffer {token.buffer}"
        case Index():
            return "an index"
        case Part():
            return "a part of an array"
        case Scalar():
            return "a scalar"


def moved(before: Token, after: Token, count: Polynomial) -> Token | None:
    """The token `count` iterations after `before`, if one iteration turns `before` into `after`.

    None if the two differ in more than positions, so that no such line exists.
    """
    if type(before) is not type(after):
        return None
    changes: dict[str, Polynomial] = {}
    for name in _names(type(before)):
        old, new = cast(object, getattr(before, name)), cast(object, getattr(after, name))
        if old == new:
            continue
        if not isinstance(old, Polynomial) or not isinstance(new, Polynomial):
            return None
        changes[name] = old + (new - old) * count
    return replace(before, **changes) if changes else before


@cache
def _names(kind: type[Token]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


Group = frozenset[tuple[str, int]]
"""Staging slots (buffer, slot) that the bulk stores of one group may still be reading."""

Columns = frozenset[tuple[int, int]]
"""Half-open ranges of columns of a unit's part of tensor memory."""

GROUPS_KEPT = 32
"""Older groups are merged into one: they are then held to be pending at least as long, which errs on the safe side."""


@dataclass(slots=True)
class UnitState:
    """What one unit of a role has done so far.

    counts: how often, by event ("wait:ring:side", "fill:ring", "release:ring", "store:buffer", "groups", ...).
    uncommitted: wgmma issued since the last commit. fenced: wgmma.fence since accumulators were last touched; started:
    none since threads last wrote one that is multiplied into. operand_ages: by bank of A's registers, groups committed
    since a wgmma with A in them was last issued, its own among them, at least; only of banks with one in flight.
    groups_in_flight: at most so many committed wgmma groups are not known to be done; None if unbounded.
    bulk_issuer: groups that may be reading, oldest first, as far as the issuing thread knows; bulk_unit: as far as all
    of the unit's threads know; open_stores: stores not yet committed; staged: slots that hold bytes not yet stored.
    synced, issued, committed, held, busy: see `steps.tensor_memory`; committed is None where it may be either.
    """

    counts: dict[str, Polynomial] = field(default_factory=dict[str, Polynomial])
    uncommitted: int = 0
    fenced: bool = False
    started: bool = False
    operand_ages: dict[int, int] = field(default_factory=dict[int, int])
    groups_in_flight: int | None = 0
    bulk_issuer: tuple[Group, ...] = ()
    bulk_unit: tuple[Group, ...] = ()
    open_stores: Group = frozenset()
    staged: Group = frozenset()
    synced: bool = True
    issued: bool = False
    committed: bool | None = False
    held: Columns = frozenset()
    busy: Columns = frozenset()

    def count(self, event: str) -> Polynomial:
        return self.counts.get(event, Polynomial())

    def step(self, event: str, times: int = 1) -> None:
        self.counts[event] = self.count(event) + times

    def copy(self) -> UnitState:
        return UnitState(
            dict(self.counts), self.uncommitted, self.fenced, self.started, dict(self.operand_ages),
            self.groups_in_flight, self.bulk_issuer, self.bulk_unit, self.open_stores, self.staged, self.synced,
            self.issued, self.committed, self.held, self.busy,
        )  # fmt: skip

    def joined(self, other: UnitState) -> UnitState:
        """What may hold in either; counts and uncommitted wgmma are taken from self."""
        bounds = (self.groups_in_flight, other.groups_in_flight)
        in_flight = None if bounds[0] is None or bounds[1] is None else max(bounds[0], bounds[1])
        if in_flight is not None and in_flight > GROUPS_KEPT:
            in_flight = None
        ages = dict(self.operand_ages)
        for bank, age in other.operand_ages.items():
            ages[bank] = min(age, ages.get(bank, age))
        return replace(
            self,
            counts=dict(self.counts),
            fenced=self.fenced and other.fenced,
            started=self.started or other.started,
            operand_ages=ages,
            groups_in_flight=in_flight,
            bulk_issuer=_join_groups(self.bulk_issuer, other.bulk_issuer),
            bulk_unit=_join_groups(self.bulk_unit, other.bulk_unit),
            open_stores=self.open_stores | other.open_stores,
            staged=self.staged | other.staged,
            synced=self.synced and other.synced,
            issued=self.issued or other.issued,
            committed=self.committed if self.committed == other.committed else None,
            held=self.held | other.held,
            busy=self.busy | other.busy,
        )

    def may_part(self) -> object:
        """The part that `joined` joins, for telling when it no longer grows."""
        return (
            self.fenced, self.started, sorted(self.operand_ages.items()), self.groups_in_flight, self.bulk_issuer,
            self.bulk_unit, self.open_stores, self.staged, self.synced, self.issued, self.committed, self.held,
            self.busy,
        )  # fmt: skip


def appended(groups: tuple[Group, ...], newest: Group) -> tuple[Group, ...]:
    """`groups` with one more, the oldest merged where there are too many."""
    longer = (*groups, newest)
    if len(longer) > GROUPS_KEPT:
        longer = (longer[0] | longer[1], *longer[2:])
    return _pruned(longer)


def after_wait(groups: tuple[Group, ...], pending: int) -> tuple[Group, ...]:
    """`groups` after all but the newest `pending` are known to have been read."""
    return _pruned(groups[len(groups) - pending :] if pending < len(groups) else groups)


def _pruned(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Without the oldest groups that read nothing: a wait counts from the newest, so they change no wait."""
    begin = 0
    while begin < len(groups) and not groups[begin]:
        begin += 1
    return groups[begin:]


def _join_groups(first: tuple[Group, ...], second: tuple[Group, ...]) -> tuple[Group, ...]:
    empty: Group = frozenset()
    length = max(len(first), len(second))
    padded_first = (empty,) * (length - len(first)) + first
    padded_second = (empty,) * (length - len(second)) + second
    return tuple(left | right for left, right in zip(padded_first, padded_second, strict=True))
