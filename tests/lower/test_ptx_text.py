"""What the emitted PTX says, construct by construct, in FileCheck's words."""

import re

import pytest
from tests.lower.lowered_programs import (
    blur,
    filecheck,
    gemm,
    instructions,
    lower,
    matmul,
    matmul_bias_relu,
    matmul_gelu,
    product_of_sums,
    residual,
    two_results,
)

import tilewright.frontends.tile.language as tw
from tilewright.frontends.ptx.ast import Address, Immediate
from tilewright.ir.cascade import CascadeDecisions
from tilewright.runtime.assemble import assemble
from tilewright.synth.decide import Wanted
from tilewright.targets.ptx import ptx_table


@pytest.fixture(scope="module")
def cube():
    """512 cubed: tiles of 64x64, eight stages, one consumer warpgroup, bulk stores."""
    return gemm(512, 512, 512, tile=(64, 64), depth=64, stages=8)


def test_head_and_registers(cube):
    filecheck(
        cube.ptx,
        """
CHECK:      .version 8.1
CHECK-NEXT: .target sm_90a
CHECK:      .extern .shared .align 1024 .b8 dynamic_smem[];
CHECK:      .visible .entry matmul(
CHECK-NEXT: .param .align 64 .b8 a_map_param[128],
CHECK-NEXT: .param .align 64 .b8 b_map_param[128],
CHECK-NEXT: .param .align 64 .b8 c_map_param[128]
CHECK:      .reqntid 256, 1, 1
CHECK:      .maxnreg 168
""",
    )


def test_barriers_are_initialised_before_anyone_waits(cube):
    assert {slot.slots for slot in cube.decisions.slots} == {8}
    filecheck(
        cube.ptx,
        """
CHECK-COUNT-16: mbarrier.init.shared::cta.b64 [%r1+{{[0-9]+}}], 1;
CHECK-NOT:      mbarrier.init
CHECK:          fence.mbarrier_init.release.cluster;
CHECK-NEXT:     bar.sync 0;
CHECK:          // role producer
""",
    )


def test_producer_waits_for_an_empty_slot_of_the_other_parity_then_announces_what_it_issues(cube):
    filecheck(
        cube.ptx,
        """
CHECK:      // role producer
CHECK:      setmaxnreg.dec.sync.aligned.u32 40;
CHECK:      loop_{{[0-9]+}}:
CHECK:      xor.b32 [[PARITY:%r[0-9]+]], %r{{[0-9]+}}, 1;
CHECK-NEXT: [[WAIT:wait_[0-9]+]]:
CHECK-NEXT: mbarrier.try_wait.parity.shared::cta.b64 [[PASSED:%p[0-9]+]], [%r{{[0-9]+}}], [[PARITY]];
CHECK-NEXT: @[[PASSED]] bra [[DONE:wait_done_[0-9]+]];
CHECK-NEXT: bra [[WAIT]];
CHECK-NEXT: [[DONE]]:
CHECK:      mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r{{[0-9]+}}], 16384;
CHECK:      cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
CHECK:      cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
CHECK-NOT:  cp.async.bulk.tensor.2d.shared::cluster
CHECK:      // role consumer
""",
    )


@pytest.mark.parametrize("wanted", [{"tile": (128, 256)}, {"tile": (256, 128)}, {"tile": (64, 64), "stages": 3}])
def test_bytes_announced_are_the_bytes_of_the_boxes(wanted):
    lowered = gemm(1024, 1024, 1024, **wanted)
    plan = lowered.decisions
    assert isinstance(plan, CascadeDecisions)
    (announced,) = re.findall(r"mbarrier\.arrive\.expect_tx.*, (\d+);", lowered.ptx)
    copies = sum(item.opcode.startswith("cp.async.bulk.tensor.2d.shared") for item in instructions(lowered.parsed))
    assert copies == sum(slot.spans * slot.boxes_down for slot in plan.slots)
    moved = sum(slot.spans * slot.boxes_down * slot.map.tensor_map().box_bytes for slot in plan.slots)
    assert int(announced) == moved == (plan.tile_rows + plan.tile_columns) * plan.tile_streamed * 2


