"""Does every setmaxnreg.inc of a CTA end in every interleaving? May its warps hold the registers they ask for?

A CTA's registers are those of its launch; an increase waits until enough of them are free. Argument: suppose that an
increase waits forever. Then every other warp stands still, too: at its end, at something that comes after the
increase, or at an increase of its own. What it holds there is known from its own sequence of budgets; if even the
largest of these, summed over all warps, leave room, the increase does not wait forever. That no increase does, follows
for all of them at once. Where the sum is too large the judge doubts, since a run that ended shows one good order.

All warps of a warpgroup execute the same setmaxnreg. Source: PTX ISA 9.7.19.5. Checked by:
tests/contract/judge/test_register_budgets.py.
"""

from __future__ import annotations

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.judge.run_state import ClusterState, WarpState, name_of
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.contract.rules.replay_codes import RunFindings

_WARPGROUP_WARPS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Budget:
    """One setmaxnreg of a warp: registers of each thread before and after; order: what had happened before it."""

    before: int
    registers: int
    increase: bool
    span: Span
    epoch: int
    order: VectorClock


def check_budgets(cluster: ClusterState, findings: RunFindings) -> None:
    """Judge the register budgets of a cluster that has ended."""
    by_cta: dict[int, list[WarpState]] = {}
    for actor, warp in cluster.warps.items():
        by_cta.setdefault(actor.cta, []).append(warp)
    for cta, warps in by_cta.items():
        _check_pool(cta, [warp for warp in warps if warp.budgets], findings)
        groups: dict[int, list[WarpState]] = {}
        for warp in warps:
            groups.setdefault(warp.actor.warp // _WARPGROUP_WARPS, []).append(warp)
        for group in groups.values():
            _check_group(group, findings)


def _check_pool(cta: int, warps: list[WarpState], findings: RunFindings) -> None:
    pool = sum(warp.budgets[0].before for warp in warps)
    for warp in warps:
        for budget in warp.budgets:
            if not budget.increase or budget.registers == budget.before:
                continue
            held = sum(_most_held(other, warp, budget) for other in warps if other is not warp)
            if held + budget.registers > pool:
                findings.doubt(
                    f"{budget.span}: setmaxnreg.inc of {name_of(warp.actor)} may wait for registers that other warps "
                    f"of CTA {cta} hold: {held + budget.registers} of {pool} (a thread's, summed over warps); "
                    "whether every order of setmaxnreg ends is not decided"
                )
                return


def _most_held(other: WarpState, warp: WarpState, increase: Budget) -> int:
    """The most registers of a thread that `other` may hold where it stands still while `increase` waits."""
    held = other.budgets[0].before
    most = 0
    for budget in other.budgets:
        if budget.order.at(warp.track) >= increase.epoch:
            break  # comes after the increase
        if budget.increase and budget.registers > budget.before and increase.order.at(other.track) < budget.epoch:
            most = max(most, budget.before)  # it may wait there, too
        held = budget.registers
    return max(most, held)


def _check_group(warps: list[WarpState], findings: RunFindings) -> None:
    first = warps[0]
    for warp in warps[1:]:
        mine, theirs = ([(each.registers, each.increase) for each in one.budgets] for one in (warp, first))
        if mine != theirs:
            findings.report(
                "SR101",
                f"{name_of(warp.actor)} and {name_of(first.actor)}, of one warpgroup, execute different setmaxnreg",
                (warp.budgets or first.budgets)[0].span,
                (first.budgets or warp.budgets)[0].span,
                (
                    f"{name_of(first.actor)} executes {[each.registers for each in first.budgets]}",
                    f"{name_of(warp.actor)} executes {[each.registers for each in warp.budgets]}",
                ),
            )
