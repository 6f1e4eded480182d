"""On which named barriers do the threads of each unit of a role meet, and are there so many?

Unit u of a role has barrier `first` + u. That no other unit uses it is asked of the whole kernel
(`RoleSummary.named_barriers`). Not handled: meetings of several units (`steps.issue_order`, `steps.split`).
Source: PTX ISA, bar. Checked by: tests/contract/typestate/steps.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.contract.typestate.walk import RoleWalk


def meet(walk: RoleWalk, op: Operation, first: int) -> None:
    """first: barrier of unit 0."""
    units = walk.role.count
    if first < 1 or first + units > walk.kernel.facts.limit("cta.named_barriers"):
        walk.report("NB001", op, f"named barriers {first} to {first + units - 1} for {units} units")
    if walk.recording:
        for unit in range(units):
            walk.summary.named_barriers.setdefault(first + unit, {}).setdefault(unit, op)


def meet_after_stores(walk: RoleWalk, op: Operation, first: int) -> None:
    """What the unit's first thread knows of bulk stores, all of its threads know after it. first: barrier of unit 0."""
    meet(walk, op, first)
    walk.state.bulk_unit = walk.state.bulk_issuer
    walk.state.fenced = False
