"""What does one mbarrier object do on init, arrive, expect-tx, complete-tx, and which phase does a wait see?

Theory: PTX ISA 9.7.13.15 "mbarrier". An object counts pending arrivals and, signed, transaction bytes. Phase k ends at
the instant both are zero; then phase k+1 begins with the pending count restored. The object stores only the phase's
parity; this model keeps the absolute index, from 0, so that a caller can tell phase k from phase k+2.

States are values; each operation takes one (None for memory that holds no valid object) and returns the next. An
operation ended a phase exactly if `after.phase != before.phase`. Misuse raises `ProtocolFault`, whose code names the
rule: MB201 ranges, MB202 not initialised, MB203 initialised twice, MB209 more arrivals than pending, MB210 a
`.noComplete` arrival that would complete, MB212 a parity that is none, MB217 expected count dropped to zero, MB219 a
state of a phase long past, or of another object.

Not handled: memory order (events carry it), the `.layout` v1 object with conditional phases (PTX 9.3), remote forms (a
remote arrival is the same arrival on the owner's object), time limits of try_wait.
Checked by: `tests/machine/barrier/test_mbarrier.py`.
"""

from __future__ import annotations

from functools import cache

from tilewright.base.plural import counted
from tilewright.base.value import value
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.targets import Target

_PHASE_SHIFT = 20
_PLACE_SHIFT = 48
TOKEN_PHASE = 1 << _PHASE_SHIFT
"""What the state that an arrival returns gains with a phase (`token`)."""
SIGNED_ODD = 0xFFFF_FFFF
"""Parity 1 as a truth value that is extended by its sign."""

_NAMES = {
    "MB201": "mbarrier-range",
    "MB202": "mbarrier-not-initialized",
    "MB203": "mbarrier-initialized-twice",
    "MB209": "mbarrier-over-arrival",
    "MB210": "mbarrier-no-complete",
    "MB212": "mbarrier-parity",
    "MB217": "mbarrier-dropped-to-zero",
    "MB219": "mbarrier-stale-state",
}


class ProtocolFault(EngineFault):
    """An operation that the mbarrier protocol forbids. `code` is the rule's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, _NAMES[code], message)


@value
class MbarrierLimits:
    """What an object of a target holds (PTX ISA 9.7.13.15, "Contents").

    count_max: largest arrival count; transaction_bytes_max: largest magnitude of the transaction count.
    """

    count_max: int
    transaction_bytes_max: int


@cache
def mbarrier_limits(facts: Target) -> MbarrierLimits:
    """The limits of a target's objects."""
    return MbarrierLimits(facts.limit("mbarrier.count_max"), facts.limit("mbarrier.transaction_bytes_max"))


@value
class Mbarrier:
    """A valid mbarrier object.

    limits: of the target that it lives on; expected: arrivals that each phase takes; pending: arrivals the current
    phase still takes; transaction_bytes: bytes expected minus bytes completed in the current phase (negative while
    completions run ahead); phase: absolute index of the current, incomplete phase.
    """

    limits: MbarrierLimits
    expected: int
    pending: int
    transaction_bytes: int = 0
    phase: int = 0


def initialize(barrier: Mbarrier | None, count: int, limits: MbarrierLimits) -> Mbarrier:
    """`mbarrier.init`: `barrier` is what the memory held before. Raises MB203 over a valid object, MB201 on `count`."""
    if barrier is not None:
        raise ProtocolFault("MB203", "mbarrier.init on an object that is already valid; mbarrier.inval comes first")
    if not 1 <= count <= limits.count_max:
        raise ProtocolFault("MB201", f"mbarrier.init with count {count}, outside 1..{limits.count_max}")
    return Mbarrier(limits, expected=count, pending=count)


def is_fresh(barrier: Mbarrier, count: int) -> bool:
    """Is the object as an init with `count` leaves it?"""
    return barrier == Mbarrier(barrier.limits, expected=count, pending=count)


def invalidate(barrier: Mbarrier | None) -> None:
    """`mbarrier.inval`: the memory holds no object afterwards. Raises MB202 where it held none."""
    _valid(barrier, "mbarrier.inval")


def expect(barrier: Mbarrier | None, byte_count: int) -> Mbarrier:
    """`mbarrier.expect_tx`: raises the transaction count by `byte_count`, without an arrival."""
    before = _valid(barrier, "mbarrier.expect_tx")
    return _after(before, before.pending, _transaction(before, byte_count, "mbarrier.expect_tx"))


def complete(barrier: Mbarrier | None, byte_count: int) -> Mbarrier:
    """`mbarrier.complete_tx`, or an asynchronous copy's completion: lowers the transaction count by `byte_count`."""
    before = barrier if barrier is not None else _valid(barrier, "complete_tx")
    return _after(before, before.pending, _transaction(before, -byte_count, "complete_tx"))


