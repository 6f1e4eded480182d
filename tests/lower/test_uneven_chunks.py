"""Tiles that leave in chunks of two lengths: proved, the same values, each chunk through a map of its own box."""

import re

import pytest
from tests.lower.lowered_programs import assert_close, gemm, lower, random_inputs

from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.kernels import batched_kernel
from tilewright.driver.reproof.address_proof import SameAddresses, staged_stores
from tilewright.driver.reproof.reproof import reprove
from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

_KINDS = {
    "in turn": ({"tile": (128, 152), "turns": True}, 7),
    "shared": ({"tile": (128, 136), "turns": False}, 3),
    "past the end": ({"tile": (64, 152), "swapped": False}, 3),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", _KINDS)
def test_such_a_kernel_is_proved_and_right(kind: str) -> None:
    wanted, count = _KINDS[kind]
    columns = wanted["tile"][1]
    # The second tile's columns end inside one of its chunks.
    lowered = gemm(200, 2 * columns - 48, 128, **wanted)
    plan = lowered.decisions
    assert isinstance(plan, CascadeDecisions)
    (store,) = plan.stores
    widths = store.chunks(columns)
    assert len(widths) == count and len(set(widths)) == 2 and sum(widths) == columns
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.2d\.global", lowered.ptx)) == count
    assert all(isinstance(verify(kernel, HOPPER), Proven) for kernel in lowered.kernels)
    staged = staged_stores(lowered.parsed, lowered.plan.launches)
    assert len(staged) == count and all(isinstance(each.verdict, SameAddresses) for each in staged)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "product"), Proven)
    assert_close(lowered, random_inputs(lowered))


def test_a_batch_has_both_maps_in_three_dimensions() -> None:
    extents = {"B": 2, "M": 136, "N": 200, "K": 64}
    lowered = lower(batched_kernel("none"), extents, wanted=Wanted(tile=(64, 152)))
    assert isinstance(lowered.decisions, CascadeDecisions)
    (store,) = lowered.decisions.stores
    assert [len(each.box) for each in (store.map, *store.tail)] == [3, 3]
    assert all(isinstance(verify(kernel, HOPPER), Proven) for kernel in lowered.kernels)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "product"), Proven)
    assert_close(lowered, random_inputs(lowered))


def test_a_chunk_through_the_other_length_s_map_is_not_proven() -> None:
    (kernel,) = gemm(128, 152, 128, **_KINDS["past the end"][0]).kernels
    module = kernel.clone()
    stores = [op for op in module.walk() if isinstance(op, ac.CopyStoreOp)]
    stores[-1].operands[0] = stores[0].operands[0]
    assert not isinstance(verify(module, HOPPER), Proven)