def descriptor_constants(ptx):
    """The constants or-ed into matrix descriptors, as unsigned integers."""
    return [int(word) % 2**64 for word in re.findall(r"or\.b64 %rd\d+, %rd\d+, (-?\d+);", ptx)]


def test_matrix_descriptors_k_major_and_mn_major(cube):
    """a is K-major: leading offset 16 bytes (unused by the swizzle), stride 1024. b is N-major: the next 64 columns
    are a box of 8192 bytes away. Both have 128-byte swizzle, 1 in bits 63:62."""
    k_major = 1 << 62 | (1024 >> 4) << 32 | (16 >> 4) << 16
    mn_major = 1 << 62 | (1024 >> 4) << 32 | (8192 >> 4) << 16
    assert set(descriptor_constants(cube.ptx)) == {k_major, mn_major}
    # The immediates that transpose: a as it is, b transposed.
    matrix = [item for item in instructions(cube.parsed) if item.opcode.startswith("wgmma.mma_async")]
    assert len(matrix) == 8
    assert {tuple(operand.value for operand in item.operands[-2:]) for item in matrix} == {(0, 1)}


def test_transposed_operand_makes_both_descriptors_k_major():
    lowered = lower(matmul, {"M": 512, "N": 512, "K": 512}, strides={"b": (1, 512)})
    assert set(descriptor_constants(lowered.ptx)) == {1 << 62 | (1024 >> 4) << 32 | (16 >> 4) << 16}
    matrix = [item for item in instructions(lowered.parsed) if item.opcode.startswith("wgmma.mma_async")]
    assert {tuple(operand.value for operand in item.operands[-2:]) for item in matrix} == {(0, 0)}


def test_the_first_step_overwrites_and_a_group_is_released_one_iteration_late(cube):
    filecheck(
        cube.ptx,
        """
CHECK:      // role consumer
CHECK:      setmaxnreg.inc.sync.aligned.u32 240;
CHECK:      mbarrier.try_wait.parity
CHECK:      wgmma.fence.sync.aligned;
CHECK:      setp.ne.u32 [[ZERO:%p[0-9]+]], 0, 0;
CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{.*}}, [[ZERO]], 1, 1, 0, 1;
CHECK-COUNT-3: wgmma.mma_async
CHECK:      wgmma.commit_group.sync.aligned;
CHECK-NOT:  wgmma.wait_group
CHECK:      loop_{{[0-9]+}}:
CHECK:      mbarrier.try_wait.parity
CHECK:      wgmma.fence.sync.aligned;
CHECK-COUNT-4: wgmma.mma_async
CHECK:      wgmma.commit_group.sync.aligned;
CHECK:      wgmma.wait_group.sync.aligned 1;
CHECK:      @%p0 mbarrier.arrive.release.cta.shared::cta.b64 _,
CHECK:      loop_end_{{[0-9]+}}:
CHECK:      wgmma.wait_group.sync.aligned 0;
CHECK:      @%p0 mbarrier.arrive.release.cta.shared::cta.b64 _,
""",
    )


def test_staged_results_are_fenced_between_writing_and_the_bulk_store(cube):
    filecheck(
        cube.ptx,
        """
CHECK:      // role consumer
CHECK:      wgmma.wait_group.sync.aligned 1;
CHECK:      @%p0 cp.async.bulk.wait_group.read
CHECK:      bar.sync [[BARRIER:%r[0-9]+]], 128;
CHECK-NEXT: wgmma.wait_group.sync.aligned 0;
CHECK-COUNT-4: stmatrix.sync.aligned.m8n8.x4.shared.b16
CHECK-NOT:  stmatrix
CHECK:      fence.proxy.async.shared::cta;
CHECK:      bar.sync %r{{[0-9]+}}, 128;
CHECK:      @%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd5,
CHECK-NEXT: @%p0 cp.async.bulk.commit_group;
CHECK:      tiles_end_{{[0-9]+}}:
CHECK-NEXT: @%p0 cp.async.bulk.wait_group.read 0;
CHECK:      ret;
""",
    )


