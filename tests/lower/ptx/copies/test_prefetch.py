"""What a kernel asks for before the one before it ends: boxes of its first tile, nothing a proof depends on."""

import re

import pytest
from examples.fused import attention
from tests.lower.lowered_programs import assert_close, gemm, lower, product_of_sums, random_inputs
from tests.paged_programs import paged

from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.reproof.reproof import replay_plan, reprove
from tilewright.driver.reproof.small_tables import table_contents
from tilewright.frontends.ptx.reader import read
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import int_array
from tilewright.ir.tile.facts import the_program
from tilewright.targets import target

HOPPER = target("sm_90a")

_PREFETCH = "cp.async.bulk.prefetch.tensor.2d.L2.global.tile"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "wanted", [{}, {"split": 2, "tile": (64, 64)}, {"depth": 128}, {"tile": (64, 16), "swapped": True}]
)
def test_boxes_are_asked_for_before_the_wait(wanted):
    lowered = gemm(64, 128, 512, prefetch=4, **wanted)
    before, after = lowered.ptx.split("griddepcontrol.wait")
    assert _PREFETCH in before and _PREFETCH not in after
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "product"), Proven)
    assert_close(lowered, random_inputs(lowered))


def test_none_is_asked_for_where_the_kernel_before_computes_an_operand_or_nothing_is_awaited():
    assert _PREFETCH not in lower(product_of_sums, {"M": 64, "N": 128, "K": 128}).ptx
    assert _PREFETCH not in gemm(64, 128, 512, programmatic=False).ptx
    assert _PREFETCH not in gemm(64, 128, 512, prefetch=0).ptx
    # Operands alike in size: asking would take longer than it saves.
    assert _PREFETCH not in gemm(1024, 1024, 1024).ptx
    assert _PREFETCH in gemm(128, 14336, 512).ptx


def test_a_walk_asks_for_its_first_tile_before_the_wait():
    lowered = lower(attention, {"B": 2, "H": 2, "Q": 4, "T": 1024, "E": 64, "F": 64})
    before, *after = lowered.ptx.split("griddepcontrol.wait")
    asked = re.findall(r"cp\.async\.bulk\.prefetch\.tensor\.4d\.L2\.global\.tile \[(%rd\d+),", before)
    loads = re.findall(r"cp\.async\.bulk\.tensor\.4d\.shared::cluster\S* \[%r\d+\], \[(%rd\d+),", lowered.ptx)
    assert asked == loads and len(asked) == 3
    assert "bulk.prefetch" not in "".join(after)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "attention"), Proven)


def test_a_table_that_leads_to_the_first_tile_is_read_early_for_that_alone():
    lowered = lower(paged, {"H": 2, "Q": 4, "T": 1024, "E": 64, "F": 64, "P": 70, "S": 16})
    before, *after = lowered.ptx.split("griddepcontrol.wait")
    early = re.findall(r"ld\.global\.L1::no_allocate\.b32 (%r\d+),", before)
    asked = re.findall(r"bulk\.prefetch\.tensor\.3d\.L2\.global\.tile \[%rd\d+, {%r\d+, %r\d+, (%r\d+)}\]", before)
    assert early and set(early) <= set(asked) and "no_allocate" not in "".join(after)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "paged"), Proven)
    tables = table_contents(the_program(lowered.module))

    def judged(text: str) -> Verdict:
        return replay_plan(read(text), lowered.plan, {}, (0,), tables)

    assert isinstance(judged(lowered.ptx), Proven)
    # A copy of rows that the launch before may not have named yet.
    late = re.findall(r"bulk\.tensor\.3d\.shared.*(%r\d+)}\]", lowered.ptx)[0]
    changed = re.sub(rf"(bulk\.tensor\.3d\.shared.*){late}}}", rf"\g<1>{early[0]}}}", lowered.ptx, count=1)
    verdict = judged(changed)
    assert isinstance(verdict, Refuted) and "GD101" in {each.code for each in verdict.findings}


def test_coordinates_that_the_engine_refuses_are_doubted():
    lowered = gemm(64, 128, 512, tile=(64, 64), swapped=False, prefetch=4)
    module = lowered.kernels[0].clone()
    for op in module.walk():
        if isinstance(op, ac.PrefetchOp):
            name = "depth_offsets" if op.depth_inner.data else "outer_offsets"
            op.properties[name] = int_array([3])
    assert isinstance(verify(module, HOPPER), Unknown)


def test_the_slices_of_the_larger_operand_are_asked_for():
    lowered = gemm(16, 4096, 512, tile=(64, 16), swapped=True, stages=4, prefetch=4)
    (map_,) = set(re.findall(_PREFETCH + r" \[(%rd\d+),", lowered.ptx))
    loads = re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared::cluster\S* \[%r\d+\], \[(%rd\d+),", lowered.ptx)
    assert map_ == loads[0]
