# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
"""The registers of each role, against what `ptxas -v` says of the same text without limits."""

from pathlib import Path
from typing import Any

import pytest
from bench.registers import predicted_registers, without_limits

from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.views.register_pressure import register_pressure
from tilewright.frontends.ptx.ast import Kernel
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile import language as tw
from tilewright.runtime.assemble import assemble
from tilewright.synth.tile.wanted import Wanted

_NEAR = 8
_DATA = Path(__file__).parents[2] / "data" / "ptx"
_HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def _matmul(extents: tuple[int, int, int], wanted: Wanted, *, transposed: bool = True) -> str:
    m, n, k = extents
    strides = {"b": (1, k)} if transposed else None
    return compile_kernel(
        matmul_kernel, dims={"M": m, "N": n, "K": k}, strides=strides, wanted=wanted, rerun=False, assembled=False
    ).ptx


_SQUARE = (2048, 2048, 2048)
_KERNELS: dict[str, tuple[tuple[int, int, int], dict[str, Any], bool]] = {
    "chosen": (_SQUARE, {}, True),
    "128x256": (_SQUARE, {"tile": (128, 256)}, True),
    "256x128": (_SQUARE, {"tile": (256, 128)}, True),
    "192x192 of three consumers": (_SQUARE, {"tile": (192, 192), "consumers": 3}, True),
    "64x64": (_SQUARE, {"tile": (64, 64)}, True),
    "128x192 in turn": (_SQUARE, {"tile": (128, 192), "turns": True}, True),
    "cluster": (_SQUARE, {"tile": (128, 128), "cluster": (2, 1)}, True),
    "split": (_SQUARE, {"tile": (128, 128), "split": 2}, True),
    "row-major": (_SQUARE, {}, False),
    "thin": ((16, 4096, 4096), {}, True),
    "odd": ((1000, 1003, 999), {}, False),
}


def _assert_near(text: str) -> None:
    found = {each.name: each.registers for each in assemble(without_limits(text), "sm_90a").functions}
    kernels = read(text).kernels
    assert kernels
    for kernel in kernels:
        predicted = predicted_registers(kernel)
        assert predicted is not None
        assert abs(predicted - found[kernel.name]) <= _NEAR, (kernel.name, predicted, found)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", _KERNELS)
def test_products_within_eight_registers_of_the_assembler(name: str) -> None:
    extents, wishes, transposed = _KERNELS[name]
    _assert_near(_matmul(extents, Wanted(**wishes), transposed=transposed))


@tw.kernel
def residual(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], r: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]) -> None:
    """What is loaded while the epilogue runs."""
    i, j = tw.grid("M", "N")
    total = tw.zeros(i, j)
    for k in tw.loop("K"):
        total += tw.dot(x[i, k], w[j, k].T)
    y[i, j] = total + r[i, j]


@tw.kernel
def activated(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], v: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]) -> None:
    """Long chains of arithmetic, on two accumulators."""
    i, j = tw.grid("M", "N")
    gate, up = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[i, k], w[j, k].T)
        up += tw.dot(x[i, k], v[j, k].T)
    y[i, j] = tw.silu(gate) * up


@pytest.mark.parametrize("program", [residual, activated], ids=lambda program: program.name)
def test_epilogues_within_eight_registers_of_the_assembler(program: Any) -> None:
    dims = dict(zip("MNK", _SQUARE, strict=True))
    _assert_near(compile_kernel(program, dims=dims, rerun=False, assembled=False).ptx)


def test_a_kernel_of_another_hand() -> None:
    _assert_near((_DATA / "gemm_warp_specialized.ptx").read_text())


def test_roles_have_their_budgets() -> None:
    (kernel,) = read(_matmul(_SQUARE, Wanted(tile=(128, 128)))).kernels
    roles = register_pressure(kernel)
    assert roles is not None
    by_budget = {role.budget: role for role in roles}
    assert set(by_budget) == {None, 40, 232}
    assert by_budget[40].live < by_budget[232].live
    assert by_budget[232].live >= 64  # the accumulators
    assert all(role.fits for role in roles)


def _kernel(body: str) -> Kernel:
    registers = ".reg .b32 %r<9>;\n.reg .b64 %d<9>;\n.reg .pred %p<3>;\n"
    (kernel,) = read(f"{_HEAD}.visible .entry f(.param .u64 p)\n{{\n{registers}{body}\n}}\n").kernels
    return kernel


def _live(body: str) -> int:
    roles = register_pressure(_kernel(body))
    assert roles is not None
    return max(role.live for role in roles)


_LOADS = "ld.param.u64 %d0, [p];\nld.global.b32 %r1, [%d0];\nld.global.b32 %r2, [%d0+4];\n"


def test_wide_registers_count_twice_and_predicates_not_at_all() -> None:
    # The address (2) and the first value while the second is loaded; then the sum beside the address.
    one = _live(f"{_LOADS}add.u32 %r3, %r1, %r2;\nst.global.b32 [%d0], %r3;\nret;")
    assert one == 4
    guarded = f"{_LOADS}setp.eq.u32 %p0, %r1, %r2;\n@%p0 st.global.b32 [%d0], %r2;\nret;"
    assert _live(guarded) == 4


def test_what_nobody_reads_and_constants_take_none() -> None:
    plain = f"{_LOADS}add.u32 %r3, %r1, %r2;\nst.global.b32 [%d0], %r3;\nret;"
    more = plain.replace("add.u32 %r3", "mul.lo.u32 %r5, %r1, 7;\nmov.u32 %r6, 5;\nadd.u32 %r3")
    assert _live(more) == _live(plain)


def test_a_value_carried_around_a_loop_lives_through_it() -> None:
    loop = (
        f"{_LOADS}mov.u32 %r4, 0;\nagain:\nadd.u32 %r4, %r4, %r1;\nsetp.lt.u32 %p0, %r4, %r2;\n@%p0 bra again;\n"
        "st.global.b32 [%d0], %r4;\nret;"
    )
    assert _live(loop) == 5


@pytest.mark.parametrize("body", ["frobnicate.b32 %r1, %r2;\nret;", "brx.idx %r1, t;\nret;"])
def test_unknown_flow_or_effects_have_no_answer(body: str) -> None:
    text = f"{_HEAD}.visible .entry f()\n{{\n.reg .b32 %r<9>;\nt: .branchtargets a;\na:\n{body}\n}}\n"
    kernels = read(text, tolerant=True).kernels
    assert [register_pressure(kernel) for kernel in kernels] == [None]
