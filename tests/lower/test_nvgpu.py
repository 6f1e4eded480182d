# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The upstream dialect text: in FileCheck's words always; by upstream's own verifier and compiler where installed.

`TILEWRIGHT_MLIR_OPT` names an `mlir-opt`; else `mlir-opt-22` or `mlir-opt` on the path is taken. Where `mlir-translate`
and `llc` stand beside it, the text is compiled to PTX by upstream's passes, and that PTX runs on the CPU machine: two
lowerings that share nothing must agree with NumPy.
"""

import re
import subprocess
from functools import partial

import pytest
from tests.ac_samples import modules_of
from tests.lower.lowered_programs import (
    assert_close,
    blur,
    filecheck,
    gemm,
    lower,
    matmul,
    matmul_bias_relu,
    matmul_gelu,
    product_of_sums,
    random_inputs,
    residual,
    two_results,
)
from tests.lower.upstream_tools import compiled_by_upstream, needs_llc, needs_mlir, upstream, upstream_tool
from xdsl.dialects import test as foreign
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.rewriter import Rewriter

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.kernels import gated_kernel
from tilewright.ir.ac import operations as ac
from tilewright.lower.mlir.ac_to_nvgpu import lower_to_nvgpu
from tilewright.lower.mlir.elements import write_function
from tilewright.lower.mlir.text import NvgpuText
from tilewright.synth.decide import Wanted


@tw.kernel
def scaled_rows(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], s: tw.Tensor["M"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc * s[i]


@tw.kernel
def numbered(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = tw.where(i < j, acc, 0.0)


@pytest.fixture(scope="module")
def cube():
    return gemm(512, 512, 512, tile=(64, 64), depth=64, stages=8)


def test_module_function_and_arguments(cube):
    filecheck(
        cube.nvgpu,
        """
