# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""A product behind copies is launched after them where it takes several waves, and beside them where it takes one."""

import pytest
from examples import fused
from tests.lower.lowered_programs import lower, matmul

import tilewright.frontends.tile.language as tw
from tilewright.base.verdict import Proven
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.sequence import decided, sequence
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.decide import Wanted
from tilewright.targets import target


@tw.kernel
def scaled_first(
    a: tw.Tensor["M", "K"], s: tw.Tensor["M"], t: tw.Tensor["K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * s[i] * t[k]).to(tw.bf16), b[j, k].T)
    c[i, j] = acc


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
    assert all(each.programmatic == (wished is not False) for each in copies)


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
        # Lengths are loaded by the threads that compare with them, before any slot: they wait, too.
        (fused.variable_lengths, {"B": 1, "H": 2, "Q": 128, "T": 256, "E": 64, "F": 64}, [True]),
        # Parts of the keys, and their sums behind them.
        (fused.attention, {"B": 1, "H": 32, "Q": 1, "T": 8192, "E": 128, "F": 128}, [True, True]),
    ],
)
def test_how_a_walk_begins(kernel: Kernel, dims: dict[str, int], early: list[bool]) -> None:
    compilation = compile_kernel(kernel, dims=dims, rerun=False, assembled=False)
    assert [launch.programmatic for launch in compilation.plan.launches] == early


def test_what_combines_parts_lets_the_next_walk_begin_before_it_waits() -> None:
    dims = {"B": 1, "H": 32, "Q": 1, "T": 8192, "E": 128, "F": 128}
    compilation = compile_kernel(fused.attention, dims=dims, rerun=False, assembled=False)
    texts = compilation.ptx.split(".entry ")[1:]
    orders = [text.find("griddepcontrol.launch_dependents") < text.find("griddepcontrol.wait") for text in texts]
    assert orders == [False, True]


def test_a_walk_begins_late_where_that_is_asked_for() -> None:
    dims = {"B": 1, "H": 2, "Q": 128, "T": 256, "E": 64, "F": 64}
    compilation = compile_kernel(
        fused.attention, dims=dims, wanted=Wanted(programmatic=False), rerun=False, assembled=False
    )
    assert not any(launch.programmatic for launch in compilation.plan.launches)


_ODD_ROWS = {"E": 68, "F": 68}
"""Of which no tensor map is made."""


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kernel", "dims", "wished", "early"),
    [
        # An operand computed before a product of one wave, and before one of several.
        (scaled_first, {"M": 1024, "N": 256, "K": 4096}, None, [True, True]),
        (scaled_first, {"M": 4096, "N": 14336, "K": 4096}, None, [True, False]),
        (scaled_first, {"M": 4096, "N": 14336, "K": 4096}, True, [True, True]),
        (scaled_first, {"M": 1024, "N": 256, "K": 4096}, False, [False, False]),
        # Copies, in one kernel, and a walk.
        (fused.attention, {"B": 1, "H": 8, "Q": 1024, "T": 1024} | _ODD_ROWS, None, [True, True]),
        (fused.attention, {"B": 4, "H": 16, "Q": 2048, "T": 2048} | _ODD_ROWS, None, [True, False]),
        # Rows that are folded before a product of them, of one wave and of several.
        (fused.rms_norm_matmul, {"M": 1024, "N": 1024, "K": 4096}, None, [True, True]),
        (fused.rms_norm_matmul, {"M": 8192, "N": 4096, "K": 4096}, None, [True, False]),
    ],
)
def test_how_the_kernels_of_a_chain_begin(
    kernel: Kernel, dims: dict[str, int], wished: bool | None, early: list[bool]
) -> None:
    wanted = Wanted(programmatic=wished)
    compilation = compile_kernel(kernel, dims=dims, wanted=wanted, rerun=False, assembled=False)
    assert [launch.programmatic for launch in compilation.plan.launches] == early
    for text, begins in zip(compilation.ptx.split(".entry ")[1:], early, strict=True):
        waits, releases = text.find("griddepcontrol.wait"), text.find("griddepcontrol.launch_dependents")
        assert (waits >= 0) == begins and (releases > waits or not begins)


def test_what_a_kernel_of_the_chain_writes_is_not_asked_for_ahead() -> None:
    dims, facts = {"M": 8192, "N": 256, "K": 4096}, target("sm_90a")
    wanted = Wanted(computed="workspace", prefetch=4)
    elements = {each.name: tw.bf16 for each in scaled_first.parameters}
    parts = sequence(trace(scaled_first, dims, elements, None), facts, wanted)
    alone = decided(parts[1].traced, facts, wanted).decisions
    asked = [each.prefetch for each in (alone, parts[1].decisions) if isinstance(each, CascadeDecisions)]
    assert asked == [4, 0]


@pytest.mark.parametrize("kernel", [scaled_first, fused.attention])
def test_a_chain_whose_kernels_begin_early_is_proved(kernel: Kernel) -> None:
    dims = {"M": 64, "N": 32, "K": 512} if kernel is scaled_first else {"B": 1, "H": 2, "Q": 64, "T": 128} | _ODD_ROWS
    wanted = Wanted(computed="workspace") if kernel is scaled_first else Wanted(unmapped="workspace")
    compilation = compile_kernel(kernel, dims=dims, wanted=wanted, assembled=False)
    assert len(compilation.parts) > 1 and all(each.programmatic for each in compilation.plan.launches)
    assert isinstance(compilation.text_proof, Proven)
