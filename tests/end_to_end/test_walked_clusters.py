"""CTAs of a cluster that bring each other what they both need, by the general generator: numbers, proofs, mutants."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.end_to_end.walked_programs import batched, check_numbers, walked
from xdsl.dialects.builtin import IntAttr, ModuleOp

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.walked import walked as as_walk
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("kernel", "dims", "options", "shared"),
    [
        # An odd number of tiles along the cluster, of which the last CTA has none; operands of either order.
        (matmul_kernel, {"M": 140, "N": 136, "K": 200}, {"tile": (64, 64), "cluster": (1, 2)}, "M"),
        (matmul_kernel, {"M": 140, "N": 136, "K": 200}, {"tile": (64, 64), "cluster": (2, 1)}, "N"),
        (matmul_kernel, {"M": 300, "N": 100, "K": 136}, {"tile": (64, 64), "cluster": (4, 1), "by_rows": True}, "N"),
        (
            matmul_kernel,
            {"M": 200, "N": 400, "K": 264},
            {"tile": (128, 96), "cluster": (1, 2), "turns": True, "by_rows": True},
            "M",
        ),
        (
            matmul_kernel,
            {"M": 200, "N": 200, "K": 512},
            {"tile": (128, 64), "cluster": (2, 1), "by_rows": True, "dtype": "f8e4m3"},
            "N",
        ),
        (batched, {"B": 3, "M": 70, "N": 72, "K": 64}, {"tile": (64, 48), "cluster": (1, 2)}, "M"),
    ],
)
def test_products(kernel: Kernel, dims: Mapping[str, int], options: dict[str, Any], shared: str) -> None:
    options = dict(options)
    if options.pop("by_rows", False):
        options["strides"] = {"b": (1, dims["K"])}
    if "dtype" in options:
        options["dtype"] = {"a": options["dtype"], "b": options["dtype"], "c": "bf16"}
    compilation, decisions = walked(kernel, dims, **options)
    ctas = decisions.cluster_ctas
    assert ctas > 1
    assert [slot.peers for slot in decisions.slots] == [
        ctas if shared in (slot.inner, slot.outer) else 1 for slot in decisions.slots
    ]
    check_numbers(compilation)


def test_few_rows_share_what_memory_else_brings_twice() -> None:
    """As the template's model has it, and what it costs in slots is the same."""
    _, decisions = walked(matmul_kernel, {"M": 403, "N": 4096, "K": 4096}, strides={"b": (1, 4096)})
    assert decisions.cluster_ctas == 2


def test_parts_of_no_whole_swizzle_are_refused() -> None:
    with pytest.raises(TilewrightError, match="cannot share slots of 72 rows"):
        walked(matmul_kernel, {"M": 140, "N": 144, "K": 200}, tile=(64, 72), cluster=(2, 1), strides={"b": (1, 200)})


def pair() -> ModuleOp:
    elements = dict.fromkeys("abc", Element.BF16)
    wanted = Wanted(tile=(64, 64), cluster=(1, 2), stages=3)
    module = as_walk(trace(matmul_kernel, {"M": 140, "N": 264, "K": 512}, elements, None), HOPPER, wanted)
    decide(the_program(module), HOPPER, wanted)
    return lower_program(the_program(module)).kernels[-1].module


def _all(module: ModuleOp, kind: type[Any]) -> list[Any]:
    return [op for op in module.walk() if isinstance(op, kind)]


def _shared_copy(module: ModuleOp) -> ac.CopyIssueOp:
    return next(op for op in _all(module, ac.CopyIssueOp) if op.multicast.data > 1)


def copies_for_itself_alone(module: ModuleOp) -> None:
    _shared_copy(module).properties["multicast"] = IntAttr(1)


def puts_its_part_where_the_other_one_does(module: ModuleOp) -> None:
    _shared_copy(module).properties["rank_offset_bytes"] = IntAttr(0)


def releases_to_itself_alone(module: ModuleOp) -> None:
    for op in _all(module, ac.ArriveOp):
        op.properties["peers"] = IntAttr(1)


def counts_its_own_readers_alone(module: ModuleOp) -> None:
    (ring,) = _all(module, ac.RingOp)
    ring.properties["empty_arrivals"] = IntAttr(ring.empty_arrivals.data // 2)


def leaves_before_the_other(module: ModuleOp) -> None:
    _all(module, ac.ClusterSyncOp)[-1].detach()


def begins_before_the_other(module: ModuleOp) -> None:
    sync = _all(module, ac.ClusterSyncOp)[0]
    sync.parent_block().insert_op_before(ac.CtaSyncOp.create(), sync)
    sync.detach()


def test_the_protocol_of_a_pair_is_proven() -> None:
    assert isinstance(verify(pair(), HOPPER), Proven)


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (copies_for_itself_alone, "TX001"),
        (puts_its_part_where_the_other_one_does, "TX005"),
        (releases_to_itself_alone, "CL003"),
        (counts_its_own_readers_alone, "MB009"),
        (leaves_before_the_other, "CL001"),
        (begins_before_the_other, "CL004"),
    ],
)
def test_a_spoiled_pair_is_refuted(edit: Callable[[ModuleOp], None], code: str) -> None:
    module = pair().clone()
    edit(module)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted), verdict
    assert code in {finding.code for finding in verdict.findings}
