"""The tile programs behind each measured product, compiled for its shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.gemm_suites import Product

if TYPE_CHECKING:
    from bench.cliffs import Case
    from tilewright.runtime.bundle import Bundle


def compile_case(case: object) -> Bundle:
    """The bundle of a case, compiled and proved. Raises TilewrightError where the compiler refuses it."""
    from bench.cliffs import Case
    from tilewright.base.error import TilewrightError

    match case:
        case Case():
            return _views(case)
        case Product(dtype="bf16" | "f16"):
            return _sixteen_bit(case)
        case _:
            raise TilewrightError(f"no tile program computes {case!r} yet", remedy="measure another suite")


def _views(case: Case) -> Bundle:
    """The kernel that `tilewright.matmul` makes for such arrays."""
    from tilewright.driver.kernels import matmul_kernel
    from tilewright.driver.ready import compile_for
    from tilewright.synth.decide import Wanted

    strides = {name: view.strides(rows, columns) for name, rows, columns, view in case.views}
    misaligned = tuple(name for name, _, _, view in case.views if view.misaligned)
    extents = {"M": case.m, "N": case.n, "K": case.k}
    wanted = Wanted(misaligned=misaligned)
    return compile_for(matmul_kernel, extents, dtype=case.dtype, strides=strides, wanted=wanted, cached=False).bundle


def _sixteen_bit(case: Product) -> Bundle:
    from tilewright.driver.kernels import matmul_kernel
    from tilewright.driver.ready import compile_for

    strides = {"b": (1, case.k)} if case.transposed else {}
    compiled = compile_for(
        matmul_kernel, {"M": case.m, "N": case.n, "K": case.k}, dtype=case.dtype, strides=strides, cached=False
    )
    return compiled.bundle
