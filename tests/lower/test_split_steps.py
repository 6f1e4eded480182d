"""A rendezvous of a cluster's CTAs: proven as it is lowered; with what it needs taken away, refuted or doubted."""

from collections.abc import Callable

import pytest
from tests.lower.lowered_programs import gemm
from xdsl.dialects.builtin import IntAttr, ModuleOp

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.split import SplitPartOp
from tilewright.ir.tier import MemoryType, int_array
from tilewright.targets import target

HOPPER = target("sm_90a")


@pytest.fixture(scope="module")
def product() -> ModuleOp:
    return gemm(64, 128, 512, tile=(64, 32), split=2, swapped=False, stages=3).kernels[0]


def the(module: ModuleOp, kind: type, name: str = ""):
    return next(
        op for op in module.walk() if isinstance(op, kind) and (not name or op.properties["sym_name"].data == name)
    )


def arrivals(side: str, count: int) -> Callable[[ModuleOp], None]:
    def edit(module: ModuleOp) -> None:
        the(module, ac.RingOp, "partial_sums").properties[f"{side}_arrivals"] = IntAttr(count)

    return edit


def less_room(module: ModuleOp) -> None:
    buffer = the(module, ac.BufferOp, "partials")
    kind = buffer.result.type
    small = MemoryType(*(IntAttr(2048) if item is kind.slot_bytes else item for item in kind.parameters))
    fresh = ac.BufferOp.create(properties=dict(buffer.properties), result_types=[small])
    buffer.parent_block().insert_op_before(fresh, buffer)
    buffer.result.replace_all_uses_with(fresh.results[0])
    buffer.detach()


def no_exit_synchronization(module: ModuleOp) -> None:
    last = [op for op in module.walk() if isinstance(op, ac.ClusterSyncOp)][-1]
    last.detach()


def no_synchronization_before(module: ModuleOp) -> None:
    first = the(module, ac.ClusterSyncOp)
    first.parent_block().insert_op_before(ac.CtaSyncOp.create(), first)
    first.detach()


def a_cursor_that_stands_still(module: ModuleOp) -> None:
    """Every tile uses the position of the first."""
    reduce = the(module, ac.ClusterReduceOp)
    reduce.following.replace_all_uses_with(reduce.cursor)


def a_slot_is_held(module: ModuleOp) -> None:
    """The last slot of a tile is released after the meeting."""
    reduce = the(module, ac.ClusterReduceOp)
    release = [op for op in reduce.parent_block().ops if isinstance(op, ac.ArriveOp)][-1]
    release.detach()
    reduce.parent_block().insert_op_after(release, reduce)


def stores_that_do_not_differ(module: ModuleOp) -> None:
    for op in module.walk():
        if isinstance(op, ac.AffineOp) and any(isinstance(each.owner, ac.SplitIndexOp) for each in op.operands):
            kept = [
                (value, item)
                for value, item in zip(op.operands_, op.coefficients, strict=True)
                if not isinstance(value.owner, ac.SplitIndexOp)
            ]
            op.operands = [value for value, _ in kept]
            op.properties["coefficients"] = int_array([item.data for _, item in kept])


def another_clusters_shape(module: ModuleOp) -> None:
    kernel = the(module, ac.KernelOp)
    for name in ("grid", "cluster"):
        x, y, z = (item.data for item in kernel.properties[name])
        kernel.properties[name] = int_array((x * z, y, 1))


def a_barrier_of_no_number(module: ModuleOp) -> None:
    the(module, ac.ClusterReduceOp).properties["first_barrier"] = IntAttr(16)


def test_as_lowered_it_is_proven(product):
    assert isinstance(verify(product, HOPPER), Proven), verify(product, HOPPER)


@pytest.mark.parametrize(
    ("edit", "kind", "word"),
    [
        (arrivals("full", 2), Refuted, "MB008"),
        (arrivals("empty", 1), Refuted, "MB009"),
        (less_room, Refuted, "AL004"),
        (no_exit_synchronization, Refuted, "CL001"),
        (no_synchronization_before, Refuted, "CL004"),
        (a_cursor_that_stands_still, Refuted, "MB006"),
        (a_slot_is_held, Unknown, "slots of ring a_ring are held"),
        (stores_that_do_not_differ, Unknown, "do not depend on split"),
        (another_clusters_shape, Unknown, "do not all share one tile"),
        (a_barrier_of_no_number, Refuted, "NB001"),
    ],
)
def test_without_what_it_needs_it_is_not(product, edit, kind, word):
    module = product.clone()
    edit(module)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, kind), verdict
    words = " ".join(f.code for f in verdict.findings) if isinstance(verdict, Refuted) else " ".join(verdict.reasons)
    assert word in words, words


# ---------------------------------------------------------------- fewer parts than CTAs


@pytest.fixture(scope="module")
def few_parts() -> ModuleOp:
    """Four CTAs share a tile of two parts."""
    return gemm(64, 128, 512, tile=(64, 16), split=4, swapped=False, stages=3).kernels[0]


def spare_terms(rows: int) -> Callable[[ModuleOp], None]:
    """CTAs past the parts store so many rows further down; not at all further if 0."""

    def edit(module: ModuleOp) -> None:
        spare = the(module, SplitPartOp).spare
        for op in [use.operation for use in spare.uses]:
            assert isinstance(op, ac.AffineOp)
            op.properties["coefficients"] = int_array(
                [
                    rows if value is spare else item.data
                    for value, item in zip(op.operands_, op.coefficients, strict=True)
                ]
            )

    return edit


def the_part_is_forgotten(module: ModuleOp) -> None:
    part = the(module, SplitPartOp).part
    for op in [use.operation for use in part.uses]:
        assert isinstance(op, ac.AffineOp)
        kept = [(v, item.data) for v, item in zip(op.operands_, op.coefficients, strict=True) if v is not part]
        op.operands = [value for value, _ in kept]
        op.properties["coefficients"] = int_array([coefficient for _, coefficient in kept])


def another_number_of_parts(parts: int) -> Callable[[ModuleOp], None]:
    def edit(module: ModuleOp) -> None:
        the(module, SplitPartOp).properties["parts"] = IntAttr(parts)

    return edit


def test_with_fewer_parts_it_is_proven(few_parts):
    assert isinstance(verify(few_parts, HOPPER), Proven), verify(few_parts, HOPPER)


@pytest.mark.parametrize(
    ("edit", "word"),
    [
        (spare_terms(0), "may store inside the array"),
        (spare_terms(63), "may store inside the array"),
        # Where 32 bits come round to the array again.
        (spare_terms(1 << 31), "may store inside the array"),
        (the_part_is_forgotten, "do not depend on part of the sum"),
        (another_number_of_parts(4), "16 columns for 4 CTAs in 4 parts of 8"),
        (another_number_of_parts(3), "in 3 parts of 8"),
        (another_number_of_parts(5), "in 0 parts"),
        (another_number_of_parts(1), "in 1 parts of 8"),
    ],
)
def test_stores_of_ctas_without_a_part_are_not_taken_on_trust(few_parts, edit, word):
    module = few_parts.clone()
    edit(module)
    verdict = verify(module, HOPPER)
    assert not isinstance(verdict, Proven)
    if isinstance(verdict, Unknown):
        assert word in " ".join(verdict.reasons), verdict.reasons