def test_float32_results_are_staged_in_pairs():
    lowered = lower(matmul, {"M": 512, "N": 512, "K": 512}, {"c": tw.f32})
    filecheck(
        lowered.ptx,
        """
CHECK:      st.shared.v2.f32
CHECK:      fence.proxy.async.shared::cta;
CHECK:      cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
""",
    )
    assert "stmatrix" not in lowered.ptx


def test_rows_that_no_bulk_copy_can_end_are_stored_plainly():
    lowered = lower(matmul, {"M": 512, "N": 511, "K": 512}, {"c": tw.f16})
    filecheck(
        lowered.ptx,
        """
CHECK:      // role consumer
CHECK:      bar.warp.sync -1;
CHECK:      stmatrix.sync.aligned
CHECK:      bar.warp.sync -1;
CHECK:      setp.gt.and.s32
CHECK:      @[[INSIDE:%p[0-9]+]] st.global.b32
CHECK-NOT:  cp.async.bulk.tensor.2d.global
CHECK:      ret;
""",
    )
    assert "fence.proxy" not in lowered.ptx


def test_columns_that_are_not_dense_are_stored_element_by_element():
    lowered = lower(matmul, {"M": 512, "N": 512, "K": 512}, strides={"c": (2048, 2)})
    filecheck(
        lowered.ptx,
        """
CHECK:      // role consumer
CHECK:      setp.lt.u32
CHECK:      @[[GUARD:%p[0-9]+]] st.global.b16
CHECK:      ret;
""",
    )
    assert "fence.proxy" not in lowered.ptx and "stmatrix" not in lowered.ptx


def test_a_materialized_operand_is_a_kernel_of_its_own_that_runs_first():
    lowered = lower(product_of_sums, {"M": 256, "N": 256, "K": 256}, wanted=Wanted(computed="workspace"))
    filecheck(
        lowered.ptx,
        """
CHECK:      .visible .entry product_of_sums_operand_stored(
CHECK-NEXT: .param .u64 a_param,
CHECK-NEXT: .param .u64 product_of_sums_operand_param
CHECK:      .reqntid 256, 1, 1
CHECK:      griddepcontrol.wait;
CHECK-NEXT: griddepcontrol.launch_dependents;
CHECK:      ld.global.L2::cache_hint.v4.b32
CHECK:      shf.r.wrap.b32
CHECK:      st.global.L2::cache_hint.v4.b32
CHECK:      ret;
CHECK:      .visible .entry product_of_sums(
CHECK-NEXT: .param .align 64 .b8 product_of_sums_operand_map_param[128],
CHECK-NOT:  griddepcontrol
CHECK:      // role producer
CHECK:      tiles_{{[0-9]+}}:
CHECK:      griddepcontrol.wait;
CHECK-NEXT: griddepcontrol.launch_dependents;
CHECK:      mbarrier.try_wait
CHECK:      cp.async.bulk.tensor.2d.shared::cluster.global
CHECK-NOT:  griddepcontrol
CHECK:      ret;
""",
    )
    assert [launch.entry for launch in lowered.plan.launches] == ["product_of_sums_operand_stored", "product_of_sums"]
    assert [launch.programmatic for launch in lowered.plan.launches] == [True, True]
    assert [buffer.role for buffer in lowered.plan.buffers] == ["input", "input", "output", "workspace"]


def test_clusters_multicast_and_release_in_both_ctas():
    lowered = gemm(1024, 1024, 1024, tile=(128, 256), cluster=(2, 1))
    filecheck(
        lowered.ptx,
        """
CHECK:      .explicitcluster
CHECK-NEXT: .reqnctapercluster 2, 1, 1
CHECK:      barrier.cluster.arrive.relaxed;
CHECK-NEXT: barrier.cluster.wait.acquire;
CHECK:      // role producer
CHECK:      mbarrier.try_wait.parity.shared::cta.b64
CHECK:      cp.async.bulk.tensor.2d{{.*}}.multicast::cluster
CHECK:      // role consumer
CHECK:      mapa.shared::cluster.u32
CHECK:      mbarrier.arrive.release.cta.shared::cluster.b64 _,
CHECK:      barrier.cluster.arrive.release;
CHECK-NEXT: barrier.cluster.wait.acquire;
CHECK-NEXT: ret;
""",
    )


