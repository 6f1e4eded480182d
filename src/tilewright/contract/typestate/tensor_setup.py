"""Is tensor memory allocated before it is used, and freed once and last of all?

A kernel's body is a straight line: what stands before the roles is done before any of them begins, where the CTA is
synchronized in between, and what stands behind them after all have ended, where it is synchronized again. So the order
of the line is the whole argument: barriers are initialised and columns allocated before the last synchronization that
comes before the first role, nothing is allocated after the permit was given up, and the columns are freed behind the
synchronization that follows the last role, by the warp that allocated them. Columns are a power of two and at least 32,
which the type asks for; each unit has an equal part.

Columns that are slots of a ring have that ring's barriers, and none of their own. A pair of CTAs allocates as one: each
has to know that the other runs, by a synchronization of the cluster, and frees when the roles of both have ended.

Not handled: several blocks of columns in one kernel. Source: PTX ISA, tcgen05.alloc, dealloc, relinquish_alloc_permit.
Checked by: tests/contract/typestate/steps/test_tensor_memory.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tilewright.contract.typestate.claims import ProductClaim
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import Kernel
from tilewright.contract.typestate.steps.tensor_memory import COMMITS
from tilewright.contract.typestate.summary import RoleSummary
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp
from tilewright.ir.ac.register_operand import ComputedIssueOp
from tilewright.ir.ac.tensor_memory import (
    OPERATIONS,
    TensorAllocOp,
    TensorDeallocOp,
    TensorInitOp,
    TensorMemoryOp,
    TensorRelinquishOp,
    TensorSetUp,
)

_WARPGROUP = (
    ac.WgmmaIssueOp, ac.WgmmaFenceOp, ac.WgmmaCommitOp, ac.WgmmaWaitOp, FragmentIssueOp, ComputedIssueOp
)  # fmt: skip


def has_instructions(kernel: Kernel, findings: Findings) -> bool:
    """Whether the target has what the kernel multiplies with; reports that it has not."""
    if not kernel.facts.supports("wgmma") and (products := kernel.operations.of(*_WARPGROUP)):
        findings.report("WG010", products[0], f"{kernel.facts.name} has no wgmma")
        return False
    if not kernel.facts.supports("tensor_memory") and (used := kernel.operations.of(*OPERATIONS)):
        findings.report("TC001", used[0], f"{kernel.facts.name} has no tensor memory")
        return False
    return True


def product_claim(kernel: Kernel, summaries: Sequence[RoleSummary]) -> ProductClaim | None:
    """What units commit on their barriers."""
    if kernel.tensor_memory is None or not kernel.tensor_memory.units_issue:
        return None
    commits = [summary.total(COMMITS) for summary in summaries if summary.total(COMMITS) != Polynomial()]
    return ProductClaim(
        kernel.tensor_memory.barrier_addresses, sum(commits[1:], commits[0]) if commits else Polynomial()
    )


def check_tensor_memory(kernel: Kernel, findings: Findings) -> None:
    """Report set-up that is missing, twice or out of order."""
    body, memory = list(kernel.op.body.block.ops), kernel.tensor_memory
    declarations = kernel.operations.of(TensorMemoryOp)
    if not kernel.operations.of(*OPERATIONS):
        return
    if memory is None or len(declarations) != 1:
        findings.doubt(f"a kernel with {len(declarations)} blocks of tensor memory", kernel.op)
        return
    roles = [number for number, each in enumerate(body) if isinstance(each, ac.RoleOp)]
    if not roles:
        findings.doubt("tensor memory in a kernel without roles", memory.op)
        return
    syncs = [number for number, each in enumerate(body) if isinstance(each, ac.CtaSyncOp | ac.ClusterSyncOp)]
    first, last = roles[0], roles[-1]
    ready = max((number for number in syncs if number < first), default=-1)
    ends = [number for number in syncs if number > last and (not memory.pair or _is_of_cluster(body[number]))]
    over = min(ends, default=len(body))
    places: dict[type[Operation], list[int]] = {}
    for number, each in enumerate(body):
        if isinstance(each, TensorSetUp):
            places.setdefault(type(each), []).append(number)
            if each.memory is not memory.op.result:
                findings.doubt("sets up another thing than the kernel's tensor memory", each)
    for kind, word in ((TensorInitOp, "initialised"), (TensorAllocOp, "allocated"), (TensorDeallocOp, "freed")):
        count = len(places.get(kind, []))
        if kind is TensorInitOp and not memory.units_issue:
            if count:
                findings.doubt("initialises barriers of units, which these columns have not", body[places[kind][0]])
        elif count != 1:
            where = memory.op if count == 0 else body[places[kind][-1]]
            what = "never" if count == 0 else f"{count} times"
            findings.report("TC001", where, f"tensor memory is {what} {word}")
    for number in places.get(TensorInitOp, []):
        fenced = any(isinstance(each, ac.FenceBarrierInitOp) for each in body[number:ready])
        if number > ready or not fenced:
            findings.report("TC001", body[number], "roles may wait on barriers that are not yet initialised")
    meetings = [number for number in syncs if _is_of_cluster(body[number])]
    for number in places.get(TensorAllocOp, []):
        if memory.pair and not any(met < number for met in meetings):
            findings.report(
                "TC006",
                body[number],
                "a pair allocates, and neither CTA knows that the other runs",
                steps=("CTA 1 of the pair has not started", "CTA 0 allocates for both"),
            )
        if number > ready:
            findings.report("TC001", body[number], "roles may begin before tensor memory is allocated")
        before = [at for at in places.get(TensorRelinquishOp, []) if at < number]
        if before:
            findings.report("TC001", body[number], "allocates after the permit was given up", against=body[before[0]])
    for number in places.get(TensorRelinquishOp, []):
        if number > first:
            findings.doubt("the permit is given up after roles have begun", body[number])
    for number in places.get(TensorDeallocOp, []):
        if number < over:
            findings.report(
                "TC001",
                body[number],
                "tensor memory is freed while a role may still use it",
                against=body[last],
                steps=(
                    "one warp has ended its role and frees the columns",
                    "another CTA of the multiprocessor allocates them, while a warp of this one still reads",
                ),
            )


def _is_of_cluster(op: Operation) -> bool:
    return isinstance(op, ac.ClusterSyncOp)
