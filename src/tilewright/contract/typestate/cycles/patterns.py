"""Which slots of a ring does each role take: all of them, or every n-th?

Where one role waits on a side of a ring, `steps.ring` asks that its waits, fills and releases be at positions 0, 1, 2,
... Where several roles do, they may take slots together, each all of them, or alternately: of n roles one takes
0, n, 2 n, ..., the next 1, n + 1, ... The walk records the position and the number of each wait and signal as
polynomials in the same counters; that all lie at number * n + offset is an identity, so it holds for every trip count.

Parity. A wait for a phase returns early if the phase two before it is not yet over, and never if the next one already
is. The next one cannot be: it takes a signal of the waiting unit, made after the wait. Where a unit takes every slot,
its wait for the slot's last use has shown that the phase before is over. Where it takes every n-th, that is shown

- if n divides the number of slots: then the slot's last use was the unit's own;
- of fillers, if n is no more than the number of slots and each reading unit takes all: the unit's last wait was for a
  release of a slot at most n before, and readers release in order, so every release before that one is over as well.
  Full phases do not end in order, since copies don't, so that nothing like it holds of readers.

Not handled: other patterns, such as two slots each (doubts).
Checked by: tests/contract/typestate/test_several_producers.py and test_ring_programs.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import Kernel, Ring
from tilewright.contract.typestate.summary import RingEvent, RoleSummary
from tilewright.ir.ac import operations as ac


@dataclass(frozen=True, slots=True)
class Pattern:
    """A role's use number i of a ring's side is of position i * apart + first."""

    apart: int = 1
    first: int = 0

    def position(self, number: Polynomial) -> Polynomial:
        return number * self.apart + self.first


ALL = Pattern()
Patterns = Mapping[tuple[int, str, str], Pattern]
"""By the role's number, ring and side."""


def shared_sides(kernel: Kernel) -> frozenset[tuple[str, str]]:
    """Rings and sides on which several roles wait."""
    users: dict[tuple[str, str], set[str]] = {}
    for role in kernel.roles:
        for op in role.operations.of(ac.BarrierWaitOp):
            ring = kernel.declared.get(op.ring)
            if isinstance(ring, Ring):
                users.setdefault((ring.name, op.side.data), set()).add(role.name)
    return frozenset(key for key, names in users.items() if len(names) > 1)


def find_patterns(
    roles: Sequence[RoleSummary], shared: frozenset[tuple[str, str]], findings: Findings
) -> dict[tuple[int, str, str], Pattern]:
    """Of each role that waits on a side of a ring; all slots in order where nothing else is found."""
    found = {(number, ring, side): ALL for number, role in enumerate(roles) for ring, side in role.waits}
    for ring, side in shared:
        users = [number for number, role in enumerate(roles) if (ring, side) in role.waits]
        # A role that takes one slot in all may be seen in either way.
        if any(not _keeps_to(roles[number], ring, side, ALL) for number in users):
            turns = [Pattern(len(users), first) for first in range(len(users))]
            for number in users:
                fitting = [option for option in turns if _keeps_to(roles[number], ring, side, option)]
                found[number, ring, side] = fitting[0] if fitting else ALL
        for number in users:
            _check_events(roles[number], ring, side, found[number, ring, side], len(users), findings)
    return found


def _keeps_to(role: RoleSummary, ring: str, side: str, pattern: Pattern) -> bool:
    """Whether all of a role's waits on a side of a ring are of a pattern."""
    return all(
        _fits(event, pattern)
        for event in role.events
        if event.kind == "wait" and (event.ring, event.side) == (ring, side)
    )


def _check_events(role: RoleSummary, ring: str, side: str, pattern: Pattern, users: int, findings: Findings) -> None:
    """Doubt waits that are not of the pattern, and report signals that are not of it. users: roles that may
    alternate."""
    for event in role.events:
        if (event.ring, event.side) != (ring, side) or event.number is None or _fits(event, pattern):
            continue
        if event.kind == "wait":
            # It may be right all the same: concrete runs show what is not.
            findings.doubt(
                f"wait number {event.number} on the {side} side of ring {ring} is made at position {event.position}; "
                f"of {users} roles each is to take all slots, or every {users}-th",
                event.op,
            )
            return
        verb = "fills" if event.kind == "fill" else "releases"
        findings.report(
            "MB011",
            event.op,
            f"{role.role.name}: {verb} position {event.position} of ring {ring} as number {event.number}",
        )


def _fits(event: RingEvent, pattern: Pattern) -> bool:
    assert event.number is not None
    return event.position == pattern.position(event.number)


def check_together(
    ring: Ring,
    side: str,
    patterns: Sequence[Pattern],
    *,
    in_order: bool,
    findings: Findings,
) -> bool:
    """Whether these roles share the ring's slots: all take all, or each another one of as many as there are. in_order:
    whether whoever signals this side's phases does so for all slots in order."""
    count = len(patterns)
    if set(patterns) == {ALL}:
        return True
    if {(pattern.apart, pattern.first) for pattern in patterns} != {(count, first) for first in range(count)}:
        findings.doubt(
            f"{count} roles wait on the {side} side of ring {ring.name}, not all for all slots or for every {count}-th",
            ring.op,
        )
        return False
    known = ring.stages % count == 0 or (side == "empty" and in_order and count <= ring.stages)
    if not known:
        findings.doubt(
            f"{count} roles alternate on the {side} side of ring {ring.name} of {ring.stages} stages: a parity may be "
            "that of another phase",
            ring.op,
        )
    return known
