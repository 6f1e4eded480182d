# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""CTAs, and clusters of them, that share what a sum walks, by the general generator: numbers, proofs, mutants."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.end_to_end.walked_programs import batched, check_numbers, finished, walked
from xdsl.dialects.builtin import IntAttr, ModuleOp

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.size import Range
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import gated_kernel, matmul_kernel
from tilewright.driver.compile.walked import walked as as_walk
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.split import SplitPartOp
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def added(
    a: tw.Tensor["M", "K"],
    b: tw.Tensor["K", "N"],
    r: tw.Tensor["M", "N"],
    s: tw.Tensor["M", tw.f32],
    c: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc * s[i] + r[i, j]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("kernel", "tile", "split", "swapped", "options"),
    [
        # Slices that come out uneven, a last tile that is not full; epilogues that read their part of the columns.
        (matmul_kernel, (64, 16), 2, True, {}),
        (matmul_kernel, (64, 32), 4, True, {"prefetch": 4}),
        (matmul_kernel, (128, 32), 2, False, {}),
        (finished, (64, 128), 2, False, {}),
        (added, (64, 64), 8, False, {}),
        (batched, (64, 32), 2, False, {}),
        (matmul_kernel, (64, 64), 2, False, {"misaligned": ("c",)}),
        (matmul_kernel, (64, 64), 4, False, {"release_distance": 0}),
        (matmul_kernel, (64, 64), 2, False, {"dtype": {"a": "f8e4m3", "b": "f8e4m3", "c": "bf16"}}),
        # Fewer parts than CTAs: two, three, one, four.
        (matmul_kernel, (64, 16), 4, False, {}),
        (added, (128, 24), 8, True, {}),
        (matmul_kernel, (64, 8), 2, True, {}),
        (matmul_kernel, (64, 32), 16, False, {}),
    ],
)
def test_a_shared_walk_is_proved_and_right(
    kernel: Kernel, tile: tuple[int, int], split: int, swapped: bool, options: dict[str, Any]
) -> None:
    m, n = (tile[1] - 3, tile[0] + 40) if swapped else (tile[0] + 16, tile[1] + 8)
    dims = {"M": m, "N": n, "K": 64 * split + 72} | ({"B": 2} if kernel is batched else {})
    if "dtype" in options:
        dims["K"], options = 512 + 80, {**options, "strides": {"b": (1, 592)}}
    wishes = {"swapped": swapped} if kernel is not batched else {}
    compilation, decisions = walked(kernel, dims, tile=tile, split=split, **wishes, **options)
    assert decisions.split == split and decisions.cluster_ctas == split
    check_numbers(compilation)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kernel", "dims", "wishes"),
    [
        # Teams alone and of clusters, several tiles for each, and as many as CTAs take at once; fewer parts than CTAs.
        (matmul_kernel, {"M": 64, "N": 64, "K": 1032}, {"tile": (64, 64), "teams": 2}),
        (added, {"M": 100, "N": 120, "K": 2048}, {"tile": (64, 64), "teams": 3, "split": 2}),
        (matmul_kernel, {"M": 20, "N": 200, "K": 2048}, {"tile": (64, 32), "teams": 4, "swapped": True}),
        (finished, {"M": 128, "N": 64, "K": 4096}, {"tile": (64, 64), "teams": 8}),
        (matmul_kernel, {"M": 70, "N": 40, "K": 4096}, {"tile": (64, 16), "teams": 2, "split": 4}),
        (matmul_kernel, {"M": 64, "N": 64, "K": 1032}, {"tile": (64, 64), "teams": 2, "misaligned": ("c",)}),
    ],
)
def test_clusters_that_add_up_through_memory(kernel: Kernel, dims: dict[str, int], wishes: dict[str, Any]) -> None:
    compilation, decisions = walked(kernel, dims, **wishes)
    assert (decisions.teams, decisions.split) == (wishes["teams"], wishes.get("split", 1))
    assert [each.role for each in compilation.plan.buffers].count("workspace") == 2
    check_numbers(compilation)


def test_long_sums_take_what_the_model_of_them_says() -> None:
    compilation, decisions = walked(matmul_kernel, {"M": 256, "N": 256, "K": 8192}, strides={"b": (1, 8192)})
    assert decisions.teams == 4 and compilation.text_proof is not None