PROGRAMS = {
    "matmul": lambda: gemm(512, 512, 512),
    "wide": lambda: gemm(4096, 4096, 4096),
    "two blocks": lambda: gemm(1024, 1024, 1024, tile=(256, 128)),
    "cluster": lambda: gemm(1024, 1024, 1024, tile=(128, 128), cluster=(1, 2)),
    "bias and relu": lambda: lower(matmul_bias_relu, {"M": 200, "N": 96, "K": 72}, {"bias": tw.f32}),
    "gelu": lambda: lower(matmul_gelu, {"M": 2048, "N": 2048, "K": 512}, wanted=Wanted(tile=(128, 256))),
    "residual": lambda: lower(residual, {"M": 300, "N": 264, "K": 128}, {"x": tw.f32, "c": tw.f32}),
    "odd": lambda: gemm(77, 55, 33),
    "materialized": lambda: lower(product_of_sums, {"M": 256, "N": 255, "K": 100}),
    "two results": lambda: lower(two_results, {"M": 256, "N": 512, "K": 128}, {"d": tw.f32}),
    "transposed": lambda: lower(matmul, {"M": 512, "N": 512, "K": 512}, strides={"b": (1, 512), "c": (1, 512)}),
    "elementwise": lambda: lower(blur, {"M": 1000, "N": 333}, {"weight": tw.f32}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_instruction_is_in_the_table_and_exact(name):
    """The reader refuses what the table does not know; approximate results would differ from machine to machine."""
    rows = ptx_table().rows
    found = instructions(PROGRAMS[name]().parsed)
    assert found
    for item in found:
        assert item.row in rows
        words = set(item.opcode.split("."))
        assert not words & {"approx", "ftz", "full"}, item.opcode
        if item.row in {"div", "rcp", "sqrt", "fma"} and words & {"f32", "f64"}:
            assert "rn" in words, item.opcode


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_ptxas_accepts_it_without_spills_or_warnings(name):
    assembly = assemble(PROGRAMS[name]().ptx, "sm_90a", name=name)
    assert (assembly.spill_bytes, assembly.warnings) == (0, ())
    assert assembly.registers <= 168


def immediates_of(lowered, row):
    return [
        operand.value
        for item in instructions(lowered.parsed)
        if item.row == row and "wide" in item.opcode
        for operand in item.operands
        if isinstance(operand, Immediate)
    ]


def test_rows_four_gigabytes_apart_are_addressed_with_64_bits():
    """A factor of 32 bits would lose the upper half of the stride, silently: the assembler cuts it off."""
    lowered = lower(blur, {"M": 2, "N": 1024}, {"x": tw.f32, "weight": tw.f32, "y": tw.f32}, {"x": (2**30, 1)})
    assert all(abs(value) < 2**31 for value in immediates_of(lowered, "mad"))
    filecheck(
        lowered.ptx,
        """
CHECK:      cvt.s64.s32 [[WIDE:%rd[0-9]+]], %r{{[0-9]+}};
CHECK-NEXT: mad.lo.s64 %rd{{[0-9]+}}, [[WIDE]], 4294967296, %rd{{[0-9]+}};
""",
    )
    near = lower(blur, {"M": 2, "N": 1024}, {"x": tw.f32}, {"x": (2**29 - 1, 1)})
    assert "mad.lo.s64" not in near.ptx and 2**31 - 4 in immediates_of(near, "mad")


def test_columns_far_apart_are_stored_through_64_bit_offsets():
    """Neither axis is contiguous, and the columns of one tile span more than an operand's 32-bit offset."""
    strides = {"c": (2, 2**24)}
    lowered = lower(matmul, {"M": 64, "N": 100, "K": 64}, {"c": tw.f32}, strides, Wanted(tile=(64, 128)))
    offsets = [
        operand.offset
        for item in instructions(lowered.parsed)
        if item.opcode.startswith("st.global")
        for operand in item.operands
        if isinstance(operand, Address)
    ]
    assert offsets and all(abs(offset) < 2**31 for offset in offsets)
    assert f"{120 * 2**26};" in lowered.ptx
