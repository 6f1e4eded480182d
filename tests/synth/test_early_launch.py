"""A product behind copies is launched after them where it takes several waves, and beside them where it takes one."""

import pytest
from lowered_programs import lower, matmul

from tilewright.synth.decide import Wanted


@pytest.mark.parametrize(
    ("dims", "wished", "early"),
    [
        ((4096, 4096, 4095), None, False),
        ((4096, 4096, 4095), True, True),
        ((1024, 1024, 1023), None, True),
        ((1024, 1024, 1023), False, False),
        ((4096, 4096, 4096), None, True),
    ],
)
def test_how_a_product_begins(dims: tuple[int, int, int], wished: bool | None, early: bool) -> None:
    lowered = lower(matmul, dict(zip("MNK", dims, strict=True)), wanted=Wanted(programmatic=wished))
    *copies, product = lowered.plan.launches
    assert bool(copies) == bool(dims[2] % 8)
    assert product.programmatic == early
    assert ("griddepcontrol.wait" in lowered.ptx[lowered.ptx.index(".entry matmul(") :]) == early
    assert all(each.programmatic for each in copies)
