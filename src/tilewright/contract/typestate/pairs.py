"""Do the two CTAs of a pair agree on who issues for both, and on whose barriers who is signalled?

A pair is a cluster of two CTAs (ranks 0 and 1, which differ in the last bit). One role, of the first CTA alone, issues
products of both CTAs' rows; everything else both do alike. So a wait of that role is on a barrier of the first CTA, for
something that both CTAs do, and a wait of any other role is on a barrier of its own CTA, for something that its own CTA
does, or that the issuing role does for both. What must hold, of each side of a ring:

- It is waited for by the leading role alone, or by other roles alone.
- In the first case all signals go to the first CTA (`leader`): a phase takes them from both, so that its counts, and
  its bytes, are twice those of one CTA (`rings`).
- In the second case no signal goes there, and those of the leading role arrive in both CTAs (`pair`).

With that the argument for one CTA is one for two: positions are the same in both, since a cluster's CTAs take the same
tiles, so that a phase of the first CTA's barrier is signalled at one position by both, and a circle of waits in two
CTAs is one of their roles (`liveness`). A slot is released for both once products have read both CTAs' slots. Columns
are allocated once both CTAs run, and freed after the cluster has met again (`tensor_setup`).

Not handled (doubts): pairs in larger clusters, slots that threads fill, multicast, ping-pong, rows in groups. Source:
PTX ISA, tcgen05: CTA pair, .cta_group; tcgen05.commit (multicast); cp.async.bulk.tensor (.cta_group). Checked by:
tests/contract/typestate/steps/test_pairs.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation

from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.program import Kernel, Ring, Role, integers
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import AsyncCopyArriveOp, AsyncCopyIssueOp
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.tensor_memory import (
    UNIT_OPERATIONS,
    TensorFenceOp,
    TensorFillOp,
    TensorHandOverOp,
    TensorReleaseOp,
)

PAIR_CTAS = 2
_OF_BOTH = (TensorFillOp, TensorReleaseOp, TensorHandOverOp)
"""What the leading role does for both CTAs."""
_LEADS = (
    *_OF_BOTH, ac.BarrierWaitOp, ac.CursorStartOp, ac.AdvanceOp, ac.TilesOp, ac.LoopOp, ac.YieldOp, ac.AffineOp,
    ac.RoleOp,
)  # fmt: skip
"""All that it may do."""
_FOREIGN = (
    AsyncCopyIssueOp,
    AsyncCopyArriveOp,
    ac.ClusterReduceOp,
    ac.TurnTilesOp,
    ac.GroupTilesOp,
    ac.TurnGroupTilesOp,
)


def check_pairs(kernel: Kernel, findings: Findings) -> None:
    """Report what CTAs of a pair do not do as a pair."""
    operations, memory = kernel.operations, kernel.tensor_memory
    of_both = operations.of(*_OF_BOTH)
    leading = [role for role in kernel.roles if role.leader]
    paired = memory is not None and memory.pair
    if not paired:
        lone = [op for op in of_both if is_set(op.pair)]
        lone += [op for op in _that_signal(kernel) if is_set(op.leader)]
        if lone or leading:
            findings.report("TC006", [*lone, *(role.op for role in leading)][0], "there is no pair of CTAs")
        return
    assert memory is not None
    if integers(kernel.op.cluster) != (PAIR_CTAS, 1, 1):
        findings.report(
            "TC006", memory.op, f"a pair in a cluster of {' x '.join(map(str, integers(kernel.op.cluster)))}"
        )
    for op in of_both:
        if not is_set(op.pair):
            findings.report("TC006", op, "acts on one CTA, and all tcgen05 of a kernel act on pairs, or none does")
    for op in operations.of(*UNIT_OPERATIONS):
        if not isinstance(op, TensorReleaseOp | TensorFenceOp):
            findings.doubt("by a unit of its own, in a pair of CTAs", op)
    for role in kernel.roles:
        _check_role(role, findings)
    for op in _doubtful(kernel):
        findings.doubt("in a pair of CTAs", op)
    led = led_sides(kernel)
    for role in kernel.roles:
        for op in () if role.leader else role.operations.of(ac.BarrierWaitOp):
            ring = kernel.declared.get(op.ring)
            if isinstance(ring, Ring) and (ring.name, op.side.data) in led:
                findings.report(
                    "TC006",
                    op,
                    f"both CTAs wait on the {op.side.data} side of ring {ring.name}, and so does the first alone",
                )


def _check_role(role: Role, findings: Findings) -> None:
    if not role.leader:
        for op in role.operations.of(*_OF_BOTH):
            findings.report("TC006", op, f"both CTAs of a pair have role {role.name}, which acts for both")
        return
    if role.unit != "thread1":
        findings.report("TC006", role.op, f"a role of {role.unit} issues for a pair")
    for op in role.operations.all:
        if not isinstance(op, _LEADS):
            findings.doubt("in a role that only the first CTA of a pair has", op)


def _doubtful(kernel: Kernel) -> list[Operation]:
    found: list[Operation] = list(kernel.operations.of(*_FOREIGN))
    found += [op for op in kernel.operations.of(ac.CopyIssueOp) if op.multicast.data != 1]
    found += [op for op in kernel.operations.of(ac.ArriveOp) if op.peers.data != 1]
    return found


def _that_signal(kernel: Kernel) -> tuple[ac.ArriveExpectOp | ac.CopyIssueOp | ac.ArriveOp, ...]:
    return kernel.operations.of(ac.ArriveExpectOp, ac.CopyIssueOp, ac.ArriveOp)


def led_sides(kernel: Kernel) -> frozenset[tuple[str, str]]:
    """Rings and sides on which the first CTA of a pair waits for both."""
    found: set[tuple[str, str]] = set()
    for role in kernel.roles:
        for op in role.operations.of(ac.BarrierWaitOp) if role.leader else ():
            ring = kernel.declared.get(op.ring)
            if isinstance(ring, Ring):
                found.add((ring.name, op.side.data))
    return frozenset(found)


def led_side(kernel: Kernel, ring: Ring) -> str:
    """Of a ring, "" where there is none."""
    return next((side for name, side in sorted(led_sides(kernel)) if name == ring.name), "")


def signal_problem(kernel: Kernel, ring: str, side: str, leader: IntAttr | None) -> str:
    """What is wrong with a signal on a side of a ring, by a role that both CTAs of a pair have; "" if nothing is."""
    if kernel.tensor_memory is None or not kernel.tensor_memory.pair:
        return ""
    led, to_leader = (ring, side) in led_sides(kernel), is_set(leader)
    if led and not to_leader:
        return f"signals its own CTA's {side} barrier of ring {ring}, and the first CTA of the pair waits for both"
    if to_leader and not led:
        return f"signals the first CTA's {side} barrier of ring {ring}, and each CTA of the pair waits on its own"
    return ""
