# ruff: noqa: E501, F821  (FileCheck lines; axis names are quoted in annotations and are no forward references)
"""Sums in tensor memory as upstream text: each `nvvm.tcgen05` op in FileCheck's words, at its place in the protocol.

Upstream's verifier, and its compiler to PTX that runs on the CPU machine, are asked where they are installed, as in
`test_nvgpu`.
"""

import re
from collections.abc import Callable
from functools import cache

import pytest
from tests.lower.cascade_programs import window
from tests.lower.lowered_programs import (
    Lowered,
    assert_close,
    filecheck,
    lower,
    matmul,
    matmul_bias_relu,
    random_inputs,
    run,
)
from tests.lower.upstream_tools import compiled_by_upstream, needs_llc, needs_mlir, upstream

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.check.check import check_text
from tilewright.driver.check.mlir.check_mlir import mlir_kernels
from tilewright.ir.ac.tensor_memory import TensorFillOp
from tilewright.synth.tile.wanted import Wanted

SHAPES = [(256, 256, 512), (1024, 1024, 512), (200, 96, 77)]
"""Of one unit, of two that share 128 rows, and of no multiple of anything."""


@cache
def product(m: int, n: int, k: int) -> Lowered:
    return lower(matmul, {"M": m, "N": n, "K": k}, on="sm_100a")


@cache
def pair(m: int, n: int, k: int) -> Lowered:
    """By pairs of CTAs."""
    given = {"M": m, "N": n, "K": k}
    return lower(matmul_bias_relu, given, {"bias": tw.f32}, wanted=Wanted(cluster=(2, 1)), on="sm_100a")


@tw.kernel
def layers(x: tw.Tensor["M", "D"], up: tw.Tensor["H", "D"], down: tw.Tensor["H", "N"], y: tw.Tensor["M", "N"]):
    i, d, h, j = tw.axes("M D H N")
    y[i, j] = tw.dot(tw.relu(tw.dot(x[i, d], up[h, d], over=d)), down[h, j], over=h)


@cache
def by_units(m: int, n: int, d: int, h: int) -> Lowered:
    """Consumers issue both products, the second one of what they computed."""
    return lower(layers, {"M": m, "N": n, "D": d, "H": h}, on="sm_100a")


def role(text: str, name: str) -> str:
    return text.split(f"// role {name}\n")[1].split("// role ")[0]


def test_columns_are_allocated_before_the_roles_and_freed_behind_them() -> None:
    filecheck(
        product(256, 256, 512).nvgpu,
        """
CHECK:      gpu.module @kernels [#nvvm.target<chip = "sm_100a">] {
CHECK:      [[FIRST:%first_warp_[0-9]+]] = arith.cmpi ult, %thread_0, {{%c_[0-9]+}} : index
CHECK-NEXT: scf.if [[FIRST]] {
CHECK:      [[WORD:%word_[0-9]+]] = llvm.inttoptr {{%word_[0-9]+}} : i32 to !llvm.ptr<3>
CHECK-NEXT: nvvm.tcgen05.alloc [[WORD]], {{%c_[0-9]+}} {group = #nvvm.cta_group<cta_1>} : !llvm.ptr<3>, i32
CHECK:      scf.if
CHECK-NEXT: nvvm.tcgen05.relinquish_alloc_permit {group = #nvvm.cta_group<cta_1>}
CHECK-NEXT: }
CHECK-NEXT: nvvm.fence.mbarrier.init
CHECK-NEXT: gpu.barrier
CHECK-NEXT: // role producer
CHECK:      // role issuer
CHECK:      // role consumer
CHECK:      gpu.barrier
CHECK:      [[BASE:%columns_[0-9]+]] = llvm.load {{%word_[0-9]+}} : !llvm.ptr<3> -> i32
CHECK-NEXT: [[COLUMNS:%columns_[0-9]+]] = llvm.inttoptr [[BASE]] : i32 to !llvm.ptr<6>
CHECK-NEXT: nvvm.tcgen05.dealloc [[COLUMNS]], {{%c_[0-9]+}} {group = #nvvm.cta_group<cta_1>} : !llvm.ptr<6>, i32
""",
    )


