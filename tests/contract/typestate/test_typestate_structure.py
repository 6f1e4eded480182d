"""Programs that are misshapen as a whole: grids, loops, roles, values that mean something else when emitted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.end_to_end.compiled_programs import product_of
from tests.end_to_end.program_edits import after, every
from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import ExecutionAttr, int_array
from tilewright.targets import target

HOPPER = target("sm_90a")


def doubts(module: ModuleOp) -> str:
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown), verdict
    return "\n".join(verdict.reasons)


@pytest.mark.sample(2)
@pytest.mark.parametrize("extents", [(2, 2, 1), (2, 1, 3)])
@pytest.mark.parametrize("name", ["plain", "cluster-2x1"])
def test_clusters_beside_one_another_in_y_or_z_would_share_tiles(name: str, extents: tuple[int, int, int]) -> None:
    module = product_of(name)
    (kernel,) = every(module, ac.KernelOp)
    kernel.properties["grid"] = int_array(extents)
    assert "clusters, or threads, beside one another" in doubts(module)


def test_ctas_of_a_cluster_beside_one_another_in_z_would_share_tiles() -> None:
    module = product_of("plain")
    (kernel,) = every(module, ac.KernelOp)
    for name in ("grid", "cluster"):
        kernel.properties[name] = int_array((1, 1, 2))
    assert "do not depend on split" in doubts(module)


def test_threads_beside_one_another_in_y_would_share_roles() -> None:
    module = product_of("plain")
    (kernel,) = every(module, ac.KernelOp)
    x, y, z = (item.data for item in kernel.block)
    assert (y, z) == (1, 1)
    kernel.properties["block"] = int_array((x // 2, 2, 1))
    assert "clusters, or threads, beside one another" in doubts(module)


def test_a_loop_that_begins_below_zero_is_not_proven() -> None:
    """Both sides agree on one slot more; emitted, the index is compared without a sign, and one side never runs."""
    module = product_of("plain")
    for loop, begin in zip(every(module, ac.LoopOp), (-1, 0), strict=True):
        loop.properties["begin"] = IntAttr(begin)
    assert "begins at -1" in doubts(module)


def test_the_fence_of_initialised_barriers_comes_before_a_synchronization() -> None:
    module = product_of("plain")
    (fence,) = every(module, ac.FenceBarrierInitOp)
    (sync,) = every(module, ac.CtaSyncOp)
    fence.detach()
    after(sync, fence)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted)
    assert [finding.code for finding in verdict.findings] == ["MB003"]
    after(fence, ac.CtaSyncOp.create())
    assert isinstance(verify(module, HOPPER), Proven)


def test_a_value_of_a_loop_is_not_seen_behind_it() -> None:
    module = product_of("plain")
    inner = every(module, ac.LoopOp)[1]
    store = every(module, ac.CopyStoreOp)[0]
    outer = store.coordinates[0].owner
    assert isinstance(outer, ac.AffineOp)
    outer.operands[0] = inner.body.block.args[0]
    assert "uses a value that nothing before it defines" in doubts(module)


@pytest.mark.parametrize("count", [0, -1, -15])
def test_a_role_of_no_units_is_refuted(count: int) -> None:
    module = product_of("plain")
    role = every(module, ac.RoleOp)[1]
    execution = role.execution
    role.properties["execution"] = ExecutionAttr(execution.unit, IntAttr(count), execution.first_thread)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted)
    assert "SR004" in {finding.code for finding in verdict.findings}


def strides_too_small(op: ac.TensorMapOp) -> None:
    op.properties["strides_bytes"] = int_array(tuple(item.data - 16 for item in op.strides_bytes))


def unknown_promotion(op: ac.TensorMapOp) -> None:
    op.properties["l2_promotion"] = StringAttr("96B")


@pytest.mark.parametrize(
    ("edit", "words"), [(strides_too_small, "may share bytes"), (unknown_promotion, "unknown L2 promotion '96B'")]
)
def test_a_map_that_is_none_is_not_proven(edit: Callable[[ac.TensorMapOp], None], words: str) -> None:
    module = product_of("plain")
    edit(every(module, ac.TensorMapOp)[-1])
    assert words in doubts(module)


def test_an_output_whose_rows_overlap_is_not_proven() -> None:
    module = product_of("direct-store")
    (op,) = every(module, ac.GlobalOp)
    rows, columns = (item.data for item in op.shape)
    assert rows > 1
    op.properties["strides"] = int_array((columns - 1, 1))
    assert "may lie at one place" in doubts(module)


def test_an_operand_fewer_than_an_operation_says_is_not_proven() -> None:
    module = product_of("plain")
    issue = next(op for op in every(module, ac.WgmmaIssueOp) if op.accumulator is not None)
    issue.operands = list(issue.operands)[:-1]
    assert "is malformed" in doubts(module)