CHECK:      !accumulator_n64 = !llvm.struct<(f32,
CHECK-NEXT: module attributes {gpu.container_module} {
CHECK-NEXT: gpu.module @kernels [#nvvm.target<chip = "sm_90a">] {
CHECK:      gpu.func @matmul(%a_map: !llvm.ptr {llvm.byval = !llvm.array<16 x i64>, llvm.align = 64 : i64},
CHECK-SAME: %c_map: !llvm.ptr {llvm.byval = !llvm.array<16 x i64>, llvm.align = 64 : i64}) kernel
CHECK-NEXT: attributes {nvvm.reqntid = array<i32: 256, 1, 1>, nvvm.maxnreg = 168 : i32} {
""",
    )


def test_rings_are_barrier_groups_at_their_addresses(cube):
    filecheck(
        cube.nvgpu,
        """
CHECK-DAG:  [[FULL:%c_[0-9]+]] = arith.constant 139264 : index
CHECK-DAG:  [[EMPTY:%c_[0-9]+]] = arith.constant 139328 : index
CHECK:      [[VIEW:%full_[0-9]+]] = memref.view %shared_0[[[FULL]]][] : {{.*}} to memref<8xi64,
CHECK-NEXT: builtin.unrealized_conversion_cast [[VIEW]] : {{.*}} to !nvgpu.mbarrier.group<{{.*}}, num_barriers = 8>
CHECK:      memref.view %shared_0[[[EMPTY]]][]
CHECK-COUNT-16: nvgpu.mbarrier.init
CHECK-NOT:  nvgpu.mbarrier.init
CHECK:      nvvm.fence.mbarrier.init
CHECK-NEXT: gpu.barrier
""",
    )


def test_producer(cube):
    filecheck(
        cube.nvgpu,
        """
CHECK:      // role producer
CHECK:      scf.if %mine_0 {
CHECK-NEXT: nvvm.setmaxregister decrease 40
CHECK-NEXT: scf.if %is_first_0 {
CHECK:      [[OUTER:%loop_[0-9]+]]:2 = scf.for %tile_0 {{.*}} iter_args({{.*}}) -> (index, i1) {
CHECK:      scf.for %k_0 {{.*}} iter_args([[STAGE:%carried_[0-9]+]] = {{.*}}, [[PARITY:%carried_[0-9]+]] = {{.*}})
CHECK:      [[WAITED:%parity_[0-9]+]] = arith.xori [[PARITY]],
CHECK:      nvgpu.mbarrier.try_wait.parity %empty_1[[[STAGE]]], [[WAITED]],
CHECK:      nvgpu.mbarrier.arrive.expect_tx %full_1[[[STAGE]]], [[BYTES:%c_[0-9]+]] :
CHECK:      nvgpu.tma.async.load %map_0[{{.*}}], %full_1[[[STAGE]]] to %box_0 : {{.*}}swizzle = swizzle_128b
CHECK:      nvgpu.tma.async.load %map_1[{{.*}}], %full_1[[[STAGE]]] to %box_1 :
CHECK:      [[NEXT:%stage_[0-9]+]] = arith.select
CHECK:      [[FLIP:%parity_[0-9]+]] = arith.xori [[PARITY]],
CHECK:      scf.yield [[NEXT]], [[FLIP]] : index, i1
CHECK:      // role consumer
""",
    )
    announced = re.search(r"arrive\.expect_tx %full_1\[\S+\], (%c_\d+)", cube.nvgpu)
    assert announced is not None
    assert f"{announced[1]} = arith.constant 16384 : index" in cube.nvgpu


def test_consumer(cube):
    filecheck(
        cube.nvgpu,
        """
CHECK:      // role consumer
CHECK:      nvvm.setmaxregister increase 240
CHECK:      nvgpu.mbarrier.try_wait.parity %full_1[
CHECK:      nvvm.wgmma.fence.aligned
CHECK:      llvm.mlir.poison : !accumulator_n64
CHECK:      nvvm.wgmma.mma_async {{.*}} D [<f32>, <zero>], A [<bf16>, <one>, <row>], B [<bf16>, <one>, <row>]
CHECK-COUNT-3: D [<f32>, <one>]
CHECK:      nvvm.wgmma.commit.group.sync.aligned
CHECK:      scf.for %k_1 {{.*}} -> (index, i1, !accumulator_n64, index) {
CHECK-COUNT-4: D [<f32>, <one>]
CHECK:      nvvm.wgmma.wait.group.sync.aligned 1
CHECK-NEXT: scf.if %is_first_0 {
CHECK-NEXT: nvgpu.mbarrier.arrive %empty_1[
CHECK:      nvvm.cp.async.bulk.wait_group {{[01]}} {read}
CHECK:      nvvm.barrier id =
CHECK:      nvvm.wgmma.wait.group.sync.aligned 0
CHECK:      vector.from_elements
CHECK:      vector.scatter
CHECK:      nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
CHECK:      nvvm.barrier id =
CHECK:      nvgpu.tma.async.store {{.*}} to %map_2[{{.*}}], predicate = %is_first_0
CHECK:      nvvm.cp.async.bulk.commit.group
CHECK:      nvvm.cp.async.bulk.wait_group 0 {read}
CHECK:      gpu.return
""",
    )


SMALL = {
    "plain": (matmul, {}, {}),
    "turns": (matmul, {}, {"tile": (128, 64), "turns": True}),
    "two blocks": (matmul, {}, {"tile": (256, 64)}),
    "overlapping": (matmul, {}, {"tile": (128, 72), "steps": (0, 67), "swapped": True}),
    "cluster": (matmul, {}, {"tile": (128, 128), "cluster": (1, 2)}),
    "bias": (matmul_bias_relu, {"bias": tw.f32}, {}),
    "matrix": (residual, {"x": tw.f32, "c": tw.f32}, {}),
    "two results": (two_results, {"d": tw.f32}, {}),
}


def small(name):
    kernel, elements, wanted = SMALL[name]
    return lower(kernel, {"M": 300, "N": 264, "K": 320}, elements, wanted=Wanted(**wanted))


def test_what_is_loaded_for_each_row_is_repeated_along_it():
    """Four numbers of a block of 64 rows, which eight columns take, in each of two blocks."""
    dims = {"M": 256, "N": 64, "K": 128}
    lowered = lower(scaled_rows, dims, {"s": tw.f32}, wanted=Wanted(tile=(256, 64)))
    shuffles = [line for line in lowered.nvgpu.splitlines() if "vector.shuffle" in line]
    assert shuffles
    chosen = re.search(r"\[([\d, ]+)\] : vector<8xf32>, vector<8xf32>", shuffles[0])
    assert chosen is not None
    numbers = [int(each) for each in chosen[1].split(",")]
    assert numbers == [0, 1, 2, 3] * 8 + [4, 5, 6, 7] * 8


def test_a_map_of_places_is_refused():
    lowered = lower(numbered, {"M": 64, "N": 64, "K": 64}, {"c": tw.f32}, wanted=Wanted())
    with pytest.raises(TilewrightError, match=r"ac\.fragment\.map cannot be written"):
        lower_to_nvgpu(lowered.kernels)


def test_cluster():
    filecheck(
        gemm(1024, 1024, 1024, tile=(128, 256), cluster=(2, 1)).nvgpu,
        """
CHECK:      nvvm.cluster_dim = array<i32: 2, 1, 1>
CHECK:      nvvm.cluster.arrive
CHECK-NEXT: nvvm.cluster.wait
CHECK:      gpu.cluster_id x
CHECK:      scf.while
CHECK-NEXT: nvvm.inline_ptx "mbarrier.try_wait.parity.acquire.cluster
CHECK:      multicast_mask = [[MASK:%c_[0-9]+]] :
CHECK:      nvvm.mapa
CHECK-NEXT: nvvm.mbarrier.arrive {{.*}} {scope = #nvvm.mem_scope<cluster>}
""",
    )


def test_functions_of_nan_are_the_propagating_ones():
    text = NvgpuText()
    for name in ("max", "min", "relu"):
        write_function(text, name, ["%x", "%y"], "f32")
    words = "\n".join(text.lines)
    assert words.count("arith.maximumf") == 2 and words.count("arith.minimumf") == 1
    assert "maxnum" not in words and "minnum" not in words


def kernel_of(module):
    (kernel,) = [op for op in module.ops if isinstance(op, ac.KernelOp)]
    return kernel


def test_what_has_no_form_is_refused_by_name():
    unknown_function = lower(blur, {"M": 8, "N": 8}).kernels[0].clone()
    next(op for op in unknown_function.walk() if isinstance(op, ac.ScalarOp)).properties["function"] = StringAttr("erf")
    with pytest.raises(TilewrightError, match=r"ac\.scalar cannot be written"):
        lower_to_nvgpu([unknown_function])
    unknown_op = lower(blur, {"M": 8, "N": 8}).kernels[0].clone()
    role = next(op for op in unknown_op.walk() if isinstance(op, ac.RoleOp))
    role.body.block.add_op(foreign.TestOp())
    with pytest.raises(TilewrightError, match=r"test\.op cannot be written"):
        lower_to_nvgpu([unknown_op])
    with pytest.raises(TilewrightError, match=r"ac\.fragment\.full cannot be written"):
        lower_to_nvgpu(modules_of("attention"))
    outside = lower(blur, {"M": 8, "N": 8}).kernels[0].clone()
    kernel_of(outside).body.block.add_op(ac.WgmmaFenceOp.create())
    with pytest.raises(TilewrightError, match=r"ac\.wgmma\.fence cannot be written"):
        lower_to_nvgpu([outside])


def test_interleaved_tensor_maps_are_refused(cube):
    module = cube.kernels[0].clone()
    (descriptor, *_) = [op for op in module.walk() if isinstance(op, ac.TensorMapOp)]
    kind = descriptor.result.type
    assert isinstance(kind, ac.DescriptorType)
    interleaved = ac.DescriptorType(kind.rank, kind.swizzle, StringAttr("16B"), kind.align)
    Rewriter.replace_value_with_new_type(descriptor.result, interleaved)
    with pytest.raises(TilewrightError, match=r"ac\.tensor_map cannot be written"):
        lower_to_nvgpu([module])


def test_floats_of_8_bits_are_refused():
    elements = {"a": Element.F8E4M3, "b": Element.F8E4M3, "c": Element.BF16}
    lowered = lower(matmul, {"M": 64, "N": 64, "K": 128}, elements, {"b": (1, 128)})
    with pytest.raises(TilewrightError, match="has numbers of 8 bits"):
        lower_to_nvgpu(lowered.kernels)


def test_a_module_without_kernels_is_empty():
    assert "gpu.func" not in lower_to_nvgpu([ModuleOp([])])


# ---------------------------------------------------------------- upstream's own tools


PROGRAMS = {
    **{f"small: {name}": partial(small, name) for name in SMALL},
    "matmul": lambda: gemm(512, 512, 512),
    "wide": lambda: gemm(4096, 4096, 4096, stream_k=False),
    "two blocks": lambda: gemm(1024, 1024, 1024, tile=(256, 128)),
    "cluster": lambda: gemm(1024, 1024, 1024, tile=(128, 128), cluster=(1, 2)),
    "in turn": lambda: gemm(2048, 2048, 1024, tile=(128, 192), turns=True, stream_k=False),
    "gelu": lambda: lower(matmul_gelu, {"M": 256, "N": 256, "K": 512}),
    "residual": lambda: lower(residual, {"M": 300, "N": 264, "K": 128}, {"x": tw.f32, "c": tw.f32}),
    "odd": lambda: gemm(77, 55, 33),
    "materialized": lambda: lower(product_of_sums, {"M": 256, "N": 255, "K": 100}),
    "two results": lambda: lower(two_results, {"M": 256, "N": 512, "K": 128}, {"d": tw.f32}),
    "transposed": lambda: lower(matmul, {"M": 512, "N": 512, "K": 512}, strides={"b": (1, 512), "c": (1, 512)}),
    "several products": lambda: lower(gated_kernel("silu"), {"M": 200, "N": 136, "K": 200}),
    "elementwise": lambda: lower(blur, {"M": 1000, "N": 333}, {"weight": tw.f32}),
}


def test_a_result_takes_each_value_of_an_accumulator_of_several_products_once():
    text = PROGRAMS["several products"]().nvgpu
    taken = re.findall(r"llvm.extractvalue \S+\[(\d+)\] : (\S+)", text)
    of_sums = [int(number) for number, kind in taken if kind == taken[-1][1]]
    assert sorted(of_sums) == list(range(len(of_sums))) and len(of_sums) > 2


@needs_mlir
@pytest.mark.parametrize("name", PROGRAMS)
def test_upstream_verifies_it(name):
    upstream("mlir-opt", PROGRAMS[name]().nvgpu)


@needs_mlir
def test_upstream_refuses_a_damaged_text(cube):
    """Or its verdict would say nothing: a coordinate too few for the tensor map's rank."""
    damaged = re.sub(r"(tma\.async\.load %map_0\[%\w+), %\w+\]", r"\1]", cube.nvgpu)
    assert damaged != cube.nvgpu
    done = subprocess.run([upstream_tool("mlir-opt"), "-"], input=damaged, capture_output=True, text=True)
    assert done.returncode != 0


@needs_llc
@pytest.mark.parametrize(
    ("shape", "elements", "wanted"),
    [
        ((128, 128, 192), {}, {"tile": (128, 128)}),
        ((100, 72, 65), {"a": tw.f16, "b": tw.f16, "c": tw.f32}, {}),
        ((65, 95, 100), {}, {"unmapped": "workspace"}),
        ((300, 136, 192), {}, {"tile": (256, 128)}),
        ((300, 264, 192), {}, {"tile": (128, 128), "cluster": (1, 2)}),
    ],
)
def test_what_upstream_compiles_computes_the_same(shape, elements, wanted):
    dims = dict(zip("MNK", shape, strict=True))
    lowered = lower(matmul_bias_relu, dims, {"bias": tw.f32} | elements, wanted=Wanted(**wanted))
    assert_close(lowered, random_inputs(lowered), compiled_by_upstream(lowered.nvgpu))


@needs_llc
def test_what_upstream_compiles_of_an_elementwise_kernel():
    lowered = lower(blur, {"M": 37, "N": 129}, {"x": tw.f32, "weight": tw.f32, "y": tw.f32})
    assert_close(lowered, random_inputs(lowered), compiled_by_upstream(lowered.nvgpu))


def test_tiles_taken_in_turn():
    filecheck(
        gemm(4096, 4096, 1024, tile=(128, 192), turns=True, stream_k=False).nvgpu,
        """
CHECK:      // role consumer
CHECK:      %first_{{[0-9]+}} = arith.addi
CHECK:      scf.for %tile_{{[0-9]+}} = %first_{{[0-9]+}} to
CHECK:      [[TURN:%turn_[0-9]+]] = arith.cmpi eq,
CHECK:      nvgpu.mbarrier.try_wait.parity [[OWN:%full_[0-9]+]][%c_{{[0-9]+}}], [[TURN]],
CHECK:      nvgpu.mbarrier.try_wait.parity [[OTHER:%empty_[0-9]+]][%c_{{[0-9]+}}], [[TURN]],
CHECK:      nvvm.wgmma.wait.group.sync.aligned 1
CHECK:      nvgpu.mbarrier.arrive [[OTHER]][
CHECK:      nvgpu.mbarrier.arrive [[OWN]][
CHECK:      nvvm.wgmma.wait.group.sync.aligned 0
""",
    )