def test_one_thread_issues() -> None:
    """The first step overwrites, all others add; commits free the operands' slots, and one hands the sums over."""
    text = role(product(256, 256, 512).nvgpu, "issuer")
    filecheck(
        text,
        """
CHECK:      scf.if %is_first_0 {
CHECK:      [[BASE:%columns_[0-9]+]] = llvm.load
CHECK:      nvgpu.mbarrier.try_wait.parity [[EMPTY:%empty_[0-9]+]][
CHECK-NEXT: nvvm.tcgen05.fence #nvvm.tcgen05_fence<after>
CHECK:      [[COLUMN:%column_[0-9]+]] = arith.addi [[BASE]], {{%column_[0-9]+}} : i32
CHECK-NEXT: [[SUMS:%columns_[0-9]+]] = llvm.inttoptr [[COLUMN]] : i32 to !llvm.ptr<6>
CHECK:      nvvm.tcgen05.mma [[SUMS]], {{%descriptor_[0-9]+}}, {{%descriptor_[0-9]+}}, [[WORDS:%c_[0-9]+]],
CHECK-SAME: {kind = #nvvm.tcgen05_mma_kind<f16>, ctaGroup = #nvvm.cta_group<cta_1>}
CHECK-SAME: (!llvm.ptr<6>, i64, i64, i32, i1)
CHECK:      nvvm.tcgen05.mma [[SUMS]], {{%descriptor_[0-9]+}}, {{%descriptor_[0-9]+}}, [[WORDS]], [[YES:%c_[0-9]+]] {
CHECK:      nvvm.tcgen05.commit {{%barrier_[0-9]+}} {group = #nvvm.cta_group<cta_1>} : !llvm.ptr<3>
CHECK:      nvvm.tcgen05.commit {{%barrier_[0-9]+}} {group = #nvvm.cta_group<cta_1>} : !llvm.ptr<3>
CHECK:      scf.for
CHECK:      nvvm.tcgen05.mma {{%columns_[0-9]+}}, {{%descriptor_[0-9]+}}, {{%descriptor_[0-9]+}}, [[WORDS]], [[YES]] {
CHECK:      nvvm.tcgen05.commit
CHECK:      nvvm.tcgen05.commit
CHECK:      scf.yield
CHECK-NEXT: }
CHECK:      nvvm.tcgen05.commit
CHECK-NEXT: scf.yield
""",
    )
    fills = [op for kernel in product(256, 256, 512).kernels for op in kernel.walk() if isinstance(op, TensorFillOp)]
    assert text.count("nvvm.tcgen05.mma ") == sum(op.steps.data for op in fills) > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_units_read_their_lanes(shape: tuple[int, int, int]) -> None:
    lowered = product(*shape)
    filecheck(
        role(lowered.nvgpu, "consumer"),
        """
CHECK:      [[LANES:%lanes_[0-9]+]] = arith.addi {{%columns_[0-9]+}}, {{%lanes_[0-9]+}} : i32
CHECK:      nvgpu.mbarrier.try_wait.parity [[FULL:%full_[0-9]+]][
CHECK-NEXT: nvvm.tcgen05.fence #nvvm.tcgen05_fence<after>
CHECK:      {{%column_[0-9]+}} = arith.addi [[LANES]],
CHECK:      nvvm.tcgen05.ld {{%columns_[0-9]+}} {shape = #nvvm.tcgen05_ldst_shape<shape_16x256b>}
CHECK:      nvvm.tcgen05.wait <load>
CHECK:      vector.bitcast
CHECK:      nvvm.tcgen05.fence #nvvm.tcgen05_fence<before>
CHECK-NEXT: nvvm.barrier id =
CHECK-NEXT: nvvm.tcgen05.fence #nvvm.tcgen05_fence<after>
CHECK-NEXT: scf.if %is_first_0 {
CHECK-NEXT: nvgpu.mbarrier.arrive
""",
    )
    # What the loads give together is what a thread has of the accumulator: half a value of each column.
    widths = [int(each) for each in re.findall(r"nvvm\.tcgen05\.ld .*vector<(\d+)xi32>", lowered.nvgpu)]
    columns = {op.n.data for kernel in lowered.kernels for op in kernel.walk() if isinstance(op, TensorFillOp)}
    assert {2 * sum(widths)} == columns


