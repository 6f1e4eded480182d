"""A product behind copies is launched after them where it takes several waves, and beside them where it takes one."""

import pytest
from tests.lower.lowered_programs import lower, matmul

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


@pytest.mark.parametrize(
    ("wishes", "alone"),
    [
        ({}, True),
        ({"filler_waits": False}, False),
        ({"programmatic": False}, False),
        ({"unmapped": "threads"}, False),
        ({"split": 2, "tile": (64, 32)}, True),
    ],
)
def test_who_waits(wishes: dict[str, object], alone: bool) -> None:
    """Each thread that copies waits for itself."""
    dims = {"M": 128, "N": 128, "K": 512 + 2 * ("unmapped" in wishes)}
    lowered = lower(matmul, dims, wanted=Wanted(**wishes))
    assert bool(lowered.decisions.filler_waits) == alone
    product = lowered.ptx[lowered.ptx.index(".entry matmul(") :]
    before, roles = product.split("// role producer")
    assert ("griddepcontrol.wait" in roles) == alone
    assert ("griddepcontrol.wait" in before) == (not alone and wishes.get("programmatic") is not False)


@pytest.mark.parametrize(("rows", "first"), [(132, False), (133, True)])
def test_an_epilogue_waits_for_nothing_where_no_tile_follows(rows: int, first: bool) -> None:
    lowered = lower(matmul, {"M": 64 * rows, "N": 16, "K": 256}, wanted=Wanted(tile=(64, 16), swapped=False))
    assert bool(lowered.decisions.releases_first) == first == ("nanosleep" in lowered.ptx)