def test_few_rows_take_what_the_model_of_them_says() -> None:
    """As the template has it."""
    _, two = walked(matmul_kernel, {"M": 128, "N": 4096, "K": 4096}, strides={"b": (1, 4096)})
    _, four = walked(matmul_kernel, {"M": 64, "N": 1024, "K": 8192}, strides={"b": (1, 8192)})
    assert (two.split, four.split) == (2, 4)


def test_one_kernel_for_a_range_of_rows_shares_its_walk() -> None:
    wanted = Wanted(tile=(64, 32), split=4, swapped=True)
    made = compile_kernel(matmul_kernel, dims={"M": Range(1, 32), "N": 192, "K": 1024}, wanted=wanted, assembled=False)
    assert made.text_proof is not None and made.plan.run_time is not None
    assert made.decisions.split == 4


@pytest.mark.parametrize(
    ("kernel", "wishes", "words"),
    [
        (matmul_kernel, {"split": 2, "cluster": (1, 2), "tile": (64, 64)}, "not for both|cannot share"),
        (matmul_kernel, {"split": 3, "tile": (64, 64)}, "3 CTAs cannot share"),
        (matmul_kernel, {"teams": 2, "turns": True, "tile": (128, 64)}, "takes no split-K over 2 clusters"),
        (batched, {"teams": 2, "tile": (64, 64)}, "takes no split-K over 2 clusters"),
        (matmul_kernel, {"teams": 9, "tile": (64, 64)}, "split-K over 9 clusters is not possible"),
        (gated_kernel("silu"), {"split": 2, "tile": (64, 64)}, "cannot share a tile of this program"),
    ],
)
def test_what_is_refused(kernel: Kernel, wishes: Mapping[str, Any], words: str) -> None:
    with pytest.raises(TilewrightError, match=words):
        dims = {"M": 128, "N": 128, "K": 512} | ({"B": 2} if kernel is batched else {})
        compile_kernel(kernel, dims=dims, wanted=Wanted(**wishes))


def four() -> ModuleOp:
    """Of four CTAs, of which two get a part of each tile."""
    elements = dict.fromkeys("abc", Element.BF16)
    wanted = Wanted(tile=(64, 16), split=4, swapped=False, stages=3)
    module = as_walk(trace(matmul_kernel, {"M": 140, "N": 264, "K": 2048}, elements, None), HOPPER, wanted)
    decide(the_program(module), HOPPER, wanted)
    return lower_program(the_program(module)).kernels[-1].module


def _all(module: ModuleOp, kind: type[Any]) -> list[Any]:
    return [op for op in module.walk() if isinstance(op, kind)]


def _ring(module: ModuleOp) -> ac.RingOp:
    return next(op for op in _all(module, ac.RingOp) if op.sym_name.data == "partial_sums")


def counts_its_own_units_alone(module: ModuleOp) -> None:
    ring = _ring(module)
    ring.properties["empty_arrivals"] = IntAttr(ring.empty_arrivals.data // 4)


def leaves_before_the_others(module: ModuleOp) -> None:
    _all(module, ac.ClusterSyncOp)[-1].detach()


def begins_before_the_others(module: ModuleOp) -> None:
    sync = _all(module, ac.ClusterSyncOp)[0]
    sync.parent_block().insert_op_before(ac.CtaSyncOp.create(), sync)
    sync.detach()


def stores_without_a_part(module: ModuleOp) -> None:
    """What CTAs have of which no part is theirs, into the array."""
    for op in _all(module, SplitPartOp):
        op.spare.replace_all_uses_with(op.part)


def test_the_protocol_is_proven() -> None:
    assert isinstance(verify(four(), HOPPER), Proven)


@pytest.mark.parametrize(
    "edit",
    [
        counts_its_own_units_alone,
        leaves_before_the_others,
        begins_before_the_others,
        stores_without_a_part,
    ],
)
def test_a_spoiled_one_is_not_proven(edit: Callable[[ModuleOp], None]) -> None:
    module = four().clone()
    edit(module)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted if edit is not stores_without_a_part else Refuted | Unknown), verdict