def test_a_pair_signals_to_its_first_cta_and_is_signalled_as_two() -> None:
    text = pair(300, 136, 200).nvgpu
    assert "cta_group<cta_1>" not in text
    filecheck(
        role(text, "producer"),
        """
CHECK:      [[REMOTE:%remote_[0-9]+]] = nvvm.mapa {{%barrier_[0-9]+}}, [[FIRST:%c_[0-9]+]] : !llvm.ptr<3> -> !llvm.ptr<7>
CHECK-NEXT: nvvm.mbarrier.arrive.expect_tx [[REMOTE]], {{%c_[0-9]+}} {scope = #nvvm.mem_scope<cluster>} : !llvm.ptr<7>, i32
CHECK:      nvvm.mapa {{%barrier_[0-9]+}}, [[FIRST]]
CHECK:      nvvm.cp.async.bulk.tensor.shared.cluster.global {{%box_[0-9]+}}, {{%map_[0-9]+}}, {{%remote_[0-9]+}}, box[
CHECK-SAME: {group = #nvvm.cta_group<cta_2>} : !llvm.ptr<7>, !llvm.ptr
""",
    )
    filecheck(
        role(text, "issuer"),
        """
CHECK:      [[RANK:%rank_[0-9]+]] = nvvm.read.ptx.sreg.cluster.ctarank : i32
CHECK-NEXT: [[LEADS:%leads_[0-9]+]] = arith.cmpi eq, [[RANK]], {{%c_[0-9]+}} : i32
CHECK-NEXT: [[ISSUES:%leads_[0-9]+]] = arith.andi [[LEADS]], %is_first_0 : i1
CHECK-NEXT: scf.if [[ISSUES]] {
CHECK:      nvvm.tcgen05.mma {{.*}}ctaGroup = #nvvm.cta_group<cta_2>}
CHECK:      nvvm.tcgen05.commit {{%barrier_[0-9]+}}, multicast_mask = [[BOTH:%c_[0-9]+]] {group = #nvvm.cta_group<cta_2>} : !llvm.ptr<3>, i16
CHECK:      nvvm.tcgen05.commit {{%barrier_[0-9]+}}, multicast_mask = [[BOTH]] {
""",
    )
    filecheck(
        role(text, "consumer"),
        """
CHECK:      nvvm.tcgen05.ld
CHECK:      scf.if %is_first_0 {
CHECK:      [[REMOTE:%remote_[0-9]+]] = nvvm.mapa
CHECK-NEXT: nvvm.mbarrier.arrive [[REMOTE]] {scope = #nvvm.mem_scope<cluster>} : !llvm.ptr<7>
CHECK:      nvvm.cluster.arrive
CHECK-NEXT: nvvm.cluster.wait
CHECK:      nvvm.tcgen05.dealloc
""",
    )


def test_units_issue_read_and_write() -> None:
    """The parity of the unit's barrier is carried by loops; the last of what a tile's loop carries."""
    lowered = by_units(200, 72, 64, 192)
    filecheck(
        role(lowered.nvgpu, "consumer"),
        """
CHECK:      scf.for {{.*}}, [[PARITY:%carried_[0-9]+]] = {{%c_[0-9]+}}) -> (
CHECK:      scf.if {{%issues_[0-9]+}} {
CHECK-NEXT: nvgpu.mbarrier.try_wait.parity %full
CHECK:      scf.if %is_first_0 {
CHECK:      nvvm.tcgen05.mma {{.*}} : (!llvm.ptr<6>, i64, i64, i32, i1)
CHECK:      nvvm.tcgen05.commit
CHECK:      nvgpu.mbarrier.try_wait.parity [[DONE:%done_[0-9]+]][{{%unit_[0-9]+}}], [[PARITY]], {{%c_[0-9]+}}
CHECK-NEXT: nvvm.bar.warp.sync
CHECK-NEXT: nvvm.tcgen05.fence #nvvm.tcgen05_fence<after>
CHECK-NEXT: [[NEXT:%parity_[0-9]+]] = arith.xori [[PARITY]],
CHECK:      nvvm.tcgen05.ld {{%columns_[0-9]+}} {shape = #nvvm.tcgen05_ldst_shape<shape_16x256b>}
CHECK-NOT:  nvvm.tcgen05.mma
CHECK:      nvvm.tcgen05.wait <load>
CHECK:      nvvm.tcgen05.st {{%columns_[0-9]+}}, {{%packed_[0-9]+}} {shape = #nvvm.tcgen05_ldst_shape<shape_16x128b>}
CHECK:      nvvm.tcgen05.wait <store>
CHECK-NEXT: {{.*}}
CHECK-NEXT: {{.*}}
CHECK-NEXT: nvvm.tcgen05.fence #nvvm.tcgen05_fence<before>
CHECK-NEXT: nvvm.barrier id =
CHECK-NEXT: nvvm.tcgen05.fence #nvvm.tcgen05_fence<after>
CHECK:      nvvm.tcgen05.mma {{.*}} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1)
CHECK:      [[DONE]][{{%unit_[0-9]+}}], {{%carried_[0-9]+}},
""",
    )


