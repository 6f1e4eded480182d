"""A product behind copies is launched after them where it takes several waves, and beside them where it takes one."""

import pytest
from examples import fused
from tests.lower.lowered_programs import lower, matmul

from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.kernel import Kernel
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
        ({"programmatic": False}, False),
        ({"unmapped": "threads"}, False),
        ({"split": 2, "tile": (64, 32)}, True),
    ],
)
def test_who_waits(wishes: dict[str, object], alone: bool) -> None:
    """Each thread that copies waits for itself."""
    dims = {"M": 128, "N": 128, "K": 512 + 2 * ("unmapped" in wishes)}
    lowered = lower(matmul, dims, wanted=Wanted(**wishes))
    product = lowered.ptx[lowered.ptx.index(".entry matmul(") :]
    before, roles = product.split("// role producer")
    assert ("griddepcontrol.wait" in roles) == alone
    assert ("griddepcontrol.wait" in before) == (not alone and wishes.get("programmatic") is not False)


@pytest.mark.parametrize(("rows", "first"), [(132, False), (133, True)])
def test_an_epilogue_waits_for_nothing_where_no_tile_follows(rows: int, first: bool) -> None:
    lowered = lower(matmul, {"M": 64 * rows, "N": 16, "K": 256}, wanted=Wanted(tile=(64, 16), swapped=False))
    assert bool(lowered.decisions.releases_first) == first == ("nanosleep" in lowered.ptx)


@pytest.mark.parametrize(
    ("kernel", "dims", "early"),
    [
        (fused.attention, {"B": 1, "H": 2, "Q": 128, "T": 256, "E": 64, "F": 64}, [True]),
        # Lengths are loaded by the threads that compare with them, before any slot.
        (fused.variable_lengths, {"B": 1, "H": 2, "Q": 128, "T": 256, "E": 64, "F": 64}, [False]),
        # Parts of the keys, and their sums behind them.
        (fused.attention, {"B": 1, "H": 32, "Q": 1, "T": 8192, "E": 128, "F": 128}, [False, False]),
    ],
)
def test_how_a_walk_begins(kernel: Kernel, dims: dict[str, int], early: list[bool]) -> None:
    compilation = compile_kernel(kernel, dims=dims, rerun=False, assembled=False)
    assert [launch.programmatic for launch in compilation.plan.launches] == early


def test_a_walk_begins_late_where_that_is_asked_for() -> None:
    dims = {"B": 1, "H": 2, "Q": 128, "T": 256, "E": 64, "F": 64}
    compilation = compile_kernel(
        fused.attention, dims=dims, wanted=Wanted(programmatic=False), rerun=False, assembled=False
    )
    assert not any(launch.programmatic for launch in compilation.plan.launches)