def arrive(barrier: Mbarrier | None, count: int = 1, expect_bytes: int = 0, no_complete: bool = False) -> Mbarrier:
    """`mbarrier.arrive[.expect_tx][.noComplete]`: first adds `expect_bytes`, then takes `count` arrivals.

    Raises MB209 if fewer than `count` arrivals are pending: they would count in a phase that has not begun. A warp
    whose lanes arrive in one instruction, each with count c, may end several phases: call once a lane.
    """
    before = barrier if barrier is not None else _valid(barrier, "mbarrier.arrive")
    most = before.limits.count_max
    if not 1 <= count <= most:
        raise ProtocolFault("MB201", f"mbarrier.arrive with count {count}, outside 1..{most}")
    transaction_bytes = before.transaction_bytes
    if expect_bytes:
        transaction_bytes = _transaction(before, expect_bytes, "mbarrier.arrive.expect_tx")
    if count > before.pending:
        raise ProtocolFault(
            "MB209",
            f"mbarrier.arrive takes {counted(count, 'arrival')} in phase {before.phase}, which has {before.pending} "
            f"pending of {before.expected}",
        )
    after = _after(before, before.pending - count, transaction_bytes)
    if no_complete and after.phase != before.phase:
        raise ProtocolFault("MB210", f"mbarrier.arrive.noComplete would complete phase {before.phase}")
    return after


def arrive_drop(barrier: Mbarrier | None, count: int = 1, expect_bytes: int = 0, no_complete: bool = False) -> Mbarrier:
    """`mbarrier.arrive_drop`: as `arrive`, and every later phase expects `count` arrivals fewer."""
    before = _valid(barrier, "mbarrier.arrive_drop")
    if count >= before.expected:
        raise ProtocolFault("MB217", f"mbarrier.arrive_drop of {count} leaves none of {before.expected} expected")
    fewer = Mbarrier(before.limits, before.expected - count, before.pending, before.transaction_bytes, before.phase)
    return arrive(fewer, count, expect_bytes, no_complete)


def parity_complete(barrier: Mbarrier | None, parity: int) -> bool:
    """`mbarrier.test_wait.parity`: true if the phase of that parity, the current or the preceding one, is complete.
    -1, a sign-extended 1, counts as 1 (contested point `parity_sign`).

    A fresh object answers true to parity 1: the phase before the first counts as complete.
    """
    current = barrier if barrier is not None else _valid(barrier, "mbarrier.test_wait")
    if parity not in (0, 1, SIGNED_ODD):
        raise ProtocolFault("MB212", f"phase parity {parity} is neither 0 nor 1")
    return current.phase & 1 != parity & 1


def complete_phase(barrier: Mbarrier | None) -> int:
    """Absolute index of the last completed phase: what a wait that returned true saw; -1 on a fresh object."""
    return (barrier if barrier is not None else _valid(barrier, "mbarrier.test_wait")).phase - 1


def phase_asked(barrier: Mbarrier | None, value: int, offset: int, *, by_parity: bool) -> int:
    """Absolute index of the phase whose completion a test asks for, now, by parity or by a state."""
    if not by_parity:
        return phase_asked_by_token(barrier, value, offset)
    complete = parity_complete(barrier, value)
    return complete_phase(barrier) + (not complete)


def token(barrier: Mbarrier | None, offset: int) -> int:
    """The 64-bit state that `mbarrier.arrive` returns, taken before the arrival: opaque to the program.

    Bits [19:0] hold the pending count, for `mbarrier.pending_count`; the phase stands above them, and from bit 48 on
    the object's place, its `offset` in shared memory.
    """
    current = _valid(barrier, "mbarrier.arrive")
    return (offset >> 3) << _PLACE_SHIFT | current.phase << _PHASE_SHIFT | current.pending


def token_pending(state: int) -> int:
    """`mbarrier.pending_count` of a state."""
    return state & TOKEN_PHASE - 1


def phase_asked_by_token(barrier: Mbarrier | None, state: int, offset: int) -> int:
    """The phase that a state names to the object at `offset`. Raises MB219 on an older one, and on that of another
    object."""
    current = _valid(barrier, "mbarrier.test_wait")
    phase = (state & (1 << _PLACE_SHIFT) - 1) >> _PHASE_SHIFT
    if state >> _PLACE_SHIFT != offset >> 3:
        raise ProtocolFault("MB219", "a state is waited for that no arrival on this mbarrier has returned")
    if phase not in (current.phase, current.phase - 1):
        raise ProtocolFault(
            "MB219", f"a state of phase {phase} is waited for in phase {current.phase}: not current, not preceding"
        )
    return phase


def token_complete(barrier: Mbarrier | None, state: int, offset: int) -> bool:
    """`mbarrier.test_wait` on a state: is its phase complete?"""
    return phase_asked_by_token(barrier, state, offset) != _valid(barrier, "mbarrier.test_wait").phase


def _valid(barrier: Mbarrier | None, operation: str) -> Mbarrier:
    if barrier is None:
        raise ProtocolFault("MB202", f"{operation} on memory that holds no valid mbarrier object")
    return barrier


def _transaction(barrier: Mbarrier, byte_count: int, operation: str) -> int:
    """The transaction count after `byte_count` more bytes are expected."""
    count = barrier.transaction_bytes + byte_count
    most = barrier.limits.transaction_bytes_max
    if abs(byte_count) > most or abs(count) > most:
        raise ProtocolFault(
            "MB201",
            f"{operation} of {abs(byte_count)} bytes takes the transaction count to {count}, beyond +-{most}",
        )
    return count


def _after(before: Mbarrier, pending: int, transaction_bytes: int) -> Mbarrier:
    """The object once these are what its phase still takes: in the next phase, if that is nothing."""
    if pending == 0 and transaction_bytes == 0:
        return Mbarrier(before.limits, before.expected, before.expected, 0, before.phase + 1)
    return Mbarrier(before.limits, before.expected, pending, transaction_bytes, before.phase)