def test_what_has_no_form_is_refused_by_name() -> None:
    """Walks whose ends depend on a tile, and what they fold."""
    with pytest.raises(TilewrightError, match=r"ac\.range cannot be written"):
        _ = lower(window, {"Q": 128, "T": 128, "E": 64, "F": 64}, on="sm_100a").nvgpu


@pytest.mark.parametrize(
    "made", [lambda: product(256, 256, 512), lambda: pair(300, 136, 200), lambda: by_units(200, 72, 64, 192)]
)
def test_the_text_parses_again_and_is_not_called_proven(made: Callable[[], Lowered]) -> None:
    """The project's reader of these dialects has no rules for tensor memory: it must say so."""
    (kernel,) = mlir_kernels(made().nvgpu, "sums.mlir")
    judged = kernel.judge()
    assert kernel.target == "sm_100a" and judged.doubts and not judged.findings


@needs_mlir
@pytest.mark.parametrize("shape", SHAPES)
def test_upstream_verifies_it(shape: tuple[int, int, int]) -> None:
    upstream("mlir-opt", product(*shape).nvgpu)
    upstream("mlir-opt", pair(*shape).nvgpu)


@needs_mlir
def test_upstream_verifies_units_that_issue() -> None:
    upstream("mlir-opt", by_units(200, 72, 64, 192).nvgpu)


@needs_llc
@pytest.mark.parametrize("shape", [(128, 128, 192), (100, 72, 65), (300, 264, 192)])
def test_what_upstream_compiles_computes_the_same(shape: tuple[int, int, int]) -> None:
    lowered = lower(
        matmul_bias_relu, dict(zip("MNK", shape, strict=True)), {"bias": tw.f32}, wanted=Wanted(), on="sm_100a"
    )
    assert_close(lowered, random_inputs(lowered), compiled_by_upstream(lowered.nvgpu, "sm_100a", "+ptx86"))


@needs_llc
@pytest.mark.parametrize("shape", [(300, 136, 200), (130, 48, 72)])
def test_pairs_that_upstream_compiles_compute_the_same_and_are_proven(shape: tuple[int, int, int]) -> None:
    lowered = pair(*shape)
    ptx = compiled_by_upstream(lowered.nvgpu, "sm_100a", "+ptx86")
    assert_close(lowered, random_inputs(lowered), ptx)
    assert check_text(ptx, "pair.ptx").kernels[0].verdict == "proven"


@needs_llc
@pytest.mark.parametrize("dims", [(200, 72, 64, 192), (64, 128, 128, 256)])
def test_units_that_upstream_compiles_compute_the_same_and_are_proven(dims: tuple[int, int, int, int]) -> None:
    """Bit by bit what our PTX computes: its products, sums and roundings are the same ones."""
    lowered = by_units(*dims)
    ptx, inputs = compiled_by_upstream(lowered.nvgpu, "sm_100a", "+ptx86"), random_inputs(lowered)
    (own,), (other,) = run(lowered, inputs).values(), run(lowered, inputs, ptx).values()
    assert own.tobytes() == other.tobytes()
    assert check_text(ptx, "layers.ptx").kernels[0].verdict == "proven"
